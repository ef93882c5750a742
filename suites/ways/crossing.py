"""Messages that are sent over one protocol and received over another one that the broker serves on the same queue."""

from conformance.scenario import STUCK, Check, Liar, scenario
from conformance.scenario.script import ANOTHER, SETTLE, Between, Consume, ConsumerCrash, Nth, Publish, Restart

ALTERED = Check("corrupt", exposure="received", control=Liar("turns-true-to-false"))
LOST = Check("lost", exposure="confirmed", control=Liar("treats-persistent-as-non-persistent"))


@scenario
class MessagesReceivedOverAnotherProtocol:
    """A publisher sends 120 messages with application properties of many kinds, and the broker is restarted in order.

    A consumer waits for all of them over another protocol. Their bodies must be the same, and each property must have
    the same text.
    """

    mode = "auto"
    steps = (
        Publish(120, window=20, headers=True),
        Restart(clean=True),
        Consume("auto", prefetch=20, over=ANOTHER, stop=120),
        *SETTLE,
    )
    checks = (STUCK, ALTERED, LOST)


@scenario
class MessagesSentOverAnotherProtocol:
    """A publisher sends 120 messages with properties of many kinds over another protocol; the broker is restarted.

    A consumer waits for all of them. Their bodies must be the same, and each property must have the same text.
    """

    mode = "auto"
    steps = (
        Publish(120, window=20, headers=True, over=ANOTHER),
        Restart(clean=True),
        Consume("auto", prefetch=20, stop=120),
        *SETTLE,
    )
    checks = (STUCK, ALTERED, LOST)


@scenario
class PropertiesWithoutAValueOverAnotherProtocol:
    """A publisher sends 120 messages, each with an application property that has no value.

    A consumer waits for all of them over another protocol, which may leave the property out.
    """

    mode = "auto"
    varies = False
    steps = (
        Publish(120, window=20, headers=True, nulls=True),
        Consume("auto", prefetch=20, over=ANOTHER, stop=120),
        *SETTLE,
    )
    checks = (STUCK, ALTERED)


@scenario
class ConsumerOfAnotherProtocolKilled:
    """A consumer over another protocol acknowledges each message that it has processed, and is killed in a processing.

    A drain over the protocol of the publisher gets the others. What came before must be marked, and what was
    acknowledged must not come again.
    """

    mode = "individual"
    steps = (
        Publish(300, window=100),
        Consume("individual", prefetch=50, over=ANOTHER, until=ConsumerCrash(Nth("process", Between(120, 180)))),
        *SETTLE,
    )
    checks = (
        Check("unmarked", exposure="delivered_unacknowledged", control=Liar("never-marks-redelivered")),
        Check("lost", exposure="confirmed", control=Liar("loses-half-a-prefetch")),
        Check(
            "delivered_after_acknowledgement",
            exposure="acknowledgements_confirmed",
            control=Liar("forgets-every-hundredth-acknowledgement"),
        ),
    )
