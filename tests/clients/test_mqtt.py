"""The session over MQTT 5: what it writes, what answers mean, and a broker that breaks the protocol."""

import tracemalloc

import pytest
from mqtt_peer import (
    CONNECT,
    DISCONNECT,
    OWN,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    SUBSCRIBE,
    MqttPeer,
    answer,
    connack,
    on_mqtt_peers,
    opened,
    packet,
    publish,
    text,
    user,
)
from scripted_sessions import outcomes_of, sent

from conformance import limits
from conformance.adapters.credentials import Access, Secret
from conformance.clients.roles.modes import AckHeader
from conformance.clients.session import Disconnected, LoginRefused, Refused, pump_until
from conformance.errors import ClientError
from conformance.protocols.mqtt.sessions.session import ABSENT
from conformance.scenario.script import Publish


@pytest.fixture
def session():
    with on_mqtt_peers() as start:
        yield start


def answering(*answers, publishes=3):
    """A script that answers after so many publishes."""

    def script(peer):
        for _ in range(publishes):
            peer.until(PUBLISH)
        peer.write(*answers)

    return script


def outcomes(session, count):
    assert pump_until(session.pump, lambda: len(session.outcomes) == count, 10), "they did not come"
    return outcomes_of(session)


def received(session, count=1):
    session.attach_receiver("q", 10, AckHeader.INDIVIDUAL)
    assert pump_until(session.pump, lambda: len(session.incoming) == count, 10), "they did not come"
    return list(session.incoming)


def kinds(session):
    """What the broker read after the CONNECT, once the session has closed."""
    session.close()
    session.peer.close()
    return [kind for kind, _, _ in session.peer.packets if kind != CONNECT]


# sends


def test_each_send_gets_its_answer(session):
    """By the packet identifier, in any order."""
    made = session(answering(answer(PUBACK, 2), answer(PUBACK, 1, 0), answer(PUBACK, 3, 0x97)))
    sent(made)

    assert [("p1:2", "ok", None), ("p1:1", "ok", None), ("p1:3", "fail", "0x97 quota exceeded")] == outcomes(made, 3)


@pytest.mark.parametrize(("lives_ms", "said"), [(0, b""), (1_500, b"\x02\0\0\0\x02"), (2**31, b"\x02\0\x20\xc4\x9c")])
def test_a_time_to_live_is_said_in_seconds_and_never_shortened(session, lives_ms, said):
    """Before the user properties."""
    made = session(answering(answer(PUBACK, 1), publishes=1), step=Publish(1, window=1, lives_ms=lives_ms))
    sent(made, 1)
    outcomes(made, 1)
    ((_, _, payload),) = [each for each in made.peer.packets if each[0] == PUBLISH]
    topic = len(text(b"q"))

    assert payload[topic + 3 :].startswith(said + user(b"conformance_id", b"p1:1"))


def test_a_message_without_a_subscriber_is_refused(session):
    """It is in no session: the broker says so with 0x10, which is a success of the protocol."""
    made = session(answering(answer(PUBACK, 1, 0x10), publishes=1))
    sent(made, 1)

    assert [("p1:1", "fail", "0x10 no matching subscribers")] == outcomes(made, 1)


def test_qos_2_is_confirmed_by_pubcomp(session):
    """A PUBREC that refuses ends the exchange; 0x10 in it says that no session has the message."""

    def script(peer):
        answering(answer(PUBREC, 1), answer(PUBREC, 2, 0x97), answer(PUBREC, 3, 0x10))(peer)
        peer.until(PUBREL)
        peer.until(PUBREL)
        peer.write(answer(PUBCOMP, 1), answer(PUBCOMP, 3))

    made = session(script, own={**OWN, "qos": 2})
    sent(made)

    assert [
        ("p1:2", "fail", "0x97 quota exceeded"),
        ("p1:1", "ok", None),
        ("p1:3", "fail", "0x10 no matching subscribers"),
    ] == outcomes(made, 3)
    assert [4, 4, 4] == [flags for kind, flags, _ in made.peer.packets if kind == PUBLISH]


def test_an_answer_to_nothing_is_an_anomaly(session):
    made = session(answering(answer(PUBACK, 1), answer(PUBACK, 1), answer(PUBACK, 9)))
    sent(made)
    assert pump_until(made.pump, lambda: len(made.anomalies) == 2, 10)

    assert [
        "a PUBACK for packet 1, which has no answer to come",
        "a PUBACK for packet 9, which has no answer to come",
    ] == [*made.anomalies]


def test_the_window_is_the_receive_maximum_of_the_broker(session):
    made = session(greeting=connack(properties=b"\x21\0\3"))
    made.attach_sender("q")
    before = made.sendable()
    made.send("p1:1", b"body", durable=True)

    assert (3, 2) == (before, made.sendable())


