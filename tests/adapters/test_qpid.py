"""The real Broker-J, fetched once into the cache: what its settings become, and what it keeps of what it confirmed."""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from job_rig import make_job
from jvm_broker import kill_jvm
from proton import Delivery, Message
from proton.reactor import AtMostOnce
from proton.utils import BlockingConnection

from conformance import adapters
from conformance.adapters import Broker, ports
from conformance.adapters.file import settings
from conformance.claims import Value
from conformance.clients.roles.play import connect
from conformance.clients.session import Refused, pump_until
from conformance.errors import UsageError
from conformance.ledger import Ledger
from conformance.protocols.amqp.sessions import session as amqp_session

HERE = adapters.find("qpid").path.parent
INITIAL = ("initial.json", "initial-unsynced.json", "initial-written.json")

OTHER_WRITERS_OFF = {
    "je.log.flushSyncInterval": "0",
    "je.rep.heartbeatInterval": "600000",
    "qpid.bdb.ha.remote_node_monitor_interval": "600000",
}


def _broker(tmp_path: pathlib.Path, ledger: Ledger, **overrides: Value) -> Broker:
    qpid = adapters.find("qpid")
    return qpid.prepare(tmp_path / "broker", qpid.effective(overrides), ["orders"], ledger)


@contextlib.contextmanager
def _connected(broker: Broker) -> Iterator[BlockingConnection]:
    connection = BlockingConnection("{}:{}".format(*broker.endpoint("amqp")), timeout=20, allowed_mechs="ANONYMOUS")
    try:
        yield connection
    finally:
        connection.close()


def _send(broker: Broker, count: int) -> None:
    """So many persistent messages, each accepted before the next; `SendException` where one is not."""
    with _connected(broker) as connection:
        sender = connection.create_sender("orders")
        for _ in range(count):
            assert sender.send(Message(body="hello", durable=True)).remote_state == Delivery.ACCEPTED


def _depth(broker: Broker) -> int:
    probe = broker.depth_probe("orders")
    found = _get(probe.url)
    for step in probe.field.split("."):
        found = found[step]
    return int(found)


def _get(url: str) -> Any:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=10) as answer:
        return json.load(answer)


def _node(broker: Broker) -> dict[str, Any]:
    (node,) = json.loads((broker.folder / "instance/initial.json").read_text())["virtualhostnodes"]
    return {**node, "host": json.loads(node["virtualHostInitialConfiguration"])}


def test_the_initial_configurations_differ_in_the_node_only() -> None:
    stock, *others = (json.loads((HERE / name).read_text()) for name in INITIAL)
    node = stock.pop("virtualhostnodes")

    assert node not in [other.pop("virtualhostnodes") for other in others]
    assert others == [stock, stock]
    assert {port["bindingAddress"] for port in stock["ports"]} == {"{listen}"}


@pytest.mark.qpid
@pytest.mark.parametrize("off", ["sync_non_transactional", pytest.param("sync_transactional", marks=pytest.mark.full)])
def test_a_sync_that_is_off_is_off_in_the_store(tmp_path: pathlib.Path, ledger: Ledger, off: str) -> None:
    for store, buffer in (("BDB", {"journal_buffer_ms": 500}), ("DERBY", {})):
        with _broker(tmp_path / store, ledger, store=store, **{off: False}, **buffer) as broker:
            node, options = _node(broker), (broker.folder / "instance/java.options").read_text()
        if store == "BDB":
            assert node["host"]["localTransactionSynchronizationPolicy"] == "NO_SYNC"
            assert node["context"].pop("je.log.flushNoSyncInterval") == "500 ms"
            assert node["context"] == OTHER_WRITERS_OFF
            assert node["storePath"] == str(broker.journal)
        assert (node["type"] == "BDB_HA") is (store == "BDB")
        assert ("-Dderby.system.durability=test" in options) is (store == "DERBY")


@pytest.mark.qpid
@pytest.mark.parametrize("off", ["sync_non_transactional", "sync_transactional"])
def test_without_a_buffer_what_is_not_synced_is_written(tmp_path: pathlib.Path, ledger: Ledger, off: str) -> None:
    with _broker(tmp_path, ledger, **{off: False}) as broker:
        node = _node(broker)

    assert node["host"]["localTransactionSynchronizationPolicy"] == "WRITE_NO_SYNC"
    assert node["storePath"] == str(broker.journal)
    assert "context" not in node


