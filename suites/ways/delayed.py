"""Messages with a delivery delay: kept until its end, also over a stop or a kill of the broker, and delivered then."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, Consume, Kill, Nth, Publish, Restart, Together


@scenario
class MessagesWithADelay:
    """A consumer waits while publishers send messages that may be delivered at once, and after 1.5 seconds.

    It must get the second only when their delay is over.
    """

    mode = "auto"
    steps = (
        Together(
            (Consume("auto", prefetch=100, stop=80), Publish(40, window=10, delay_ms=1_500), Publish(40, window=1))
        ),
        *SETTLE,
    )
    checks = (Check("delivered_early", exposure="delayed", control=Liar("delivers-before-the-time")),)


@scenario
class MessagesWithADelayAndARestart:
    """A publisher sends messages that may be delivered after 12 seconds, and the broker is restarted in order.

    A consumer attaches then, and must get them only when their delay is over.
    """

    mode = "auto"
    steps = (
        Publish(40, window=10, delay_ms=12_000),
        Restart(clean=True),
        Consume("auto", prefetch=100, stop=40),
        *SETTLE,
    )
    checks = (Check("delivered_early", exposure="delayed", control=Liar("forgets-delivery-times-at-a-start")),)


@scenario
class BrokerKilledWithDelayedMessages:
    """A publisher sends persistent messages that may be delivered after 1.5 seconds; the broker is killed at a confirm.

    What was confirmed must come after the restart.
    """

    mode = "async_ack"
    steps = (
        Publish(50_000, window=100, delay_ms=1_500, until=Kill(Nth("confirm", Between(150, 600)))),
        Restart(),
        *SETTLE,
    )
    checks = (
        Check("lost", exposure="confirmed_in_window", control=Liar("loses-the-oldest")),
        Check("delivered_early", exposure="confirmed", control=Liar("forgets-delivery-times-at-a-start")),
    )
