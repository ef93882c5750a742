"""A vendor's client is asked what it offers, and a broker what it allows."""

from conformance.scenario import OF_CLIENT, Check, Liar, SessionLiar, scenario
from conformance.scenario.script import Ask, Drain, Publish

LACKS = Check("denied", exposure="questions", control=SessionLiar("lacks-what-is-asked-for"))


@scenario
class SessionInEachMode:
    """A client is asked for a session that is not transacted in each of the three modes of the standard."""

    mode = "auto"
    subjects = OF_CLIENT
    steps = (Ask("has it a session in each mode of the standard"),)
    checks = (Check("denied", exposure="questions", control=SessionLiar("refuses-a-mode")),)


@scenario
class ContextInEachMode:
    """The simplified API is asked for a context in each mode of the standard, and in each that the vendor has added.

    It must have the first, and refuse the others.
    """

    mode = "auto"
    subjects = OF_CLIENT
    steps = (Ask("does the simplified API take the modes of the standard alone"),)
    checks = (Check("denied", exposure="questions", control=SessionLiar("accepts-any-mode")),)


@scenario
class SessionKeepsItsMode:
    """A session in each mode is asked which one it has, before and after it has taken a message and given it back."""

    mode = "auto"
    subjects = OF_CLIENT
    steps = (Publish(20, window=1), Ask("does a session keep its mode"), Drain())
    checks = (Check("denied", exposure="questions", control=SessionLiar("reports-another-mode")),)


@scenario
class AcknowledgeWhereNoneIsNeeded:
    """acknowledge() is called on a message of an AUTO, a DUPS_OK and a transacted session, and must do nothing.

    Of a transaction that is rolled back, the message must come again.
    """

    mode = "transacted"
    subjects = OF_CLIENT
    steps = (Publish(20, window=1), Ask("does acknowledge() do nothing in a mode without it"), Drain())
    checks = (Check("denied", exposure="questions", control=SessionLiar("commits-where-it-acknowledges")),)


@scenario
class ConstantOfPreAcknowledge:
    """A client is asked for the constant PRE_ACKNOWLEDGE of its session interface, and for a session with it."""

    mode = "pre"
    subjects = OF_CLIENT
    steps = (Ask("is there PRE_ACKNOWLEDGE"),)
    checks = (LACKS,)


@scenario
class ConstantOfNoAcknowledge:
    """A client is asked for the constant NO_ACKNOWLEDGE of its session interface, and for a session with it."""

    mode = "no_ack"
    subjects = OF_CLIENT
    steps = (Ask("is there NO_ACKNOWLEDGE"),)
    checks = (LACKS,)


@scenario
class HandlerOfAcknowledgements:
    """A core client is asked for SendAcknowledgementHandler, and a session of it is given one.

    It has a confirmation window: without one the client refuses the handler, and says that it would be of no use.
    """

    mode = "async_ack"
    subjects = OF_CLIENT
    settings = {"confirmation_window_bytes": 1_048_576}
    steps = (Ask("is there SendAcknowledgementHandler"),)
    checks = (LACKS,)


@scenario
class AcknowledgementOfNothing:
    """A client acknowledges what was not delivered to it, and one message a second time: both are errors."""

    mode = "individual"
    steps = (Ask("is an acknowledgement of nothing an error"),)
    checks = (Check("denied", exposure="questions", control=Liar("takes-an-acknowledgement-of-nothing")),)


@scenario
class CommitWithoutTransactions:
    """A client asks for a commit where it has not asked for transactions: an error."""

    mode = "transacted"
    steps = (Ask("is a commit without transactions an error"),)
    checks = (Check("denied", exposure="questions", control=Liar("commits-without-transactions")),)


@scenario
class MessagesFetchedOneByOne:
    """A client asks a queue of its own, which holds 120 confirmed messages, for one message after another.

    Each request must find one.
    """

    mode = "individual"
    steps = (Ask("does basic.get find what a queue holds"),)
    checks = (Check("denied", exposure="questions", control=Liar("hides-from-every-hundredth-get")),)
