"""Sessions of MQTT: what a client has subscribed to, and the packet identifiers of QoS 2 that are not finished.

The messages of a session are a queue of the broker. It has the client's identifier as its name, so that another
protocol can fill it and empty it, and that its rules are `--queue` options. A session that ends with its connection has
a temporary queue.

A message of QoS 2 is stored when its PUBLISH comes, together with its identifier (method B of figure 4.3); the
identifier is forgotten at PUBREL. In the other direction PUBREC removes the message and notes its identifier until
PUBCOMP. Both are in the journal before they are answered. The identifier of a PUBLISH to a client follows from the
number of its message in the queue: after a restart it is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from conformance.reference.core.admission import LIMIT, Refusal, ignore_refusal
from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.core.effects import Effect
from conformance.reference.core.queues import Queue
from conformance.reference.mqtt.codec import WILL_DELAY, MqttError, ServerPublish, found
from conformance.reference.mqtt.message import store
from conformance.reference.mqtt.retained import Retained
from conformance.reference.mqtt.topics import matches
from conformance.reference.settings import MAX_NAME
from conformance.reference.store.commit import do_nothing

NEVER = 0xFFFFFFFF
"""The expiry interval of a session that does not end (section 3.1.2.11.2)."""

AS_PUBLISHED = 8
"""Of the options of a subscription (section 3.8.3.1): RETAIN is forwarded as it was published."""

_SESSION, _FILTER, _RECEIVED, _RELEASED = b"\0s", b"\0f", b"\0r", b"\0l"
"""How keys of notes begin; then come the client, a zero, and what it is about. No client identifier has a zero."""


class _Owner(Protocol):
    """The connection that a session has."""

    def take_over(self) -> None:
        """Another connection has the session now."""


class ServerSession:
    """One client's session; `kept` says that it outlives its connection, and a restart of the broker.

    `absence` is of the time since its connection ended. `filters` has of each subscription the granted QoS, and
    `AS_PUBLISHED` if that was asked for. `received`
    are identifiers of QoS 2 before their PUBREL, `released` those that this side has to end by PUBREL.
    """

    def __init__(self, sessions: MqttSessions, client: str, expiry_s: int) -> None:
        self.client = client
        self.expiry_s = expiry_s
        self.kept = bool(expiry_s)
        self.filters: dict[str, int] = {}
        self.received: set[int] = set()
        self.released: dict[int, None] = {}
        self.queue: Queue | None = None
        self.owner: _Owner | None = None
        self.absence: object = None
        self._sessions = sessions
        self._granted: dict[str, tuple[int, bool]] = {}

    def declare(self) -> Queue | Refusal:
        """The queue of the session, which is made for its first subscription."""
        if self.queue is None or self.queue.deleted:
            broker = self._sessions.broker
            if not self.kept:
                self.queue = broker.temporary()
            elif (refusal := broker.refused(self.client)) is not None:
                return refusal
            else:
                self.queue = broker.queue(self.client)
        return self.queue

    def granted(self, topic: str) -> tuple[int, bool]:
        """The highest QoS of the subscriptions that match a topic; 2 where none does: it came another way.

        And whether one of them gets RETAIN as it was published.
        """
        if topic not in self._granted:
            if len(self._granted) > _CACHED:
                self._granted.clear()
            found = [options for name, options in self.filters.items() if matches(name, topic)]
            qos = max((options & 3 for options in found), default=2)
            self._granted[topic] = qos, any(options & AS_PUBLISHED for options in found)
        return self._granted[topic]

    def subscribe(self, name: str, options: int) -> list[Effect]:
        self.filters[name] = options
        self._granted.clear()
        self._sessions.bind(self, name)
        return self._keep(_FILTER, name.encode(), bytes((options,)))

    def unsubscribe(self, name: str) -> list[Effect]:
        del self.filters[name]
        self._granted.clear()
        self._sessions.unbind(self, name)
        return self._drop(_FILTER, name.encode())

    def live(self, expiry_s: int) -> list[Effect]:
        """The session has this expiry interval from now on."""
        self.expiry_s = expiry_s
        return self._keep(_SESSION, b"", expiry_s.to_bytes(4))

    def receive(self, number: int) -> list[Effect]:
        self.received.add(number)
        return self._keep(_RECEIVED, number.to_bytes(2))

    def finish_received(self, number: int) -> list[Effect]:
        self.received.discard(number)
        return self._drop(_RECEIVED, number.to_bytes(2))

    def release(self, number: int) -> list[Effect]:
        self.released[number] = None
        return self._keep(_RELEASED, number.to_bytes(2))

    def finish_released(self, number: int) -> list[Effect]:
        self.released.pop(number, None)
        return self._drop(_RELEASED, number.to_bytes(2))

    def forget(self) -> list[Effect]:
        """The end of all its notes."""
        dropped = [self._drop(_FILTER, name.encode()) for name in self.filters]
        dropped += [self._drop(_RECEIVED, number.to_bytes(2)) for number in self.received]
        dropped += [self._drop(_RELEASED, number.to_bytes(2)) for number in self.released]
        return [effect for each in (*dropped, self._drop(_SESSION, b"")) for effect in each]

    def _key(self, kind: bytes, what: bytes) -> bytes:
        return b"".join((kind, self.client.encode(), b"\0", what))

    def _keep(self, kind: bytes, what: bytes, value: bytes = b"") -> list[Effect]:
        return [self._sessions.broker.notes.keep(self._key(kind, what), value)] if self.kept else []

    def _drop(self, kind: bytes, what: bytes) -> list[Effect]:
        return self._sessions.broker.notes.drop(self._key(kind, what))


_CACHED = 1000
"""Topics of which a session remembers the granted QoS."""


class MqttSessions:
    """All sessions of one broker. `later` calls back after so many seconds."""

    def __init__(self, broker: ReferenceBroker, later: Callable[[float, Callable[[], None]], object]) -> None:
        self.broker = broker
        self._later = later
        self._sessions: dict[str, ServerSession] = {}
        self._exact: dict[str, dict[ServerSession, None]] = {}
        self._patterns: dict[str, dict[ServerSession, None]] = {}
        self.retained = Retained(broker)
        broker.serve(self._queues)
        self._restore()

    def open(self, client: str, expiry_s: int, *, clean: bool) -> tuple[ServerSession | Refusal, bool, list[Effect]]:
        """The session of a client that connects, whether it was there before, and what is to be stored of that."""
        session = self._sessions.get(client)
        if session is not None and session.owner is not None:
            session.owner.take_over()
            session = self._sessions.get(client)
        if session is not None and clean:
            self.end(session)
            session = None
        if session is not None:
            session.absence = None
            if not self.broker.behaviour.keeps_received:
                session.received.clear()
            return session, True, session.live(expiry_s) if session.expiry_s != expiry_s else []
        if len(client.encode()) > MAX_NAME:
            return Refusal("", f"a client identifier of more than {MAX_NAME} bytes"), False, []
        if len(self._sessions) >= self.broker.settings.max_queues:
            return Refusal(LIMIT, f"the broker has {len(self._sessions):,} sessions (max_queues)"), False, []
        session = self._sessions[client] = ServerSession(self, client, expiry_s)
        return session, False, session.live(expiry_s)

    def leave(self, session: ServerSession) -> None:
        """The connection of a session has ended."""
        session.owner, session.absence = None, object()
        self._await_end(session)

    def publish_will(self, will: ServerPublish, session: ServerSession) -> None:
        """Publish what a lost connection leaves behind; a delay ends with the session, or by its next connection."""
        delay_s, absence = min(found(will.properties, WILL_DELAY, 0), session.expiry_s), session.absence
        if delay_s:
            self._later(delay_s, lambda: self._publish(will) if session.absence is absence else None)
        else:
            self._publish(will)

    def _publish(self, will: ServerPublish) -> None:
        parsed = store(will)
        try:
            noted = self.retained.take(will, parsed)
        except MqttError:
            noted = []
        self.broker.publish_to(self.reached(will.topic), parsed, do_nothing, refused=ignore_refusal, noted=noted)

    def end(self, session: ServerSession) -> None:
        """Delete the session with all that it holds."""
        for name in session.filters:
            self.unbind(session, name)
        self.broker.store(session.forget(), do_nothing)
        del self._sessions[session.client]
        if session.queue is not None:
            self.broker.delete(session.queue)

    def bind(self, session: ServerSession, name: str) -> None:
        self._bound(name).setdefault(name, {})[session] = None

    def unbind(self, session: ServerSession, name: str) -> None:
        bound = self._bound(name)
        del bound[name][session]
        if not bound[name]:
            del bound[name]

    def reached(self, topic: str) -> list[Queue]:
        """The queues that get what is published to a topic: also the one of that name, and those with copies."""
        found: dict[Queue, None] = dict.fromkeys(self.broker.targets(self.broker.topic(topic)))
        named = self.broker.known(topic)
        if named is not None and topic not in self._sessions:
            found[named] = None
        return list(dict.fromkeys(target for queue in found for target in self.broker.targets(queue)))

    def _queues(self, topic: str) -> Iterator[Queue]:
        yield from (queue for each in self._subscribed(topic) if isinstance(queue := each.declare(), Queue))

    def _subscribed(self, topic: str) -> Iterator[ServerSession]:
        yield from self._exact.get(topic, ())
        for name, sessions in self._patterns.items():
            if matches(name, topic):
                yield from sessions

    def _bound(self, name: str) -> dict[str, dict[ServerSession, None]]:
        return self._patterns if "+" in name or "#" in name else self._exact

    def _await_end(self, session: ServerSession) -> None:
        """End a session that has no connection, now or when its interval is over."""
        expiry_s = self.broker.behaviour.session_s(session.expiry_s)
        if not expiry_s:
            self.end(session)
        elif expiry_s != NEVER:
            absence = session.absence
            self._later(expiry_s, lambda: self._end_absent(session, absence))

    def _end_absent(self, session: ServerSession, absence: object) -> None:
        if session.owner is None and session.absence is absence and self._sessions.get(session.client) is session:
            self.end(session)

    def _restore(self) -> None:
        """Read what a start has found; intervals begin again, for all have lost their connection."""
        found = self.broker.notes.found
        self.retained.restore(found)
        notes = sorted(found.items(), key=lambda note: note[0][:2] != _SESSION)
        found.clear()
        if not self.broker.behaviour.restores_sessions:
            return
        for key, value in notes:
            client, _, what = key[2:].partition(b"\0")
            if key[:2] == _SESSION:
                made = self._sessions[client.decode()] = ServerSession(self, client.decode(), int.from_bytes(value))
                made.kept = True
                made.queue = self.broker.known(made.client)
            elif (session := self._sessions.get(client.decode())) is not None:
                _RESTORED[key[:2]](session, what, value)
        for session in list(self._sessions.values()):
            for name in session.filters:
                self.bind(session, name)
            self._await_end(session)


def _restored_filter(session: ServerSession, what: bytes, value: bytes) -> None:
    session.filters[what.decode()] = value[0]


_RESTORED: dict[bytes, Callable[[ServerSession, bytes, bytes], None]] = {
    _FILTER: _restored_filter,
    _RECEIVED: lambda session, what, _: session.received.add(int.from_bytes(what)),
    _RELEASED: lambda session, what, _: session.released.update({int.from_bytes(what): None}),
}
