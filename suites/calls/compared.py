"""Two ways of a vendor's client to do one thing, side by side in one script: modes, windows, styles of sending."""

from conformance.scenario import OF_CLIENT, Check, SessionLiar, scenario
from conformance.scenario.script import SETTLE, Consume, ConsumerCrash, Delay, Drain, Nth, Publish

FORGETS = SessionLiar("forgets-acknowledgements")
SLOW = Delay(20)
CRASH = ConsumerCrash(Nth("process", 120))
"""In both halves at the same point. Each processing takes long enough for the acknowledgement before it to have left;
the client goes over a link, which has read it by then: a reset would take from the broker what lies unread there."""

LARGE = 10 * 1_048_576


@scenario
class ListenersKilledUnderAutoAndDupsOk:
    """A listener of an AUTO session is killed in its 120th processing, and later one of a DUPS_OK session in its.

    What was processed before its processed successor may come again under DUPS_OK only if it does so under AUTO.
    """

    mode = "dups_ok"
    subjects = OF_CLIENT
    steps = (
        Publish(200, window=100),
        Consume("auto", prefetch=200, work_ms=10, linked=True, honest=True, until=CRASH),
        Consume("auto", prefetch=200, until_silent=True, honest=True),
        Publish(200, window=100),
        Consume("dups_ok", prefetch=200, work_ms=10, linked=True, until=CRASH),
        *SETTLE,
    )
    checks = (Check("processed_again_unlike_other", exposure="delivered", control=FORGETS),)


@scenario
class ReceiversKilledUnderAutoAndPre:
    """A client in an AUTO session is killed when its 120th receive() has returned, and later one in a PRE session.

    What comes again, and what is lost, must be the same in both: nothing before the last call.
    """

    mode = "pre"
    subjects = OF_CLIENT
    steps = (
        Publish(200, window=100),
        Consume("auto", prefetch=200, work_ms=10, receives=True, linked=True, honest=True, until=CRASH),
        Consume("auto", prefetch=200, until_silent=True, honest=True),
        Publish(200, window=100),
        Consume("pre", prefetch=200, work_ms=10, receives=True, linked=True, until=CRASH),
        *SETTLE,
    )
    checks = (Check("came_otherwise_than_other", exposure="delivered", control=FORGETS),)


@scenario
class FewSendsOfLargeWindow:
    """A client with a confirmation window of 10 MiB sends 20 MiB in messages of 64 KiB, two of them unanswered at most.

    It is observed how many are answered before the window is full. The manual describes the parameter also as the size
    of the buffer for a reattachment, so an earlier answer is no violation.
    """

    mode = "async_ack"
    subjects = OF_CLIENT
    settings = {"confirmation_window_bytes": LARGE}
    steps = (Publish(320, window=2, size=65_536), Drain())
    checks = (Check("answered_within_window", exposure="sends"),)


@scenario
class ThreeStylesOfSending:
    """A client sends over a link that adds 20 ms to a round trip: one at a time, in transactions, with a listener.

    Fifty messages wait for one answer each; four hundred go in transactions of twenty; four hundred are answered to a
    listener.
    """

    mode = "blocking"
    subjects = OF_CLIENT
    steps = (
        Publish(50, window=1, size=1_024, until=SLOW),
        Publish(400, window=20, size=1_024, batch=20, until=SLOW),
        Publish(400, window=100, size=1_024, until=SLOW),
        Drain(),
    )
    checks = (Check("rates_of_sending", exposure="sends_over_slow_link"),)


@scenario
class AcknowledgementsOfTwoModesOnLink:
    """A listener takes two hundred messages under AUTO, another as many under DUPS_OK; the link sees what they send."""

    mode = "dups_ok"
    subjects = OF_CLIENT
    steps = (
        Publish(200, window=100),
        Consume("auto", prefetch=100, until_silent=True, linked=True),
        Publish(200, window=100),
        Consume("dups_ok", prefetch=100, until_silent=True, linked=True),
        Drain(),
    )
    checks = (Check("frames_of_acknowledgements", exposure="acknowledged_on_link"),)


@scenario
class MessagesOfBothDeliveryModes:
    """A client sends 2,000 persistent messages of 1 KiB, a hundred unanswered, and then as many that are not."""

    mode = "async_ack"
    steps = (
        Publish(2_000, window=100, size=1_024),
        Publish(2_000, window=100, size=1_024, durable=False),
        Drain(),
    )
    checks = (Check("rates_of_delivery_modes", exposure="sends"),)
