"""The power goes: what was not synced is gone with it. The death of a process never shows it: the page cache lives.

The controls keep what was answered in the broker's own buffer for half a second. A journal that is written through the
page cache loses it without that. One that is written by O_DIRECT (libaio) does not: what was written is on the disk,
synced or not, and with a buffer of 0.5 ms next to nothing was answered and not yet written.

Some messages are stored before, by an orderly stop: what a missing sync loses is the end, and not everything.
"""

import dataclasses

from conformance.scenario import LOSSES, RECOVERED, STALE, Check, Liar, scenario, weakened
from conformance.scenario.script import SETTLE, After, Between, Consume, Nth, PowerLoss, Publish, Restart, Rounds

NOT_SYNCED = weakened(tail=True, sync_non_transactional=False, journal_buffer_ms=500)
COMMITS_NOT_SYNCED = weakened(tail=True, sync_transactional=False, journal_buffer_ms=500)
# A disk that tears may have any of what was not synced. And a queue that is new takes all of its messages with it.
NOT_IN_ORDER = dataclasses.replace(NOT_SYNCED, tail=False)
STORED = (Publish(20, window=10), Restart(clean=True, flushed=True))
"""A control that stores nothing would lose them too; one that only never syncs does not.

They are flushed for that: ActiveMQ Classic without syncs syncs nothing when it is stopped either."""
ALL_LOST = Check("lost", exposure="confirmed", control=NOT_SYNCED)
IN_WINDOW = Check("lost", exposure="confirmed_in_window", control=NOT_SYNCED)
MISSING = Check("confirmed_missing", exposure="confirmed_in_window")
LOST_COMMITTED = Check("lost_committed", exposure="committed_in_window", control=COMMITS_NOT_SYNCED)


@scenario
class PowerLostWhilePublishing:
    """A publisher keeps 100 persistent messages in flight; at a confirm the disk of the broker goes, and the broker.

    What had been synced is still there when the disk comes back; an answer that is read after the loss counts for
    nothing. The broker is started, and the next publisher begins on what it has; in the end it is drained to silence,
    twice.
    """

    mode = "async_ack"
    steps = (
        *STORED,
        Rounds((Publish(50_000, window=100, until=PowerLoss(Nth("confirm", Between(200, 600)))), Restart()), LOSSES),
        *SETTLE,
    )
    checks = (IN_WINDOW, MISSING, RECOVERED)


@scenario
class PowerLostWithTornWrites:
    """The same, but of the pages that were written and not synced some reach the disk, and others do not.

    A disk may do that: later writes can be there without earlier ones. What was confirmed has to be found among them.
    """

    mode = "async_ack"
    thorough = True
    steps = (
        Publish(50_000, window=100, until=PowerLoss(Nth("confirm", Between(400, 900)), torn=True)),
        Restart(),
        *SETTLE,
    )
    checks = (dataclasses.replace(IN_WINDOW, control=NOT_IN_ORDER), MISSING)


