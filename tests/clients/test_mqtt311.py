"""The session over MQTT 3.1.1, where it differs from that over MQTT 5: no properties, and few codes."""

import pytest
from mqtt_peer import (
    CONNECT,
    DISCONNECT,
    PUBACK,
    PUBLISH,
    PUBREC,
    SUBACK,
    SUBSCRIBE,
    MqttPeer,
    answer,
    opened,
    opened_311,
    packet,
    publish_311,
    text,
)
from scripted_sessions import on_peers, outcomes_of, sent

from conformance.clients.roles.modes import AckHeader
from conformance.clients.session import Disconnected, LoginRefused, Refused, pump_until
from conformance.errors import ClientError

ABSENT, PRESENT = packet(2, b"\0\0"), packet(2, b"\1\0")
"""A CONNACK of either kind: a flag and a return code, and no more."""


@pytest.fixture
def session():
    def peer_of(script, greeting=ABSENT):
        peer = MqttPeer(lambda peer: (script(peer), peer.until(DISCONNECT)), greeting)
        peer.suback = b"\2"
        return peer

    with on_peers(peer_of, opened_311) as start:
        yield start


def received(session, count=1):
    session.attach_receiver("q", 10, AckHeader.INDIVIDUAL)
    assert pump_until(session.pump, lambda: len(session.incoming) == count, 10), "they did not come"
    return [(each.message, each.body, each.altered) for each in session.incoming]


def payloads(session, kind):
    """What the broker read of this kind, once the session has closed."""
    session.close()
    session.peer.close()
    return [payload for found, _, payload in session.peer.packets if found == kind]


def test_a_session_that_is_not_clean_is_asked_for(session):
    """Section 3.1.2.4: the sender's session ends with its connection, and that of the queue does not."""
    made = session(greeting=PRESENT)
    made.attach_receiver("q", 10, AckHeader.INDIVIDUAL)
    sender = session()
    sender.attach_sender("q")

    assert [b"\0\4MQTT\4\0\0\0\0\1q"] == payloads(made, CONNECT)
    assert b"\0\4MQTT\4\2\0\0" == payloads(sender, CONNECT)[0][:10]


def test_packets_have_no_properties(session):
    made = session(lambda peer: (peer.until(SUBSCRIBE), peer.write(publish_311(7, b"p1:1 body"))))
    received(made)
    sender = session(lambda peer: (peer.until(PUBLISH), peer.write(answer(PUBACK, 1))))
    sender.attach_sender("q")
    sender.send("p1:1", b"p1:1 body", durable=True)
    assert pump_until(sender.pump, lambda: bool(sender.outcomes), 10)

    assert [("p1:1", "ok", None)] == outcomes_of(sender)
    assert [text(b"q") + b"\0\1p1:1 body"] == payloads(sender, PUBLISH)
    assert [b"\0\1" + text(b"q") + b"\2"] == payloads(made, SUBSCRIBE)


def test_the_first_word_of_a_body_names_the_message(session):
    bodies = (b"p1:7 0badcafe\nrest", b"p1:8", b"", b" x", b"\xff\xfe")
    made = session(
        lambda peer: (peer.until(SUBSCRIBE), peer.write(*(publish_311(1 + n, body) for n, body in enumerate(bodies))))
    )

    assert [
        ("p1:7", b"p1:7 0badcafe\nrest", False),
        ("p1:8", b"", False),
        ("foreign:3", b"", False),
        ("foreign:4", b" x", False),
        ("\ufffd\ufffd", b"", False),
    ] == received(made, 5)


def test_a_message_without_a_body_has_its_id_as_its_body(session):
    made = session(lambda peer: peer.until(PUBLISH))
    made.attach_sender("q")
    made.send("p1:8", b"", durable=True)
    pump_until(made.pump, lambda: False, 0.1)

    assert [text(b"q") + b"\0\1p1:8"] == payloads(made, PUBLISH)


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (1, Refused, "0x84 unsupported protocol version"),
        (2, Refused, "0x85 client identifier not valid"),
        (3, Refused, "0x88 server unavailable"),
        (4, LoginRefused, "0x86 bad user name or password"),
        (5, LoginRefused, "0x87 not authorized"),
    ],
)
def test_a_return_code_is_a_refusal(code, error, said):
    """Also to a client of MQTT 5: a broker without it answers so."""
    for opening in (opened, opened_311):
        peer = MqttPeer(lambda peer: None, packet(2, bytes([0, code])))
        with pytest.raises(error, match=said):
            opening(peer.port).attach_sender("q")
        peer.close()


def test_a_subscription_that_is_refused(session):
    made = session()
    made.peer.suback = b"\x80"

    with pytest.raises(Refused, match="the broker refused a SUBSCRIBE: 0x80"):
        made.attach_receiver("q", 10, AckHeader.INDIVIDUAL)


def test_a_publish_that_is_not_taken_ends_the_connection(session):
    """MQTT-3.3.5-2: it has no other way to say so."""
    made = session(lambda peer: (peer.until(PUBLISH), peer.socket.close()))
    sent(made, 1)

    with pytest.raises(Disconnected):
        pump_until(made.pump, lambda: False, 10)
    assert [] == outcomes_of(made)


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (packet(SUBACK, b"\0\1"), "a SUBACK without what it must have"),
        (packet(PUBACK, b"\0\1\x97"), "a PUBACK with a reason code"),
        (packet(PUBREC, b"\0\1\0\0"), "a PUBREC with a reason code"),
        (packet(DISCONNECT), "a DISCONNECT, which no broker sends"),
    ],
)
def test_a_broken_protocol_ends_the_client(session, says, why):
    made = session(lambda peer: (peer.until(PUBLISH), peer.write(says)))
    sent(made, 1)

    with pytest.raises(ClientError, match=f"the broker broke the protocol: .*{why}"):
        pump_until(made.pump, lambda: False, 10)
