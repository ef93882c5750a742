"""Protocol headers and SASL, bytes in and bytes out, in any chunks."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.reference.amqp.handshake import AMQP_HEADER, MAX_FRAME, SASL_HEADER, Handshake
from conformance.reference.core import sections
from conformance.reference.core.sections import DecodeError
from conformance.reference.security import OPEN, Guard

LOCKED = Guard("alice", b"secret")
OK, REFUSED = b"\x00\x53\x44\xc0\x03\x01\x50\x00", b"\x00\x53\x44\xc0\x03\x01\x50\x01"


def frame(code, *fields, type=1):
    """A frame with a list of these encoded fields."""
    items = b"".join(fields)
    body = bytes((0x00, 0x53, code, 0xC0, len(items) + 1, len(fields))) + items
    return (len(body) + 8).to_bytes(4, "big") + bytes((2, type, 0, 0)) + body


def init(mechanism, response=None):
    """A sasl-init; without a response the field is null."""
    said = b"\x40" if response is None else bytes((0xA0, len(response))) + response
    return frame(0x41, bytes((0xA3, len(mechanism))) + mechanism.encode(), said)


def answered(data, guard=OPEN, subject=None):
    """The handshake after these bytes, and all that it said."""
    handshake = Handshake(guard, subject)
    handshake.receive(data)
    return handshake, handshake.output()


@pytest.mark.parametrize(
    ("guard", "subject", "offered"),
    [
        (OPEN, None, ["ANONYMOUS"]),
        (OPEN, "commonName=bob", ["EXTERNAL", "ANONYMOUS"]),
        (LOCKED, None, ["PLAIN"]),
        (LOCKED, "commonName=bob", ["EXTERNAL", "PLAIN"]),
    ],
)
def test_mechanisms(guard, subject, offered):
    """EXTERNAL only with a certificate, and ANONYMOUS only where no password is asked for; all on the wire."""
    handshake, said = answered(SASL_HEADER, guard, subject)

    names = b"".join(bytes((len(name),)) + name.encode() for name in offered)
    assert handshake.mechanisms == offered
    assert said.startswith(SASL_HEADER)
    assert said.endswith(bytes((0xE0, len(names) + 2, len(offered), 0xA3)) + names)


@pytest.mark.parametrize(
    ("guard", "subject", "said", "let_in"),
    [
        (OPEN, None, init("ANONYMOUS", b"trace"), True),
        (OPEN, None, init("ANONYMOUS"), True),
        (OPEN, None, init("EXTERNAL", b""), False),
        (OPEN, None, init("PLAIN", b"\0alice\0secret"), False),
        (OPEN, "commonName=bob", init("EXTERNAL"), True),
        (OPEN, "commonName=bob", init("EXTERNAL", b"commonName=bob"), True),
        (OPEN, "commonName=bob", init("EXTERNAL", b"commonName=root"), False),
        (LOCKED, None, init("ANONYMOUS"), False),
        (LOCKED, None, init("PLAIN", b"\0alice\0secret"), True),
        (LOCKED, None, init("PLAIN", b"alice\0alice\0secret"), True),
        (LOCKED, None, init("PLAIN", b"root\0alice\0secret"), False),
        (LOCKED, None, init("PLAIN", b"\0alice\0secre"), False),
        (LOCKED, None, init("PLAIN", b"\0alice\0secret\0"), False),
        (LOCKED, None, init("PLAIN", b"\0alice\0"), False),
        (LOCKED, None, init("PLAIN", b"\0bob\0secret"), False),
        (LOCKED, None, init("PLAIN", b""), False),
        (LOCKED, None, init("NONSENSE", b""), False),
    ],
)
def test_who_is_let_in(guard, subject, said, let_in):
    """The outcome says it, and after a refusal nothing more is read."""
    handshake, answer = answered(SASL_HEADER + said + AMQP_HEADER + b"rest", guard, subject)

    assert answer.endswith(OK if let_in else REFUSED)
    assert (handshake.done, handshake.failed) == (let_in, not let_in)
    assert not let_in or handshake.rest == AMQP_HEADER + b"rest"


@pytest.mark.parametrize(("password", "let_in"), [(b"secret", True), (b"wrong", False)])
def test_plain_without_an_initial_response(password, let_in):
    """An empty challenge asks for it."""
    handshake, said = answered(SASL_HEADER + init("PLAIN"), LOCKED)
    assert said.endswith(frame(0x42, b"\xa0\x00"))
    response = b"\0alice\0" + password
    handshake.receive(frame(0x43, bytes((0xA0, len(response))) + response))

    assert handshake.output().endswith(OK if let_in else REFUSED)
    assert handshake.failed is not let_in


def test_no_security_layer():
    """A client may begin with the AMQP header (section 5.3.2), but not past a password."""
    assert answered(AMQP_HEADER)[0].done
    handshake, said = answered(AMQP_HEADER, LOCKED)
    assert (handshake.failed, said) == (True, SASL_HEADER)


@pytest.mark.parametrize("foreign", [b"GET / HTTP/1.1\r\n", b"AMQP\x00\x00\x09\x01", b"AMQP\x02\x01\x00\x00", b"\x00"])
@pytest.mark.parametrize(("guard", "ours"), [(OPEN, AMQP_HEADER), (LOCKED, SASL_HEADER)])
def test_a_foreign_header_is_answered_with_ours(foreign, guard, ours):
    """Section 2.2; the first byte that differs is enough."""
    handshake, said = answered(foreign, guard)

    assert (handshake.failed, said) == (True, ours)


def test_a_second_security_layer_is_refused():
    """After SASL comes AMQP."""
    handshake, said = answered(SASL_HEADER + init("ANONYMOUS") + SASL_HEADER)

    assert (handshake.failed, said.endswith(AMQP_HEADER)) == (True, True)


@pytest.mark.parametrize(
    "broken",
    [
        frame(0x44, b"\x50\x00"),
        frame(0x41, b"\xa3\x09ANONYMOUS", type=0),
        (MAX_FRAME + 1).to_bytes(4, "big"),
        (7).to_bytes(4, "big"),
        b"\x00\x00\x00\x0c\x01\x01\x00\x00\x00\x53\x41\x45",
        b"\x00\x00\x00\x0c\xff\x01\x00\x00\x00\x53\x41\x45",
        frame(0x41, b"\x71\x00\x00\x00\x01"),
        frame(0x41, b"\xa3\xffANONYMOUS"),
    ],
)
def test_a_broken_frame_ends_it(broken):
    """Another performative, another type, a size or an offset that cannot be, a field of another type."""
    handshake, said = answered(SASL_HEADER + broken)

    assert (handshake.failed, OK in said, REFUSED in said) == (True, False, False)


def test_what_comes_before_the_amqp_header_is_bounded():
    """A frame that never ends keeps no more than its size allows."""
    handshake, _ = answered(SASL_HEADER + MAX_FRAME.to_bytes(4, "big"))
    handshake.receive(b"x" * (MAX_FRAME - 5))
    assert not handshake.failed
    handshake.receive(b"x" * 10)
    assert handshake.failed


@given(st.lists(st.integers(1, 9), min_size=1), st.booleans())
def test_chunks_do_not_matter(sizes, right):
    """However the bytes come, the same is said."""
    data = SASL_HEADER + init("PLAIN", b"\0alice\0" + (b"secret" if right else b"no")) + AMQP_HEADER + b"tail"
    whole, said = answered(data, LOCKED)
    handshake, heard, at = Handshake(LOCKED, None), b"", 0
    for size in sizes * len(data):
        handshake.receive(data[at : at + size])
        heard += handshake.output()
        at += size

    assert (heard, handshake.done, handshake.failed) == (said, whole.done, whole.failed)
    assert not right or handshake.rest == whole.rest


@given(st.binary(max_size=200))
def test_nothing_raises(data):
    """For any bytes of a peer: done, failed, or waiting for more."""
    for guard in (OPEN, LOCKED):
        handshake, _ = answered(SASL_HEADER + data, guard)
        assert not handshake.done or handshake.rest.startswith(AMQP_HEADER)


@given(st.binary(max_size=200))
def test_reading_encoded_values_raises_only_its_own(data):
    """DecodeError, or an end within the bytes."""
    with contextlib.suppress(DecodeError):
        assert 0 < sections.end(data, 0) <= len(data)
    with contextlib.suppress(DecodeError):
        assert sections.addressee(data) is None or data


def test_descriptors_nested_deep_are_read_in_a_loop():
    """A quarter of a million of them fit in a frame."""
    assert sections.end(b"\x00" * 100_000 + b"\x40" * 100_001, 0) == 200_001


@pytest.mark.parametrize(
    ("bare", "to"),
    [
        (b"\x00\x53\x73\xc0\x06\x03\x40\x40\xa1\x01q", "q"),
        (b"\x00\x53\x72\xc1\x01\x00\x00\x53\x73\xc0\x16\x03\x98" + bytes(16) + b"\x40\xa1\x01q", "q"),
        (
            b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x73\xd0\x00\x00\x00\x0c\x00\x00\x00\x03\x40\x40\xb1\x00\x00\x00\x01q",
            "q",
        ),
        (b"\x00\x53\x73\xc0\x04\x03\x40\x40\x40", None),
        (b"\x00\x53\x73\x45\x00\x53\x77\x40", None),
        (b"\x00\x53\x77\xa1\x01q", None),
        (b"", None),
    ],
)
def test_addressee(bare, to):
    """The third of the properties, after any values of any width."""
    assert sections.addressee(bare) == to


@pytest.mark.parametrize(
    "bare",
    [
        b"\x00\x53\x73\xc0\x06\x03\x40\x40\x71\x00",
        b"\x00\x53\x73\xc0\x05\x03\x40\x40\xa1\x01\xff",
        b"\x00\xa3\x01x\x45",
        b"\x00\x53\x73\x40",
    ],
)
def test_a_message_that_cannot_be_read(bare):
    """A property to that is no string, that is no UTF-8, a section of another name, properties that are no list."""
    with pytest.raises(DecodeError):
        sections.addressee(bare)
