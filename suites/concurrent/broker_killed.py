"""The broker dies while several clients use it, and others use it again while it recovers."""

from conformance.scenario import KILLS, SYNC_OFF, Check, Liar, scenario, sent_before
from conformance.scenario.script import SETTLE, After, Between, Consume, Kill, Nth, Publish, Restart, Rounds, Together

AGAIN = Check(
    "delivered_after_restart", exposure="acknowledgements_confirmed", control=Liar("brings-acknowledged-back")
)


@scenario
class BrokerKilledAmongClients:
    """Two publishers and two consumers use one queue; every process of the broker is killed at an answer to one.

    The publishers keep 20 messages each in flight. One consumer acknowledges every second message, and holds the
    others; one acknowledges all so far at every tenth, and the kill comes at an answer to that. Both have more messages
    prefetched. What was confirmed must be there after the restart, what was delivered and not acknowledged too, and
    what was acknowledged and confirmed must not.
    """

    mode = "client"
    steps = (
        Together(
            (
                Consume("individual", prefetch=50, acknowledge=2, work_ms=1),
                # A consumer may be attached long after the publishers: only its own answers say what is at risk.
                Consume(
                    "client",
                    prefetch=50,
                    acknowledge=10,
                    confirm=True,
                    work_ms=1,
                    until=Kill(Nth("ack", Between(30, 120))),
                ),
                Publish(50_000, window=20),
                Publish(50_000, window=20),
            )
        ),
        Restart(),
        *SETTLE,
    )
    checks = (
        Check("lost_unacknowledged", exposure="confirmed", control=Liar("removes-when-sending")),
        AGAIN,
    )


@scenario
class BrokerKilledAmongQueues:
    """Three publishers send to four queues in turn; the broker is killed at a confirm of one, again and again.

    Each keeps 20 messages in flight. What was confirmed must be there after the restart, in every queue.
    """

    mode = "async_ack"
    steps = (
        sent_before(20, queues=4),
        Rounds(
            (
                Together(
                    (
                        Publish(50_000, window=20, queues=4),
                        Publish(50_000, window=20, queues=4),
                        Publish(50_000, window=20, queues=4, until=Kill(Nth("confirm", Between(30, 120)))),
                    )
                ),
                Restart(),
            ),
            KILLS,
        ),
        *SETTLE,
    )
    checks = (Check("lost", exposure="confirmed_in_window", control=SYNC_OFF),)


@scenario
class BrokerKilledAgainAfterPublishersReturned:
    """The broker is killed among publishers, and two publishers connect as soon as it answers again.

    They send a hundred messages each while it starts. It is killed again at one of the next confirms, started, and
    killed a third time less than half a second after it was ready, before any client has used it. What was confirmed at
    any time must be there.
    """

    mode = "async_ack"
    thorough = True
    steps = (
        Publish(50_000, window=50, until=Kill(Nth("confirm", Between(100, 300)))),
        Restart(beside=(Publish(100, window=20), Publish(100, window=20))),
        Publish(50_000, window=50, until=Kill(Nth("confirm", Between(1, 40)))),
        Restart(until=Kill(After(Between(0, 500)))),
        *SETTLE,
    )
    checks = (Check("lost", exposure="confirmed", control=Liar("keeps-early-sends-in-memory")),)
