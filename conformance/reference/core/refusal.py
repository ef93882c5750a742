"""Why a broker does not take what a peer sent: a condition of AMQP 1.0 and a sentence for a person."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

LIMIT = "amqp:resource-limit-exceeded"
"""The condition where something is full (AMQP 1.0 section 2.8.15)."""


class Refusal(NamedTuple):
    """What is refused is certainly not stored, and never will be: `condition` is of AMQP 1.0 section 2.8.15."""

    condition: str
    description: str


Refused = Callable[[Refusal], None]
