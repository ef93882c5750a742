"""The broker dies among messages of very different sizes, with its journal rolled and compacted."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, Consume, Kill, Nth, Publish, Restart, Together

KIB, MIB = 1 << 10, 1 << 20
CUT = Check("corrupt", exposure="received", control=Liar("cuts-large-messages"))


@scenario
class BrokerKilledAmongLargeMessages:
    """Four publishers send messages of 0 bytes, 1 KiB, 200 KiB and 4 MiB; the broker is killed at a confirm of 200 KiB.

    One consumer takes the oldest messages, slowly, and acknowledges none of them; another acknowledges the next 300. So
    some 30 MB go through the journal, most of it is dead, and the few live messages are in its oldest part: a broker
    that compacts must copy them. The messages after those stay in the queue, large ones among them. What was confirmed
    must be there after the restart, and what was delivered and not acknowledged; all of it as it was sent.
    """

    mode = "individual"
    steps = (
        Publish(4, window=4, size=KIB),
        Publish(4, window=4, size=200 * KIB),
        Together(
            (
                Consume("client", prefetch=8, acknowledge=100, work_ms=250),
                Consume("auto", prefetch=20, stop=300),
                Publish(150, window=5, size=0, every_ms=20),
                Publish(150, window=5, size=KIB, every_ms=20),
                Publish(4, window=1, size=4 * MIB, every_ms=300),
                Publish(5_000, window=5, size=200 * KIB, every_ms=20, until=Kill(Nth("confirm", Between(100, 140)))),
            )
        ),
        Restart(),
        *SETTLE,
    )
    checks = (
        Check("lost_unacknowledged", exposure="confirmed", control=Liar("loses-at-compaction")),
        CUT,
    )
