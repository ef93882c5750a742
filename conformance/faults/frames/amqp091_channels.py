"""What the channels of one AMQP 0-9-1 connection are in: consumers, deliveries to settle, confirm mode, transactions.

Delivery-tags are a channel's own (the XML's domain delivery-tag, rule channel-local), and an acknowledgement may cover
several: which ones it covers only who saw the deliveries knows.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from typing import NamedTuple

from conformance.faults.frames.amqp091_methods import Arguments


class MethodEffect(NamedTuple):
    """What a method without content says: words to add to its detail, and the tags that it settles, ascending."""

    words: tuple[str, ...] = ()
    covers: tuple[int, ...] = ()


@dataclasses.dataclass
class Channel:
    """One channel, as both directions must know it.

    Attributes:
        number: Which one of the connection it is: as many channels it had opened.
        confirms: Whether it is in confirm mode.
        published: The number of the last publish in that mode.
        unanswered: Numbers of publishes that the broker has not answered, ascending.
        unsettled: Tags of deliveries that the client has not acknowledged, ascending.
    """

    number: int = 1
    confirms: bool = False
    published: int = 0
    unanswered: dict[int, None] = dataclasses.field(default_factory=dict)
    unsettled: dict[int, None] = dataclasses.field(default_factory=dict)
    _taken: list[int] = dataclasses.field(default_factory=list)  # acknowledged in the transaction that is open
    _transacted: bool = False
    _consumers: dict[bytes, bool] = dataclasses.field(default_factory=dict)  # by tag: no-ack
    # No-ack of each that has no answer yet; a channel answers in the order in which it was asked.
    _consumes: collections.deque[bool] = dataclasses.field(default_factory=collections.deque)
    _gets: collections.deque[bool] = dataclasses.field(default_factory=collections.deque)

    def publish(self, number: int) -> None:
        """A message with this number goes to a broker that will answer it."""
        self.published = number
        self.unanswered[number] = None

    def presettled(self, method: str, arguments: Arguments) -> bool | None:
        """Whether a delivery is settled when it is sent; None where nobody can say what was asked for."""
        if method == "basic.get-ok":
            return self._gets[0] if self._gets else None
        return self._consumers.get(arguments.consumer)

    def deliver(self, method: str, tag: int, *, settled: bool) -> None:
        """A delivery goes to the client."""
        if method == "basic.get-ok" and self._gets:
            self._gets.popleft()
        if tag and not settled:
            self._wait([tag])

    def asks(self, method: str, arguments: Arguments) -> MethodEffect:
        """A method without content goes to the broker."""
        match method:
            case "basic.ack" | "basic.nack" | "basic.reject":
                return self._acknowledged(method, arguments)
            case "basic.consume":
                self._consume(arguments)
            case "basic.get":
                self._gets.append("no-ack" in arguments.bits)
            case "basic.recover" | "basic.recover-async":
                self.unsettled.clear()  # they come again, under new tags
            case "confirm.select":
                self.confirms = True
            case "tx.select":
                self._transacted = True
            case "tx.commit":
                self._taken.clear()
            case "tx.rollback":
                self._wait(sorted(self._taken))
                self._taken.clear()
        return MethodEffect()

    def answers(self, method: str, arguments: Arguments) -> MethodEffect:
        """A method without content goes to the client."""
        match method:
            case "basic.ack" | "basic.nack":
                covers = _covered(self.unanswered, arguments)
                _remove(self.unanswered, covers)
                return MethodEffect((_multiple(arguments), "accepted" if method == "basic.ack" else "rejected"), covers)
            case "basic.consume-ok" if self._consumes:
                self._consumers[arguments.consumer] = self._consumes.popleft()
            case "basic.get-empty" if self._gets:
                self._gets.popleft()
            case "basic.recover-ok":
                self.unsettled.clear()  # also what was on its way when the client asked for it
        return MethodEffect()

    def _consume(self, arguments: Arguments) -> None:
        """A consumer without a tag gets one in the answer, and no-wait asks for none (the XML's class 60 method 20)."""
        settled = "no-ack" in arguments.bits
        if arguments.consumer:
            self._consumers[arguments.consumer] = settled
        if "no-wait" not in arguments.bits:
            self._consumes.append(settled)

    def _acknowledged(self, method: str, arguments: Arguments) -> MethodEffect:
        """A rollback takes back acknowledgements; whether also refusals the XML's class 90 does not say."""
        covers = _covered(self.unsettled, arguments)
        if method == "basic.ack" and self._transacted:
            self._taken += [tag for tag in covers if tag in self.unsettled]
        _remove(self.unsettled, covers)
        outcome: tuple[str, ...] = ("accepted",) if method == "basic.ack" else ("rejected",)
        if "requeue" in arguments.bits:
            outcome = ("released", "requeue")
        return MethodEffect((_multiple(arguments), *outcome), covers)

    def _wait(self, tags: list[int]) -> None:
        """These are to be acknowledged, after a rollback once more."""
        last = next(reversed(self.unsettled), 0)
        self.unsettled |= dict.fromkeys(tags)
        if tags and tags[0] < last:
            self.unsettled = dict.fromkeys(sorted(self.unsettled))


class Channels(collections.defaultdict[int, Channel]):
    """The channels of a connection by their numbers on the wire, which are the same in both directions."""

    def __init__(self) -> None:
        super().__init__(Channel)
        self._opened = 0

    def open(self, channel: int) -> None:
        """Nothing is left of what had this number before: it was closed (the XML's class 20 method 10)."""
        self._opened += 1
        self[channel] = Channel(self._opened)


def runs(numbers: tuple[int, ...]) -> str:
    """Ascending numbers in short.

    >>> runs((1, 3, 4, 5, 9))
    '1,3-5,9'
    """
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][-1] == number - 1:
            found[-1][1:] = [number]
        else:
            found.append([number])
    return ",".join("-".join(map(str, run)) for run in found)


def _multiple(arguments: Arguments) -> str:
    return f"multiple={str('multiple' in arguments.bits).lower()}"


def _covered(waiting: dict[int, None], arguments: Arguments) -> tuple[int, ...]:
    """What an acknowledgement covers (the XML's class 60 method 80, multiple): all up to its tag, and with tag 0 all.

    What it names it covers, also where nothing waits for that: a client that acknowledges what was settled is seen.
    """
    tag = arguments.tag
    found: list[int] = []
    if "multiple" in arguments.bits:
        found += itertools.takewhile(lambda each: each <= tag or not tag, waiting)
    return (*found, tag) if tag and tag not in found[-1:] else tuple(found)


def _remove(waiting: dict[int, None], covers: tuple[int, ...]) -> None:
    for tag in covers:
        waiting.pop(tag, None)
