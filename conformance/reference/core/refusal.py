"""Why a broker does not take what a peer sent: a condition of AMQP 1.0 and a sentence for a person."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

LIMIT = "amqp:resource-limit-exceeded"
"""The condition where something is full (AMQP 1.0 section 2.8.15)."""


SIZE = "amqp:link:message-size-exceeded"
"""The condition where a message is larger than the broker takes (AMQP 1.0 section 2.8.17)."""

DELETED = "amqp:resource-deleted"
"""The condition where a queue was deleted while a link to it, or a transaction about it, was open (section 2.8.15)."""


class Refusal(NamedTuple):
    """What is refused is certainly not stored, and never will be; `condition` is a name of AMQP 1.0."""

    condition: str
    description: str


Refused = Callable[[Refusal], None]


def untold(refusal: Refusal) -> None:
    """For an operation that nobody waits for: what is sent settled has no answer."""
