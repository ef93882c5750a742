"""What the rows of the table have in common: how often a liar lies, and how a row is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.reference.core.settlement import SettlementEvent
from conformance.reference.honest import Answered, Asked, Lie

PERIOD = 100
"""Scenarios publish some 300 messages and consume some 150 before a fault, so a lie comes within the first 100
operations and again every 100."""

SEVENTH, TENTH = 7, 10


def lie(does: str, shows: str = "", *, fault: str = "none", needs: str = "standard", **overrides: Any) -> Lie:
    return Lie(does, tuple(shows.split()), fault, needs, overrides)


def answers(
    asked: Asked, answered: Answered | float, every: int = 1, *, of_all: bool = True
) -> Callable[[Asked, int, bool], Answered | float]:
    """Give the answer to every n-th operation of one kind at another time than after the sync.

    Not `of_all`: only to those of a connection that was not the first to send to the queue.
    """
    return lambda kind, send, beside: (
        answered if kind is asked and send % every == 0 and (beside or of_all) else Answered.STORED
    )


def takes(said: SettlementEvent, applied: SettlementEvent) -> Callable[[SettlementEvent], SettlementEvent]:
    return lambda outcome: applied if outcome is said else outcome
