"""Liars over MQTT, each beside the honest broker: what acts in the core needs nothing of the protocol."""

from __future__ import annotations

import pytest

from conformance.protocols.mqtt.packets import PUBACK, PUBREC
from conformance.reference.liars import behaviour

from .mqtt_rig import Rig, bodies, deliveries


def sent(rig, count):
    """A publisher that has sent so many messages to the session `q`."""
    rig.client(subscribe="q", receive=2)
    publisher = rig.client("p", 0)
    for number in range(1, count + 1):
        publisher.publish(number, b"%d" % number)
    return publisher


def answered_before_storing(rig):
    return sent(rig, 1).heard(stored=False)


def kept_of_a_hundred(rig):
    sent(rig, 100).heard()
    return rig.depth("q")


def answers_to_a_hundred(rig):
    return len(sent(rig, 100).heard())


def sent_again(rig):
    """DUP of what comes to the next connection of the session."""
    sent(rig, 1).heard()
    rig.client().leave()
    return [again for _, again, _ in deliveries(rig.client().heard())]


def over_the_receive_maximum(rig):
    sent(rig, 10).heard()
    return len(bodies(rig.client(receive=2).heard()))


def after_an_acknowledgement(rig):
    sent(rig, 10).heard()
    consumer = rig.client(receive=2)
    consumer.heard()
    return bodies(consumer.asks(PUBACK, 1))


def retained_over_a_start(rig):
    rig.client("p", 0).publish(1, b"1", "t", retain=True)
    rig.disk()
    return bodies(rig.again().client(subscribe="t").suback)


def retained_of_two(rig):
    publisher = rig.client("p", 0)
    for number, body in enumerate((b"1", b"2"), 1):
        publisher.publish(number, body, "t", retain=True)
        publisher.heard()
    return bodies(rig.client(subscribe="t").suback)


def ends_after(rig):
    """The seconds after which two sessions end whose intervals are 24 and 30 days."""
    for name, days in (("q", 24), ("r", 30)):
        rig.client(name, days * 86_400).leave()
    return [seconds for seconds, _ in rig.timers]


def kept_after_a_connection(rig):
    sent(rig, 3).heard()
    rig.client().leave()
    return rig.depth("q")


def received_before(rig):
    """How often a message is stored whose publisher did not read its PUBREC, and sent it again after a lost connection.

    Or after a restart: then `again` is called.
    """
    return _sent_again(rig, rig)


def received_before_a_restart(rig):
    return _sent_again(rig, None)


def _sent_again(rig, later):
    rig.client(subscribe="q", receive=2)
    publisher = rig.client("p")
    publisher.publish(7, qos=2)
    publisher.leave()
    later = later or rig.again()
    later.client("p").publish(7, qos=2, again=True)
    later.disk()
    return later.depth("q")


def delivered_of_a_hundred_and_ten(rig):
    consumer = rig.client(subscribe="q", receive=200)
    publisher = rig.client("p", 0)
    for number in range(110):
        publisher.publish(number + 1)
    rig.disk()
    return len(deliveries(consumer.heard()))


def answered_again(rig):
    """The answer to a PUBLISH of QoS 2 that is sent again, by a publisher that did not read its PUBREC."""
    rig.client(subscribe="q", receive=2)
    first = rig.client("p")
    first.publish(7, qos=2)
    first.leave()
    publisher = rig.client("p")
    publisher.publish(7, qos=2, again=True)
    return [each[:2] for each in publisher.heard()]


def after_its_pubrel(rig):
    """What comes to the next connection of a session whose client read PUBREL, and lost PUBCOMP."""
    consumer = _given(rig, 1)
    consumer.heard()
    consumer.asks(PUBREC, 1)
    consumer.leave()
    return [each[:2] for each in rig.client().heard()]


def numbered_on_the_next(rig):
    """Whether a message has the same identifier on the next connection."""
    numbers = []
    for consumer in (_given(rig, 1), rig.client()):
        numbers += [number for number, _, _ in deliveries(consumer.heard())]
        consumer.leave()
    return numbers[0] == numbers[1]


def _given(rig, count):
    consumer = rig.client(subscribe="q")
    publisher = rig.client("p", 0)
    for number in range(1, count + 1):
        publisher.publish(number, b"%d" % number, qos=2)
    publisher.heard()
    return consumer


LIES = [
    ("forgets-received-identifiers", received_before, 2, 1),
    ("ends-sessions-of-a-month", ends_after, [2_073_600, 1], [2_073_600, 2_592_000]),
    ("forgets-retained-messages", retained_over_a_start, [], [b"1"]),
    ("retains-the-first-message", retained_of_two, [b"1"], [b"2"]),
    ("ignores-what-comes-again", answered_again, [], [("PUBREC", 7)]),
    ("forgets-sessions", received_before_a_restart, 2, 1),
    ("finishes-at-the-last-answer", after_its_pubrel, [("PUBLISH", 1)], [("PUBREL", 1)]),
    ("numbers-packets-anew", numbered_on_the_next, False, True),
    ("confirms-before-storing", answered_before_storing, [("PUBACK", 1, 0)], []),
    ("drops-every-tenth-send", kept_of_a_hundred, 90, 100),
    ("stores-every-hundredth-twice", kept_of_a_hundred, 101, 100),
    ("answers-every-hundredth-frame-twice", answers_to_a_hundred, 101, 100),
    ("never-answers-one-send", answers_to_a_hundred, 99, 100),
    ("never-marks-redelivered", sent_again, [False], [True]),
    ("ignores-prefetch", over_the_receive_maximum, 10, 2),
    ("never-refills-prefetch", after_an_acknowledgement, [], [b"3"]),
    ("removes-when-sending", kept_after_a_connection, 0, 3),
    ("skips-every-hundredth-delivery", delivered_of_a_hundred_and_ten, 99, 110),
]


@pytest.mark.parametrize(("name", "script", "wrong", "right"), LIES, ids=[row[0] for row in LIES])
def test_a_liar_is_wrong_in_one_way(name, script, wrong, right):
    assert (script(Rig(behaviour(name))), script(Rig(behaviour(None)))) == (wrong, right)
