"""Bundle."""
