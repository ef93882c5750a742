"""Consumers with selectors: each gets what it selects, and what none selects any more stays in its queue."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Consume, Publish
from conformance.scenario.selectors import NUMBERS, TEXTS, takers

PASSED_OVER = Liar("drops-what-selectors-pass-over")
SELECTED = Check("unselected", exposure="delivered", control=Liar("ignores-selectors"))
OTHERS = Consume("auto", prefetch=20, selects="even", until_silent=True)


@scenario
class GivenBackAndNoLongerSelected:
    """A consumer that selects one of two values of a property gives back half of its messages, and its connection ends.

    It gives them back whenever they come, and acknowledges the others, until nothing comes or 60 deliveries. The
    selector of the next consumer matches the other value only: it passes over what the first one left.
    """

    mode = "individual"
    steps = (
        Publish(80, window=20, parity=True),
        Consume(
            "individual",
            prefetch=20,
            selects="odd",
            refuse=("released",),
            refuse_every=2,
            refuse_again=True,
            stop=60,
            until_silent=True,
        ),
        OTHERS,
        *SETTLE,
    )
    checks = (
        Check("confirmed_nowhere", exposure="sends", control=PASSED_OVER),
        Check("given_back_nowhere", exposure="refused", control=PASSED_OVER),
        SELECTED,
    )


@scenario
class UnacknowledgedAndNoLongerSelected:
    """A consumer that selects one of two values of a property ends with messages unacknowledged.

    The selector of the next consumer matches the other value only: it passes over what the first one left.
    """

    mode = "client"
    steps = (
        Publish(80, window=20, parity=True),
        Consume("client", prefetch=20, acknowledge=10, selects="odd", stop=25, until_silent=True),
        OTHERS,
        *SETTLE,
    )
    checks = (
        Check("lost_unacknowledged", exposure="confirmed", control=PASSED_OVER),
        SELECTED,
    )


MATCHED = Check(
    "overlooked", exposure="received", control=Liar("matches-nothing-after-not", trials=3, waits_for_liveness=True)
)


@scenario
class MessagesSelectedByTexts:
    """Ten consumers, one after the other, compare texts in their selectors: each gets what matches, and ends.

    Quotes, LIKE with its signs, IN, NOT, IS NULL, AND and OR together, words in small letters, and a property that no
    message has, of which every comparison is unknown.
    """

    mode = "auto"
    varies = False
    steps = (Publish(70, window=20, headers=True, parity=True), *takers(TEXTS, 70), *SETTLE)
    checks = (MATCHED, SELECTED)


@scenario
class MessagesSelectedByNumbers:
    """Twenty consumers, one after the other, select by numbers and truths: each gets what matches, and ends.

    Whole numbers beside ones with a point, BETWEEN, sums, products, signs and parentheses; truths alone; texts that are
    no numbers; and a property that no message has. What none selects stays in the queue.
    """

    mode = "auto"
    varies = False
    steps = (Publish(40, window=20, headers=True), *takers(NUMBERS, 40), *SETTLE)
    checks = (MATCHED, SELECTED)
