"""The broker dies while somebody is publishing."""

from conformance.scenario import SETTLE, SYNC_OFF, Between, Check, Kill, Nth, Publish, Restart, scenario

DECIDES = {
    "SOLCD-ACK-01": Check("lost", exposure="confirmed_in_window", control=SYNC_OFF),
    "SOLCD-ACK-02": Check("unanswered_either_way", exposure="unanswered"),
    "AMQP-DUR-01": Check("lost", exposure="confirmed_in_window", control=SYNC_OFF),
    "ARTEMIS-SEND-09": Check("lost", exposure="confirmed_in_window", control=SYNC_OFF),
    "ARTEMIS-SEND-11": Check("confirmed_missing", exposure="confirmed_in_window"),
}


@scenario
class BrokerKilledWhilePublishing:
    """A publisher keeps 100 persistent messages in flight; every process of the broker is killed at a confirm.

    The broker is started again on the same data and drained to silence; then it is stopped in order, started once
    more, and drained again, so that lost can be told from late and from stuck.
    """

    mode = "async_ack"
    steps = (Publish(50_000, window=100, until=Kill(Nth("confirm", Between(150, 600)))), Restart(), *SETTLE)
    decides = DECIDES


@scenario
class BrokerKilledWhileSendingOneByOne:
    """A publisher sends one persistent message at a time and waits for each answer; the broker is killed at one.

    At most one message is in flight at the kill, so nearly everything that could be lost has been confirmed.
    """

    mode = "blocking"
    steps = (Publish(50_000, window=1, until=Kill(Nth("confirm", Between(60, 200)))), Restart(), *SETTLE)
    decides = {claim: check for claim, check in DECIDES.items() if claim != "AMQP-DUR-01"}
