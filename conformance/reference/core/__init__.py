"""Queues and settlement: what a broker is before it speaks a protocol or touches a disk."""
