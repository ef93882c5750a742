"""A vendor's client sends without waiting, and a listener hears of the answers (JMS 2.0, 7.3)."""

from conformance.scenario import OF_CLIENT, Check, SessionLiar, scenario, weakened
from conformance.scenario.script import SETTLE, Between, Drain, Kill, Nth, Pause, Publish, Restart

SMALL, LARGE = 1_024, 10 * 1_048_576
LONG_S = 33.0
"""As in `broker_halted`: longer than a call may take that is said not to wait."""

RETURNED = Nth("returned", Between(10, 25))
HEARD = Check(
    "unanswered_send",
    exposure="sends",
    control=SessionLiar("leaves-out-a-listener", trials=3, waits_for_liveness=True),
)
ONCE = Check("receipt_untrue", exposure="answered", control=SessionLiar("tells-a-listener-twice"))


@scenario
class ListenerHearsOfEachSend:
    """A client sends 2,000 messages of 1 KiB, a hundred unanswered; its confirmation window takes one of them.

    Its listener must hear of each, by the message that was sent, and once.
    """

    mode = "async_ack"
    subjects = OF_CLIENT
    settings = {"confirmation_window_bytes": SMALL}
    steps = (Publish(2_000, window=100, size=1_024), Drain())
    checks = (
        HEARD,
        ONCE,
    )


@scenario
class ListenerWithLargeWindow:
    """A client sends 12 MiB, more than its confirmation window of 10 MiB takes; its listener must hear of each."""

    mode = "async_ack"
    subjects = OF_CLIENT
    settings = {"confirmation_window_bytes": LARGE}
    steps = (Publish(1_600, window=100, size=8_192), Drain())
    checks = (ONCE,)


@scenario
class BrokerKilledAmongListeners:
    """A client sends a hundred persistent messages unanswered; the broker is killed when its listener heard of one.

    Every message that the listener heard of must be there. Without a confirmation window the client calls the listener
    itself, of bytes that are written and not yet read.
    """

    mode = "async_ack"
    subjects = OF_CLIENT
    settings = {"confirmation_window_bytes": LARGE}
    steps = (Publish(50_000, window=100, until=Kill(Nth("confirm", Between(150, 600)))), Restart(), *SETTLE)
    checks = (Check("lost", exposure="confirmed_in_window", control=weakened(confirmation_window_bytes=-1)),)


@scenario
class AsynchronousSendsAreNotHeldUp:
    """A client sends without waiting; the broker is halted when a send() has returned, and the others must return.

    Its listener must not hear of any of those before the broker goes on.
    """

    mode = "async_ack"
    subjects = OF_CLIENT
    settings = {"confirmation_window_bytes": LARGE, "block_on_durable_send": False}
    steps = (Publish(40, window=40, until=Pause(RETURNED, hold_s=LONG_S)), Drain())
    checks = (
        Check(
            "asynchronous_send_waited",
            exposure="sends_halted",
            control=SessionLiar("waits-for-each-send", trials=2, waits_for_liveness=True),
        ),
        Check("answered_unreached", exposure="sends_halted", control=weakened(confirmation_window_bytes=-1)),
    )


@scenario
class ListenerWithoutWindow:
    """A client that was given no confirmation window sends while the broker is halted.

    Its listener hears at once, from the client, or not at all: that is no answer of the broker.
    """

    mode = "async_ack"
    subjects = OF_CLIENT
    settings = {"confirmation_window_bytes": -1}
    steps = (Publish(40, window=40, until=Pause(RETURNED)), Drain())
    checks = (
        Check(
            "answered_afterwards",
            exposure="sends_halted",
            control=weakened(confirmation_window_bytes=SMALL),
        ),
    )
