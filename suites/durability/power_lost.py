"""The power goes: what was not synced is gone with it. The death of a process never shows it: the page cache lives.

The controls keep what was answered in the broker's own buffer for half a second. A journal that is written through the
page cache loses it without that. One that is written by O_DIRECT (libaio) does not: what was written is on the disk,
synced or not, and with a buffer of 0.5 ms next to nothing was answered and not yet written.
"""

from conformance.scenario import RECOVERED, STALE, Check, Weakened, scenario, weakened
from conformance.scenario.script import SETTLE, Between, Nth, PowerLoss, Publish, Restart

NOT_SYNCED = weakened(sync_non_transactional=False, journal_buffer_ms=500)
COMMITS_NOT_SYNCED = weakened(sync_transactional=False, journal_buffer_ms=500)


def decided(control: Weakened) -> dict[str, Check]:
    """What a power loss among publishers decides."""
    lost = Check("lost", exposure="confirmed_in_window", control=control)
    return {
        "ARTEMIS-SEND-09": lost,
        "ARTEMIS-SEND-10": lost,
        "ARTEMIS-SEND-11": Check("confirmed_missing", exposure="confirmed_in_window"),
        "QPID-PERS-03": Check("confirmed_missing", exposure="confirmed_in_window"),
    }


@scenario
class PowerLostWhilePublishing:
    """A publisher keeps 100 persistent messages in flight; at a confirm the disk of the broker goes, and the broker.

    What had been synced is still there when the disk comes back; an answer that is read after the loss counts for
    nothing. The broker is started again and drained to silence, twice.
    """

    mode = "async_ack"
    steps = (Publish(50_000, window=100, until=PowerLoss(Nth("confirm", Between(400, 900)))), Restart(), *SETTLE)
    decides = {**decided(NOT_SYNCED), "EXPECT-RECOVER-01": RECOVERED, "EXPECT-STALE-01": STALE}


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
    decides = decided(NOT_SYNCED)


@scenario
class PowerLostAfterCommit:
    """A publisher sends in transactions of five; the power goes when the answer to a commit was read."""

    mode = "transacted"
    steps = (
        Publish(20_000, window=50, batch=5, until=PowerLoss(Nth("committed", Between(30, 90)))),
        Restart(),
        *SETTLE,
    )
    decides = {
        "ARTEMIS-TX-03": Check("lost_committed", exposure="committed_in_window", control=COMMITS_NOT_SYNCED),
        "ARTEMIS-TX-06": Check("committed_missing", exposure="committed_in_window"),
        "ARTEMIS-TX-07": Check("lost_committed", exposure="committed_in_window", control=COMMITS_NOT_SYNCED),
    }
