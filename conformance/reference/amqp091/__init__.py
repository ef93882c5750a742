"""AMQP 0-9-1 on a strict codec, bytes in and bytes out."""
