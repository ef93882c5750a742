"""Eclipse OpenMQ: what its file says, and the real one, fetched once into the cache."""

from __future__ import annotations

import pathlib
import signal

import psutil
import pytest

from conformance import adapters
from conformance.adapters import Broker, vendor_clients
from conformance.clients.management import DepthClient
from conformance.ledger import Ledger
from conformance.run.readiness_probe import ProbeClient
from conformance.run.trial.jobs import depth_probe

OPENMQ = adapters.find("openmq")


def test_it_is_tried_by_its_own_client_and_without_individual_acknowledgements_over_stomp() -> None:
    client = vendor_clients.choose("", "jms", OPENMQ)

    assert client is not None
    assert client.name == "openmq-jms"
    assert "individual_ack" in vendor_clients.with_client(OPENMQ, client).capabilities("jms")
    assert "individual_ack" not in OPENMQ.capabilities("stomp")


def test_its_documents_promise_no_sync_by_default() -> None:
    stock = OPENMQ.effective()
    synced = OPENMQ.effective({"sync_non_transactional": True})

    assert [stock.values[name] for name in ("sync_non_transactional", "sync_transactional")] == [False, False]
    assert [synced.values[name] for name in ("sync_transactional", "sync_acknowledgements")] == [True, True]


def _depth(broker: Broker) -> int:
    return DepthClient(depth_probe(broker, broker.service.queue_of("the-orders")), "test").ask("the-orders")


@pytest.mark.full
@pytest.mark.openmq
def test_a_confirmed_message_is_in_its_queue_after_a_kill(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    """Its queue is declared under another name, its depth is asked by its command, and it listens on 127.0.0.1 only."""
    client = ProbeClient(OPENMQ, "stomp")
    settings = OPENMQ.effective({"sync_non_transactional": True})
    with OPENMQ.prepare(tmp_path / "broker", settings, ["the-orders"], ledger, client=client) as broker:
        broker.start()
        queue = broker.service.queue_of("the-orders")
        (pid,) = broker.target.processes()
        heard = {line.laddr.ip for line in psutil.Process(pid).net_connections() if line.status == "LISTEN"}
        message = client.send(broker, queue)
        depths = [_depth(broker)]
        with broker.target.armed("kill") as descriptors:
            signal.pidfd_send_signal(descriptors[0], signal.SIGKILL)
        assert broker.target.wait_gone(10)
        broker.start()
        depths.append(_depth(broker))
        client.receive(broker, queue, message)
        depths.append(_depth(broker))
        broker.stop()

    assert {address.removeprefix("::ffff:") for address in heard} == {"127.0.0.1"}
    assert depths == [1, 1, 0]
