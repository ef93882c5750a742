"""The consuming process dies in the middle of processing, under each acknowledgement mode; the next takes its place."""

from conformance.scenario import LOSSES, STUCK, Check, Liar, SessionLiar, scenario
from conformance.scenario.needs import SESSION_EXPIRY
from conformance.scenario.script import SETTLE, Between, Consume, ConsumerCrash, Nth, Publish, Rounds

REMOVES = Liar("removes-when-sending")
GONE = Check("gone", exposure="delivered_unacknowledged", control=REMOVES)
UNMARKED = Check("unmarked", exposure="delivered_unacknowledged", control=Liar("never-marks-redelivered"))


@scenario
class ConsumerKilledUnderAuto:
    """An AUTO consumer, which acknowledges each message after processing it, is killed in the middle of a processing.

    Before that the publisher waits for the answer to every send, and after it a second consumer waits for everything
    that is left: nothing may stay unanswered, and nothing may stay in the queue.
    """

    mode = "auto"
    steps = (
        Publish(300, window=100),
        Consume("auto", prefetch=50, until=ConsumerCrash(Nth("process", Between(120, 180)))),
        *SETTLE,
    )
    checks = (
        Check(
            "unanswered_send",
            exposure="sends",
            control=Liar("never-answers-one-send", trials=3, waits_for_liveness=True),
        ),
        STUCK,
        UNMARKED,
        Check("outcome_changed", exposure="answered", control=Liar("accepts-then-rejects")),
    )


@scenario
class ConsumersKilledUnderAuto:
    """Four AUTO consumers are killed in turn in the middle of a processing, each at a queue of its own.

    So none of them takes what another has left: the four messages that were handed over and not acknowledged come again
    at the end, and must be marked.
    """

    mode = "auto"
    steps = (
        Publish(480, window=100, queues=LOSSES),
        *(
            Consume("auto", prefetch=50, from_queue=place, until=ConsumerCrash(Nth("process", Between(60, 90))))
            for place in range(LOSSES)
        ),
        *SETTLE,
    )
    checks = (UNMARKED,)


