"""Brokers that are wrong on purpose, each in exactly one way.

`Honest` names the points at which a broker could lie; a liar overrides exactly one of them, and its docstring is its
description. The honest path asks these questions and never learns who answers. What lies about the disk is in
`liars_early`.

Periods: scenarios publish some 300 messages and consume some 150 before a fault, so a lie comes within the first 100
operations and again every 100.
"""

from __future__ import annotations

from collections.abc import Iterable

from conformance.errors import UsageError
from conformance.reference.core.settlement import Event
from conformance.reference.honest import Honest
from conformance.reference.liars.early import EARLY

PERIOD = 100


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


class _DeliversBeforeCommit(Honest):
    """What is sent in a transaction is stored and offered at once; the commit only answers."""

    holds_sends = False


class _AcknowledgesBeforeCommit(Honest):
    """An outcome given in a transaction is applied at once; a rollback does not bring it back."""

    holds_outcomes = False


class _CommitsWhenLinkCloses(Honest):
    """A transaction without a discharge is committed when its control link or connection ends."""

    commits_abandoned = True


class _RefusesRollbacks(Honest):
    """A rollback is answered with an error: rejected over AMQP, ERROR over STOMP."""

    refuses_rollbacks = True


class _RecoversHalfATransaction(Honest):
    """A commit puts the first half of the transaction's sends on disk and the rest in memory only."""

    def stored_sends(self, count: int) -> int:
        return (count + 1) // 2


class _DropsReleased(Honest):
    """A released message is removed."""

    def applied(self, outcome: Event) -> Event:
        return Event.ACCEPTED if outcome is Event.RELEASED else outcome


class _CountsReleases(Honest):
    """A release makes the delivery-count one higher."""

    def applied(self, outcome: Event) -> Event:
        return Event.FAILED if outcome is Event.RELEASED else outcome


class _NeverCountsFailures(Honest):
    """The outcome modified with delivery-failed does not make the delivery-count higher."""

    def applied(self, outcome: Event) -> Event:
        return Event.MODIFIED if outcome is Event.FAILED else outcome


class _IgnoresUndeliverableHere(Honest):
    """A message may be delivered again to a link that said undeliverable-here."""

    bars_refusers = False


class _RequeuesSettled(Honest):
    """A message that is sent settled is kept, and offered again when its link ends."""

    keeps_settled = True


class _NeverMarksRedelivered(Honest):
    """The delivery-count is always 0, and the redelivered mark is never set."""

    marks_redelivered = False


class _ClientAckIsIndividual(Honest):
    """An ACK on a subscription with ack:client covers only the message it names."""

    def covers_earlier(self, cumulative: bool) -> bool:
        return False


class _IndividualAckIsCumulative(Honest):
    """An ACK on a subscription with ack:client-individual covers the earlier messages too."""

    def covers_earlier(self, cumulative: bool) -> bool:
        return True


class _AnswersEveryHundredthFrameTwice(Honest):
    """Every 100th frame that asks for a receipt gets two."""

    def receipts(self, frame: int) -> int:
        return 2 if frame % PERIOD == 0 else 1


class _IgnoresPrefetch(Honest):
    """A subscription with prefetch-count is sent as much as there is."""

    def prefetch_limit(self, asked: int) -> int:
        return 1_000_000


class _NeverRefillsPrefetch(Honest):
    """A subscription with prefetch-count gets that many messages and, whatever it acknowledges, no more."""

    refills = False


LIARS: dict[str, type[Honest]] = {
    "never-answers-one-send": _NeverAnswersOneSend,
    "skips-every-hundredth-delivery": _SkipsEveryHundredthDelivery,
    "removes-when-sending": _RemovesWhenSending,
    "acknowledge-takes-later": _AcknowledgeTakesLater,
    "forgets-every-hundredth-acknowledgement": _ForgetsEveryHundredthAcknowledgement,
    "counts-from-one": _CountsFromOne,
    "always-first-acquirer": _AlwaysFirstAcquirer,
    "accepts-then-rejects": _AcceptsThenRejects,
    "delivers-before-commit": _DeliversBeforeCommit,
    "acknowledges-before-commit": _AcknowledgesBeforeCommit,
    "commits-when-link-closes": _CommitsWhenLinkCloses,
    "refuses-rollbacks": _RefusesRollbacks,
    "recovers-half-a-transaction": _RecoversHalfATransaction,
    "drops-released": _DropsReleased,
    "counts-releases": _CountsReleases,
    "never-counts-failures": _NeverCountsFailures,
    "ignores-undeliverable-here": _IgnoresUndeliverableHere,
    "requeues-settled": _RequeuesSettled,
    "never-marks-redelivered": _NeverMarksRedelivered,
    "client-ack-is-individual": _ClientAckIsIndividual,
    "individual-ack-is-cumulative": _IndividualAckIsCumulative,
    "answers-every-hundredth-frame-twice": _AnswersEveryHundredthFrameTwice,
    "ignores-prefetch": _IgnoresPrefetch,
    "never-refills-prefetch": _NeverRefillsPrefetch,
    **EARLY,
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
