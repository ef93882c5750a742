"""A STOMP subscription: what it may be sent, and which of its messages are not acknowledged yet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol

from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.core.queues import Message, Queue, Subscription
from conformance.reference.core.settlement import SettlementEvent
from conformance.reference.profiles import ProfileMode, Unknown
from conformance.reference.stomp.frames import ProtocolError, StompFrame, lines
from conformance.reference.stomp.message import priority, show

AUTO, CLIENT, INDIVIDUAL = "auto", "client", "client-individual"
"""Values of the ack header of SUBSCRIBE (STOMP 1.2, SUBSCRIBE ack Header)."""

Register = dict[str, tuple["Consumer", int]]
"""What a connection's peer may acknowledge: the name it is acknowledged by, then consumer and tag."""


class SubscriptionOutlet(Protocol):
    """The connection as its subscriptions need it."""

    def has_room(self) -> bool:
        """Whether the peer may be sent another message."""

    def write(self, data: bytes) -> None:
        """One whole frame."""

    def close(self, description: str) -> None:
        """ERROR, and the connection ends by no fault of the peer."""


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
        outlet: SubscriptionOutlet,
        version: str,
    ) -> None:
        mode = frame.headers.get("ack", AUTO)
        self._cumulative = mode == CLIENT
        self._broker = broker
        self._register = register
        self._outlet = outlet
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
        self.subscription = Subscription(queue, settled, self._credit, self._deliver, self._queue_gone, lazy=asked.lazy)
        broker.subscribe(self.subscription)

    def covered(self, tag: int, outcome: SettlementEvent) -> list[int]:
        """The open deliveries that an ACK or NACK of `tag` is about, the earliest first."""
        asked = self._cumulative
        if not (self._broker.behaviour.covers_earlier(asked) if outcome is SettlementEvent.ACCEPTED else asked):
            return [tag]
        found = []
        for other in self._open:
            found.append(other)
            if other == tag:
                break
        return found

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
        """The connection has room again."""
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
        self._outlet.close(f"the queue {self.subscription.queue.name[:40]!r} was deleted")

    def _asked_mode(self, frame: StompFrame) -> ProfileMode:
        """The mode of a profile (docs/reference-profiles.md), beside what `ack` says."""
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
        if not self._outlet.has_room():
            return 0
        if self._limit is None or self.subscription.settled:
            return 1
        return self._limit - (len(self._open) if self._broker.behaviour.refills else self.subscription.sent)

    def _deliver(self, tag: int, message: Message) -> None:
        text = show(self._broker.body(message))
        head = (self._front, self._own(tag, message, len(text.body)), lines(text.headers, self._version))
        self._outlet.write(b"".join((*head, b"\n", text.body, b"\0")))

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
