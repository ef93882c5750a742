"""Record a soak: one broker with one store, clients at a constant rate, and a fault at the end of each segment.

`script` has the segments as planned trials, `recorder` plays them, `memory` samples what the processes of a soak use.
"""
