"""Publish windows and acknowledgement modes: the request, the range of an answer, and the record."""

import time
import types
from collections import deque

import pytest
from listed_session import Listed
from proton import Connection, Delivery, symbol
from stomp_peer import job, receipt

from conformance.clients.job import Asks
from conformance.clients.roles.modes import AckHeader
from conformance.clients.session import Disconnected, OperationAnswer, Received, Refused, SendOutcome, note_range
from conformance.history import SHUT, WAITS, Op, Phase
from conformance.protocols.amqp.sessions import session as amqp_session
from conformance.protocols.stomp.sessions.dialogue import Receipts
from conformance.scenario.script import Consume, Kill, Nth, Publish

WINDOWED = Asks(window=9, event_mode="windowed")
PER_MESSAGE = Asks(window=9, event_mode="per_message")


class Ranging(Listed):
    """Answers everything that waits at once, by one answer."""

    def pump(self, timeout_s):
        super().pump(timeout_s)
        note_range(list(self.outcomes))


class Refusing(Listed):
    """Refuses one operation, and says which, with the end of the connection."""

    def __init__(self, answer, **more):
        super().__init__(**more)
        self.answer = answer

    def pump(self, timeout_s):
        super().pump(timeout_s)
        if self.pumps == 4:
            raise Refused("the broker sent ERROR", [self.answer])
        if self.pumps > 4:
            raise Disconnected("gone")


def answers(events):
    return [(e.message, e.phase, e.first, e.last) for e in events if e.op is Op.SEND and e.phase is not Phase.INVOKE]


# the publisher


def test_an_answer_records_its_range(play):
    """The first and the last number that it covers."""
    _, events = play(Publish(5, window=3), Ranging())

    assert [
        *[(f"p1:{n}", Phase.OK, 1, 3) for n in (1, 2, 3)],
        *[(f"p1:{n}", Phase.OK, 4, 5) for n in (4, 5)],
    ] == answers(events)


def test_an_answer_without_a_window_has_no_range(play):
    _, events = play(Publish(1, window=1), Listed())

    assert [("p1:1", Phase.OK, None, None)] == answers(events)


def test_every_third_asks_for_ack_immediately(play):
    """On the wire, and before that in the history."""
    broker = Listed()
    _, events = play(Publish(7, window=7, immediate_every=3), broker)

    assert ["p1:3", "p1:6"] == broker.immediate
    assert ["p1:3", "p1:6"] == [e.message for e in events if e.detail == "ack immediately"]


@pytest.mark.parametrize(
    ("event", "k", "last"), [("confirm_immediate", 2, "p1:8"), ("confirm_range", 2, "p1:8"), ("confirm", 2, "p1:4")]
)
def test_a_trigger_at_a_confirm_of_its_kind(play, event, k, last):
    """The second immediate confirm, the second range, or the second confirm; always with its whole range."""
    broker = Ranging(dies_after=30)
    result, events = play(Publish(99, window=4, immediate_every=3, until=Kill(Nth(event, k))), broker)
    fired = next(at for at, e in enumerate(events) if e.phase is Phase.FIRED)
    confirmed = [e.message for e in events[:fired] if (e.op, e.phase) == (Op.SEND, Phase.OK)]

    assert (True, last) == (result.fired, confirmed[-1])


def waits(events):
    return [(e.message, e.count, e.detail) for e in events if e.op is Op.CONFIRM]


@pytest.mark.parametrize(
    ("asked", "liar", "expected"),
    [
        (True, "", [("p1:3", 2), ("p1:5", 2)]),
        (True, "blocks-at-half-its-window", [(f"p1:{number}", 1) for number in range(2, 7)]),
        (False, "", []),
    ],
)
def test_a_send_that_waits_for_room_is_recorded_on_request(play, asked, liar, expected):
    """With the number of unanswered sends: a full window, or less for a session liar."""
    _, events = play(Publish(6, window=2, tells_waits=asked), Listed(), liar=liar)

    assert [(message, unanswered, WAITS) for message, unanswered in expected] == waits(events)


