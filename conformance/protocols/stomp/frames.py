"""STOMP 1.0 to 1.2: the frames of one connection, seen from outside.

It is tolerant: the proxy passes on bytes that break the protocol too. It reads heads only, and gives each frame's place
in the stream, so that a fault can strike before the first byte of a frame is passed on. A frame ends at its NUL, which
stands where content-length says, if there is one. The bundled broker's decoder is separate because it does the
opposite: it rejects what the grammar does not allow, and gives whole frames without their places.
"""

from __future__ import annotations

import dataclasses
import re

from conformance import limits
from conformance.history import CONFORMANCE_ID, parse_message
from conformance.protocols import reader as frames
from conformance.protocols.reader import LinkFrame, Splitter, Unreadable

SUBSCRIPTIONS = {"auto": "settled", "client": "cumulative", "client-individual": "individual"}
"""The word for each `ack` of a SUBSCRIBE (STOMP 1.2, SUBSCRIBE ack Header)."""

_ASKS = {
    "SEND": frames.SEND,
    "ACK": frames.ACKNOWLEDGE,
    "NACK": frames.ACKNOWLEDGE,
    "BEGIN": frames.BEGIN,
    "COMMIT": frames.COMMIT,
    "ABORT": frames.ROLLBACK,
}
_ANSWERS = {
    frames.SEND: frames.ANSWER,
    frames.ACKNOWLEDGE: frames.ANSWER,
    frames.BEGIN: frames.BEGIN_ANSWER,
    frames.COMMIT: frames.COMMIT_ANSWER,
    frames.ROLLBACK: frames.ROLLBACK_ANSWER,
}
_IDENTITY = {"SEND": ("receipt",), "MESSAGE": ("ack", "message-id"), "RECEIPT": ("receipt-id",)}
"""Which header tells one frame from another; of ACK and NACK it is `id` in 1.2 and `message-id` before."""

_CARRIERS = ("SEND", "MESSAGE")
_SHOWN = ("receipt", "message-id", "ack", "id", "receipt-id")
_COMMAND = re.compile(rb"[A-Z]{1,32}")
_ENDED = re.compile(rb"(?s:[^\n\0]*|.*?\n)\0|(?s:.*?)\0(?=[\r\n]*[A-Z]{1,32}\r?\n)")
_ESCAPED = re.compile(r"\\([rnc\\])")
_UNESCAPED = {"r": "\r", "n": "\n", "c": ":", "\\": "\\"}
_LF, _CR = 10, 13
MAX_HEAD = limits.STOMP_HEAD
MAX_UNDECLARED = limits.MESSAGE
"""Bytes of a head, and of a body without content-length, that are kept back to be understood."""


@dataclasses.dataclass
class _Shared:
    """What both directions of a connection must know.

    `asked`, by receipt: the command that asked for it, and its transaction. `subscribed`, by the id of a subscription:
    how it acknowledges.
    """

    asked: dict[str, tuple[str, str | None]] = dataclasses.field(default_factory=dict)
    subscribed: dict[str | None, str] = dataclasses.field(default_factory=dict)


def readers() -> tuple[Splitter, Splitter]:
    """Return readers of both directions; they share the open receipts and the subscriptions."""
    shared = _Shared()
    return _ToBroker(shared), _ToClient(shared)


class _Stomp(Splitter):
    def __init__(self, shared: _Shared) -> None:
        super().__init__()
        self._shared = shared
        self._searched = 0  # how much of an unreported frame has no NUL in its body

    def _frame(self, data: bytes | bytearray, at: int, end: int, offset: int) -> LinkFrame | None:
        if data[at] in (_LF, _CR):
            return _eol(data, at, end, offset)
        found = _head(data, at, end)
        if found is None:
            return None
        command, headers, body = found
        length = self._length(data, at, end, body, headers)
        if length is None:
            return None
        self._searched = 0
        kind, note, transaction = self._kind(command, headers)
        names = _IDENTITY.get(command, ("id", "message-id"))
        shown = [f"{name}={headers[name]}" for name in _SHOWN if name in headers]
        return LinkFrame(
            offset,
            length,
            kind,
            command,
            " ".join([command, *shown, *([note] if note else [])]),
            delivery=next((headers[name] for name in names if name in headers), None),
            transaction=transaction,
            message=_message(headers) if command in _CARRIERS else None,
        )

    def _length(self, data: bytes | bytearray, at: int, end: int, body: int, headers: dict[str, str]) -> int | None:
        """Return the length of the whole frame with its NUL; None if it is not known yet."""
        declared = headers.get("content-length", "")
        if declared.isascii() and declared.isdigit() and len(declared) < 16:
            return body + int(declared) + 1 - at
        nul = data.find(b"\0", max(body, at + self._searched), end)
        if nul >= 0:
            return nul + 1 - at
        self._searched = end - at
        if self._searched > MAX_UNDECLARED:
            raise Unreadable(f"a frame of more than {MAX_UNDECLARED} bytes without content-length")
        return None

    def _kind(self, command: str, headers: dict[str, str]) -> tuple[str, str, str | None]:
        """Return the kind of a frame, words to add to its detail, and its transaction."""
        raise NotImplementedError


