"""STOMP 1.2 on a socket, without a library and in one thread: for scenarios where every byte counts.

The codec has a parser of its own for two reasons. A library's parser hides faults: stomp.py takes an undefined escape,
a header without a colon, or a body that does not end at its content-length, and it ends its thread at a RECEIPT without
receipt-id. The bundled broker's parser would hide its own faults: if client and broker shared it, both would make the
same mistake, and no trial would see it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from typing_extensions import override

from conformance import limits
from conformance.clients.job import Job
from conformance.errors import BrokenProtocolError, ClientError
from conformance.protocols.stomp.sessions.dialogue import End, ReceivedFrame, StompDialogue, is_number

_READ = 1 << 18
_EOLS = re.compile(rb"[\r\n]*")
"""They may stand between frames (STOMP 1.2, Heart-beating)."""

_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_FRAME_ENDED = re.compile(rb"(?<=\n)\0|\0[\r\n]*(?:CONNECTED|MESSAGE|RECEIPT|ERROR)\r?\n")
"""Where a frame without a blank line ends: at a NUL that begins a line, or with the next frame behind it.

Any other NUL is an octet of a header, which STOMP 1.2 allows; RabbitMQ sends a binary correlation-id so."""
_ESCAPED = re.compile(r"\\(.?)", re.DOTALL)
_UNESCAPES = {"r": "\r", "n": "\n", "c": ":", "\\": "\\"}
_ESCAPES = str.maketrans({value: f"\\{key}" for key, value in _UNESCAPES.items()})
_UNESCAPED = frozenset({"CONNECT", "CONNECTED"})
"""These two stay as STOMP 1.0 had them (STOMP 1.2, Value Encoding)."""


class MalformedFrameError(ClientError):
    """The bytes that arrived are no STOMP 1.2 frame."""


def encode(frame: ReceivedFrame) -> bytes:
    r"""Return the bytes of a frame, headers in their order.

    >>> encode(ReceivedFrame("SEND", {"a": "1:2"}, b"x"))
    b'SEND\na:1\\c2\n\nx\x00'
    """
    plain = frame.command in _UNESCAPED
    lines = [frame.command]
    for name, value in frame.headers.items():
        lines.append(f"{name}:{value}" if plain else f"{name.translate(_ESCAPES)}:{value.translate(_ESCAPES)}")
    return "\n".join(lines).encode() + b"\n\n" + frame.body + b"\0"


class RawFrameDecoder:
    r"""Bytes in, frames out.

    >>> decoder = RawFrameDecoder()
    >>> [list(decoder.feed(part)) for part in (b"\nRECEIPT\nreceipt-id:", b"1\n\n\0")]
    [[], [ReceivedFrame(command='RECEIPT', headers={'receipt-id': '1'}, body=b'')]]
    """

    def __init__(self) -> None:
        self._input = bytearray()
        self._searched = 0  # bytes that hold no NUL of the body without content-length that is arriving

    def feed(self, data: bytes) -> Iterator[ReceivedFrame]:
        """Yield each frame that is complete.

        Raises:
            MalformedFrameError: After the frames before it. No more frames can be read from this stream.
        """
        self._input += data
        offset = 0
        try:
            while (found := self._next(offset)) is not None:
                frame, offset = found
                self._searched = 0
                yield frame
        finally:
            del self._input[:offset]
            del self._input[: _EOLS.match(self._input).end()]  # type: ignore[union-attr]

    def _next(self, start: int) -> tuple[ReceivedFrame, int] | None:
        data = self._input
        start = _EOLS.match(data, start).end()  # type: ignore[union-attr]  # it matches nothing too
        blank = _BLANK_LINE.search(data, start)
        stop = len(data) if blank is None else blank.start()
        if _FRAME_ENDED.search(data, start, stop):
            raise MalformedFrameError(f"a frame without a blank line: {bytes(data[start : start + 80])!r}")
        if stop - start > limits.STOMP_HEAD:
            raise ClientError(limits.limit_sentence("headers", limits.STOMP_HEAD))
        if blank is None:
            return None
        command, headers = _head(bytes(data[start:stop]))
        end = self._body_end(headers, blank.end())
        return None if end is None else (ReceivedFrame(command, headers, bytes(data[blank.end() : end])), end + 1)

    def _body_end(self, headers: dict[str, str], start: int) -> int | None:
        """Return the offset of the NUL; None if it has not arrived."""
        length = headers.get("content-length")
        if length is None:
            end = self._input.find(b"\0", max(start, self._searched))
            self._searched = len(self._input)
            if (end if end >= 0 else self._searched) - start > limits.MESSAGE:
                raise ClientError(limits.limit_sentence("a body", limits.MESSAGE))
            return None if end < 0 else end
        if not is_number(length):
            raise MalformedFrameError(f"content-length {limits.quote(length)!r}")
        if int(length) > limits.MESSAGE:
            most = f"the limit of this client is {limits.MESSAGE:,}"
            raise ClientError(f"a content-length of {int(length):,} bytes; {most}")
        end = start + int(length)
        if end >= len(self._input):
            return None
        if self._input[end]:
            raise MalformedFrameError(f"no NUL after a body of {length} octets")
        return end


def _head(head: bytes) -> tuple[str, dict[str, str]]:
    try:
        command, *lines = head.decode().replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        raise MalformedFrameError(f"headers that are not UTF-8: {head[:80]!r}") from error
    plain = command in _UNESCAPED
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")  # a bare colon in a value is illegal, but cannot be misread
        if not (name and colon) or "\r" in line:
            raise MalformedFrameError(f"a header line {line!r}")
        headers.setdefault(name if plain else _unescape(name), value if plain else _unescape(value))
    return command, headers


def _unescape(text: str) -> str:
    return _ESCAPED.sub(_unescaped, text) if "\\" in text else text


def _unescaped(match: re.Match[str]) -> str:
    if match[1] not in _UNESCAPES:
        raise MalformedFrameError(f"an undefined escape {match[0]!r}")
    return _UNESCAPES[match[1]]


class RawStompSession(StompDialogue):
    """See `StompDialogue`; it can send without a receipt."""

    def __init__(self, job: Job, before_write: Callable[[], None]) -> None:
        super().__init__(job, before_write)
        self._decoder = RawFrameDecoder()
        self._socket = self._login.dial(job.connection.connect_s)
        self._socket.setblocking(False)
        self._open(self._socket.fileno())

    @override
    def send_unanswered(self, message: str, body: bytes, *, durable: bool) -> None:
        self._put("SEND", self._sending(message, body, durable=durable), body=body)

    @override
    def _encode(self, frame: ReceivedFrame) -> bytes:
        return encode(frame)

    @override
    def _read(self) -> None:
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError as error:
            self._arrived.append(End(str(error)))
            return
        try:
            self._arrived.extend(self._decoder.feed(data))
        except ClientError as error:
            kind = BrokenProtocolError if isinstance(error, MalformedFrameError) else ClientError
            self._arrived.append(End(str(error), kind))
        if not data:
            self._arrived.append(End("end of stream"))

    @override
    def _release(self) -> None:
        self._socket.close()
