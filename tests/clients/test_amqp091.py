"""The session over AMQP 0-9-1: what it writes, what answers mean, and a broker that breaks the protocol."""

import tracemalloc

import pytest
from amqp091_peer import Amqp091Peer, carried, delivery, head, opened, said
from pika import spec
from scripted_sessions import on_peers, outcomes_of, sent

from conformance import limits
from conformance.adapters.credentials import Access, Secret
from conformance.clients.roles.modes import AckHeader
from conformance.clients.session import Disconnected, LoginRefused, Refused, pump_until
from conformance.errors import BrokenProtocolError, ClientError, UnansweredError
from conformance.history import Phase
from conformance.protocols import describe
from conformance.protocols.amqp091.sessions.connection import Amqp091Login
from conformance.protocols.amqp091.sessions.questions import QUESTIONS
from conformance.scenario.script import Publish


@pytest.fixture
def session():
    def peer_of(script):
        return Amqp091Peer(lambda peer: (script(peer), peer.until(spec.Connection.Close)))

    with on_peers(peer_of, opened) as start:
        yield start


def await_(session, what):
    assert pump_until(session.pump, lambda: bool(what), 10), "it did not come"


def answering(*answers, publishes=3):
    """A script that confirms after so many publishes."""

    def script(peer):
        for _ in range(publishes):
            peer.until(spec.Basic.Publish)
        peer.write(*(said(answer) if not isinstance(answer, bytes) else answer for answer in answers))

    return script


# confirms


def test_each_send_gets_its_confirm(session):
    """`basic.ack` names the number of a publish, in any order."""
    made = session(answering(spec.Basic.Ack(2), spec.Basic.Ack(1), spec.Basic.Nack(3)))
    sent(made)
    pump_until(made.pump, lambda: len(made.outcomes) == 3, 10)

    assert [("p1:2", "ok", None), ("p1:1", "ok", None), ("p1:3", "fail", "basic.nack")] == outcomes_of(made)


@pytest.mark.parametrize("tag", [3, 0], ids=["up to a tag", "all"])
def test_multiple_confirms_all_up_to_its_tag(session, tag):
    made = session(answering(spec.Basic.Ack(tag, multiple=True)))
    sent(made)
    await_(made, made.outcomes)

    assert [("p1:1", "ok", None), ("p1:2", "ok", None), ("p1:3", "ok", None)] == outcomes_of(made)


def test_a_message_that_came_back_is_not_confirmed(session):
    """The broker returns it, and then confirms it as one that it cannot route (RabbitMQ, Publishers)."""
    returned = carried(spec.Basic.Return(312, "NO_ROUTE", "", "q"), message_id="p1:2")
    made = session(answering(returned, spec.Basic.Ack(3, multiple=True)))
    sent(made)
    await_(made, made.outcomes)

    assert ("p1:2", "fail", "returned: 312 NO_ROUTE") == outcomes_of(made)[1]
    assert ["ok", "ok"] == [phase for message, phase, _ in outcomes_of(made) if message != "p1:2"]


def test_a_second_confirm_is_an_anomaly(session):
    made = session(answering(spec.Basic.Ack(1), spec.Basic.Ack(1)))
    sent(made)
    await_(made, made.anomalies)

    assert ["a Basic.Ack for publish 1, a second time"] == list(made.anomalies)


def test_a_publish_is_mandatory_and_says_whose_it_is(session):
    """Without the flag a broker confirms what it cannot route. A message without a body is known by its properties."""
    made = session(answering(spec.Basic.Ack(2, multiple=True), publishes=2), step=Publish(2, 1, lives_ms=1500))
    made.attach_sender("q")
    made.send("p1:1", b"", durable=True)
    made.send("p1:2", b"x", durable=False)
    await_(made, made.outcomes)
    made.close()  # then the peer has read all
    publishes = [each for each in made.peer.methods if isinstance(each, spec.Basic.Publish)]
    heads = [each.properties for each in made.peer.frames if hasattr(each, "properties")]

    assert [(True, "q")] * 2 == [(each.mandatory, each.routing_key) for each in publishes]
    assert ["p1:1", "p1:2"] == [each.message_id for each in heads] == [each.correlation_id for each in heads]
    assert [2, 1] == [each.delivery_mode for each in heads]
    assert ["1500", "1500"] == [each.expiration for each in heads]


