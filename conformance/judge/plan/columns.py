"""The columns of an event, of a message and of its trial: tables of names and SQL, in the order of their use.

Each stage is a select over the one before it. `anomalies` and `exposures` are written in the columns of a message. A
plan takes only the columns that its checks need (`relations`).
"""

from __future__ import annotations

from collections.abc import Mapping

from conformance.history import (
    DELAYED,
    NOT_ALIVE,
    NOT_READY,
    NOT_RECOVERED,
    NOT_SERVED,
    OF_ACK,
    OF_ANOTHER,
    OUTSIDE,
    PASSED_OVER,
    RECEIVER_ENDED,
    REPORTED,
    SELECTED,
    SHUT,
    UNSELECTED,
    WAITS,
    Op,
    Phase,
)
from conformance.judge.input.packing import OP_CODE, PHASE_CODE, ROLES
from conformance.protocols.ties import CARRIES
from conformance.scenario.faults import FAULTS


def _on(op: Op, phase: Phase) -> str:
    return f"op = {OP_CODE[op]} AND phase = {PHASE_CODE[phase]}"


_CARRIES = {word: code for code, word in enumerate(CARRIES)}
_FRAME = f"op = {OP_CODE[Op.FRAME]} AND n IS NOT NULL"
_OF_ACK = f"coalesce(detail LIKE '% {OF_ACK}', false)"
_HAS_ID = "(n IS NOT NULL OR foreign_id IS NOT NULL)"
_IN_ORDER = "OVER (PARTITION BY trial, process ORDER BY sequence)"
_SO_FAR = "OVER (PARTITION BY trial, process ORDER BY sequence ROWS UNBOUNDED PRECEDING)"

EVENT: Mapping[str, str] = {
    "sent": _on(Op.SEND, Phase.INVOKE),
    # In a transaction `accepted` is provisional: only the answer to the commit confirms (AMQP 1.0 section 4.4.1).
    "accepts": f"{_on(Op.SEND, Phase.OK)} AND txn IS NULL",
    "asks": f"{_on(Op.SEND, Phase.INVOKE)} AND coalesce(detail <> 'no answer asked for', true)",
    "answers": f"op = {OP_CODE[Op.SEND]} AND phase <> {PHASE_CODE[Phase.INVOKE]}"
    " AND coalesce(detail <> 'no answer was asked for', true)",
    "refuses": _on(Op.SEND, Phase.FAIL),
    "refuses_outside": f"{_on(Op.SEND, Phase.FAIL)} AND coalesce(detail LIKE '% {OUTSIDE}', false)",
    "forgets": _on(Op.SEND, Phase.INFO),
    "hands": f"{_on(Op.DELIVER, Phase.OK)} AND {_HAS_ID}",
    "drains": f"{_on(Op.DRAIN, Phase.OK)} AND {_HAS_ID}",
    "silent": f"{_on(Op.DRAIN, Phase.OK)} AND NOT {_HAS_ID}",
    "stuck": f"{_on(Op.DRAIN, Phase.INFO)} AND NOT {_HAS_ID} AND coalesce(detail <> '{DELAYED}', true)",
    "sets_aside": f"{_on(Op.DRAIN, Phase.INFO)} AND {_HAS_ID}",
    "acks": _on(Op.ACK, Phase.INVOKE),
    "ack_settled": _on(Op.ACK, Phase.OK),
    "begins": _on(Op.PROCESS, Phase.INVOKE),
    "processed": _on(Op.PROCESS, Phase.OK),
    "nacks": _on(Op.NACK, Phase.INVOKE),
    "commit_asked": f"{_on(Op.COMMIT, Phase.INVOKE)} AND {_HAS_ID}",
    "commits": f"{_on(Op.COMMIT, Phase.OK)} AND {_HAS_ID}",
    "commit_fails": f"{_on(Op.COMMIT, Phase.FAIL)} AND {_HAS_ID}",
    "rollback_asked": f"{_on(Op.ROLLBACK, Phase.INVOKE)} AND {_HAS_ID}",
    "rolls_back": f"{_on(Op.ROLLBACK, Phase.OK)} AND {_HAS_ID}",
    "keeps_on": f"{_on(Op.ROLLBACK, Phase.FAIL)} AND {_HAS_ID}",
    "untrue": _on(Op.CONFIRM, Phase.FAIL),
    "waits": f"{_on(Op.CONFIRM, Phase.INFO)} AND detail = '{WAITS}'",
    "stays_shut": f"{_on(Op.CONFIRM, Phase.INFO)} AND detail = '{SHUT}'",
    "offers": f"op = {OP_CODE[Op.BROKER]} AND phase IN ({PHASE_CODE[Phase.OK]}, {PHASE_CODE[Phase.FAIL]})"
    " AND detail LIKE 'offered %'",
    "fails_to_recover": f"{_on(Op.BROKER, Phase.FAIL)} AND detail LIKE '{NOT_RECOVERED}%'",
    "is_not_alive": f"{_on(Op.BROKER, Phase.FAIL)} AND detail LIKE '{NOT_ALIVE}%'",
    "is_not_served": f"{_on(Op.BROKER, Phase.FAIL)} AND detail LIKE '{NOT_SERVED}%'",
    "is_not_ready": f"{_on(Op.BROKER, Phase.INFO)} AND detail LIKE '{NOT_READY}%'",
    "reports": f"{_on(Op.BROKER, Phase.INFO)} AND detail LIKE '{REPORTED}%'",
    # A key of `PART`, because to aggregate a text would cost a sort.
    "said": f"CASE WHEN op = {OP_CODE[Op.BROKER]} AND phase IN ({PHASE_CODE[Phase.FAIL]}, {PHASE_CODE[Phase.INFO]})"
    f" OR {_on(Op.SYNC, Phase.INFO)} AND NOT {_HAS_ID} THEN detail END",
    "ack_fails": _on(Op.ACK, Phase.FAIL),
    "forgets_ack": _on(Op.ACK, Phase.INFO),
    "starves": _on(Op.DELIVER, Phase.INFO),
    "limits": _on(Op.CONNECT, Phase.OK),
    # A sync that names a transaction is about the record of its discharge. One that names a message is about the record
    # of its send, or of its acknowledgement.
    "writes": f"{_on(Op.SYNC, Phase.INVOKE)} AND {_HAS_ID} AND txn IS NULL AND NOT {_OF_ACK}",
    "syncs": f"{_on(Op.SYNC, Phase.OK)} AND {_HAS_ID} AND txn IS NULL AND NOT {_OF_ACK}",
    "fails_sync": f"{_on(Op.SYNC, Phase.FAIL)} AND {_HAS_ID} AND txn IS NULL AND NOT {_OF_ACK}",
    "writes_ack": f"{_on(Op.SYNC, Phase.INVOKE)} AND {_HAS_ID} AND {_OF_ACK}",
    "syncs_ack": f"{_on(Op.SYNC, Phase.OK)} AND {_HAS_ID} AND {_OF_ACK}",
    "writes_discharge": f"{_on(Op.SYNC, Phase.INVOKE)} AND {_HAS_ID} AND txn IS NOT NULL",
    "syncs_discharge": f"{_on(Op.SYNC, Phase.OK)} AND {_HAS_ID} AND txn IS NOT NULL",
    "fails_discharge": f"{_on(Op.SYNC, Phase.FAIL)} AND {_HAS_ID} AND txn IS NOT NULL",
    "hides": f"{_on(Op.SYNC, Phase.INFO)} AND NOT {_HAS_ID} AND txn IS NULL",
    # The link stamps a frame to the broker when it has read it, after the client wrote it; a frame to the client before
    # it is passed on, so before the client can have it.
    "carries_flagged": f"{_FRAME} AND carries = {_CARRIES['send']} AND durable",
    "carries_unflagged": f"{_FRAME} AND carries = {_CARRIES['send']} AND NOT durable",
    "carries_delivery": f"{_FRAME} AND carries = {_CARRIES['deliver']} AND whole",
    "carries_part": f"{_FRAME} AND carries = {_CARRIES['deliver']}",
    "is_unreadable": f"op = {OP_CODE[Op.FRAME]} AND coalesce(detail LIKE 'unreadable:%', false)",
    "closes": f"op = {OP_CODE[Op.FRAME]} AND coalesce(detail = 'close', false)",
    "carries_settled": f"{_FRAME} AND carries = {_CARRIES['deliver']} AND whole AND settled",
    "carries_ack": f"{_FRAME} AND carries IN ({_CARRIES['acknowledge']}, {_CARRIES['acknowledge_up_to']})",
    "carries_ack_up_to": f"{_FRAME} AND carries = {_CARRIES['acknowledge_up_to']}",
    "slows": f"{_on(Op.FAULT, Phase.ARMED)} AND fault = 'delay'",
    "fires": _on(Op.FAULT, Phase.FIRED),
    "takes_effect": _on(Op.FAULT, Phase.EFFECTIVE),
    "halts": f"{_on(Op.FAULT, Phase.EFFECTIVE)} AND fault = 'pause'",
    "resumes": f"{_on(Op.FAULT, Phase.HEALED)} AND fault = 'pause'",
    "grants": _on(Op.ASK, Phase.OK),
    "denies": _on(Op.ASK, Phase.FAIL),
    # In a transaction the answer is the return of the call; with a listener the return is an event of its own.
    "returns": f"({_on(Op.SEND, Phase.OK)} AND txn IS NOT NULL) OR ({_on(Op.CALL, Phase.OK)})",
}
"""The meanings of an event, as booleans."""

