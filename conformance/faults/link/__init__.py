"""The proxy between a client and a broker, which knows frames."""
