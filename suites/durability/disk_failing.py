"""The disk of the broker fails: its syncs return an error, or it has no space left."""

from conformance.scenario import RECOVERED, Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, DiskFull, FailedSync, Publish, Restart

IGNORED = Liar("confirms-after-failed-sync")
IN_VAIN = Check("confirmed_though_sync_failed", exposure="sync_failed", control=IGNORED)
COMMITTED_IN_VAIN = Check("committed_though_sync_failed", exposure="commit_sync_failed", control=IGNORED)
LOST = Check("lost", exposure="confirmed", control=Liar("confirms-although-disk-full"))


@scenario
class SyncFailsWhilePublishing:
    """A publisher keeps ten persistent messages in flight; from some sync of the journal on, each fails with EIO.

    What was written and could not be synced must not be confirmed. The broker may well end, and is started again on a
    disk that works. Not before the twelfth: Artemis 2.56.0 with the queues of a whole run makes eight in one thread
    before it is ready, and one that fails there ends its start instead.
    """

    mode = "async_ack"
    steps = (
        Restart(clean=True, under=FailedSync(Between(12, 26))),
        Publish(400, window=10),
        Restart(),
        *SETTLE,
    )
    checks = (IN_VAIN, RECOVERED)


@scenario
class SyncFailsWhileCommitting:
    """A publisher sends in transactions of five; from some sync of the journal on, each fails with EIO.

    A commit that was written and could not be synced must not be answered as done. Its request follows the sends at
    once: a broker may sync each of them, and end at the first failure (Classic 6.1.7).
    """

    mode = "transacted"
    steps = (
        Restart(clean=True, under=FailedSync(Between(12, 26))),
        Publish(400, window=10, batch=5, hurries=True),
        Restart(),
        *SETTLE,
    )
    checks = (COMMITTED_IN_VAIN,)


@scenario
class DiskFullWhilePublishing:
    """A publisher keeps ten persistent messages in flight; from some write to the journal on, there is no space left.

    What was not written must not be confirmed, and what was confirmed must be there when there is space again.
    Not before the twelfth, as above: of a start with the queues of a run, Artemis 2.56.0 did not survive the seventh.
    """

    mode = "async_ack"
    steps = (
        Restart(clean=True, under=DiskFull(Between(12, 26))),
        Publish(400, window=10),
        Restart(),
        *SETTLE,
    )
    checks = (LOST, RECOVERED)
