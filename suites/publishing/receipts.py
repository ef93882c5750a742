"""STOMP receipts, as they cross the wire: the suite's own client shows what a library would hide."""

from conformance.scenario import KILLS, Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, Kill, Nth, Publish, Restart, Rounds


@scenario
class ReceiptsOnTheWire:
    """A publisher asks for a receipt for each of 250 sends, and looks at every RECEIPT frame that comes."""

    mode = "async_ack"
    client = "raw"
    steps = (Publish(250, window=50), *SETTLE)
    checks = (
        Check(
            "unanswered_send",
            exposure="sends",
            control=Liar("never-answers-one-send", trials=3, waits_for_liveness=True),
        ),
        Check("receipt_untrue", exposure="answered", control=Liar("answers-every-hundredth-frame-twice")),
    )


@scenario
class BrokerKilledAmongReceipts:
    """Only every second send asks for a receipt; the broker is killed when one has come.

    A RECEIPT says of earlier frames that they were received, and no more.
    """

    mode = "async_ack"
    client = "raw"
    steps = (
        Rounds(
            (Publish(50_000, window=50, unasked_every=2, until=Kill(Nth("confirm", Between(100, 400)))), Restart()),
            KILLS,
        ),
        *SETTLE,
    )
    checks = (Check("unasked_missing", exposure="unasked"),)
