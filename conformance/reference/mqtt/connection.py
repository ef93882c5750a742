"""MQTT 5 and 3.1.1: bytes in, bytes out, one `MqttServerConnection` a socket.

What the standards leave to the server:

- A PUBLISH goes to the session of each subscriber and to the queue that has the topic as its name; without any of them
  the answer says so (0x10). PUBACK and PUBREC say that the message is stored.
- Answers to a connection leave in the order of its packets. A refused message is refused by a reason code; 3.1.1 has
  none, so its connection is closed.
- DUP is set where the message may have been delivered before. A message that a client refuses goes to the dead-letter
  queue, and so does one that is larger than it takes.
- Not offered, and refused by the reason code of the standard: shared subscriptions, subscription identifiers, topic
  aliases, No Local, enhanced authentication.

`MqttServerConnection` is the wire and its answers; what outlives it is in `sessions`.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterator, Sequence

from conformance.reference.core.admission import INVALID, NOT_FOUND, Refusal, ignore_refusal
from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.core.effects import Effect
from conformance.reference.core.queues import Message, Queue, Subscription
from conformance.reference.core.settlement import SettlementEvent
from conformance.reference.mqtt import codec, message
from conformance.reference.mqtt.codec import ConnectPacket, FixedHeader, MqttError, Properties, ServerPublish, found
from conformance.reference.mqtt.sessions import AS_PUBLISHED, NEVER, MqttSessions, ServerSession
from conformance.reference.mqtt.topics import is_filter
from conformance.reference.peers import MAX_UNFINISHED, MAX_UNSENT, Beats, FramedPeer
from conformance.reference.security import OPEN, Guard
from conformance.reference.store.commit import do_nothing

CONNECT_S = 10.0
"""Seconds in which the CONNECT of a connection must have arrived."""

RECEIVE = 1000
"""Messages of QoS above 0 that a client may send before their last answer (Receive Maximum of the CONNACK)."""

_AROUND = 1 << 17
"""Bytes of a PUBLISH beside its body: topic and properties. A larger one is read and not kept."""

_MOST = 65_535
_LACKS = [(codec.HAS_IDENTIFIERS, 0), (codec.HAS_SHARED, 0)]


class _InOrder(Subscription):
    """That of a session, whose messages come in their order (section 4.6)."""

    in_order = True


class MqttServerConnection(FramedPeer):
    """One peer. `wake` is called when `output` may have something; `later` calls back after so many seconds.

    `numbers` counts, from 1 and for all connections of a broker together, the answers. The time that a peer has for its
    CONNECT runs from the first `tick`.
    """

    def __init__(
        self,
        broker: ReferenceBroker,
        wake: Callable[[], None],
        sessions: MqttSessions,
        numbers: Iterator[int],
        later: Callable[[float, Callable[[], None]], object],
        guard: Guard = OPEN,
    ) -> None:
        super().__init__(broker, wake, later)
        self.dismissal = ""  # why a connection over the limit is refused
        self._sessions = sessions
        self._numbers = numbers
        self._guard = guard
        self._level = 5
        self._session: ServerSession | None = None
        self._subscription: Subscription | None = None
        self._receive = self._largest = 0
        self._open: dict[int, tuple[int, int]] = {}  # tag and QoS of what is sent and not acknowledged
        self._leaving: list[tuple[int, SettlementEvent]] = []
        self._will: ServerPublish | None = None
        self._wrong: MqttError | None = None
        self._receiving = 0
        self._connect_by: float | None = None
        self._connected = False
        self._skipped = 0  # bytes to come of a packet that is refused
        self._unfinished = 0

    def _read(self) -> None:
        """What breaks the protocol ends the connection, with a reason code where there is one."""
        try:
            self._packets()
            if reason := self._hold(0 if self._ended else len(self._input)):
                raise MqttError(codec.QUOTA, reason)
        except MqttError as error:
            self._refuse(error)

    def output(self) -> bytes:
        leaving, self._leaving = self._leaving, []
        for tag, event in leaving:
            assert self._subscription is not None  # it was delivered through it
            self._broker.settle(self._subscription, tag, event, do_nothing)
        if leaving:
            self._more_room()
        if self._wrong is not None:
            self._refuse(self._wrong)
        return super().output()

    def tick(self, now: float) -> float | None:
        """Keeps time: `now` in seconds; when to be called again, None for never."""
        if self._ended:
            return None
        if not self._connected:
            self._connect_by = now + CONNECT_S if self._connect_by is None else self._connect_by
            if now >= self._connect_by:
                self._end()
            return self._connect_by
        # The broker does not read a client that it holds back, so that client's silence proves nothing.
        if self._beats.silent(now, excused=self.choked):
            self._refuse(MqttError(codec.KEEP_ALIVE, "nothing was received in one and a half times the keep alive"))
            return None
        return self._beats.deadline

    @property
    def choked(self) -> bool:
        return self._paused or self._blocked

    def close(self, description: str) -> None:
        self._refuse(MqttError(codec.SHUTTING_DOWN, description))

    def take_over(self) -> None:
        self._refuse(MqttError(codec.TAKEN_OVER, "another connection has this client identifier"))

    def lost(self) -> None:
        """The socket is gone: what was delivered goes back to the session."""
        self._end()
        self._parts.clear()

    @property
    def _blocked(self) -> bool:
        waits = self._session is not None and not self._connected
        return waits or self._unsent >= MAX_UNSENT or self._unfinished >= MAX_UNFINISHED

    def _more_room(self) -> None:
        """What was held back is read in a turn of its own, and the session is served."""
        if self._ended:
            return
        if self._subscription is not None:
            self._broker.more_credit(self._subscription)
        self._read_on()
        self._wake()

    def _refuse(self, error: MqttError) -> None:
        """The connection ends; what it says of that is a DISCONNECT, and before a CONNACK nothing."""
        if self._connected and self._level == 5 and not self._ended:
            payload = bytes((error.code,)) + codec.properties([(codec.REASON, str(error)[:255])])
            if not self._largest or len(payload) + 5 <= self._largest:
                self.write(codec.packet(codec.DISCONNECT, payload))
        self._end()

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        self._input.clear()
        self._hold(0)
        self._wrong = None
        if self._subscription is not None:
            self._broker.unsubscribe(self._subscription)
        self._open.clear()
        self._leaving.clear()
        if self._session is not None:
            self._sessions.leave(self._session)
            if self._will is not None:
                self._sessions.publish_will(self._will, self._session)

    def _packets(self) -> None:
        data, at = self._input, 0
        most = self._broker.settings.max_message_bytes + _AROUND
        if self._skipped:
            at = min(self._skipped, len(data))
            self._skipped -= at
        while not self._skipped and not self._ended and not self._blocked and (head := codec.head(data, at, _AROUND)):
            if self._session is None and head.kind != codec.CONNECT:
                raise MqttError(codec.PROTOCOL_ERROR, "the first packet is no CONNECT")
            if head.end - head.start > most:
                begun, at = at, self._skip(head, at)
                if at == begun:
                    break
            elif len(data) < head.end:
                break
            else:
                payload = bytes(memoryview(data)[head.start : head.end])
                at = head.end
                self._take(head, payload)
        del data[:at]

    def _skip(self, head: FixedHeader, at: int) -> int:
        """Refuse a PUBLISH that is too large, as soon as its first bytes have come; the rest is read and not kept."""
        found = codec.cut_publish(self._input, head)
        if found is None:
            return at
        self._refuse_publish(found, codec.QUOTA)
        at = min(head.end, len(self._input))
        self._skipped = head.end - at
        return at

    def _take(self, head: FixedHeader, payload: bytes) -> None:
        kind = head.kind
        if self._session is None:
            self._on_connect(payload)
        elif kind == codec.PUBLISH:
            self._on_publish(codec.read_publish(payload, head.flags, self._level), self._session)
        elif kind in codec.ACKS:
            _ANSWERS[kind](self, self._session, *codec.read_answer(kind, payload, self._level))
        elif kind == codec.PINGREQ and not payload:
            self.write(codec.packet(codec.PINGRESP, b""))
        elif kind == codec.SUBSCRIBE:
            self._on_subscribe(payload, self._session)
        elif kind == codec.UNSUBSCRIBE:
            self._on_unsubscribe(payload, self._session)
        elif kind == codec.DISCONNECT:
            self._on_disconnect(payload, self._session)
        else:
            raise MqttError(codec.PROTOCOL_ERROR, f"a packet of type {kind}, which this connection may not get now")

    # the session begins and ends

    def _on_connect(self, payload: bytes) -> None:
        try:
            asked = codec.read_connect(payload)
            self._level = asked.level
            client, about = self._named(asked)
            expiry_s = found(asked.properties, codec.SESSION_EXPIRY, 0)
            if asked.level == 4:
                expiry_s = 0 if asked.clean else NEVER
            session, present, effects = self._sessions.open(client, expiry_s, clean=asked.clean)
            if isinstance(session, Refusal):
                code = codec.QUOTA if session.condition else codec.BAD_CLIENT
                raise MqttError(code, session.description)
        except MqttError as error:
            self._refuse_connect(error)
            return
        session.owner, self._session, self._will = self, session, asked.will
        self._receive = found(asked.properties, codec.RECEIVE_MAXIMUM, _MOST)
        self._largest = found(asked.properties, codec.LARGEST, 0)
        self._beats = Beats(0, asked.keep_alive_s * 0.75)  # half of what the standard allows: see `peers.TOLERANCE`
        self._broker.store(effects, lambda: self._welcome(session, present, about))

    def _named(self, asked: ConnectPacket) -> tuple[str, Properties]:
        """The client's identifier, and what a CONNACK says of it; raises `MqttError` where it may not connect."""
        if self.dismissal:
            raise MqttError(codec.BUSY, self.dismissal)
        if found(asked.properties, codec.METHOD) is not None:
            raise MqttError(codec.BAD_METHOD, "there is no enhanced authentication")
        if self._guard.user is not None and not self._guard.knows(asked.user or b"", asked.password):
            raise MqttError(codec.BAD_LOGIN, "user name and password are not those of a user")
        if asked.will is not None:
            message.store(asked.will)
        if asked.client:
            return asked.client, []
        if asked.level == 4 and not asked.clean:
            raise MqttError(codec.BAD_CLIENT, "a session that is kept needs a client identifier")
        name = f"client-{uuid.uuid4().hex}"
        return name, [(codec.ASSIGNED, name)]

    def _refuse_connect(self, error: MqttError) -> None:
        """A CONNACK with the reason is the last packet; 3.1.1 has a code for few reasons."""
        if self._level == 5:
            said = codec.properties([(codec.REASON, str(error)[:255])])
            self.write(codec.packet(codec.CONNACK, bytes((0, error.code)) + said))
        elif error.code in codec.RETURN_CODES:
            self.write(codec.packet(codec.CONNACK, bytes((0, codec.RETURN_CODES[error.code]))))
        self._end()

    def _welcome(self, session: ServerSession, present: bool, about: Properties) -> None:
        """The session is stored: CONNACK, then what the client has to finish, then its messages."""
        if self._ended:
            return
        payload = bytes((present, codec.SUCCESS))
        if self._level == 5:
            limits = [(codec.RECEIVE_MAXIMUM, RECEIVE), *_LACKS]
            payload += codec.properties([*limits, *about])
        self.write(codec.packet(codec.CONNACK, payload))
        self._connected = True
        for number in session.released:
            self.write(codec.answer(codec.PUBREL, number, 0, self._level))
        if session.filters:
            self._serve(session)
        self._more_room()

    def _serve(self, session: ServerSession) -> Refusal | None:
        """Deliver what the session's queue has, if that is not done yet."""
        queue = session.declare()
        if isinstance(queue, Refusal):
            return queue
        if self._subscription is None or not self._subscription.open:
            self._subscription = _InOrder(queue, False, self._credit, self._deliver, owner=self)
            self._broker.subscribe(self._subscription)
        return None

    def _on_disconnect(self, payload: bytes, session: ServerSession) -> None:
        reason, about = codec.read_disconnect(payload, self._level)
        self._will = self._will if reason == codec.WITH_WILL else None
        expiry_s = found(about, codec.SESSION_EXPIRY)
        if expiry_s and not session.expiry_s:
            raise MqttError(codec.PROTOCOL_ERROR, "a DISCONNECT that keeps a session which was to end")
        if expiry_s is not None and expiry_s != session.expiry_s:
            self._broker.store(session.live(expiry_s), do_nothing)
        self._end()

    def _on_subscribe(self, payload: bytes, session: ServerSession) -> None:
        asked = codec.read_request(codec.SUBSCRIBE, payload, self._level)
        if asked.properties and found(asked.properties, codec.SUBSCRIPTION) is not None:
            raise MqttError(codec.NO_IDENTIFIERS, "subscription identifiers are not offered")
        effects, reasons = [], []
        for name, options in asked.filters:
            reason = self._refusal(name, options, session)
            if not reason:
                reason, known = options & 3, name in session.filters
                effects += session.subscribe(name, options & (AS_PUBLISHED | 3))
                handling = options >> 4 & 3
                if handling == 0 or (handling == 1 and not known):
                    self._send_retained(name, session)
            reasons.append(reason if self._level == 5 or reason < codec.REFUSED else codec.REFUSED)
        self._answer_request(codec.SUBACK, asked.number, bytes(reasons), effects)

    def _send_retained(self, name: str, session: ServerSession) -> None:
        """What a new subscription gets of the messages before it."""
        queue = session.declare()
        if isinstance(queue, Queue):
            for parsed in self._sessions.retained.matching(name):
                self._broker.publish_to([queue], parsed, do_nothing, refused=ignore_refusal)

    def _refusal(self, name: str, options: int, session: ServerSession) -> int:
        """The reason code that refuses a subscription; 0 where it is taken."""
        if name.startswith("$share/"):
            return codec.NO_SHARED
        if not is_filter(name):
            return codec.BAD_FILTER
        if options & 4:
            return codec.NOT_OFFERED  # No Local
        if len(session.filters) >= self._broker.settings.max_links and name not in session.filters:
            return codec.QUOTA
        refusal = self._serve(session)
        if refusal is None:
            return codec.SUCCESS
        return codec.NOT_AUTHORIZED if refusal.condition in (NOT_FOUND, INVALID) else codec.QUOTA

    def _on_unsubscribe(self, payload: bytes, session: ServerSession) -> None:
        asked = codec.read_request(codec.UNSUBSCRIBE, payload, self._level)
        effects, reasons = [], []
        for name, _ in asked.filters:
            known = name in session.filters
            effects += session.unsubscribe(name) if known else []
            reasons.append(codec.SUCCESS if known else codec.NO_SUBSCRIPTION)
        self._answer_request(codec.UNSUBACK, asked.number, bytes(reasons) if self._level == 5 else b"", effects)

    def _answer_request(self, kind: int, number: int, reasons: bytes, effects: Sequence[Effect]) -> None:
        """A SUBACK or UNSUBACK, once what it says is stored."""
        about = b"\0" if self._level == 5 else b""
        finished = self._owed()

        def done() -> None:
            finished()
            self.write(codec.packet(kind, struct.pack(">H", number) + about + reasons))

        self._broker.store(effects, done)

    # messages to the broker

    def _on_publish(self, packet: ServerPublish, session: ServerSession) -> None:
        number = packet.number
        if packet.qos == 2 and number in session.received:
            if self._broker.behaviour.answers_again:
                self._in_turn(codec.PUBREC, number, 0)
            return
        if packet.qos:
            self._receiving += 1
            if self._level == 5 and self._receiving > RECEIVE:
                raise MqttError(codec.OVER_RECEIVE_MAXIMUM, f"more than {RECEIVE} messages without their last answer")
        try:
            parsed = message.store(packet)
            noted = self._sessions.retained.take(packet, parsed)
        except MqttError as error:
            self._refuse_publish(packet, error.code)
            return
        noted += session.receive(number) if packet.qos == 2 else []
        targets = self._sessions.reached(packet.topic)
        if not targets:
            self._broker.store(noted, self._publish_answer(packet, codec.NO_SUBSCRIBER if self._level == 5 else 0))
            return
        answers = not packet.qos or self._broker.behaviour.answers(self._broker.next_send())
        finished = self._owed()
        stored = self._publish_answer(packet, 0)

        def done() -> None:
            finished()
            if answers:
                stored()

        def refused(reason: Refusal) -> None:
            finished()
            if packet.qos == 2:
                self._broker.store(session.finish_received(number), do_nothing)
            self._refuse_publish(packet, codec.QUOTA)

        self._broker.publish_to(targets, parsed, done, refused=refused, noted=noted, sender=self)

    def _publish_answer(self, packet: ServerPublish, reason: int) -> Callable[[], None]:
        """Answers a PUBLISH when it is called; QoS 0 has no answer."""
        kind = {1: codec.PUBACK, 2: codec.PUBREC}.get(packet.qos)

        def answer() -> None:
            if packet.qos == 1 or reason >= codec.REFUSED:
                self._receiving -= bool(packet.qos)
            if kind is not None and not self._ended:
                for _ in range(self._broker.behaviour.receipts(next(self._numbers))):
                    self.write(codec.answer(kind, packet.number, reason, self._level))

        return answer

    def _refuse_publish(self, packet: ServerPublish, code: int) -> None:
        """The answer of a refusal leaves after those before it; without reason codes it costs the connection."""
        if self._level == 5 or not packet.qos:
            self._broker.when_stored(self._publish_answer(packet, code))
        else:
            self._broker.when_stored(lambda: self._refuse(MqttError(code, "a message is refused")))

    def _in_turn(self, kind: int, number: int, reason: int) -> None:
        """An answer for which nothing has to be stored, after those before it."""
        finished = self._owed()

        def done() -> None:
            finished()
            self.write(codec.answer(kind, number, reason, self._level))

        self._broker.when_stored(done)

    def _on_pubrel(self, session: ServerSession, number: int, _reason: int) -> None:
        if number not in session.received:
            self._in_turn(codec.PUBCOMP, number, codec.NUMBER_NOT_FOUND)
            return
        finished = self._owed()

        def done() -> None:
            finished()
            self._receiving = max(0, self._receiving - 1)
            self.write(codec.answer(codec.PUBCOMP, number, 0, self._level))

        self._broker.store(session.finish_received(number), done)

    def _owed(self) -> Callable[[], None]:
        self._unfinished += 1
        return self._finished

    def _finished(self) -> None:
        self._unfinished -= 1
        if self._unfinished == MAX_UNFINISHED - 1:
            self._more_room()

    # messages to the client

    def _credit(self) -> int:
        session, subscription = self._session, self._subscription
        if session is None or subscription is None or self._wrong is not None or not self.has_room():
            return 0
        behaviour = self._broker.behaviour
        used = len(self._open) + len(session.released) if behaviour.refills else subscription.sent
        return behaviour.prefetch_limit(self._receive) - used

    def _deliver(self, tag: int, found: Message) -> None:
        session = self._session
        assert session is not None  # it has subscribed
        body = self._broker.body(found)
        shown = message.show(body, durable=found.durable)
        topic = shown.topic or session.client
        granted, as_published = session.granted(topic)
        qos = min(shown.qos, granted)
        retain = shown.retain == message.KEPT or (as_published and shown.retain == message.FORWARDED)
        place = found.number if self._broker.behaviour.keeps_identifiers else next(self._numbers)
        number = (place - 1) % _MOST + 1 if qos else 0
        if number in self._open or number in session.released:
            self._wrong = MqttError(codec.PROTOCOL_ERROR, f"a message is unacknowledged, and {_MOST} after it are not")
            self._wake()
            return
        again = qos and found.acquired and self._broker.behaviour.marks_redelivered
        head = codec.binary(topic.encode()) + (struct.pack(">H", number) if qos else b"")
        if self._level == 5:
            left_s = -(-self._broker.left_ms(found) // 1000)
            head += codec.properties([*([(codec.EXPIRY, left_s)] if left_s else []), *shown.properties])
        packet = codec.packet(codec.PUBLISH, head + shown.body, 8 * bool(again) | qos << 1 | retain)
        if self._largest and len(packet) > self._largest:
            self._leave(tag, SettlementEvent.REJECTED)
            return
        if qos:
            self._open[number] = (tag, qos)
        else:
            self._leave(tag, SettlementEvent.ACCEPTED)
        self.write(packet)

    def _leave(self, tag: int, event: SettlementEvent) -> None:
        """A delivery without an answer is settled before the next bytes leave: the broker holds it only then."""
        self._leaving.append((tag, event))
        self._wake()

    def _on_puback(self, session: ServerSession, number: int, reason: int) -> None:
        """Or a PUBREC that refuses. One for an earlier connection answers nothing: its message is sent again."""
        tag, qos = self._open.get(number, (0, 1))
        if qos == 2 and reason < codec.REFUSED:
            raise MqttError(codec.PROTOCOL_ERROR, "a PUBACK for a message of QoS 2")
        self._settle(number, tag, reason)

    def _on_pubrec(self, session: ServerSession, number: int, reason: int) -> None:
        tag, qos = self._open.get(number, (0, 2))
        if qos == 1:
            raise MqttError(codec.PROTOCOL_ERROR, "a PUBREC for a message of QoS 1")
        if not tag:
            known = number in session.released
            self._in_turn(codec.PUBREL, number, codec.SUCCESS if known else codec.NUMBER_NOT_FOUND)
        elif reason >= codec.REFUSED:
            self._settle(number, tag, reason)
        elif not self._broker.behaviour.finishes_by_pubrec:
            self._in_turn(codec.PUBREL, number, codec.SUCCESS)
        else:
            del self._open[number]
            assert self._subscription is not None  # it was delivered through it
            self._broker.settle(
                self._subscription,
                tag,
                SettlementEvent.ACCEPTED,
                lambda: self.write(codec.answer(codec.PUBREL, number, 0, self._level)),
                noted=session.release(number),
            )

    def _settle(self, number: int, tag: int, reason: int) -> None:
        if tag and self._subscription is not None:
            del self._open[number]
            event = SettlementEvent.REJECTED if reason >= codec.REFUSED else SettlementEvent.ACCEPTED
            self._broker.settle(self._subscription, tag, event, do_nothing)
            self._broker.more_credit(self._subscription)

    def _on_pubcomp(self, session: ServerSession, number: int, _reason: int) -> None:
        if number in session.released:
            self._broker.store(session.finish_released(number), do_nothing)
            if self._subscription is not None:
                self._broker.more_credit(self._subscription)
        elif not self._broker.behaviour.finishes_by_pubrec:
            self._settle(number, self._open.get(number, (0, 2))[0], codec.SUCCESS)


_ANSWERS: dict[int, Callable[[MqttServerConnection, ServerSession, int, int], None]] = {
    codec.PUBACK: MqttServerConnection._on_puback,
    codec.PUBREC: MqttServerConnection._on_pubrec,
    codec.PUBREL: MqttServerConnection._on_pubrel,
    codec.PUBCOMP: MqttServerConnection._on_pubcomp,
}
