"""The faults at a broker, its disk and its links, and the proof that each took effect.

A fault takes a `Target`, never an adapter: whatever has processes and knows when they are gone can be hurt.

Reading order: `process` (death and halt, by signals that clients send) and `recovery` (death in a start). Then the
disk: `disk` (the tracer), `trace` (what it wrote down) and `pairing` (what that says of a message); `power` (the act)
and `powerloss` (the disk that can lose it), with `holders` as its tool. Then the link: `link` (seen from the harness),
`link_order`, `link_proxy`, `link_connection` and `link_lane` (the process between client and broker), `frames` with
`frames_amqp`, `frames_stomp` and `amqp_values` (what crosses it). And `able`: what this machine can take.
"""
