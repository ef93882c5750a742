"""Who talks to a broker: sessions over a wire library, and the roles that they play, each in a process of its own.

`job` says what one process is to do; `worker` runs it; `roles` are the same for every protocol and do the recording;
`modes` is the table of acknowledgement modes; `amqp` and `wire` speak AMQP 1.0 through python-qpid-proton.
"""
