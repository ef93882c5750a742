"""What each exposure counts, beside something close that it does not."""

from judge_cases_calls import C, question, slow
from judge_cases_link import PREFETCHED, flagged, unflagged
from judge_cases_sends import DEFAULT, waiting
from judge_frames import SIZE, disposed, reached, settled_on_link, transferred
from judge_histories import (
    ack_sent,
    acked,
    acked_in,
    came,
    committed,
    confirmed,
    crashed,
    exposure,
    given_back,
    halted,
    handed,
    immediate,
    kept,
    killed,
    limited,
    no_answer,
    offered,
    pause,
    processed,
    put,
    ranged,
    refused,
    resumed,
    rolled_back,
    sent,
    settled,
    sync_failed,
    synced,
    took,
    unasked,
    waited,
    wrote,
)

from conformance.history import Phase

ON_LINK = {
    "persistent_on_link": exposure(2, kept(1, 2, 3), flagged(1), unflagged(2), kept(4, durable=False), flagged(4)),
    "non_persistent_on_link": exposure(1, kept(1), flagged(1), kept(2, 3, durable=False), unflagged(2)),
    "flags_on_link": exposure(2, kept(1, 2), flagged(1), kept(3, durable=False), unflagged(3)),
    "acknowledged_on_link": exposure(1, kept(1, 2, 3), transferred(1, 2), disposed(1), handed(3), acked(3)),
    "carried": exposure(1, kept(1, 2, 3), transferred(1, 2), reached(1), handed(3)),
    "reached_settled": exposure(
        1, kept(1, 2, 3, 4), settled_on_link(1, 2), transferred(3), reached(3, short=2 * SIZE), handed(4)
    ),
    "left_prefetched": exposure(1, PREFETCHED),
}
"""Exposures that frames decide."""

