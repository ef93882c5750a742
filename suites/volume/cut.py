"""The connection breaks while a large message is on its way."""

from conformance.scenario import LOSSES, Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, Cut, Frame, Publish, Rounds

CUT = Check("corrupt", exposure="received", control=Liar("cuts-large-messages"))


@scenario
class ConnectionCutInALargeMessage:
    """A publisher sends messages of 600 KiB one at a time; its connection is reset in the middle of one.

    Over AMQP a message of that size takes several frames, and the reset comes in the last of them. The part that has
    arrived is no message. All that is delivered must be whole, and as it was sent. Four publishers follow each other.
    """

    mode = "blocking"
    steps = (
        Rounds(
            (
                Publish(
                    200, window=1, size=600 * 1_024, until=Cut(Frame("send", Between(8, 24), at="middle", last=True))
                ),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (CUT,)
