"""The broker is stopped in order while several clients use it, and they come back while it starts."""

from conformance.scenario import LOSSES, Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, Consume, Nth, Publish, Restart, Rounds, Stop, Together

HELD = Check("lost_unacknowledged", exposure="confirmed", control=Liar("drops-held-deliveries-when-stopped"))
AGAIN = Check(
    "delivered_after_restart", exposure="acknowledgements_confirmed", control=Liar("brings-acknowledged-back")
)


@scenario
class BrokerStoppedAmongClients:
    """Two consumers and a publisher use one queue; the broker is asked to stop at an answer to one of the consumers.

    One consumer acknowledges every second message, and holds the others; one acknowledges all so far at every tenth,
    and the request comes at an answer to that. Both have more messages prefetched. What was confirmed must be there
    after the restart, what was delivered and not acknowledged too, and what was acknowledged and confirmed must not.
    Four times.
    """

    mode = "client"
    steps = (
        Rounds(
            (
                Together(
                    (
                        Consume("individual", prefetch=50, acknowledge=2, work_ms=1),
                        Consume(
                            "client",
                            prefetch=50,
                            acknowledge=10,
                            confirm=True,
                            work_ms=1,
                            until=Stop(Nth("ack", Between(30, 120))),
                        ),
                        Publish(50_000, window=20),
                    )
                ),
                Restart(),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (HELD, AGAIN)


@scenario
class BrokerRestartedUnderReturningClients:
    """The broker is asked to stop among a consumer and a publisher, and others connect while it starts, four times.

    So it is with each broker of a rolling restart. The consumer acknowledges every second message, and the request
    comes at an answer to that. The clients that connect while the broker starts send fifty messages, and take forty.
    What was confirmed must be there in the end, and what was acknowledged and confirmed must not.
    """

    mode = "individual"
    steps = (
        Rounds(
            (
                Together(
                    (
                        Consume("individual", 100, acknowledge=2, until=Stop(Nth("ack", Between(20, 60)))),
                        Publish(50_000, window=20),
                    )
                ),
                Restart(beside=(Publish(50, window=20), Consume("individual", 50, acknowledge=2, stop=40))),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (HELD, AGAIN)
