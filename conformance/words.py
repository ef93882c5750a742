"""Words for numbers, in texts for people."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> plural(1, "claim"), plural(1240, "message")
    ('1 claim', '1,240 messages')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def ordinal(number: int) -> str:
    """Return an ordinal number.

    >>> ordinal(1), ordinal(12), ordinal(1003)
    ('1st', '12th', '1,003rd')
    """
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{suffix}"
