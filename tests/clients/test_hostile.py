"""Brokers that send garbage, or send without end: each client reports it, keeps little memory, and returns."""

import collections
import contextlib
import itertools
import os
import random
import resource
import signal
import struct

import pytest
from hostile_broker import (
    CREDIT,
    FALSE,
    LET_IN,
    ROOM,
    SENDER,
    TRUE,
    ZERO,
    AmqpFuzz,
    Hostile,
    StompFuzz,
    attached,
    frame,
    text,
    transfer,
    uint,
)
from stomp_peer import CONNECTED, job, receipt

from conformance import history, limits
from conformance.clients.job import NEVER
from conformance.clients.roles.modes import AckHeader
from conformance.clients.roles.play import run_job
from conformance.clients.session import Disconnected
from conformance.errors import ClientError, HistoryError
from conformance.history import Ended, Op, Phase, Recorder, bare_header
from conformance.protocols.amqp.sessions.connection import AmqpClientConnection
from conformance.protocols.amqp.sessions.session import NO_ID, AmqpSession
from conformance.protocols.stomp.sessions.dialogue import StompDialogue
from conformance.protocols.stomp.sessions.raw_session import RawStompSession
from conformance.protocols.stomp.sessions.session import StompSession
from conformance.scenario.script import Consume, Publish

OUTER_S = 60
CREDIT_OF_SENDER = b"", frame(0x13, ZERO, uint(1 << 30), ZERO, uint(1 << 30), ZERO, ZERO, uint(50))
SEED = int(os.environ.get("CONFORMANCE_FUZZ_SEED", "0")) or random.randrange(1 << 31)
"""Of the first of the random brokers; each has the next one."""


