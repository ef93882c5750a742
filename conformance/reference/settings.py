"""What may be chosen: guarantees that can be weakened, so that a control exists for each, limits, and rules of queues.

The defaults are the guarantee; each `false` gives up exactly one part of it. What `QueueOptions` has can be chosen for
all queues by `--set`, and for one of them by `--queue`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from conformance.errors import UsageError

MAX_NAME = 255
"""Bytes of a queue's name in the journal."""

_OPTIONS_BEGIN = re.compile(r":(?=\w*=)")
"""Where a queue's name ends and its options begin: a name may have colons too."""

HELP = {
    "durable": "queues are kept over a restart; false: they and their messages are in memory only, even durable "
    "messages; a queue that the data directory has stays durable",
    "max_deliveries": "failed deliveries after which a message goes to the dead-letter queue; 0: never",
    "dead_letter": "the dead-letter queue: what is rejected, or failed too often, goes there, and stays",
    "ttl_ms": "milliseconds that a message lives which says nothing of it; 0: for ever",
    "expiry_queue": "where a message goes, and stays, when its time is over; nothing: it is removed",
    "max_length": "messages in a queue, those on their way to the disk included, beyond which sends are refused; "
    "0: no limit",
    "max_bytes": "bytes of messages (all but their headers) in a queue beyond which sends are refused; 0: no limit",
    "duplicate_ids": "the last so many values of the application property _AMQ_DUPL_ID are remembered for each queue, "
    "and a message that repeats one is accepted and not stored; 0: none",
    "copies_of": "a queue of which this one gets a copy of every message that is sent to it; nothing: of none",
    "persistence": "durable messages are stored in the journal; false: kept in memory only",
    "sync_non_transactional": "sends and acknowledgements are answered when on disk; false: at once, and written later",
    "sync_transactional": "commits are answered when on disk; false: at once, and written later",
    "sync_acknowledgements": "acknowledgements are answered when on disk; false: at once, and written later",
    "journal_buffer_ms": "milliseconds after which what was answered too early is written (never synced)",
    "max_message_bytes": "bytes of a message beyond which it is refused",
    "max_connections": "connections beyond which a new one is refused",
    "max_links": "links, or subscriptions, of one connection beyond which a new one is refused",
    "max_transactions": "open transactions of one connection beyond which a new one is refused",
    "max_queues": "queues beyond which a new name is refused; each segment of the journal begins with all names, and "
    "more than 10,000 long ones leave it little room",
    "creates_queues": "a queue that a client names is made if it is missing; false: its client is refused",
    "max_unfinished_bytes": "bytes of messages that have come in part, of all connections together, beyond which a "
    "connection is refused the rest of its own",
    "max_http_connections": "connections to the HTTP port beyond which a new one is dropped",
    "idle_timeout_ms": "milliseconds of silence after which a peer is taken for dead (AMQP); 0: none is asked of peers",
}


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """The rules of one queue; `HELP` says what each means."""

    durable: bool = True
    max_deliveries: int = 0
    dead_letter: str = "DLQ"
    ttl_ms: int = 0
    expiry_queue: str = ""
    max_length: int = 0
    max_bytes: int = 0
    duplicate_ids: int = 20_000
    copies_of: str = ""


@dataclass(frozen=True, slots=True)
class Settings(QueueOptions):
    """The effective settings of one broker, the rules of the queues that have none of their own among them."""

    persistence: bool = True
    sync_non_transactional: bool = True
    sync_transactional: bool = True
    sync_acknowledgements: bool = True
    journal_buffer_ms: int = 3
    max_message_bytes: int = 104_857_600
    max_connections: int = 1000
    max_links: int = 1000
    max_transactions: int = 1000
    max_queues: int = 10_000
    creates_queues: bool = True
    max_unfinished_bytes: int = 268_435_456
    max_http_connections: int = 64
    idle_timeout_ms: int = 0


OPTIONS = tuple(field.name for field in fields(QueueOptions))
"""What a queue may have of its own."""


def parse(words: Iterable[str]) -> Settings:
    """The settings after applying `NAME=VALUE` words in their order.

    Raises `UsageError` for an unknown name (the closest is named) and for a value of the wrong kind.

    >>> parse(["persistence=false", "journal_buffer_ms=500"]).journal_buffer_ms
    500
    """
    return Settings(**_chosen("setting", words, Settings))


def parse_queues(words: Iterable[str], settings: Settings) -> dict[str, QueueOptions]:
    """The queues that `NAME` or `NAME:option=value,...` words declare, with what `settings` says where a word does not.

    A name ends at the first colon that an option follows. Raises `UsageError` as `parse` does, for a name that is too
    long for the journal, and for a queue that is named twice with different options.

    >>> parse_queues(["a:b", "c:ttl_ms=5,durable=false"], Settings())["c"].ttl_ms
    5
    """
    shared = {name: getattr(settings, name) for name in OPTIONS}
    found: dict[str, QueueOptions] = {}
    for word in words:
        name, *rest = _OPTIONS_BEGIN.split(word, maxsplit=1)
        if not 0 < len(name.encode()) <= MAX_NAME:
            raise UsageError(f"queue {name[:40]!r}: a name has 1 to {MAX_NAME} bytes")
        own = _chosen(f"option of queue {name}", rest[0].split(","), QueueOptions) if rest else {}
        options = QueueOptions(**{**shared, **own})
        if found.setdefault(name, options) != options:
            raise UsageError(f"queue {name}: named twice with different options; give all of them in one --queue")
    return found


def _chosen(what: str, words: Iterable[str], table: type[QueueOptions]) -> dict[str, Any]:
    known = {field.name: type(field.default) for field in fields(table)}
    chosen: dict[str, Any] = {}
    for word in words:
        name, _, text = word.partition("=")
        if name not in known:
            raise UsageError.unknown(what, name, known)
        chosen[name] = _value(f"{what} {name}", text, known[name])
        if name == "dead_letter" and not text:
            raise UsageError(f"{what} {name}: a rejected message needs a queue to go to; give its name")
    return chosen


def _value(what: str, text: str, kind: type) -> bool | int | str:
    if kind is str and len(text.encode()) <= MAX_NAME:
        return text
    if kind is bool and text in ("true", "false"):
        return text == "true"
    if kind is int and text.isascii() and text.isdecimal():
        return int(text)
    wanted = {bool: "true or false", int: "a whole number, zero or more", str: f"a name of {MAX_NAME} bytes at most"}
    raise UsageError(f"{what}: {text!r} is not {wanted[kind]}")


def describe() -> str:
    return "\n".join(
        f"  {field.name}={field.default if isinstance(field.default, str) else str(field.default).lower()}\n"
        f"      {HELP[field.name]}"
        for field in fields(Settings)
    )
