"""What could have offended: a check that nothing was exposed to has decided nothing.

`counts` is SQL over the one row of a message that `relations` makes, like the expressions of `anomalies`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from conformance.errors import CatalogueError
from conformance.judge.anomalies import ANOMALIES
from conformance.judge.anomalies.calls import halted
from conformance.judge.anomalies.windows import LESS_SENT, OFFERED, THIRD_SENT


@dataclasses.dataclass(frozen=True)
class Exposure:
    """What could have offended. `counts` is SQL over the same row.

    `since` is SQL for the instant of an answer. With it, only that counts which was in flight at the fault (answered
    after it), or answered within the flush interval of the broker before it (`records.TrialRecord.flush_ms`).
    """

    name: str
    sentence: str
    counts: str
    since: str = ""


EXPOSURES: Mapping[str, Exposure] = {
    exposure.name: exposure
    for exposure in (
        Exposure(
            "confirmed_in_window",
            "durable sends confirmed within the flush interval before the fault, or after it",
            "confirmed AND durable",
            since="confirmed_at",
        ),
        Exposure(
            "acknowledged_in_window",
            "acknowledgements confirmed within the flush interval before the fault, or after it",
            "acked_at IS NOT NULL",
            since="acked_at",
        ),
        Exposure("sends", "durable sends that the connection outlived", "attempted AND durable AND NOT disconnected"),
        Exposure("confirmed", "confirmed sends", "confirmed"),
        Exposure("received", "messages that a consumer or a drain received", "received > 0"),
        Exposure("answered", "sends with an outcome", "answered"),
        Exposure("unanswered", "sends without an outcome", "unanswered"),
        Exposure("acknowledged", "messages whose acknowledgement left", "ack_sent_at IS NOT NULL"),
        Exposure(
            "acknowledged_on_link",
            "messages whose acknowledgement was seen on the link",
            "ack_framed_at IS NOT NULL",
        ),
        Exposure(
            "left_prefetched",
            "messages that reached their client, and that its application never got",
            "carried > 0 AND handed = 0",
        ),
        Exposure("carried", "messages whose delivery a link carried to its end", "carried > 0"),
        Exposure(
            "reached_settled",
            "messages that reached their client whole on the link, and settled",
            "reached_at IS NOT NULL",
        ),
        Exposure("acknowledgements_confirmed", "acknowledgements the broker settled", "acked_at IS NOT NULL"),
        Exposure(
            "delivered_unacknowledged",
            "messages delivered to a consumer that neither acknowledged nor refused them",
            "handed > 0 AND ack_sent_at IS NULL AND refused_at IS NULL",
        ),
        Exposure(
            "delivered_after_acknowledge",
            "messages delivered after the last acknowledge of their session",
            "handed_after_acknowledge AND ack_sent_at IS NULL",
        ),
        Exposure(
            "committed_in_window",
            "sends of transactions whose commit was answered within the flush interval before the fault, or after it",
            "committed AND durable",
            since="committed_at",
        ),
        Exposure(
            "commits_at_risk",
            "sends of transactions whose commit had no answer at the fault, or one within the flush interval before it",
            "in_transaction AND commit_asked_at <= fired_at AND NOT (committed_at IS NULL AND commit_refused)",
            since="coalesce(committed_at, fired_at)",
        ),
        Exposure("in_transactions", "sends in transactions", "in_transaction"),
        Exposure(
            "commits_asked",
            "sends in transactions that were asked to commit",
            "in_transaction AND commit_asked_at IS NOT NULL",
        ),
        Exposure(
            "undischarged", "sends in a transaction that was never discharged", "in_transaction AND NOT discharged"
        ),
        Exposure(
            "acknowledged_undischarged",
            "acknowledgements in a transaction that was never discharged",
            "ack_txn IS NOT NULL AND NOT discharged",
        ),
        Exposure(
            "acknowledged_in_transactions",
            "acknowledgements in transactions that were committed or rolled back",
            "ack_txn IS NOT NULL AND (committed_at IS NOT NULL OR rolled_back_at IS NOT NULL)",
        ),
        Exposure(
            "rolled_back", "operations of transactions that were asked to roll back", "rollback_asked_at IS NOT NULL"
        ),
        Exposure("released", "deliveries released", "refused_as = 'released'"),
        Exposure("failed", "deliveries given back as failed", "refused_as = 'failed'"),
        Exposure("undeliverable", "deliveries given back as undeliverable here", "refused_as = 'undeliverable'"),
        Exposure("refused", "deliveries refused", "refused_at IS NOT NULL"),
        Exposure("delivered", "messages delivered", "handed > 0"),
        Exposure(
            "delivered_beside_another",
            "messages delivered while every consumer of the trial was receiving, and there were several",
            "handed > 0 AND bit_count(owners_mask) > 1 AND handed_at BETWEEN shared_from AND shared_until",
        ),
        Exposure(
            "unprocessed",
            "confirmed messages that nobody processed before the fault",
            "confirmed AND processed_at IS NULL",
        ),
        Exposure("unasked", "sends that asked for no answer", "unasked"),
        Exposure("non_persistent", "confirmed non-persistent sends", "confirmed AND NOT durable"),
        Exposure("first_deliveries", "messages delivered for the first time", "fresh_at IS NOT NULL"),
        Exposure(
            "claimed_first",
            "messages claimed as first acquired by one link and given to another as well",
            "claims > 0 AND links_differ",
        ),
        Exposure(
            "sync_held",
            "confirmed persistent messages whose covering sync was held back by the fault",
            "confirmed AND durable AND sync_held",
        ),
        Exposure(
            "commit_sync_held",
            "persistent messages of answered commits whose covering sync was held back by the fault",
            "committed_at IS NOT NULL AND durable AND NOT refused AND discharge_sync_held",
        ),
        Exposure(
            "rollback_sync_held",
            "persistent messages of answered rollbacks whose covering sync was held back by the fault",
            "rolled_back_at IS NOT NULL AND durable AND NOT refused AND discharge_sync_held",
        ),
        Exposure(
            "sync_failed",
            "persistent messages whose record could not be written or synced",
            "attempted AND send_txn IS NULL AND durable AND sync_failed_at IS NOT NULL",
        ),
        Exposure(
            "commit_sync_failed",
            "persistent messages of commits whose record could not be written or synced",
            "commit_asked_at IS NOT NULL AND durable AND discharge_failed_at IS NOT NULL",
        ),
        Exposure(
            "persistent_on_link",
            "persistent sends seen on the link",
            "attempted AND durable AND (flagged OR unflagged)",
        ),
        Exposure(
            "non_persistent_on_link",
            "non-persistent sends seen on the link",
            "attempted AND NOT durable AND (flagged OR unflagged)",
        ),
        Exposure("flags_on_link", "sends whose flag was seen on the link", "attempted AND (flagged OR unflagged)"),
        Exposure("sends_over_slow_link", "sends over a slow link", "confirmed AND added_us IS NOT NULL"),
        Exposure("sends_halted", "calls of send() while the broker was halted", f"attempted AND {halted('sent_at')}"),
        Exposure(
            "transacted_sends_halted",
            "calls of send() in a transaction while the broker was halted",
            f"in_transaction AND {halted('sent_at')}",
        ),
        Exposure("acknowledges_halted", "calls of acknowledge() while the broker was halted", halted("ack_sent_at")),
        Exposure("commits_halted", "calls of commit() while the broker was halted", halted("commit_asked_at")),
        Exposure("rollbacks_halted", "calls of rollback() while the broker was halted", halted("rollback_asked_at")),
        Exposure("questions", "questions that the client has answered", "granted OR denied"),
        Exposure("third_sent", "sends of a third of their window, and of no more", THIRD_SENT),
        Exposure("less_sent", "sends below a third of their window", LESS_SENT),
        Exposure("thresholds_offered", "sends after settings for the thresholds were offered", OFFERED),
        Exposure("asked_immediately", "sends with Ack Immediately", "immediate"),
        Exposure(
            "immediate_in_window",
            "messages with Ack Immediately confirmed within the flush interval before the fault, or after it",
            "immediate AND confirmed AND durable",
            since="confirmed_at",
        ),
        Exposure(
            "ranged_in_window",
            "messages confirmed by a range within the flush interval before the fault, or after it",
            "ranged AND confirmed AND durable",
            since="confirmed_at",
        ),
        Exposure("window_waits", "publishes that had to wait for their window", "waited_with IS NOT NULL"),
        Exposure("acknowledged_out_of_order", "acknowledgements while an earlier delivery was open", "out_of_order"),
        Exposure("sends_refused", "sends that were refused and never accepted", "refused AND NOT accepted"),
        Exposure(
            "processed_unconfirmed",
            "processed messages whose acknowledgement was not confirmed",
            "processed_at IS NOT NULL AND acked_at IS NULL",
        ),
    )
}
"""Every exposure by its name; `Check.exposure` of a scenario is one of these."""


def check_names(used: Iterable[tuple[str, str]]) -> None:
    """Refuse names that the tables do not define.

    `used` are pairs of anomaly and exposure. Raises `CatalogueError`.
    """
    for anomaly, exposure in used:
        if anomaly not in ANOMALIES:
            raise CatalogueError(f"a scenario names the anomaly {anomaly!r}, which the judge does not define")
        if exposure not in EXPOSURES:
            raise CatalogueError(f"a scenario names the exposure {exposure!r}, which the judge does not define")
