"""Exposures: what could have offended. Without exposure a check has decided nothing.

`counts` is SQL over the one row of a message that `relations` makes, like the expressions of `anomalies`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from conformance.errors import CatalogueError
from conformance.judge.anomalies import ANOMALIES
from conformance.judge.anomalies.calls import halted
from conformance.judge.anomalies.sessions import LESS_SENT, OFFERED, THIRD_SENT


@dataclasses.dataclass(frozen=True)
class ExposureRule:
    """What could have offended. `counts` is SQL over the same row.

    `since` is SQL for the instant of an answer. With it, only that counts which was in flight at the fault (answered
    after it), or answered within the flush interval of the broker before it (`records.TrialRecord.flush_ms`).
    """

    name: str
    sentence: str
    counts: str
    since: str = ""


EXPOSURES: Mapping[str, ExposureRule] = {
    exposure.name: exposure
    for exposure in (
        ExposureRule(
            "confirmed_in_window",
            "durable sends confirmed within the flush interval before the fault, or after it",
            "confirmed AND durable",
            since="confirmed_at",
        ),
        ExposureRule(
            "acknowledged_in_window",
            "acknowledgements confirmed within the flush interval before the fault, or after it",
            "acked_at IS NOT NULL",
            since="acked_at",
        ),
        ExposureRule(
            "sends", "durable sends that the connection outlived", "attempted AND durable AND NOT disconnected"
        ),
        ExposureRule("confirmed", "confirmed sends", "confirmed"),
        ExposureRule("received", "messages that a consumer or a drain received", "received > 0"),
        ExposureRule("answered", "sends with an outcome", "answered"),
        ExposureRule("unanswered", "sends without an outcome", "unanswered"),
        ExposureRule("acknowledged", "messages whose acknowledgement left", "ack_sent_at IS NOT NULL"),
        ExposureRule(
            "acknowledged_on_link",
            "messages whose acknowledgement was seen on the link",
            "ack_framed_at IS NOT NULL",
        ),
        ExposureRule(
            "left_prefetched",
            "messages that reached their client, and that its application never got",
            "carried > 0 AND handed = 0",
        ),
        ExposureRule("carried", "messages whose delivery a link carried to its end", "carried > 0"),
        ExposureRule(
            "reached_settled",
            "messages that reached their client whole on the link, and settled",
            "reached_at IS NOT NULL",
        ),
        ExposureRule("acknowledgements_confirmed", "acknowledgements the broker settled", "acked_at IS NOT NULL"),
        ExposureRule(
            "delivered_unacknowledged",
            "messages delivered to a consumer that neither acknowledged nor refused them",
            "handed > 0 AND ack_sent_at IS NULL AND refused_at IS NULL",
        ),
        ExposureRule(
            "delivered_after_acknowledge",
            "messages delivered after the last acknowledge of their session",
            "handed_after_acknowledge AND ack_sent_at IS NULL",
        ),
        ExposureRule(
            "committed_in_window",
            "sends of transactions whose commit was answered within the flush interval before the fault, or after it",
            "committed AND durable",
            since="committed_at",
        ),
        ExposureRule(
            "commits_at_risk",
            "sends of transactions whose commit had no answer at the fault, or one within the flush interval before it",
            "in_transaction AND commit_asked_at <= fired_at AND NOT (committed_at IS NULL AND commit_refused)",
            since="coalesce(committed_at, fired_at)",
        ),
        ExposureRule("in_transactions", "sends in transactions", "in_transaction"),
        ExposureRule(
            "commits_asked",
            "sends in transactions that were asked to commit",
            "in_transaction AND commit_asked_at IS NOT NULL",
        ),
        ExposureRule(
            "undischarged", "sends in a transaction that was never discharged", "in_transaction AND NOT discharged"
        ),
        ExposureRule(
            "acknowledged_undischarged",
            "acknowledgements in a transaction that was never discharged",
            "ack_txn IS NOT NULL AND NOT discharged",
        ),
        ExposureRule(
            "acknowledged_in_transactions",
            "acknowledgements in transactions that were committed or rolled back",
            "ack_txn IS NOT NULL AND (committed_at IS NOT NULL OR rolled_back_at IS NOT NULL)",
        ),
        ExposureRule(
            "rolled_back", "operations of transactions that were asked to roll back", "rollback_asked_at IS NOT NULL"
        ),
        ExposureRule("released", "deliveries released", "refused_as = 'released'"),
        ExposureRule("failed", "deliveries given back as failed", "refused_as = 'failed'"),
        ExposureRule("undeliverable", "deliveries given back as undeliverable here", "refused_as = 'undeliverable'"),
        ExposureRule("refused", "deliveries refused", "refused_at IS NOT NULL"),
        ExposureRule("delivered", "messages delivered", "handed > 0"),
        ExposureRule(
            "delivered_beside_another",
            "messages delivered while every consumer of the trial was receiving, and there were several",
            "handed > 0 AND bit_count(owners_mask) > 1 AND handed_at BETWEEN shared_from AND shared_until",
        ),
        ExposureRule(
            "unprocessed",
            "confirmed messages that nobody processed before the fault",
            "confirmed AND processed_at IS NULL",
        ),
        ExposureRule("unasked", "sends that asked for no answer", "unasked"),
        ExposureRule("non_persistent", "confirmed non-persistent sends", "confirmed AND NOT durable"),
        ExposureRule("first_deliveries", "messages delivered for the first time", "fresh_at IS NOT NULL"),
        ExposureRule(
            "claimed_first",
            "messages claimed as first acquired by one link and given to another as well",
            "claims > 0 AND links_differ",
        ),
        ExposureRule(
            "sync_held",
            "confirmed persistent messages whose covering sync was held back by the fault",
            "confirmed AND durable AND sync_held",
        ),
        ExposureRule(
            "commit_sync_held",
            "persistent messages of answered commits whose covering sync was held back by the fault",
            "committed_at IS NOT NULL AND durable AND NOT refused AND discharge_sync_held",
        ),
        ExposureRule(
            "rollback_sync_held",
            "persistent messages of answered rollbacks whose covering sync was held back by the fault",
            "rolled_back_at IS NOT NULL AND durable AND NOT refused AND discharge_sync_held",
        ),
        ExposureRule(
            "sync_failed",
            "persistent messages whose record could not be written or synced",
            "attempted AND send_txn IS NULL AND durable AND sync_failed_at IS NOT NULL",
        ),
        ExposureRule(
            "commit_sync_failed",
            "persistent messages of commits whose record could not be written or synced",
            "commit_asked_at IS NOT NULL AND durable AND discharge_failed_at IS NOT NULL",
        ),
        ExposureRule(
            "persistent_on_link",
            "persistent sends seen on the link",
            "attempted AND durable AND (flagged OR unflagged)",
        ),
        ExposureRule(
            "non_persistent_on_link",
            "non-persistent sends seen on the link",
            "attempted AND NOT durable AND (flagged OR unflagged)",
        ),
        ExposureRule("flags_on_link", "sends whose flag was seen on the link", "attempted AND (flagged OR unflagged)"),
        ExposureRule("sends_over_slow_link", "sends over a slow link", "confirmed AND added_us IS NOT NULL"),
        ExposureRule(
            "sends_halted", "calls of send() while the broker was halted", f"attempted AND {halted('sent_at')}"
        ),
        ExposureRule(
            "transacted_sends_halted",
            "calls of send() in a transaction while the broker was halted",
            f"in_transaction AND {halted('sent_at')}",
        ),
        ExposureRule(
            "acknowledges_halted", "calls of acknowledge() while the broker was halted", halted("ack_sent_at")
        ),
        ExposureRule("commits_halted", "calls of commit() while the broker was halted", halted("commit_asked_at")),
        ExposureRule(
            "rollbacks_halted", "calls of rollback() while the broker was halted", halted("rollback_asked_at")
        ),
        ExposureRule("questions", "questions that the client has answered", "granted OR denied"),
        ExposureRule("third_sent", "sends of a third of their window, and of no more", THIRD_SENT),
        ExposureRule("less_sent", "sends below a third of their window", LESS_SENT),
        ExposureRule("thresholds_offered", "sends after settings for the thresholds were offered", OFFERED),
        ExposureRule("asked_immediately", "sends with Ack Immediately", "immediate"),
        ExposureRule(
            "immediate_in_window",
            "messages with Ack Immediately confirmed within the flush interval before the fault, or after it",
            "immediate AND confirmed AND durable",
            since="confirmed_at",
        ),
        ExposureRule(
            "ranged_in_window",
            "messages confirmed by a range within the flush interval before the fault, or after it",
            "ranged AND confirmed AND durable",
            since="confirmed_at",
        ),
        ExposureRule("window_waits", "publishes that had to wait for their window", "waited_with IS NOT NULL"),
        ExposureRule(
            "acknowledged_out_of_order", "acknowledgements while an earlier delivery was open", "out_of_order"
        ),
        ExposureRule("sends_refused", "sends that were refused and never accepted", "refused AND NOT accepted"),
        ExposureRule(
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