_RECEIVED = "(hands OR drains)"
# A process as one number: no role has 10,000 of them (`packing`).
_PROCESS_CODE = "(10000 * CAST(role AS INT) + CAST(number AS INT))"
PACK = 10**12
"""A message as one number is producer * PACK + n, so that min() and max() of it need no struct."""

_OF_TRIAL = "OVER (PARTITION BY trial)"
_OF_EPOCH = "OVER (PARTITION BY trial, epoch)"
_OF_PERIOD = "OVER (PARTITION BY trial, epoch, period)"
_OF_PROCESS = "OVER (PARTITION BY trial, process)"
_OF_QUEUE = "OVER (PARTITION BY trial, queue)"
_CONSUMER, _DRAIN = (f"role = {ROLES.index(role)}" for role in ("consumer", "drain"))
_FAULT_BIT = f"CAST(array_position(array({', '.join(map(repr, FAULTS))}), fault) AS INT)"

PART_KEYS = ("trial", "process", "epoch", "period", "queue", "said")
"""A part of a trial has the same in all its events: it is the whole history of a process, or less."""

_DEPTH = _on(Op.DEPTH, Phase.OK)
PART: Mapping[str, tuple[str, str]] = {
    "part_began": ("min({})", "at_ns"),
    "part_ended": ("max({})", "at_ns"),
    "part_limit": ("max({})", "CASE WHEN limits THEN `count` END"),
    "part_attached": ("max({})", "CASE WHEN limits THEN at_ns END"),
    "part_taker_attached": ("min({})", f"CASE WHEN limits AND ({_CONSUMER} OR {_DRAIN}) THEN at_ns END"),
    "part_acked": ("max({})", "CASE WHEN acks THEN at_ns END"),
    "part_answered": ("max({})", "CASE WHEN ack_settled THEN at_ns END"),
    "part_attachments": ("sum({})", f"CAST(limits AND {_CONSUMER} AS INT)"),
    "part_consumers": ("max({})", f"CASE WHEN {_CONSUMER} THEN CAST(number AS INT) END"),
    "part_consumer_attached": ("max({})", f"CASE WHEN limits AND {_CONSUMER} THEN at_ns END"),
    "part_fired": ("min({})", "CASE WHEN fires THEN at_ns END"),
    "part_last_fired": ("max({})", "CASE WHEN fires THEN at_ns END"),
    "part_joins": ("bit_or({})", f"CASE WHEN fires AND detail = '{OF_ANOTHER}' THEN shiftleft(1L, period) ELSE 0L END"),
    "part_halted": ("min({})", "CASE WHEN halts THEN at_ns END"),
    "part_resumed": ("min({})", "CASE WHEN resumes THEN at_ns END"),
    "part_added": ("max({})", "CASE WHEN slows THEN `count` END"),
    "part_first_epoch": ("min({})", "CASE WHEN role < 3 AND epoch > 0 THEN epoch END"),
    "part_received": ("min({})", f"CASE WHEN {_RECEIVED} THEN at_ns END"),
    "part_received_last": ("max({})", f"CASE WHEN {_RECEIVED} THEN at_ns END"),
    "part_recovery_failed": ("bool_or({})", "fails_to_recover"),
    "part_not_alive": ("bool_or({})", "is_not_alive"),
    "part_not_served": ("bool_or({})", "is_not_served"),
    "part_not_ready": ("bool_or({})", "is_not_ready"),
    "part_reports": ("bool_or({})", "reports"),
    "part_hides": ("bool_or({})", "hides"),
    "part_effects": ("bit_or({})", f"CASE WHEN takes_effect THEN shiftleft(1L, {_FAULT_BIT}) ELSE 0L END"),
    "part_traces": ("bit_or({})", f"CASE WHEN role = {ROLES.index('disk')} THEN shiftleft(1L, epoch) ELSE 0L END"),
    "part_offers": ("sum({})", "CAST(offers AS INT)"),
    "part_unreadable": ("bool_or({})", "is_unreadable"),
    "part_closes": ("sum({})", "CAST(closes AS INT)"),
    "part_bit": ("bit_or({})", "shiftleft(1L, CAST(number AS INT))"),
    "part_silent": ("max({})", "CASE WHEN silent THEN at_ns END"),
    "part_stuck": ("min({})", "CASE WHEN stuck THEN at_ns END"),
    "part_stuck_last": ("max({})", "CASE WHEN stuck THEN at_ns END"),
    "part_drain": ("max({})", f"CASE WHEN {_DRAIN} THEN CAST(number AS INT) END"),
    "part_drain_epoch": ("min({})", f"CASE WHEN {_DRAIN} THEN epoch END"),
    "part_brought": ("bit_or({})", "CASE WHEN drains THEN shiftleft(1L, CAST(number AS INT)) ELSE 0L END"),
    "part_depth": (f"max_by({{}}, at_ns) FILTER (WHERE {_DEPTH})", f"CASE WHEN {_DEPTH} THEN `count` END"),
    "part_depth_at": ("max({})", f"CASE WHEN {_DEPTH} THEN at_ns END"),
}
"""The aggregate that puts the events of a part together, and what one event says about it."""

