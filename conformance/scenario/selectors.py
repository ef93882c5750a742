"""Selectors of JMS 2.0, 3.8, and which messages each of them matches, by the rules of that section.

They speak of the properties that `Publish.headers` and `Publish.parity` give a message. Those of `TEXTS` compare texts
only, which every protocol can say; those of `NUMBERS` need numbers and truths.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from conformance.history import parse_message
from conformance.scenario.script import Consume

WORDS = ("plain", "it's", "a_b", "axb", "50%", "zwölf", "Plain")
"""The property `word` of a message, by its number."""


def word(number: int) -> str:
    """Return the property `word` of the message of this number."""
    return WORDS[number % len(WORDS)]


@dataclasses.dataclass(frozen=True)
class JmsSelector:
    """The text of a selector, and whether it matches the message of a number. `typed`: not only texts are compared."""

    text: str
    matches: Callable[[int], bool]
    typed: bool = False


def _odd(number: int) -> bool:
    return number % 2 == 1


PARITIES = {
    "odd": JmsSelector("parity = 'odd'", _odd),
    "even": JmsSelector("parity = 'even'", lambda n: not _odd(n)),
}

TEXTS = {
    "quote": JmsSelector("word = 'it''s' AND parity = 'odd'", lambda n: word(n) == "it's" and _odd(n)),
    "escape": JmsSelector(r"word LIKE 'a\_b' ESCAPE '\'", lambda n: word(n) == "a_b"),
    "any letters": JmsSelector("word LIKE '5%'", lambda n: word(n) == "50%"),
    "one letter": JmsSelector(
        "word LIKE 'zw_lf' AND parity IN ('odd', 'none')", lambda n: word(n) == "zwölf" and _odd(n)
    ),
    "not first": JmsSelector("NOT word = 'plain' AND word LIKE 'z%'", lambda n: word(n) == "zwölf"),
    "words in any case": JmsSelector(
        "word = 'Plain' and Not parity = 'odd'", lambda n: word(n) == "Plain" and not _odd(n)
    ),
    "not among": JmsSelector(
        "parity = 'even' AND word NOT IN ('plain', 'axb')", lambda n: not _odd(n) and word(n) not in ("plain", "axb")
    ),
    "AND before OR": JmsSelector(
        "word = 'axb' OR word = 'plain' AND parity = 'odd'",
        lambda n: word(n) == "axb" or (word(n) == "plain" and _odd(n)),
    ),
    "unknown stays unknown": JmsSelector("NOT absent = 'x' OR word = 'Plain'", lambda n: word(n) == "Plain"),
    "null": JmsSelector("absent IS NULL AND word <> 'x' AND (empty = '' OR empty IS NULL)", lambda _: True),
}
"""The last one matches every message."""

_NUMBERS = {
    "point": JmsSelector("number = 1.0", lambda n: n == 1),
    "unequal": JmsSelector("number <> 3 AND number < 4", lambda n: n < 3),
    "between": JmsSelector("number BETWEEN 3 AND 5", lambda n: 3 <= n <= 5),
    "not between": JmsSelector("number NOT BETWEEN 1 AND 38", lambda n: n > 38),
    "sum": JmsSelector("number + 1 = 7", lambda n: n == 6),
    "product": JmsSelector("number * 2 - 1 = 13", lambda n: n == 7),
    "sign": JmsSelector("-number = -8", lambda n: n == 8),
    "fraction": JmsSelector("part < 1 AND number <= 9", lambda n: n <= 9),
    "truth": JmsSelector("truth = TRUE AND number < 11", lambda n: n < 11),
    "truth alone": JmsSelector("truth AND number < 12", lambda n: n < 12),
    "not false": JmsSelector("NOT truth = FALSE AND number < 13", lambda n: n < 13),
    "large": JmsSelector("large >= 1099511627776 AND number < 14", lambda n: n < 14),
    "text is no number": JmsSelector("number = '14' OR number = 15", lambda n: n == 15),
    "not first": JmsSelector("NOT (number > 16) AND NOT (text IS NULL)", lambda n: n <= 16),
    "exponent": JmsSelector("number > 1.6E1 AND number < 19", lambda n: 16 < n < 19),
    "unknown or true": JmsSelector("number = 19 OR absent > 5", lambda n: n == 19),
    "not of both": JmsSelector("NOT (number > 20 AND absent = 1)", lambda n: n <= 20),
    "quotient": JmsSelector("(number - 1) / 4 = 5 AND number = 21", lambda n: n == 21),
    "no blanks": JmsSelector("number>=22 and(number<23)", lambda n: n == 22),
    "parentheses": JmsSelector("2 * (number - 3) = 40", lambda n: n == 23),
}
NUMBERS = {f"number: {name}": dataclasses.replace(each, typed=True) for name, each in _NUMBERS.items()}

SELECTORS = PARITIES | TEXTS | NUMBERS
"""By name (`Consume.selects`)."""


def is_selected(name: str, message: str) -> bool:
    """Whether the selector of this name matches a message; with no name every message is, else none of other senders.

    >>> is_selected("odd", "p1:3"), is_selected("odd", "p1:4"), is_selected("even", "foreign:1"), is_selected("", "x:1")
    (True, False, False, True)
    """
    if not name:
        return True
    parsed = parse_message(message)
    return parsed is not None and SELECTORS[name].matches(parsed[1])


def takers(names: Iterable[str], count: int) -> tuple[Consume, ...]:
    """Return a consumer for each selector, one after the other: each takes what matches of `count` messages, and ends.

    A selector that matches none of what those before it leave is refused, since its consumer would show nothing.

    >>> [taker.stop for taker in takers(("odd", "even"), 5)]
    [3, 2]
    """
    left, found = set(range(1, count + 1)), []
    for name in names:
        taken = {number for number in left if SELECTORS[name].matches(number)}
        if not taken:
            raise ValueError(f"the selector {name!r} matches nothing that is left of {count} messages")
        left -= taken
        found.append(Consume("auto", prefetch=20, selects=name, stop=len(taken)))
    return tuple(found)
