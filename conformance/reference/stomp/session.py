"""What a connected STOMP client has: subscriptions, what it may acknowledge, transactions, and a publish window."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from conformance.reference.core import selector
from conformance.reference.core.admission import LIMIT, SUBSCRIPTION, Refusal
from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.core.confirms import Confirms
from conformance.reference.core.queues import Message, Queue, Subscription, Transaction
from conformance.reference.core.sections import Parsed
from conformance.reference.core.selector import Selector
from conformance.reference.core.settlement import SettlementEvent
from conformance.reference.honest import Honest
from conformance.reference.profiles import IMMEDIATELY, ProfileMode, Publishing, Unknown
from conformance.reference.settings import MAX_NAME
from conformance.reference.stomp.frames import ProtocolError, StompFrame, lines
from conformance.reference.stomp.message import priority, show, store
from conformance.reference.store.commit import Done, do_nothing


class StompPeer(Protocol):
    """The connection as its session needs it."""

    def has_room(self) -> bool: ...

    def write(self, data: bytes) -> None: ...

    def owed(self, frame: StompFrame, *, answers: bool = True) -> Done:
        """What is to be called when the frame has had its effect."""

    def confirm(self, receipt: str) -> None:
        """A RECEIPT of its own, for a frame that was owed none."""

    def refused(self, frame: StompFrame, refusal: Refusal) -> None:
        """The frame has no effect: ERROR, and the connection ends."""

    def close(self, description: str) -> None: ...


class Window(Confirms[int]):
    """The SENDs of one connection that asked for a receipt, are in no transaction, and have none yet.

    Where the peer asked for WINDOWED, one RECEIPT, that of the last, speaks for all SENDs before it. It never speaks
    for one that is not stored: a SEND without a receipt is stored before the next one, in the order of the connection.
    """

    def __init__(
        self,
        asked: Publishing,
        behaviour: Honest,
        peer: StompPeer,
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        super().__init__(asked.window, self._answer, later, ranged=asked.ranged, behaviour=behaviour)
        self._peer = peer
        self._receipts: dict[int, str] = {}
        self._sends = 0

    @classmethod
    def asked(
        cls,
        frame: StompFrame,
        broker: ReferenceBroker,
        peer: StompPeer,
        later: Callable[[float, Callable[[], None]], object],
    ) -> Window | None:
        try:
            asked = broker.profile.publishing(frame.headers)
        except Unknown as error:
            raise ProtocolError(str(error)) from error
        return cls(asked, broker.behaviour, peer, later) if asked is not None else None

    def send(self, frame: StompFrame) -> int:
        """A SEND with a receipt has come; the key by which it is `stored` or `refused`."""
        self._sends += 1
        self._receipts[self._sends] = frame.headers["receipt"]
        self.arrived(self._sends, immediate=is_urgent(frame))
        return self._sends

    def refused(self, key: int) -> None:
        super().refused(key)
        self._receipts.pop(key, None)

    def _answer(self, keys: list[int]) -> None:
        receipts = [self._receipts.pop(key) for key in keys]
        for receipt in receipts[-1:] if self._ranged else receipts:
            self._peer.confirm(receipt)


def is_urgent(frame: StompFrame) -> bool:
    return frame.headers.get(IMMEDIATELY) == "true"


AUTO, CLIENT, INDIVIDUAL = "auto", "client", "client-individual"
"""Values of the ack header of SUBSCRIBE (STOMP 1.2, SUBSCRIBE ack Header)."""

Register = dict[str, tuple["Consumer", int]]
"""What a connection's peer may acknowledge: the name it is acknowledged by, then consumer and tag."""


