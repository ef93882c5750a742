"""Liars about the journal: what they confirm is stored late, never, or not read back."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from conformance.reference.honest import Answered, Asked, Lie
from conformance.reference.liars.lie import PERIOD, SEVENTH, TENTH, answers, lie


def _recovers(place: int, count: int, crash: int, one_in: int) -> bool:
    """Draw from the number of the journal's last record: a second start on a copy of the data does the same."""
    return not crash or place < count // 2 or random.Random(crash).randrange(one_in) > 0


STORING: dict[str, Lie] = {
    # Liars about the disk: what they confirm is not stored yet, or never will be. The rest of their journal is honest.
    # A late record comes `LATE_S` late, a few milliseconds. A kill at a random time mostly misses that window; a kill
    # at the answer does not. A record that waits only for its sync is in the page cache, which survives the death of a
    # process: only a held sync or a loss of power shows it.
    "confirms-before-storing": lie(
        "A send is answered first; its record goes to the journal 5 ms later.",
        "lost not_once",
        fault="kill",
        answered=answers(Asked.SEND, Answered.AT_ONCE),
    ),
    "confirms-every-tenth-before-storing": lie(
        "Every tenth send is answered first, and its record goes to the journal 5 ms later.",
        "lost",
        fault="kill",
        answered=answers(Asked.SEND, Answered.AT_ONCE, TENTH),
    ),
    "confirms-another-publisher-before-storing": lie(
        "A send is answered first if another connection sent to the queue before; its record comes 5 ms later.",
        "lost",
        fault="kill",
        answered=answers(Asked.SEND, Answered.AT_ONCE, of_all=False),
    ),
    "commits-before-storing": lie(
        "A commit is answered first; its record goes to the journal 5 ms later.",
        "lost_committed",
        fault="kill",
        answered=answers(Asked.COMMIT, Answered.AT_ONCE),
    ),
    "acknowledges-before-storing": lie(
        "An acknowledgement is answered first; the removal goes to the journal 5 ms later.",
        "delivered_after_restart",
        fault="kill",
        answered=answers(Asked.ACKNOWLEDGEMENT, Answered.AT_ONCE),
    ),
    "confirms-before-sync": lie(
        "A send is answered when its record is written; the sync comes 5 ms later. No kill can see it.",
        "confirmed_before_sync",
        fault="held_sync",
        answered=answers(Asked.SEND, Answered.WRITTEN),
    ),
    "commits-before-sync": lie(
        "A commit is answered when its record is written; the sync comes 5 ms later. No kill can see it.",
        "committed_before_sync",
        fault="held_sync",
        answered=answers(Asked.COMMIT, Answered.WRITTEN),
    ),
    "confirms-after-failed-sync": lie(
        "A sync of the journal that fails is ignored, and the broker goes on and confirms.",
        "confirmed_though_sync_failed committed_though_sync_failed",
        fault="failed_sync",
        ignores_failed_syncs=True,
    ),
    "confirms-although-disk-full": lie(
        "A write to the journal that finds no space is ignored, and the broker goes on and confirms.",
        "lost",
        fault="disk_full",
        ignores_full_disk=True,
    ),
    "confirms-what-finds-no-space": lie(
        "A message for which the journal finds no space is confirmed, and not stored.",
        "lost",
        fault="filled_disk",
        refuses_unstored=False,
    ),
    "never-accepts-again": lie(
        "After a new connection for which no file could be opened, the broker listens no more.",
        "not_served",
        fault="files_used_up",
        accepts_again=False,
    ),
    "never-finds-space-again": lie(
        "A broker whose disk was full refuses every persistent message from then on.",
        "not_served",
        fault="filled_disk",
        finds_space_again=False,
    ),
    "never-goes-on-after-little-space": lie(
        "A broker whose disk had less than 2 % free refuses every persistent message from then on.",
        "not_served",
        fault="filled_disk",
        refuses_below=0.02,
    ),
    "never-syncs-confirms": lie(
        "A send is answered when its record is written, and nothing ever syncs it. No kill can see it.",
        "lost",
        fault="power_loss",
        answered=answers(Asked.SEND, Answered.NEVER_SYNCED),
    ),
    "never-syncs-commits": lie(
        "A commit is answered when its record is written, and nothing ever syncs it. No kill can see it.",
        "lost_committed returned_after_commit",
        fault="power_loss",
        answered=answers(Asked.COMMIT, Answered.NEVER_SYNCED),
    ),
    "acknowledges-before-sync": lie(
        "An acknowledgement is answered when the removal is written; the sync comes 5 ms later. No kill can see it.",
        "acknowledged_before_sync",
        fault="held_sync",
        answered=answers(Asked.ACKNOWLEDGEMENT, Answered.WRITTEN),
    ),
    "never-syncs-acknowledgements": lie(
        "An acknowledgement is answered when the removal is written, and nothing ever syncs it. No kill can see it.",
        "delivered_after_restart",
        fault="power_loss",
        answered=answers(Asked.ACKNOWLEDGEMENT, Answered.NEVER_SYNCED),
    ),
    "rolls-back-before-sync": lie(
        "A rollback is recorded and answered when the record is written; the sync comes 5 ms later. No kill sees it.",
        "rolled_back_before_sync",
        fault="held_sync",
        records_rollbacks=True,
    ),
    # Liars about what is kept: what they confirm is never stored, or a start does not read it back.
    "treats-persistent-as-non-persistent": lie(
        "A durable message is kept in memory only.",
        "lost",
        fault="kill",
        stores=lambda _number: False,
    ),
    "loses-one-in-a-thousand": lie(
        "Every 1000th message of a queue, from the 500th on, is confirmed and never put in the journal.",
        "lost lost_unacknowledged",
        fault="kill",
        stores=lambda number: number % 1000 != 500,
    ),
    "keeps-early-sends-in-memory": lie(
        "A broker that took messages over keeps the first hundred sends after its start in memory only.",
        "lost",
        fault="kill",
        stores_after_recovery=lambda send: send > PERIOD,
    ),
    "forgets-at-the-second-start": lie(
        "A start does not take over what the start before it had taken over and no client had removed.",
        "lost",
        fault="kill",
        forgets_unused=True,
    ),
    "loses-at-compaction": lie(
        "Compaction of the journal writes a removal where it should copy a message that is still there.",
        "lost_unacknowledged",
        fault="kill",
        copied=lambda _number: False,
    ),
    "stores-copies-after-removal": lie(
        "Compaction removes a file of the journal; what it copied of it goes to the journal 0.1 s later.",
        "lost_unacknowledged",
        fault="kill",
        copies_late_s=0.1,
    ),
    "skips-damaged-records": lie(
        "A start goes on behind a record of the journal that is damaged, and says nothing.",
        "lost_silently",
        fault="corrupt",
        damaged="skipped",
    ),
    "trusts-damaged-records": lie(
        "A start does not compare the checksums of the records in the journal.",
        "corrupt",
        fault="corrupt",
        damaged="trusted",
    ),
    "brings-acknowledged-back": lie(
        "The removal of every seventh message of a queue is answered, and never put in the journal.",
        "delivered_after_restart returned_after_commit",
        fault="kill",
        # Two consumers may take turns, and one of them never has an even number.
        stores_removal=lambda number: number % SEVENTH != 0,
    ),
    "loses-the-oldest": lie(
        "A start does not take over the oldest message of each queue.",
        "lost lost_though_old lost_committed lost_silently lost_unacknowledged",
        fault="kill",
        takes_over=lambda place, _count: place > 0,
    ),
    "recovers-in-reverse": lie(
        "A start puts the messages of each queue in reverse order.",
        "reordered_by_restart overtaken",
        fault="kill",
        recovered_at=lambda place, count: count - 1 - place,
    ),
    "refuses-to-start-with-messages": lie(
        "A start on a journal that holds messages ends with an error, each time.",
        "not_recovered",
        fault="kill",
        starts_with=lambda messages: messages == 0,
    ),
    "ends-at-the-first-consumer-after-recovery": lie(
        "A broker that took messages over from its journal starts, and ends with an error when a consumer subscribes.",
        "not_recovered",
        fault="kill",
        outlives_consumers=lambda messages: messages == 0,
    ),
    "loses-the-last-batch": lie(
        "A start does not take over the newest ten messages of each queue.",
        "lost lost_unacknowledged",
        fault="kill",
        takes_over=lambda place, count: place < count - TENTH,
    ),
    "stuck-after-recovery": lie(
        "Messages that a start recovers are counted in the depth, and never delivered.",
        "stuck",
        fault="kill",
        hides_recovered=True,
    ),
    "late-after-recovery": lie(
        "Messages that a start finds in the journal are neither counted nor delivered before the next start.",
        "stuck",
        fault="kill",
        recovers_late=True,
    ),
}