def test_a_publisher_whose_window_stays_shut_is_seen(play):
    """A session liar waits for the liveness bound with nothing unanswered, and sends no more."""
    result, events = play(Publish(4, window=2, tells_waits=True), Listed(), liar="never-reopens-its-window")

    assert [("p1:3", 2, WAITS), ("p1:3", 0, SHUT)] == waits(events)
    assert (2, True) == (result.count, result.waited_s >= 0.05)


def test_a_session_without_credit_waits_for_the_broker(play):
    """The window has room but the broker gives no credit: no window counts as shut."""
    broker = Listed()
    broker.sendable = lambda: 2 - len([entry for entry in broker.log if entry[0] is Op.SEND])
    broker.pump = until(time.monotonic() + 0.2, broker.pump)
    _, events = play(Publish(4, window=2, tells_waits=True), broker)

    assert [("p1:3", 2, WAITS)] == waits(events)


def until(end, pump):
    """A connection that is lost at that time: four times the liveness bound of these tests."""

    def pumped(timeout_s):
        if time.monotonic() > end:
            raise Disconnected("gone")
        pump(timeout_s)

    return pumped


# refusals that cost the connection


def test_a_refusal_that_ends_the_connection_is_an_answer(play):
    """The send is refused, what was sent beside it is unknown, and the trial goes on."""
    broker = Refusing(SendOutcome("p1:2", Phase.FAIL, "queue full"), answers=False)
    result, events = play(Publish(3, window=3), broker, liveness_s=5.0, refused=True)

    assert "refused" == result.ended
    assert {("p1:2", Phase.FAIL), ("p1:1", Phase.INFO), ("p1:3", Phase.INFO)} == {a[:2] for a in answers(events)}


def test_an_unexpected_refusal_voids_the_trial(play):
    broker = Refusing(SendOutcome("p1:2", Phase.FAIL, "queue full"), answers=False)

    with pytest.raises(Refused):
        play(Publish(3, window=3), broker, liveness_s=5.0)


def test_a_refused_acknowledgement_is_an_answer(play):
    """The acknowledgement gets the refusal as its answer, and the consumer ends."""
    refusal = OperationAnswer(Op.ACK, "p1:1", Phase.FAIL, "out of order", delivery="p1:1-1")
    broker = Refusing(refusal, messages=["p1:1", "p1:2"])
    broker.acknowledge = lambda covered, **_: None
    result, events = play(Consume("individual", stop=2), broker, liveness_s=5.0, refused=True)

    assert "refused" == result.ended
    assert [(Phase.INVOKE, None), (Phase.FAIL, "out of order")] == [
        (e.phase, e.detail) for e in events if e.op is Op.ACK
    ]


# the consumer


@pytest.mark.parametrize(
    ("acknowledge", "expected"),
    [(1, ["p1:3", "p1:2", "p1:1", "p1:6", "p1:5", "p1:4"]), (2, ["p1:2", "p1:6", "p1:4"])],
)
def test_the_last_first(play, acknowledge, expected):
    """After three deliveries it acknowledges those that are due, last first; the seventh waits for two more."""
    broker = Listed(messages=[f"p1:{n}" for n in range(1, 8)])
    _, events = play(Consume("individual", acknowledge=acknowledge, backwards=3, stop=7), broker)

    assert expected == broker.acknowledged
    assert [(p, m) for m in expected for p in (Phase.INVOKE, Phase.OK)] == [
        (e.phase, e.message) for e in events if e.op is Op.ACK
    ]


# AMQP


class Unconnected:
    """Enough of an `AmqpClientConnection` to attach links to."""

    name = "c"
    greeting = ""

    def __init__(self, *about, **more):
        pass

    def session(self):
        return Connection().session()

    def attach(self, link):
        return link

    def clean(self, text):
        return str(text)