# Spark sorts again wherever the next window does not begin with the columns of the sort before.
PART_WINDOWS: Mapping[str, str] = {
    "started_at": f"min(part_began) {_OF_TRIAL}",
    "ended_at": f"max(part_ended) {_OF_TRIAL}",
    "last_attached_at": f"max(part_consumer_attached) {_OF_TRIAL}",
    # Exposure is counted back from the first of two faults: a broker that was halted and then killed did nothing in
    # between. Drains count after the last.
    "fired_at": f"min(part_fired) {_OF_TRIAL}",
    "last_fired_at": f"max(part_last_fired) {_OF_TRIAL}",
    # The fault that an event was before, if one came in the same run of the broker.
    "next_fault_at": f"min(part_fired) {_OF_PERIOD}",
    "epoch_fired_at": f"min(part_fired) {_OF_EPOCH}",
    # The number of faults, and those that came at the trigger of another trial, one bit each.
    "last_period": f"max(period) {_OF_TRIAL}",
    "joined": f"bit_or(part_joins) {_OF_TRIAL}",
    "halted_at": f"min(part_halted) {_OF_TRIAL}",
    "resumed_at": f"min(part_resumed) {_OF_TRIAL}",
    "added_us": f"max(part_added) {_OF_TRIAL}",
    "first_epoch": f"min(part_first_epoch) {_OF_TRIAL}",
    "not_recovered": f"max(CASE WHEN part_recovery_failed THEN said END) {_OF_TRIAL}",
    "not_alive": f"max(CASE WHEN part_not_alive THEN said END) {_OF_TRIAL}",
    "not_served": f"max(CASE WHEN part_not_served THEN said END) {_OF_TRIAL}",
    "not_ready": f"max(CASE WHEN part_not_ready THEN said END) {_OF_TRIAL}",
    "reported": f"max(CASE WHEN part_reports THEN said END) {_OF_TRIAL}",
    "hidden": f"min(CASE WHEN part_hides THEN coalesce(said, '') END) {_OF_TRIAL}",
    "effective": f"bit_or(part_effects) {_OF_TRIAL}",
    "traced_epochs": f"bit_or(part_traces) {_OF_TRIAL}",
    "offered": f"sum(part_offers) {_OF_TRIAL}",
    "stuck_at": f"min(part_stuck) {_OF_TRIAL}",
    "last_drain": f"coalesce(max(part_drain) {_OF_TRIAL}, 0)",
    # A connection can take each message once, unless it gives it back.
    "connections": f"greatest(sum(part_attachments) {_OF_TRIAL}, coalesce(max(part_consumers) {_OF_TRIAL}, 0))",
    "first_drain_epoch": f"min(part_drain_epoch) {_OF_TRIAL}",
    "brought_mask": f"bit_or(part_brought) {_OF_TRIAL}",
    "limit": f"max(part_limit) {_OF_PROCESS}",
    "attached_at": f"max(part_attached) {_OF_PROCESS}",
    "last_ack_at": f"max(part_acked) {_OF_PROCESS}",
    "last_answered_at": f"max(part_answered) {_OF_PROCESS}",
    # The first process that received any message.
    "process_received_at": f"min(part_received) {_OF_PROCESS}",
    "process_received_last_at": f"max(part_received_last) {_OF_PROCESS}",
    "trial_received_at": f"min(part_received) {_OF_TRIAL}",
    "trial_attached_at": f"least(min(part_taker_attached) {_OF_TRIAL}, min(part_received) {_OF_TRIAL})",
    "queue_closed": f"sum(part_closes) {_OF_QUEUE} > 1",
    "queue_left": f"max_by(part_depth, part_depth_at) {_OF_QUEUE}",
}
"""Facts of a process, of a run of the broker, of a queue and of the whole trial."""

