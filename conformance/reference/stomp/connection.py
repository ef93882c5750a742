"""STOMP 1.0 to 1.2: bytes in, bytes out, one `Connection` a socket.

What the standard leaves to the server:

- A destination is a queue's name; `/queue/NAME` is the queue NAME. There are no topics and no selectors.
- A SEND is durable with the header `persistent:true`, and only then. Its RECEIPT says that it is stored.
- The RECEIPT of ACK, NACK, COMMIT and ABORT says that their effect is stored; in a transaction, that of SEND, ACK and
  NACK says that they are part of it. SUBSCRIBE, UNSUBSCRIBE and BEGIN have nothing to store. The RECEIPT of DISCONNECT
  is the last one: it comes after those of all frames before.
- A NACK, like a lost connection, puts the message back at its place, with a delivery-count one higher.
- An ERROR is written at once: what came before it and still waits for the disk has its effect, and no RECEIPT.
- host, login and passcode are read by nobody.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from conformance.reference.core.broker import Broker
from conformance.reference.core.queues import Queue
from conformance.reference.core.settlement import Event
from conformance.reference.core.transactions import Transaction
from conformance.reference.stomp.beats import BEAT_MS, Beats
from conformance.reference.stomp.consumer import AUTO, CLIENT, INDIVIDUAL, Consumer, Register
from conformance.reference.stomp.frames import VERSIONS, Decoder, Frame, ProtocolError, encode
from conformance.reference.stomp.message import store
from conformance.reference.store.commit import Done

MAX_UNSENT = 256 * 1024
"""Bytes written for a peer and not yet given to its socket, beyond which it is sent no more messages."""

MAX_UNFINISHED = 1000
"""Frames of a peer that wait for the disk, beyond which it should not be read: what credit is to an AMQP link."""

MAX_NAME = 255
"""Bytes of a queue's name in the journal."""


@dataclass(slots=True)
class _Open:
    """A transaction under way, and what was acknowledged in it, to be open again if it is aborted."""

    transaction: Transaction
    acknowledged: list[tuple[Consumer, list[tuple[int, str]]]] = field(default_factory=list)


