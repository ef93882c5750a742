"""What is done to a broker or a client, and the proof that it took effect.

A fault takes a `Target`, never an adapter: whatever has processes and knows when they are gone can be hurt.
"""