_LATE = "(last_fired_at IS NULL OR {} > last_fired_at)"
_SILENT = f"part_silent IS NOT NULL AND {_LATE.format('part_silent')}"
_STUCK = f"part_stuck_last IS NOT NULL AND {_LATE.format('part_stuck_last')}"
PART_AGAIN: Mapping[str, str] = {
    "silent_mask": f"bit_or(CASE WHEN {_SILENT} THEN part_bit ELSE 0L END) {_OF_TRIAL}",
    "ended_mask": f"bit_or(CASE WHEN {_SILENT} OR {_STUCK} THEN part_bit ELSE 0L END) {_OF_TRIAL}",
    # Both sides have closed an AMQP connection with a link, and every frame of it could be read. Over STOMP the answer
    # to DISCONNECT ends nothing: Artemis 2.56.0 sent 4 messages after it, and 68 more that no link read any more.
    "carried_to_the_end": f"coalesce(max(queue_closed) {_OF_TRIAL}"
    f" AND NOT bool_or(part_unreadable) {_OF_TRIAL}, false)",
    "left_over": f"max(queue_left) {_OF_TRIAL}",
}
"""Facts of the trial that follow from other facts."""

FACTS = frozenset({*PART_WINDOWS, *PART_AGAIN}) - {"queue_closed", "queue_left"}
"""They are equal in all events of a process in one run of the broker."""

FACTS_OF_TRIAL = frozenset(name for name in FACTS if _OF_TRIAL in {**PART_WINDOWS, **PART_AGAIN}[name])
"""They are equal in all events of a trial."""

# One sort by (trial, process, sequence) serves all of them.
EVENT_WINDOWS: Mapping[str, str] = {
    # A running count, not a look at the event before: of ten deliveries in a row only the last shows the backlog.
    "holding": f"sum(CASE WHEN hands THEN 1 WHEN acks OR nacks THEN -1 ELSE 0 END) {_SO_FAR}",
    "unanswered_now": f"sum(CASE WHEN asks THEN 1 WHEN answers THEN -1 ELSE 0 END) {_SO_FAR}",
    # A frame about several messages has a row for each of them.
    "new_frame": f"coalesce(lag(sequence) {_IN_ORDER} <> sequence, true)",
}

_EARLY = f"{_RECEIVED} AND epoch = first_epoch"
_CLAIM = f"{_EARLY} AND first_acquirer"
_FRESH = "hands AND (fired_at IS NULL OR at_ns <= fired_at)"
_REFUSED_AS = "refuses AND detail = "
_HELD = "fault = 'held_sync'"
# A number, because Spark sorts all events by message to aggregate one text of them.
_REFUSALS = ("released", "failed", "undeliverable", "rejected", RECEIVER_ENDED)
_REFUSAL = f"CAST(array_position(array({', '.join(map(repr, _REFUSALS))}), detail) AS INT)"

