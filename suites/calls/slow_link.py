"""A vendor's client sends over a link that is slow: a client that waits for each answer cannot be faster."""

from conformance.scenario import OF_CLIENT, Check, Weakened, scenario, weakened
from conformance.scenario.script import Delay, Drain, Publish

SLOW = Delay(50)


def waits(control: Weakened) -> Check:
    """Every send() over the link takes what was added to a round trip; not so with the opposite setting."""
    return Check("sooner_than_round_trip", exposure="sends_over_slow_link", control=control)


@scenario
class SendsOverSlowLink:
    """A client sends twenty persistent messages, one after the other, over a link that adds 50 ms to a round trip.

    No send() may return sooner than that: one producer sends at most one message in a round trip.
    """

    mode = "blocking"
    subjects = OF_CLIENT
    steps = (Publish(20, window=1, until=SLOW), Drain())
    checks = (waits(weakened(block_on_durable_send=False)),)


@scenario
class SendsOfBothKindsOverSlowLink:
    """A client that waits for the answers to both kinds sends ten persistent messages and ten that are not.

    The link adds 50 ms to a round trip, and no send() may return sooner than that.
    """

    mode = "blocking"
    subjects = OF_CLIENT
    settings = {"block_on_non_durable_send": True}
    steps = (Publish(10, window=1, until=SLOW), Publish(10, window=1, durable=False, until=SLOW), Drain())
    checks = (waits(weakened(block_on_durable_send=False, block_on_non_durable_send=False)),)
