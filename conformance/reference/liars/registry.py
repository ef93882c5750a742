"""All liars by name. Adding one is a class in one of the modules below, and its line in docs/reference-liars.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import ModuleType

from conformance.errors import UsageError
from conformance.reference.honest import Honest
from conformance.reference.liars import confirming, delivering, forgetting, profiled, settling, storing, transacting
from conformance.reference.liars.liar import LiarBroker

FAMILIES = (storing, forgetting, confirming, delivering, settling, transacting, profiled)


def _members(family: ModuleType) -> Iterator[tuple[str, type[LiarBroker]]]:
    """The liars of a module, in its order: `_NeverAnswers` is never-answers."""
    for name, found in vars(family).items():
        if isinstance(found, type) and found.__module__ == family.__name__:
            yield re.sub(r"(?<=[A-Za-z])(?=[A-Z])", "-", name.removeprefix("_")).lower(), found


FAMILY = {name: family.__name__.rpartition(".")[2] for family in FAMILIES for name, _ in _members(family)}
"""The module that each liar stands in."""

LIARS: dict[str, type[LiarBroker]] = {name: liar for family in FAMILIES for name, liar in _members(family)}
"""The liars by the name that selects them; the docstring of each is its description."""


def behaviour(name: str | None) -> Honest:
    """The behaviour that `--liar NAME` selects, the honest one for None; raises `UsageError` for an unknown name."""
    if name is None:
        return Honest()
    if name not in LIARS:
        raise UsageError.unknown("liar", name, LIARS)
    return LIARS[name]()


def described() -> str:
    """One entry a liar, for `--help`."""
    return "\n".join(f"  {name}\n      {liar.__doc__}" for name, liar in LIARS.items())


def table() -> str:
    """The table of docs/reference-liars.md: a line a liar."""
    lines = ["| liar | what it does | claims it breaks | shown by | profile |", "|---|---|---|---|---|"]
    for name, liar in LIARS.items():
        words = " ".join((liar.__doc__ or "").split())
        lines.append(f"| `{name}` | {words} | {' '.join(liar.breaks) or 'none'} | {liar.fault} | {liar.needs} |")
    return "\n".join(lines)
