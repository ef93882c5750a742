"""The connection breaks between two frames, or in the middle of one; the broker goes on."""

from conformance.scenario import SETTLE, Between, Check, Consume, Cut, Frame, Liar, Publish, scenario

COMMITS = Liar("commits-when-link-closes")
REMOVES = Liar("removes-when-sending")


@scenario
class CutAroundASend:
    """A publisher sends one message at a time; the connection is reset when an answer is on its way to it.

    Its message is there, and it cannot know. A second publisher's connection is reset in the middle of a send: of that
    message there is nothing.
    """

    mode = "blocking"
    steps = (
        Publish(300, window=1, until=Cut(Frame("answer", Between(40, 120), at="before"))),
        Publish(300, window=1, until=Cut(Frame("send", Between(40, 120), at="middle"))),
        *SETTLE,
    )
    decides = {"SOLCD-ACK-02": Check("unanswered_either_way", exposure="unanswered")}


@scenario
class CutInTransaction:
    """A publisher sends in transactions of ten; the connection is reset among the sends of one.

    No request to commit it ever left: none of it may be there.
    """

    mode = "transacted"
    steps = (Publish(300, window=50, batch=10, until=Cut(Frame("send", Between(43, 47)))), *SETTLE)
    decides = {
        "AMQP-TX-01": Check("available_undischarged", exposure="undischarged", control=COMMITS),
        "AMQP-TX-03": Check("available_undischarged", exposure="undischarged", control=COMMITS),
        "STOMP-TX-03": Check("available_undischarged", exposure="undischarged", control=COMMITS),
    }


@scenario
class CutWhileConsuming:
    """A CLIENT consumer processes what comes and acknowledges nothing yet; after a delivery the connection ends.

    All of it must come again, although it was processed.
    """

    mode = "client"
    steps = (
        Publish(300, window=100),
        Consume("client", prefetch=200, acknowledge=1_000, until=Cut(Frame("deliver", Between(40, 120)), how="fin")),
        *SETTLE,
    )
    decides = {
        "EMS-STEP-04": Check("gone", exposure="delivered_unacknowledged", control=REMOVES),
        "AMQP-SETTLE-02": Check("gone", exposure="delivered_unacknowledged", control=REMOVES),
        "STOMP-ACK-03": Check("gone", exposure="delivered_unacknowledged", control=REMOVES),
        "EMS-DUPS-02": Check("processed_again", exposure="processed_unconfirmed"),
    }