@pytest.fixture(autouse=True)
def outer_limit():
    """A client that loops must fail its test, not hang the suite."""

    def expired(*_):
        raise TimeoutError(f"the client did not come back within {OUTER_S} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.alarm(OUTER_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def hostile():
    """Starts hostile brokers, and ends them."""
    with contextlib.ExitStack() as undo:

        def start(*first, again=b""):
            broker = Hostile(*first, again=again)
            undo.callback(broker.close)
            return broker

        yield start


@pytest.fixture
def small(monkeypatch):
    """Limits of a test: its broker need not send gigabytes."""
    for name, value in {"MESSAGE": 1 << 20, "BACKLOG": 1 << 21, "UNTRUE_RECEIPTS": 100}.items():
        monkeypatch.setattr(limits, name, value)


def consume(session, credit=10):
    """Attach and read until the session raises."""
    session.attach_receiver("q", credit, AckHeader.INDIVIDUAL)
    while True:
        session.pump(5.0)


@pytest.mark.parametrize("size", [0, 7, limits.AMQP_FRAME + 1, 0xFFFFFFFF])
def test_a_frame_of_an_impossible_size_breaks_the_protocol(hostile, size):
    """A reader would loop at 0 bytes, and keep 0xFFFFFFFF bytes until the frame is complete."""
    broker = hostile((b"", b"AMQP\x03\x01\x00\x00" + struct.pack(">IBBH", size, 2, 1, 0)), again=b"x" * 4096)
    session = AmqpSession(job(broker.port, "amqp"), lambda: None)

    with pytest.raises(
        ClientError, match=rf"the broker broke the protocol: a frame of {size:,} bytes.*1,048,576, the max"
    ):
        consume(session)
    session.close()

    assert broker.sent < ROOM


@pytest.mark.parametrize(
    ("again", "says"),
    [
        (transfer(bytes(60_000), more=True), "a message of more than 1,048,576 bytes"),
        (
            lambda number: transfer(b"\x00\x53\x75\xa0\x01x", number),
            "deliveries that wait to be processed of more than 2,097,152",
        ),
        (transfer(b"\x00\x53\x77\xa1\x02\xff\xfe"), "broke the protocol: a message that cannot be decoded"),
        (frame(0x55), "broke the protocol"),
        (b"\x00\x00\x00\x09\x01\x00\x00\x00x", "broke the protocol"),
    ],
    ids=["one message without end", "more than its credit", "no text", "no performative", "no offset"],
)
def test_a_flood_of_deliveries_ends_the_client(hostile, small, again, says):
    """The client keeps no more than its limits."""
    broker = hostile(*LET_IN, attached("-p:q"), (CREDIT, b""), again=again)
    session = AmqpSession(job(broker.port, "amqp"), lambda: None)

    with pytest.raises(ClientError, match=says):
        consume(session)
    session.close()

    assert broker.sent < limits.BACKLOG + ROOM


@pytest.mark.parametrize("payload", [b"", b"\x00\x53\x77\xa0\x01x", b"\x40"], ids=["empty", "a body alone", "null"])
def test_a_message_without_an_id_has_no_producer(hostile, payload):
    """It is accepted; its id belongs to no producer, so the judge counts it as never sent."""
    broker = hostile(*LET_IN, attached("-p:q"), (CREDIT, transfer(payload)))
    session = AmqpSession(job(broker.port, "amqp"), lambda: None)
    session.attach_receiver("q", 10, AckHeader.INDIVIDUAL)
    while not session.incoming:
        session.pump(5.0)

    assert [NO_ID] == [delivery.message for delivery in session.incoming]
    assert history.parse_message(NO_ID) is None
    session.close()


@pytest.mark.parametrize("answer", [(ZERO, TRUE), (ZERO,)], ids=["closed", "only detached"])
def test_a_receiver_ends_when_the_broker_detaches_it(hostile, answer):
    """RabbitMQ 3.10 leaves `closed` out of its answer."""
    broker = hostile(*LET_IN, attached("-p:q"), (b"\x00\x53\x16", frame(0x16, *answer)))
    session = AmqpSession(job(broker.port, "amqp"), lambda: None)
    session.attach_receiver("q", 10, AckHeader.INDIVIDUAL)
    session.end_receiver(0)

    session.close()


def test_a_settled_delivery_is_handled_once(hostile, monkeypatch):
    """A range in the same read names it again. The time must not grow with deliveries times ranges."""
    ranges = frame(0x15, FALSE, ZERO, uint(1 << 16), TRUE, b"\x00\x53\x26\x45")
    flood = b"".join(transfer(b"\x00\x53\x75\xa0\x01x", number) for number in range(500)) + ranges * 500
    handled = []
    handle = AmqpSession.on_delivery
    monkeypatch.setattr(AmqpSession, "on_delivery", lambda *words: handled.append(words[2]) or handle(*words))
    session = AmqpSession(
        job(hostile(*LET_IN, attached("-p:q"), (CREDIT, flood + frame(0x18))).port, "amqp"), lambda: None
    )

    with pytest.raises(Disconnected):
        consume(session, 500)
    session.close()

    assert 500 == len(handled)


def test_links_that_a_broker_opens_have_a_limit(hostile):
    """Each takes memory of the client until the connection ends."""
    links = b"".join(
        frame(0x12, text(f"own{n}"), b"\x70" + struct.pack(">I", n), b"\x42") for n in range(1, limits.ENDPOINTS + 2)
    )
    session = AmqpSession(job(hostile(*LET_IN, (b"", links)).port, "amqp"), lambda: None)

    with pytest.raises(ClientError, match="sessions and links of more than 256"):
        consume(session)
    session.close()


@pytest.mark.parametrize("awaited", [b"\x00\x53\x14", b""], ids=["after a send", "with the attach"])
def test_a_transfer_to_a_sender_is_no_outcome(hostile, awaited):
    """proton takes it for a delivery of the sender, and calls it settled."""
    ours = transfer(b"\x00\x53\x75\xa0\x01x")
    attach, answer = SENDER
    says = ((attach, answer), CREDIT_OF_SENDER, (awaited, ours)) if awaited else ((attach, answer + ours),)
    session = AmqpSession(job(hostile(*LET_IN, *says).port, "amqp"), lambda: None)

    with pytest.raises(ClientError, match="a transfer on a link on which only this client may send"):
        session.attach_sender("q")
        while not session.sendable():
            session.pump(5.0)
        session.send("p1:1", b"x", durable=True)
        while not session.outcomes:
            session.pump(5.0)
    session.close()


@pytest.fixture(params=[StompSession, RawStompSession])
def stomp(request, hostile):
    """Starts a hostile broker that begins with CONNECTED, and gives what opens a session on it."""
    with contextlib.ExitStack() as undo:

        def start(again, first=CONNECTED):
            broker = hostile((b"", first), again=again)
            return broker, lambda: dial(broker)

        def dial(broker):
            session = request.param(job(broker.port), lambda: None)
            undo.callback(session.close)
            return session

        yield start


@pytest.mark.parametrize(
    ("first", "again", "says"),
    [
        (b"MESSAGE\nx:", b"x" * (1 << 16), "a limit of this suite: (headers|a frame) of more than"),
        (b"MESSAGE\nack:1\n\n", b"x" * (1 << 16), "a limit of this suite: a (body|frame) of more than 1,048,576 bytes"),
        (b"MESSAGE\nack:1\ncontent-length:99999999\n\n", b"\0" * (1 << 16), "limit of this (client|suite)"),
        (b"MESSAGE\nack:1\ncontent-length:" + b"9" * 5_000 + b"\n\nx\0", b"", "content-length|stomp.py cannot read"),
        (
            b"",
            b"RECEIPT\nreceipt-id:receipt-9\n\n\0" * 99,
            "RECEIPT frames that answer nothing of more than 100 pieces",
        ),
        (b"", b"RECEIPT\nreceipt-id:receipt-" + b"9" * 5_000 + b"\n\n\0", "RECEIPT frames that answer nothing"),
        (b"", b"MESSAGE\nack:1\nmessage-id:1\n\nx\0" * 99, "of more than 2,097,152"),
        (b"MESSAGE\nack:1\ndelivery-count:" + b"9" * 5_000 + b"\n\nx\0", b"", "delivery-count '9999"),
    ],
    ids=["head", "body", "content-length", "digits", "receipts", "receipt digits", "messages", "delivery-count"],
)
def test_a_flood_of_frames_ends_the_client(stomp, small, first, again, says):
    """No role takes the deliveries, so all of them wait."""
    broker, dial = stomp(again, CONNECTED + first)

    with pytest.raises(ClientError, match=says) as caught:
        session = dial()
        while True:
            session.pump(5.0)

    assert len(str(caught.value)) < 1000
    assert broker.sent < limits.BACKLOG + ROOM


def test_line_feeds_between_frames_are_not_kept(hostile, small):
    """STOMP 1.2 allows any number of them (Heart-beating). stomp.py keeps them until a frame comes."""
    broker = hostile((b"", CONNECTED + b"\n" * (1 << 26) + b"RECEIPT\nreceipt-id:x\n\n\0"))
    session = RawStompSession(job(broker.port), lambda: None)

    while not session.anomalies:
        session.pump(5.0)

    assert ["a RECEIPT for 'x', never asked for"] == list(session.anomalies)
    session.close()


STEPS = (Publish(200, window=20), Consume("individual", prefetch=10, until_silent=True))
BEGINNINGS = {
    "amqp": ((*LET_IN, SENDER, CREDIT_OF_SENDER), (*LET_IN, attached("-p:q"), (CREDIT, b""))),
    "stomp": (((b"", CONNECTED),), ((b"", CONNECTED), (b"SUBSCRIBE", receipt(1)))),
}


@pytest.fixture
def read_frames(monkeypatch):
    """Counts the frames that clients have read."""
    counted = collections.Counter()

    def count(owner, name):
        handle = getattr(owner, name)

        def counting(self, *frame):
            counted["frames"] += 1
            return handle(self, *frame)

        monkeypatch.setattr(owner, name, counting)

    count(AmqpClientConnection, "_push")
    count(StompDialogue, "_dispatch")
    return counted


@pytest.mark.parametrize(("frames", "many"), [(2_000, 100), pytest.param(350_000, 1_000, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    ("client", "fuzz"),
    [(("amqp", "library"), AmqpFuzz), (("stomp", "library"), StompFuzz), (("stomp", "raw"), StompFuzz)],
    ids=["amqp", "stomp.py", "raw stomp"],
)
def test_random_frames(hostile, small, monkeypatch, read_frames, tmp_path, capfd, client, fuzz, frames, many):
    """Whole jobs, as a worker process does them: a result or its error, a readable history, and nothing kept."""
    monkeypatch.setattr(limits, "UNTRUE_RECEIPTS", 2_000)
    before, (protocol, library) = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, client
    for seed in itertools.count(SEED):
        signal.alarm(OUTER_S)
        step, first = (each[seed % 2] for each in (STEPS, BEGINNINGS[protocol]))
        broker = hostile(*first, again=fuzz(seed, many).again)
        path = tmp_path / f"{seed}.jsonl"
        words = {
            "client": library,
            "step": step,
            "history": str(path),
            "ack_confirm": NEVER,
            "liveness_s": 0.2,
            "silence_s": 0.1,
        }
        result = run_job(job(broker.port, protocol, **words), [])
        broker.close()
        history.close_history(path, Ended.DIED if result.error else Ended.FINISHED, result.error)
        assert history.read(path).header and (result.error or result.ended), f"seed {seed}"
        path.unlink()
        if read_frames["frames"] >= frames:
            break

    assert "Traceback" not in capfd.readouterr().err, f"seeds {SEED} to {seed}"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10, f"seeds {SEED} to {seed}"


def test_a_history_ends_whole_at_its_limit(tmp_path, monkeypatch):
    """The error says so; the recorded events can be read, and the end of a pause can still be recorded."""
    monkeypatch.setattr(limits, "HISTORY", 1 << 17)
    path = tmp_path / "h.jsonl"
    recorder = Recorder(path, bare_header("p"))

    with pytest.raises(HistoryError, match="makes a history of more than 131,072 bytes"):
        for _ in range(1_000_000):
            recorder.record(Op.CONFIRM, Phase.FAIL, queue="q", detail="a RECEIPT for 'x', never asked for")
    recorder.record(Op.FAULT, Phase.HEALED, fault="pause")
    recorder.close()
    history.close_history(path, Ended.DIED, "too long")

    assert path.stat().st_size < (1 << 17) + (1 << 17)
    assert Op.FAULT is history.read(path).events[-1].op
