"""Messages that a consumer gives back until their attempts are used up."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, Consume, ConsumerCrash, Kill, Nth, Publish, Restart

MANY = {"max_delivery_attempts": 9, "dead_letter_destination": "DLQ"}
LIMIT = {"max_delivery_attempts": 2, "dead_letter_destination": "DLQ"}
MOVED = Check("given_back_nowhere", exposure="refused", control=Liar("drops-failed"))


@scenario
class AttemptsUsedUp:
    """A consumer gives each message back as failed whenever it comes, until nothing comes or 120 deliveries.

    If the broker's file has the settings, a message has two attempts, and then belongs into the queue DLQ. Each of them
    must be there, or still in its own queue.
    """

    mode = "individual"
    settings = LIMIT
    steps = (
        Publish(40, window=20),
        Consume("individual", 10, refuse=("failed",), refuse_every=1, refuse_again=True, stop=120, until_silent=True),
        *SETTLE,
    )
    checks = (MOVED,)


@scenario
class BrokerKilledWhileDeadLettering:
    """A consumer gives each message back as failed whenever it comes, and the broker is killed meanwhile.

    If the broker's file has the settings, each message has two attempts: the kill comes among moves to the queue DLQ.
    Each message that was given back must be there, or still in its own queue.
    """

    mode = "individual"
    settings = LIMIT
    steps = (
        Publish(1_000, window=100),
        Consume(
            "individual",
            prefetch=50,
            refuse=("failed",),
            refuse_every=1,
            refuse_again=True,
            until=Kill(Nth("ack_written", Between(60, 400)), delay_us=Between(0, 20_000)),
        ),
        Restart(),
        *SETTLE,
    )
    checks = (MOVED,)


@scenario
class ConsumerKilledLongBeforeTheLimit:
    """A consumer that holds unacknowledged messages is killed, once, where each message has nine attempts.

    If the broker's file has the settings. No message may be in the queue DLQ: none was given back, and none can have
    been delivered so often.
    """

    mode = "individual"
    settings = MANY
    steps = (
        Publish(150, window=50),
        Consume("individual", prefetch=50, until=ConsumerCrash(Nth("process", Between(40, 80)))),
        *SETTLE,
    )
    checks = (Check("set_aside_early", exposure="delivered_unacknowledged", control=Liar("dead-letters-at-once")),)