@pytest.mark.parametrize(
    ("holds", "goes_on", "channel"),
    [
        (spec.Channel.Flow(active=False), spec.Channel.Flow(active=True), 1),
        (spec.Connection.Blocked("low on disk"), spec.Connection.Unblocked(), 0),
    ],
    ids=["channel.flow", "connection.blocked"],
)
def test_a_sender_waits_while_the_broker_says_so(session, holds, goes_on, channel):
    """Broker-J closes a channel that goes on sending; RabbitMQ reads no more from the connection."""

    def script(peer):
        peer.until(spec.Channel.Open)
        peer.write(said(holds, channel))
        peer.go.wait(10)
        peer.write(said(goes_on, channel))

    made = session(script)
    made.attach_sender("q")
    assert pump_until(made.pump, lambda: not made.sendable(), 10)
    made.peer.go.set()
    assert pump_until(made.pump, lambda: made.sendable() > 0, 10)
    made.close()
    answers = [each.active for each in made.peer.methods if isinstance(each, spec.Channel.FlowOk)]

    assert ([False, True] if channel else []) == answers


# transactions


def test_sends_of_a_transaction_are_answered_by_its_commit(session):
    """A channel with transactions has no confirms; one that came back is refused."""
    returned = carried(spec.Basic.Return(312, "NO_ROUTE", "", "q"), message_id="p1:2")

    def script(peer):
        peer.until(spec.Tx.Commit, answer=False)
        peer.write(returned, said(spec.Tx.CommitOk()))

    made = session(script)
    made.attach_sender("q")
    made.begin("t1")
    for number in (1, 2):
        made.send(f"p1:{number}", b"x", durable=True, transaction="t1")
    made.commit("t1")
    pump_until(made.pump, lambda: len(made.answers) == 2, 10)

    assert [("p1:1", "ok", None), ("p1:2", "fail", "returned: 312 NO_ROUTE")] == outcomes_of(made)
    assert ["begin", "commit"] == [answer.op.value for answer in made.answers]
    assert not [each for each in made.peer.methods if isinstance(each, spec.Confirm.Select)]


def test_a_rollback_answers_no_send(session):
    made = session(lambda peer: peer.until(spec.Tx.Rollback))
    made.attach_sender("q")
    made.begin("t1")
    made.send("p1:1", b"x", durable=True, transaction="t1")
    made.rollback("t1")
    pump_until(made.pump, lambda: len(made.answers) == 2, 10)

    assert not made.outcomes


def test_refusals_after_a_rollback_are_committed(session):
    """RabbitMQ makes them a part of the next transaction, and they may be the last thing that this client does."""

    def script(peer):
        peer.until(spec.Basic.Consume)
        peer.write(delivery(1), delivery(2))
        peer.until(spec.Tx.Commit)

    made = session(script)
    made.attach_receiver("q", 10, AckHeader.INDIVIDUAL)
    pump_until(made.pump, lambda: len(made.incoming) == 2, 10)
    got = [made.incoming.popleft(), made.incoming.popleft()]
    made.begin("t1")
    made.acknowledge(got, transaction="t1")
    made.rollback("t1")
    for received in got:
        made.refuse(received, "released")
    pump_until(made.pump, lambda: len(made.answers) == 2 and not made._transactions[1].asked, 10)
    names = [each.NAME for each in made.peer.methods if each.NAME.startswith(("Tx", "Basic.A", "Basic.Rej"))]

    assert "Tx.Select Basic.Ack Basic.Ack Tx.Rollback Basic.Reject Basic.Reject Tx.Commit".split() == names


# acknowledgements


def test_a_delivery_that_is_asked_for_again_is_recovered(session):
    def script(peer):
        peer.until(spec.Basic.Consume)
        peer.write(delivery(1))
        peer.until(spec.Basic.Recover)

    made = session(script)
    made.attach_receiver("q", 1, AckHeader.INDIVIDUAL)
    pump_until(made.pump, lambda: bool(made.incoming), 10)
    made.refuse(made.incoming.popleft(), "recovered")
    pump_until(made.pump, lambda: made.peer.methods[-1].NAME == "Basic.Recover", 10)

    assert made.peer.methods[-1].requeue


