"""Exposures: what was at risk. Without exposure a check has decided nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from conformance.errors import CatalogueError
from conformance.judge.anomalies import ANOMALIES
from conformance.judge.anomalies.calls import began_while_halted
from conformance.judge.anomalies.sessions import LESS_SENT, OFFERED, THIRD_SENT


@dataclasses.dataclass(frozen=True)
class ExposureRule:
    """An exposure: `counts` is SQL over the row of a message.

    `period` is SQL for the number of faults before the message was at risk: the next one has met it, and is a unit of
    `confidence`; without it a trial is. `since` is SQL for the time of an answer: with it, a message counts only if the
    next fault came before the answer was read (it was in flight then), or within the broker's flush interval after it
    (`records.TrialRecord.flush_ms`). `asked` is SQL for the time of the request: the broker has answered after it, and
    a client that handles many answers at once reads an answer some milliseconds later.
    """

    counts: str
    since: str = ""
    period: str = ""
    asked: str = ""

    @property
    def fault_at(self) -> str:
        """The column with the time of the first fault after the request."""
        return self.period.replace("_period", "_fault_at")


OPEN_MS = 10
"""A commit that was answered so long before is not open any more: a kill must show a half that takes 10 ms."""

_HELD = "durable AND NOT refused AND discharge_sync_held"
_OPEN = f"coalesce(commit_asked_fault_at - committed_at <= {OPEN_MS}000000L, true)"


def _at_a_commit(counts: str) -> ExposureRule:
    """Count messages whose commit was asked for before the fault: answered shortly before it, or not at all."""
    return ExposureRule(
        f"{counts} AND commit_asked_at <= commit_asked_fault_at",
        since="coalesce(committed_at, commit_asked_fault_at)",
        period="commit_asked_period",
        asked="commit_asked_at",
    )


EXPOSURES: Mapping[str, ExposureRule] = {
    "confirmed_in_window": ExposureRule("confirmed AND durable", "confirmed_at", "confirm_period", "sent_at"),
    "acknowledged_in_window": ExposureRule("acked_at IS NOT NULL", "acked_at", "ack_period", "ack_sent_at"),
    "expired": ExposureRule("confirmed AND expired"),
    "expired_before_consumer": ExposureRule("expires_at < last_attached_at"),
    "delayed": ExposureRule("confirmed AND last_attached_at < sent_at + delay_ms * 1000000L"),
    "sends": ExposureRule("attempted AND durable AND NOT disconnected", period="sent_period"),
    "confirmed": ExposureRule("confirmed", period="sent_period"),
    "received": ExposureRule("received > 0", period="sent_period"),
    "answered": ExposureRule("answered", period="sent_period"),
    "unanswered": ExposureRule("unanswered", period="sent_period"),
    "acknowledged": ExposureRule("ack_sent_at IS NOT NULL", period="ack_asked_period"),
    "acknowledged_on_link": ExposureRule("ack_framed_at IS NOT NULL", period="ack_asked_period"),
    "left_prefetched": ExposureRule("carried > 0 AND handed = 0"),
    "carried": ExposureRule("carried > 0", period="handed_period"),
    "reached_settled": ExposureRule("reached_at IS NOT NULL", period="handed_period"),
    "acknowledgements_confirmed": ExposureRule("acked_at IS NOT NULL", period="ack_period"),
    "delivered_unacknowledged": ExposureRule("unacknowledged", period="handed_period"),
    "delivered_after_acknowledge": ExposureRule("handed_after_acknowledge AND ack_sent_at IS NULL"),
    "committed_in_window": ExposureRule("committed AND durable", "committed_at", "commit_period", "commit_asked_at"),
    "commits_at_risk": _at_a_commit(f"in_transaction AND NOT (committed_at IS NULL AND commit_refused) AND {_OPEN}"),
    "transactions_at_risk": _at_a_commit(f"(in_transaction OR ack_txn IS NOT NULL) AND NOT commit_refused AND {_OPEN}"),
    "in_transactions": ExposureRule("in_transaction", period="sent_period"),
    "commits_asked": ExposureRule("in_transaction AND commit_asked_at IS NOT NULL", period="sent_period"),
    "sent_again": _at_a_commit("in_transaction AND sendings > 1"),
    "resumed": ExposureRule("exactly_once AND sendings > 1", period="sent_period"),
    "undischarged": ExposureRule("in_transaction AND NOT discharged", period="sent_period"),
    "acknowledged_undischarged": ExposureRule("ack_txn IS NOT NULL AND NOT discharged", period="ack_asked_period"),
    "acknowledged_in_transactions": ExposureRule(
        "ack_txn IS NOT NULL AND coalesce(committed_at, rolled_back_at) IS NOT NULL", period="ack_asked_period"
    ),
    "rolled_back": ExposureRule("rollback_asked_at IS NOT NULL", period="sent_period"),
    "released": ExposureRule("refused_as = 'released'"),
    "failed": ExposureRule("refused_as = 'failed'"),
    "undeliverable": ExposureRule("refused_as = 'undeliverable'"),
    "refused": ExposureRule("refused_at IS NOT NULL", period="handed_period"),
    "delivered": ExposureRule("handed > 0", period="handed_period"),
    "delivered_beside_another": ExposureRule(
        "handed > 0 AND NOT one_consumer AND handed_at BETWEEN shared_from AND shared_until",
    ),
    "unprocessed": ExposureRule("confirmed AND processed_at IS NULL", period="sent_period"),
    "unsent": ExposureRule("confirmed AND durable AND crossed = 0 AND carried_to_the_end"),
    "unasked": ExposureRule("unasked"),
    "non_persistent": ExposureRule("confirmed AND NOT durable", period="sent_period"),
    "first_deliveries": ExposureRule("fresh_at IS NOT NULL", period="handed_period"),
    "claimed_first": ExposureRule("claims > 0 AND links_differ", period="handed_period"),
    "sync_held": ExposureRule("confirmed AND durable AND sync_held", period="sent_under"),
    "ack_sync_held": ExposureRule("acked_at IS NOT NULL AND durable AND ack_sync_held", period="acked_under"),
    "commit_sync_held": ExposureRule(f"committed_at IS NOT NULL AND {_HELD}", period="sent_under"),
    "rollback_sync_held": ExposureRule(f"rolled_back_at IS NOT NULL AND {_HELD}", period="sent_under"),
    "sync_failed": ExposureRule("attempted AND send_txn IS NULL AND durable AND sync_failed_at IS NOT NULL"),
    "commit_sync_failed": ExposureRule("commit_asked_at IS NOT NULL AND durable AND discharge_failed_at IS NOT NULL"),
    "persistent_on_link": ExposureRule("attempted AND durable AND (flagged OR unflagged)"),
    "non_persistent_on_link": ExposureRule("attempted AND NOT durable AND (flagged OR unflagged)"),
    "flags_on_link": ExposureRule("attempted AND (flagged OR unflagged)"),
    "sends_over_slow_link": ExposureRule("confirmed AND added_us IS NOT NULL"),
    "sends_halted": ExposureRule(f"attempted AND {began_while_halted('sent_at')}"),
    "transacted_sends_halted": ExposureRule(f"in_transaction AND {began_while_halted('sent_at')}"),
    "acknowledges_halted": ExposureRule(began_while_halted("ack_sent_at")),
    "commits_halted": ExposureRule(began_while_halted("commit_asked_at")),
    "rollbacks_halted": ExposureRule(began_while_halted("rollback_asked_at")),
    "questions": ExposureRule("granted OR denied"),
    "third_sent": ExposureRule(THIRD_SENT),
    "less_sent": ExposureRule(LESS_SENT),
    "thresholds_offered": ExposureRule(OFFERED),
    "asked_immediately": ExposureRule("immediate"),
    "immediate_in_window": ExposureRule(
        "immediate AND confirmed AND durable", "confirmed_at", "confirm_period", "sent_at"
    ),
    "ranged_in_window": ExposureRule("ranged AND confirmed AND durable", "confirmed_at", "confirm_period", "sent_at"),
    "window_waits": ExposureRule("waited_with IS NOT NULL"),
    "acknowledged_out_of_order": ExposureRule("out_of_order"),
    "sends_refused": ExposureRule("refused AND NOT accepted"),
    "processed_unconfirmed": ExposureRule("processed_at IS NOT NULL AND acked_at IS NULL", period="handed_period"),
}
"""Every exposure by its name; `Check.exposure` of a scenario is one of these."""


def check_names(used: Iterable[tuple[str, str]]) -> None:
    """Raise `CatalogueError` for an anomaly or exposure that the tables do not define."""
    for anomaly, exposure in used:
        if anomaly not in ANOMALIES:
            raise CatalogueError(f"a scenario names the anomaly {anomaly!r}, which the judge does not define")
        if exposure not in EXPOSURES:
            raise CatalogueError(f"a scenario names the exposure {exposure!r}, which the judge does not define")