def test_a_publish_names_its_message(session):
    """A link knows it by the user property; a control character would break the packet (section 1.5.4)."""
    made = session(answering(answer(PUBACK, 1), publishes=1), publishers=(Publish(1, 1, headers=True),))
    sent(made, 1)
    outcomes(made, 1)
    kinds(made)
    payload = next(payload for kind, _, payload in made.peer.packets if kind == PUBLISH)

    assert user(b"conformance_id", b"p1:1") in payload
    assert payload.endswith(b"body")
    assert user(b"signs", b"a\\b:c\\rd\\ne") in payload


def test_a_message_that_the_broker_does_not_take_is_not_sent(session):
    made = session(greeting=connack(properties=b"\x27\0\0\0\x20"))
    made.attach_sender("q")

    with pytest.raises(ClientError, match="the broker takes packets of 32 bytes"):
        made.send("p1:1", bytes(100), durable=True)


# deliveries


def test_a_receiver_subscribes_only_to_a_session_that_is_gone(session):
    """The subscription is part of the session; a second SUBSCRIBE would hide that it was lost."""
    kept, gone = session(greeting=connack(present=True)), session()
    kept.attach_receiver("q", 10, AckHeader.INDIVIDUAL)
    gone.attach_receiver("q", 10, AckHeader.INDIVIDUAL)

    assert ("", ABSENT) == (kept.found, gone.found)
    assert [False, True] == [SUBSCRIBE in kinds(each) for each in (kept, gone)]


def test_what_comes_with_the_connack_is_delivered(session):
    made = session(greeting=connack(present=True) + publish(1) + publish(2, b"p1:2", again=True))
    found = received(made, 2)

    assert [("p1:1", False), ("p1:2", True)] == [(each.message, each.redelivered) for each in found]


def test_a_puback_acknowledges_one_delivery(session):
    made = session(lambda peer: (peer.until(SUBSCRIBE), peer.write(publish(7), publish(8, b"p1:2"))))
    first, _ = received(made, 2)
    made.acknowledge([first])
    kinds(made)

    assert [b"\0\7"] == [payload for kind, _, payload in made.peer.packets if kind == PUBACK]


def test_qos_2_is_acknowledged_by_pubrec_and_answered_by_pubrel(session):
    def script(peer):
        peer.until(SUBSCRIBE)
        peer.write(publish(7, qos=2))
        peer.until(PUBREC)
        peer.write(answer(PUBREL, 7))

    made = session(script)
    (found,) = received(made)
    made.acknowledge([found], confirmed=True)
    assert pump_until(made.pump, lambda: bool(made.answers), 10)

    assert ("p1:1", "ok") == (made.answers[0].subject, made.answers[0].phase.value)
    assert ["released"] == list(made.reached)
    assert [SUBSCRIBE, PUBREC, PUBCOMP, PINGREQ, DISCONNECT] == kinds(made)


def test_a_client_that_leaves_waits_until_its_acknowledgements_are_read(session):
    """Counter-example: Mosquitto, stopped with 300 unread PUBACKs, sends those messages again."""
    made = session(lambda peer: (peer.until(SUBSCRIBE), peer.write(publish(7))))
    made.acknowledge(received(made))

    assert [SUBSCRIBE, PUBACK, PINGREQ, DISCONNECT] == kinds(made)


def test_a_property_that_was_altered_is_seen(session):
    made = session(
        lambda peer: (peer.until(SUBSCRIBE), peer.write(publish(1, more=user(b"parity", b"even")), publish(2))),
        publishers=(Publish(1, 1, parity=True),),
    )

    assert [True, True] == [each.altered for each in received(made, 2)]


@pytest.mark.parametrize(("came", "depth"), [([b"marker-1"], 0), ([], 1), ([b"marker-1", b"p1:1"], 1)])
def test_the_depth_is_what_came_before_a_marker_or_soon_after(session, came, depth, monkeypatch):
    """The first connection is the receiver's, the second that of the marker."""
    comes = bool(came)
    monkeypatch.setattr("conformance.protocols.mqtt.sessions.session._MARKER_S", 5.0 if comes else 0.1)
    made = session(greeting=connack(present=True) + (b"" if comes else publish(1)))
    made.attach_receiver("q", 10, AckHeader.INDIVIDUAL)
    marked = MqttPeer(lambda peer: (peer.until(PUBLISH), peer.until(DISCONNECT)))
    made._login._port = marked.port
    if comes:
        made._open_sender()
        made._marker = "marker-1"
        made.peer.write(b"".join(publish(number, name, body=b"") for number, name in enumerate(came, 1)))

    assert depth == made.depth("q")
    made.close()
    marked.close()


