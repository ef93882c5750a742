"""The file format of a broker: the tables of a `broker.toml`, its settings, placeholders and schema."""
