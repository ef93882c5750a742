"""Faults at the disk, injected by strace, and the trace that proves them."""
