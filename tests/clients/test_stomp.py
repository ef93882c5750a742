"""STOMP sessions over both transports against a scripted peer: frames sent, frames received, ends of connections."""

import contextlib
import os
import pathlib
import socket
import time

import msgspec
import pytest
from stomp_peer import Peer, job, message, receipt

from conformance.clients.roles.modes import AckHeader
from conformance.clients.session import Disconnected, OperationAnswer, Refused, SendOutcome
from conformance.errors import ClientError
from conformance.history import Op, Phase
from conformance.protocols.stomp.options import StompOptions
from conformance.protocols.stomp.sessions.dialogue import ReceivedFrame
from conformance.protocols.stomp.sessions.raw_session import RawStompSession, encode
from conformance.protocols.stomp.sessions.session import StompSession
from conformance.scenario import options
from conformance.scenario.script import Drain, Publish

HEADERS = StompOptions(
    connect={"tenant": "t1"},
    send={"kind": "any"},
    subscribe={"window": "{prefetch_bytes}", "of": "{queue}:{prefetch}"},
    time_to_live={"life": "{lives_ms}", "end": "{expires_ms}"},
)

DRAIN = Drain()


@pytest.fixture(params=[StompSession, RawStompSession])
def dial(request):
    """Opens a session on a script; everything is closed at the end, and the peer must not have failed."""
    opened = []

    def dial(script, *, before_write=lambda: None, connect_s=5.0, singly=True, step=DRAIN, publishers=(), **more):
        peer = Peer(script, **more)
        opened.append(peer)
        about = {
            "own": msgspec.structs.asdict(HEADERS),
            "destination": "/q/{queue}",
            "connect_s": connect_s,
            "singly": singly,
            "step": step,
            "publishers": publishers,
        }
        session = request.param(job(peer.port, **about), before_write)
        opened.append(session)
        session.peer = peer
        return session

    yield dial
    for each in opened:
        if isinstance(each, Peer):
            each.go.set()
    for each in reversed(opened):
        each.close()


def answers(*frames, reads=1, then=lambda peer: peer.go.wait(10)):
    """A script: read so many frames, write these, and stay connected."""

    def script(peer):
        peer.read(reads)
        peer.write(*frames)
        then(peer)

    return script


def pump(session, done):
    """Pump until `done`; the peer hangs up at the end of its script, and earlier frames count."""
    deadline = time.monotonic() + 10
    with contextlib.suppress(Disconnected):
        while not done() and time.monotonic() < deadline:
            session.pump(deadline - time.monotonic())
    assert done()


def until_lost(session):
    with pytest.raises(Disconnected):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            session.pump(5.0)


def subscribed(dial, script, subscription=AckHeader.INDIVIDUAL):
    """A session with three deliveries; then the peer plays the script."""
    session = dial(answers(receipt(1), *(message(f"m{n}", f"a{n}") for n in range(3)), then=script))
    session.attach_receiver("q1", 7, subscription)
    pump(session, lambda: len(session.incoming) == 3)
    return session


def sends(session, count):
    session.attach_sender("q1")
    for n in range(count):
        session.send(f"m{n}", b"x", durable=True)


def test_headers_of_a_send(dial):
    """Destination, id, length, persistence, a receipt, and the broker's own header, escaped as in 1.2.

    Without persistence it has no such header: STOMP brokers treat its absence as non-durable.
    """
    session = dial(answers(receipt(1), receipt(2), reads=2))
    session.attach_sender("q1")
    session.send("m:1\\", b"body", durable=True, transaction="t1")
    session.send("m2", b"", durable=False)
    pump(session, lambda: len(session.outcomes) == 2)
    durable, other = (headers for _, headers, _ in session.peer.frames[1:])

    every = {"destination": "/q/q1", "kind": "any"}
    named = {"conformance_id": "m\\c1\\\\", "content-length": "4", "receipt": "receipt-1"}
    assert {**every, **named, "persistent": "true", "transaction": "t1"} == durable
    assert {**every, "conformance_id": "m2", "content-length": "0", "receipt": "receipt-2"} == other
    assert [SendOutcome(name, Phase.OK, None) for name in ("m:1\\", "m2")] == list(session.outcomes)


