"""The clients of a broker: sessions over a wire library, and their roles, each in a process of its own.

`job` says what one process is to do, `worker` runs it. `roles`, `publisher` and `consumer` are the same for every
protocol and do the recording; `armed` fires the fault; `modes` is the table of acknowledgement modes. `session` is the
seam: `amqp` and `wire` speak AMQP 1.0 through python-qpid-proton, `stomp` STOMP 1.2 through stomp.py, `stomp_raw` the
same without a library, where what crossed the wire is the question.
"""
