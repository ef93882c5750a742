"""Consumers that acknowledge each message by itself and in any order, answered by the broker or lazily."""

from conformance.scenario import LOSSES, Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, Consume, ConsumerCrash, Kill, Nth, Publish, Restart, Rounds


@scenario
class AcknowledgedInAnyOrder:
    """An EXPLICIT_CLIENT consumer takes ten messages at a time and acknowledges every second of them, the last first.

    No acknowledgement may be refused because an earlier delivery is open, and none may take that one with it.
    """

    mode = "individual"
    steps = (
        Publish(200, window=100),
        Consume("individual", prefetch=250, acknowledge=2, backwards=10, stop=160),
        *SETTLE,
    )
    checks = (
        Check(
            "out_of_order_refused",
            exposure="acknowledged_out_of_order",
            control=Liar("refuses-out-of-order-acknowledgements", profile="ems"),
        ),
    )


@scenario
class ConsumerKilledUnderExplicitClient:
    """An EXPLICIT_CLIENT consumer acknowledges every second message, the last of ten first, and is killed in between.

    It reads the answer to each. What was acknowledged must not come again, and everything else must. Four times.
    """

    mode = "individual"
    steps = (
        Rounds(
            (
                Publish(300, window=100),
                Consume(
                    "individual",
                    prefetch=250,
                    acknowledge=2,
                    backwards=10,
                    until=ConsumerCrash(Nth("process", Between(205, 240))),
                ),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (
        Check(
            "not_exactly_one",
            exposure="delivered_unacknowledged",
            control=Liar("explicit-acknowledge-takes-earlier", profile="ems"),
        ),
    )


@scenario
class ConsumerKilledUnderLazyExplicit:
    """An EXPLICIT_CLIENT_DUPS_OK consumer acknowledges every second message, the last of ten first, and is killed.

    However late its acknowledgements are stored, each covers one message: those without must come again.
    Four times.
    """

    mode = "individual_dups_ok"
    steps = (
        Rounds(
            (
                Publish(300, window=100),
                Consume(
                    "individual_dups_ok",
                    prefetch=250,
                    acknowledge=2,
                    backwards=10,
                    until=ConsumerCrash(Nth("process", Between(205, 240))),
                ),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (
        Check(
            "gone",
            exposure="delivered_unacknowledged",
            control=Liar("lazy-acknowledge-takes-neighbours", profile="ems"),
        ),
    )


@scenario
class BrokerKilledAfterLazyAcknowledgements:
    """An EXPLICIT_CLIENT_DUPS_OK consumer reads the answer to each acknowledgement; the broker is killed at one.

    What was acknowledged in the moments before may come again. The messages themselves were stored before.
    """

    mode = "individual_dups_ok"
    steps = (
        Publish(300, window=100),
        Restart(clean=True),
        Consume("individual_dups_ok", prefetch=50, until=Kill(Nth("ack", Between(60, 200)))),
        Restart(),
        *SETTLE,
    )
    checks = (Check("delivered_after_restart", exposure="acknowledgements_confirmed"),)
