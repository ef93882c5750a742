"""What comes before AMQP on a socket: protocol headers (section 2.2) and SASL (section 5.3). Bytes in, bytes out.

proton's own SASL is not used. Without Cyrus it refuses every PLAIN, and offers EXTERNAL for its own TLS only, where it
believes any authorization identity that the peer names; with Cyrus it asks the machine's password database.
"""

from __future__ import annotations

from collections.abc import Callable

from conformance.reference.core import sections
from conformance.reference.security import Guard

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"

MAX_FRAME = 512
"""Bytes of a SASL frame at most (section 5.3.1)."""

_SASL_TYPE = 1
_INIT, _RESPONSE = 0x41, 0x43
_OK, _AUTH = 0, 1
"""Codes of an outcome (section 5.3.3.6)."""


class Handshake:
    """One peer until AMQP begins. `subject` is that of its verified certificate, None without one.

    `done`: `rest` begins with the AMQP header and is for the engine. `failed`: nothing more is to be read, and the
    socket is to be closed once `output` is sent.
    """

    def __init__(self, guard: Guard, subject: str | None) -> None:
        self._guard = guard
        self._subject = subject
        self._stage: Callable[[], bool] = self._header
        self._authenticated = False
        self._output = bytearray()
        self.rest = bytearray()
        self.done = False
        self.failed = False

    @property
    def mechanisms(self) -> list[str]:
        """Those that are offered, the strongest first."""
        external = ["EXTERNAL"] if self._subject is not None else []
        return [*external, "PLAIN" if self._guard.user is not None else "ANONYMOUS"]

    def receive(self, data: bytes) -> None:
        self.rest += data
        while not (self.done or self.failed) and self._stage():
            pass
        if self.failed:
            self.rest.clear()

    def output(self) -> bytes:
        data, self._output = bytes(self._output), bytearray()
        return data

    def _header(self) -> bool:
        """A header that is none of ours is answered with the one that is wanted, and the socket is closed (2.2)."""
        closed = self._guard.user is not None and not self._authenticated
        known = [
            *([] if closed else [AMQP_HEADER]),
            *([] if self._authenticated else [SASL_HEADER]),
        ]
        head = bytes(self.rest[: len(AMQP_HEADER)])
        if head not in known:
            if not any(header.startswith(head) for header in known):
                self._output += known[0]
                self.failed = True
            return False
        if head == AMQP_HEADER:
            self.done = True
            return False
        del self.rest[: len(SASL_HEADER)]
        names = b"".join(bytes((len(name),)) + name.encode() for name in self.mechanisms)
        array = bytes((0xE0, len(names) + 2, len(self.mechanisms), 0xA3)) + names
        self._output += SASL_HEADER
        self._say(0x40, array)
        self._stage = self._init
        return True

    def _init(self) -> bool:
        fields = self._frame(_INIT, 2)
        if fields is None:
            return False
        mechanism, response = [*fields, None, None][:2]
        self._mechanism = (mechanism or b"").decode("ascii", "replace")
        if self._mechanism == "PLAIN" and response is None:
            self._say(0x42, b"\xa0\x00")
            self._stage = self._response
        else:
            self._decide(response or b"")
        return True

    def _response(self) -> bool:
        fields = self._frame(_RESPONSE, 1)
        if fields is None:
            return False
        self._decide((fields[0] if fields else None) or b"")
        return True

    def _decide(self, response: bytes) -> None:
        self._authenticated = self._mechanism in self.mechanisms and _MECHANISMS[self._mechanism](self, response)
        self.failed = not self._authenticated
        self._say(0x44, bytes((0x50, _OK if self._authenticated else _AUTH)))
        self._stage = self._header

    def _external(self, response: bytes) -> bool:
        """Accept only the identity of the certificate itself (RFC 4422 appendix A)."""
        return not response or response == (self._subject or "").encode()

    def _plain(self, response: bytes) -> bool:
        """Read identity, name and password with zero bytes between (RFC 4616); a client may act only as itself."""
        identity, _, credentials = response.partition(b"\0")
        user, _, password = credentials.partition(b"\0")
        return self._guard.knows(user, password) and identity in (b"", user)

    def _frame(self, wanted: int, count: int) -> list[bytes | None] | None:
        """The first fields of the next frame, None if it is not there yet; what is no such frame fails."""
        if len(self.rest) < 4:
            return None
        size = int.from_bytes(self.rest[:4], "big")
        if not 8 <= size <= MAX_FRAME:
            self.failed = True
            return None
        if len(self.rest) < size:
            return None
        frame = bytes(self.rest[:size])
        del self.rest[:size]
        try:
            performative, at = sections.code(frame, 4 * frame[4])
            if (frame[5], performative) == (_SASL_TYPE, wanted) and frame[4] >= 2:
                return [sections.text(item) for item in sections.items(frame, at, count)]
        except sections.DecodeError:
            pass
        self.failed = True
        return None

    def _say(self, performative: int, field: bytes) -> None:
        body = bytes((0x00, 0x53, performative, 0xC0, len(field) + 1, 1)) + field
        self._output += (len(body) + 8).to_bytes(4, "big") + bytes((2, _SASL_TYPE, 0, 0)) + body


def farewell(condition: str, description: str) -> bytes:
    """Open and close with an error, for a peer that has not sent its own; at most 200 bytes of text."""
    error = _list(0x1D, _text(0xA3, condition), _text(0xA1, description))
    return _frame(_list(0x10, _text(0xA1, ""))) + _frame(_list(0x18, error))


def _list(code: int, *fields: bytes) -> bytes:
    items = b"".join(fields)
    return bytes((0x00, 0x53, code, 0xC0, len(items) + 1, len(fields))) + items


def _text(code: int, text: str) -> bytes:
    return bytes((code, len(data := text.encode()))) + data


def _frame(body: bytes) -> bytes:
    return (len(body) + 8).to_bytes(4, "big") + b"\x02\x00\x00\x00" + body


_MECHANISMS: dict[str, Callable[[Handshake, bytes], bool]] = {
    "ANONYMOUS": lambda _handshake, _trace: True,
    "EXTERNAL": Handshake._external,
    "PLAIN": Handshake._plain,
}
