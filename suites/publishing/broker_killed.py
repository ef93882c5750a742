"""The broker dies while a client is publishing."""

from conformance.scenario import (
    KILLS,
    OF_BOTH,
    RECOVERED,
    STALE,
    SYNC_OFF,
    Check,
    Liar,
    scenario,
    sent_before,
)
from conformance.scenario.script import SETTLE, After, All, Between, Kill, Nth, OneOf, Publish, Restart, Rounds

AT_ANY_TIME = All((After(Between(100, 300)), Nth("confirm", 1)))
"""Not before the first confirm: on a busy machine 248 ms passed without one, and such a kill shows nothing."""
AT_A_CONFIRM_OR_ANY_TIME = OneOf((Nth("confirm", Between(50, 300)), AT_ANY_TIME))
WITNESSES = (
    Check("unanswered_either_way", exposure="unanswered"),
    Check("confirmed_missing", exposure="confirmed_in_window"),
)


@scenario
class BrokerKilledWhilePublishing:
    """A publisher keeps 100 persistent messages in flight; every process of the broker is killed, again and again.

    Each kill comes at a confirm or at a random time, and the next publisher begins on what recovery has left. After the
    last one the queue is drained to silence; then the broker is stopped in order, started once more, and drained again,
    so that lost can be told from late and from stuck.
    """

    mode = "async_ack"
    steps = (
        sent_before(100),
        Rounds((Publish(50_000, window=100, until=Kill(AT_A_CONFIRM_OR_ANY_TIME)), Restart()), KILLS),
        *SETTLE,
    )
    checks = (
        Check("lost", exposure="confirmed_in_window", control=SYNC_OFF),
        Check("stuck", exposure="confirmed", control=Liar("stuck-after-recovery", trials=3, waits_for_liveness=True)),
        *WITNESSES,
        RECOVERED,
        STALE,
    )


@scenario
class BrokerKilledWhileSendingOneByOne:
    """A publisher sends one persistent message at a time and waits for each answer; the broker is killed at one.

    At most one message is in flight at the kill, so nearly everything that could be lost has been confirmed.
    """

    mode = "blocking"
    subjects = OF_BOTH
    steps = (
        sent_before(1),
        Publish(50_000, window=1, until=Kill(Nth("confirm", Between(60, 200)))),
        Restart(),
        *SETTLE,
    )
    checks = (Check("lost", exposure="confirmed_in_window", control=SYNC_OFF), *WITNESSES)
