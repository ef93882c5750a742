"""The bundled broker: honest first, and wrong on purpose in exactly one way when a liar is chosen.

Reading order, each part resting only on those before it:

`core.settlement` is the one table of rules, `honest` the one list of points where a broker could lie; `settings` and
`liars` are what a user may choose; `core` holds what is settled: messages, queues, transactions. `store` is the
journal: records and their bytes, group commit, files. `core.broker` joins these. `amqp` and `stomp` speak the
protocols and `depth` HTTP, all in bytes; `disk`, `sockets` and `server` are the only modules that know asyncio;
`command` is what is typed.

Nothing is imported here: a start must cost milliseconds, and `python -m conformance.reference` passes through here.
"""
