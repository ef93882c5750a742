"""AMQP 1.0 on proton's engine, bytes in and bytes out."""