class Connection:
    """One peer. `wake` is called when `output` may have something.

    `numbers` counts, from 1 and for all connections of a broker together, the frames that ask for a receipt.
    """

    def __init__(self, broker: Broker, wake: Callable[[], None], numbers: Iterator[int]) -> None:
        self._broker = broker
        self._wake = wake
        self._numbers = numbers
        self._decoder = Decoder()
        self._version = ""
        self._beats = Beats(0, 0)
        self._parts: list[bytes] = []
        self._unsent = 0
        self._paused = False
        self._consumers: dict[str, Consumer] = {}
        self._subscribed = 0
        self._register: Register = {}
        self._transactions: dict[str, _Open] = {}
        self._unfinished = 0
        self._farewell: Done | None = None
        self._ended = False

    def receive(self, data: bytes) -> None:
        """Bytes from the peer; what breaks the protocol is answered with ERROR, and nothing after it is read."""
        if self._ended or self._farewell is not None:
            return
        self._beats.heard = True
        try:
            for frame in self._decoder.feed(data):
                self._take(frame)
                if self._ended or self._farewell is not None:
                    break
        except ProtocolError as error:
            self._refuse(str(error), error.receipt)
        self._wake()

    def output(self) -> bytes:
        """The bytes that are now to be sent to the peer, in order."""
        data = b"".join(self._parts)
        self._parts.clear()
        was_full, self._unsent = self._unsent >= MAX_UNSENT, 0
        if was_full:
            self._more_credit()
        return data

    def tick(self, now: float) -> float | None:
        """Sends and expects heart-beats: `now` in seconds; when to be called again, None for never."""
        if self._ended:
            return None
        # Nobody reads a peer that is held back, so its silence is ours.
        if self._beats.silent(now, excused=self.choked):
            self._refuse("no heart-beat was received in time")
            return None
        if self._beats.due(now) and not self._paused:
            self._write_bytes(b"\n")
        return self._beats.deadline

    @property
    def choked(self) -> bool:
        """Whether the peer should not be read: too much of it waits for the disk, or too many answers wait for it."""
        return self._unfinished >= MAX_UNFINISHED or self._paused

    @property
    def closed(self) -> bool:
        """Whether nothing more will be sent, so that the socket may be closed."""
        return self._ended and not self._parts

    def pause(self) -> None:
        """The peer does not read: it is sent no more messages."""
        self._paused = True

    def resume(self) -> None:
        """The peer reads again."""
        self._paused = False
        self._more_credit()

    def close(self, description: str) -> None:
        """Closes from our side with an error."""
        if not self._ended:
            self._refuse(description)
            self._wake()

    def lost(self) -> None:
        """The socket is gone: subscriptions end, open transactions are rolled back."""
        self._end()
        self._parts.clear()

    def _end(self) -> None:
        self._ended = True
        self._release()

    def _release(self) -> None:
        for open_ in self._transactions.values():
            self._broker.abandon(open_.transaction)
        self._transactions.clear()
        for consumer in self._consumers.values():
            consumer.end()
        self._consumers.clear()

    def _more_credit(self) -> None:
        for consumer in self._consumers.values():
            consumer.more_credit()
        self._wake()

    def _has_room(self) -> bool:
        return not self._paused and self._unsent < MAX_UNSENT

    def _write(self, command: str, headers: list[tuple[str, str]], body: bytes = b"") -> None:
        self._write_bytes(encode(command, headers, body, self._version or VERSIONS[0]))

    def _write_bytes(self, data: bytes) -> None:
        if self._ended:
            return
        self._parts.append(data)
        self._unsent += len(data)
        self._beats.said = True
        self._wake()

    def _refuse(self, message: str, receipt: str | None = None, extra: tuple[tuple[str, str], ...] = ()) -> None:
        """ERROR is the last frame of a connection (STOMP 1.2, ERROR)."""
        body = f"{message}\n".encode()
        headers = [("message", message), *extra, ("content-type", "text/plain"), ("content-length", str(len(body)))]
        if receipt is not None:
            headers.insert(1, ("receipt-id", receipt))
        self._write("ERROR", headers, body)
        self._end()

    def _take(self, frame: Frame) -> None:
        connecting = frame.command in ("CONNECT", "STOMP")
        try:
            if connecting == bool(self._version):
                raise ProtocolError(
                    "connected already" if connecting else f"{frame.command} before CONNECT, which comes first"
                )
            _HANDLERS[frame.command](self, frame)
        except ProtocolError as error:
            raise ProtocolError(str(error), frame.headers.get("receipt")) from error

    def _owed(self, frame: Frame, *, answers: bool = True) -> Done:
        """Calls back when the frame has had its effect; then its RECEIPT is written, if it asked for one."""
        receipt = frame.headers.get("receipt")
        copies = 0
        if receipt is not None and answers:
            copies = self._broker.behaviour.receipts(next(self._numbers))
        self._unfinished += 1

        def done() -> None:
            self._unfinished -= 1
            for _ in range(copies):
                self._write("RECEIPT", [("receipt-id", receipt or "")])
            self._wake()
            self._leave()

        return done

    def _leave(self) -> None:
        """After DISCONNECT, once nothing but its own answer is owed."""
        farewell = self._farewell
        if farewell is not None and self._unfinished == 1:
            self._farewell = None
            farewell()
            self._end()

    def _queue(self, frame: Frame) -> Queue:
        name = frame.need("destination").removeprefix("/queue/")
        if not name or name.startswith("/topic/") or len(name.encode()) > MAX_NAME:
            raise ProtocolError(f"the destination {name[:40]!r} is not a queue's name of 1 to {MAX_NAME} bytes")
        return self._broker.queue(name)

    def _transaction(self, frame: Frame) -> _Open | None:
        name = frame.headers.get("transaction")
        if name is not None and name not in self._transactions:
            raise ProtocolError(f"no transaction {name[:40]!r} is open")
        return self._transactions[name] if name is not None else None

    def _on_connect(self, frame: Frame) -> None:
        accepted = frame.headers.get("accept-version", "1.0").split(",")
        version = next((version for version in VERSIONS if version in accepted), None)
        if version is None:
            known = ",".join(reversed(VERSIONS))
            self._refuse(f"supported versions are {known}", frame.headers.get("receipt"), (("version", known),))
            return
        if version != "1.0":
            frame.need("host")
        self._beats = Beats.agreed(frame.headers.get("heart-beat", "0,0"))
        self._version = self._decoder.version = version
        headers = [("version", version), ("server", "conformance-reference"), ("session", uuid.uuid4().hex)]
        if version != "1.0":
            headers.append(("heart-beat", f"{BEAT_MS},{BEAT_MS}"))
        self._write("CONNECTED", headers)

    def _on_send(self, frame: Frame) -> None:
        queue = self._queue(frame)
        open_ = self._transaction(frame)
        asked = "receipt" in frame.headers
        answers = not asked or self._broker.behaviour.answers(self._broker.next_send())
        done = self._owed(frame, answers=answers)
        parsed = store(frame.headers, frame.body)
        self._broker.publish(queue, parsed, done, transaction=open_.transaction if open_ else None)

    def _on_subscribe(self, frame: Frame) -> None:
        queue = self._queue(frame)
        key = self._key(frame)
        if key in self._consumers:
            raise ProtocolError(f"the subscription {key[:40]!r} exists already")
        mode = frame.headers.get("ack", AUTO)
        if mode not in (AUTO, CLIENT, INDIVIDUAL) or (mode == INDIVIDUAL and self._version == "1.0"):
            raise ProtocolError(f"the ack mode {mode[:40]!r} does not exist in STOMP {self._version}")
        if "selector" in frame.headers:
            raise ProtocolError("there are no selectors")
        self._subscribed += 1
        self._consumers[key] = Consumer(
            frame,
            self._subscribed,
            queue,
            self._broker,
            self._register,
            self._has_room,
            self._write,
            by_message_id=self._version != "1.2",
        )
        self._owed(frame)()

    def _key(self, frame: Frame) -> str:
        """What names a subscription: its id, or, which only 1.0 allows, its destination."""
        if self._version == "1.0" and "id" not in frame.headers:
            return frame.need("destination")
        return frame.need("id")

    def _on_unsubscribe(self, frame: Frame) -> None:
        consumer = self._consumers.pop(key := self._key(frame), None)
        if consumer is None:
            raise ProtocolError(f"there is no subscription {key[:40]!r}")
        consumer.end()
        self._owed(frame)()

    def _on_ack(self, frame: Frame) -> None:
        self._settle(frame, Event.ACCEPTED)

    def _on_nack(self, frame: Frame) -> None:
        if self._version == "1.0":
            raise ProtocolError("NACK does not exist in STOMP 1.0")
        self._settle(frame, Event.FAILED)

    def _settle(self, frame: Frame, outcome: Event) -> None:
        consumer, tag = self._named(frame)
        open_ = self._transaction(frame)
        tags = consumer.covered(tag, outcome)
        if open_ is not None:
            open_.acknowledged.append((consumer, consumer.names(tags)))
        consumer.take(tags)
        done = _last_of(len(tags), self._owed(frame))
        for each in tags:
            self._broker.settle(
                consumer.subscription, each, outcome, done, transaction=open_.transaction if open_ else None
            )

    def _named(self, frame: Frame) -> tuple[Consumer, int]:
        """The delivery that ACK or NACK names: by the ack header of its MESSAGE, before 1.2 by its message-id."""
        name = frame.need("id" if self._version == "1.2" else "message-id")
        found = self._register.get(name)
        if self._version == "1.1" and found is not None and self._consumers.get(frame.need("subscription")) != found[0]:
            found = None
        if found is None:
            raise ProtocolError(f"nothing that is delivered and not acknowledged is called {name[:40]!r}")
        return found

    def _on_begin(self, frame: Frame) -> None:
        name = frame.need("transaction")
        if name in self._transactions:
            raise ProtocolError(f"the transaction {name[:40]!r} is open already")
        self._transactions[name] = _Open(self._broker.begin())
        self._owed(frame)()

    def _on_commit(self, frame: Frame) -> None:
        self._broker.commit(self._closed(frame).transaction, self._owed(frame))

    def _on_abort(self, frame: Frame) -> None:
        """What was acknowledged in it stays with its subscription, and can be acknowledged again."""
        if self._broker.behaviour.refuses_rollbacks:
            raise ProtocolError("the rollback is refused")
        open_ = self._closed(frame)
        for consumer, named in open_.acknowledged:
            consumer.give_back(named)
        self._broker.rollback(open_.transaction, self._owed(frame))

    def _closed(self, frame: Frame) -> _Open:
        frame.need("transaction")
        open_ = self._transaction(frame)
        assert open_ is not None
        del self._transactions[frame.headers["transaction"]]
        return open_

    def _on_disconnect(self, frame: Frame) -> None:
        self._release()
        self._farewell = self._owed(frame)
        self._leave()


_HANDLERS: dict[str, Callable[[Connection, Frame], None]] = {
    "CONNECT": Connection._on_connect,
    "STOMP": Connection._on_connect,
    "SEND": Connection._on_send,
    "SUBSCRIBE": Connection._on_subscribe,
    "UNSUBSCRIBE": Connection._on_unsubscribe,
    "ACK": Connection._on_ack,
    "NACK": Connection._on_nack,
    "BEGIN": Connection._on_begin,
    "COMMIT": Connection._on_commit,
    "ABORT": Connection._on_abort,
    "DISCONNECT": Connection._on_disconnect,
}


def _last_of(count: int, done: Done) -> Done:
    """Calls `done` when it has been called so many times itself."""
    left = count

    def one() -> None:
        nonlocal left
        left -= 1
        if not left:
            done()

    return one
