"""A broker whose one process is a JVM."""

import signal

from conformance.adapters import Broker


def kill_jvm(broker: Broker) -> None:
    with broker.target.armed("kill") as descriptors:
        assert len(descriptors) == 1  # the pid that was started is the JVM
        signal.pidfd_send_signal(descriptors[0], signal.SIGKILL)
    assert broker.wait_gone(20)
