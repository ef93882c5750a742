"""The life of a message in a queue: one table of (state, event) -> state, and nothing else decides.

Sources: AMQP 1.0 sections 2.6.12 (settlement), 3.4 (delivery states) and 3.2.1 (header: delivery-count).
"""

from __future__ import annotations

import enum


class State(enum.Enum):
    """Where a message stands."""

    ARRIVING = "received, and not yet stored as its settings ask"
    READY = "waits for a consumer"
    ACQUIRED = "sent to one link and not acknowledged, or only in a transaction that is open"
    COMMITTING = "given an outcome in a transaction whose commit is on the way to the disk"
    REMOVING = "acknowledged or expired; its removal is on the way to the disk"
    MOVING = "dead or expired; its move to another queue is on the way to the disk"
    GONE = "removed"

    __hash__ = object.__hash__  # a member is equal to itself only; Enum's own costs a message 1 us in all


class SettlementEvent(enum.Enum):
    """What may happen to a message."""

    STORED = "stored: on disk if durable, in memory else"
    SENT = "transferred unsettled"
    SENT_SETTLED = "transferred settled: nothing will come back"
    ACCEPTED = "outcome accepted (3.4.2)"
    REJECTED = "outcome rejected (3.4.3)"
    RELEASED = "outcome released (3.4.4): was not and will not be acted upon"
    MODIFIED = "outcome modified (3.4.5) without delivery-failed"
    FAILED = "outcome modified (3.4.5) with delivery-failed"
    ABANDONED = "the link ended, or settled the delivery, without an outcome"
    EXHAUSTED = "FAILED or ABANDONED once more than its queue allows: it goes to the dead-letter queue"
    DISCARDED = "outcome rejected (3.4.3) in a dead-letter queue: it has nowhere left to go"
    EXPIRED = "its time to live (3.2.1) is over"
    DIVERTED = "its time to live (3.2.1) is over, and its queue has another for such messages"
    COMMITTED = "the transaction that has its outcome is being committed"
    REFUSED = "what would have kept it, or the commit that it is part of, was not taken: the disk is full"
    REMOVED = "the removal is stored"
    MOVED = "the move is stored"

    __hash__ = object.__hash__


_S, _E = State, SettlementEvent

_OUTCOMES: dict[SettlementEvent, State] = {
    _E.ACCEPTED: _S.REMOVING,
    _E.DISCARDED: _S.REMOVING,
    _E.REJECTED: _S.MOVING,
    _E.EXHAUSTED: _S.MOVING,
    _E.RELEASED: _S.READY,
    _E.MODIFIED: _S.READY,
    _E.FAILED: _S.READY,
    _E.ABANDONED: _S.READY,
}
"""What becomes of a message that a link has, by what the link says of it, in a transaction or not."""

TRANSITIONS: dict[tuple[State, SettlementEvent], State] = {
    (_S.ARRIVING, _E.STORED): _S.READY,
    (_S.ARRIVING, _E.REFUSED): _S.GONE,
    (_S.READY, _E.SENT): _S.ACQUIRED,
    (_S.READY, _E.SENT_SETTLED): _S.REMOVING,
    (_S.READY, _E.EXPIRED): _S.REMOVING,
    (_S.READY, _E.DIVERTED): _S.MOVING,
    **{(_S.ACQUIRED, event): state for event, state in _OUTCOMES.items()},
    (_S.ACQUIRED, _E.COMMITTED): _S.COMMITTING,
    **{(_S.COMMITTING, event): state for event, state in _OUTCOMES.items()},
    (_S.COMMITTING, _E.REFUSED): _S.ACQUIRED,
    (_S.REMOVING, _E.REMOVED): _S.GONE,
    (_S.MOVING, _E.MOVED): _S.READY,
}
"""Every legal step. An acknowledged message has no way back: a lost link finds no entry for REMOVING.

An acquired message has none to EXPIRED: its time may end in its consumer's hands, and counts when it comes back.
"""

COUNTED = frozenset({_E.FAILED, _E.ABANDONED, _E.EXHAUSTED})
"""The events after which delivery-count is one higher.

ABANDONED is counted: the consumer may have acted on the message and died, which is what a reader of delivery-count
wants to know. RELEASED is not: the consumer says that it has not (3.4.4).
"""


class IllegalStep(Exception):
    """The broker asked for a step that the table does not have: a fault of ours, never of a peer."""

    def __init__(self, state: State, event: SettlementEvent) -> None:
        super().__init__(f"no rule for {event.name} in state {state.name}")


def step(state: State, event: SettlementEvent) -> State:
    """The state after `event`; raises `IllegalStep` where the table has no entry.

    >>> step(State.ACQUIRED, SettlementEvent.RELEASED).name
    'READY'
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalStep(state, event) from None
