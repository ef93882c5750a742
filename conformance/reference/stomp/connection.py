"""STOMP 1.0 to 1.2: bytes in, bytes out, one `StompConnection` a socket.

What the standard leaves to the server:

- A destination is a queue's name; `/queue/NAME` is the queue NAME. There are no topics.
- A selector is one of Jakarta Messaging, 3.8.1, over headers, all of which are texts to it (`core.selector`).
- A SEND is durable with the header `persistent:true`, and only then. Its RECEIPT says that it is stored.
- The RECEIPT of ACK, NACK, COMMIT and ABORT says that their effect is stored; in a transaction, that of SEND, ACK and
  NACK says that they are part of it. SUBSCRIBE, UNSUBSCRIBE and BEGIN have nothing to store. The RECEIPT of DISCONNECT
  is the last one: it comes after those of all frames before.
- A NACK, like a lost connection, puts the message back at its place, with a delivery-count one higher.
- An ERROR is written at once: what came before it and still waits for the disk has its effect, and no RECEIPT. Its
  header `message` is the sentence that says what was wrong; its body repeats it, names the condition of AMQP 1.0 where
  something is full, and shows the head of the frame.
- The header `expires` of a SEND is when it ends, in milliseconds since 1970, and `priority` a number from 0 to 9, as in
  ActiveMQ and Artemis. MESSAGE has both, whichever protocol the sender spoke.
- The broker ignores host, and reads login and passcode if it has a user. docs/reference/profiles.md says what CONNECT,
  SEND and SUBSCRIBE may ask for under a profile.

`StompConnection` is the wire: versions, heart-beats, receipts, ERROR, and how it ends. What the frames between CONNECT
and DISCONNECT do is in `SubscriberSession`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

from conformance.reference.core.admission import LIMIT, Refusal
from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.peers import MAX_UNFINISHED, Beats, BufferedPeer
from conformance.reference.security import OPEN, Guard
from conformance.reference.stomp.frames import VERSIONS, Decoder, ProtocolError, StompFrame, encode, lines
from conformance.reference.stomp.session import CLIENT_ID, SubscriberSession, Window
from conformance.reference.store.commit import Done

BEAT_MS = 100
"""The shortest interval that this side keeps, and asks for, in milliseconds."""


def agreed(header: str) -> Beats:
    """What follows from the heart-beat header of CONNECT: what the peer can send, and would like to get, in ms."""
    can, comma, wants = header.partition(",")
    if not (comma and all(text.isascii() and text.isdigit() and len(text) < 10 for text in (can, wants))):
        raise ProtocolError(f"heart-beat {header[:40]!r} is not two numbers of milliseconds")
    return Beats(*(max(int(text), BEAT_MS) / 1000 if int(text) else 0 for text in (wants, can)))


CONNECT_S = 10.0
"""Seconds in which the CONNECT of a connection must have arrived; heart-beats do not extend them."""

_CONNECTING = frozenset(("CONNECT", "STOMP"))

_SHOWN = 1000
"""Characters of a frame's head that an ERROR repeats."""


