"""What may be weakened, so that a control exists for every guarantee.

The defaults are the guarantee; each `false` gives up exactly one part of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from conformance.errors import UsageError

HELP = {
    "persistence": "durable messages are stored in the journal; false: kept in memory only",
    "sync_non_transactional": "sends and acknowledgements are answered when on disk; false: at once, and written later",
    "sync_transactional": "commits are answered when on disk; false: at once, and written later",
    "sync_acknowledgements": "acknowledgements are answered when on disk; false: at once, and written later",
    "journal_buffer_ms": "milliseconds after which what was answered too early is written (never synced)",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The effective settings of one broker; `HELP` says what each means."""

    persistence: bool = True
    sync_non_transactional: bool = True
    sync_transactional: bool = True
    sync_acknowledgements: bool = True
    journal_buffer_ms: int = 3


def parse(words: Iterable[str]) -> Settings:
    """The settings after applying `NAME=VALUE` words in their order.

    Raises `UsageError` for an unknown name (the closest is named) and for a value of the wrong kind.

    >>> parse(["persistence=false", "journal_buffer_ms=500"]).journal_buffer_ms
    500
    """
    chosen: dict[str, Any] = {}
    known = {field.name: type(field.default) for field in fields(Settings)}
    for word in words:
        name, _, text = word.partition("=")
        if name not in known:
            raise UsageError.unknown("setting", name, known)
        chosen[name] = _value(name, text, known[name])
    return Settings(**chosen)


def _value(name: str, text: str, kind: type) -> bool | int:
    if kind is bool and text in ("true", "false"):
        return text == "true"
    if kind is int and text.isdecimal():
        return int(text)
    wanted = "true or false" if kind is bool else "a whole number, zero or more"
    raise UsageError(f"setting {name}: {text!r} is not {wanted}")


def described() -> str:
    """One line a setting, for `--help`."""
    return "\n".join(
        f"  {field.name}={str(field.default).lower()}\n      {HELP[field.name]}" for field in fields(Settings)
    )
