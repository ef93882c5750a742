"""Selectors: which messages they match, what a queue passes over, and what both protocols answer."""

from __future__ import annotations

import pytest
from job_rig import make_job
from proton import Data, Described, Message, symbol, ulong
from proton.reactor import LinkOption

from conformance.clients.job import Work
from conformance.clients.roles.modes import AckHeader
from conformance.clients.session import pump_until
from conformance.errors import ClientError
from conformance.protocols.amqp.sessions.session import AmqpSession
from conformance.protocols.stomp.sessions.raw_session import RawStompSession
from conformance.reference.core import selector
from conformance.reference.stomp.message import store
from conformance.scenario import options
from conformance.scenario.script import Consume, Publish
from conformance.scenario.selectors import SELECTORS, is_selected

from .queue_rig import Rig

SELECTOR_FILTER = ulong(0x0000468C00000004)
RED, BLUE = ({"colour": word} for word in ("red", "blue"))


def bare(*, body=b"x", **properties):
    """A message without its header, as a client over AMQP encodes it."""
    encoded = Message(body=body, properties=properties, annotations={symbol("x"): 1}, id="1").encode()
    encoded = Message(body=body, properties=properties, annotations={symbol("x"): 1}, id="1").encode()
    return bytes(encoded[encoded.index(b"\x00\x53\x72") :])


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("colour = 'red'", True),
        (" colour='red' ", True),
        ("colour = 'blue'", False),
        ("Colour = 'red'", False),
        ("owner = 'O''Neill'", True),
        ("size = '3'", False),
        ("long = '" + "y" * 300 + "'", True),
        ("x = 'red'", False),
    ],
)
def test_a_selector_compares_one_property(text, matches):
    """Of the application properties; a number is no text."""
    message = bare(colour="red", size=3, owner="O'Neill", long="y" * 300)

    assert selector.parse(text).matches(message) == matches


def test_a_header_of_stomp_is_a_property():
    chosen = selector.parse("colour = 'red'")

    assert [chosen.matches(store(headers, b"").bare) for headers in (RED, BLUE, {})] == [True, False, False]


@pytest.mark.parametrize("message", [b"", b"\x00\x53\x74", b"\x00\x53\x74\xc1\xff\x02\xa1", b"\x00\xa3\x01x\x40"])
def test_what_cannot_be_read_does_not_match(message):
    assert selector.parse("colour = 'red'").matches(message) is False


@pytest.mark.parametrize("name", SELECTORS)
def test_the_broker_and_the_suite_agree_on_each_selector_of_the_scenarios(name):
    """Two implementations, written apart from each other."""
    chosen = selector.parse(SELECTORS[name].text)
    step = Publish(70, window=1, headers=True, parity=True)
    given = {number: options.properties(step, f"p1:{number}") for number in range(1, 71)}

    assert [number for number in given if is_selected(name, f"p1:{number}")] == [
        number for number in given if chosen.matches(bare(**given[number]))
    ]


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("absent = 1", None),
        ("NOT absent", None),
        ("absent = 1 OR TRUE", True),
        ("absent = 1 AND FALSE", False),
        ("colour LIKE 'r%d%'", True),
        ("colour LIKE 'r'", False),
        ("size / 2 = 1 AND -size / 2 = -1 AND size / 2.0 = 1.5", True),
        ("size / 0 = 1", None),
        ("size = '3' OR size > 'a'", False),
        ("colour > 'a'", False),
        ("NOT NOT size = 3", True),
        ("colour + 1 = 2", None),
    ],
)
def test_a_selector_is_true_false_or_unknown(text, matches):
    assert selector.parse(text).value({"colour": "red", "size": 3}) is matches


@pytest.mark.parametrize(
    "text",
    """|a =|= 1|a = 1 b|JMSType = 'b'|a = 'b|a IS 1|a NOT 1|a IN ()|a IN (1)|a LIKE b|a LIKE 'b' ESCAPE 'cc'|a BETWEEN 1 OR 2
    |(a = 1|a = 1)|a = "b"|AND|NOT""".split("|"),
)
def test_any_other_text_is_unknown(text):
    assert selector.parse(text) is None


