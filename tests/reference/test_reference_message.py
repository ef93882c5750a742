"""The header codec against proton's own."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Message

from conformance.reference.core.sections import DecodeError, encode, parse, with_time_left


@given(
    durable=st.booleans(),
    priority=st.integers(0, 255),
    ttl=st.none() | st.integers(1, 2**31),
    body=st.none() | st.text() | st.binary() | st.integers(-(2**31), 2**31 - 1),
    count=st.integers(0, 2**32 - 1),
    first=st.booleans(),
)
def test_a_rewritten_header_says_what_was_asked_and_no_more(durable, priority, ttl, body, count, first):
    """durable, priority, ttl and body as they came; first-acquirer and delivery-count as the broker says."""
    sent = Message(body=body, durable=durable, priority=priority, id="x")
    if ttl is not None:
        sent.ttl = (ttl + 0.5) / 1000  # proton cuts off what is below a millisecond: 16.223 is 16222 to it
    parsed = parse(bytes(sent.encode()))
    assert (parsed.durable, parsed.ttl_ms, parsed.expires_ms) == (durable, ttl or 0, 0)

    seen = Message()
    seen.decode(encode(parsed.durable, parsed.rest, first, count, parsed.bare))

    assert (seen.durable, seen.priority, seen.ttl, seen.body, seen.id) == (durable, priority, sent.ttl, body, "x")
    assert (seen.first_acquirer, seen.delivery_count) == (first, count)


@pytest.mark.parametrize(
    ("header", "durable"),
    [
        (b"", False),
        (b"\x00\x53\x70\x45", False),
        (b"\x00\x53\x70\xc0\x01\x00", False),
        (b"\x00\x53\x70\xc0\x02\x01\x41", True),
        (b"\x00\x53\x70\xc0\x03\x01\x56\x01", True),
        (b"\x00\x53\x70\xc0\x03\x01\x56\x00", False),
        (b"\x00\x53\x70\xd0\x00\x00\x00\x05\x00\x00\x00\x01\x41", True),
        (b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x70\xc0\x02\x01\x41", True),
        (b"\x00\x53\x70\xc0\x0b\x05\x41\x50\x04\x70\x00\x00\x00\x09\x42\x43", True),
    ],
)
def test_every_encoding_of_a_header_is_read(header, durable):
    """list0, list8, list32; small and large descriptor; true as one byte or two."""
    bare = b"\x00\x53\x77\x40"
    parsed = parse(header + bare)

    assert (parsed.durable, parsed.bare) == (durable, bare)


@pytest.mark.parametrize(
    "encoded", [b"", b"\xff\xff", b"\x00\x53\x70", b"\x00\x53\x70\xc0\x09\x01\x41", b"\x00\x53\x70\xc0\x02\x01\xa1"]
)
def test_what_is_no_message_is_refused(encoded):
    """Never a guess."""
    with pytest.raises(DecodeError):
        parse(encoded)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(tail):
    """No other exception, for any bytes."""
    for start in (b"", b"\x00\x53\x70", b"\x00\x53\x70\xc0", b"\x00\x53\x70\xd0"):
        with suppress(DecodeError):
            parse(start + tail)


@pytest.mark.parametrize(
    ("field", "ttl"),
    [
        (b"\x40", 0),
        (b"\x43", 0),
        (b"\x52\x07", 7),
        (b"\x70\x00\x01\x00\x00", 65536),
        (b"\x70\xff\xff\xff\xff", 2**32 - 1),
    ],
)
def test_every_encoding_of_a_ttl_is_read(field, ttl):
    """null, zero, one byte, four (AMQP 1.0 section 1.6.4)."""
    fields = b"\x41\x50\x07" + field
    parsed = parse(b"\x00\x53\x70\xc0" + bytes((len(fields) + 1, 3)) + fields + b"\x00\x53\x77\x40")

    assert (parsed.ttl_ms, parsed.rest) == (ttl, b"\x50\x07" + field)


@pytest.mark.parametrize("field", [b"\x41", b"\x80" + bytes(8), b"\x50\x01"])
def test_a_ttl_of_another_type_is_refused(field):
    """It is a uint (3.2.1): a guess could let a message live for ever, or not at all."""
    fields = b"\x41\x40" + field
    with pytest.raises(DecodeError):
        parse(b"\x00\x53\x70\xc0" + bytes((len(fields) + 1, 3)) + fields + b"\x00\x53\x77\x40")


@pytest.mark.parametrize("priority", [b"\x40", b"\x50\x07"])
def test_a_ttl_grows_less_and_a_missing_one_stays_missing(priority):
    """What is left replaces what came; the priority stays."""
    assert with_time_left(priority + b"\x52\x09", 5) == priority + b"\x70\x00\x00\x00\x05"
    assert with_time_left(priority + b"\x40", 5) == priority + b"\x40"
    assert with_time_left(priority + b"\x70\x00\x00\x00\x09", 2**40) == priority + b"\x70\xff\xff\xff\xff"
