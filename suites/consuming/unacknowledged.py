"""Sessions that acknowledge before processing, or not at all, and the limit on what may be unacknowledged."""

from conformance.scenario import LOSSES, Check, Liar, SessionLiar, scenario
from conformance.scenario.script import SETTLE, Between, Consume, ConsumerCrash, Nth, Publish, Rounds

AGAIN = Check("settled_again", exposure="reached_settled", control=Liar("requeues-settled"))
LOST_ON_THE_WAY = Check("unprocessed_gone", exposure="unprocessed")


@scenario
class ConsumerKilledUnderNoAck:
    """A NO_ACK consumer, which receives settled messages over a link, is killed in the middle of a processing.

    What had reached it must not be delivered again, also not after the broker was stopped in order; what was on its way
    may be lost. No acknowledgement may be seen on the link. Four consumers follow each other.
    """

    mode = "no_ack"
    steps = (
        Rounds(
            (
                Publish(300, window=100),
                Consume("no_ack", prefetch=50, linked=True, until=ConsumerCrash(Nth("process", Between(120, 180)))),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (
        AGAIN,
        LOST_ON_THE_WAY,
        Check("acknowledged_at_all", exposure="carried", control=SessionLiar("acknowledges-in-every-mode")),
    )


@scenario
class ConsumerDetachedUnderNoAck:
    """A NO_ACK consumer takes 120 of 300 messages over a link, and closes its connection in order.

    What was sent to it may be lost. What the link did not carry must be there: it was never sent. It is decided over
    AMQP, where nothing follows the answer to the close.
    """

    mode = "no_ack"
    steps = (Publish(300, window=100), Consume("no_ack", prefetch=50, linked=True, stop=120), *SETTLE)
    checks = (Check("unsent_gone", exposure="unsent", control=Liar("drops-some-of-what-it-sends-settled")),)


@scenario
class ConsumerDetachedWithoutCredit:
    """A NO_ACK consumer gives credit for 120 of 300 messages over a link, takes these, and closes when no more come.

    For the others it never gave credit, so none of them was sent to it, and all must be there.
    """

    mode = "no_ack"
    steps = (
        Publish(300, window=100),
        Consume("no_ack", prefetch=50, renews=70, linked=True, until_silent=True),
        *SETTLE,
    )
    checks = (Check("unsent_gone", exposure="unsent", control=Liar("drops-some-of-what-it-sends-settled")),)


@scenario
class ConsumerUnderPre:
    """A PRE consumer acknowledges each message before it is processed."""

    mode = "pre"
    steps = (Publish(200, window=100), Consume("pre", prefetch=50, stop=150), *SETTLE)
    checks = (Check("acknowledged_late", exposure="delivered", control=SessionLiar("acknowledges-after-processing")),)


@scenario
class PrefetchReached:
    """A CLIENT consumer takes as many messages as its prefetch allows, waits whether more come, acknowledges, goes on.

    No more may come before it acknowledges, and delivery must resume afterwards.
    """

    mode = "client"
    steps = (Publish(120, window=100), Consume("client", prefetch=20, acknowledge=20, hold=True, stop=80), *SETTLE)
    checks = (
        Check("over_prefetch", exposure="delivered", control=Liar("ignores-prefetch")),
        Check(
            "starved", exposure="confirmed", control=Liar("never-refills-prefetch", trials=3, waits_for_liveness=True)
        ),
    )