@pytest.mark.parametrize("text", ["(" * 5000 + "a" + ")" * 5000, "(" * 60 + "a" + ")" * 60, "a = " + "1" * 5000])
def test_a_selector_too_long_or_deep_is_unknown(text):
    assert selector.parse(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "NOT " * 1000 + "a",
        "a LIKE '" + "%a" * 1000 + "b'",
        "a = " + "+-" * 2000 + "1",
        "a = " + "9" * 4000 + " * 1e300",
    ],
)
def test_a_hostile_selector_costs_little(text):
    assert selector.parse(text).value({"a": "a" * 10_000}) is not True


def test_a_selector_passes_over_and_keeps():
    """What it passes over stays at its place, for a consumer without a selector, after a restart too."""
    rig = Rig()
    messages = [bare(body=b"%d" % number, colour="red" if number % 2 else "blue") for number in range(6)]
    for message in messages:
        rig.send(message)
    rig.disk()
    blue, got = rig.link(2, selector=selector.parse("colour = 'blue'"))
    rig.settle(blue, 1)
    rig.broker.unsubscribe(blue)
    rig.disk()

    assert [body for body, _, _ in got.values()] == [messages[0], messages[2]]
    assert [body for body, _, _ in rig.link()[1].values()] == messages[1:]
    assert rig.again().bodies() == messages[1:]


class Filters(LinkOption):
    """Filters of an attach, and what its answer has of them."""

    def __init__(self, **filters):
        self.filters = {symbol(name): value for name, value in filters.items()}

    def apply(self, link):
        link.source.filter.put_dict(self.filters)


def answered(link):
    found = link.remote_source.filter
    found.rewind()
    return found.get_dict() if found.next() == Data.MAP else {}


@pytest.mark.parametrize("descriptor", [SELECTOR_FILTER, symbol("apache.org:selector-filter:string")])
def test_the_answer_to_an_attach_has_the_filter_that_is_in_force(broker, peer, descriptor):
    """Section 3.5.3. Its descriptor may be a number or a symbol; every other filter is left out."""
    client = peer(broker)
    named = {"mine": Described(descriptor, "colour = 'red'"), "other": Described(symbol("a:b"), "colour = 'red'")}
    receiver = client.connection.create_receiver(broker.queue, options=Filters(**named))

    assert answered(receiver.link) == {symbol("mine"): Described(SELECTOR_FILTER, "colour = 'red'")}


@pytest.mark.parametrize("text", ["colour = 'red' OR JMSPriority > 3", 7])
def test_a_filter_that_the_broker_does_not_know_is_left_out(broker, peer, text):
    client = peer(broker)
    receiver = client.connection.create_receiver(broker.queue, options=Filters(mine=Described(SELECTOR_FILTER, text)))

    assert answered(receiver.link) == {}


def session(kind, broker, step):
    place, protocol = (broker.amqp, "amqp") if kind is AmqpSession else (broker.stomp, "stomp")
    port = int(place.rpartition(":")[2])
    sent = (step,) if isinstance(step, Publish) else ()
    return kind(make_job(step, port=port, protocol=protocol, queue=broker.queue, publishers=sent), lambda: None)


@pytest.mark.parametrize("kind", [AmqpSession, RawStompSession])
def test_a_session_is_sent_what_its_selector_matches(broker, kind):
    sends = session(kind, broker, Publish(6, window=6, parity=True))
    sends.attach_sender(broker.queue)
    assert pump_until(sends.pump, sends.sendable, 10)
    for number in range(1, 7):
        sends.send(f"p1:{number}", b"x", durable=True)
    assert pump_until(sends.pump, lambda: len(sends.outcomes) == 6, 10)
    takes = session(kind, broker, Consume("individual", selects="even"))
    takes.attach_receiver(broker.queue, 10, AckHeader.INDIVIDUAL)
    assert pump_until(takes.pump, lambda: len(takes.incoming) >= 3, 10)
    takes.pump(0.2)

    assert [received.message for received in takes.incoming] == ["p1:2", "p1:4", "p1:6"]
    sends.close()
    takes.close()


@pytest.mark.parametrize(("kind", "says"), [(AmqpSession, "left the selector"), (RawStompSession, "sent ERROR")])
def test_a_session_whose_selector_is_not_taken_does_not_go_on(broker, kind, says, monkeypatch):
    """A broker without selectors would send it everything, and the trial would prove nothing."""
    monkeypatch.setattr(Work, "selector", property(lambda work: "parity LIKE e"))
    takes = session(kind, broker, Consume("individual", selects="even"))

    with pytest.raises(ClientError, match=says):
        takes.attach_receiver(broker.queue, 10, AckHeader.INDIVIDUAL)
    takes.close()