def test_a_send_with_a_time_to_live(dial):
    """In the words of the broker: milliseconds from now, or since 1970."""
    session = dial(answers(receipt(1)), step=Publish(1, window=1, lives_ms=5_000))
    began_ms = int(time.time() * 1000)
    sends(session, 1)
    pump(session, lambda: session.outcomes)
    headers = session.peer.frames[1][1]

    assert "5000" == headers["life"]
    assert began_ms <= int(headers["end"]) - 5_000 <= time.time() * 1000


def test_connect_asks_for_1_2_with_a_host_and_no_heart_beats(dial):
    """A paused client must not be dropped for missing heart-beats."""
    session = dial(lambda peer: peer.go.wait(10))

    assert [
        ("CONNECT", {"accept-version": "1.2", "host": "127.0.0.1", "heart-beat": "0,0", "tenant": "t1"}, b"")
    ] == session.peer.frames


def test_frames_leave_at_pump_after_one_flush_of_the_recorder(dial):
    """`before_write` runs once for all frames of one pump, before the first has left."""
    seen, held = [], []
    session = dial(
        lambda peer: (peer.read(3), peer.write(receipt(3))),
        before_write=lambda: seen.append(len(held[0].peer.frames)) if held else None,
    )
    held.append(session)

    sends(session, 3)
    before = list(seen)
    pump(session, lambda: session.outcomes)

    assert ([], [1]) == (before, seen)


def test_a_property_that_is_missing_or_another_is_seen(dial):
    """Each property of the publisher that sent the message is a header, and there may be more."""
    every = options.headers("p1:2")
    headers = {name: options.as_text(value) for name, value in every.items()} | {"more": "1"}
    whole = encode(ReceivedFrame("MESSAGE", headers, b"")).removeprefix(b"MESSAGE\n").removesuffix(b"\n\0")
    comes = (message("p1:2", more=whole), message("p1:3", more=whole), message("p1:2"), message("p9:1"))
    session = dial(answers(receipt(1), *comes), publishers=(Publish(3, window=1, headers=True),))
    session.attach_receiver("q", 9, AckHeader.INDIVIDUAL)
    pump(session, lambda: len(session.incoming) == 4)

    assert [False, True, True, False] == [received.altered for received in session.incoming]


def test_receipts_out_of_order_confirm_their_own_message(dial):
    """A RECEIPT does not answer another SEND, even an earlier one."""
    session = dial(answers(receipt(3), receipt(1), reads=3))
    sends(session, 3)
    pump(session, lambda: len(session.outcomes) == 2)
    session.pump(0.05)

    assert ["m2", "m0"] == [outcome.message for outcome in session.outcomes]


def test_a_frame_in_pieces_is_one_frame(dial):
    """Cut after every octet, with heart-beats between frames and a NUL inside the body."""
    whole = b"\n\r\n" + receipt(1) + b"\n" + message("m1", more=b"content-length:3\nx:a\\cb\n", body=b"a\0b")
    session = dial(answers(*(whole[n : n + 1] for n in range(len(whole)))))
    session.attach_receiver("q1", 7, AckHeader.INDIVIDUAL)
    pump(session, lambda: session.incoming)

    assert [("m1", b"a\0b")] == [(received.message, received.body) for received in session.incoming]


def test_subscribe_fills_placeholders_and_keeps_early_messages(dial):
    """A MESSAGE before the RECEIPT of the SUBSCRIBE is kept."""
    session = dial(answers(message("m1"), receipt(1)))
    session.attach_receiver("q1", 7, AckHeader.CUMULATIVE)

    headers = session.peer.frames[1][1]
    assert ["m1"] == [received.message for received in session.incoming]
    assert ("/q/q1", "client", "7168", "q1\\c7") == tuple(headers[k] for k in ("destination", "ack", "window", "of"))


