"""Liars about the disk: what they confirm is not stored yet, or never will be. All else of their journal is honest.

The window is `LATE_S`, a few milliseconds: a kill that comes at any time mostly misses it, one that comes at the answer
does not. What waits for its sync only is in the page cache, which the death of a process leaves alone: no kill can see
it, but a held sync or a loss of power. The last two are seen by a disk that fails, or is full, and by nothing else.
"""

from __future__ import annotations

from conformance.reference.honest import Answered, Asked, Honest

TENTH = 10


class _ConfirmsBeforeStoring(Honest):
    """A send is answered first; its record goes to the journal 5 ms later."""

    def answered(self, asked: Asked, send: int) -> Answered:
        return Answered.AT_ONCE if asked is Asked.SEND else Answered.STORED


class _CommitsBeforeStoring(Honest):
    """A commit is answered first; its record goes to the journal 5 ms later."""

    def answered(self, asked: Asked, send: int) -> Answered:
        return Answered.AT_ONCE if asked is Asked.COMMIT else Answered.STORED


class _AcknowledgesBeforeStoring(Honest):
    """An acknowledgement is answered first; the removal goes to the journal 5 ms later."""

    def answered(self, asked: Asked, send: int) -> Answered:
        return Answered.AT_ONCE if asked is Asked.ACKNOWLEDGEMENT else Answered.STORED


class _ConfirmsEveryTenthBeforeStoring(Honest):
    """Every tenth send is answered first, and its record goes to the journal 5 ms later."""

    def answered(self, asked: Asked, send: int) -> Answered:
        return Answered.AT_ONCE if asked is Asked.SEND and send % TENTH == 0 else Answered.STORED


class _ConfirmsBeforeSync(Honest):
    """A send is answered when its record is written; the sync comes 5 ms later. No kill can see it."""

    def answered(self, asked: Asked, send: int) -> Answered:
        return Answered.WRITTEN if asked is Asked.SEND else Answered.STORED


class _CommitsBeforeSync(Honest):
    """A commit is answered when its record is written; the sync comes 5 ms later. No kill can see it."""

    def answered(self, asked: Asked, send: int) -> Answered:
        return Answered.WRITTEN if asked is Asked.COMMIT else Answered.STORED


class _ConfirmsAfterFailedSync(Honest):
    """A sync of the journal that fails is ignored, and the broker goes on and confirms."""

    ignores_failed_syncs = True


class _ConfirmsAlthoughDiskFull(Honest):
    """A write to the journal that finds no space is ignored, and the broker goes on and confirms."""

    ignores_full_disk = True


EARLY: dict[str, type[Honest]] = {
    "confirms-before-storing": _ConfirmsBeforeStoring,
    "commits-before-storing": _CommitsBeforeStoring,
    "acknowledges-before-storing": _AcknowledgesBeforeStoring,
    "confirms-every-tenth-before-storing": _ConfirmsEveryTenthBeforeStoring,
    "confirms-before-sync": _ConfirmsBeforeSync,
    "commits-before-sync": _CommitsBeforeSync,
    "confirms-after-failed-sync": _ConfirmsAfterFailedSync,
    "confirms-although-disk-full": _ConfirmsAlthoughDiskFull,
}
"""By the name that selects them."""