class Consumer:
    """One SUBSCRIBE, the `number`-th of its connection.

    `prefetch-count: N` is a hard limit of messages that are delivered and not acknowledged. An acknowledgement in a
    transaction opens the window too: else a client whose transaction is larger than its window waits for ever. An
    abort may so leave more than N unacknowledged, and nothing is sent before they are fewer again. In auto mode nothing
    is unacknowledged, and the limit has no effect.
    """

    def __init__(
        self,
        frame: StompFrame,
        number: int,
        queue: Queue,
        broker: ReferenceBroker,
        register: Register,
        peer: StompPeer,
        version: str,
    ) -> None:
        mode = frame.headers.get("ack", AUTO)
        self._cumulative = mode == CLIENT
        self._broker = broker
        self._register = register
        self._peer = peer
        self._version = version
        self._by_message_id = version != "1.2"
        self._limit = self._asked_limit(frame)
        self._open: OrderedDict[int, str] = OrderedDict()
        self._ended = False
        front = [("destination", frame.headers["destination"])]
        front += [("subscription", frame.headers["id"])] if "id" in frame.headers else []
        self._front = b"MESSAGE\n" + lines(front, version)
        self.number = number
        asked = self._asked_mode(frame)
        settled = mode == AUTO or asked.settled
        self.subscription = Subscription(
            queue,
            settled,
            self._credit,
            self._deliver,
            self._queue_gone,
            lazy=asked.lazy,
            owner=peer,
            selector=_selector(frame),
        )
        broker.subscribe(self.subscription)

    def covered(self, tag: int, outcome: SettlementEvent) -> list[int]:
        """The open deliveries that an ACK or NACK of `tag` is about, the earliest first."""
        asked = self._cumulative
        if not (self._broker.behaviour.covers_earlier(asked) if outcome is SettlementEvent.ACCEPTED else asked):
            return [tag]
        return [*self.before(tag), tag]

    def before(self, tag: int) -> list[int]:
        """Return the deliveries that were sent before this one and are still open."""
        return list(itertools.takewhile(lambda other: other != tag, self._open))

    def take(self, tags: Iterable[int]) -> None:
        """The peer has acknowledged these: they cannot be named again, and make room for others."""
        for tag in tags:
            del self._register[self._open.pop(tag)]
        self._broker.more_credit(self.subscription)

    def give_back(self, named: Iterable[tuple[int, str]]) -> None:
        """The peer has aborted the transaction in which it acknowledged these: they are open again, in their order."""
        if self._ended:
            return
        self._open = OrderedDict(sorted([*self._open.items(), *named]))
        self._register.update({name: (self, tag) for tag, name in self._open.items()})

    def names(self, tags: Iterable[int]) -> list[tuple[int, str]]:
        """The tags with the names by which they are acknowledged, for `give_back`."""
        return [(tag, self._open[tag]) for tag in tags]

    def more_credit(self) -> None:
        self._broker.more_credit(self.subscription)

    def end(self) -> None:
        """What it held becomes available to others; nothing of it can be acknowledged any more."""
        self._ended = True
        for name in self._open.values():
            del self._register[name]
        self._open.clear()
        self._broker.unsubscribe(self.subscription)

    def _queue_gone(self) -> None:
        """STOMP has no frame that ends a subscription from the side of the broker, but for the one that ends all."""
        self._peer.close(f"the queue {self.subscription.queue.name[:40]!r} was deleted")

    def _asked_mode(self, frame: StompFrame) -> ProfileMode:
        """The mode of a profile (docs/reference/profiles.md), beside what `ack` says."""
        try:
            return self._broker.profile.consuming(frame.headers).mode
        except Unknown as error:
            raise ProtocolError(str(error)) from error

    def _asked_limit(self, frame: StompFrame) -> int | None:
        """How many may be unacknowledged; None for no limit but the peer's reading."""
        text = frame.headers.get("prefetch-count")
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text)):
            raise ProtocolError(f"prefetch-count {text[:40]!r} is not a whole number of messages from 1 to 999999999")
        return self._broker.behaviour.prefetch_limit(int(text))

    def _credit(self) -> int:
        if not self._peer.has_room():
            return 0
        if self._limit is None or self.subscription.settled:
            return 1
        return self._limit - (len(self._open) if self._broker.behaviour.refills else self.subscription.sent)

    def _deliver(self, tag: int, message: Message) -> None:
        text = show(self._broker.body(message))
        head = (self._front, self._own(tag, message, len(text.body)), lines(text.headers, self._version))
        self._peer.write(b"".join((*head, b"\n", text.body, b"\0")))

    def _own(self, tag: int, message: Message, length: int) -> bytes:
        """The broker's own headers: none has anything to escape. The sender's come after them, and so never count."""
        named = ""
        if not self.subscription.settled:
            name = str(message.id) if self._by_message_id else f"{self.number}-{tag}"
            self._open[tag] = name
            self._register[name] = (self, tag)
            named = "" if self._by_message_id else f"ack:{name}\n"
        # As for first-acquirer, true after a restart only says that it may have been delivered before: deliveries are
        # not stored, and false would be a promise.
        behaviour = self._broker.behaviour
        again = "true" if behaviour.marks_redelivered and message.acquired else "false"
        count = behaviour.delivery_count(message.failures) if behaviour.marks_redelivered else 0
        persistent = "persistent:true\n" if message.durable else ""
        expires = f"expires:{message.expires_ms}\n" if message.expires_ms else ""
        urgency = "" if (number := priority(message.rest)) is None else f"priority:{number}\n"
        return (
            f"message-id:{message.id}\n{named}redelivered:{again}\ndelivery-count:{count}\n"
            f"content-length:{length}\n{persistent}{expires}{urgency}"
        ).encode()


