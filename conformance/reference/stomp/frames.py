"""STOMP frames: bytes to values and back, for versions 1.0 to 1.2, free of I/O.

Strict on purpose: what the grammar does not have is refused, for a parser that forgives hides the faults of a client.
Source: STOMP 1.2, sections STOMP Frames, Value Encoding, Body, Repeated Header Entries, Size Limits and Augmented BNF.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

VERSIONS = ("1.2", "1.1", "1.0")
"""What is spoken, the best first."""

CLIENT = frozenset("CONNECT STOMP SEND SUBSCRIBE UNSUBSCRIBE ACK NACK BEGIN COMMIT ABORT DISCONNECT".split())
SERVER = frozenset("CONNECTED MESSAGE RECEIPT ERROR".split())

MAX_LINE = 64 * 1024
MAX_HEADERS = 256
MAX_BODY = 100 * 1024 * 1024
"""Bytes of a line of the head, headers of a frame, bytes of a body: more is refused (STOMP 1.2, Size Limits)."""

_BODIES = frozenset(("SEND", "MESSAGE", "ERROR"))
_PLAIN = frozenset(("CONNECT", "CONNECTED"))
"""Never escaped, so that a 1.0 peer can read them (STOMP 1.2, Value Encoding)."""

_UNESCAPED = {
    "1.2": {"r": "\r", "n": "\n", "c": ":", "\\": "\\"},
    "1.1": {"n": "\n", "c": ":", "\\": "\\"},
    "1.0": {},
}
_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)
_ESCAPED = {v: {ord(char): f"\\{code}" for code, char in table.items()} for v, table in _UNESCAPED.items()}


class ProtocolError(Exception):
    """A peer broke the protocol: what was wrong, and the receipt header of the frame, where that had been read.

    Answered with an ERROR frame; the connection ends (STOMP 1.2, ERROR).
    """

    def __init__(self, message: str, receipt: str | None = None) -> None:
        super().__init__(message)
        self.receipt = receipt


class Frame(NamedTuple):
    """One frame; of a repeated header only the first is kept (STOMP 1.2, Repeated Header Entries)."""

    command: str
    headers: dict[str, str]
    body: bytes = b""

    def need(self, name: str) -> str:
        """The header of this name; raises `ProtocolError` if the frame has none."""
        if name not in self.headers:
            raise ProtocolError(f"{self.command} without the header {name}")
        return self.headers[name]


def encode(command: str, headers: Iterable[tuple[str, str]], body: bytes = b"", version: str = "1.2") -> bytes:
    """One frame as bytes; content-length is the caller's.

    A header that the version has no bytes for is left out: one without a name, and in 1.0, which has no escapes, one
    with a line feed, or with a colon in its name.
    """
    table = {} if command in _PLAIN else _ESCAPED[version]
    lines = [command]
    for name, value in headers:
        line = f"{name.translate(table)}:{value.translate(table)}"
        if name and (table or not ("\n" in line or ":" in name)):
            lines.append(line)
    return "\n".join((*lines, "", "")).encode() + body + b"\0"


class Decoder:
    """A peer's bytes as frames, in whatever pieces they come.

    `version` is 1.2 until the owner, who reads CONNECT, sets another: it rules from the next frame on.
    """

    def __init__(self, commands: frozenset[str] = CLIENT) -> None:
        self.version = "1.2"
        self._commands = commands
        self._buffer = bytearray()
        self._scanned = 0
        self._start()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Takes the bytes, and gives the frames that are now whole, each before the next is looked at.

        An iterator and not a list: of `SEND`, `garbage` the SEND was valid and has its effect, and only then comes the
        `ProtocolError`; and CONNECT chooses the version that the frame behind it is read by.
        """
        self._buffer += data
        return self._frames()

    def _start(self) -> None:
        self._command = ""
        self._headers: dict[str, str] = {}
        self._lines = 0
        self._length: int | None = None
        self._in_body = False

    def _frames(self) -> Iterator[Frame]:
        while self._in_body or self._read_head():
            body = self._read_body()
            if body is None:
                return
            frame = Frame(self._command, self._headers, body)
            self._start()
            yield frame

    def _read_head(self) -> bool:
        """Whether the head is complete; empty lines before it are heart-beats."""
        while (line := self._line()) is not None:
            if not line and self._command:
                self._end_head()
                return True
            if line:
                self._read_line(line)
        return False

    def _line(self) -> str | None:
        """The next line of the head without its end, None if that has not come."""
        end = self._buffer.find(b"\n", self._scanned)
        raw = self._buffer if end < 0 else self._buffer[:end]
        if len(raw) > MAX_LINE:
            raise self._wrong(f"a line of the head is longer than {MAX_LINE} bytes")
        if b"\0" in raw:
            # The grammar allows it in a header. But to wait for the end of `DISCONNECT\n\0`, which has no empty line,
            # would keep its sender without an answer for ever.
            raise self._wrong("a NUL before the empty line that ends the head")
        if end < 0:
            self._scanned = len(self._buffer)
            return None
        del self._buffer[: end + 1]
        self._scanned = 0
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
        if self.version != "1.0" and self._command not in _PLAIN:
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
            self._length = int(text) if len(text) < 12 else MAX_BODY + 1
            if self._length > MAX_BODY:
                raise self._wrong(f"a body of more than {MAX_BODY} bytes")
        if self._command not in _BODIES:
            if self._length:
                raise self._wrong(f"{self._command} with a body")
            self._length = 0

    def _read_body(self) -> bytes | None:
        """The body without its NUL, None if that has not come."""
        if self._length is None:
            end = self._buffer.find(b"\0", self._scanned)
            self._scanned = len(self._buffer)
            if (end if end >= 0 else self._scanned) > MAX_BODY:
                raise self._wrong(f"a body of more than {MAX_BODY} bytes")
        else:
            end = self._length if len(self._buffer) > self._length else -1
            if end >= 0 and self._buffer[end]:
                known = self._command in _BODIES
                raise self._wrong(f"no NUL after a body of {end} bytes" if known else f"{self._command} with a body")
        if end < 0:
            return None
        body = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._scanned = 0
        return body

    def _wrong(self, message: str) -> ProtocolError:
        return ProtocolError(message, self._headers.get("receipt"))
