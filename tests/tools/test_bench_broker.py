"""The benchmark of brokers with tiny numbers: it says what it is for, and leaves nothing running."""

import itertools
import os
import re
import socket
import subprocess
import sys
import types

import pytest
from starts import starts_process

import benchmarks
from benchmarks import __main__ as command
from benchmarks import broker as bench
from benchmarks import broker_proton, broker_sites, broker_wire, sessions
from benchmarks.broker import Figures, Sizes, broker
from conformance.ledger import Ledger

TINY = Sizes(rounds=1, blocking=20, pipelined=300, stored=500, passed=2_000, starts=2, others=False)


@pytest.mark.process
def test_every_line_is_there(marked):
    """Starts, rates with their ratio and what bounds them, a recovery, memory, system calls."""
    said = list(broker(TINY))
    text = "\n".join(said)

    assert all(line.startswith("broker: ") for line in said)
    for window, client in itertools.product((1, 100, 1000), ("the lean client", "proton's Container")):
        row = rf"AMQP send, window {window}, {client}: "
        assert re.search(rf"{row}msg/s reference [\d,]+, no broker [\d,]+; reference/no broker \d\.\d\d", text)
        assert re.search(rf"{row}reference spends \d+ us CPU a message of \d+ us", text)
    assert re.search(r"STOMP send, window 1000: msg/s reference [\d,]+\n", text)
    for name in ("AMQP 0-9-1", "MQTT, QoS 1,"):
        assert re.search(rf"{name} send, window 1000: msg/s reference [\d,]+\n", text)
    assert re.search(r"AMQP receive, 100 acks a commit: msg/s reference [\d,]+\n", text)
    assert re.search(r"reference: empty data to ready, median \d\.\d\d s \(worst \d\.\d\d of 2; target 0\.5\)", text)
    assert re.search(r"reference: SIGKILL to ready with 500 stored \d+\.\d\d s; target 2", text)
    assert re.search(r"memory \d+ MB with 1,000 messages, \d+ MB after 2,000 more have passed", text)
    assert "strace is not installed" in text or re.search(r"AMQP window 1 .*fdatasync [\d.]+", text)
    for name in (f"bench-broker-{os.getpid()}", f"bench-broker-{os.getpid()}-alone"):
        assert marked(name) == []


@pytest.mark.process
def test_an_interrupt_leaves_nothing(marked):
    """Ctrl-C while brokers run: between two lines, and in the middle of a measurement."""
    lines = broker(TINY)
    while "empty data to ready" not in next(lines) or not marked(f"bench-broker-{os.getpid()}"):
        pass
    with pytest.raises(KeyboardInterrupt):
        lines.throw(KeyboardInterrupt)

    assert marked(f"bench-broker-{os.getpid()}") == []