EXPOSED = {
    **ON_LINK,
    "third_sent": exposure(1, limited("publisher-1", 3), sent(1), sent("p2:1", tx="t1")),
    "less_sent": exposure(1, limited("publisher-1", 9), sent(1), sent("p2:1", "p2:2", "p2:3")),
    "thresholds_offered": exposure(1, DEFAULT, offered(), waiting(10), waiting(10, "p2:2")),
    "asked_immediately": exposure(1, immediate(1), sent(2)),
    "immediate_in_window": exposure(
        1, immediate(1), confirmed(1), pause(200), immediate(2), confirmed(2), kept(3), killed()
    ),
    "ranged_in_window": exposure(2, sent(1, 2), ranged(1, 2), pause(200), sent(3, 4), ranged(3, 4), kept(5), killed()),
    "window_waits": exposure(1, limited("publisher-1", 2), sent(1, 2), waited(3, 2), confirmed(1), sent(3)),
    "acknowledged_out_of_order": exposure(1, handed(1), handed(2), ack_sent(2), ack_sent(1), handed(3), ack_sent(3)),
    "sends_halted": exposure(3, kept(1), sent(2), halted(), sent(3), kept(4), put("t1", 5), resumed(), kept(6)),
    "questions": exposure(2, question(1, Phase.OK), question(2, Phase.FAIL), question(3, Phase.INFO), kept(1)),
    "sends_over_slow_link": exposure(2, slow(50), kept(1, 2), sent(3)),
    "transacted_sends_halted": exposure(
        2, put("t1", 1), halted(), put("t1", 2), sent(3, tx="t1"), sent(4), resumed(), put("t1", 5), committed("t1")
    ),
    "acknowledges_halted": exposure(
        2, took(1), handed(2), handed(3), ack_sent(2), halted(C), ack_sent(3), took(4), resumed(C), took(5)
    ),
    "commits_halted": exposure(
        2,
        put("t1", 1),
        committed("t1"),
        put("t2", 2, 3),
        put("t3", 4),
        put("t4", 5),
        halted(),
        committed("t2", None),
        rolled_back("t3"),
        resumed(),
        committed("t4"),
    ),
    "rollbacks_halted": exposure(
        2,
        put("t1", 1),
        rolled_back("t1"),
        put("t2", 2, 3),
        put("t3", 4),
        put("t4", 5),
        halted(),
        rolled_back("t2", None),
        committed("t3"),
        resumed(),
        rolled_back("t4"),
    ),
    "confirmed_in_window": exposure(1, kept(1), sent(2), put("t1", 3), committed("t1"), killed(), settled(1)),
    "acknowledged_in_window": exposure(1, kept(1, 2), took(1), handed(2), ack_sent(2), crashed()),
    "sends": exposure(1, kept(1), sent(2), no_answer(2), kept(3, durable=False)),
    "confirmed": exposure(1, kept(1), sent(2), refused(2), put("t1", 3)),
    "received": exposure(2, took(1), kept(2), settled(3)),
    "answered": exposure(2, kept(1), sent(2), refused(2), sent(3), no_answer(3)),
    "unanswered": exposure(1, kept(1), sent(2), no_answer(2), put("t1", 3)),
    "acknowledged": exposure(2, took(1), handed(2), ack_sent(2), handed(3)),
    "acknowledgements_confirmed": exposure(1, took(1), handed(2), ack_sent(2)),
    "delivered_unacknowledged": exposure(1, took(1), handed(2), handed(3), given_back(3)),
    "delivered_after_acknowledge": exposure(1, handed(1), ack_sent(2), handed(3)),
    "committed_in_window": exposure(
        1, put("t1", 1), committed("t1"), put("t2", 2), committed("t2", Phase.INFO), kept(3), killed()
    ),
    "commits_at_risk": exposure(
        2,
        put("t1", 1),
        committed("t1"),
        pause(200),
        put("t2", 2, 3),
        committed("t2", None),
        put("t3", 4),
        killed(),
        settled(1, 2, 3),
    ),
    "in_transactions": exposure(2, put("t1", 1, 2), kept(3)),
    "commits_asked": exposure(
        1, put("t1", 1), committed("t1", Phase.INFO), put("t2", 2), rolled_back("t2"), put("t3", 3)
    ),
    "undischarged": exposure(1, put("t1", 1), put("t2", 2), rolled_back("t2"), put("t3", 3), committed("t3", None)),
    "acknowledged_undischarged": exposure(
        1, acked_in("t1", 1), acked_in("t2", 2), committed("t2", None, by="consumer-1"), took(3)
    ),
    "acknowledged_in_transactions": exposure(
        2,
        acked_in("t1", 1),
        committed("t1", by="consumer-1"),
        acked_in("t2", 2),
        rolled_back("t2", by="consumer-1"),
        acked_in("t3", 3),
        committed("t3", Phase.INFO, by="consumer-1"),
    ),
    "rolled_back": exposure(1, put("t1", 1), rolled_back("t1", Phase.INFO), put("t2", 2), committed("t2")),
    "released": exposure(1, handed(1), given_back(1), handed(2), given_back(2, "failed")),
    "failed": exposure(1, handed(1), given_back(1, "failed"), handed(2), given_back(2)),
    "undeliverable": exposure(1, handed(1), given_back(1, "undeliverable"), handed(2), given_back(2)),
    "refused": exposure(1, handed(1), given_back(1, "rejected"), handed(2), sent(3), refused(3)),
    "delivered": exposure(1, handed(1), came(2)),
    "delivered_beside_another": exposure(2, handed(1), handed(2, consumer=2), handed(3), handed(4, consumer=2)),
    "unprocessed": exposure(1, kept(1, 2), handed(1), processed(1), handed(2), came("p2:1")),
    "unasked": exposure(1, unasked(1), sent(2)),
    "non_persistent": exposure(1, kept(1, durable=False), kept(2), sent(3, durable=False)),
    "first_deliveries": exposure(1, handed(1), crashed(), handed(2, consumer=2)),
    "claimed_first": exposure(
        1, handed(1), handed(2), came(1, epoch=1), handed(3, first_acquirer=False), came(3, epoch=1)
    ),
    "sync_held": exposure(
        1, sent(1, 2, 3), wrote(1, 2, 3), synced(1, held=True), synced(2), synced(3, held=True), confirmed(1, 2)
    ),
    "commit_sync_held": exposure(
        2,
        put("t1", 1, 2),
        committed("t1"),
        wrote("t1"),
        synced("t1", held=True),
        put("t2", 3),
        committed("t2"),
        wrote("t2"),
        synced("t2"),
        put("t3", 4),
        wrote(4),
        synced(4, held=True),
        committed("t3"),
    ),
    "rollback_sync_held": exposure(
        2,
        put("t1", 1, 2),
        rolled_back("t1"),
        wrote("t1"),
        synced("t1", held=True),
        put("t2", 3),
        committed("t2"),
        wrote("t2"),
        synced("t2", held=True),
    ),
    "sync_failed": exposure(1, sent(1), wrote(1), sync_failed(1), kept(2), wrote(2), synced(2)),
    "commit_sync_failed": exposure(
        2,
        put("t1", 1, 2),
        committed("t1", Phase.INFO),
        wrote("t1"),
        sync_failed("t1"),
        put("t2", 3),
        sync_failed(3),
        committed("t2"),
    ),
    "sends_refused": exposure(1, sent(1), refused(1), kept(2), refused(2), sent(3), no_answer(3)),
    "processed_unconfirmed": exposure(1, took(1), handed(2), processed(2), ack_sent(2), handed(3)),
}
"""Exposure: (history, messages that it counts)."""
