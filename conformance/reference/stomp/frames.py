"""STOMP frames: bytes to values and back, for versions 1.0 to 1.2, free of I/O.

Strict on purpose: it refuses what the grammar does not allow, because a tolerant parser hides the faults of a client.
Two rules of the grammar of 1.0 are taken as 1.1 has them: text is UTF-8 and not ASCII, and a value may be empty.

Two other readers of STOMP stay separate. The strict client (`protocols.stomp.sessions.raw_session`) shares no code with
the broker: a fault that both had would stay hidden. The link proxy (`protocols.stomp.frames`) must also read bytes that
this decoder rejects, and reports a frame at its head, while this decoder keeps a body until it is complete. A common
reader of heads would need a switch at each of these rules.

Source: STOMP 1.2, sections STOMP Frames, Value Encoding, Body, Repeated Header Entries, Size Limits and Augmented BNF.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from conformance.reference.core.admission import LIMIT

VERSIONS = ("1.2", "1.1", "1.0")
"""What is spoken, the best first."""

CLIENT = frozenset("CONNECT STOMP SEND SUBSCRIBE UNSUBSCRIBE ACK NACK BEGIN COMMIT ABORT DISCONNECT".split())
SERVER = frozenset("CONNECTED MESSAGE RECEIPT ERROR".split())

MAX_LINE = 64 * 1024
MAX_HEAD = 256 * 1024
MAX_HEADERS = 256
MAX_BODY = 100 * 1024 * 1024
"""Bytes of a line of the head and of all its lines, headers of a frame, bytes of a body unless the owner sets a limit.

More is refused (STOMP 1.2, Size Limits). Without the second, 16 MiB of lines that are each short enough would pass.
"""

_SHORT = 4096
"""Bytes of a head beyond which it is read line by line, so that looking for its end costs little where it is far."""

_BODIES = frozenset(("SEND", "MESSAGE", "ERROR"))
"""Frames that may have a body. 1.0 has no such rule, and says of SUBSCRIBE that its body is ignored."""

_PLAIN = frozenset(("CONNECT", "CONNECTED"))
"""Never escaped, so that a 1.0 peer can read them (STOMP 1.2, Value Encoding)."""

_UNESCAPED = {
    "1.2": {"r": "\r", "n": "\n", "c": ":", "\\": "\\"},
    "1.1": {"n": "\n", "c": ":", "\\": "\\"},
    "1.0": {},
}
_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)
_ESCAPED = {v: {ord(char): f"\\{code}" for code, char in table.items()} for v, table in _UNESCAPED.items()}
_EOL = (b"\n", b"\r")
_EOLS = {"1.2": re.compile(rb"(?:\r?\n)*+"), "1.1": re.compile(rb"\n*+"), "1.0": re.compile(rb"\n*+")}
"""Heart-beats between frames."""


class ProtocolError(Exception):
    """A client broke the protocol, or asked for something that the broker does not offer: one sentence says what.

    `receipt` is the receipt header of the frame, where that had been read; `condition` the one of AMQP 1.0 for a limit.
    Answered with an ERROR frame; the connection ends (STOMP 1.2, ERROR).
    """

    def __init__(self, message: str, receipt: str | None = None, condition: str | None = None) -> None:
        super().__init__(message)
        self.receipt = receipt
        self.condition = condition


class StompFrame(NamedTuple):
    """One frame; of a repeated header only the first is kept (STOMP 1.2, Repeated Header Entries)."""

    command: str
    headers: dict[str, str]
    body: bytes = b""

    def need(self, name: str) -> str:
        """The header of this name; raises `ProtocolError` if the frame has none."""
        try:
            return self.headers[name]
        except KeyError:
            raise ProtocolError(f"{self.command} without the header {name}") from None


def encode(command: str, headers: Sequence[tuple[str, str]], body: bytes = b"", version: str = "1.2") -> bytes:
    """One frame as bytes; content-length is the caller's. Headers are written as by `lines`."""
    return b"".join((command.encode(), b"\n", lines(headers, version, plain=command in _PLAIN), b"\n", body, b"\0"))