@pytest.mark.parametrize(("method", "answered"), [(spec.Basic.Ack, ["p1:1"]), (spec.Basic.Qos, [])])
def test_a_channel_that_is_closed_for_an_acknowledgement_answers_it(session, method, answered):
    def script(peer):
        peer.until(spec.Basic.Consume)
        peer.write(delivery(1))
        peer.until(spec.Basic.Ack)
        peer.write(said(spec.Channel.Close(406, "unknown", method.INDEX >> 16, method.INDEX & 0xFFFF)))
        peer.until(spec.Channel.CloseOk)

    made = session(script)
    made.attach_receiver("q", 10, AckHeader.INDIVIDUAL)
    pump_until(made.pump, lambda: bool(made.incoming), 10)
    made.acknowledge([made.incoming.popleft()], confirmed=True)
    with pytest.raises(Refused) as refused:
        pump_until(made.pump, lambda: False, 10)

    assert [(each.subject, each.phase) for each in refused.value.answers] == [(name, Phase.FAIL) for name in answered]


def test_a_cumulative_acknowledgement_is_one_frame(session):
    def script(peer):
        peer.until(spec.Basic.Consume)
        peer.write(delivery(1), delivery(2))
        peer.until(spec.Basic.Ack)

    made = session(script)
    made.attach_receiver("q", 10, AckHeader.CUMULATIVE)
    pump_until(made.pump, lambda: len(made.incoming) == 2, 10)
    made.acknowledge(list(made.incoming))
    made.close()
    acks = [each for each in made.peer.methods if isinstance(each, spec.Basic.Ack)]

    assert [(2, True)] == [(each.delivery_tag, each.multiple) for each in acks]


def test_an_acknowledgement_gets_its_answer_by_a_transaction(session):
    """There is no other answer to a basic.ack."""

    def script(peer):
        peer.until(spec.Basic.Consume)
        peer.write(delivery(1))
        peer.until(spec.Tx.Commit)

    made = session(script)
    made.attach_receiver("q", 10, AckHeader.INDIVIDUAL)
    await_(made, made.incoming)
    made.acknowledge([made.incoming[0]], confirmed=True)
    await_(made, made.answers)

    assert [("ack", "p1:1", Phase.OK, "1")] == [
        (each.op.value, each.subject, each.phase, each.delivery) for each in made.answers
    ]


def test_a_delivery_says_whether_it_came_before(session):
    """Only quorum queues count."""

    def script(peer):
        peer.until(spec.Basic.Consume)
        peer.write(delivery(1), delivery(2, again=True, headers={"x-delivery-count": 1 << 40}))

    made = session(script)
    made.attach_receiver("q", 10, AckHeader.INDIVIDUAL)
    pump_until(made.pump, lambda: len(made.incoming) == 2, 10)

    found = list(made.incoming)
    assert [(False, None), (True, 1 << 40)] == [(each.redelivered, each.count) for each in found]
    assert type(found[1].count) is int  # no history takes the class that pika has for 64 bits
    assert [b"p1:1 body"] * 2 == [each.body for each in made.incoming]


def test_a_consumer_without_acknowledgements_has_no_prefetch(session):
    made = session(lambda peer: peer.until(spec.Basic.Consume))
    made.attach_receiver("q", 10, AckHeader.SETTLED)
    names = [each.NAME for each in made.peer.methods]

    assert made.peer.methods[-1].no_ack
    assert "Basic.Qos" not in names


def test_a_receiver_ends_with_its_channel(session):
    """What it holds goes back; basic.cancel would leave it where it is."""
    made = session(lambda peer: peer.until(spec.Channel.Close))
    made.attach_receiver("q", 10, AckHeader.INDIVIDUAL)
    made.end_receiver(0)

    assert isinstance(made.peer.methods[-1], spec.Channel.Close)


# refusals


