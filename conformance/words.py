"""Words for numbers, in texts for people."""

from __future__ import annotations


def plural(count: int, noun: str, several: str = "") -> str:
    """Return a count with its noun; `several` is the plural of one that is not the noun with an s.

    >>> plural(1, "claim"), plural(1240, "message"), plural(2, "power loss", "power losses")
    ('1 claim', '1,240 messages', '2 power losses')
    """
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"


def ordinal(number: int) -> str:
    """Return an ordinal number.

    >>> ordinal(1), ordinal(12), ordinal(1003)
    ('1st', '12th', '1,003rd')
    """
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{suffix}"