def lines(headers: Sequence[tuple[str, str]], version: str, *, plain: bool = False) -> bytes:
    """Headers as the lines of a head, escaped unless `plain`.

    A header that the version has no bytes for is left out: one without a name or with a NUL, and in 1.0, which has no
    escapes, one with a line feed, or with a colon in its name.
    """
    text = "".join([f"{name}:{value}\n" for name, value in headers])
    # Most heads have nothing to escape, and to look for it in all at once takes a quarter of the time.
    odd = text.count(":") != len(headers) or text.count("\n") != len(headers) or text.startswith(":") or "\n:" in text
    if odd or "\\" in text or "\r" in text or "\0" in text:
        table = {} if plain else _ESCAPED[version]
        text = "".join([_line(name, value, table) for name, value in headers])
    return text.encode()


def _line(name: str, value: str, table: dict[int, str]) -> str:
    line = f"{name.translate(table)}:{value.translate(table)}\n"
    ruled_out = not name or "\0" in line or not (table or ("\n" not in line[:-1] and ":" not in name))
    return "" if ruled_out else line


class Decoder:
    """Turn a client's bytes into frames; the bytes may arrive in pieces of any size.

    The frames and the errors depend only on the bytes, never on where the pieces were cut.
    `version` is 1.2 until the owner, who reads CONNECT, sets another: it rules from the next frame on. A body may have
    `max_body` bytes.
    """

    def __init__(self, commands: frozenset[str] = CLIENT, max_body: int = MAX_BODY) -> None:
        self.version = "1.2"
        self._commands = commands
        self._max_body = max_body
        self._data = b""
        self._at = 0
        self._start()

    def feed(self, data: bytes) -> Iterator[StompFrame]:
        """Takes the bytes, and gives the frames that are now whole, each before the next is looked at.

        An iterator and not a list: of `SEND`, `garbage` the SEND was valid and has its effect, and only then comes the
        `ProtocolError`; and CONNECT chooses the version that the frame behind it is read by.
        """
        self._data = self._data[self._at :] + data
        self._at = 0
        return self._frames()

    @property
    def unfinished(self) -> int:
        """Bytes of a frame that has not come whole."""
        return len(self._data) - self._at + len(self._body)

    def _start(self) -> None:
        self._command = ""
        self._headers: dict[str, str] = {}
        self._lines = 0
        self._head = 0
        self._length: int | None = None
        self._in_body = False
        self._body = bytearray()

    def _frames(self) -> Iterator[StompFrame]:
        while (frame := self._plain_frame() or self._next_frame()) is not None:
            yield frame
        # A peer that is silent now does not keep what it said before.
        self._data = self._data[self._at :]
        self._at = 0

    def _plain_frame(self) -> StompFrame | None:
        """The next frame if it is all there and its head has nothing special, as nearly all have.

        What is wrong is never decided here: a frame that this does not take is read line by line.
        """
        if self._in_body or self._command:
            return None
        data, at = self._data, self._at
        if data[at : at + 1] in _EOL:
            self._at = at = _EOLS[self.version].match(data, at).end()  # type: ignore[union-attr]  # it may be empty
        end = data.find(b"\n\n", at, at + _SHORT)
        head = data[at:end]
        if end < 0 or self.version == "1.0" or b"\\" in head or b"\r" in head or b"\0" in head:
            return None
        try:
            command, *lines = head.decode().split("\n")
            headers: dict[str, str] = dict([line.split(":") for line in lines])
        except ValueError:
            return None
        if command not in self._commands or not len(headers) == len(lines) <= MAX_HEADERS or "" in headers:
            return None
        at = end + 2
        text = headers.get("content-length")
        if text is None:
            end = data.find(b"\0", at)
        elif text.isascii() and text.isdigit() and len(text) < 12:
            end = at + int(text)
        if not at <= end < len(data) or data[end] or end - at > (self._max_body if command in _BODIES else 0):
            return None
        self._at = end + 1
        return StompFrame(command, headers, data[at:end])

    def _next_frame(self) -> StompFrame | None:
        if not (self._in_body or self._read_head()) or (body := self._read_body()) is None:
            return None
        frame = StompFrame(self._command, self._headers, body)
        self._start()
        return frame

    def _read_head(self) -> bool:
        """Whether the head is complete; empty lines before it are heart-beats."""
        while (line := self._line()) is not None:
            if not line and self._command:
                self._end_head()
                return True
            if line:
                self._read_line(line)
            else:
                self._head = 0
        return False

    def _line(self) -> str | None:
        """The next line of the head without its end, None if that has not come."""
        end = self._data.find(b"\n", self._at)
        raw = self._data[self._at : end if end >= 0 else None]
        room = min(MAX_LINE, MAX_HEAD - self._head)
        if b"\0" in raw[:room]:
            # The grammar allows it in a header. But to wait for the end of `DISCONNECT\n\0`, which has no empty line,
            # would keep its sender without an answer for ever.
            raise self._wrong("a NUL before the empty line that ends the head")
        if len(raw) > room:
            what = "a line of the head" if room == MAX_LINE else "the head"
            raise self._wrong(f"{what} is longer than {MAX_LINE if room == MAX_LINE else MAX_HEAD} bytes")
        if end < 0:
            return None
        self._at = end + 1
        self._head += len(raw) + 1
        try:
            line = raw.decode()
        except UnicodeDecodeError:
            raise self._wrong("the head is not UTF-8") from None
        return self._without_return(line)

    def _without_return(self, line: str) -> str:
        """Only 1.2 ends lines with CR LF too; to the others a CR is a character like any."""
        if self.version != "1.2":
            return line
        line = line.removesuffix("\r")
        if "\r" in line:
            raise self._wrong("a CR that no LF follows")
        return line

    def _read_line(self, line: str) -> None:
        if not self._command:
            if line not in self._commands:
                raise self._wrong(f"unknown command {line[:40]!r}")
            self._command = line
            return
        self._lines += 1
        if self._lines > MAX_HEADERS:
            raise self._wrong(f"more than {MAX_HEADERS} headers")
        name, colon, value = line.partition(":")
        if not colon or not name:
            raise self._wrong(f"the header line {line[:40]!r} is not NAME:VALUE")
        if self.version == "1.0":
            # Its own examples have `ack: client` and mean client; the later versions say that nothing is trimmed.
            value = value.strip(" ")
        elif self._command not in _PLAIN:
            if ":" in value:
                raise self._wrong(f"the value of the header {name[:40]!r} has a colon that is not escaped")
            name, value = self._unescape(name), self._unescape(value)
        self._headers.setdefault(name, value)

    def _unescape(self, text: str) -> str:
        return _ESCAPE.sub(self._unescaped, text) if "\\" in text else text

    def _unescaped(self, found: re.Match[str]) -> str:
        plain = _UNESCAPED[self.version].get(found[1])
        if plain is None:
            raise self._wrong(f"undefined escape {found[0]!r}")
        return plain

    def _end_head(self) -> None:
        self._in_body = True
        text = self._headers.get("content-length")
        if text is not None:
            if not (text.isascii() and text.isdigit()):
                raise self._wrong(f"content-length {text[:40]!r} is not a number of bytes")
            # Longer digits are not worth a conversion: Python itself refuses those of 4,300.
            self._length = int(text) if len(text) < 12 else self._max_body + 1
            if self._length > self._max_body:
                raise self._too_long()
        if self._bodiless:
            if self._length:
                raise self._wrong(f"{self._command} with a body")
            self._length = 0

    @property
    def _bodiless(self) -> bool:
        return self._command not in _BODIES and self.version != "1.0"

    def _read_body(self) -> bytes | None:
        """The body without its NUL, None if that has not come."""
        if self._length is None:
            return self._read_to_nul()
        data, at = self._data, self._at
        end = at + self._length - len(self._body)
        if end >= len(data):
            self._body += data[at:]
            self._at = len(data)
            return None
        if data[end]:
            raise self._wrong(
                f"{self._command} with a body" if self._bodiless else f"no NUL after a body of {self._length} bytes"
            )
        self._at = end + 1
        return self._whole(data[at:end])

    def _read_to_nul(self) -> bytes | None:
        end = self._data.find(b"\0", self._at)
        last = self._data[self._at : end if end >= 0 else None]
        if len(self._body) + len(last) > self._max_body:
            raise self._too_long()
        if end < 0:
            self._body += last
            self._at = len(self._data)
            return None
        self._at = end + 1
        return self._whole(last)

    def _whole(self, last: bytes) -> bytes:
        """What came before and the `last` of a body."""
        if not self._body:
            return last
        self._body += last
        return bytes(self._body)

    def _too_long(self) -> ProtocolError:
        return self._wrong(f"a body of more than {self._max_body} bytes", LIMIT)

    def _wrong(self, message: str, condition: str | None = None) -> ProtocolError:
        return ProtocolError(message, self._headers.get("receipt"), condition)
