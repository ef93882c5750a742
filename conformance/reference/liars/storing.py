"""Liars about the disk: what they confirm is not stored yet, or never will be. All else of their journal is honest.

Where a record comes late the window is `LATE_S`, a few milliseconds: a kill that comes at any time mostly misses it,
one that comes at the answer does not. What waits for its sync only is in the page cache, which the death of a process
leaves alone: no kill can see it, but a held sync or a loss of power.
"""

from __future__ import annotations

from conformance.reference.honest import Answered, Asked
from conformance.reference.liars.liar import TENTH, LiarBroker


class _ConfirmsBeforeStoring(LiarBroker):
    """A send is answered first; its record goes to the journal 5 ms later."""

    breaks = ("SOLCD-ACK-01", "AMQP-DUR-01", "ARTEMIS-SEND-07")
    fault = "kill"

    def answered(self, asked: Asked, send: int) -> Answered:
        return Answered.AT_ONCE if asked is Asked.SEND else Answered.STORED


class _ConfirmsEveryTenthBeforeStoring(LiarBroker):
    """Every tenth send is answered first, and its record goes to the journal 5 ms later."""

    breaks = ("SOLCD-ACK-01", "AMQP-DUR-01", "ARTEMIS-SEND-07")
    fault = "kill"

    def answered(self, asked: Asked, send: int) -> Answered:
        return Answered.AT_ONCE if asked is Asked.SEND and send % TENTH == 0 else Answered.STORED


class _CommitsBeforeStoring(LiarBroker):
    """A commit is answered first; its record goes to the journal 5 ms later."""

    breaks = ("SOLCD-TX-02",)
    fault = "kill"

    def answered(self, asked: Asked, send: int) -> Answered:
        return Answered.AT_ONCE if asked is Asked.COMMIT else Answered.STORED


class _AcknowledgesBeforeStoring(LiarBroker):
    """An acknowledgement is answered first; the removal goes to the journal 5 ms later."""

    breaks = ("EMS-STEP-06", "AMQP-ACC-02", "STOMP-ACK-05")
    fault = "kill"

    def answered(self, asked: Asked, send: int) -> Answered:
        return Answered.AT_ONCE if asked is Asked.ACKNOWLEDGEMENT else Answered.STORED


class _ConfirmsBeforeSync(LiarBroker):
    """A send is answered when its record is written; the sync comes 5 ms later. No kill can see it."""

    breaks = ("ARTEMIS-SEND-09", "ARTEMIS-SEND-10")
    fault = "held_sync"

    def answered(self, asked: Asked, send: int) -> Answered:
        return Answered.WRITTEN if asked is Asked.SEND else Answered.STORED


class _CommitsBeforeSync(LiarBroker):
    """A commit is answered when its record is written; the sync comes 5 ms later. No kill can see it."""

    breaks = ("ARTEMIS-TX-03", "ARTEMIS-TX-07")
    fault = "held_sync"

    def answered(self, asked: Asked, send: int) -> Answered:
        return Answered.WRITTEN if asked is Asked.COMMIT else Answered.STORED


class _ConfirmsAfterFailedSync(LiarBroker):
    """A sync of the journal that fails is ignored, and the broker goes on and confirms."""

    breaks = ("ARTEMIS-SEND-09",)
    fault = "failed_sync"

    ignores_failed_syncs = True


class _ConfirmsAlthoughDiskFull(LiarBroker):
    """A write to the journal that finds no space is ignored, and the broker goes on and confirms."""

    breaks = ("ARTEMIS-SEND-09",)
    fault = "disk_full"

    ignores_full_disk = True


class _NeverSyncsConfirms(LiarBroker):
    """A send is answered when its record is written, and nothing ever syncs it. No kill can see it."""

    breaks = ("ARTEMIS-SEND-09", "ARTEMIS-SEND-10")
    fault = "power_loss"

    def answered(self, asked: Asked, send: int) -> Answered:
        return Answered.NEVER_SYNCED if asked is Asked.SEND else Answered.STORED


class _NeverSyncsCommits(LiarBroker):
    """A commit is answered when its record is written, and nothing ever syncs it. No kill can see it."""

    breaks = ("ARTEMIS-TX-03", "ARTEMIS-TX-07")
    fault = "power_loss"

    def answered(self, asked: Asked, send: int) -> Answered:
        return Answered.NEVER_SYNCED if asked is Asked.COMMIT else Answered.STORED


class _RollsBackBeforeSync(LiarBroker):
    """A rollback is recorded and answered when the record is written; the sync comes 5 ms later. No kill sees it."""

    breaks = ("ARTEMIS-TX-04",)
    fault = "held_sync"

    records_rollbacks = True
