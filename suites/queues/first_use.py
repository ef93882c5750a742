"""The broker dies in the first second of a queue."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, After, Between, Consume, Kill, Nth, Publish, Restart, Together

SOON = Publish(50_000, window=20, until=Kill(Nth("confirm", Between(1, 60))))
LOST = Check("lost", exposure="confirmed", control=Liar("loses-the-last-batch"))


@scenario
class BrokerKilledSoonAfterDeclaration:
    """The suite declares the queue, a publisher sends at once, and the broker is killed at one of the first confirms.

    Only for a broker whose queues are declared while it runs. The suite waits for nothing but the answers to the
    declaration and to the sends: what was confirmed must be there after the restart, and so must its queue.
    """

    mode = "async_ack"
    queue = {"fresh": True}
    steps = (SOON, Restart(), *SETTLE)
    checks = (LOST,)


@scenario
class BrokerKilledSoonAfterFirstSend:
    """A publisher creates the queue by naming it and sends at once; the broker is killed at one of the first confirms.

    Only for a broker whose file says that it makes a durable queue when a client names one.
    """

    mode = "async_ack"
    queue = {"created": True}
    steps = (SOON, Restart(), *SETTLE)
    checks = (LOST,)


@scenario
class BrokerKilledSoonAfterFirstConsumer:
    """A consumer creates the queue by naming it; a publisher sends, and the broker is killed at one of its confirms.

    The consumer acknowledges nothing. What was confirmed must come again after the restart, whether the consumer had
    received it or not.
    """

    mode = "client"
    queue = {"created": True}
    steps = (Together((Consume("client", prefetch=20, acknowledge=1_000), SOON)), Restart(), *SETTLE)
    checks = (Check("lost_unacknowledged", exposure="confirmed", control=Liar("loses-the-last-batch")),)


@scenario
class CreatedQueueLeftAlone:
    """A publisher creates the queue by naming it, and a consumer takes 40 of its 80 messages; then no client is there.

    The broker is stopped and started, left alone for two to four seconds, and killed. What it made for its clients
    it may remove only when it is empty: the other 40 must come, and what was acknowledged must not.
    """

    mode = "individual"
    queue = {"created": True}
    steps = (
        Publish(80, window=20),
        Consume("individual", prefetch=10, stop=40),
        Restart(clean=True, until=Kill(After(Between(2_000, 4_000)))),
        *SETTLE,
    )
    checks = (Check("lost", exposure="confirmed", control=Liar("empties-a-queue-without-consumers")),)
