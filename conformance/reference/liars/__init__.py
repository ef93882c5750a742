"""The liars by name: each is the honest broker, wrong in exactly one way.

`Honest` names the points at which a broker could lie; a row of the table overrides exactly one of them. The broker asks
these questions and never learns who answers. To add a liar, add a row to one of the tables in this folder, and its line
in docs/reference/liars.md. `FAMILIES` has those whose name has a number.
"""

from __future__ import annotations

import re

from conformance.errors import UsageError
from conformance.reference.honest import Honest, Lie
from conformance.reference.liars.delivering import DELIVERING
from conformance.reference.liars.pair import IN_PAIR, PAIRED
from conformance.reference.liars.storing import FAMILIES, STORING
from conformance.reference.liars.transactions import TRANSACTIONS

LIARS: dict[str, Lie] = {**STORING, **DELIVERING, **TRANSACTIONS, **PAIRED}
"""The liars by the name that `--liar` takes."""


def find(name: str) -> Lie:
    """Return the row of a liar, `confirms-10-ms-before-storing` among them. Raises `UsageError` for another name.

    >>> from conformance.reference.honest import Asked
    >>> find("confirms-10-ms-before-storing").behaviour().answered(Asked.SEND, 1, False)
    0.01
    """
    for family, make in FAMILIES.items():
        if found := re.fullmatch(family.replace("N", "([1-9][0-9]{0,5})"), name):
            return make(int(found[1]))
    if name not in LIARS:
        raise UsageError.unknown("liar", name, names())
    return LIARS[name]


def names() -> list[str]:
    return [*LIARS, *FAMILIES]


def behaviour(name: str | None, *, in_pair: bool = False) -> Honest:
    """Return the behaviour for `--liar NAME`, the honest one for None. Raises `UsageError` for an unknown name.

    A liar of a pair is for a broker that is `in_pair`; for another one it is a `UsageError`.
    """
    if name is None:
        return Honest()
    if (found := find(name)).needs == IN_PAIR and not in_pair:
        raise UsageError(f"--liar {name} lies as a member of a pair: give --pair too, or choose another liar")
    return found.behaviour()


def rows() -> dict[str, Lie]:
    """Return every row by the name that people read; a family has its N."""
    return LIARS | {name: make(1) for name, make in FAMILIES.items()}


def describe() -> str:
    return "\n".join(f"  {name}\n      {lie.does}" for name, lie in rows().items())


def table() -> str:
    lines = ["| liar | what it does | anomalies that it shows | under | profile |", "|---|---|---|---|---|"]
    for name, lie in rows().items():
        lines.append(f"| `{name}` | {lie.does} | {' '.join(lie.shows) or 'none'} | {lie.fault} | {lie.needs} |")
    return "\n".join(lines)
