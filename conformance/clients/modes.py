"""The acknowledgement modes of a consumer: one table, and nothing else decides.

A mode says when the session acknowledges, how much one acknowledgement covers, whether the application waits for the
broker's answer to it, and how it subscribes. The names are those of JMS and of the catalogue (`modes.consumer`).
"""

from __future__ import annotations

import dataclasses
import enum


class When(enum.StrEnum):
    """Who acknowledges, and when."""

    BEFORE_PROCESSING = "before the application gets it"
    AFTER_PROCESSING = "after processing"
    BY_APPLICATION = "when the application says so"
    NEVER = "never"


class Covers(enum.StrEnum):
    """What one acknowledgement covers."""

    THIS = "this message"
    ALL_DELIVERED = "every message delivered so far"


class Subscription(enum.StrEnum):
    """What the consumer asks of the broker when it subscribes; the values are STOMP's words for `ack`."""

    INDIVIDUAL = "client-individual"
    """Each acknowledgement covers one delivery."""
    CUMULATIVE = "client"
    """On STOMP an acknowledgement covers every delivery before it; AMQP 1.0 has no such thing and sends each."""
    SETTLED = "auto"
    """A delivery counts as consumed when it is sent (AMQP 1.0: snd-settle-mode settled, section 2.8.2)."""


@dataclasses.dataclass(frozen=True)
class Mode:
    """One row of the table. `confirmed`: the session asks for the broker's answer and reads it before it goes on.

    `transacted`: acknowledgements are part of a transaction, and its commit is what is answered.
    """

    name: str
    when: When
    covers: Covers = Covers.THIS
    confirmed: bool = False
    transacted: bool = False
    subscription: Subscription = Subscription.INDIVIDUAL


MODES = {
    mode.name: mode
    for mode in (
        Mode("auto", When.AFTER_PROCESSING),
        Mode("client", When.BY_APPLICATION, Covers.ALL_DELIVERED, subscription=Subscription.CUMULATIVE),
        Mode("individual", When.BY_APPLICATION, confirmed=True),
        Mode("individual_dups_ok", When.BY_APPLICATION, confirmed=True),
        Mode("pre", When.BEFORE_PROCESSING),
        Mode("no_ack", When.NEVER, subscription=Subscription.SETTLED),
        Mode("transacted", When.BY_APPLICATION, Covers.ALL_DELIVERED, transacted=True),
    )
}

SESSION_LIARS = {
    "acknowledges-on-receipt": "an AUTO session that acknowledges before the processing",
    "acknowledges-prefetched": "a CLIENT session that acknowledges what it has not handed over as well",
    "acknowledges-after-processing": "a PRE session that acknowledges after the processing",
    "acknowledges-in-every-mode": "a NO_ACK session that acknowledges all the same",
    "ignores-its-window": "a publisher that sends although its window is full",
    "blocks-at-half-its-window": "a publisher that waits although half of its window is free",
    "never-reopens-its-window": "a publisher that sends no more once its window was full",
}
"""Sessions that are wrong in one way, for the suite's checks of itself."""
