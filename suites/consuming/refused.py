"""A consumer gives deliveries back."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Consume, Publish


@scenario
class DeliveriesRefused:
    """A consumer gives every third message back when it first comes, and takes what comes again.

    In turn as released and rejected; over STOMP both are NACK, the only word it has.
    """

    mode = "individual"
    steps = (
        Publish(120, window=100),
        Consume("individual", prefetch=50, refuse=("released", "rejected"), refuse_every=3, until_silent=True),
        *SETTLE,
    )
    checks = (
        Check("released_gone", exposure="released", control=Liar("drops-released")),
        Check("release_counted", exposure="released", control=Liar("counts-releases")),
        Check("rejected_again", exposure="refused"),
        Check("refused_again", exposure="refused"),
    )


@scenario
class DeliveriesModified:
    """A consumer gives every third message back when it first comes, and takes what comes again.

    In turn as failed and as undeliverable here: over AMQP two kinds of modified, which not every broker has; over STOMP
    both are NACK.
    """

    mode = "individual"
    steps = (
        Publish(120, window=100),
        Consume("individual", prefetch=50, refuse=("failed", "undeliverable"), refuse_every=3, until_silent=True),
        *SETTLE,
    )
    checks = (
        Check("failure_unmarked", exposure="failed", control=Liar("never-marks-redelivered")),
        Check("failure_uncounted", exposure="failed", control=Liar("never-counts-failures")),
        Check("failed_gone", exposure="failed", control=Liar("drops-failed")),
        Check("undeliverable_again", exposure="undeliverable", control=Liar("ignores-undeliverable-here")),
    )
