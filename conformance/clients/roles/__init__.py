"""What a client process does over any protocol: publish, consume, drain."""