def test_a_channel_that_the_broker_closes_is_a_refusal(session):
    closing = spec.Channel.Close(404, "NOT_FOUND - no queue 'q'", 60, 20)
    made = session(lambda peer: (peer.until(spec.Basic.Consume, answer=False), peer.write(said(closing))))

    with pytest.raises(Refused, match="the broker closed a channel: 404 NOT_FOUND - no queue 'q'"):
        made.attach_receiver("q", 10, AckHeader.INDIVIDUAL)


def test_confirms_before_the_end_are_read(session):
    closing = said(spec.Connection.Close(320, "CONNECTION_FORCED - shutdown", 0, 0), 0)
    made = session(answering(spec.Basic.Ack(1), closing))
    sent(made)

    with pytest.raises(Refused, match="closed the connection: 320 CONNECTION_FORCED - shutdown"):
        pump_until(made.pump, lambda: False, 10)
    assert [("p1:1", "ok", None)] == outcomes_of(made)


def test_a_login_that_is_refused_names_who():
    secret = Secret(env="A_PASSWORD")
    closing = said(spec.Connection.Close(403, "ACCESS_REFUSED - wrong secret-word", 0, 0), 0)
    peer = Amqp091Peer(lambda _: None)
    peer.serve = lambda script: (
        peer.write(said(spec.Connection.Start(0, 9, {}, "PLAIN", "en_US"), 0)),
        peer.read(),
        peer.write(closing),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("A_PASSWORD", "secret-word")
        with pytest.raises(
            LoginRefused, match=r"login of 'alice' was refused: 403 ACCESS_REFUSED - wrong <redacted>"
        ) as info:
            opened(peer.port, access=Access(user="alice", password=secret))
    peer.close()

    assert "secret-word" not in str(info.value)
    assert b"\0alice\0secret-word" == peer.methods[0].response


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [("PLAIN AMQPLAIN", ("PLAIN", b"\0guest\0guest")), ("PLAIN ANONYMOUS", ("ANONYMOUS", b""))],
)
def test_a_client_without_a_login_uses_what_brokers_have_for_it(offered, chosen):
    login = Amqp091Login("127.0.0.1", 5672, Access())

    assert chosen == login.response(offered)


# a broker that breaks the protocol


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (head(1, 0xFFFFFFFF), "a frame of 4,294,967,295 bytes, and frame-max is 131,072"),
        (head(7, 4) + b"abcd\xce", "a frame of type 7"),
        (head(1, 4) + b"abcd\xcd", "Invalid FRAME_END marker"),
        (said(spec.Basic.Ack(9)), "a Basic.Ack for 9, which no publish has"),
        (said(spec.Tx.CommitOk()), "a Tx.CommitOk that answers nothing"),
        (delivery(1), "a basic.deliver on a channel without a consumer"),
        (said(spec.Channel.OpenOk(), channel=9), "a METHOD frame on channel 9, which is not open"),
        (head(3, 1) + b"x\xce", "a Body frame on channel 1 without a message"),
        (
            carried(spec.Basic.Return(312, "", "", ""))[:-17] + said(spec.Basic.Ack(1)),
            "a METHOD frame on channel 1 within a",
        ),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a frame of type 72"),
        (b"AMQP\x00\x01\x00\x00", "it does not speak AMQP 0-9-1"),
    ],
)
def test_a_broken_protocol_ends_the_client(session, says, why):
    made = session(answering(says))
    sent(made)

    with pytest.raises(BrokenProtocolError, match=f"the broker broke the protocol: .*(?:{why})"):
        pump_until(made.pump, lambda: False, 10)


def test_what_pika_cannot_read_does_not_accuse_the_broker(session):
    """A method that it does not know: another broker may have it."""
    made = session(answering(head(1, 4) + b"abcd\xce"))
    sent(made)

    with pytest.raises(ClientError, match="pika cannot read a frame of the broker: KeyError") as caught:
        pump_until(made.pump, lambda: False, 10)
    assert not caught.value.of_broker