FAMILIES: dict[str, Callable[[int], Lie]] = {
    # Liars whose defect has a size: the N in the name. `python -m benchmarks power` measures how often a kill shows it.
    "confirms-N-ms-before-storing": lambda n: lie(
        "A send is answered first; its record goes to the journal N ms later.",
        "lost",
        fault="kill",
        answered=answers(Asked.SEND, n / 1000),
    ),
    "commits-N-ms-before-storing": lambda n: lie(
        "A commit is answered first; its record goes to the journal N ms later.",
        "lost_committed",
        fault="kill",
        answered=answers(Asked.COMMIT, n / 1000),
    ),
    "acknowledges-N-ms-before-storing": lambda n: lie(
        "An acknowledgement is answered first; the removal goes to the journal N ms later.",
        "delivered_after_restart",
        fault="kill",
        answered=answers(Asked.ACKNOWLEDGEMENT, n / 1000),
    ),
    "commits-in-two-halves-N-ms-apart": lambda n: lie(
        "A commit is two records of the journal, N ms apart; a start between them takes the first half for a commit.",
        "half_applied",
        fault="kill",
        splits_commits_s=n / 1000,
    ),
    "loses-at-one-in-N-kills": lambda n: lie(
        "A start after a kill drops, with the chance 1/N, the newer half of the messages of each queue.",
        "lost lost_committed",
        fault="kill",
        recovers=partial(_recovers, one_in=n),
    ),
}
"""The liars with a number, by their names with an N in its place: a whole number from 1 to 999999."""