@pytest.mark.process
def test_an_interrupt_in_a_measurement_leaves_nothing(marked, monkeypatch):
    """It comes out of the client."""

    def interrupted(*words):
        assert marked(f"bench-broker-{os.getpid()}") != []
        raise KeyboardInterrupt

    monkeypatch.setattr(broker_wire, "publish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(broker(TINY))

    assert marked(f"bench-broker-{os.getpid()}") == []


def test_a_rate_is_messages_by_seconds(monkeypatch):
    """The first round is not kept."""
    figures, clock = {}, iter([0.0, 2.0, 2.0, 6.0])
    monkeypatch.setattr(bench.time, "perf_counter", lambda: next(clock))
    site = types.SimpleNamespace(name="reference", pids=lambda: [os.getpid()])
    for turn in (0, 1):
        bench._take(figures, "x", site, 100, lambda: None, turn)

    assert figures["x"]["reference"].rates == [25.0]


def test_the_ratio_is_ours_by_theirs():
    """Above 1 where the bundled broker is faster."""
    said = list(
        bench._row(
            "x",
            {name: Figures([rate], [1.0], [1.0]) for name, rate in (("reference", 50.0), ("artemis", 100.0))},
            {"artemis": 0.5, "broker-j": 1.0},
        )
    )

    assert said[0] == "broker: x: msg/s reference 50, artemis 100; reference/artemis 0.50 (target 0.5)"


@pytest.fixture
@starts_process
def site(tmp_path):
    """The bundled broker, started."""
    with Ledger(tmp_path, f"bench-{os.getpid()}") as ledger, broker_sites.reference(tmp_path / "b", ledger) as started:
        started.start()
        yield started


def test_what_was_published_is_there_and_what_was_consumed_is_not(site):
    """Over each protocol, and by each consumer."""
    wire = broker_wire
    wire.publish(site.port("amqp"), "bench", 250, 7)
    wire.publish_stomp(site.port("stomp"), site.stomp, 250, 7)
    broker_proton.publish(site.port("amqp"), "bench", 250, 7)
    assert bench._look(site) == 750
    wire.consume(site.port("amqp"), "bench", 500)
    assert bench._look(site) == 250
    bench.consume(site, 250)
    assert bench._look(site) == 0
    sessions.publish("amqp091", site.port("amqp091"), "bench", 250, 7, 64)
    assert bench._look(site) == 250
    sessions.drain("amqp091", site.port("amqp091"), "bench")
    assert bench._look(site) == 0
    assert broker_sites.rss(site.pids()) > 1 << 20


def test_every_client_waits_for_every_answer(site, monkeypatch):
    """Each settles a delivery when it has read the answer, and is done with the last."""
    settled = []
    settle = broker_wire.pn.pn_delivery_settle
    monkeypatch.setattr(broker_wire.pn, "pn_delivery_settle", lambda d: settled.append(d) or settle(d))
    broker_wire.publish(site.port("amqp"), "bench", 3_000, 1_000)
    assert len(settled) == 3_000
    broker_wire.consume(site.port("amqp"), "bench", 3_000)
    assert len(settled) == 6_000


def test_a_refusal_is_no_rate(site):
    """A broker that answers with an error must not look fast."""
    with pytest.raises(RuntimeError, match="a SEND was answered with b'ERROR"):
        broker_wire.publish_stomp(site.port("stomp"), {"no destination": "x"}, 10, 10)


@pytest.fixture
@starts_process
def full(tmp_path):
    """The port of a bundled broker whose queue takes five messages."""
    words = ["--amqp-port", "0", "--data", str(tmp_path / "data"), "--queue", "bench:max_length=5"]
    process = subprocess.Popen([sys.executable, "-m", "conformance.reference", *words], stdout=subprocess.PIPE)
    yield int(re.search(rb"amqp=[^ ]+:(\d+)", process.stdout.readline())[1])
    process.kill()
    process.communicate()


@pytest.fixture
def silent():
    """The port of one that listens and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def gone():
    """A port without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


@pytest.mark.process
@pytest.mark.parametrize(
    ("peer", "why"),
    [("full", "a send was rejected"), ("silent", "10 sends had no answer"), ("gone", "Connection refused")],
)
def test_no_rate_of_a_container_that_was_refused(peer, why, request, monkeypatch):
    """By a rejection, by silence, by a closed port."""
    monkeypatch.setattr(broker_proton, "PATIENCE_S", 1.0)
    with pytest.raises(RuntimeError, match=why):
        broker_proton.publish(request.getfixturevalue(peer), "bench", 10, 10)


@pytest.mark.artemis
def test_artemis_keeps_the_journal_that_create_chose(tmp_path):
    """The adapter says NIO, for its tracer; written over ASYNCIO, with the tuning of that, it is a broker that no user has."""
    with Ledger(tmp_path, f"bench-{os.getpid()}") as ledger, broker_sites.artemis(tmp_path / "a", ledger) as site:
        chosen = re.search(r"journal-type (\w+), journal-buffer-timeout \d+, journal-max-io (\d+)", site.about)

    assert chosen
    assert (chosen[1] == "ASYNCIO") == (int(chosen[2]) > 1)


def test_it_is_listed(monkeypatch, capsys):
    """`just bench broker` is this; a name that is none is refused with the ones there are."""
    monkeypatch.setattr(bench, "broker", lambda: iter(["a line"]))

    assert list(benchmarks.run("broker")) == ["a line"]
    assert 4 == command.main(["nope"])
    assert "unknown benchmark 'nope': known: all, broker" in capsys.readouterr().err


@pytest.mark.process
def test_each_bare_client_waits_for_every_answer(monkeypatch):
    """A client that stops early would be the faster one."""
    monkeypatch.setattr(sessions, "MESSAGES", 300)
    monkeypatch.setattr(sessions, "WINDOW", 7)
    monkeypatch.setattr(sessions, "ROUNDS", 1)

    said = list(sessions.session())

    assert ["amqp", "stomp", "amqp091", "mqtt"] == [line.split()[2] for line in said]
    assert all(re.search(r"ratio \d+\.\d\d \(medians of 1 x 300, window 7; target 0\.85\)", line) for line in said)
