"""A vendor's client consumes and is closed in order, or killed: what its acknowledgements have covered."""

from conformance.scenario import LOSSES, OF_CLIENT, Check, SessionLiar, scenario
from conformance.scenario.script import SETTLE, Between, Consume, ConsumerCrash, Nth, Publish, Rounds

FORGETS = SessionLiar("forgets-acknowledgements", trials=3)
AGAIN = Check("acknowledged_again", exposure="acknowledged", control=FORGETS)
COVERED = Check("covered_wrongly", exposure="delivered", control=FORGETS)
RETURNS_EARLY = Check("gone", exposure="delivered_unacknowledged", control=SessionLiar("returns-before-processing"))


@scenario
class ListenerClosedUnderAuto:
    """A listener of an AUTO session takes 150 of 200 messages; then the connection is closed in order.

    What it has returned from is acknowledged, and must not come again. It has room for all of them: a client that
    acknowledges nothing must not have to wait for more.
    """

    mode = "auto"
    subjects = OF_CLIENT
    steps = (Publish(200, window=100), Consume("auto", prefetch=200, stop=150), *SETTLE)
    checks = (AGAIN,)


@scenario
class ReceiverClosedUnderClient:
    """A CLIENT session takes 150 of 200 messages with receive(), and calls acknowledge() on every tenth of them.

    Each call covers what was received before it, and nothing of that may come again once the session is closed.
    """

    mode = "client"
    subjects = OF_CLIENT
    steps = (Publish(200, window=100), Consume("client", prefetch=50, acknowledge=10, stop=150), *SETTLE)
    checks = (AGAIN,)


@scenario
class ReceiversClosedUnderClient:
    """A CLIENT session takes 150 of 200 messages from two consumers of a queue, with receive() of each in turn.

    It calls acknowledge() on every tenth message. Each call covers what both consumers got before it.
    """

    mode = "client"
    subjects = OF_CLIENT
    steps = (Publish(200, window=100), Consume("client", prefetch=50, acknowledge=10, receivers=2, stop=150), *SETTLE)
    checks = (AGAIN,)


@scenario
class ReceiverClosedAfterItsLastCall:
    """A CLIENT session takes 155 of 200 messages with receive(), and calls acknowledge() on every tenth of them.

    Each call covers what was received before it, and no more: the last five must come again, and no other.
    """

    mode = "client"
    subjects = OF_CLIENT
    steps = (Publish(200, window=100), Consume("client", prefetch=50, acknowledge=10, stop=155), *SETTLE)
    checks = (COVERED,)


@scenario
class ReceiverAcknowledgingBySession:
    """The same, where acknowledge() of the session is called: it must cover what that of the message covers."""

    mode = "client"
    subjects = OF_CLIENT
    steps = (
        Publish(200, window=100),
        Consume("client", prefetch=50, acknowledge=10, stop=155, on_session=True),
        *SETTLE,
    )
    checks = (COVERED,)


@scenario
class ReceiverWithoutAcknowledging:
    """A CLIENT session receives 1,500 messages with a prefetch of 1,100, as far as it gets, and acknowledges none."""

    mode = "client"
    subjects = OF_CLIENT
    steps = (
        Publish(1_500, window=100),
        Consume("client", prefetch=1_100, acknowledge=5_000, until_silent=True),
        *SETTLE,
    )
    checks = (Check("many_unacknowledged", exposure="delivered"),)


@scenario
class ReceiverClosedWithoutAcknowledging:
    """A CLIENT session takes 150 of 200 messages with receive(), acknowledges none of them, and is closed.

    All of them must come again.
    """

    mode = "client"
    subjects = OF_CLIENT
    steps = (Publish(200, window=100), Consume("client", prefetch=50, acknowledge=5_000, stop=150), *SETTLE)
    checks = (Check("gone", exposure="delivered_unacknowledged", control=SessionLiar("acknowledges-unasked")),)


@scenario
class ListenerThrowsUnderAuto:
    """A listener of an AUTO session throws at every fifth of 60 messages, whenever it comes, until nothing comes.

    Or until 200 deliveries: a client may deliver such a message again and again. It is not acknowledged, so it must be
    in its queue once the connection is closed, or in a dead-letter queue.
    """

    mode = "auto"
    subjects = OF_CLIENT
    steps = (
        Publish(60, window=20),
        Consume(
            "auto",
            prefetch=50,
            refuse=("thrown",),
            refuse_every=5,
            refuse_again=True,
            stop=200,
            until_silent=True,
        ),
        *SETTLE,
    )
    checks = (Check("given_back_nowhere", exposure="refused", control=SessionLiar("returns-before-processing")),)


@scenario
class ListenerKilledUnderAuto:
    """The process of a listener of an AUTO session is killed while it processes a message, four times.

    That message must come again.
    """

    mode = "auto"
    subjects = OF_CLIENT
    steps = (
        Rounds(
            (
                Publish(300, window=100),
                Consume("auto", prefetch=50, work_ms=1, until=ConsumerCrash(Nth("process", Between(120, 180)))),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (RETURNS_EARLY,)


@scenario
class ListenerKilledUnderDupsOk:
    """The process of a listener of a DUPS_OK session is killed while it processes a message, four times.

    That message must come again, and others that it had processed may.
    """

    mode = "dups_ok"
    subjects = OF_CLIENT
    steps = (
        Rounds(
            (
                Publish(300, window=100),
                Consume("dups_ok", prefetch=50, work_ms=1, until=ConsumerCrash(Nth("process", Between(120, 180)))),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (
        RETURNS_EARLY,
        Check("processed_again", exposure="processed_unconfirmed"),
    )
