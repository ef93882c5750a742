"""Exactly once over MQTT: a session that outlives its connection, and what its next client goes on with."""

import pytest
from mqtt_peer import (
    CONNECT,
    DISCONNECT,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    MqttPeer,
    answer,
    connack,
    on_mqtt_peers,
    opened,
    publish,
)
from scripted_sessions import outcomes_of

from conformance.clients.job import OpenPacket
from conformance.clients.roles.modes import AckHeader
from conformance.clients.session import Disconnected, pump_until
from conformance.errors import ClientError
from conformance.protocols.mqtt.sessions.session import ABSENT
from conformance.scenario.script import Consume, Kill, Nth, Publish

SENDS = Publish(3, window=3, exactly_once=True)
GOES_ON = Publish(1, window=3, exactly_once=True, resends=True)
TAKES = Consume("individual")
RECEIVED, SENT = OpenPacket("p1:1", 7, True), OpenPacket("p1:2", 8, False)
PRESENT = connack(present=True)


@pytest.fixture
def session():
    with on_mqtt_peers() as start:
        yield start


def going_on(session, script, *packets, greeting=PRESENT, step=GOES_ON):
    made = session(script, greeting=greeting, step=step, resumes=packets)
    made.attach_sender("q")
    for each in packets:
        made.send(each.message, b"body", durable=True)
    return made


def read(session):
    """Kind, flags and packet identifier of what the broker read after the CONNECT."""
    session.close()
    session.peer.close()
    own = (PUBLISH, PUBREC, PUBREL, PUBCOMP)
    found = [each for each in session.peer.packets if each[0] in own]
    return [(kind, flags, data[3:5] if kind == PUBLISH else data[:2]) for kind, flags, data in found]


def number(value):
    return value.to_bytes(2)


def test_the_send_that_a_fault_waits_for_is_not_released_before_it(session):
    """The others are; what goes on knows that this one was received."""

    def script(peer):
        for _ in range(3):
            peer.until(PUBLISH)
        peer.write(answer(PUBREC, 1), answer(PUBREC, 2), answer(PUBREC, 3))

    step = Publish(1, window=3, exactly_once=True, resends=True, until=Kill(Nth("received", 2)))
    sent = [OpenPacket(f"p1:{each}", each, False) for each in (1, 2, 3)]
    made = going_on(session, script, *sent, step=step)
    assert pump_until(made.pump, lambda: len(made.reached) == 5, 10)

    assert ["received", "released", "received", "received", "released"] == list(made.reached)
    assert [True] * 3 == [each.answered for each in made.unfinished()]
    assert [number(1), number(3)] == [data for kind, _, data in read(made) if kind == PUBREL]


def test_what_was_received_is_released_and_the_rest_is_sent_again(session):
    """In their order, under their identifiers, and with DUP; in recovery the broker may not know one (0x92)."""

    def script(peer):
        peer.until(PUBLISH)
        peer.write(answer(PUBCOMP, 7, 0x92), answer(PUBREC, 8))
        peer.until(PUBREL)
        peer.write(answer(PUBCOMP, 8))

    made = going_on(session, script, RECEIVED, SENT)
    assert pump_until(made.pump, lambda: len(made.outcomes) == 2, 10)

    assert [("p1:1", "ok", None), ("p1:2", "ok", None)] == outcomes_of(made)
    assert ("", ()) == (made.found, made.unfinished())
    assert [(PUBREL, 2, number(7)), (PUBLISH, 8 | 4, number(8)), (PUBREL, 2, number(8))] == read(made)


def test_what_is_open_when_the_connection_ends_is_left_to_a_later_client(session):
    """Also what it did not come to."""

    def script(peer):
        peer.until(PUBLISH)
        peer.write(answer(PUBREC, 8))
        peer.reset()

    rest = OpenPacket("p1:3", 9, False)
    made = session(script, greeting=PRESENT, step=GOES_ON, resumes=[RECEIVED, SENT, rest])
    made.attach_sender("q")
    made.send("p1:1", b"body", durable=True)
    made.send("p1:2", b"body", durable=True)
    with pytest.raises(Disconnected):
        pump_until(made.pump, lambda: False, 10)

    assert (RECEIVED, OpenPacket("p1:2", 8, True), rest) == made.unfinished()


def test_a_session_that_the_broker_forgot_is_reported(session):
    made = going_on(session, lambda _: None, RECEIVED, greeting=connack())

    assert ABSENT == made.found