def test_derby_has_no_buffer_to_lose_what_it_answered() -> None:
    """What is not synced there is written all the same: a kill loses nothing of it, and only the disk can."""
    qpid = adapters.find("qpid")
    wanted = {"sync_non_transactional": False, "journal_buffer_ms": 500}

    assert settings.weaken(qpid.file, wanted, {"store": "BDB"}) == wanted
    assert settings.weaken(qpid.file, wanted, {"store": "DERBY"}) == {"sync_non_transactional": False}
    with pytest.raises(UsageError, match="'journal_buffer_ms' of qpid is of no effect with store=DERBY"):
        qpid.effective({"store": "DERBY", "journal_buffer_ms": 500})


@pytest.mark.qpid
@pytest.mark.parametrize("store", ["BDB", "DERBY"])
def test_stock_syncs(tmp_path: pathlib.Path, ledger: Ledger, store: str) -> None:
    with _broker(tmp_path, ledger, store=store, sync_non_transactional=True) as broker:
        node, options = _node(broker), (broker.folder / "instance/java.options").read_text()

    assert (node["type"], node["host"]) == ("JSON", {"type": store})
    assert "-D" not in options


@pytest.mark.qpid
def test_only_what_was_asked_for_is_in_its_context(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    with _broker(tmp_path / "stock", ledger) as stock:
        plain = " ".join(stock.plan.command)  # type: ignore[attr-defined]
    with _broker(tmp_path / "other", ledger, persistence=False, max_delivery_attempts=-1) as other:
        asked = " ".join(other.plan.command)  # type: ignore[attr-defined]

    assert "queue." not in plain
    assert re.findall(r"-prop (queue\.\S+)", asked) == [
        "queue.defaultMessageDurability=NEVER",
        "queue.maximumDeliveryAttempts=0",
    ]


@pytest.mark.parametrize(
    ("version", "model", "store"),
    [("7.1.4", "7.1", "DERBY"), ("8.0.6", "8.0", "BDB"), ("9.1.0", "9.0", "BDB"), ("9.2.0", "9.1", "BDB")],
)
def test_the_defaults_of_an_older_version_make_it_start(version: str, model: str, store: str) -> None:
    """It refuses a configuration of a newer model, and the jars of 7.1 have no BDB."""
    values = adapters.find(f"qpid@{version}").effective().values

    assert (values["model_version"], values["store"]) == (model, store)


def test_a_store_that_there_is_not() -> None:
    qpid = adapters.find("qpid")

    with pytest.raises(UsageError, match="store of qpid"):
        settings.parse_assignments(["store=BDBB"], qpid.file)


def test_the_store_that_takes_no_persistent_message_is_not_libelled_for_it() -> None:
    """Every send would be refused, and the broker would not even be ready: it says so itself, and does what it says."""
    with pytest.raises(UsageError, match="store=Memory of qpid cannot be put on trial: it takes no persistent message"):
        adapters.find("qpid").effective({"store": "Memory"})


@pytest.mark.qpid
@pytest.mark.parametrize("store", ["BDB", pytest.param("DERBY", marks=pytest.mark.full)])
def test_a_confirmed_message_is_in_its_durable_queue_after_a_kill(
    tmp_path: pathlib.Path, ledger: Ledger, store: str
) -> None:
    with _broker(tmp_path, ledger, store=store) as broker:
        broker.start()
        _send(broker, 3)
        kill_jvm(broker)
        broker.start()
        kept = _depth(broker)
        journal = {path.relative_to(broker.journal).as_posix() for path in broker.journal.rglob("*") if path.is_file()}
        broker.stop()

    assert kept == 3
    assert broker.epoch == 2
    assert journal & {name.format(n=number) for name in broker.facts.journal_files.names for number in (0, 1, 2)}


@pytest.mark.qpid
def test_the_capabilities_of_the_file_are_those_of_the_broker(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    """As the comment of its file says; where a version does otherwise, the file must not declare it."""
    with _broker(tmp_path, ledger) as broker:
        broker.start()
        _send(broker, 2)
        with _connected(broker) as connection:
            receiver = connection.create_receiver("orders", credit=1)
            fresh = receiver.receive()
            assert receiver.fetcher is not None  # one without a handler of its own has it
            delivery = receiver.fetcher.unsettled.popleft()
            delivery.update(Delivery.ACCEPTED)  # and not settled
            connection.wait(lambda: delivery.settled, msg="no answer to an acknowledgement")
            delivery.settle()
            receiver.close()  # type: ignore[no-untyped-call]
            left = _depth(broker)
            receiver = connection.create_receiver("orders", credit=1, options=AtMostOnce())
            receiver.receive()
            assert receiver.fetcher is not None
            unsettled = len(receiver.fetcher.unsettled)
        empty = _depth(broker)
        host = _get(f"http://127.0.0.1:{broker.service.endpoint('http')[1]}/api/latest/virtualhost/default/default")

    capabilities = adapters.find("qpid").capabilities("amqp")
    assert (left, unsettled, empty) == (1, 0, 0)
    assert {"ack_confirmed", "presettled_delivery"} <= capabilities
    assert fresh.first_acquirer == ("first_acquirer" in capabilities)
    assert (host["type"], host["state"]) == ("BDB", "ACTIVE")


def _answers(broker: Broker, count: int) -> list[str]:
    """What our own sender hears of so many persistent messages."""
    host, port = broker.endpoint("amqp")
    job = make_job(host=host, port=port, queue="orders")
    session = connect(job, lambda: None)
    try:
        session.attach_sender("orders")
        assert pump_until(session.pump, lambda: session.sendable() >= count, 10)
        for number in range(count):
            session.send(f"m{number}", b"x", durable=True)
        assert pump_until(session.pump, lambda: len(session.outcomes) == count, 10)
        return [one.detail or str(one.phase) for one in session.outcomes]
    finally:
        session.close()


@pytest.mark.qpid
def test_a_full_queue_answers_a_sender_that_names_its_outcomes(
    tmp_path: pathlib.Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each message by itself; one that names none is detached with the first."""
    qpid = adapters.find("qpid")
    rules = {"orders": (("max_length", 2),)}
    with qpid.prepare(tmp_path / "broker", qpid.effective(), ["orders"], ledger, options=rules) as broker:
        broker.start()
        heard = _answers(broker, 4)
        monkeypatch.setattr(amqp_session, "_name_outcomes", lambda sender, outcomes: None)
        with pytest.raises(Refused, match="resource-limit-exceeded"):
            _answers(broker, 1)
        kept = _depth(broker)

    assert heard == ["ok", "ok", "rejected", "rejected"]
    assert kept == 2


@pytest.mark.qpid
@pytest.mark.parametrize("seconds", [0, *(pytest.param(late, marks=pytest.mark.full) for late in (4, 22))])
def test_without_syncs_a_kill_takes_what_was_confirmed(tmp_path: pathlib.Path, ledger: Ledger, seconds: int) -> None:
    """The strong control of claims about stored messages, with a buffer that outlives the test.

    So many seconds later too: three writers of its log, after 1, 3 and 20 seconds, are none of that buffer's.
    """
    off = {"sync_non_transactional": False, "sync_transactional": False, "journal_buffer_ms": 600_000}
    with _broker(tmp_path, ledger, **off) as broker:
        broker.start()
        _send(broker, 3)
        time.sleep(seconds)
        kill_jvm(broker)
        broker.start()
        kept = _depth(broker)

    assert kept == 0


@pytest.mark.full
@pytest.mark.qpid
def test_without_persistence_a_clean_stop_takes_what_was_confirmed(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    with _broker(tmp_path, ledger, persistence=False) as broker:
        broker.start()
        heard = {address.removeprefix("::ffff:") for address, _ in ports.listening(broker.processes())}
        _send(broker, 3)
        before = _depth(broker)
        broker.stop()
        broker.start()
        after = _depth(broker)

    assert (before, after) == (3, 0)
    assert heard == {"127.0.0.1"}
