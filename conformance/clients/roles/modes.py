"""The acknowledgement modes of a consumer, in one table.

A mode says when the session acknowledges, how much one acknowledgement covers, whether the application waits for the
broker's answer to it, and how it subscribes. The names are those of JMS and of the catalogue (`modes.consumer`).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping


class When(enum.StrEnum):
    """Who acknowledges, and when."""

    BEFORE_PROCESSING = "before the application gets it"
    AFTER_PROCESSING = "after processing"
    BY_APPLICATION = "when the application says so"
    NEVER = "never"


class AckHeader(enum.StrEnum):
    """What the consumer asks of the broker when it subscribes; the values are STOMP's words for `ack`."""

    INDIVIDUAL = "client-individual"
    """Each acknowledgement covers one delivery."""
    CUMULATIVE = "client"
    """On STOMP an acknowledgement covers every delivery before it; AMQP 1.0 has no such thing and sends each."""
    SETTLED = "auto"
    """A delivery counts as consumed when it is sent (AMQP 1.0: snd-settle-mode settled, section 2.8.2)."""


@dataclasses.dataclass(frozen=True)
class Mode:
    """One row of the table.

    `covers_all`: one acknowledgement covers every message delivered so far, else one message. `confirmed`: the session
    asks for the broker's answer and reads it before it goes on. `transacted`: acknowledgements are part of a
    transaction, and the broker answers its commit.
    """

    name: str
    when: When
    covers_all: bool = False
    confirmed: bool = False
    transacted: bool = False
    subscription: AckHeader = AckHeader.INDIVIDUAL


MODES = {
    mode.name: mode
    for mode in (
        Mode("auto", When.AFTER_PROCESSING),
        Mode("dups_ok", When.AFTER_PROCESSING),
        Mode("client", When.BY_APPLICATION, covers_all=True, subscription=AckHeader.CUMULATIVE),
        Mode("individual", When.BY_APPLICATION, confirmed=True),
        Mode("individual_dups_ok", When.BY_APPLICATION, confirmed=True),
        Mode("pre", When.BEFORE_PROCESSING),
        Mode("no_ack", When.NEVER, subscription=AckHeader.SETTLED),
        Mode("transacted", When.BY_APPLICATION, covers_all=True, transacted=True),
    )
}

_LYING: Mapping[str, Mapping[When, Mapping[str, object]]] = {
    "acknowledges-on-receipt": {When.AFTER_PROCESSING: {"when": When.BEFORE_PROCESSING}},
    "acknowledges-after-processing": {When.BEFORE_PROCESSING: {"when": When.AFTER_PROCESSING}},
    "acknowledges-in-every-mode": {
        When.NEVER: {"when": When.AFTER_PROCESSING, "subscription": AckHeader.INDIVIDUAL},
    },
}
"""What a session liar changes in a mode that acknowledges at that time."""


def mode_of(name: str, liar: str) -> Mode:
    """Return a mode, or the one that a session liar has instead.

    >>> mode_of("pre", "acknowledges-after-processing").when.value, mode_of("pre", "").when.value
    ('after processing', 'before the application gets it')
    """
    mode = MODES[name]
    return dataclasses.replace(mode, **_LYING.get(liar, {}).get(mode.when, {}))  # type: ignore[arg-type]


SESSION_LIARS = {
    "acknowledges-on-receipt": "an AUTO session that acknowledges before the processing",
    "acknowledges-prefetched": "a CLIENT session that acknowledges what it has not handed over as well",
    "acknowledges-after-processing": "a PRE session that acknowledges after the processing",
    "acknowledges-in-every-mode": "a NO_ACK session that acknowledges all the same",
    "ignores-its-window": "a publisher that sends although its window is full",
    "blocks-at-half-its-window": "a publisher that waits although half of its window is free",
    "reports-ranges": "a publisher that reports each answer as one to all sends before",
    "accepts-any-mode": "a client of JMS whose simplified API takes every mode",
    "never-reopens-its-window": "a publisher that sends no more once its window was full",
    "returns-before-processing": "a listener of JMS that returns before the processing",
    "forgets-acknowledgements": "a session in which nothing acknowledges",
    "acknowledges-unasked": "a session of JMS that acknowledges what receive() has returned",
    "returns-before-commit": "a session of JMS whose commit() and rollback() return before they have begun",
    "waits-for-each-send": "a session of JMS that asks the broker something before each send() returns",
    "sends-with-the-next-call": "a producer of JMS that sends a message when the next send() is called",
    "confirms-refused-sends": "a session of JMS that tells its listener of a refused send as of a completed one",
    "leaves-out-a-listener": "a session of JMS that does not tell its listener of one answered send",
    "acknowledges-on-arrival": "an AUTO session of JMS that acknowledges a message, and hands it over with the next",
    "sets-the-multiple-flag": "a session of AMQP 0-9-1 that acknowledges several messages with one frame",
    "never-sets-the-flag": "a producer of JMS that sends every message as not persistent",
    "always-sets-the-flag": "a producer of JMS that sends every message as persistent",
    "ignores-the-mode-of-one-send": "a producer of JMS that sends by its own mode where a send was given another",
    "refuses-a-mode": "a client of JMS that has no session with DUPS_OK",
    "reports-another-mode": "a session of JMS that reports another mode than it was created with",
    "commits-where-it-acknowledges": "a session of JMS in which acknowledge() commits",
    "lacks-what-is-asked-for": "a client of JMS without the constant, or the interface, that is asked for",
    "sends-its-first-message-again": "a producer of JMS that sends its first message once more, after the last",
    "tells-a-listener-twice": "a session of JMS that tells its listener of an answered send again",
}
"""Sessions that are wrong in one way: for the suite's checks of itself, and of what a vendor's client does."""