def test_one_client_goes_on_for_one_publisher():
    """It says so before it connects."""
    made = opened(0, step=GOES_ON, resumes=[RECEIVED, OpenPacket("p2:1", 1, False)])
    with pytest.raises(ClientError, match="packets of several publishers"):
        made.attach_sender("q")


def taking(session, script, *packets, greeting=PRESENT):
    made = session(script, greeting=greeting, step=TAKES, resumes=packets)
    made.attach_receiver("q", 10, AckHeader.INDIVIDUAL)
    return made


def test_a_message_that_was_taken_is_not_handed_over_again(session):
    """Until its PUBREL; after it the identifier is that of another message."""

    def script(peer):
        peer.write(publish(7, qos=2, again=True))
        peer.until(PUBREC)
        peer.write(answer(PUBREL, 7))
        peer.until(PUBCOMP)
        peer.write(publish(7, b"p1:9", qos=2))

    made = taking(session, script, RECEIVED)
    assert pump_until(made.pump, lambda: len(made.incoming) == 1, 10)

    assert (["p1:9"], ()) == ([each.message for each in made.incoming], made.unfinished())
    assert [(PUBREC, 0, number(7)), (PUBCOMP, 0, number(7))] == read(made)


def test_what_was_taken_and_not_released_is_left_to_a_later_client(session):
    made = taking(session, lambda peer: peer.write(publish(7, qos=2)))
    assert pump_until(made.pump, lambda: len(made.incoming) == 1, 10)
    assert () == made.unfinished()
    made.acknowledge([made.incoming.popleft()])

    assert (RECEIVED,) == made.unfinished()


def test_a_new_session_knows_no_identifier(session):
    """Its broker forgot the old one, and numbers from 1 again."""
    made = taking(session, lambda peer: peer.write(publish(7, qos=2)), RECEIVED, greeting=connack())
    assert pump_until(made.pump, lambda: len(made.incoming) == 1, 10)

    assert (ABSENT, ()) == (made.found, made.unfinished())


def test_a_message_that_comes_twice_on_one_connection_is_handed_over_twice(session):
    """No broker may send again there: that is for the judge to see."""

    def script(peer):
        peer.write(publish(7, qos=2))
        peer.until(PUBREC)
        peer.write(publish(7, qos=2, again=True))

    made = taking(session, script)
    assert pump_until(made.pump, lambda: len(made.incoming) == 1, 10)
    made.acknowledge([made.incoming.popleft()])
    assert pump_until(made.pump, lambda: len(made.incoming) == 1, 10)


@pytest.mark.parametrize("kind", [PUBREC, PUBCOMP, PUBACK])
def test_an_answer_to_an_identifier_that_nothing_has_is_an_anomaly(session, kind):
    made = going_on(session, lambda peer: (peer.until(PUBREL), peer.write(answer(kind, 9))), RECEIVED)
    assert pump_until(made.pump, lambda: bool(made.anomalies), 10)

    assert "for packet 9, which has no answer to come" in made.anomalies[0]
    assert [RECEIVED] == list(made.unfinished())


def test_a_release_of_nothing_is_completed(session):
    """PUBREL without PUBREC: the broker may have lost what it knew, and must not wait for ever."""
    made = taking(session, lambda peer: (peer.write(answer(PUBREL, 5)), peer.until(PUBCOMP)))
    assert pump_until(made.pump, lambda: not made.peer._thread.is_alive() or len(made.peer.packets) > 1, 10)

    assert [(PUBCOMP, 0, number(5))] == read(made)


def test_a_publisher_begins_with_a_session_of_its_own_name(tmp_path):
    """First clean, so that nothing of an earlier run is known, and then one that never expires."""
    connects = []

    class Twice(MqttPeer):
        def _run(self):
            super()._run()
            connects.extend(each for each in self.packets if each[0] == CONNECT)
            self._rest, self.packets = b"", []
            super()._run()
            connects.extend(each for each in self.packets if each[0] == CONNECT)

    peer = Twice(lambda each: each.until(DISCONNECT))
    made = opened(peer.port, step=SENDS)
    made.attach_sender("q")
    made.close()
    peer.close()

    assert [2, 0] == [data[7] for _, _, data in connects]
    assert [bytes(4), b"\xff" * 4] == [data[12:16] for _, _, data in connects]
    assert connects[0][2][-12:] == connects[1][2][-12:]
