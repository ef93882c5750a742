"""The faults at a broker, its disk and its links, and the proof that each took effect.

A fault takes a `Target`, never an adapter: anything that has processes and knows when they are gone can be hurt.

Reading order: `process` (death and halt, by signals that clients send) and `recovery` (death in a start). Then the
`disk` room: `injection` (the tracer), `trace` (what it wrote) and `pairing` (what that says of a message). `power`:
`loss` (the act) and `image` (the disk that can lose it). `link`: `harness` (the proxy as the harness sees it), `proxy`,
`connection`, `direction` and `messages` (the process between client and broker). `frames`: what crosses a link. And
`possible`: the faults that this machine can take.
"""
