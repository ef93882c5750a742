"""What the disk gives back is not what was written: the data of a broker that is down are changed in one place.

Four answers are possible. The broker refuses to start, and says why. It starts and says what it cannot read. It starts
without a word, and messages are missing. It starts, and delivers a message that is not the one that was sent.
"""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.faults import How
from conformance.scenario.script import SETTLE, Corrupt, Drain, Publish, Restart, Step

HALF = Publish(150, window=50, size=1_000)
LIFE = (Publish(50, window=50, size=1_000), Drain(), Restart(clean=True))
"""What the broker writes to its log in a life like that after the damage is no report of it."""


def stopped_and_damaged(how: How) -> tuple[Step, ...]:
    """Return the steps in which 300 messages are sent, and the broker is stopped, damaged and started."""
    return (*LIFE, HALF, HALF, Restart(clean=True, under=Corrupt(how)), *SETTLE)


ALTERED = Check("corrupt", exposure="confirmed", control=Liar("trusts-damaged-records"))
SILENT = Check("lost_silently", exposure="confirmed", control=Liar("skips-damaged-records"))


@scenario
class StoredBodyDamaged:
    """Two publishers send 300 messages, and the broker is stopped. One bit of a stored body is flipped.

    A broker that compares checksums finds it. One that does not delivers a message that no one has sent.
    """

    mode = "async_ack"
    varies = False
    steps = stopped_and_damaged("body_bit")
    checks = (ALTERED, SILENT)


@scenario
class StoredHeaderDamaged:
    """Two publishers send 300 messages, and the broker is stopped. One bit before a stored body is flipped.

    Where most formats have the length of a record, its kind, or the headers of the message.
    """

    mode = "async_ack"
    varies = False
    thorough = True
    steps = stopped_and_damaged("header_bit")
    checks = (SILENT,)


@scenario
class IndexDamaged:
    """Two publishers send 300 messages, and the broker is stopped. One bit of a file without bodies is flipped.

    Such a file is an index, a list of queues, or nothing that is read again.
    """

    mode = "async_ack"
    varies = False
    thorough = True
    steps = stopped_and_damaged("index_bit")
    # The bundled broker has no file whose damage would lose a message.
    checks = (Check("lost_silently", exposure="confirmed", control=Liar("loses-the-oldest")),)


@scenario
class StoredPageZeroed:
    """Two publishers send 300 messages, and the broker is stopped. A page of 4 KiB with a stored body becomes zeros."""

    mode = "async_ack"
    varies = False
    thorough = True
    steps = stopped_and_damaged("zeroed_page")
    checks = (SILENT,)


@scenario
class StoredFileCut:
    """Two publishers send 300 messages, and the broker is stopped. The file with the last body ends within it.

    After a kill such an end is usual, and costs nothing that was confirmed. After a stop in order it is damage.
    """

    mode = "async_ack"
    varies = False
    thorough = True
    steps = stopped_and_damaged("cut_file")
    checks = (SILENT,)


@scenario
class StoredFileMissing:
    """Two publishers send 300 messages, and the broker is stopped. The file with the most bodies is gone."""

    mode = "async_ack"
    varies = False
    thorough = True
    steps = stopped_and_damaged("missing_file")
    checks = (SILENT,)


@scenario
class StoredFileEmpty:
    """Two publishers send 300 messages, and the broker is stopped. The file with the most bodies is empty."""

    mode = "async_ack"
    varies = False
    thorough = True
    steps = stopped_and_damaged("empty_file")
    checks = (SILENT,)


@scenario
class StoredFileOlder:
    """A publisher sends 150 messages, the broker is restarted, another publisher sends 150, and the broker is stopped.

    The file with the most bodies becomes what it was at the start before, as from a backup.
    """

    mode = "async_ack"
    varies = False
    thorough = True
    steps = (*LIFE, HALF, Restart(clean=True), HALF, Restart(clean=True, under=Corrupt("older_file")), *SETTLE)
    checks = (SILENT,)
