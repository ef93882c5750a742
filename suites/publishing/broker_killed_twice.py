"""The broker dies in what it does after a fault: while it recovers, or when it was halted."""

import dataclasses

from conformance.scenario import KILLS, SYNC_OFF, Check, scenario, sent_before
from conformance.scenario.script import SETTLE, Between, Kill, Nth, Pause, Publish, Recovery, Restart, Rounds

LOST = Check("lost", exposure="confirmed_in_window", control=SYNC_OFF)
LOST_READING = dataclasses.replace(LOST, control=dataclasses.replace(SYNC_OFF, journal=True))


@scenario
class BrokerKilledInRecovery:
    """The broker is killed among publishers, and once more while it reads its journal at the start after that.

    A recovery that is broken off must lose nothing either. It reads two thousand messages, so that it lasts.
    """

    mode = "async_ack"
    steps = (
        Publish(2_000, window=100),
        sent_before(100),
        Publish(50_000, window=100, until=Kill(Nth("confirm", Between(150, 600)))),
        Restart(until=Kill(Recovery(Between(1, 3)))),
        *SETTLE,
    )
    checks = (LOST_READING,)


@scenario
class BrokerHaltedThenKilled:
    """The broker is halted among publishers, and killed half a second later: what it had begun, it never ends."""

    mode = "async_ack"
    thorough = True
    steps = (
        sent_before(100),
        Publish(50_000, window=100, until=Pause(Nth("confirm", Between(150, 600)), hold_s=0.5, then_kill=True)),
        Restart(),
        *SETTLE,
    )
    checks = (LOST,)


@scenario
class BrokerKilledBeforeConfirm:
    """A publisher sends one message at a time; the broker is killed when one was written, and not yet answered."""

    mode = "blocking"
    steps = (Rounds((Publish(50_000, window=1, until=Kill(Nth("sent", Between(20, 100)))), Restart()), KILLS), *SETTLE)
    checks = (
        Check("unanswered_either_way", exposure="unanswered"),
        Check("unanswered_absent", exposure="unanswered"),
    )
