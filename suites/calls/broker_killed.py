"""The broker is killed after a vendor's client has acknowledged: what comes again depends on what it has waited for."""

from conformance.scenario import OF_CLIENT, SYNC_OFF, Check, acknowledged_before, scenario
from conformance.scenario.script import SETTLE, Between, Consume, Kill, Nth, Publish, Restart

KILLED = Consume("individual", prefetch=50, until=Kill(Nth("ack", Between(60, 200))))
AGAIN = Check("delivered_after_restart", exposure="acknowledged_in_window", control=SYNC_OFF)


@scenario
class BrokerKilledAfterAwaitedAcknowledges:
    """A client that was told to wait for answers acknowledges each message; the broker is killed when a call returned.

    The messages were stored before, so only acknowledgements are at risk. What was acknowledged must not come again.
    """

    mode = "individual"
    subjects = OF_CLIENT
    settings = {"block_on_acknowledge": True}
    steps = (
        *acknowledged_before(),
        KILLED,
        Restart(),
        *SETTLE,
    )
    checks = (AGAIN,)


@scenario
class BrokerKilledAfterUnawaitedAcknowledges:
    """A client acknowledges each message as it does by default, without an answer; the broker is killed at one.

    What it had acknowledged in the moments before may come again.
    """

    mode = "individual"
    subjects = OF_CLIENT
    steps = (Publish(300, window=100), Restart(clean=True), KILLED, Restart(), *SETTLE)
    checks = (Check("delivered_after_restart", exposure="acknowledgements_confirmed"),)