def test_a_broker_that_does_not_answer_a_request_is_to_blame(session, monkeypatch):
    """So that the trial is a doubt about the broker, or shows a queue that is stuck, and is no error of the suite."""
    monkeypatch.setattr("conformance.clients.session.ANSWER_S", 0.2)
    made = session(lambda peer: peer.until(spec.Basic.Consume, answer=False))

    with pytest.raises(UnansweredError, match=r"^the broker did not answer Basic\.Consume within 0 s$"):
        made.attach_receiver("q", 10, AckHeader.INDIVIDUAL)


def test_a_message_without_end_is_bounded(session, monkeypatch):
    """Its header says so, before its bytes come."""
    monkeypatch.setattr(limits, "MESSAGE", 1 << 10)
    made = session(answering(carried(spec.Basic.Return(312, "", "", ""), body=bytes(2048))))
    sent(made)

    with pytest.raises(ClientError, match="a message of more than 1,024 bytes"):
        pump_until(made.pump, lambda: False, 10)


def test_confirms_without_end_are_bounded(session, monkeypatch):
    monkeypatch.setattr(limits, "UNTRUE_RECEIPTS", 10)
    made = session(answering(*[spec.Basic.Ack(1)] * 20))
    sent(made)

    with pytest.raises(ClientError, match="confirms that answer nothing of more than 10"):
        pump_until(made.pump, lambda: False, 10)


def test_the_rest_of_a_huge_frame_is_not_kept(session):
    made = session(answering(head(1, 0xFFFFFFFF), bytes(1 << 22)))
    sent(made)
    tracemalloc.start()
    with pytest.raises(ClientError, match="4,294,967,295"):
        pump_until(made.pump, lambda: False, 10)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 1 << 21


def test_the_end_of_the_stream_is_no_refusal(session):
    made = session(lambda peer: peer.socket.close())

    with pytest.raises(Disconnected):
        made.attach_sender("q")


def test_a_broker_that_never_opens_is_given_up():
    peer = Amqp091Peer(lambda _: None)
    peer.serve = lambda script: peer.go.wait(10)

    with pytest.raises(ClientError, match="did not open the connection within 0 s"):
        opened(peer.port, connect_s=0.1)
    peer.close()


# questions


@pytest.mark.parametrize(
    ("answer", "holds", "result"),
    [
        (spec.Tx.CommitOk(), False, "the channel goes on after Tx.Commit"),
        (spec.Channel.Close(406, "not transactional", 90, 20), True, "the broker closed a channel: 406 not transact"),
        (spec.Connection.Close(503, "what is this", 90, 20), True, "the broker closed the connection: 503 what is"),
    ],
    ids=["goes on", "closes the channel", "closes the connection"],
)
def test_a_commit_without_transactions_should_end_the_channel(session, answer, holds, result):
    channel = 0 if isinstance(answer, spec.Connection.Close) else 1
    made = session(lambda peer: (peer.until(spec.Tx.Commit, answer=False), peer.write(said(answer, channel))))
    (found,) = made.asked("is a commit without transactions an error")

    assert ("tx.commit without tx.select", holds) == found[:2]
    assert found.result.startswith(result)


def test_a_get_that_finds_nothing_ends_the_question(session):
    """The queue is one of this connection; the broker confirms what is sent to it, and hides the second message."""

    def script(peer):
        peer.until(spec.Queue.Declare)
        peer.write(said(spec.Queue.DeclareOk("own", 0, 0)))
        for number in range(1, 121):
            peer.until(spec.Basic.Publish)
            peer.write(said(spec.Basic.Ack(number)))
        peer.until(spec.Basic.Get)
        peer.write(carried(spec.Basic.GetOk(1, False, "", "own", 119), message_id="p1:1"))
        peer.until(spec.Basic.Get)
        peer.write(said(spec.Basic.GetEmpty()))

    answers = session(script).asked("does basic.get find what a queue holds")

    assert [("basic.get with 120 of 120 messages in the queue", True), (answers[1].call, False)] == [
        (each.call, each.holds) for each in answers
    ]
    assert "Basic.GetEmpty" == answers[1].result


def test_a_question_of_another_protocol_has_no_answer():
    """Each protocol lists what its sessions can ask."""
    assert QUESTIONS.keys() == describe("amqp091").traits.questions
    assert not describe("amqp").traits.questions
