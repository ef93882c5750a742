"""The real ActiveMQ Classic, put together once in the cache: started, killed, and asked what it kept."""

from __future__ import annotations

import pathlib
import socket

import psutil
import pytest
from jvm_broker import kill_jvm
from stomp_line import Stomp

from conformance import adapters
from conformance.adapters import Broker
from conformance.adapters.file.settings import weaken
from conformance.clients.management import DepthClient
from conformance.errors import UsageError
from conformance.ledger import Ledger
from conformance.run.trial.jobs import depth_probe

pytestmark = pytest.mark.activemq


def _broker(tmp_path: pathlib.Path, ledger: Ledger, **overrides: bool | int) -> Broker:
    activemq = adapters.find("activemq")
    return activemq.prepare(tmp_path / "a broker", activemq.effective(overrides), ["orders"], ledger)


def test_a_confirmed_message_is_in_its_durable_queue_after_a_kill(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    """Its depth is asked over AMQP, and is right after a recovery as well."""
    with _broker(tmp_path, ledger) as broker:
        broker.start()
        first = Stomp(broker)
        receipt = first.ask("SEND\ndestination:/queue/orders\npersistent:true\nreceipt:1\n\nhello")
        passing = first.ask("SEND\ndestination:/queue/orders\nreceipt:2\n\nnot persistent")
        depths = [_depth(broker)]
        kill_jvm(broker)
        first.close()
        broker.start()
        depths.append(_depth(broker))
        second = Stomp(broker)
        message = second.ask("SUBSCRIBE\nid:1\ndestination:/queue/orders\nack:client\n\n")
        second.close()
        broker.stop()

    assert receipt.startswith("RECEIPT\nreceipt-id:1\n")
    assert passing.startswith("RECEIPT\nreceipt-id:2\n")
    assert message.endswith("\n\nhello")
    assert depths == [2, 1]
    assert broker.epoch == 2


def test_a_subscription_holds_what_is_delivered_and_what_is_not(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    """One message is delivered and not acknowledged; the other two wait behind it, and after a kill all three."""
    asks = (
        "id:1\ndestination:/topic/news\nack:client-individual\nactivemq.subscriptionName:mine\nactivemq.prefetchSize:1"
    )
    with _broker(tmp_path, ledger) as broker:
        broker.start()
        subscriber = Stomp(broker, "client-id:news\n")
        subscriber.ask(f"SUBSCRIBE\n{asks}\nreceipt:0\n\n")
        publisher = Stomp(broker)
        for number in (1, 2, 3):
            publisher.ask(f"SEND\ndestination:/topic/news\npersistent:true\nreceipt:{number}\n\nhello")
        depths = [_depth(broker, "mine", "news")]
        kill_jvm(broker)
        subscriber.close()
        publisher.close()
        broker.start()
        depths.append(_depth(broker, "mine", "news"))

    assert depths == [3, 3]


def _depth(broker: Broker, queue: str = "orders", topic: str = "") -> int:
    ask_depth = DepthClient(depth_probe(broker, queue, topic), "test")
    try:
        return ask_depth.ask(queue)
    finally:
        ask_depth.close()


def test_without_persistence_a_kill_loses_what_was_confirmed(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    """The control of every claim about stored messages."""
    with _broker(tmp_path, ledger, persistence=False) as broker:
        broker.start()
        client = Stomp(broker)
        client.ask("SEND\ndestination:/queue/orders\npersistent:true\nreceipt:1\n\nhello")
        kill_jvm(broker)
        client.close()
        broker.start()

        assert _depth(broker) == 0


def test_it_listens_on_its_configured_port_and_no_other(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    """No OpenWire, no JMX, no web console, no discovery, and nothing on another address."""
    with _broker(tmp_path, ledger) as broker:
        broker.start()
        (pid,) = broker.processes()
        every = psutil.Process(pid).net_connections(kind="inet")

    bound = [one for one in every if one.status == "LISTEN" or one.type is socket.SOCK_DGRAM]
    heard = {(one.laddr.ip.removeprefix("::ffff:"), one.laddr.port) for one in bound}
    assert heard == {
        broker.endpoint("amqp"),
        broker.endpoint("stomp"),
        broker.endpoint("mqtt311"),
        broker.endpoint("http"),
    }


def test_settings_are_attributes_of_the_configuration_and_absent_ones_are_not(
    tmp_path: pathlib.Path, ledger: Ledger
) -> None:
    with _broker(tmp_path / "1", ledger, sync_non_transactional=False, concurrent_store_and_dispatch=False) as broker:
        changed = (broker.folder / "instance/conf/activemq.xml").read_text()
    with _broker(tmp_path / "2", ledger) as broker:
        stock = (broker.folder / "instance/conf/activemq.xml").read_text()

    assert 'concurrentStoreAndDispatchQueues="false"' in changed
    assert 'enableJournalDiskSyncs="false"' in changed
    assert '<queue physicalName="orders"/>' in changed
    assert [key for key in ("persistent=", "enableJournalDiskSyncs", "concurrentStore") if key in stock] == []


def test_a_control_gives_up_what_this_broker_has() -> None:
    """It has one key for every sync, no buffer to widen, and a sync that is one."""
    file = adapters.find("activemq").file

    off = weaken(file, {"sync_transactional": False, "journal_buffer_ms": 500}, {})
    assert off == {"sync_non_transactional": False}
    assert weaken(file, {"data_sync": False}, {}) == {}
    assert weaken(file, {"persistence": False}, {}) == {"persistence": False}


def test_a_version_without_a_checksum_cannot_be_fetched() -> None:
    with pytest.raises(UsageError, match=r"version of activemq '6\.1\.8': did you mean '6\.1\.7'"):
        adapters.find("activemq@6.1.8")
