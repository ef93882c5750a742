"""The acknowledgement modes of a consumer: one table, and nothing else decides.

A mode says when the session acknowledges, how much one acknowledgement covers, and whether the application waits for
the broker's answer to it. The names are those of JMS and of the catalogue (`modes.consumer`).
"""

from __future__ import annotations

import dataclasses
import enum


class When(enum.StrEnum):
    """Who acknowledges, and when."""

    AFTER_PROCESSING = "after processing"
    BY_APPLICATION = "when the application says so"


class Covers(enum.StrEnum):
    """What one acknowledgement covers."""

    THIS = "this message"
    ALL_DELIVERED = "every message delivered so far"


@dataclasses.dataclass(frozen=True)
class Mode:
    """One row of the table. `confirmed`: the session asks for the broker's answer and reads it before it goes on."""

    name: str
    when: When
    covers: Covers
    confirmed: bool


MODES = {
    mode.name: mode
    for mode in (
        Mode("auto", When.AFTER_PROCESSING, Covers.THIS, confirmed=False),
        Mode("client", When.BY_APPLICATION, Covers.ALL_DELIVERED, confirmed=False),
        Mode("individual", When.BY_APPLICATION, Covers.THIS, confirmed=True),
    )
}

SESSION_LIARS = {
    "acknowledges-on-receipt": "an AUTO session that acknowledges before the processing",
    "acknowledges-prefetched": "a CLIENT session that acknowledges what it has not handed over as well",
}
"""Sessions that are wrong in one way, for the suite's checks of itself."""
