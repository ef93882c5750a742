"""The broker dies while a client is publishing."""

from conformance.scenario import RECOVERED, STALE, SYNC_OFF, SYNC_OFF_IN_ROUNDS, Check, Liar, Weakened, scenario
from conformance.scenario.script import SETTLE, After, All, Between, Kill, Nth, OneOf, Publish, Restart, Rounds

AT_ANY_TIME = All((After(Between(100, 300)), Nth("confirm", 1)))
"""Not before the first confirm: on a busy machine 248 ms passed without one, and such a kill shows nothing."""
AT_A_CONFIRM_OR_ANY_TIME = OneOf((Nth("confirm", Between(150, 600)), AT_ANY_TIME))


def decided(control: Weakened) -> dict[str, Check]:
    """What a kill among publishers decides, with that control."""
    lost = Check("lost", exposure="confirmed_in_window", control=control)
    return {
        "SOLCD-ACK-01": lost,
        "SOLCD-ACK-02": Check("unanswered_either_way", exposure="unanswered"),
        "ARTEMIS-SEND-09": lost,
        "ARTEMIS-SEND-11": Check("confirmed_missing", exposure="confirmed_in_window"),
        "CLASSIC-PERS-01": lost,
        "CLASSIC-SYNC-02": Check("confirmed_missing", exposure="confirmed_in_window"),
        "RMQ-AMQP-01": lost,
        "RMQ-DUR-01": lost,
        "RMQ-QQ-01": lost,
        "RMQ-STOMP-01": lost,
    }


@scenario
class BrokerKilledWhilePublishing:
    """A publisher keeps 100 persistent messages in flight; every process of the broker is killed, again and again.

    Each kill comes at a confirm or at a random time, and the next publisher begins on what recovery has left. After the
    last one the queue is drained to silence; then the broker is stopped in order, started once more, and drained again,
    so that lost can be told from late and from stuck.
    """

    mode = "async_ack"
    steps = (Rounds((Publish(50_000, window=100, until=Kill(AT_A_CONFIRM_OR_ANY_TIME)), Restart()), 15), *SETTLE)
    decides = {
        **decided(SYNC_OFF_IN_ROUNDS),
        "AMQP-DUR-01": Check("lost", exposure="confirmed_in_window", control=SYNC_OFF_IN_ROUNDS),
        "EMS-STEP-03": Check(
            "stuck", exposure="confirmed", control=Liar("stuck-after-recovery", trials=3, waits_for_liveness=True)
        ),
        "EXPECT-RECOVER-01": RECOVERED,
        "EXPECT-STALE-01": STALE,
    }


@scenario
class BrokerKilledWhileSendingOneByOne:
    """A publisher sends one persistent message at a time and waits for each answer; the broker is killed at one.

    At most one message is in flight at the kill, so nearly everything that could be lost has been confirmed.
    """

    mode = "blocking"
    steps = (Publish(50_000, window=1, until=Kill(Nth("confirm", Between(60, 200)))), Restart(), *SETTLE)
    decides = {
        **decided(SYNC_OFF),
        "SOLCD-SEND-02": Check("lost", exposure="confirmed_in_window", control=SYNC_OFF),
    }