MESSAGE: Mapping[str, str] = {
    "attempted": "bool_or(sent)",
    "durable": "bool_or(sent AND coalesce(durable, false))",
    "delay_ms": "max(delay_ms)",
    "priority": "max(priority)",
    "accepted": "bool_or(accepts)",
    "refused": "bool_or(refuses)",
    "refused_outside": "bool_or(refuses_outside)",
    "send_refused_at": "min(at_ns) FILTER (WHERE refuses)",
    "confirmed_at": "min(at_ns) FILTER (WHERE accepts)",
    # A refusal without a detail means rejected. Smallest counter-example to counting events: one outcome that is
    # reported twice.
    "outcomes": "CAST(bool_or(accepts) AS INT)"
    " + CAST(bool_or(refuses AND coalesce(detail NOT IN ('released', 'modified'), true)) AS INT)"
    f" + CAST(bool_or({_REFUSED_AS}'released') AS INT) + CAST(bool_or({_REFUSED_AS}'modified') AS INT)",
    "overdue": "bool_or(forgets AND coalesce(detail = 'unanswered', false))",
    "disconnected": "bool_or(forgets AND coalesce(detail = 'disconnected', false))",
    "handed": "count_if(hands)",
    "handed_at": "min(at_ns) FILTER (WHERE hands)",
    "handed_after_acknowledge": "coalesce(bool_or(hands AND at_ns > last_ack_at), false)",
    # Only an answered acknowledge has certainly left: that of a killed client may still be in its memory.
    "handed_before_answer": "coalesce(bool_or(hands AND at_ns < last_ack_at AND at_ns < last_answered_at), false)",
    "held": "max(holding) FILTER (WHERE hands)",
    "unselected": f"coalesce(bool_or(hands AND detail = '{UNSELECTED}'), false)",
    "selective": f"coalesce(bool_or((hands OR drains) AND detail IN ('{PASSED_OVER}', '{SELECTED}')), false)",
    "selected_before": f"coalesce(bool_or((hands OR drains) AND detail = '{SELECTED}'), false)",
    "redelivered": "count_if(drains)",
    "redelivered_at": "min(at_ns) FILTER (WHERE drains)",
    # The drains that brought it, one bit each by their numbers, and the epoch of the first of them.
    "drained_in": "bit_or(CASE WHEN drains THEN shiftleft(1L, CAST(number AS INT)) ELSE 0L END)",
    "drained_epoch": "min(epoch) FILTER (WHERE drains)",
    # The consumers that were handed it; a publisher that peeks at its own queue counts as one. Two whose codes are 64
    # apart have the same bit.
    "handed_in": f"bit_or(CASE WHEN hands THEN shiftleft(1L, {_PROCESS_CODE} % 64) ELSE 0L END)",
    "handed_by_least": f"min({_PROCESS_CODE}) FILTER (WHERE hands)",
    "handed_by_most": f"max({_PROCESS_CODE}) FILTER (WHERE hands)",
    # Its first consumer, and when that one received messages.
    "owner": f"min_by({_PROCESS_CODE}, at_ns) FILTER (WHERE hands)",
    "owner_began_at": "min_by(process_received_at, at_ns) FILTER (WHERE hands)",
    "owner_ended_at": "min_by(process_received_last_at, at_ns) FILTER (WHERE hands)",
    "handed_last_at": "max(at_ns) FILTER (WHERE hands)",
    "handed_attached_at": "max(attached_at) FILTER (WHERE hands)",
    # Where the first process that received any message got this one, the first time and the last.
    "first_place": f"min(sequence) FILTER (WHERE {_RECEIVED} AND process_received_at = trial_received_at)",
    "last_place": f"max(sequence) FILTER (WHERE {_RECEIVED} AND process_received_at = trial_received_at)",
    # The first drain did not bring it, and a later one did. An acknowledgement in a transaction without a request to
    # commit excuses nothing: its message was due in the first drain.
    "late": "coalesce(min(number) FILTER (WHERE drains) >= 2, false) AND bool_or(sent)"
    " AND NOT bool_or(acks AND txn IS NULL) AND NOT (bool_or(acks) AND bool_or(commit_asked))",
    "set_aside": "bool_or(sets_aside)",
    "received": f"count_if({_RECEIVED})",
    "last_epoch": f"max(epoch) FILTER (WHERE {_RECEIVED})",
    "early_received_at": f"max(at_ns) FILTER (WHERE {_EARLY})",
    "fresh_at": f"min(at_ns) FILTER (WHERE {_FRESH})",
    "first_count": f"min_by(`count`, at_ns) FILTER (WHERE {_FRESH})",
    "first_link": f"min_by(link, at_ns) FILTER (WHERE {_EARLY})",
    "links_differ": f"min(link) FILTER (WHERE {_EARLY}) <> max(link) FILTER (WHERE {_EARLY})",
    "claims": f"count_if({_CLAIM})",
    "claim_link": f"min(link) FILTER (WHERE {_CLAIM})",
    "claim_links_differ": f"min(link) FILTER (WHERE {_CLAIM}) <> max(link) FILTER (WHERE {_CLAIM})",
    "unmarked": "bool_or(drains AND epoch = first_epoch AND NOT coalesce(redelivered, false))",
    "drained_early_at": "max(at_ns) FILTER (WHERE drains AND epoch = first_epoch)",
    "drained_last_at": "max(at_ns) FILTER (WHERE drains)",
    "over_limit": "coalesce(bool_or(hands AND holding > limit), false)",
    "over_window": "coalesce(bool_or(sent AND unanswered_now > limit), false)",
    "began_at": "min(at_ns) FILTER (WHERE begins)",
    "processed_at": "min(at_ns) FILTER (WHERE processed)",
    "refused_at": "min(at_ns) FILTER (WHERE nacks)",
    "refused_code": f"min_by({_REFUSAL}, at_ns) FILTER (WHERE nacks)",
    "gave_back_at": "max(at_ns) FILTER (WHERE nacks)",
    "gave_back_code": f"max_by({_REFUSAL}, at_ns) FILTER (WHERE nacks)",
    "times_given_back": "count_if(nacks OR (acks AND txn IS NOT NULL))",
    "released": "coalesce(bool_or(nacks AND detail = 'released'), false)",
    "failed": "coalesce(bool_or(nacks AND detail = 'failed'), false)",
    # The delivery before a refusal and the one after it, if the same consumer received both.
    "first_handed_count": "min_by(`count`, at_ns) FILTER (WHERE hands)",
    "next_count": "max_by(`count`, at_ns) FILTER (WHERE hands)",
    "next_marked": "max_by(redelivered, at_ns) FILTER (WHERE hands)",
    "handed_on_one_link": "min(link) FILTER (WHERE hands) = max(link) FILTER (WHERE hands)",
    "sendings": "count_if(sent)",
    "exactly_once": "bool_or(sent AND coalesce(detail = 'exactly once', false))",
    "send_txn": "max(txn) FILTER (WHERE sent)",
    "ack_txn": "max(txn) FILTER (WHERE acks)",
    "ack_txns_differ": f"coalesce(min(xxhash64({_PROCESS_CODE}, txn)) FILTER (WHERE acks AND txn IS NOT NULL)"
    f" <> max(xxhash64({_PROCESS_CODE}, txn)) FILTER (WHERE acks AND txn IS NOT NULL), false)",
    "commit_asked_at": "min(at_ns) FILTER (WHERE commit_asked)",
    "committed_at": "min(at_ns) FILTER (WHERE commits)",
    "commit_refused": "coalesce(bool_or(commit_fails), false)",
    # The first fault after the request, in the run of the broker that answered; null without one. And which one it is.
    "confirm_fault_at": "min(next_fault_at) FILTER (WHERE accepts)",
    "ack_fault_at": "min(next_fault_at) FILTER (WHERE ack_settled)",
    "commit_fault_at": "min(next_fault_at) FILTER (WHERE commits)",
    "commit_asked_fault_at": "min(next_fault_at) FILTER (WHERE commit_asked)",
    "sent_period": "min(period) FILTER (WHERE sent)",
    "handed_period": "min(period) FILTER (WHERE hands)",
    "ack_asked_period": "min(period) FILTER (WHERE acks)",
    "confirm_period": "min(period) FILTER (WHERE accepts)",
    "ack_period": "min(period) FILTER (WHERE ack_settled)",
    # A disk is faulty for a whole run of the broker: that fault came before the request, and not after it.
    "sent_under": "min(period) FILTER (WHERE sent) - 1",
    "acked_under": "min(period) FILTER (WHERE acks) - 1",
    "commit_period": "min(period) FILTER (WHERE commits)",
    "commit_asked_period": "min(period) FILTER (WHERE commit_asked)",
    "commit_epoch": "min(epoch) FILTER (WHERE commits)",
    "commit_asked_epoch": "min(epoch) FILTER (WHERE commit_asked)",
    "commit_owner": f"min({_PROCESS_CODE}) FILTER (WHERE commit_asked)",
    "rollback_asked_at": "min(at_ns) FILTER (WHERE rollback_asked)",
    "rolled_back_at": "max(at_ns) FILTER (WHERE rolls_back)",
    "rollback_refused": "bool_or(keeps_on)",
    "discharges": "count_if(commit_asked OR rollback_asked)",
    "received_at": f"min(at_ns) FILTER (WHERE {_RECEIVED})",
    "received_last_at": f"max(at_ns) FILTER (WHERE {_RECEIVED})",
    "receipt_untrue": "bool_or(untrue)",
    # The publisher's side of a window: which answer, its range, and when the session gave up or had to wait.
    "sent_at": "min(at_ns) FILTER (WHERE sent)",
    "lives_ms": "max(`count`) FILTER (WHERE sent)",
    # Its time may have passed before the end of the trial: then its absence proves nothing.
    "expired": "coalesce(bool_or(sent AND at_ns + `count` * 1000000L < ended_at), false)",
    "immediate": "bool_or(sent AND coalesce(detail = 'ack immediately', false))",
    "window_size": "max(limit) FILTER (WHERE sent OR waits OR stays_shut)",
    "gave_up_at": "min(at_ns) FILTER (WHERE forgets AND detail = 'unanswered')",
    "range_first": "min(`first`) FILTER (WHERE accepts OR refuses)",
    "range_last": "min(`last`) FILTER (WHERE accepts OR refuses)",
    "waited_with": "min(`count`) FILTER (WHERE waits)",
    "shut_with": "min(`count`) FILTER (WHERE stays_shut)",
    "unasked": "bool_or(sent AND coalesce(detail = 'no answer asked for', false))",
    "row_starved_at": "min(at_ns) FILTER (WHERE starves AND holding <= 0)",
    "ack_sent_at": "min(at_ns) FILTER (WHERE acks)",
    "acked_at": "min(at_ns) FILTER (WHERE ack_settled)",
    "ack_epoch": "min(epoch) FILTER (WHERE ack_settled)",
    "ack_failed_at": "max(at_ns) FILTER (WHERE ack_fails)",
    "ack_lost": "coalesce(bool_or(forgets_ack), false)",
    "ack_last_at": "max(at_ns) FILTER (WHERE acks)",
    "ack_last_txn": "max_by(txn, at_ns) FILTER (WHERE acks)",
    "ack_last_epoch": "max(epoch) FILTER (WHERE acks)",
    # Its client does not end before the broker has answered its close. Smallest counter-example to asking only whether
    # the fault came after the last event of the client: it waits in vain on a connection that was cut.
    "ack_closed": "coalesce(max_by(epoch_fired_at IS NULL, at_ns) FILTER (WHERE acks), false)",
    "flagged": "coalesce(bool_or(carries_flagged), false)",
    "unflagged": "coalesce(bool_or(carries_unflagged), false)",
    "carried": "count_if(carries_delivery)",
    "crossed": "count_if(carries_part)",
    "carried_last_at": "max(at_ns) FILTER (WHERE carries_delivery AND epoch = first_epoch)",
    "reached_at": "min(at_ns) FILTER (WHERE carries_settled AND epoch = first_epoch)",
    "ack_framed_at": "min(at_ns) FILTER (WHERE carries_ack)",
    "ack_up_to": "coalesce(bool_or(carries_ack_up_to), false)",
    "ack_frames": "count_if(carries_ack AND new_frame)",
    "ack_bytes": "coalesce(sum(CASE WHEN carries_ack AND new_frame THEN `count` END), 0)",
    "altered": f"bool_or({_RECEIVED} AND NOT coalesce(intact, true))",
    "confirm_epoch": "min(epoch) FILTER (WHERE accepts)",
    "written_at": "min(at_ns) FILTER (WHERE writes)",
    "synced_at": "min(at_ns) FILTER (WHERE syncs)",
    "sync_held": f"coalesce(bool_or(syncs AND {_HELD}), false)",
    "sync_failed_at": "min(at_ns) FILTER (WHERE fails_sync)",
    "written_last_at": "max(at_ns) FILTER (WHERE writes)",
    "ack_written_at": "min(at_ns) FILTER (WHERE writes_ack)",
    "ack_synced_at": "min(at_ns) FILTER (WHERE syncs_ack)",
    "ack_sync_held": f"coalesce(bool_or(syncs_ack AND {_HELD}), false)",
    "discharge_written_at": "min(at_ns) FILTER (WHERE writes_discharge)",
    "discharge_synced_at": "min(at_ns) FILTER (WHERE syncs_discharge)",
    "discharge_sync_held": f"coalesce(bool_or(syncs_discharge AND {_HELD}), false)",
    "discharge_failed_at": "min(at_ns) FILTER (WHERE fails_discharge)",
    "discharge_written_last_at": "max(at_ns) FILTER (WHERE writes_discharge)",
    "returned_at": "min(at_ns) FILTER (WHERE returns)",
    "granted": "bool_or(grants)",
    "denied": "bool_or(denies)",
    # Of the trial: in the row of the events that name no message.
    "foreign_ids": f"count_if({_RECEIVED} AND foreign_id IS NOT NULL)",
}
"""One row a message. Times are CLOCK_MONOTONIC nanoseconds, null if it did not happen."""

