"""A consumer gives deliveries back."""

from conformance.scenario import SETTLE, Check, Consume, Liar, Publish, scenario


@scenario
class DeliveriesRefused:
    """A consumer gives every third message back when it first comes, and takes what comes again.

    In turn as released, failed, undeliverable here and rejected; over STOMP all four are NACK, the only word it has.
    """

    mode = "individual"
    steps = (
        Publish(240, window=100),
        Consume(
            "individual",
            prefetch=50,
            refuse=("released", "failed", "undeliverable", "rejected"),
            refuse_every=3,
            until_silent=True,
        ),
        *SETTLE,
    )
    decides = {
        "AMQP-REL-01": Check("released_gone", exposure="released", control=Liar("drops-released")),
        "AMQP-REL-02": Check("release_counted", exposure="released", control=Liar("counts-releases")),
        "EMS-DUPS-05": Check("failure_unmarked", exposure="failed", control=Liar("never-marks-redelivered")),
        "AMQP-MOD-01": Check("failure_uncounted", exposure="failed", control=Liar("never-counts-failures")),
        "AMQP-MOD-03": Check("failed_gone", exposure="failed", control=Liar("drops-failed")),
        "AMQP-MOD-02": Check(
            "undeliverable_again", exposure="undeliverable", control=Liar("ignores-undeliverable-here")
        ),
        "AMQP-REJ-01": Check("rejected_again", exposure="refused"),
        "STOMP-NACK-01": Check("refused_again", exposure="refused"),
    }
