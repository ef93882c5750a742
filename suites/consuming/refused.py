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
class DeliveriesRejected:
    """A consumer rejects each message whenever it comes, and ends after sixty deliveries.

    What it rejected must not come from its queue again. A dead-letter queue may have it.
    """

    mode = "individual"
    steps = (
        Publish(120, window=100),
        Consume("individual", prefetch=20, refuse=("rejected",), refuse_every=1, refuse_again=True, stop=60),
        *SETTLE,
    )
    checks = (Check("rejected_again", exposure="refused", control=Liar("requeues-rejected")),)


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


@scenario
class DeliveriesRecovered:
    """A consumer that may hold one delivery asks for every third message once more when it first comes.

    Over AMQP 0-9-1 by basic.recover with requeue, which gives back all that a channel holds: here it is that message
    alone. It must come again, and be marked.
    """

    mode = "individual"
    steps = (
        Publish(120, window=100),
        Consume("individual", prefetch=1, refuse=("recovered",), refuse_every=3, until_silent=True),
        *SETTLE,
    )
    checks = (
        Check("failure_unmarked", exposure="failed", control=Liar("never-marks-redelivered")),
        Check("failed_gone", exposure="failed", control=Liar("drops-released")),
    )