_OF_PRODUCER = "OVER (PARTITION BY trial, producer)"
_LATER_SENT = "OVER (PARTITION BY trial, producer ORDER BY n DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
_NEXT_SENT = "OVER (PARTITION BY trial, producer ORDER BY n DESC)"
# Of one consumer: two that share a queue owe each other no order.
_HANDED_IN_ORDER = "OVER (PARTITION BY trial, owner ORDER BY handed_at"
_UNTIL_THEN = f"{_HANDED_IN_ORDER} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
# What a transaction asked of a message has no effect after a restart.
_UNDONE = "CASE WHEN ack_txn IS NULL THEN received = 0 ELSE coalesce(last_epoch > commit_asked_epoch, false) END"
# Sent in one transaction and acknowledged in another: its columns do not say which of them was committed.
_OF_TWO = "(send_txn IS NOT NULL AND ack_txn IS NOT NULL)"
_ROLLED_BACK = "(handed = 1 AND ack_txn IS NOT NULL AND NOT ack_txns_differ AND rolled_back_at IS NOT NULL)"
_TXN = f"CASE WHEN {_ROLLED_BACK} THEN concat(owner, ' ', ack_txn, ' ', coalesce(priority, 4)) END"
_DONE_AT = "coalesce(confirmed_at, committed_at)"
_COMMITTED = "(attempted AND send_txn IS NOT NULL AND committed_at IS NOT NULL AND NOT refused)"
# The first outcome of a send counts; of one that was sent again, none does that another one contradicts.
_CONFIRMED = (
    "(accepted AND send_txn IS NULL"
    " AND (NOT refused OR (sendings = 1 AND coalesce(confirmed_at < send_refused_at, false))))"
)
_OWED = (
    f"(({_CONFIRMED} OR {_COMMITTED}) AND redelivered = 0 AND ack_sent_at IS NULL AND refused_at IS NULL"
    " AND NOT set_aside AND NOT expired)"
)
# A script that compares two halves has one producer in each, and ends each with a crash.
_HALF_ENDED_AT = "CASE WHEN producer = 1 THEN fired_at ELSE last_fired_at END"
_EARLY_NS = 100_000_000
"""What is early by less does not count: brokers look at a clock of milliseconds, which others may set."""
_NEVER = f"{2**63 - 1}L"
# Spark sorts again wherever the next window does not begin with the columns of the sort before: windows of the same
# first columns follow each other, the one with an order first.
TRIAL_WINDOWS: Mapping[str, str] = {
    # Whether the next message of the producer came from the same queue in the same drain, and came first.
    "next_came_first": f"coalesce(lag(CASE WHEN handed = 0 AND durable THEN redelivered_at END) {_NEXT_SENT}"
    f" < redelivered_at AND lag(queue) {_NEXT_SENT} = queue AND lag(drained_in) {_NEXT_SENT} = drained_in, false)",
    # The same of messages whose acknowledgements were rolled back.
    "next_returned_first": f"coalesce(lag(CASE WHEN {_ROLLED_BACK} AND durable THEN redelivered_at END) {_NEXT_SENT}"
    f" < redelivered_at AND lag({_TXN}) {_NEXT_SENT} = {_TXN} AND lag(sent_at) {_NEXT_SENT} > sent_at"
    f" AND lag(queue) {_NEXT_SENT} = queue AND lag(drained_in) {_NEXT_SENT} = drained_in, false)",
    "lower_place": "min(first_place) OVER (PARTITION BY trial, queue ORDER BY coalesce(priority, 4) DESC"
    " RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)",
    "later_sent_place": f"min(first_place) {_LATER_SENT}",
    "starved_at": f"min(row_starved_at) {_OF_QUEUE}",
    "txn_applied": f"coalesce(max(NOT {_OF_TWO} AND NOT ack_txns_differ AND NOT ({_UNDONE}))"
    " OVER (PARTITION BY trial, commit_owner, coalesce(ack_txn, send_txn)), false)",
    "last_confirmed": "max(CASE WHEN accepted THEN n END) OVER (PARTITION BY trial, producer)",
    # The sends of one publisher, which then falls silent; and the time of a round trip.
    "burst": f"count_if(attempted) {_OF_PRODUCER}",
    "burst_began_at": f"min(sent_at) {_OF_PRODUCER}",
    "burst_ended_at": f"max(sent_at) {_OF_PRODUCER}",
    "burst_answered_at": f"min(coalesce(confirmed_at, gave_up_at)) {_OF_PRODUCER}",
    "immediates": "count_if(immediate AND accepted) OVER (PARTITION BY trial, producer, range_last)",
    "round_trip_ns": f"max(committed_at - commit_asked_at) {_OF_TRIAL}",
    "longest_answer_ns": f"coalesce(max(confirmed_at - sent_at) {_OF_TRIAL}, 0)",
    "default_wait_ns": "min(CASE WHEN n = 1 AND send_txn IS NULL AND confirm_epoch = first_epoch"
    f" THEN confirmed_at - sent_at END) {_OF_TRIAL}",
    # The latest acknowledgement of earlier deliveries; an open delivery has none, ever.
    "earlier_ack_at": f"max(CASE WHEN handed > 0 THEN coalesce(ack_sent_at, {_NEVER}) END) {_UNTIL_THEN}",
    "next_processed_at": f"min(processed_at) {_HANDED_IN_ORDER} ROWS BETWEEN 1 FOLLOWING AND 1 FOLLOWING)",
    # A broker that delivers a message that was sent at this instant did not drop the consumer before. Counter-example
    # to the consumer's last event instead: its connection was cut, and it waits without knowing.
    "owner_live_at": "max(CASE WHEN handed_by_least = handed_by_most THEN sent_at END)"
    " OVER (PARTITION BY trial, owner)",
    "one_consumer": f"min(handed_by_least) {_OF_TRIAL} = max(handed_by_most) {_OF_TRIAL}",
    "shared_from": f"max(owner_began_at) {_OF_TRIAL}",
    "shared_until": f"min(owner_ended_at) {_OF_TRIAL}",
    "answered_in_pause": f"coalesce(max(sent_at > halted_at AND confirmed_at < resumed_at) {_OF_TRIAL}, false)",
    # The messages that are still owed, in an order: those whose loss would prove the most come first. A depth names no
    # message, so the first of them are assumed to be those that it counts.
    "owed_place": f"count_if({_OWED}) OVER (PARTITION BY trial"
    " ORDER BY received, durable DESC, producer, n ROWS UNBOUNDED PRECEDING)",
    "rate": f"count_if({_DONE_AT} IS NOT NULL) {_OF_PRODUCER} * 1e9"
    f" / nullif(max({_DONE_AT}) {_OF_PRODUCER} - min(sent_at) {_OF_PRODUCER}, 0)",
    "half_frames": f"sum(ack_frames) {_OF_PRODUCER}",
    "half_bytes": f"sum(ack_bytes) {_OF_PRODUCER}",
    "last_handed_at": f"max(CASE WHEN handed_at < {_HALF_ENDED_AT} THEN handed_at END) {_OF_PRODUCER}",
    "last_processed_at": f"max(CASE WHEN processed_at < {_HALF_ENDED_AT} THEN processed_at END) {_OF_PRODUCER}",
}
# The last two drains came after the last fault, and the last of them brought nothing more.
_ACCOUNTED = (
    "(last_drain >= 2 AND (shiftright(ended_mask, last_drain - 1) & 3L) = 3L"
    " AND (shiftright(brought_mask, last_drain) & 1L) = 0L)"
)
# The last one also found silence, and the broker reported a depth of 0.
_SETTLED = f"({_ACCOUNTED} AND (shiftright(silent_mask, last_drain) & 1L) = 1L)"