def test_fields_of_a_delivery(dial):
    """Without its header the count is None, and the message is not redelivered; one without our id is foreign."""
    redelivered = message("m1", more=b"redelivered:true\ndelivery-count:2\n")
    others = (message("m2"), message("m3", more=b"redelivered:false\n"), b"MESSAGE\nmessage-id:7\nack:a\n\n\0")
    session = dial(answers(receipt(1), redelivered, *others))
    session.attach_receiver("q1", 7, AckHeader.INDIVIDUAL)
    pump(session, lambda: len(session.incoming) == 4)

    expected = [
        ("m1", 2, True, "1"),
        ("m2", None, False, "2"),
        ("m3", None, False, "3"),
        ("foreign:7", None, False, "4"),
    ]
    assert expected == [(r.message, r.count, r.redelivered, r.delivery) for r in session.incoming]


def test_individual_acknowledgements_are_a_frame_each(dial):
    """Each has the ack header of its MESSAGE; without `confirmed` it asks for no receipt."""
    session = subscribed(dial, lambda peer: (peer.read(2), peer.write(b"\n"), peer.go.set()))

    session.acknowledge([session.incoming[0], session.incoming[2]], transaction="t")
    pump(session, session.peer.go.is_set)

    assert [("ACK", {"id": f"a{n}", "transaction": "t"}) for n in (0, 2)] == [f[:2] for f in session.peer.frames[2:]]


def test_without_individual_acknowledgements_each_covers_all_before_it(dial):
    """For a broker that answers those of a client-individual subscription wrongly."""
    session = dial(answers(receipt(1)), singly=False)
    session.attach_receiver("q1", 7, AckHeader.INDIVIDUAL)

    assert [f[1]["ack"] for f in session.peer.frames if f[0] == "SUBSCRIBE"] == ["client"]


def test_one_cumulative_acknowledgement_answers_for_all(dial):
    """One ACK of the last; its one RECEIPT is an answer for each."""
    session = subscribed(dial, lambda peer: (peer.read(), peer.write(receipt(2))), AckHeader.CUMULATIVE)

    session.acknowledge(list(session.incoming), confirmed=True)
    pump(session, lambda: session.answers)

    assert [OperationAnswer(Op.ACK, f"m{n}", Phase.OK) for n in range(3)] == list(session.answers)
    assert [("ACK", {"id": "a2", "receipt": "receipt-2"})] == [frame[:2] for frame in session.peer.frames[2:]]


def test_a_settled_subscription_refuses_to_acknowledge(dial):
    """The session raises before it sends a byte."""
    session = dial(answers(receipt(1), b"MESSAGE\nmessage-id:1\nconformance_id:m1\n\nx\0"))
    session.attach_receiver("q1", 7, AckHeader.SETTLED)
    pump(session, lambda: session.incoming)

    with pytest.raises(ClientError, match="nothing to acknowledge"):
        session.acknowledge(list(session.incoming))


def test_a_message_without_ack_breaks_the_protocol(dial):
    """STOMP 1.2, MESSAGE: with explicit acknowledgement the ack header MUST be there."""
    session = dial(answers(b"MESSAGE\nmessage-id:1\n\nx\0", receipt(1)))

    with pytest.raises(ClientError, match="MESSAGE without ack"):
        session.attach_receiver("q1", 7, AckHeader.INDIVIDUAL)


def test_every_other_operation_is_answered_by_its_own_receipt(dial):
    """BEGIN, COMMIT, ABORT and NACK."""
    session = subscribed(dial, lambda peer: (peer.read(4), peer.write(*map(receipt, range(2, 6)))))

    session.begin("t1")
    session.commit("t1")
    session.rollback("t2")
    session.refuse(session.incoming[0], "released")
    pump(session, lambda: len(session.answers) == 4)

    expected = [(Op.BEGIN, "t1"), (Op.COMMIT, "t1"), (Op.ROLLBACK, "t2"), (Op.NACK, "m0")]
    assert expected == [(answer.op, answer.subject) for answer in session.answers]
    assert ["BEGIN", "COMMIT", "ABORT", "NACK"] == [frame[0] for frame in session.peer.frames[2:]]


