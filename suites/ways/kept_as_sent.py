"""Parts of a message beside its body: they must arrive as they were sent."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Consume, Publish, Restart


@scenario
class MessagesWithCorrelationIds:
    """A publisher sends 80 messages with a correlation-id, in turn of the four types that AMQP 1.0 has for it.

    A consumer takes half of them, and a drain the others. Each correlation-id that comes must have its type and value.
    """

    mode = "individual"
    steps = (Publish(80, window=20, correlates=True), Consume("individual", prefetch=20, stop=40), *SETTLE)
    checks = (Check("corrupt", exposure="received", control=Liar("changes-correlation-ids", over="amqp")),)


ALTERED = Check("corrupt", exposure="received", control=Liar("turns-true-to-false"))


@scenario
class MessagesWithPriorities:
    """Publishers send messages of the lowest, a high and the highest priority, and the broker is restarted in order.

    A consumer takes some of them, and a drain the others. Each must still say its priority, and of a broker that orders
    by it the highest come first.
    """

    mode = "individual"
    steps = (
        *(Publish(30, window=10, priority=priority) for priority in (0, 7, 9)),
        Restart(clean=True),
        Consume("individual", prefetch=20, stop=40),
        *SETTLE,
    )
    checks = (
        Check("corrupt", exposure="received", control=Liar("forgets-priorities-at-a-start")),
        Check("outranked", exposure="received", control=Liar("delivers-in-the-order-of-sends")),
    )


@scenario
class MessagesWithPropertiesAtOnce:
    """A publisher sends 80 messages with application properties of many kinds, and a consumer takes them.

    Each property that comes must have its type and value; over STOMP each is a header. One of them has the signs that
    STOMP 1.2 escapes: backslash, colon, carriage return and line feed.
    """

    mode = "individual"
    steps = (Publish(80, window=20, headers=True), Consume("individual", prefetch=20, until_silent=True), *SETTLE)
    checks = (ALTERED,)


@scenario
class MessagesWithProperties:
    """A publisher sends 80 messages with application properties of many kinds, and the broker is restarted in order.

    A consumer takes half of them, and a drain the others. Each property that comes must have its type and value; over
    STOMP each is a header.
    """

    mode = "individual"
    steps = (
        Publish(80, window=20, headers=True),
        Restart(clean=True),
        Consume("individual", prefetch=20, stop=40),
        *SETTLE,
    )
    checks = (ALTERED,)