def _refusal(code: str) -> str:
    return f"CASE {code} {' '.join(f'WHEN {n} THEN {word!r}' for n, word in enumerate(_REFUSALS, 1))} END"


DERIVED: Mapping[str, str] = {
    "refused_as": _refusal("refused_code"),
    "gave_back_as": _refusal("gave_back_code"),
    "is_message": "n IS NOT NULL",
    "ack_failed": "ack_failed_at IS NOT NULL",
    "answered": "accepted OR refused",
    "unanswered": "attempted AND send_txn IS NULL AND NOT (accepted OR refused)",
    "in_transaction": "attempted AND send_txn IS NOT NULL",
    "committed": _COMMITTED,
    "age_ns": "confirm_fault_at - confirmed_at",
    "of_two_transactions": _OF_TWO,
    "undone": _UNDONE,
    "discharged": "commit_asked_at IS NOT NULL OR rollback_asked_at IS NOT NULL",
    # A provisional answer that was read after the connection ended names no transaction; its send does.
    "confirmed": _CONFIRMED,
    "silent_drains": "bit_count(silent_mask)",
    "answer_at": "coalesce(confirmed_at, gave_up_at)",
    "in_window": "attempted AND send_txn IS NULL AND window_size > 1",
    "ranged": "range_first < range_last",
    "overtaken": "coalesce(later_sent_place < last_place, false)",
    "came_early": f"coalesce(least(received_at, redelivered_at) < sent_at + delay_ms * 1000000L - {_EARLY_NS}L, false)",
    "outranked": "coalesce(lower_place < first_place, false)",
    "waited": "coalesce(confirmed_at < trial_attached_at, false) AND connections <= 1",
    "rolled_back": _ROLLED_BACK,
    "out_of_order": "coalesce(earlier_ack_at > ack_sent_at, false)",
    "unacknowledged": "handed > 0 AND ack_sent_at IS NULL AND refused_at IS NULL",
    # The tracer saw all disk operations; and this answer came from a run of the broker that it watched.
    "seen": "hidden IS NULL",
    "confirm_traced": "(shiftright(traced_epochs, confirm_epoch) & 1L) = 1L",
    "ack_traced": "(shiftright(traced_epochs, ack_epoch) & 1L) = 1L",
    "commit_traced": "(shiftright(traced_epochs, commit_epoch) & 1L) = 1L",
    # It counts from the arrival at the broker, which is before the confirm.
    "expires_at": "confirmed_at + lives_ms * 1000000L",
    # If a policy moved a message to another queue, or its time is over, its absence proves nothing.
    "accounted": f"{_ACCOUNTED} AND NOT set_aside AND NOT expired",
    "settled": f"{_SETTLED} AND NOT set_aside AND NOT expired",
    "settled_anywhere": _SETTLED,
    "read_out": _ACCOUNTED,
    "still_brought": "(shiftright(brought_mask, last_drain) & 1L) = 1L",
    # The depth of the last drain counts it. A final depth of 0 counts none, even if an earlier one was higher.
    "left_in_queue": f"{_OWED} AND NOT {_SETTLED} AND owed_place <= coalesce(left_over, 0)",
    "late_after_restart": "late AND durable AND refused_at IS NULL AND drained_epoch > first_drain_epoch",
    # A message that receive() returned before its next call must not come again; every other one must come.
    "came_otherwise": "CASE WHEN handed_at < last_handed_at THEN received > 1 ELSE received = 0 END",
    "processed_again": "coalesce(processed_at < last_processed_at AND received > 1, false)",
}


def _lost_share(above_ms: int, to_ms: int) -> str:
    """Return SQL for the percentage of the confirmed messages of that age at the fault that was lost."""
    aged = f"confirmed AND durable AND settled AND age_ns > {above_ms}000000L AND age_ns <= {to_ms}000000L"
    return f"100 * count_if({aged} AND received = 0) {_OF_TRIAL} / nullif(count_if({aged}) {_OF_TRIAL}, 0)"


COMPARED: Mapping[str, str] = {
    f"{name}_{half}": f"coalesce(max(CASE WHEN producer = {half} THEN {name} END) {_OF_TRIAL}, false)"
    for name, half in (("came_otherwise", 1), ("came_otherwise", 2), ("processed_again", 1))
} | {f"lost_share_{to_ms}": _lost_share(above_ms, to_ms) for above_ms, to_ms in ((-1_000, 10), (10, 100), (100, 1_000))}
"""Whether any message of one half of a script is so; a half has one producer. And the share lost of each age."""
