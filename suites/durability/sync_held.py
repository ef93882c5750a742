"""The syncs of the journal are held back: a broker that answers meanwhile did not wait for the disk."""

from conformance.scenario import OF_BOTH, Check, Liar, scenario, weakened
from conformance.scenario.script import Consume, HeldSync, Publish, Restart, Watched

HELD = HeldSync(0.1)
"""Thirty times what an answer takes that waits for nothing (Artemis 2.56.0: 3 ms). A start has five syncs to hold."""
NOT_SYNCED = weakened(sync_non_transactional=False)
COMMITS_NOT_SYNCED = weakened(sync_transactional=False)
EARLY = Check("confirmed_before_sync", exposure="sync_held", control=NOT_SYNCED)
COMMITTED_EARLY = Check("committed_before_sync", exposure="commit_sync_held", control=COMMITS_NOT_SYNCED)


@scenario
class SyncHeldWhileSending:
    """Marked persistent messages are sent one at a time: first with the disk only watched, then with every sync held.

    Of each message it is seen when its mark was written to the journal, when the first sync that covers the write was
    over, and when the confirm was read. A broker that promises the disk cannot confirm while the sync is held. Nothing
    is asked for the messages again: what decides is the order of answer and sync.
    """

    mode = "blocking"
    subjects = OF_BOTH
    steps = (
        Restart(clean=True, under=Watched()),
        Publish(1, window=1),
        Restart(clean=True, under=HELD),
        Publish(3, window=1, every_ms=50),
    )
    checks = (
        EARLY,
        Check("confirmed_before_sync", exposure="confirmed"),
    )


@scenario
class SyncHeldWhileCommitting:
    """Transactions of five sends are committed and rolled back in turn, while every sync of the journal is held.

    The next transaction begins long after the answer, so that what is written in between belongs to the one before.
    """

    mode = "transacted"
    steps = (
        Restart(clean=True, under=HELD),
        Publish(20, window=10, batch=5, rollback_every=2, every_ms=100),
    )
    checks = (
        COMMITTED_EARLY,
        Check("rolled_back_before_sync", exposure="rollback_sync_held", control=COMMITS_NOT_SYNCED),
        Check("committed_before_sync", exposure="commits_asked"),
    )


@scenario
class SyncHeldWhileAcknowledging:
    """A consumer acknowledges twenty messages, one at a time, while every sync of the journal is held.

    It processes each for a while, so that what is written in between belongs to the acknowledgement before.
    """

    mode = "individual"
    steps = (
        Publish(20, window=10),
        Restart(clean=True, under=HELD),
        Consume("individual", prefetch=10, stop=20, work_ms=100),
    )
    checks = (Check("acknowledged_before_sync", exposure="ack_sync_held", control=Liar("acknowledges-before-sync")),)
