"""Several receivers of one session, on one connection: what one of them does must not disturb another."""

from typing import Literal

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Consume, Publish, Step, Together

MIXED_UP = Liar("acknowledges-for-another-receiver")
AGAIN = Check("delivered_after_acknowledgement", exposure="acknowledgements_confirmed", control=MIXED_UP)
GONE = Check("gone", exposure="delivered_unacknowledged", control=MIXED_UP)
KEPT_AND_WHOLE = (
    Check("confirmed_nowhere", exposure="sends", control=Liar("drops-every-tenth-send")),
    Check("corrupt", exposure="received", control=Liar("cuts-large-messages")),
)
GIVEN_BACK = Check("given_back_nowhere", exposure="refused", control=Liar("loses-half-a-prefetch"))


@scenario
class ReceiversOfOneConnection:
    """Two receivers of one session share a queue, and the first of them ends while the other goes on.

    Of ten deliveries every third one is acknowledged, the last one first. What was acknowledged must not come again,
    and what was not must come again: to the other receiver, or after the session. That each message has one owner is
    judged in every trial.
    """

    mode = "individual"
    steps = (
        Together(
            (
                Consume("individual", 200, acknowledge=3, backwards=10, receivers=2, ends=100, stop=200),
                Publish(300, window=20, every_ms=4),
            )
        ),
        *SETTLE,
    )
    checks = (AGAIN, GONE, GIVEN_BACK)


@scenario
class ReceiversOfTwoQueues:
    """Two receivers of one session have a queue each, and the first of them ends while the other goes on.

    Of ten deliveries every third one is acknowledged, the last one first. What was acknowledged must not come again,
    and what was not must come again, from its own queue.
    """

    mode = "individual"
    steps = (
        Together(
            (
                Consume("individual", 200, acknowledge=3, backwards=10, receivers=2, queues=2, ends=100, stop=150),
                Publish(300, window=20, every_ms=4, queues=2),
            )
        ),
        *SETTLE,
    )
    checks = (AGAIN, GONE, GIVEN_BACK)


@scenario
class ReceiversOfCopies:
    """Two receivers of one session have a queue each, and each queue gets a copy of every message.

    Of ten deliveries every third one is acknowledged, the last one first. An acknowledgement covers the copy that was
    delivered to its receiver: that must not come again, and the other one must.
    """

    mode = "individual"
    queue = {"copies_of": True}
    steps = (
        Together(
            (
                Consume("individual", 250, acknowledge=3, backwards=10, receivers=2, queues=2, stop=300),
                Publish(200, window=20, every_ms=4, queues=2),
            )
        ),
        *SETTLE,
    )
    checks = (AGAIN, GONE)


@scenario
class ReceiversOfLargeCopies:
    """Six receivers of one session have a queue each, and each queue gets a copy of every message of 400 kB.

    A broker may store such a message once, in a file of its own. Each copy must come, and be as it was sent, also where
    others have acknowledged theirs.
    """

    mode = "auto"
    queue = {"copies_of": True}
    steps = (
        Together(
            (
                Consume("auto", 10, receivers=6, queues=6, stop=90),
                Publish(20, window=5, size=400_000, queues=6),
            )
        ),
        *SETTLE,
    )
    checks = KEPT_AND_WHOLE


def consumers_of_large_copies(mode: Literal["auto", "no_ack"]) -> tuple[Step, ...]:
    """Return the steps of six consumers in that mode, beside the publisher."""
    consumers = (Consume(mode, 10, from_queue=place, stop=20) for place in range(6))
    return (Together((*consumers, Publish(20, window=5, size=400_000, queues=6))), *SETTLE)


@scenario
class ConsumersOfLargeCopies:
    """Six consumers have a connection and a queue each, and each queue gets a copy of every message of 400 kB.

    A broker may read a message that it stored once for several connections at the same time. Each consumer waits for
    all copies of its queue.
    """

    mode = "auto"
    queue = {"copies_of": True}
    steps = consumers_of_large_copies("auto")
    checks = KEPT_AND_WHOLE


@scenario
class ConsumersOfLargeCopiesUnderNoAck:
    """Six consumers have a connection and a queue each, and each queue gets a copy of every message of 400 kB.

    The broker removes a copy when it has sent it. Each consumer waits for all copies of its queue.
    """

    mode = "no_ack"
    queue = {"copies_of": True}
    steps = consumers_of_large_copies("no_ack")
    checks = KEPT_AND_WHOLE
