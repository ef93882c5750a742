"""The broker dies when it has just removed a file of its journal."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, Consume, FileRemoved, Kill, Publish, Restart, Rounds, Together

KIB = 1 << 10


@scenario
class BrokerKilledWhenAFileIsRemoved:
    """A publisher sends messages of 90 KiB; the broker is killed up to 30 ms after it removed a file of its journal.

    One consumer takes most of them at once. Another takes some, slowly, and acknowledges every second: so the files of
    the journal are nearly dead, and have live messages in them. A broker that removes such a file must have stored
    those messages elsewhere before. What was confirmed and not acknowledged must be there after the restart.
    """

    mode = "individual"
    thorough = True
    steps = (
        Rounds(
            (
                Publish(80, window=10, size=90 * KIB),
                Together(
                    (
                        Consume("individual", prefetch=40, acknowledge=2, work_ms=20),
                        Consume("auto", prefetch=40),
                        Publish(
                            4_000,
                            window=10,
                            size=90 * KIB,
                            until=Kill(FileRemoved(Between(1, 4)), delay_us=Between(0, 30_000)),
                        ),
                    )
                ),
                Restart(),
            ),
            5,
            control=3,
        ),
        *SETTLE,
    )
    checks = (Check("lost_unacknowledged", exposure="confirmed", control=Liar("stores-copies-after-removal")),)
