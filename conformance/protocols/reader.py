"""Find where the frames of a stream begin and what they are, without I/O and without decoding payloads.

A frame is reported as soon as its kind and length are known, long before its last byte has come: so a fault can strike
before the first byte of the frame is passed on. Bytes of a frame that is not reported must wait; `Splitter.passable`
says where they begin. They are never more than a head, except for a STOMP frame without content-length: its length is
known only at the NUL, and the receiver cannot use it before either.
"""

from __future__ import annotations

from typing import NamedTuple

SEND, ANSWER, DELIVER, ACKNOWLEDGE = "send", "answer", "deliver", "acknowledge"
RECEIVED, RELEASE, COMPLETE = "received", "release", "complete"
BEGIN, COMMIT, ROLLBACK = "begin", "commit", "rollback"
BEGIN_ANSWER, COMMIT_ANSWER, ROLLBACK_ANSWER = "begin_answer", "commit_answer", "rollback_answer"
OTHER = "other"
KINDS = (
    *(SEND, ANSWER, DELIVER, ACKNOWLEDGE, RECEIVED, RELEASE, COMPLETE),
    *(BEGIN, COMMIT, ROLLBACK, BEGIN_ANSWER, COMMIT_ANSWER, ROLLBACK_ANSWER),
)
"""The kinds that a trigger can name; `script.Frame` says what they are in each protocol.

`answer` is the answer to a send or to an acknowledgement. The RECEIPT of a SUBSCRIBE and the attach of AMQP are none.
"""

TO_BROKER, TO_CLIENT = "to_broker", "to_client"

REACHED = "bytes reached the client"
"""The detail of a CONNECT of unknown outcome in a link's history; `count` is the number of those bytes."""

UNSUBSCRIBED = "unsubscribed"
"""Used when the subscription of a MESSAGE, or what it asked for, is unknown."""


class Unreadable(Exception):
    """The stream breaks its protocol; its later bytes cannot be read."""


class LinkFrame(NamedTuple):
    """One frame: its place in the stream, in bytes, and what it is.

    `name` is the protocol's name. `delivery` is an AMQP delivery-id, or in STOMP the receipt of a SEND, the receipt-id
    of a RECEIPT, the `ack` of a MESSAGE (else its message-id) or the `id` of an ACK. `first` and `last` are the
    delivery-ids of a disposition; a range is not always one cumulative acknowledgement, because clients coalesce.
    `message` is our id of the message in a SEND, a MESSAGE, or each frame of a transfer; None if it is not ours, or too
    deep in the frame. An EOL between STOMP frames is a frame: a heart-beat looks like the line feed after a frame
    (STOMP 1.2, Heart-beating).

    People and the judge read `detail`. Its first word is `name`. A transfer adds `settled` (by this frame or one before
    it), `more` (frames of its delivery follow), `aborted`, and `persistent` if its header says durable. A disposition
    adds its state and outcome, `settled`, and `by the sender`. Both add `session=N` for the N-th session of a
    connection, unless N is 1. The last word of a MESSAGE says how its subscription acknowledges: one of
    `stomp.frames.SUBSCRIPTIONS`, or `UNSUBSCRIBED`. The word before it names a subscription with cumulative
    acknowledgements.
    """

    start: int
    length: int
    kind: str
    name: str
    detail: str
    delivery: str | None = None
    transaction: str | None = None
    first: int | None = None
    last: int | None = None
    message: str | None = None

    @property
    def end(self) -> int:
        return self.start + self.length


class Splitter:
    """Split one direction of one connection into frames; a subclass reads the frames of its protocol.

    Attributes:
        offset: How many bytes of the stream were fed.
        passable: How many of them belong to frames that were reported.
    """

    def __init__(self) -> None:
        self.offset = 0
        self.passable = 0
        self._left = 0  # bytes of a reported frame that are still to come
        self._tail = bytearray()  # the head of a frame that is not reported
        self._blind = False

    def feed(self, data: bytes | bytearray, start: int = 0, end: int | None = None) -> list[LinkFrame]:
        """Return the frames that become known by `data[start:end]`, the next bytes of the stream.

        An unreadable stream gives one frame `unreadable` without length, and no frame after it.
        """
        end = len(data) if end is None else end
        self.offset += end - start
        step = min(self._left, end - start)
        self._left -= step
        start += step
        if self._blind or start == end:
            self.passable = self.offset - (0 if self._blind else len(self._tail))
            return []
        if self._tail:
            self._tail += memoryview(data)[start:end]
            data, start, end = self._tail, 0, len(self._tail)
        frames, start = self._split(data, start, end)
        self._tail = bytearray(memoryview(data)[start:end])
        self.passable = self.offset - len(self._tail)
        return frames

    def _split(self, data: bytes | bytearray, at: int, end: int) -> tuple[list[LinkFrame], int]:
        """Return the frames between `at` and `end`, and the offset of the first one that is not known."""
        frames: list[LinkFrame] = []
        base = self.offset - end  # of data[0] in the stream
        try:
            while at < end and (frame := self._frame(data, at, end, base + at)) is not None:
                frames.append(frame)
                at += frame.length
        except Unreadable as error:
            frames.append(LinkFrame(base + at, 0, OTHER, "unreadable", f"unreadable: {error}"))
            self._blind = True
            return frames, end
        self._left = max(at - end, 0)
        return frames, min(at, end)

    def _frame(self, data: bytes | bytearray, at: int, end: int, offset: int) -> LinkFrame | None:
        """Return the frame at `at`, which is `offset` in the stream; None if too little of it has come.

        Raises:
            Unreadable: No frame of this protocol begins like this.
        """
        raise NotImplementedError


class Opaque(Splitter):
    """A vendor's protocol that the suite cannot read: all bytes pass, and no frame is reported."""

    def _split(self, data: bytes | bytearray, at: int, end: int) -> tuple[list[LinkFrame], int]:
        return [], end
