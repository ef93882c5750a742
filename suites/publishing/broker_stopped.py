"""The broker is stopped in order while a client is publishing, and started again."""

from conformance.scenario import LOSSES, RECOVERED, STALE, Check, scenario, sent_before, weakened
from conformance.scenario.script import SETTLE, Between, Nth, Publish, Restart, Rounds, Stop

NOT_STORED = weakened(persistence=False)
LOST = Check("lost", exposure="confirmed_in_window", control=NOT_STORED)


@scenario
class BrokerStoppedWhilePublishing:
    """A publisher keeps 100 persistent messages in flight; the broker is asked to stop at a confirm, and started again.

    Every message that it confirmed must be there. Some were confirmed long before. Four publishers follow each other.
    """

    mode = "async_ack"
    steps = (
        sent_before(window=100),
        Rounds((Publish(50_000, window=100, until=Stop(Nth("confirm", Between(150, 600)))), Restart()), LOSSES),
        *SETTLE,
    )
    checks = (LOST, STALE, RECOVERED)


@scenario
class BrokerStoppedAmongNonPersistent:
    """A publisher keeps 100 non-persistent messages in flight; the broker is asked to stop, and started again.

    Four times.
    """

    mode = "async_ack"
    steps = (
        Rounds(
            (Publish(50_000, window=100, durable=False, until=Stop(Nth("confirm", Between(150, 600)))), Restart()),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (Check("non_persistent_missing", exposure="non_persistent"),)
