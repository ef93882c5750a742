"""The bundled broker: honest first, and wrong on purpose in exactly one way when a liar is chosen.

Reading order, each module resting only on those before it:

`settlement` is the one table of rules, `honest` the one list of points where a broker could lie; `settings`,
`liars_early` and `liars` are what a user may choose; `message`, `queues` and `transactions` hold what is settled;
`journal` turns records into bytes and back, `commit` gathers them into batches, `files` puts the batches on disk;
`broker` joins these. `states`, `links`, `coordinator` and `amqp` speak AMQP, `stomp_frames`, `stomp_message`,
`stomp_beats`, `stomp_consumer` and `stomp` speak STOMP, `depth` speaks HTTP, all in bytes; `server` is the only module
that knows asyncio; `command` is what is typed.

Nothing is imported here: a start must cost milliseconds, and `python -m conformance.reference` passes through here.
"""
