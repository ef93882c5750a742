"""Sessions over AMQP 1.0, on the engine of python-qpid-proton."""
