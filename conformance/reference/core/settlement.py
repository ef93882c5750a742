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
    REMOVING = "acknowledged; its removal is on the way to the disk"
    MOVING = "rejected; its move to the dead-letter queue is on the way to the disk"
    GONE = "removed"


class Event(enum.Enum):
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
    REMOVED = "the removal is stored"
    MOVED = "the move is stored"


_S, _E = State, Event

TRANSITIONS: dict[tuple[State, Event], State] = {
    (_S.ARRIVING, _E.STORED): _S.READY,
    (_S.READY, _E.SENT): _S.ACQUIRED,
    (_S.READY, _E.SENT_SETTLED): _S.REMOVING,
    (_S.ACQUIRED, _E.ACCEPTED): _S.REMOVING,
    (_S.ACQUIRED, _E.REJECTED): _S.MOVING,
    (_S.ACQUIRED, _E.RELEASED): _S.READY,
    (_S.ACQUIRED, _E.MODIFIED): _S.READY,
    (_S.ACQUIRED, _E.FAILED): _S.READY,
    (_S.ACQUIRED, _E.ABANDONED): _S.READY,
    (_S.REMOVING, _E.REMOVED): _S.GONE,
    (_S.MOVING, _E.MOVED): _S.READY,
}
"""Every legal step. An acknowledged message has no way back: a lost link finds no entry for REMOVING."""

COUNTED = frozenset({_E.FAILED, _E.ABANDONED})
"""The events after which delivery-count is one higher.

ABANDONED is counted: the consumer may have acted on the message and died, which is what a reader of delivery-count
wants to know. RELEASED is not: the consumer says that it has not (3.4.4).
"""


class IllegalStep(Exception):
    """The broker asked for a step that the table does not have: a fault of ours, never of a peer."""

    def __init__(self, state: State, event: Event) -> None:
        super().__init__(f"no rule for {event.name} in state {state.name}")


def step(state: State, event: Event) -> State:
    """The state after `event`; raises `IllegalStep` where the table has no entry.

    >>> step(State.ACQUIRED, Event.RELEASED).name
    'READY'
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalStep(state, event) from None
