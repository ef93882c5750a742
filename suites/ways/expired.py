"""Messages with a time to live: kept until its end, not delivered after it, and moved then."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import (
    LONG_LIFE_MS,
    SETTLE,
    Between,
    Consume,
    Kill,
    Nth,
    Publish,
    Restart,
    Together,
)
from conformance.scenario.space import BY_NAME

LONG_LIVES_MS = [edge.value for edge in BY_NAME["time to live"].edges if edge.value > LONG_LIFE_MS]


@scenario
class BrokerKilledLongBeforeExpiry:
    """A publisher sends persistent messages that live for an hour; the broker is killed at a confirm.

    What was confirmed must be there after the restart.
    """

    mode = "async_ack"
    steps = (
        Publish(50_000, window=100, lives_ms=LONG_LIFE_MS, until=Kill(Nth("confirm", Between(150, 600)))),
        Restart(),
        *SETTLE,
    )
    checks = (Check("confirmed_nowhere", exposure="confirmed", control=Liar("counts-milliseconds-as-nanoseconds")),)


@scenario
class ConsumerAfterExpiry:
    """A consumer attaches when messages that live for a second have been in the queue for two.

    In between another publisher sends messages without an end. The consumer may receive these, and none of the others.
    """

    mode = "auto"
    steps = (
        Publish(200, window=100, lives_ms=1_000),
        Publish(40, window=1, every_ms=50),
        Consume("auto", prefetch=100, stop=240, until_silent=True),
        *SETTLE,
    )
    checks = (Check("delivered_expired", exposure="expired_before_consumer", control=Liar("never-expires")),)


@scenario
class ConsumerAfterExpiryAndRestart:
    """A consumer attaches when messages that live for two seconds have been in the queue for three, over a restart.

    The broker is stopped in order and started again meanwhile, and another publisher sends messages without an end. The
    consumer may receive these, and none of the others.
    """

    mode = "auto"
    steps = (
        Publish(200, window=100, lives_ms=2_000),
        Restart(clean=True),
        Publish(60, window=1, every_ms=50),
        Consume("auto", prefetch=100, stop=260, until_silent=True),
        *SETTLE,
    )
    checks = (Check("delivered_expired", exposure="expired_before_consumer", control=Liar("never-expires")),)


@scenario
class MessagesThatLiveLong:
    """Publishers send messages that live for 24, 25 and 49 days, and for 2^31 - 1 and 2^32 - 1 milliseconds.

    Another publisher sends messages without an end for three seconds, and the broker is stopped and started in order.
    All of them must be there.
    """

    mode = "async_ack"
    steps = (
        *(Publish(20, window=20, lives_ms=lives_ms) for lives_ms in LONG_LIVES_MS),
        Publish(60, window=1, every_ms=50),
        *SETTLE,
    )
    checks = (Check("confirmed_nowhere", exposure="confirmed", control=Liar("ends-long-lives-at-once")),)


@scenario
class BrokerKilledWhileExpiring:
    """Messages expire after 300 ms, faster than a slow consumer takes them, and the broker is killed meanwhile.

    The consumer is there because some brokers look at the time only when they deliver. What expires is moved to the
    queue DLQ, or to the queue that the broker has for it. Each message must be there, or still in its own queue, or
    have been received. A broker whose file names no queue for expired messages is not tried.
    """

    mode = "auto"
    settings = {"expiry_destination": "DLQ"}
    steps = (
        Together(
            (
                Consume("auto", prefetch=1, work_ms=20),
                Publish(50_000, window=100, lives_ms=300, until=Kill(Nth("confirm", Between(1_500, 3_000)))),
            )
        ),
        Restart(),
        *SETTLE,
    )
    checks = (Check("expired_nowhere", exposure="expired", control=Liar("drops-expired")),)
