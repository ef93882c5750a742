"""What no broker may do in any trial (`suites/standing`), and that it starts again after a fault and stays alive.

A phantom, an altered message, or a broker that did not start or stay alive keeps every other claim from HOLDS.
"""

from __future__ import annotations

from conformance.judge.anomalies.fates import is_fate
from conformance.judge.anomalies.model import Anomaly, UndrainedAnomaly

_DRAINED_AGAIN = (
    "(bit_count(drained_in) > 1 AND (drained_in & -drained_in & silent_mask) <> 0)"
    " OR redelivered > bit_count(drained_in)"
)
# Two processes whose codes are 64 apart have one bit in `handed_in`: of them nothing is known.
_HANDED_TWICE = "(handed > bit_count(handed_in) AND handed_by_most - handed_by_least < 64)"

STRANGE = (
    Anomaly(
        "phantom",
        "A consumer received a message that no publisher sent.",
        applies="received > 0",
        offends=is_fate("phantom"),
        words="received messages never sent",
    ),
    Anomaly(
        "corrupt",
        "A message arrived altered.",
        applies="received > 0",
        offends="altered",
        words="received messages altered",
    ),
    Anomaly(
        "delivered_twice",
        """The broker delivered a message again without a reason.

        Its acknowledgement was confirmed; or a drain accepted it, the broker then reported a depth of 0, and a later
        drain received it again; or one process received it twice. A message that was given back, acknowledged in a
        transaction, or whose acknowledgement was refused does not apply: it may come again.
        """,
        applies="received > 0 AND refused_at IS NULL AND ack_txn IS NULL AND NOT ack_failed",
        offends=f"coalesce(received_last_at > acked_at, false) OR {_DRAINED_AGAIN} OR {_HANDED_TWICE}",
        words="received messages delivered again without a reason",
    ),
    Anomaly(
        "drained_twice",
        """A drain acknowledged a message, and this drain or a later one received it again.

        A later drain counts if the broker reported a depth of 0 in between. The answers to acknowledgements do not
        matter: a call of JMS may return before the broker has read it.
        """,
        applies="redelivered > 0 AND refused_at IS NULL AND ack_txn IS NULL",
        offends=_DRAINED_AGAIN,
        words="drained messages delivered again",
    ),
    Anomaly(
        "two_owners",
        """A consumer was handed a message that another live consumer had.

        The other consumer received it before, did not give it back, and was live: on the same connection the broker
        gave it a message that was sent after the second delivery. So its connection did not end in between, and there
        was no crash and no restart. A message that was given back, acknowledged in a transaction, or whose
        acknowledgement was refused does not apply.
        """,
        applies="handed > 0 AND refused_at IS NULL AND ack_txn IS NULL AND NOT ack_failed",
        offends="handed_by_least <> handed_by_most AND coalesce(owner_live_at > handed_last_at, false)",
        words="delivered messages given to two live consumers",
    ),
    Anomaly(
        "overtaken",
        """The first consumer of a queue received a message after a later one of the same producer.

        Only the first process that receives anything counts: messages that it did not acknowledge may come later to
        another process. A message that was given back, acknowledged in a transaction, or sent with a delay, does not
        apply.
        """,
        applies="received > 0 AND refused_at IS NULL AND ack_txn IS NULL AND delay_ms IS NULL",
        offends="overtaken",
        words="received messages overtaken by a later one of their producer",
    ),
    UndrainedAnomaly(
        "reordered_by_restart",
        """After a restart a message that no consumer had before came after the next one of the same producer.

        A drain received both from the same queue. `overtaken` is about the first consumer of a trial. A message that
        was sent again, or with a delay, does not apply.
        """,
        applies="redelivered > 0 AND handed = 0 AND durable AND sendings = 1 AND delay_ms IS NULL"
        " AND coalesce(confirm_epoch, commit_epoch) < drained_epoch",
        offends="next_came_first",
        words="messages that no consumer had before came out of order after a restart",
    ),
    UndrainedAnomaly(
        "reordered_by_rollback",
        """Of what a consumer acknowledged and rolled back, a message came again after the next one of its producer.

        A drain received both from the same queue. One consumer had acknowledged both in one transaction, whose rollback
        was answered, and was not handed them again; both have one priority. A message that was sent again, or with a
        delay, does not apply.
        """,
        applies="redelivered > 0 AND rolled_back AND durable AND sendings = 1 AND delay_ms IS NULL",
        offends="next_returned_first",
        words="messages whose acknowledgement was rolled back came again out of order",
    ),
    Anomaly(
        "outranked",
        """The first consumer of a queue received a message for the first time after one of a lower priority.

        It was confirmed before a consumer or drain attached, and no second consumer was beside the first. A message
that was received twice, given back, acknowledged in a transaction, or sent with a delay, does not apply.        """,
        applies="received = 1 AND waited AND refused_at IS NULL AND ack_txn IS NULL AND delay_ms IS NULL",
        offends="outranked",
        words="received messages outranked by one of a lower priority",
    ),
    UndrainedAnomaly(
        "not_recovered",
        "After a fault neither the broker nor a second one on a copy of its data started.",
        applies="attempted",
        offends="not_recovered IS NOT NULL",
        words="sent messages out of reach of a broker that did not start again",
        true_without_fault=True,
    ),
    UndrainedAnomaly(
        "not_alive",
        "Without a fault or a cause of this machine the broker ended, dropped a connection or broke the protocol.",
        applies="attempted",
        offends="not_alive IS NOT NULL",
        words="messages sent to a broker that ended, dropped a connection or broke the protocol by itself",
        trials=2,
    ),
    UndrainedAnomaly(
        "not_served",
        "The broker was short of a resource, had it again, and took nothing more from a client within its time.",
        applies="attempted",
        offends="not_served IS NOT NULL",
        words="messages sent to a broker that took no more once it had again what it was short of",
        trials=2,
    ),
)
