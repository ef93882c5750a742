"""What no broker may do in any trial: the checks of `suites/standing`, and that it starts again after a fault.

A phantom, an altered message, or a broker that did not start also keeps every other claim from HOLDS.
"""

from __future__ import annotations

from conformance.judge.anomalies.model import Anomaly

_DRAINED_AGAIN = (
    "(bit_count(drained_in) > 1 AND (drained_in & -drained_in & silent_mask) <> 0)"
    " OR redelivered > bit_count(drained_in)"
)

STRANGE = (
    Anomaly(
        "phantom",
        "A message that a consumer received and no publisher sent.",
        applies="received > 0",
        offends="NOT attempted",
        of="received messages",
        happened="never sent",
        happens="delivers one that was never sent",
        control="did so",
    ),
    Anomaly(
        "corrupt",
        "A message that arrived altered.",
        applies="received > 0",
        offends="altered",
        of="received messages",
        happened="altered",
        happens="alters one",
        control="did so",
    ),
    Anomaly(
        "delivered_twice",
        """A message that was delivered again although the broker had no reason to.

        Its acknowledgement was confirmed; or a drain accepted it, the broker then said a depth of 0, and a later drain
        got it again; or one process got it twice. What was given back, acknowledged in a transaction, or refused as an
        acknowledgement does not apply: it may come again.
        """,
        applies="received > 0 AND refused_at IS NULL AND ack_txn IS NULL AND NOT ack_failed",
        offends=f"coalesce(received_last_at > acked_at, false) OR {_DRAINED_AGAIN} OR handed > bit_count(handed_in)",
        of="received messages",
        happened="delivered again without a reason",
        happens="delivers one again",
        control="did so",
    ),
    Anomaly(
        "drained_twice",
        """A message that a drain acknowledged, and that this drain, or a later one, got again.

        A later one counts where the broker said a depth of 0 in between. What a client says of its acknowledgements
        does not matter: a call of JMS may return before the broker has read it.
        """,
        applies="redelivered > 0 AND refused_at IS NULL AND ack_txn IS NULL",
        offends=_DRAINED_AGAIN,
        of="drained messages",
        happened="delivered again",
        happens="delivers one again",
        control="did so",
    ),
    Anomaly(
        "two_owners",
        """A message that a consumer was handed while another live consumer had it.

        The other was handed it before, gave nothing of it back, and was live: the broker gave it, on the same
        connection, a message that was sent after the second of them had this one. So there was no end of its connection
        in between, no crash, and no restart. What was given back, acknowledged in a transaction, or refused as an
        acknowledgement does not apply.
        """,
        applies="handed > 0 AND refused_at IS NULL AND ack_txn IS NULL AND NOT ack_failed",
        offends="bit_count(handed_in) > 1 AND coalesce(owner_live_at > handed_last_at, false)",
        of="delivered messages",
        happened="given to two live consumers",
        happens="gives one to two consumers",
        control="did so",
    ),
    Anomaly(
        "overtaken",
        """A message that the first consumer of its queue received after a later one of the same producer.

        Only the first process that receives anything: what it held and did not acknowledge may come later to another.
        What was given back, or acknowledged in a transaction, does not apply.
        """,
        applies="received > 0 AND refused_at IS NULL AND ack_txn IS NULL",
        offends="overtaken",
        of="received messages",
        happened="overtaken by a later one of their producer",
        happens="delivers one too late",
        control="did so",
    ),
    Anomaly(
        "not_recovered",
        "After a fault the broker did not start again, and neither did a second one on a copy of its data: whatever was"
        " sent is out of reach.",
        applies="attempted",
        offends="not_recovered IS NOT NULL",
        of="messages that were sent",
        happened="out of reach of a broker that did not start again",
        happens="leaves a broker that does not start again",
        drained=False,
    ),
)