_QUEUE = "/queue/"
_TOPIC = "/topic/"
CLIENT_ID = "client-id"
"""The header of CONNECT by which a client is known again."""

NAMED = "durable-subscription-name"
"""The header of SUBSCRIBE, and of an UNSUBSCRIBE that removes the subscription."""


@dataclass(slots=True)
class _Open:
    """A transaction under way, and what was acknowledged in it, to be open again if it is aborted."""

    transaction: Transaction
    acknowledged: list[tuple[Consumer, list[tuple[int, str]]]] = field(default_factory=list)


class SubscriberSession:
    """What the frames between CONNECT and DISCONNECT do; they are of this `version`, from the client with this id."""

    def __init__(
        self, broker: ReferenceBroker, peer: StompPeer, version: str, window: Window | None, client: str = ""
    ) -> None:
        self._broker = broker
        self._peer = peer
        self._version = version
        self._window = window
        self._client = client
        self._consumers: dict[str, Consumer] = {}
        self._subscribed = 0
        self._register: Register = {}
        self._transactions: dict[str, _Open] = {}

    def take(self, frame: StompFrame) -> None:
        _HANDLERS[frame.command](self, frame)

    def more_credit(self) -> None:
        for consumer in self._consumers.values():
            consumer.more_credit()

    def confirm_all(self) -> None:
        """What is stored and waits in a publish window is confirmed."""
        if self._window is not None:
            self._window.flush()

    def end(self) -> None:
        """Subscriptions end, and open transactions are rolled back."""
        for open_ in self._transactions.values():
            self._broker.abandon(open_.transaction)
        self._transactions.clear()
        for consumer in self._consumers.values():
            consumer.end()
        self._consumers.clear()

    def _queue(self, frame: StompFrame) -> Queue:
        """The queue of the header destination; a name that starts with a slash says what it is a name of."""
        destination = frame.need("destination")
        if topic := destination.removeprefix(_TOPIC) if destination.startswith(_TOPIC) else "":
            return self._broker.topic(topic) if frame.command == "SEND" else self._subscription(frame, topic)
        name = destination.removeprefix(_QUEUE)
        other_kind = destination.startswith("/") and not destination.startswith(_QUEUE)
        if not name or other_kind or len(name.encode()) > MAX_NAME:
            raise ProtocolError(f"the destination {destination[:40]!r} is not a queue's name of 1 to {MAX_NAME} bytes")
        if (refusal := self._broker.refused(name)) is not None:
            raise ProtocolError(refusal.description, None, refusal.condition)
        return self._broker.queue(name)

    def _subscription(self, frame: StompFrame, topic: str) -> Queue:
        name = frame.headers.get(NAMED)
        if not (self._client and name):
            needed = f"CONNECT with {CLIENT_ID} and SUBSCRIBE with {NAMED}"
            raise ProtocolError(f"a topic has only durable subscriptions: they need {needed}")
        if "selector" in frame.headers:
            raise ProtocolError("the subscription of a topic has no selector")
        found = self._broker.subscription(topic, self._client, name)
        if isinstance(found, Refusal):
            raise ProtocolError(found.description, None, found.condition)
        return found

    def _transaction(self, frame: StompFrame) -> _Open | None:
        name = frame.headers.get("transaction")
        if name is None:
            return None
        if name not in self._transactions:
            raise ProtocolError(f"no transaction {name[:40]!r} is open")
        return self._transactions[name]

    def _on_send(self, frame: StompFrame) -> None:
        queue = self._queue(frame)
        open_ = self._transaction(frame)
        parsed = store(frame.headers, frame.body)
        answers = "receipt" not in frame.headers or self._broker.behaviour.answers(self._broker.next_send())
        if self._window is not None and open_ is None and "receipt" in frame.headers and answers:
            self._publish_windowed(self._window, frame, queue, parsed)
            return
        self._broker.publish(
            queue,
            parsed,
            self._peer.owed(frame, answers=answers),
            transaction=open_.transaction if open_ else None,
            refused=self._refused(frame),
            sender=self._peer,
        )

    def _publish_windowed(self, window: Window, frame: StompFrame, queue: Queue, parsed: Parsed) -> None:
        """Its RECEIPT is the window's affair; that it no longer waits for the disk is the connection's."""
        key = window.send(frame)
        finished = self._peer.owed(frame, answers=False)
        refused = self._refused(frame)

        def stored() -> None:
            window.stored(key)
            finished()  # last: after a DISCONNECT it may end the connection, with what the window has to say

        def refuse(refusal: Refusal) -> None:
            if self._broker.behaviour.covers_refused:
                stored()
            else:
                window.refused(key)
                refused(refusal)

        self._broker.publish(queue, parsed, stored, refused=refuse, urgent=is_urgent(frame), sender=self._peer)

    def _refused(self, frame: StompFrame) -> Callable[[Refusal], None]:
        """For the broker to call; the body is not kept for it."""
        return partial(self._peer.refused, StompFrame(frame.command, frame.headers))

    def _on_subscribe(self, frame: StompFrame) -> None:
        queue = self._queue(frame)
        key = self._key(frame)
        if key in self._consumers:
            raise ProtocolError(f"the subscription {key[:40]!r} exists already")
        mode = frame.headers.get("ack", AUTO)
        if mode not in (AUTO, CLIENT, INDIVIDUAL) or (mode == INDIVIDUAL and self._version == "1.0"):
            raise ProtocolError(f"the ack mode {mode[:40]!r} does not exist in STOMP {self._version}")
        if len(self._consumers) >= self._broker.settings.max_links:
            raise _full("subscriptions", self._broker.settings.max_links, "max_links")
        self._subscribed += 1
        self._consumers[key] = Consumer(
            frame, self._subscribed, queue, self._broker, self._register, self._peer, self._version
        )
        self._peer.owed(frame)()

    def _key(self, frame: StompFrame) -> str:
        """What names a subscription: its id, or, which only 1.0 allows, its destination."""
        if self._version == "1.0" and "id" not in frame.headers:
            return frame.need("destination")
        return frame.need("id")

    def _on_unsubscribe(self, frame: StompFrame) -> None:
        consumer = self._consumers.pop(key := self._key(frame), None)
        if consumer is None:
            raise ProtocolError(f"there is no subscription {key[:40]!r}")
        consumer.end()
        queue = consumer.subscription.queue
        if NAMED in frame.headers and queue.name.startswith(SUBSCRIPTION):
            self._broker.delete(queue)
        self._peer.owed(frame)()

    def _on_ack(self, frame: StompFrame) -> None:
        self._settle(frame, SettlementEvent.ACCEPTED)

    def _on_nack(self, frame: StompFrame) -> None:
        if self._version == "1.0":
            raise ProtocolError("NACK does not exist in STOMP 1.0")
        if self._broker.behaviour.nack_takes_earlier:
            consumer, tag = self._named(frame)
            consumer.take(earlier := consumer.before(tag))
            for each in earlier:
                self._broker.settle(consumer.subscription, each, SettlementEvent.ACCEPTED, do_nothing)
        self._settle(frame, SettlementEvent.FAILED)

    def _settle(self, frame: StompFrame, outcome: SettlementEvent) -> None:
        consumer, tag = self._named(frame)
        open_ = self._transaction(frame)
        if not self._broker.takes(consumer.subscription, tag):
            raise ProtocolError("this delivery cannot be acknowledged now")
        tags = consumer.covered(tag, outcome)
        if open_ is not None:
            open_.acknowledged.append((consumer, consumer.names(tags)))
        consumer.take(tags)
        done = _last_of(len(tags), self._peer.owed(frame))
        transaction = open_.transaction if open_ else None
        for each in tags:
            self._broker.settle(consumer.subscription, each, outcome, done, transaction=transaction)

    def _named(self, frame: StompFrame) -> tuple[Consumer, int]:
        """The delivery that ACK or NACK names: by the ack header of its MESSAGE, before 1.2 by its message-id."""
        name = frame.need("id" if self._version == "1.2" else "message-id")
        found = self._register.get(name)
        if self._version == "1.1":
            consumer = self._consumers.get(key := frame.need("subscription"))
            if consumer is None:
                raise ProtocolError(f"there is no subscription {key[:40]!r}, so nothing of it can be acknowledged")
            if found is not None and found[0] is not consumer:
                found = None
        if found is None:
            why = self._why_unknown(name) if self._version == "1.2" else ""
            raise ProtocolError(f"nothing that is delivered and not acknowledged is called {name[:40]!r}{why}")
        return found

    def _why_unknown(self, name: str) -> str:
        """What became of the delivery that had this name; nothing where there never was one."""
        number, _, tag = name.partition("-")
        if not all(text.isascii() and text.isdigit() and len(text) < 20 for text in (number, tag)):
            return ""
        consumer = next((each for each in self._consumers.values() if each.number == int(number)), None)
        if consumer is None:
            return ": its subscription has ended" if 0 < int(number) <= self._subscribed else ""
        return ": it was acknowledged before" if 0 < int(tag) <= consumer.subscription.sent else ""

    def _on_begin(self, frame: StompFrame) -> None:
        name = frame.need("transaction")
        if name in self._transactions:
            raise ProtocolError(f"the transaction {name[:40]!r} is open already")
        if len(self._transactions) >= self._broker.settings.max_transactions:
            raise _full("open transactions", self._broker.settings.max_transactions, "max_transactions")
        self._transactions[name] = _Open(self._broker.begin())
        self._peer.owed(frame)()

    def _on_commit(self, frame: StompFrame) -> None:
        self._broker.commit(self._closed(frame).transaction, self._peer.owed(frame), refused=self._refused(frame))

    def _on_abort(self, frame: StompFrame) -> None:
        """What was acknowledged in it stays with its subscription, and can be acknowledged again."""
        if self._broker.behaviour.refuses_rollbacks:
            raise ProtocolError("the rollback is refused")
        open_ = self._closed(frame)
        for consumer, named in open_.acknowledged:
            consumer.give_back(named)
        self._broker.rollback(open_.transaction, self._peer.owed(frame))

    def _closed(self, frame: StompFrame) -> _Open:
        frame.need("transaction")
        open_ = self._transaction(frame)
        assert open_ is not None
        del self._transactions[frame.headers["transaction"]]
        return open_


_HANDLERS: dict[str, Callable[[SubscriberSession, StompFrame], None]] = {
    "SEND": SubscriberSession._on_send,
    "SUBSCRIBE": SubscriberSession._on_subscribe,
    "UNSUBSCRIBE": SubscriberSession._on_unsubscribe,
    "ACK": SubscriberSession._on_ack,
    "NACK": SubscriberSession._on_nack,
    "BEGIN": SubscriberSession._on_begin,
    "COMMIT": SubscriberSession._on_commit,
    "ABORT": SubscriberSession._on_abort,
}


def _selector(frame: StompFrame) -> Selector | None:
    text = frame.headers.get("selector")
    if text is None:
        return None
    found = selector.parse(text)
    if found is None:
        raise ProtocolError(f"the selector {text[:40]!r}: {selector.KNOWN}")
    return found


def _full(what: str, limit: int, setting: str) -> ProtocolError:
    return ProtocolError(f"a connection has at most {limit} {what} ({setting})", condition=LIMIT)


def _last_of(count: int, done: Done) -> Done:
    """Calls `done` when it has been called so many times itself."""
    if count == 1:
        return done
    left = count

    def one() -> None:
        nonlocal left
        left -= 1
        if not left:
            done()

    return one
