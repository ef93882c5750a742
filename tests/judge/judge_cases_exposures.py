"""What each exposure counts, beside something close that it does not."""

import judge_cases_calls
import judge_cases_clients
import judge_cases_link
import judge_cases_windows
from judge_histories import (
    ack_sent,
    acked_in,
    came,
    commit_sync_failed,
    committed,
    confirmed,
    crashed,
    given_back,
    handed,
    kept,
    killed,
    no_answer,
    pause,
    processed,
    put,
    refused,
    rolled_back,
    sent,
    settled,
    sync_failed,
    synced,
    synced_commit,
    took,
    unasked,
    wrote,
    wrote_commit,
)

from conformance.history import Phase

# name: (history, messages that it counts)
EXPOSED = {
    **judge_cases_windows.EXPOSED,
    **judge_cases_link.EXPOSED,
    **judge_cases_calls.EXPOSED,
    **judge_cases_clients.EXPOSED,
    "confirmed_in_window": (kept(1) + sent(2) + put("t1", 3) + committed("t1") + killed() + settled(1), 1),
    "acknowledged_in_window": (kept(1, 2) + took(1) + handed(2) + ack_sent(2) + crashed(), 1),
    "sends": (kept(1) + sent(2) + no_answer(2) + kept(3, durable=False), 1),
    "confirmed": (kept(1) + sent(2) + refused(2) + put("t1", 3), 1),
    "received": (took(1) + kept(2) + settled(3), 2),
    "answered": (kept(1) + sent(2) + refused(2) + sent(3) + no_answer(3), 2),
    "unanswered": (kept(1) + sent(2) + no_answer(2) + put("t1", 3), 1),
    "acknowledged": (took(1) + handed(2) + ack_sent(2) + handed(3), 2),
    "acknowledgements_confirmed": (took(1) + handed(2) + ack_sent(2), 1),
    "delivered_unacknowledged": (took(1) + handed(2) + handed(3) + given_back(3), 1),
    "delivered_after_acknowledge": (handed(1) + ack_sent(2) + handed(3), 1),
    "committed_in_window": (
        put("t1", 1) + committed("t1") + put("t2", 2) + committed("t2", Phase.INFO) + kept(3) + killed(),
        1,
    ),
    "commits_at_risk": (
        put("t1", 1)
        + committed("t1")
        + pause(200)
        + put("t2", 2, 3)
        + committed("t2", None)
        + put("t3", 4)
        + killed()
        + settled(1, 2, 3),
        2,
    ),
    "in_transactions": (put("t1", 1, 2) + kept(3), 2),
    "commits_asked": (put("t1", 1) + committed("t1", Phase.INFO) + put("t2", 2) + rolled_back("t2") + put("t3", 3), 1),
    "undischarged": (put("t1", 1) + put("t2", 2) + rolled_back("t2") + put("t3", 3) + committed("t3", None), 1),
    "acknowledged_undischarged": (
        acked_in("t1", 1) + acked_in("t2", 2) + committed("t2", None, by="consumer-1") + took(3),
        1,
    ),
    "acknowledged_in_transactions": (
        acked_in("t1", 1)
        + committed("t1", by="consumer-1")
        + acked_in("t2", 2)
        + rolled_back("t2", by="consumer-1")
        + acked_in("t3", 3)
        + committed("t3", Phase.INFO, by="consumer-1"),
        2,
    ),
    "rolled_back": (put("t1", 1) + rolled_back("t1", Phase.INFO) + put("t2", 2) + committed("t2"), 1),
    "released": (handed(1) + given_back(1) + handed(2) + given_back(2, "failed"), 1),
    "failed": (handed(1) + given_back(1, "failed") + handed(2) + given_back(2), 1),
    "undeliverable": (handed(1) + given_back(1, "undeliverable") + handed(2) + given_back(2), 1),
    "refused": (handed(1) + given_back(1, "rejected") + handed(2) + sent(3) + refused(3), 1),
    "delivered": (handed(1) + came(2), 1),
    "delivered_beside_another": (handed(1) + handed(2, consumer=2) + handed(3) + handed(4, consumer=2), 2),
    "unprocessed": (kept(1, 2) + handed(1) + processed(1) + handed(2) + came("p2:1"), 1),
    "unasked": (unasked(1) + sent(2), 1),
    "non_persistent": (kept(1, durable=False) + kept(2) + sent(3, durable=False), 1),
    "first_deliveries": (handed(1) + crashed() + handed(2, consumer=2), 1),
    "claimed_first": (handed(1) + handed(2) + came(1, epoch=1) + handed(3, first_acquirer=False) + came(3, epoch=1), 1),
    "sync_held": (
        sent(1, 2, 3) + wrote(1, 2, 3) + synced(1, held=True) + synced(2) + synced(3, held=True) + confirmed(1, 2),
        1,
    ),
    "commit_sync_held": (
        put("t1", 1, 2)
        + committed("t1")
        + wrote_commit("t1")
        + synced_commit("t1", held=True)
        + put("t2", 3)
        + committed("t2")
        + wrote_commit("t2")
        + synced_commit("t2")
        + put("t3", 4)
        + wrote(4)
        + synced(4, held=True)
        + committed("t3"),
        2,
    ),
    "rollback_sync_held": (
        put("t1", 1, 2)
        + rolled_back("t1")
        + wrote_commit("t1")
        + synced_commit("t1", held=True)
        + put("t2", 3)
        + committed("t2")
        + wrote_commit("t2")
        + synced_commit("t2", held=True),
        2,
    ),
    "sync_failed": (sent(1) + wrote(1) + sync_failed(1) + kept(2) + wrote(2) + synced(2), 1),
    "commit_sync_failed": (
        put("t1", 1, 2)
        + committed("t1", Phase.INFO)
        + wrote_commit("t1")
        + commit_sync_failed("t1")
        + put("t2", 3)
        + sync_failed(3)
        + committed("t2"),
        2,
    ),
    "sends_refused": (sent(1) + refused(1) + kept(2) + refused(2) + sent(3) + no_answer(3), 1),
    "processed_unconfirmed": (took(1) + handed(2) + processed(2) + ack_sent(2) + handed(3), 1),
}
