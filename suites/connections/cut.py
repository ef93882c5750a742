"""The connection breaks between two frames, or in the middle of one; the broker goes on."""

from conformance.scenario import LOSSES, Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, Consume, Cut, Frame, Publish, Rounds

COMMITS = Liar("commits-when-link-closes")


@scenario
class CutAroundASend:
    """A publisher sends one message at a time; the connection is reset when an answer is on its way to it.

    Its message is there, and it cannot know. A second publisher's connection is reset in the middle of a send: of that
    message there is nothing. Four times.
    """

    mode = "blocking"
    steps = (
        Rounds(
            (
                Publish(300, window=1, until=Cut(Frame("answer", Between(40, 120), at="before"))),
                Publish(300, window=1, until=Cut(Frame("send", Between(40, 120), at="middle"))),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (Check("unanswered_either_way", exposure="unanswered"),)


@scenario
class CutInTransaction:
    """A publisher sends in transactions of ten; the connection is reset among the sends of one.

    No request to commit it ever left: none of it may be there.
    """

    mode = "transacted"
    steps = (Rounds((Publish(300, window=50, batch=10, until=Cut(Frame("send", Between(43, 47)))),), LOSSES), *SETTLE)
    checks = (Check("available_undischarged", exposure="undischarged", control=COMMITS),)


@scenario
class CutBeforeDelivery:
    """A NO_ACK consumer receives settled messages; the connection is reset before one of them passes.

    It is observed how many were lost to a client that did nothing wrong: the broker had written them. Four times.
    """

    mode = "no_ack"
    steps = (
        Rounds(
            (
                Publish(300, window=100),
                Consume("no_ack", prefetch=50, until=Cut(Frame("deliver", Between(60, 150), at="before"))),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (Check("unprocessed_gone", exposure="unprocessed"),)


@scenario
class CutBeforeAcknowledgement:
    """An INDIVIDUAL consumer acknowledges every second message; the connection is reset before one of these passes.

    What it had processed and not acknowledged must come again; what it had acknowledged, and was not answered, may.
    Four consumers follow each other.
    """

    mode = "individual"
    steps = (
        Rounds(
            (
                Publish(300, window=100),
                Consume(
                    "individual",
                    prefetch=250,
                    acknowledge=2,
                    until=Cut(Frame("acknowledge", Between(40, 90), at="before")),
                ),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (
        Check("gone", exposure="delivered_unacknowledged", control=Liar("removes-when-sending")),
        Check("processed_again", exposure="processed_unconfirmed"),
        Check("came_back", exposure="delivered_unacknowledged"),
    )