@pytest.fixture
def amqp(monkeypatch):
    """Opens sessions without a socket."""
    monkeypatch.setattr(amqp_session, "AmqpClientConnection", Unconnected)

    def attached(asks, **fields):
        session = amqp_session.AmqpSession(job(0, "amqp", asks=asks, **fields), lambda: None)
        session.attach_sender("q")
        return session

    return attached


def test_an_attach_asks_for_a_window(amqp):
    """By link properties (docs/reference/profiles.md), and without a request by none."""
    asked = amqp(WINDOWED)._senders["q"].properties
    assert {symbol("publish-window"): 9, symbol("ack-event-mode"): symbol("windowed")} == dict(asked)
    assert "per-message" == amqp(PER_MESSAGE)._senders["q"].properties["ack-event-mode"]
    assert amqp(Asks())._senders["q"].properties is None


def outcomes(session):
    """The outcomes that its sender names."""
    named = session._senders["q"].source.outcomes
    named.rewind()
    return list(named.get_object().elements) if named.next() else []


def test_an_attach_names_the_outcomes_that_the_sender_knows(amqp):
    """Broker-J detaches a sender that names none instead of refusing a message (AMQP 1.0, 3.5.3). The default is all."""
    session = amqp(Asks(), own={"outcomes": ("accepted", "rejected")})

    assert [symbol("amqp:accepted:list"), symbol("amqp:rejected:list")] == outcomes(session)
    assert 4 == len(outcomes(amqp(Asks())))


def test_an_attach_asks_for_a_mode(amqp):
    """By the broker's own word."""
    session = amqp(Asks(mode="explicit-client"))
    session.attach_receiver("q", 5, AckHeader.INDIVIDUAL)

    assert {symbol("ack-mode"): "explicit-client"} == dict(session._receivers[0].properties)


def disposition(session, state, *tags):
    """One frame that answers these sends, in the engine's order."""
    for tag in tags:
        delivery = types.SimpleNamespace(
            tag=tag, local_state=None, remote_state=state, settled=True, settle=lambda: None
        )
        session.on_delivery(session._senders["q"], delivery)
    session.after_frame()


@pytest.mark.parametrize(
    ("asks", "ends"), [(WINDOWED, [("m0", "m2"), ("m3", "m3")]), (Asks(), [(None, None), (None, None)])]
)
def test_a_disposition_is_a_range(amqp, asks, ends):
    """One frame is one answer; a refusal in another frame is another answer."""
    session = amqp(asks)
    for number in range(4):
        session.send(f"m{number}", b"x", durable=True, immediate=number == 2)
    disposition(session, Delivery.ACCEPTED, "m2", "m0", "m1")
    disposition(session, Delivery.REJECTED, "m3")

    assert [
        *[SendOutcome(name, Phase.OK, None, *ends[0]) for name in ("m0", "m1", "m2")],
        SendOutcome("m3", Phase.FAIL, "rejected", *ends[1]),
    ] == list(session.outcomes)


class RejectedAcknowledgement:
    """A delivery whose accepted was answered by rejected, in proton's words."""

    remote_state, settled, readable = Delivery.REJECTED, True, False
    remote = types.SimpleNamespace(condition=None)

    def update(self, state):
        pass

    def settle(self):
        pass


def test_an_acknowledgement_can_be_refused(amqp):
    """Settled with another state, it is a negative answer."""
    session = amqp(Asks())
    handle = RejectedAcknowledgement()
    session._receivers = ["receiver"]
    session.acknowledge([Received("p1:1", b"", 0, None, False, "1", handle)], confirmed=True)
    session.on_delivery("receiver", handle)

    assert [OperationAnswer(Op.ACK, "p1:1", Phase.FAIL, "rejected")] == list(session.answers)


# STOMP


def sends(receipts, *messages, in_window=True):
    return [receipts.ask([SendOutcome(message, Phase.OK, None)], in_window=in_window) for message in messages]


