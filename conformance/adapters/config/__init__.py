"""Copy and edit a user's own configuration (`--config`): XML, properties and listeners."""
