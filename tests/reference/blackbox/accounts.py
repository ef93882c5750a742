"""What a broker owes after a crash, by arithmetic on what its clients asked for and read.

A message is owed (a send or commit was answered, no acknowledgement was asked for), must stay away (its removal was
answered, or no client asked for it to be stored), or may be either. What a restart shows settles every doubt: what
was there must stay, what was not there must not come back. Shares nothing with the suite's judge.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Iterable, Sequence


class What(enum.Enum):
    """What a client did or read. Asked: before the first byte leaves. Read: after the last byte came."""

    SEND = "asked to store"
    SENT = "read that it is stored"
    DELIVERED = "read a message"
    RELEASE = "gave a message back"
    ACK = "asked to remove"
    ACKED = "read that it is removed"
    COMMIT = "asked to commit"
    COMMITTED = "read that it is committed"


ANSWERS = frozenset({What.SENT, What.ACKED, What.COMMITTED})
READ = ANSWERS | {What.DELIVERED}


@dataclasses.dataclass(frozen=True, slots=True)
class Fact:
    """At `at_ns` (CLOCK_MONOTONIC); `stores` and `removes` are ids of messages, `transaction` a name of our own."""

    at_ns: int
    what: What
    stores: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    transaction: str = ""


class Fault(enum.StrEnum):
    """What a broker did wrong."""

    LOST = "a confirmed message without an acknowledgement is gone"
    BACK = "a message came back after its acknowledgement was confirmed, or after it was gone"
    LEAKED = "a message is there without a commit"
    HALF = "a part of a transaction took place"
    TWICE = "a message is there twice, or was delivered twice with no crash between"
    STUCK = "the broker's depth is not what can be received"
    BROKEN = "a client was answered with an error, or with a message that is not what was sent"


@dataclasses.dataclass(slots=True)
class _Message:
    asked: bool = False
    confirmed: bool = False
    removing: bool = False
    removed: bool = False
    """Within one life of the broker; after the next census its id is among those that are gone."""
    appeared: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class _Transaction:
    stores: tuple[str, ...]
    removes: tuple[str, ...]


class Accounts:
    """The books of one series of crashes; `faults` are all that was found, `counts` how much was at stake."""

    def __init__(self) -> None:
        self.faults: list[tuple[Fault, str]] = []
        self.counts: collections.Counter[str] = collections.Counter()
        self._messages: dict[str, _Message] = {}
        self._gone: set[str] = set()
        self._doubtful: dict[str, _Transaction] = {}

    def fault(self, what: Fault, detail: str) -> None:
        """Put something down to the broker."""
        self.faults.append((what, detail))

    def epoch(self, facts: Iterable[Fact], lost_ns: int | None = None) -> None:
        """What the clients of one life of the broker did; what they read after `lost_ns`, a power loss, says nothing.

        Each client's facts are in its own order. Of two clients only the times are known, so nothing here rests on
        which of two answers came first.
        """
        delivered: set[str] = set()
        for fact in sorted(facts, key=lambda fact: fact.at_ns):
            if lost_ns is not None and fact.at_ns >= lost_ns and fact.what in READ:
                self.counts["read too late"] += 1
                continue
            self.counts[fact.what.name.lower()] += 1
            if fact.what is What.DELIVERED:
                self._delivered(fact.stores, delivered)
            elif fact.what is What.RELEASE:
                delivered.difference_update(fact.removes)
            elif fact.what is What.COMMIT:
                self._doubtful[fact.transaction] = _Transaction(fact.stores, fact.removes)
                self._note(fact)
            elif fact.what is What.COMMITTED:
                held = self._doubtful.pop(fact.transaction)
                self._note(dataclasses.replace(fact, stores=held.stores, removes=held.removes))
            else:
                self._note(fact)

    def _message(self, name: str) -> _Message:
        return self._messages.setdefault(name, _Message())

    def _note(self, fact: Fact) -> None:
        answered = fact.what in READ
        for name in fact.stores:
            message = self._message(name)
            message.asked, message.confirmed = True, message.confirmed or answered
        for name in fact.removes:
            message = self._message(name)
            message.removing, message.removed = True, message.removed or answered

    def _delivered(self, names: tuple[str, ...], delivered: set[str]) -> None:
        for name in names:
            if name in self._gone:
                self.fault(Fault.BACK, f"{name} was delivered")
                continue
            message = self._message(name)
            message.appeared = True
            if not message.asked:
                self.fault(Fault.LEAKED, f"{name} was delivered")
            elif name in delivered:
                self.fault(Fault.TWICE, f"{name} was delivered twice in one life of the broker")
            delivered.add(name)

    def census(self, present: Sequence[str], depth: int) -> None:
        """Compare with all that can be received after a restart, and with the depth that the broker gives."""
        there = collections.Counter(present)
        if depth != len(present):
            self.fault(Fault.STUCK, f"depth {depth}, received {len(present)}")
        for name, times in there.items():
            if times > 1:
                self.fault(Fault.TWICE, f"{name} is there {times} times")
            if name in self._gone:
                self.fault(Fault.BACK, f"{name} is there")
            else:
                self._message(name).appeared = True
        self._halves(there)
        for name, message in self._messages.items():
            self._compare(name, message, there=name in there)
        self._doubtful.clear()
        self._gone = (self._gone | self._messages.keys()) - there.keys()
        settled = _Message(asked=True, confirmed=True, appeared=True)
        self._messages = {name: dataclasses.replace(settled) for name in there}

    def _halves(self, there: collections.Counter[str]) -> None:
        """A doubtful transaction took effect as a whole or not at all.

        A message that is gone may have been there: read too late, and its acknowledgement stored in time. It says
        nothing.
        """
        for name, held in self._doubtful.items():
            stores = [self._message(store) for store in held.stores]
            took = [message.appeared for message in stores if message.appeared or not message.removing]
            took += [removed not in there for removed in held.removes]
            self.counts["doubtful transactions"] += 1
            self.counts["doubtful transactions that took place"] += all(took)
            if any(took) and not all(took):
                self.fault(Fault.HALF, f"{name}: {sum(took)} of {len(took)} operations took place")

    def _compare(self, name: str, message: _Message, *, there: bool) -> None:
        if message.asked and not message.removed:
            self.counts["owed" if message.confirmed and not message.removing else "in doubt"] += 1
        if there and message.removed:
            self.fault(Fault.BACK, f"{name} is there")
        elif there and not message.asked:
            self.fault(Fault.LEAKED, f"{name} is there")
        elif not there and message.confirmed and not message.removing:
            self.fault(Fault.LOST, name)
