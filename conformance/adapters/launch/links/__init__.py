"""The links between the nodes of a broker of several, each through a process of the suite that can part them.

`proxy` is that process, and `between` what a broker of several nodes has of it.
"""