@scenario
class ConsumerKilledInLongProcessing:
    """An AUTO consumer, whose connection is served while it processes, is killed in the middle of a processing.

    Each takes five milliseconds: an acknowledgement that its session writes before the end of one is on the link by
    then. Four consumers die in turn.
    """

    mode = "auto"
    steps = (
        Rounds(
            (
                Publish(100, window=100),
                Consume(
                    "auto", prefetch=50, work_ms=5, linked=True, until=ConsumerCrash(Nth("process", Between(40, 60)))
                ),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (
        Check("acknowledged_early", exposure="acknowledged_on_link", control=SessionLiar("acknowledges-on-receipt")),
    )


@scenario
class ConsumerKilledUnderClient:
    """A CLIENT consumer acknowledges everything so far at each 400th message, and is killed in a later processing.

    It reads the answer to each acknowledge: one that died unread in a socket would leave nothing to be wrong about.
    What was delivered after the last acknowledge must come back.
    """

    mode = "client"
    steps = (
        Publish(2_400, window=100),
        Consume(
            "client",
            prefetch=2_000,
            acknowledge=400,
            confirm=True,
            linked=True,
            until=ConsumerCrash(Nth("process", Between(950, 1_050))),
        ),
        *SETTLE,
    )
    checks = (
        GONE,
        UNMARKED,
        Check(
            "gone_after_acknowledge",
            exposure="delivered_after_acknowledge",
            control=Liar("acknowledge-takes-later"),
        ),
        Check(
            "acknowledged_undelivered",
            exposure="acknowledged_on_link",
            control=SessionLiar("acknowledges-prefetched"),
        ),
    )


@scenario
class ConsumerKilledAfterCumulativeAcknowledgement:
    """A CLIENT consumer acknowledges fifty messages with one frame, reads the answer, and is killed later on.

    Each answer covers its message and all before it: none of them may come again.
    """

    mode = "client"
    steps = (
        Publish(300, window=100),
        Consume(
            "client",
            prefetch=250,
            acknowledge=50,
            confirm=True,
            until=ConsumerCrash(Nth("process", Between(210, 240))),
        ),
        *SETTLE,
    )
    checks = (
        Check(
            "delivered_after_acknowledgement",
            exposure="acknowledgements_confirmed",
            control=Liar("client-ack-is-individual", over="stomp"),
        ),
        Check(
            "delivered_after_acknowledgement",
            exposure="acknowledgements_confirmed",
            control=Liar("client-ack-is-individual", over="amqp091"),
        ),
    )


@scenario
class ConsumerKilledAfterRefusals:
    """An INDIVIDUAL consumer gives every tenth message back, acknowledges none of the others, and is killed.

    Over STOMP it sends NACK. A refusal is about one message: all others were neither acknowledged nor refused, and must
    come again. Four consumers die in turn.
    """

    mode = "individual"
    steps = (
        Publish(150, window=100),
        Rounds(
            (
                Publish(150, window=100),
                Consume(
                    "individual",
                    prefetch=250,
                    acknowledge=5_000,
                    refuse=("released",),
                    refuse_every=10,
                    until=ConsumerCrash(Nth("process", Between(150, 180))),
                ),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (
        Check("gone", exposure="delivered_unacknowledged", control=Liar("nack-acknowledges-earlier", over="stomp")),
        GONE,
    )


@scenario
class ConsumerHoldsManyUnacknowledged:
    """A CLIENT consumer takes more than a thousand messages without acknowledging any, and is killed."""

    mode = "client"
    steps = (
        Publish(1_300, window=100),
        Consume("client", prefetch=1_250, acknowledge=5_000, until=ConsumerCrash(Nth("process", 1_200))),
        *SETTLE,
    )
    checks = (Check("many_unacknowledged", exposure="delivered_unacknowledged"),)


@scenario
class ConsumerKilledUnderIndividual:
    """An INDIVIDUAL consumer acknowledges every second message, reads each confirmation, and is killed in between.

    A confirmed acknowledgement is final while the broker lives; a delivery without one must become available again.
    Four consumers die in turn.
    """

    mode = "individual"
    steps = (
        Rounds(
            (
                Publish(300, window=100),
                Consume(
                    "individual", prefetch=250, acknowledge=2, until=ConsumerCrash(Nth("process", Between(210, 240)))
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
            control=Liar("individual-ack-is-cumulative", over="stomp"),
        ),
        Check(
            "gone",
            exposure="delivered_unacknowledged",
            control=Liar("individual-ack-is-cumulative", over="amqp091"),
        ),
        GONE,
        Check("came_back", exposure="delivered_unacknowledged"),
        Check("processed_again", exposure="processed_unconfirmed"),
        UNMARKED,
        Check("answered_acknowledgement", exposure="acknowledged"),
        Check(
            "delivered_after_acknowledgement",
            exposure="acknowledgements_confirmed",
            control=Liar("forgets-every-hundredth-acknowledgement"),
        ),
        Check("counted_at_first", exposure="first_deliveries", control=Liar("counts-from-one")),
        Check("first_acquirer_twice", exposure="claimed_first", control=Liar("always-first-acquirer")),
    )


@scenario
class SessionOfAMonth:
    """A consumer whose session outlives it by thirty days is killed, and its session is left alone for three seconds.

    Meanwhile a publisher sends on. The consumer that comes back must have what was sent before and meanwhile: brokers
    look at intervals for sessions that have expired. Four times.
    """

    mode = "individual"
    queue = {SESSION_EXPIRY: 30 * 86_400}
    steps = (
        Rounds(
            (
                Publish(100, window=20),
                Consume("individual", prefetch=20, until=ConsumerCrash(Nth("process", Between(40, 60)))),
                Publish(30, window=1, every_ms=100),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (Check("gone", exposure="delivered_unacknowledged", control=Liar("ends-sessions-of-a-month")),)