class _ToBroker(_Stomp):
    def _kind(self, command: str, headers: dict[str, str]) -> tuple[str, str, str | None]:
        transaction = headers.get("transaction")
        if "receipt" in headers:
            self._shared.asked[headers["receipt"]] = command, transaction
        if command == "SUBSCRIBE":
            self._subscribe(headers)
        return _ASKS.get(command, frames.OTHER), "", transaction

    def _subscribe(self, headers: dict[str, str]) -> None:
        """Two that differ under one id, or without one (STOMP 1.0), are ambiguous: a MESSAGE may be for either."""
        subscribed, mine = self._shared.subscribed, headers.get("id")
        word = SUBSCRIPTIONS.get(headers.get("ack", "auto"), frames.UNSUBSCRIBED)
        subscribed[mine] = word if subscribed.get(mine, word) == word else frames.UNSUBSCRIBED


class _ToClient(_Stomp):
    def _kind(self, command: str, headers: dict[str, str]) -> tuple[str, str, str | None]:
        if command == "MESSAGE":
            return frames.DELIVER, self._subscription(headers.get("subscription")), None
        if command != "RECEIPT":
            return frames.OTHER, "", None
        receipt = headers.get("receipt-id", "")
        if receipt not in self._shared.asked:
            return frames.ANSWER, "never asked for", None
        asked, transaction = self._shared.asked.pop(receipt)
        return _ANSWERS.get(_ASKS.get(asked, ""), frames.OTHER), f"of {asked}", transaction

    def _subscription(self, mine: str | None) -> str:
        word = self._shared.subscribed.get(mine, frames.UNSUBSCRIBED)
        return f"subscription={mine or ''} {word}" if word == SUBSCRIPTIONS["client"] else word


def _eol(data: bytes | bytearray, at: int, end: int, offset: int) -> LinkFrame | None:
    length = 1
    if data[at] == _CR:
        length = 2
        if at + 1 == end:
            return None
        if data[at + 1] != _LF:
            raise Unreadable("a CR between frames that no LF follows")
    return LinkFrame(offset, length, frames.OTHER, "EOL", "EOL")


def _head(data: bytes | bytearray, at: int, end: int) -> tuple[str, dict[str, str], int] | None:
    r"""Return command, headers (the first of repeated ones) and the offset of the body; None if it is incomplete.

    A NUL that begins a line, is in the first, or has a command behind it ends the frame too: a broker can answer
    `DISCONNECT\n\0`, and some do. Any other before the blank line is an octet of a header, which STOMP 1.2 allows: a
    binary `correlation-id`.
    """
    blank = data.find(b"\n\n", at, end)
    crlf = data.find(b"\n\r\n", at, end if blank < 0 else blank + 1)  # its LF may begin that one
    stop, body = (crlf, crlf + 3) if crlf >= 0 else (blank, blank + 2)
    ended = _ENDED.match(data, at, end if stop < 0 else stop + 1)
    if ended:
        stop = body = ended.end() - 1
    if stop < 0:
        if end - at > MAX_HEAD:
            raise Unreadable(f"a head of more than {MAX_HEAD} bytes")
        return None
    first, *lines = bytes(data[at:stop]).split(b"\n")
    command = _COMMAND.fullmatch(first.removesuffix(b"\r"))
    if command is None:
        raise Unreadable(f"{bytes(first[:40])!r} is no command")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.removesuffix(b"\r").decode(errors="replace").partition(":")
        headers.setdefault(name, _unescape(value))
    if ended:
        headers["content-length"] = "0"  # the NUL has ended the frame
    return command[0].decode(), headers, body


def _message(headers: dict[str, str]) -> str | None:
    """Return our message id; a broker passes on headers that it does not know (STOMP 1.2, SEND)."""
    found = headers.get(CONFORMANCE_ID)
    return found if parse_message(found) else None


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: _UNESCAPED[found[1]], text) if "\\" in text else text
