"""The clients of a broker: sessions over a wire library, and their roles, each in a process of its own.

`workers` starts the processes: `job` describes the work of one, `pool` starts it, `worker` runs in it, `trigger` fires
the fault. `roles` are the same for every protocol and do the recording; `roles.modes` is the table of acknowledgement
modes. `session` is the interface to a protocol. `amqp` implements it with python-qpid-proton, `stomp` with stomp.py,
`stomp.raw_session` without a library, `amqp091` with the frames of pika, and `jms` with a vendor's client.
"""
