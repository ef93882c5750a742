"""Clients of one queue that do different things at the same time, and clients that come and go."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Consume, Publish, Rounds, Together


@scenario
class ConsumersUnlikeEachOther:
    """A quick consumer, a slow one, and one that gives back each of its deliveries, again and again, share a queue.

    Meanwhile one publisher sends small messages and another one large ones. What is given back must come to the others,
    and each message must arrive whole.
    """

    mode = "individual"
    steps = (
        Together(
            (
                Consume("individual", prefetch=20, stop=90),
                Consume("individual", prefetch=20, work_ms=10, stop=40),
                Consume("individual", prefetch=10, refuse=("released",), refuse_every=1, refuse_again=True, stop=300),
                Publish(300, window=20, every_ms=4),
                Publish(4, window=1, size=1_000_000),
            )
        ),
        *SETTLE,
    )
    checks = (
        Check("released_gone", exposure="released", control=Liar("drops-released")),
        Check("corrupt", exposure="received", control=Liar("cuts-large-messages")),
    )


@scenario
class ConsumersThatComeAndGo:
    """Ten times two consumers attach, take five messages each and close, with others prefetched, beside a publisher.

    What a consumer has not acknowledged when it closes must come to a later one.
    """

    mode = "individual"
    steps = (
        Rounds(
            (
                Together(
                    (
                        Publish(20, window=10),
                        Consume("individual", prefetch=20, stop=5),
                        Consume("individual", prefetch=5, stop=5),
                    )
                ),
            ),
            10,
        ),
        *SETTLE,
    )
    checks = (Check("lost", exposure="confirmed", control=Liar("loses-half-a-prefetch")),)
