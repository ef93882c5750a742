"""The syncs of the journal are held back: a broker that answers meanwhile did not wait for the disk."""

from conformance.scenario import Check, Liar, scenario, weakened
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
    steps = (
        Restart(clean=True, under=Watched()),
        Publish(1, window=1),
        Restart(clean=True, under=HELD),
        Publish(3, window=1, every_ms=50),
    )
    decides = {
        "ARTEMIS-SEND-09": EARLY,
        "ARTEMIS-SEND-10": EARLY,
        "ARTEMIS-ASYNC-10": EARLY,
        "CLASSIC-SYNC-01": EARLY,
        "RMQ-CONF-01": EARLY,
        "EXPECT-SYNC-01": EARLY,
        "ARTEMIS-SEND-11": Check("confirmed_before_sync", exposure="confirmed"),
        "CLASSIC-SYNC-02": Check("confirmed_before_sync", exposure="confirmed"),
        "QPID-PERS-03": Check("confirmed_before_sync", exposure="sync_held"),
    }


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
    decides = {
        "ARTEMIS-TX-03": COMMITTED_EARLY,
        "ARTEMIS-TX-04": Check("rolled_back_before_sync", exposure="rollback_sync_held", control=COMMITS_NOT_SYNCED),
        "ARTEMIS-TX-05": Check("committed_before_sync", exposure="commits_asked"),
        "ARTEMIS-TX-07": COMMITTED_EARLY,
        "ARTEMIS-TX-10": COMMITTED_EARLY,
        "CLASSIC-TX-01": COMMITTED_EARLY,
        "EXPECT-SYNC-02": COMMITTED_EARLY,
    }


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
    decides = {
        "EXPECT-SYNC-03": Check(
            "acknowledged_before_sync", exposure="ack_sync_held", control=Liar("acknowledges-before-sync")
        ),
    }
