"""Readers of the frames of AMQP 1.0, AMQP 0-9-1 and STOMP, seen from outside of the connection."""
