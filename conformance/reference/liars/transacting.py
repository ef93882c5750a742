"""Liars about transactions."""

from __future__ import annotations

from conformance.reference.liars.liar import LiarBroker


class _DeliversBeforeCommit(LiarBroker):
    """What is sent in a transaction is stored and offered at once; the commit only answers."""

    breaks = ("AMQP-TX-01", "STOMP-TX-01")

    holds_sends = False


class _AcknowledgesBeforeCommit(LiarBroker):
    """An outcome given in a transaction is applied at once; a rollback does not bring it back."""

    breaks = ("AMQP-TX-02", "STOMP-TX-02")

    holds_outcomes = False


class _CommitsWhenLinkCloses(LiarBroker):
    """A transaction without a discharge is committed when its control link or connection ends."""

    breaks = ("AMQP-TX-01", "AMQP-TX-03", "STOMP-TX-03")
    fault = "cut"

    commits_abandoned = True


class _RefusesRollbacks(LiarBroker):
    """A rollback is answered with an error: rejected over AMQP, ERROR over STOMP."""

    breaks = ("AMQP-TX-04",)

    refuses_rollbacks = True


class _RecoversHalfATransaction(LiarBroker):
    """A commit puts the first half of the transaction's sends on disk and the rest in memory only."""

    breaks = ("ARTEMIS-TX-09",)
    fault = "kill"

    def stored_sends(self, count: int) -> int:
        return (count + 1) // 2


class _CommitsRollbacks(LiarBroker):
    """A rollback is answered, and what was sent in its transaction is stored and delivered."""

    breaks = ("AMQP-TX-01", "STOMP-TX-01")

    commits_rollbacks = True
