"""STOMP 1.0 to 1.2 on a strict codec, bytes in and bytes out."""
