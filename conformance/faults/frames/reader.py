"""Where the frames of a stream begin and what they are, for AMQP and STOMP; free of I/O, and of payloads.

A frame is reported as soon as its kind and its length are known, which is long before its last byte has come: a fault
can strike before the first one of it is passed on. What has come and is not reported yet may not be passed on;
`Splitter.passable` says where that begins. It is never more than a head, except where STOMP declares no content-length:
there only the NUL tells the length, and the receiver can do nothing with less either.
"""

from __future__ import annotations

from typing import NamedTuple

SEND, ANSWER, DELIVER, ACKNOWLEDGE = "send", "answer", "deliver", "acknowledge"
BEGIN, COMMIT, ROLLBACK = "begin", "commit", "rollback"
BEGIN_ANSWER, COMMIT_ANSWER, ROLLBACK_ANSWER = "begin_answer", "commit_answer", "rollback_answer"
OTHER = "other"
KINDS = (
    *(SEND, ANSWER, DELIVER, ACKNOWLEDGE),
    *(BEGIN, COMMIT, ROLLBACK, BEGIN_ANSWER, COMMIT_ANSWER, ROLLBACK_ANSWER),
)
"""The kinds that a trigger can name; `script.Frame` says what they are in either protocol.

`answer` is the answer to a send or to an acknowledgement: the RECEIPT of a SUBSCRIBE is none, as the attach of AMQP is
none.
"""

TO_BROKER, TO_CLIENT = "to_broker", "to_client"

SUBSCRIPTIONS = {"auto": "settled", "client": "cumulative", "client-individual": "individual"}
"""The word for each `ack` of a SUBSCRIBE (STOMP 1.2, SUBSCRIBE ack Header)."""

REACHED = "bytes reached the client"
"""The words of a CONNECT of unknown outcome in the history of a link: `count` bytes of that connection's stream did."""

UNSUBSCRIBED = "unsubscribed"
"""The word where nobody can say which subscription a MESSAGE is for, or what that had asked for."""


class Unreadable(Exception):
    """The stream is not what its protocol says; from here on nothing is known of it."""


class LinkFrame(NamedTuple):
    """One frame: where it stands in the stream, in bytes, and what it is.

    `name` is the protocol's word. `delivery` is an AMQP delivery-id, or of STOMP the receipt of a SEND, the receipt-id
    of a RECEIPT, the `ack` of a MESSAGE (else its message-id) or the `id` of an ACK. `first` and `last` are the
    delivery-ids of a disposition; a range is no cumulative acknowledgement by itself, clients coalesce. `message` is
    the id that this suite gave to the message in the frame: of a SEND, a MESSAGE, or each frame of a transfer; None
    where it is not one of ours, or stands too deep. An EOL between STOMP frames is one of its own: nothing tells a
    heart-beat from a line feed that ends a frame (STOMP 1.2, Heart-beating).

    `detail` is what people read, and the judge after them. Its first word is `name`. A transfer adds `settled` (by this
    frame or one before it), `more` (of its delivery follows), `aborted`, and `persistent` where its header says
    durable; a disposition its state and its outcome, `settled`, and `by the sender`. Both add `session=N` for the N-th
    of a connection, unless it is the first. The last word of a MESSAGE says how its subscription acknowledges: one of
    `SUBSCRIPTIONS`, or `UNSUBSCRIBED`; the one before it names a subscription whose acknowledgements are cumulative.
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
        """Where the next one begins."""
        return self.start + self.length


class Splitter:
    """One direction of one connection. What is common to both protocols: chunks, and where the next frame begins.

    Attributes:
        offset: How many bytes of the stream were fed.
        passable: How many of them belong to frames that were reported.
    """

    def __init__(self) -> None:
        self.offset = 0
        self.passable = 0
        self._left = 0  # bytes of a reported frame that have not come yet
        self._tail = bytearray()  # the head of a frame that is not reported yet
        self._blind = False

    def feed(self, data: bytes | bytearray, start: int = 0, end: int | None = None) -> list[LinkFrame]:
        """The frames that `data[start:end]`, the next bytes of the stream, makes known.

        A stream that turns out to be unreadable gives one frame `unreadable` without length, and nothing after it.
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
        """The frames between `at` and `end`, and where the first one that cannot be told yet begins."""
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
        """The frame that begins at `at`, `offset` in the stream; None where too little of it has come.

        Raises:
            Unreadable: No frame of this protocol begins so.
        """
        raise NotImplementedError


class Opaque(Splitter):
    """A protocol of one vendor: bytes that are passed on as they come, and no frame is told of them."""

    def _split(self, data: bytes | bytearray, at: int, end: int) -> tuple[list[LinkFrame], int]:
        return [], end
