"""The faults at a broker, its disk and its links, and the proof that each took effect.

A fault takes a `Target`, never an adapter: everything that has processes and knows when they are gone is a target.

Reading order: `process` (kill and pause by signals, also during a recovery). `disk`: `injection` (the tracer), `trace`
(its output) and `pairing` (the write and the sync of each message). `power`: `loss` (the act) and `image` (the disk
that can lose its power). `link`: `harness` (starts and ends the proxy), and `proxy`, `connection` and `direction` (the
process between client and broker). `frames`: the frames on a link. `possible`: the faults that this machine can inject.
"""
