"""Brokers that are wrong on purpose, each in exactly one way.

`Honest` names the points at which a broker could lie; a liar overrides exactly one of them, and its docstring is its
description. The honest path asks these questions and never learns who answers.

Periods: scenarios publish some 300 messages and consume some 150 before a fault, so a lie comes within the first 100
operations and again every 100.
"""

from __future__ import annotations

from collections.abc import Iterable

from conformance.errors import UsageError

PERIOD = 100


class Honest:
    """Every answer is the true one."""

    removes_when_sending = False
    """Whether a message is removed, durably, when it is sent and not when it is acknowledged."""

    def answers(self, send: int) -> bool:
        """Whether the `send`-th unsettled send since the start (from 1) is ever answered."""
        return True

    def retracts(self, send: int) -> bool:
        """Whether the `send`-th unsettled send since the start (from 1) is accepted, and afterwards rejected."""
        return False

    def hides(self, number: int) -> bool:
        """Whether the `number`-th message of a queue (from 1) is counted and never delivered."""
        return False

    def forgets(self, number: int, failures: int) -> bool:
        """Whether the acknowledgement of a queue's `number`-th message (from 1) is answered and not acted upon.

        `failures` counts the deliveries of it that failed before.
        """
        return False

    def acknowledged_with(self, held: Iterable[int], tag: int) -> Iterable[int]:
        """Which of a link's `held` deliveries, in the order they were sent, one acknowledgement of `tag` removes."""
        return (tag,)

    def delivery_count(self, failures: int) -> int:
        """The delivery-count put on the wire for a message with so many failed deliveries."""
        return failures

    def first_acquirer(self, first: bool) -> bool:
        """The first-acquirer flag put on the wire."""
        return first


class _NeverAnswersOneSend(Honest):
    """Stores every message and never answers the 50th send after the start."""

    def answers(self, send: int) -> bool:
        return send != PERIOD // 2


class _SkipsEveryHundredthDelivery(Honest):
    """Every 100th message of a queue stays there, is counted in its depth, and is delivered to nobody."""

    def hides(self, number: int) -> bool:
        return number % PERIOD == 0


class _RemovesWhenSending(Honest):
    """A message is removed, durably, when it is sent to a consumer and not when it is acknowledged."""

    removes_when_sending = True


class _AcknowledgeTakesLater(Honest):
    """An acknowledgement also removes what the same link was sent after the acknowledged delivery."""

    def acknowledged_with(self, held: Iterable[int], tag: int) -> Iterable[int]:
        return [other for other in held if other >= tag]


class _ForgetsEveryHundredthAcknowledgement(Honest):
    """Answers the first acknowledgement of every 100th message of a queue, keeps it, and delivers it again later."""

    def forgets(self, number: int, failures: int) -> bool:
        return number % PERIOD == 0 and not failures  # for ever, no consumer could empty the queue


class _CountsFromOne(Honest):
    """The delivery-count is one too high."""

    def delivery_count(self, failures: int) -> int:
        return failures + 1


class _AlwaysFirstAcquirer(Honest):
    """The first-acquirer flag is true on every delivery."""

    def first_acquirer(self, first: bool) -> bool:
        return True


class _AcceptsThenRejects(Honest):
    """Every 100th send is stored and accepted, and afterwards rejected."""

    def retracts(self, send: int) -> bool:
        return send % PERIOD == 0


LIARS: dict[str, type[Honest]] = {
    "never-answers-one-send": _NeverAnswersOneSend,
    "skips-every-hundredth-delivery": _SkipsEveryHundredthDelivery,
    "removes-when-sending": _RemovesWhenSending,
    "acknowledge-takes-later": _AcknowledgeTakesLater,
    "forgets-every-hundredth-acknowledgement": _ForgetsEveryHundredthAcknowledgement,
    "counts-from-one": _CountsFromOne,
    "always-first-acquirer": _AlwaysFirstAcquirer,
    "accepts-then-rejects": _AcceptsThenRejects,
}
"""The liars by the name that selects them; the docstring of each is its description."""


def behaviour(name: str | None) -> Honest:
    """The behaviour that `--liar NAME` selects, the honest one for None; raises `UsageError` for an unknown name."""
    if name is None:
        return Honest()
    if name not in LIARS:
        raise UsageError.unknown("liar", name, LIARS)
    return LIARS[name]()


def described() -> str:
    """One entry a liar, for `--help`."""
    return "\n".join(f"  {name}\n      {liar.__doc__}" for name, liar in LIARS.items())