def test_an_error_is_raised_after_the_frames_before_it(dial):
    """First the outcomes, then `Refused` with the broker's text, then the loss of the connection."""
    error = b"ERROR\nmessage:no such queue\nreceipt-id:receipt-2\n\nreally\0"
    session = dial(answers(receipt(1) + error, reads=2, then=lambda peer: None))
    sends(session, 2)

    with pytest.raises(Refused, match="the broker sent ERROR: no such queue: really"):
        for _ in range(100):
            session.pump(5.0)
    assert ["m0"] == [outcome.message for outcome in session.outcomes]
    until_lost(session)


@pytest.mark.parametrize("end", ["fin", "rst"])
def test_answers_in_flight_are_not_lost_with_the_connection(dial, end):
    """A thousand receipts lie in the socket when the broker dies, and the next write fails: all are read first."""

    def script(peer):
        peer.read(1000)
        peer.write(b"".join(map(receipt, range(1, 1001))))
        peer.read()
        if end == "rst":
            peer.reset()

    session = dial(script)
    sends(session, 1000)
    session.pump(0)
    session.send("late", b"x", durable=True)
    until_lost(session)

    assert [f"m{n}" for n in range(1000)] == [outcome.message for outcome in session.outcomes]


def test_a_failed_write_reads_what_the_broker_had_sent(dial):
    """The stream has ended before the write: the write fails, and the receipts are still read."""

    def script(peer):
        peer.read(2)
        peer.write(receipt(1), receipt(2))
        peer.reset()
        peer.go.set()

    session = dial(script)
    sends(session, 2)
    session._flush()
    session.peer.go.wait(10)
    session.send("late", b"x", durable=True)
    until_lost(session)

    assert ["m0", "m1"] == [outcome.message for outcome in session.outcomes]


def test_a_lost_connection_stays_lost(dial):
    """Every later pump raises again, also with a frame to send."""
    session = dial(lambda peer: None)
    until_lost(session)
    sends(session, 1)

    until_lost(session)


def test_a_peer_that_does_not_read_holds_no_pump(dial):
    """More than the kernel's buffers: pump keeps its time limit, and the rest leaves when the peer reads."""
    total = 64

    def script(peer):
        peer.go.wait(10)
        peer.read(total)
        peer.write(receipt(total))

    session = dial(script)
    session.attach_sender("q1")
    for n in range(total):
        session.send(f"m{n}", b"x" * 250_000, durable=True)
    started = time.monotonic()
    session.pump(0.05)
    took = time.monotonic() - started
    session.peer.go.set()
    pump(session, lambda: session.outcomes)

    assert (True, [f"m{total - 1}"]) == (took < 5, [outcome.message for outcome in session.outcomes])


def test_a_harness_that_hangs_up_ends_the_process(dial):
    """The watched descriptor, while nothing comes from the broker."""
    session = dial(lambda peer: peer.go.wait(10))
    ours, theirs = os.pipe()
    session.watch(ours)
    os.close(theirs)

    with pytest.raises(SystemExit, match="the harness is gone"):
        session.pump(10.0)
    session._poll.unregister(ours)
    os.close(ours)


def test_pump_returns_when_its_time_is_over(dial):
    """Silence is not an error. One pump may end at once, by the late wake of CONNECTED."""
    session = dial(lambda peer: peer.go.wait(10))
    started = time.monotonic()

    for _ in range(2):
        session.pump(0.05)

    assert 0.04 < time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("greeting", "says"),
    [
        (b"ERROR\nmessage:no\n\nnot allowed\0", "the broker sent ERROR: no: not allowed"),
        (b"", "did not answer CONNECT within 0 s|ended the connection before CONNECTED"),
    ],
)
def test_no_session_without_connected(dial, greeting, says):
    """A refusal and silence both raise within the time limit."""
    with pytest.raises(ClientError, match=says):
        dial(lambda peer: peer.go.wait(10), greeting=greeting, connect_s=0.2)


def test_no_connection(dial):
    """The error has the address."""
    session = type(dial(lambda peer: peer.go.wait(10)))
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    with pytest.raises(ClientError, match=f"no connection to 127.0.0.1:{port}"):
        session(job(port, own=msgspec.structs.asdict(HEADERS), destination="/q/{queue}", connect_s=0.5), lambda: None)