@scenario
class PowerLostOnXfs:
    """A publisher keeps 100 persistent messages in flight to a broker that stores on xfs; at a confirm the power goes.

    ext4 writes the data of a file before that file takes the name of another one, also without a sync. On xfs an empty
    file is left: a broker that replaces its files so, and leaves a sync out, is caught only here.
    """

    mode = "async_ack"
    thorough = True
    steps = (
        *STORED,
        Rounds(
            (
                Publish(50_000, window=100, until=PowerLoss(Nth("confirm", Between(200, 600)), filesystem="xfs")),
                Restart(),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (IN_WINDOW, MISSING, RECOVERED)


@scenario
class PowerLostAfterCommit:
    """A publisher sends in transactions of five; the power goes when the answer to a commit was read."""

    mode = "transacted"
    steps = (
        Publish(20, window=50, batch=5),
        Restart(clean=True, flushed=True),
        Rounds(
            (Publish(20_000, window=50, batch=5, until=PowerLoss(Nth("committed", Between(30, 90)))), Restart()), LOSSES
        ),
        *SETTLE,
    )
    checks = (
        LOST_COMMITTED,
        Check("committed_missing", exposure="committed_in_window"),
    )


@scenario
class PowerLostAfterAcknowledgements:
    """A consumer acknowledges each message and reads the broker's answer; at one of them the power goes.

    The broker is restarted in order before the consumer begins. What was acknowledged and answered must not come back,
    and what was not must come.
    """

    mode = "individual"
    steps = (
        Publish(600, window=100),
        Restart(clean=True),
        Consume("individual", prefetch=20, stop=20),
        Restart(clean=True),
        Rounds((Consume("individual", prefetch=50, until=PowerLoss(Nth("ack", Between(40, 120)))), Restart()), LOSSES),
        *SETTLE,
    )
    checks = (
        Check(
            "delivered_after_restart",
            exposure="acknowledged_in_window",
            control=Liar("never-syncs-acknowledgements", tail=True),
        ),
    )


@scenario
class PowerLostAfterCommitOfAcknowledgements:
    """A consumer acknowledges in transactions of five; the power goes when the answer to a commit was read.

    What was acknowledged in a transaction whose commit was answered must not come again. Four times.
    """

    mode = "transacted"
    steps = (
        Publish(1_260, window=100),
        Restart(clean=True),
        Consume("transacted", prefetch=20, acknowledge=5, stop=20),
        Restart(clean=True),
        Rounds(
            (
                Consume("transacted", prefetch=100, acknowledge=5, until=PowerLoss(Nth("committed", Between(20, 60)))),
                Restart(),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (
        Check(
            "returned_after_commit",
            exposure="acknowledged_in_transactions",
            control=Liar("never-syncs-commits", tail=True),
        ),
    )


@scenario
class PowerLostLongAfterConfirms:
    """A publisher sends 200 messages, and another one every 20 ms; after 1 to 1.6 seconds the power goes.

    However late a broker stores what it confirms, it has had the time for the oldest messages: these must be there.
    """

    mode = "async_ack"
    steps = (
        Rounds(
            (
                Publish(200, window=50),
                Publish(5_000, window=1, every_ms=20, until=PowerLoss(After(Between(1_000, 1_600)))),
                Restart(),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (STALE,)


@scenario
class PowerLostWhileConsuming:
    """A consumer acknowledges every second message and reads the broker's answer; at one of them the power goes.

    It holds the others, which were delivered and not acknowledged, and has more prefetched. All of these must be there
    when the disk comes back, and what was acknowledged and answered must not. Four times.
    """

    mode = "individual"
    steps = (
        Rounds(
            (
                Publish(200, window=100),
                Consume("individual", prefetch=200, acknowledge=2, until=PowerLoss(Nth("ack", Between(40, 90)))),
                Restart(),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (
        Check("lost_unacknowledged", exposure="delivered_unacknowledged", control=Liar("removes-when-sending")),
        Check(
            "delivered_after_restart", exposure="acknowledged_in_window", control=Liar("never-syncs-acknowledgements")
        ),
    )


@scenario
class PowerLostWhileDeadLettering:
    """A consumer gives each message back as failed whenever it comes, and the power goes meanwhile.

    If the broker's file has the settings, each message has two attempts: the loss comes among moves to the queue DLQ.
    Each message had been confirmed: it must be there, or still in its own queue.
    """

    mode = "individual"
    thorough = True
    settings = {"max_delivery_attempts": 2, "dead_letter_destination": "DLQ"}
    steps = (
        Publish(600, window=100),
        Consume(
            "individual",
            prefetch=50,
            refuse=("failed",),
            refuse_every=1,
            refuse_again=True,
            until=PowerLoss(Nth("ack_written", Between(60, 400))),
        ),
        Restart(),
        *SETTLE,
    )
    checks = (Check("given_back_nowhere", exposure="refused", control=Liar("drops-failed")),)


@scenario
class PowerLostWhilePublishingLargeMessages:
    """A publisher keeps ten persistent messages of 300 kB in flight; at a confirm the power goes.

    A broker may store large messages in files of their own. What was confirmed must be there, and whole. All of it is
    at risk: nothing says when such a file would reach the disk by itself.
    """

    mode = "async_ack"
    thorough = True
    steps = (
        *STORED,
        Publish(2_000, window=10, size=300_000, until=PowerLoss(Nth("confirm", Between(20, 80)))),
        Restart(),
        *SETTLE,
    )
    checks = (ALL_LOST,)


@scenario
class PowerLostWhilePaging:
    """A publisher keeps 100 persistent messages of 4 KiB in flight, and the queue may keep few of them in memory.

    If the broker's file has a setting for the memory of a queue, 1 MB is asked for, and the power goes when at least
    6 MB were confirmed. A broker may write the rest to files of their own, one after another: what was confirmed must
    be there, in those that were closed as well. All of it is at risk: nothing says when such a file would reach the
    disk by itself. Four times.
    """

    mode = "async_ack"
    settings = {"full_queue_policy": "page", "queue_memory_bytes": "1000000"}
    steps = (
        *STORED,
        Rounds(
            (
                Publish(50_000, window=100, size=4_096, until=PowerLoss(Nth("confirm", Between(1_500, 3_000)))),
                Restart(),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (ALL_LOST, RECOVERED)


@scenario
class PowerLostSoonAfterDeclaration:
    """The suite declares the queue, a publisher sends at once, and at one of the first confirms the power goes.

    Only for a broker whose queues are declared while it runs. What was confirmed must be there, and so must its queue:
    a message on the disk is lost if nothing there says which queue it is in.
    """

    mode = "async_ack"
    thorough = True
    queue = {"fresh": True}
    steps = (Publish(50_000, window=20, until=PowerLoss(Nth("confirm", Between(1, 60)))), Restart(), *SETTLE)
    checks = (dataclasses.replace(ALL_LOST, control=NOT_IN_ORDER),)
