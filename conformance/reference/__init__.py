"""The bundled broker: honest, and wrong on purpose in exactly one way if a liar is chosen.

Reading order; each part uses only those before it:

1. `core.settlement` is the one table of rules. `honest` lists the points where a broker could lie, `liars` the brokers
   that do. `settings` and `profiles` are what a user chooses.
2. `core` has messages, queues and transactions. `store` is the journal: records and their bytes, group commit, files.
   `core.broker` joins the two.
3. `amqp`, `amqp091` and `stomp` speak the protocols, `depth` HTTP. They turn bytes into bytes.
4. `disk`, `sockets`, `server` and `pair` (two brokers) are the only ones with asyncio. `command` is the command line.

Nothing is imported here: a start must cost milliseconds, and `python -m conformance.reference` passes through here.
"""