def test_close_sends_queued_frames_and_waits_for_its_receipt(dial):
    """A second close does nothing."""
    session = dial(lambda peer: (peer.read(2), peer.write(receipt(1), receipt(2))))
    sends(session, 1)

    session.close()
    session.close()

    assert ["CONNECT", "SEND", "DISCONNECT"] == [frame[0] for frame in session.peer.frames]
    assert ["m0"] == [outcome.message for outcome in session.outcomes]


def test_a_receipt_that_is_not_one_clean_answer_is_an_anomaly(dial):
    """A RECEIPT that was never asked for, or arrives a second time."""
    session = dial(answers(receipt(9), b"RECEIPT\nreceipt-id:x\n\n\0", receipt(1), receipt(1)))
    sends(session, 1)
    pump(session, lambda: len(session.anomalies) == 3)

    expected = [
        "a RECEIPT for 'receipt-9', never asked for",
        "a RECEIPT for 'x', never asked for",
        "a RECEIPT for 'receipt-1', a second time",
    ]
    assert (expected, 1) == (list(session.anomalies), len(session.outcomes))


def test_closing_leaves_no_descriptor(dial):
    """Socket, its copy, and the eventfd of the receiver thread."""
    before = sum(1 for _ in pathlib.Path("/proc/self/fd").iterdir())
    session = dial(lambda peer: (peer.read(), peer.write(receipt(1))))
    session.close()
    session.peer.close()

    assert before == sum(1 for _ in pathlib.Path("/proc/self/fd").iterdir())


def test_a_message_is_for_the_receiver_of_its_subscription(dial):
    """After its end no more of it comes; a subscription that is not there breaks the protocol."""
    first, second = message("m1"), message("m2", "a2").replace(b"subscription:1", b"subscription:2")

    def script(peer):
        peer.read()
        peer.write(receipt(1))
        peer.read()
        peer.write(receipt(2), first, second)
        peer.read()
        peer.write(first, receipt(3), second)
        peer.go.wait(10)
        peer.write(first.replace(b"subscription:1", b"subscription:7"))

    session = dial(script)
    session.attach_receiver("q1", 7, AckHeader.INDIVIDUAL)
    session.attach_receiver("q2", 7, AckHeader.CUMULATIVE)
    pump(session, lambda: len(session.incoming) == 2)
    came = [(received.message, received.receiver) for received in session.incoming]
    session.end_receiver(0)
    pump(session, lambda: len(session.incoming) == 2)

    assert ([("m1", 0), ("m2", 1)], ["m2", "m2"]) == (came, [received.message for received in session.incoming])
    assert ("UNSUBSCRIBE", {"id": "1", "receipt": "receipt-3"}) == session.peer.frames[3][:2]
    session.peer.go.set()
    with pytest.raises(ClientError, match="a MESSAGE for the subscription '7'"):
        session.pump(10)


def test_a_cumulative_acknowledgement_is_of_one_subscription(dial):
    """One ACK for each, of its last delivery."""
    others = [message(f"m{n}", f"a{n}").replace(b"subscription:1", b"subscription:2") for n in (2, 3)]

    def script(peer):
        peer.read()
        peer.write(receipt(1))
        peer.read()
        peer.write(receipt(2), message("m0", "a0"), others[0], message("m1", "a1"), others[1])
        peer.read(2)
        peer.write(receipt(4), receipt(3))

    session = dial(script)
    session.attach_receiver("q1", 7, AckHeader.CUMULATIVE)
    session.attach_receiver("q2", 7, AckHeader.CUMULATIVE)
    pump(session, lambda: len(session.incoming) == 4)
    session.acknowledge(list(session.incoming), confirmed=True)
    pump(session, lambda: len(session.answers) == 4)

    assert ["a1", "a3"] == [headers["id"] for _, headers, _ in session.peer.frames[3:]]
    assert ["m2", "m3", "m0", "m1"] == [answer.subject for answer in session.answers]
