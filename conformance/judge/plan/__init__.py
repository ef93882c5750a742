"""A plan: from events to one row a message, and from rows to counts and witnesses."""
