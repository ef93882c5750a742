"""The broker is stopped in order while a client is publishing, and started again."""

from conformance.scenario import RECOVERED, Check, scenario, weakened
from conformance.scenario.script import SETTLE, Between, Nth, Publish, Restart, Stop

NOT_STORED = weakened(persistence=False)
LOST = Check("lost", exposure="confirmed_in_window", control=NOT_STORED)


@scenario
class BrokerStoppedWhilePublishing:
    """A publisher keeps 100 persistent messages in flight; the broker is asked to stop at a confirm, and started again.

    Every message that it confirmed must be there.
    """

    mode = "async_ack"
    steps = (Publish(50_000, window=100, until=Stop(Nth("confirm", Between(150, 600)))), Restart(), *SETTLE)
    checks = (
        LOST,
        RECOVERED,
    )


@scenario
class BrokerStoppedAmongNonPersistent:
    """A publisher keeps 100 non-persistent messages in flight; the broker is asked to stop, and started again."""

    mode = "async_ack"
    steps = (
        Publish(50_000, window=100, durable=False, until=Stop(Nth("confirm", Between(150, 600)))),
        Restart(),
        *SETTLE,
    )
    checks = (Check("non_persistent_missing", exposure="non_persistent"),)
