"""A broker in a container that does not start again: a second container gets a copy of its data."""

import contextlib
import signal

import pytest

from conformance import adapters
from conformance.history import Phase
from conformance.run.broker_pool import BrokerPool
from conformance.run.planning import Planned
from conformance.run.readiness_probe import ProbeClient
from conformance.run.trial.restart import RestartAttempt
from conformance.scenario import Scenario
from conformance.scenario.script import Drain

SCRIPT = Scenario("odd", "", "async_ack", (Drain(),), {})


@pytest.mark.parametrize(("liar", "phase"), [("refuses-to-start-with-messages", Phase.FAIL), (None, None)])
def test_after_a_kill(real, ledger, tmp_path, liar, phase):
    """The same rules as for a process of this machine; each container has ports of its own."""
    adapter = adapters.find("reference:docker")
    planned = Planned("odd.1", SCRIPT, "subject", "", 1, 1, adapter, adapter.effective(), "amqp", liar=liar)
    stand, _ = BrokerPool(tmp_path / "brokers", ledger, [planned], offline=True).acquire(planned)
    with contextlib.closing(stand):
        ProbeClient(adapter, "amqp").send(stand.broker, planned.queue)
        with stand.broker.target.armed("kill") as descriptors:
            for descriptor in descriptors:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        assert stand.broker.wait_gone(20)
        found = RestartAttempt(stand).start()

    assert phase is (found and found.phase)
    assert found is None or 2 == found.reason.count("is not taken over"), found.reason
