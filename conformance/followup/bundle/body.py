"""Turn the steps of a script into the lines of `main`, and choose the parts of the templates that they need."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from conformance.scenario.script import After, All, Nth


class CannotError(Exception):
    """A step that the minimal script cannot express."""


@dataclasses.dataclass
class Body:
    """The lines of `main`, which parts of the templates they need, and what they leave out, a sentence each.

    `protocol` is the client's; `files` are the names of the journal's files, `largest` the bytes of the largest
    message. `words` are values of the templates. `held` (s) and `failing` say what the disk does to the next steps.
    """

    protocol: str
    files: tuple[str, ...] = ()
    largest: int = 0
    lines: list[str] = dataclasses.field(default_factory=list)
    needs: set[str] = dataclasses.field(default_factory=set)
    missing: list[str] = dataclasses.field(default_factory=list)
    words: dict[str, object] = dataclasses.field(default_factory=dict)
    held: float = 0.0
    failing: bool = False


def call(function: str, words: Mapping[str, object], *, over: str = "words", more: str = "") -> str:
    """Write a call of one of the client's functions.

    >>> call("publish", {"count": 9, "window": 1}, more="fault=fault")
    'publish(words, notes, count=9, window=1, fault=fault)'
    """
    given = [over, "notes", *(f"{name}={value!r}" for name, value in words.items()), *([more] if more else [])]
    return f"{function}({', '.join(given)})"


def cannot(fault: object, where: str = "") -> CannotError:
    """Say that the script has no such fault or trigger."""
    return CannotError(f"the fault {getattr(fault, 'name', fault)!r}{where} is not in it")


def trigger(fault: object, known: set[str]) -> str:
    """Return the arguments of a `Fault` for its trigger; `CannotError` if the client does not count such events."""
    at = getattr(fault, "at", None)
    found: dict[str, int] = {}
    for part in at.parts if isinstance(at, All) else (at,):
        event = "ms" if isinstance(part, After) else part.event if isinstance(part, Nth) else ""
        number = part.ms if isinstance(part, After) else part.k if isinstance(part, Nth) else 0
        if event not in known or event in found or not isinstance(number, int):
            raise cannot(fault, " at this point")
        found[event] = number
    return ", ".join(f"{event}={k}" for event, k in found.items())