class StompConnection(BufferedPeer):
    """One peer. `wake` is called when `output` may have something.

    `numbers` counts, from 1 and for all connections of a broker together, the frames that ask for a receipt. The time
    that a peer has for its CONNECT runs from the first `tick`. `later` calls back after so many seconds.
    """

    def __init__(
        self,
        broker: ReferenceBroker,
        wake: Callable[[], None],
        numbers: Iterator[int],
        later: Callable[[float, Callable[[], None]], object],
        guard: Guard = OPEN,
    ) -> None:
        super().__init__(broker, wake)
        self._guard = guard
        self._numbers = numbers
        self._later = later
        self._decoder = Decoder(max_body=broker.settings.max_message_bytes)
        self._session: SubscriberSession | None = None
        self._version = VERSIONS[0]
        self._connect_by: float | None = None
        self._unfinished = 0
        self._farewell: Done | None = None

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
            if reason := self._hold(self._decoder.unfinished):
                raise ProtocolError(reason, None, LIMIT)
        except ProtocolError as error:
            self._refuse(str(error), receipt=error.receipt, condition=error.condition)
        self._wake()

    def tick(self, now: float) -> float | None:
        """Keeps time: `now` in seconds; when to be called again, None for never."""
        if self._ended:
            return None
        if self._session is None:
            return self._expect_connect(now)
        # The broker does not read a client that it holds back, so that client's silence proves nothing.
        if self._beats.silent(now, excused=self.choked):
            self._refuse("no heart-beat was received in time")
            return None
        if self._beats.due(now) and not self._paused:
            self.write(b"\n")
        return self._beats.deadline

    @property
    def choked(self) -> bool:
        return self._unfinished >= MAX_UNFINISHED or self._paused

    def close(self, description: str) -> None:
        if not self._ended:
            self._refuse(description)

    def lost(self) -> None:
        """The socket is gone: subscriptions end, open transactions are rolled back."""
        self._end()
        self._parts.clear()
        self._session = None  # it knows its connection: see sockets.connection_lost

    def owed(self, frame: StompFrame, *, answers: bool = True) -> Done:
        """Calls back when the frame has had its effect; then its RECEIPT leaves, if it asked for one."""
        receipt = frame.headers.get("receipt") if answers else None
        copies = self._copies(receipt)
        self._unfinished += 1

        def done() -> None:
            self._unfinished -= 1
            if receipt is not None:
                self._confirm(receipt, copies)
            if self._unfinished == MAX_UNFINISHED - 1:
                self._wake()
            if self._farewell is not None:
                self._leave()

        return done

    def refused(self, frame: StompFrame, refusal: Refusal) -> None:
        """Refuse the frame: it has no effect, and never will."""
        self._refuse(refusal.description, frame, condition=refusal.condition)

    def confirm(self, receipt: str) -> None:
        """The RECEIPT of a frame that was `owed` none leaves after all."""
        if not self._ended:
            self._confirm(receipt, self._copies(receipt))

    def _copies(self, receipt: str | None) -> int:
        return self._broker.behaviour.receipts(next(self._numbers)) if receipt is not None else 0

    def _confirm(self, receipt: str, copies: int) -> None:
        """The RECEIPT of a frame that has had its effect leaves here, and nowhere else."""
        for _ in range(copies):
            self.write(b"RECEIPT\n%b\n\0" % lines((("receipt-id", receipt),), self._version))

    def _end(self) -> None:
        self._ended = True
        self._hold(0)
        self._decoder = Decoder()
        if self._session is not None:
            self._session.end()

    def _more_room(self) -> None:
        if self._session is not None:
            self._session.more_credit()
        self._wake()

    def _refuse(
        self,
        message: str,
        frame: StompFrame | None = None,
        *,
        receipt: str | None = None,
        condition: str | None = None,
        extra: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """ERROR is the last frame of a connection (STOMP 1.2, ERROR); `frame` is the one that it is about."""
        shown = [message, *([f"condition: {condition}"] if condition else []), *(_shown(frame) if frame else ())]
        body = "\n".join([*shown, ""]).encode()
        receipt = frame.headers.get("receipt") if frame else receipt
        headers = [("message", message), *([("receipt-id", receipt)] if receipt is not None else []), *extra]
        headers += [("content-type", "text/plain"), ("content-length", str(len(body)))]
        self.write(encode("ERROR", headers, body, self._version))
        self._end()

    def _expect_connect(self, now: float) -> float | None:
        if self._connect_by is None:
            self._connect_by = now + CONNECT_S
        if now < self._connect_by:
            return self._connect_by
        self._refuse(f"no CONNECT came within {CONNECT_S:g} seconds")
        return None

    def _take(self, frame: StompFrame) -> None:
        session = self._session
        connecting = frame.command in _CONNECTING
        try:
            if connecting and session is None:
                self._on_connect(frame)
            elif connecting:
                raise ProtocolError("connected already")
            elif session is None:
                raise ProtocolError(f"{frame.command} before CONNECT, which comes first")
            elif frame.command == "DISCONNECT":
                self._on_disconnect(frame, session)
            else:
                session.take(frame)
        except ProtocolError as error:
            self._refuse(str(error), frame, condition=error.condition)

    def _on_connect(self, frame: StompFrame) -> None:
        accepted = frame.headers.get("accept-version", "1.0").split(",")
        version = next((version for version in VERSIONS if version in accepted), None)
        if version is None:
            known = ",".join(reversed(VERSIONS))
            self._refuse(f"supported versions are {known}", frame, extra=(("version", known),))
            return
        login, passcode = (frame.headers.get(name, "").encode() for name in ("login", "passcode"))
        if self._guard.user is not None and not self._guard.knows(login, passcode):
            raise ProtocolError("login and passcode are not those of a user")
        window = Window.asked(frame, self._broker, self, self._later)
        headers = [("version", version), ("server", "conformance-reference"), ("session", uuid.uuid4().hex)]
        if version != "1.0":  # which knows neither
            frame.need("host")
            self._beats = agreed(frame.headers.get("heart-beat", "0,0"))
            headers.append(("heart-beat", f"{BEAT_MS},{BEAT_MS}"))
        self._version = self._decoder.version = version
        self._session = SubscriberSession(self._broker, self, version, window, frame.headers.get(CLIENT_ID, ""))
        self.write(encode("CONNECTED", headers, version=version))

    def _on_disconnect(self, frame: StompFrame, session: SubscriberSession) -> None:
        session.end()
        self._farewell = self.owed(frame)
        self._leave()

    def _leave(self) -> None:
        """After DISCONNECT, once nothing but its own answer is owed."""
        farewell = self._farewell
        if farewell is not None and self._unfinished == 1:
            self._farewell = None
            if self._session is not None:
                self._session.confirm_all()
            farewell()
            self._end()


def _shown(frame: StompFrame) -> list[str]:
    """The head of a frame for the body of ERROR, as the examples of the standard have it."""
    head = [f"{name}:{'***' if name == 'passcode' else value}" for name, value in frame.headers.items()]
    return ["-----", "\n".join([frame.command, *head])[:_SHOWN], "-----"]
