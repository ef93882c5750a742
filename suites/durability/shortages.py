"""A resource of the broker runs out for some seconds and comes back, while clients go on.

A broker may refuse, wait, or end meanwhile. It must keep what it has confirmed, and take messages again afterwards.
"""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, FilesUsedUp, FilledDisk, Nth, Publish, Restart, Step

AT = Nth("confirm", Between(20, 60))


def short_of(publish: Publish) -> tuple[Step, ...]:
    """Return the steps in which a publisher meets the shortage, and another one comes after it; then a kill."""
    return (publish, Publish(50, window=10, every_ms=20), Restart(), *SETTLE)


KEEPS = Check("lost", exposure="confirmed", control=Liar("confirms-what-finds-no-space"))


@scenario
class DiskFilledAndFreed:
    """A publisher sends 50 messages of 90 kB a second. For 8 seconds another process has all of the disk's space.

    Another publisher comes when there is space again. Then the broker is killed. Many brokers look at the space that
    is left every 5 seconds, so the shortage is longer than that.
    """

    mode = "async_ack"
    varies = False
    steps = short_of(Publish(500, window=10, size=90_000, every_ms=20, until=FilledDisk(AT, hold_s=8)))
    checks = (Check("not_served", exposure="sends", control=Liar("never-finds-space-again")), KEEPS)


@scenario
class DiskNearlyFilledAndFreed:
    """A publisher sends 50 messages a second. For 12 seconds another process has all of the disk's space but 1 %.

    Brokers have limits of their own, and refuse or block producers before the disk is full. The publisher is connected
    all the time: it must be let go on when there is space again. Another one comes then, and the broker is killed.
    """

    mode = "async_ack"
    varies = False
    steps = short_of(Publish(900, window=10, every_ms=20, until=FilledDisk(AT, hold_s=12, leaves_percent=1)))
    checks = (Check("not_served", exposure="sends", control=Liar("never-goes-on-after-little-space")),)


@scenario
class FilesUsedUpAndGivenBack:
    """A publisher sends 100 messages of 90 kB a second. For 3 seconds the broker can open no more files and sockets.

    The next file of its journal is one. Another publisher comes when files can be opened again; then the broker is
    killed.
    """

    mode = "async_ack"
    varies = False
    steps = short_of(Publish(400, window=10, size=90_000, every_ms=10, until=FilesUsedUp(AT, hold_s=3)))
    checks = (Check("not_served", exposure="sends", control=Liar("never-accepts-again")),)