# the end


def test_a_login_that_is_refused_names_who(tmp_path):
    peer = MqttPeer(lambda peer: None, connack(reason=0x86))
    (tmp_path / "password").write_text("secret")
    access = Access(user="alice", password=Secret(file=str(tmp_path / "password")))

    with pytest.raises(LoginRefused, match="the login of 'alice' was refused: 0x86 bad user name or password"):
        opened(peer.port, access=access).attach_sender("q")
    peer.close()


def test_a_disconnect_of_the_broker_is_a_refusal(session):
    made = session(answering(packet(DISCONNECT, b"\x8b\0")))
    sent(made)

    with pytest.raises(Refused, match="0x8b server shutting down"):
        pump_until(made.pump, lambda: False, 10)


def test_answers_before_the_end_are_read(session):
    made = session(lambda peer: (answering(answer(PUBACK, 1))(peer), peer.socket.close()))
    sent(made)

    with pytest.raises(Disconnected):
        pump_until(made.pump, lambda: False, 10)
    assert ["p1:1"] == [each.message for each in made.outcomes]


def test_the_keep_alive_of_the_broker_is_used(session):
    """Section 3.2.2.3.14; Artemis asks for 60 s."""
    made = session(lambda peer: peer.until(PINGREQ), greeting=connack(properties=b"\x13\0\1"))
    made.attach_sender("q")
    pump_until(made.pump, lambda: False, 1.5)

    assert PINGREQ in [kind for kind, _, _ in made.peer.packets]


# a broker that breaks the protocol


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (b"\x00\x00", "a packet that begins with 0x00"),
        (b"\x41\x02\0\1", "a packet that begins with 0x41"),
        (b"\x36\x00", "a packet that begins with 0x36"),
        (b"\x40\xff\xff\xff\xff\x01", "a number of more than four bytes"),
        (b"\x40\x01\x00", "a number that is longer than its packet"),
        (packet(PUBACK, b"\0\0"), "a PUBACK without what it must have"),
        (packet(PUBACK, b"\0\1\0\7\x26"), "properties that are longer than their packet"),
        (packet(PUBACK, b"\0\1\0\2\x7f\0"), "a property 0x7f"),
        (packet(PUBACK, b"\0\1\0\3\x1f\0\7"), "a text that is longer than its packet"),
        (connack(), "a CONNACK, which no broker sends"),
        (packet(CONNECT), "a CONNECT, which no broker sends"),
        (publish(1), "a delivery to a client that has not subscribed"),
        (answer(PUBREL, 1), "a delivery to a client that has not subscribed"),
        (packet(DISCONNECT, b"\x8b\x7f"), "properties that are longer"),
        (packet(SUBACK, b"\0\1\0"), "a SUBACK without what it must have"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a packet that begins with 0x48"),
    ],
)
def test_a_broken_protocol_ends_the_client(session, says, why):
    made = session(answering(says))
    sent(made)

    with pytest.raises(ClientError, match=f"the broker broke the protocol: .*{why}"):
        pump_until(made.pump, lambda: False, 10)


@pytest.mark.parametrize("greeting", [publish(1), packet(PINGRESP), b"\x20\x02\x02\x00", b"\x20\x00"])
def test_only_a_connack_opens(greeting):
    peer = MqttPeer(lambda peer: None, greeting)

    with pytest.raises(ClientError, match="the broker broke the protocol: "):
        opened(peer.port).attach_sender("q")
    peer.close()


def test_the_rest_of_a_huge_packet_is_not_kept(session):
    """Its length is that of 256 MiB, in four bytes."""
    made = session(answering(b"\x30\xff\xff\xff\x7f", bytes(1 << 22)))
    sent(made)
    tracemalloc.start()
    with pytest.raises(ClientError, match="a packet of 268,435,460 bytes"):
        pump_until(made.pump, lambda: False, 10)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 1 << 21


def test_answers_without_end_are_bounded(session, monkeypatch):
    monkeypatch.setattr(limits, "UNTRUE_RECEIPTS", 10)
    made = session(answering(*[answer(PUBACK, 9)] * 20))
    sent(made)

    with pytest.raises(ClientError, match="confirms that answer nothing of more than 10"):
        pump_until(made.pump, lambda: False, 10)


def test_a_broker_that_never_answers_is_given_up():
    peer = MqttPeer(lambda peer: peer.go.wait(10), b"")

    with pytest.raises(ClientError, match="did not answer CONNECT within 0 s"):
        opened(peer.port, connect_s=0.1).attach_sender("q")
    peer.close()