def names(confirmed):
    return [(one.message, one.phase, one.first, one.last) for one in confirmed]


def test_a_receipt_answers_the_sends_before_it():
    """In the order of the sends, and each only once."""
    anomalies = deque()
    receipts = Receipts(WINDOWED, anomalies)
    one, two, three = sends(receipts, "a", "b", "c")

    assert [("a", Phase.OK, "a", "b"), ("b", Phase.OK, "a", "b")] == names(receipts.arrived(two))
    assert [("c", Phase.OK, "c", "c")] == names(receipts.arrived(three))
    assert () == receipts.arrived(one)
    assert [f"a RECEIPT for {one!r}, a second time"] == list(anomalies)


@pytest.mark.parametrize("asks", [PER_MESSAGE, Asks(), Asks(event_mode="windowed")])
def test_without_windowed_mode_a_receipt_answers_its_own_frame(asks):
    """STOMP 1.2 says of earlier frames only that they were received."""
    receipts = Receipts(asks, deque())
    one, two = sends(receipts, "a", "b")

    assert ["b"] == [each.message for each in receipts.arrived(two)]
    assert ["a"] == [each.message for each in receipts.arrived(one)]


def test_transactions_are_in_no_window():
    """Neither a send in one, nor its commit, is answered by the receipt of a later send."""
    receipts = Receipts(WINDOWED, deque())
    (inside,) = sends(receipts, "a", in_window=False)
    (later,) = sends(receipts, "b")

    assert ["b"] == [each.message for each in receipts.arrived(later)]
    assert inside in receipts


def test_a_refusal_is_in_no_range():
    """It answers its own frame; earlier sends still wait."""
    receipts = Receipts(WINDOWED, deque())
    one, two, three = sends(receipts, "a", "b", "c")

    assert [("b", Phase.FAIL, "b", "b")] == names(receipts.refused(two, "full"))
    assert () == receipts.refused("receipt-99", "full") == receipts.refused(None, "full")
    assert [("a", Phase.OK, "a", "c"), ("c", Phase.OK, "a", "c")] == names(receipts.arrived(three))
    assert one not in receipts


def test_a_stomp_client_asks_in_its_frames(raw):
    """CONNECT has the window, SEND Ack Immediately, SUBSCRIBE the mode; one RECEIPT answers both sends."""

    def script(peer):
        peer.read(2)
        peer.write(receipt(2))
        peer.read()
        peer.write(receipt(3))
        peer.go.wait(10)

    session = raw(script, asks=Asks(window=9, event_mode="windowed", mode="explicit-client"))
    session.attach_sender("q")
    session.send("a", b"x", durable=True)
    session.send("b", b"x", durable=True, immediate=True)
    while len(session.outcomes) < 2:
        session.pump(5.0)
    session.attach_receiver("q", 5, AckHeader.INDIVIDUAL)
    connect, first, second, subscribe = (headers for _, headers, _ in session.peer.frames)

    assert [("a", "a", "b"), ("b", "a", "b")] == [(o.message, o.first, o.last) for o in session.outcomes]
    assert ("9", "windowed") == (connect["publish-window"], connect["ack-event-mode"])
    assert (None, "true") == (first.get("ack-immediately"), second["ack-immediately"])
    assert "explicit-client" == subscribe["ack-mode"]


def test_an_error_refuses_the_frame_of_its_receipt_id(raw):
    """The other sends get no answer."""

    def script(peer):
        peer.read(2)
        peer.write(b"ERROR\nmessage:full\nreceipt-id:receipt-2\n\n\0")

    session = raw(script, asks=WINDOWED)
    session.attach_sender("q")
    session.send("a", b"x", durable=True)
    session.send("b", b"x", durable=True)
    with pytest.raises(Refused) as caught:
        for _ in range(100):
            session.pump(5.0)

    assert [SendOutcome("b", Phase.FAIL, "full", "b", "b")] == list(caught.value.answers)
    assert [] == list(session.outcomes)
