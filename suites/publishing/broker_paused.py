"""The broker is halted for a second while a client is publishing."""

from conformance.scenario import Check, Liar, SessionLiar, scenario
from conformance.scenario.script import SETTLE, Between, Nth, Pause, Publish


@scenario
class BrokerPausedWhilePublishing:
    """A publisher keeps 20 messages in flight; the broker is halted at a confirm and goes on a second later.

    Its window is full all the while and must not be exceeded, and every send is answered after the pause.
    """

    mode = "publish_window"
    steps = (Publish(400, window=20, until=Pause(Nth("confirm", Between(60, 200)))), *SETTLE)
    checks = (
        Check("over_window", exposure="sends", control=SessionLiar("ignores-its-window")),
        Check(
            "unanswered_send",
            exposure="sends",
            control=Liar("never-answers-one-send", trials=3, waits_for_liveness=True),
        ),
    )
