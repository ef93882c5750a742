"""Messages that are sent and received exactly once, over every connection that their clients take.

Each is sent, received, released and completed (QoS 2 of MQTT: PUBLISH, PUBREC, PUBREL, PUBCOMP). A client whose
connection ended goes on in the same session, where it was: what was received is released, and not sent again.
"""

from conformance.scenario import KILLS, LOSSES, STUCK, Check, Liar, scenario
from conformance.scenario.script import (
    SETTLE,
    After,
    All,
    Between,
    Consume,
    Cut,
    Drain,
    Frame,
    Kill,
    Nth,
    OneOf,
    Publish,
    Restart,
    Rounds,
)

SENDS = Publish(200, window=1, exactly_once=True)
GOES_ON = Publish(1, window=20, resends=True, exactly_once=True)
SENT = Between(40, 120)
TAKEN = Between(20, 60)
DRAINED = (Drain(), Drain())
"""Without a restart, over which a broker may send again what it sent: that is not about what it has received."""


def _sender_cut(at: Frame) -> Publish:
    return Publish(300, window=20, exactly_once=True, until=Cut(at))


def _receiver_cut(at: Frame) -> Consume:
    return Consume("individual", prefetch=20, until=Cut(at))


@scenario
class MessagesSentExactlyOnce:
    """A publisher sends 300 messages exactly once, and a consumer takes them.

    Each must have its last answer, and come once.
    """

    mode = "async_ack"
    steps = (
        Publish(300, window=50, exactly_once=True),
        Consume("individual", prefetch=20, until_silent=True),
        *SETTLE,
    )
    checks = (
        Check(
            "unanswered_send",
            exposure="sends",
            control=Liar("never-answers-one-send", trials=3, waits_for_liveness=True),
        ),
        Check("receipt_untrue", exposure="answered", control=Liar("answers-every-hundredth-frame-twice")),
        STUCK,
        Check("not_once", exposure="confirmed", control=Liar("stores-every-hundredth-twice")),
    )


@scenario
class SenderCutExactlyOnce:
    """A publisher sends exactly once; its connection is reset after a send, or before what receives or answers it.

    Another one goes on in its session: it sends what was not received again, and releases what was. Each message must
    have its last answer, and be there once. Four cuts follow each other, four times.
    """

    mode = "async_ack"
    steps = (
        Rounds(
            (
                _sender_cut(Frame("send", SENT, at="after")),
                GOES_ON,
                _sender_cut(Frame("received", SENT, at="before")),
                GOES_ON,
                _sender_cut(Frame("release", SENT, at="before")),
                GOES_ON,
                _sender_cut(Frame("answer", SENT, at="before")),
                GOES_ON,
            ),
            LOSSES,
        ),
        *DRAINED,
    )
    checks = (
        Check("not_once", exposure="resumed", control=Liar("forgets-received-identifiers")),
        Check(
            "unanswered_send",
            exposure="resumed",
            control=Liar("ignores-what-comes-again", trials=3, waits_for_liveness=True),
        ),
    )


@scenario
class SenderCutBeforeRestart:
    """A publisher sends exactly once; its connection is reset before what receives a send, and the broker is restarted.

    It is restarted in order, and then another publisher goes on in the session. Each message must be there once.
    """

    mode = "async_ack"
    steps = (
        Rounds((_sender_cut(Frame("received", SENT, at="before")), Restart(clean=True), GOES_ON), LOSSES),
        *DRAINED,
    )
    checks = (Check("not_once", exposure="resumed", control=Liar("forgets-sessions")),)


@scenario
class ReceiverCutBeforeRelease:
    """A consumer receives exactly once; its connection is reset before a delivery is received, or before its release.

    A later consumer goes on in its session. It may be sent a message again that this one has taken, under the
    identifier that it had: then it is the same message. Each must come to the application once. Four times.
    """

    mode = "individual"
    steps = (
        Rounds(
            (
                SENDS,
                _receiver_cut(Frame("acknowledge", TAKEN, at="before")),
                _receiver_cut(Frame("answer", TAKEN, at="before")),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (Check("not_once", exposure="acknowledged", control=Liar("numbers-packets-anew")),)


@scenario
class ReceiverCutBeforeCompletion:
    """A consumer receives exactly once; its connection is reset after a release, or before it has completed one.

    What was released must not be sent again, but released again. Each must come to the application once. Four times.
    """

    mode = "individual"
    steps = (
        Rounds(
            (
                SENDS,
                _receiver_cut(Frame("answer", TAKEN, at="after")),
                _receiver_cut(Frame("complete", TAKEN, at="before")),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (Check("not_once", exposure="acknowledged", control=Liar("finishes-at-the-last-answer")),)


@scenario
class ReceiverCutBeforeRestart:
    """A consumer receives exactly once; its connection is reset before it has completed one, and the broker restarts.

    It is restarted in order. What was released must not be sent again then either. Four times.
    """

    mode = "individual"
    steps = (
        Rounds(
            (
                SENDS,
                _receiver_cut(Frame("complete", TAKEN, at="before")),
                Restart(clean=True),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (Check("not_once", exposure="acknowledged", control=Liar("finishes-at-the-last-answer")),)


@scenario
class BrokerKilledWhileSendingExactlyOnce:
    """A publisher sends exactly once, with 20 messages in flight; the broker is killed between two packets or any time.

    After a send, when it was received and before it is released, after its release, or at its last answer.

    After the restart another publisher goes on in its session. Each message must be there once.
    """

    mode = "async_ack"
    steps = (
        Rounds(
            (
                Publish(
                    50_000,
                    window=20,
                    exactly_once=True,
                    until=Kill(
                        OneOf(
                            (
                                Nth("sent", SENT),
                                Nth("received", SENT),
                                Nth("released", SENT),
                                Nth("confirm", SENT),
                                All((After(Between(100, 300)), Nth("confirm", 1))),
                            )
                        )
                    ),
                ),
                Restart(),
                GOES_ON,
            ),
            KILLS,
            control=3,
        ),
        *SETTLE,
    )
    checks = (Check("not_once", exposure="resumed", control=Liar("confirms-before-storing")),)


@scenario
class BrokerKilledWhileReceivingExactlyOnce:
    """A consumer receives exactly once; the broker is killed between two packets.

    When a message has come, when the consumer has written that it received it, and when it was released.

    After the restart another one goes on in its session. Each message must come to the application once.
    """

    mode = "individual"
    steps = (
        Rounds(
            (
                SENDS,
                Consume(
                    "individual",
                    prefetch=20,
                    until=Kill(OneOf((Nth("process", TAKEN), Nth("ack_written", TAKEN), Nth("released", TAKEN)))),
                ),
                Restart(),
            ),
            KILLS,
            control=3,
        ),
        *SETTLE,
    )
    checks = (Check("not_once", exposure="acknowledged", control=Liar("finishes-at-the-last-answer")),)
