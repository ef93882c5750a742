"""The settlement table: what it allows, and that nothing else is possible."""

from __future__ import annotations

import itertools

import pytest

from conformance.reference.core.queues import Message, Queue
from conformance.reference.core.settlement import COUNTED, TRANSITIONS, IllegalStep, SettlementEvent, State, step


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, SettlementEvent)))
def test_every_pair_is_a_rule_or_an_error(state, event):
    """No pair is answered by anything but the table."""
    if (state, event) in TRANSITIONS:
        assert step(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(IllegalStep, match=f"no rule for {event.name} in state {state.name}"):
            step(state, event)


def test_every_state_is_reached_and_only_gone_is_final():
    """A message is never stuck, except when it is gone."""
    assert {*TRANSITIONS.values(), State.ARRIVING} == set(State)
    assert {state for state, _ in TRANSITIONS} == set(State) - {State.GONE}


def test_an_acknowledged_message_has_one_way_only():
    """After accepted nothing leads back to ready."""
    assert {(e, s) for (at, e), s in TRANSITIONS.items() if at is State.REMOVING} == {
        (SettlementEvent.REMOVED, State.GONE)
    }


@pytest.mark.parametrize(
    "event", [SettlementEvent.RELEASED, SettlementEvent.MODIFIED, SettlementEvent.FAILED, SettlementEvent.ABANDONED]
)
def test_only_deliveries_that_may_have_failed_are_counted(event):
    """Released and modified without delivery-failed are not."""
    message = Message(1, Queue("q"), 1, True, b"", b"")
    for each in (SettlementEvent.STORED, SettlementEvent.SENT, event):
        message.advance(each)

    assert message.state is State.READY
    assert message.failures == (event in COUNTED)
    assert frozenset({SettlementEvent.FAILED, SettlementEvent.ABANDONED, SettlementEvent.EXHAUSTED}) == COUNTED


def test_an_outcome_means_the_same_in_a_transaction():
    """Every event that a link can bring about leads from both states to the same one."""
    held = {event: state for (at, event), state in TRANSITIONS.items() if at is State.ACQUIRED}
    committing = {event: state for (at, event), state in TRANSITIONS.items() if at is State.COMMITTING}

    assert held.pop(SettlementEvent.COMMITTED) is State.COMMITTING
    assert committing.pop(SettlementEvent.REFUSED) is State.ACQUIRED
    assert held == committing


def test_a_message_does_not_expire_in_its_consumers_hands():
    """Only one that waits can."""
    assert {at for at, event in TRANSITIONS if event in (SettlementEvent.EXPIRED, SettlementEvent.DIVERTED)} == {
        State.READY
    }
