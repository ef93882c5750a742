"""What STOMP stores is an AMQP message, and what AMQP stores has a shape in STOMP."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Array, Data, Message, symbol, timestamp, ulong

from conformance.reference.core.sections import encode, parse
from conformance.reference.stomp.message import RESERVED, show, store


def bare(**fields):
    """What the broker keeps of a message that an AMQP client encoded."""
    return parse(bytes(Message(**fields).encode())).bare


def amqp(headers, body):
    """What an AMQP client decodes of a message that came over STOMP."""
    parsed = store(headers, body)
    message = Message()
    message.decode(encode(parsed.durable, parsed.rest, True, 0, parsed.bare))
    return message


def test_an_amqp_client_reads_what_stomp_stored():
    """Headers are application properties, the body is data, the content-type is the content-type."""
    message = amqp(
        {"destination": "q", "persistent": "true", "content-type": "text/plain", "a": "b", "\u00e9": ""}, b"x"
    )

    assert (message.durable, message.content_type, message.body, message.inferred) == (True, "text/plain", b"x", True)
    assert message.properties == {"a": "b", "\u00e9": ""}


@pytest.mark.parametrize(
    ("headers", "durable"), [({}, False), ({"persistent": "false"}, False), ({"persistent": "true"}, True)]
)
def test_only_persistent_true_is_durable(headers, durable):
    """Without the header nothing is promised."""
    assert store(headers, b"").durable is durable


def test_instructions_to_the_broker_are_not_stored():
    """Nor what would pass for its own headers on MESSAGE."""
    reserved = dict.fromkeys(RESERVED - {"content-type", "expires"}, "x")

    assert show(store(reserved | {"expires": "5", "kept": "y"}, b"").bare) == (
        [("kept", "y")],
        b"",
    )


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


@given(
    st.dictionaries(_TEXT.filter(lambda name: name not in RESERVED), _TEXT, max_size=5), st.binary(), st.none() | _TEXT
)
def test_what_is_stored_is_shown(headers, body, kind):
    """Any headers, any body, any content-type; proton agrees on all but the last."""
    sent = headers | ({"content-type": kind} if kind else {})
    shown = show(store(sent, body).bare)

    assert (dict(shown.headers), shown.body) == (sent, body)
    read = amqp(headers, body)
    assert (read.properties or {}, read.body) == (headers, body)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"\0\xff", b"\0\xff"),
        ("gr\u00fcn", "gr\u00fcn".encode()),
        (None, b""),
        (42, b"42"),
        (-(2**40), b"-1099511627776"),
        (True, b"true"),
        (1.5, b"1.5"),
        (ulong(0), b"0"),
        (symbol("s"), b"s"),
        (timestamp(5), b"5"),
        (uuid.UUID(int=1), b"00000000-0000-0000-0000-000000000001"),
        (b"x" * 300, b"x" * 300),
    ],
)
def test_a_simple_body_of_an_amqp_client_is_shown(body, shown):
    """Bytes as they are, all else as text."""
    assert show(bare(body=body)) == ([], shown)


@pytest.mark.parametrize("body", [[1, 2], {"a": 1}, Array(None, Data.INT, 1, 2)])
def test_a_body_that_stomp_has_no_shape_for_is_shown_encoded(body):
    """With a header that says so, and nothing is invented."""
    kept = bare(body=body)

    assert show(kept) == ([("amqp-encoded", "true")], kept)


@pytest.mark.parametrize(
    "kept",
    [
        *(b"\x00", b"\x00\x53", b"\xff\xff", b"\x00\x53\x75\xb0\xff\xff\xff\xff", b"\x00\x53\x73\xa1\x01a"),
        b"\x00\xa3\x10amqp:data:binary\xa0\x01a",  # a section that is named and not numbered
        # a list and a map whose last string is longer than what there is
        b"\x00\x53\x73\xc0\x04\x01\xa1\x09b",
        b"\x00\x53\x74\xc1\x07\x02\xa1\x01a\xa1\x09b",
    ],
)
def test_sections_that_cannot_be_read_are_shown_encoded(kept):
    """The broker stores what it does not look into, so it may find anything there."""
    assert show(kept) == ([("amqp-encoded", "true")], kept)


@given(st.binary(max_size=40), st.sampled_from([b"\x00\x53\x73", b"\x00\x53\x74", b"\x00\x53\x75", b"\x00\x53\x77"]))
def test_any_sections_are_shown(tail, start):
    """No exception reaches the dispatch of other messages."""
    shown = show(start + tail)

    assert isinstance(shown.body, bytes)
    assert all(isinstance(text, str) for header in shown.headers for text in header)


def test_properties_of_an_amqp_client_become_headers():
    """Numbers and truth values as text; message-id under a name of its own; lists and the broker's names not at all."""
    kept = bare(
        id="id-1",
        content_type="text/plain",
        annotations={symbol("x-y"): 1},
        properties={"n": 7, "t": True, "s": "x", "none": None, "list": [1], "ack": "forged", "b": b"\xff", "c": b"ok"},
        body=b"",
    )

    assert show(kept).headers == [
        ("amqp-message-id", "id-1"),
        ("content-type", "text/plain"),
        *[("n", "7"), ("t", "true"), ("s", "x"), ("c", "ok")],
    ]


def test_several_data_sections_are_one_body():
    """AMQP 1.0 section 3.2: one or more data sections."""
    assert show(b"\x00\x53\x75\xa0\x01a" + b"\x00\x80" + b"\0" * 7 + b"\x75\xa0\x01b").body == b"ab"
