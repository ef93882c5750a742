"""Messages of AMQP 0-9-1 as the bundled broker stores them: every property comes back, and other protocols see it."""

from __future__ import annotations

import datetime
import decimal

import pytest
from pika import frame, spec
from proton import Message

from conformance.reference.amqp091.codec import Amqp091Error
from conformance.reference.amqp091.message import show, store
from conformance.reference.core.sections import encode, parse
from conformance.reference.stomp import message as stomp

WHEN = datetime.datetime(2026, 5, 6, 7, 8, 9, tzinfo=datetime.UTC)
HEADERS = {
    "text": "ä",
    "long": "x" * 300,
    "yes": True,
    "no": False,
    "none": None,
    "small": -5,
    "large": 1 << 40,
    "bytes": b"\xff\x00",
    "half": decimal.Decimal("0.5"),
    "cents": decimal.Decimal("-12.34"),
    "when": WHEN,
    "table": {"list": [1, "two", {"three": True}], "empty": {}},
}
EVERY = spec.BasicProperties(
    content_type="text/plain",
    content_encoding="utf-8",
    headers=HEADERS,
    delivery_mode=2,
    priority=9,
    correlation_id="c",
    reply_to="r",
    expiration="60000",
    message_id="p1:7",
    timestamp=1_700_000_000,
    type="t",
    user_id="guest",
    app_id="app",
)


def stored(properties, body=b"body"):
    return store(b"".join(properties.encode()), body)


def shown(parsed, count=0):
    """What a consumer gets, as pika reads it."""
    properties, body = show(parsed.bare, durable=parsed.durable, rest=parsed.rest, count=count)
    data = frame.Header(1, len(body), spec.BasicProperties()).marshal()[:-3] + properties
    found = spec.BasicProperties()
    found.decode(data[-len(properties) :])
    return found, body


@pytest.mark.parametrize(
    "properties",
    [EVERY, spec.BasicProperties(delivery_mode=1), spec.BasicProperties(delivery_mode=1, headers={"a": 1})],
)
def test_properties_come_back(properties):
    """Each in its own type; what was not said is not there."""
    found, body = shown(stored(properties))

    assert found == properties
    assert body == b"body"


def test_other_protocols_see_the_same_message():
    parsed = stored(EVERY)
    message = Message()
    message.decode(encode(parsed.durable, parsed.rest, True, 0, parsed.bare))

    assert (message.id, message.correlation_id, message.reply_to, message.subject) == ("p1:7", "c", "r", "t")
    assert (message.durable, message.priority, message.ttl) == (True, 9, 60)
    assert (message.content_type, message.creation_time, message.group_id) == ("text/plain", 1_700_000_000, "app")
    assert (message.properties["yes"], message.properties["large"], bytes(message.body)) == (True, 1 << 40, b"body")
    text = stomp.show(parsed.bare)
    assert dict(text.headers)["text"] == "ä"
    assert text.body == b"body"


@pytest.mark.parametrize(
    ("body", "seen"), [("text", b"text"), (b"bytes", b"bytes"), (5, b"5"), ([1], None), (None, b"")]
)
def test_messages_of_other_protocols(body, seen):
    """A body that is no bytes is text where it has one, and else its encoded sections."""
    sent = Message(body, durable=True, id="i", properties={"n": 1, "s": "t"})
    parsed = parse(bytes(sent.encode()))
    found, content = shown(parsed, count=3)

    assert content == (parsed.bare if seen is None else seen)
    assert (found.message_id, found.delivery_mode, found.headers["x-delivery-count"]) == ("i", 2, 3)
    assert {name: found.headers[name] for name in "ns"} == {"n": 1, "s": "t"}


def test_a_stomp_message():
    found, body = shown(stomp.store({"persistent": "true", "colour": "red", "priority": "3"}, b"b"))

    assert (found.headers, found.priority, body) == ({"colour": "red"}, 3, b"b")


def test_a_sender_does_not_pass_for_the_broker():
    found, _ = shown(stored(spec.BasicProperties(headers={"x-delivery-count": 9, "a": 1})))

    assert found.headers == {"a": 1}


@pytest.mark.parametrize(("expiration", "ttl_ms"), [("0", 1), ("1", 1), ("4294967295", 4_294_967_295)])
def test_expirations(expiration, ttl_ms):
    assert stored(spec.BasicProperties(expiration=expiration)).ttl_ms == ttl_ms


@pytest.mark.parametrize("expiration", ["", "-1", "1.5", "4294967296", "9" * 40, "\u0661"])
def test_expirations_that_are_none(expiration):
    with pytest.raises(Amqp091Error, match="PRECONDITION_FAILED - expiration"):
        stored(spec.BasicProperties(expiration=expiration))


@pytest.mark.parametrize(
    "section", [b"\x00\x53\x74\xc1\x04\x01\xa1\x01a", b"\x00\x53\x74\xc1\xff\x02", b"\x00\x53\x73\x45\x00\x53\x76\x45"]
)
def test_sections_that_cannot_be_read(section):
    """A map without its last value, one that is cut, and a sequence: the body is the encoded sections."""
    assert shown(parse(section))[1] == section
