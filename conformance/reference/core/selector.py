"""Selectors: expressions over the application properties of a message (Jakarta Messaging 3.1, 3.8.1).

A value is a text, a number, a truth, or None: a property that is not there, or of another type. So is the answer of a
comparison with None: it is unknown, and a message of which the whole selector is unknown does not match.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from conformance.reference.core import sections

KNOWN = "a selector is an expression of Jakarta Messaging 3.1, 3.8.1, over properties and not over JMS fields"

Values = Mapping[str, object]
_Value = Callable[[Values], Any]

_MOST_TEXT, _MOST_DEPTH = 4_096, 50
"""A longer or deeper selector is not known: the parser calls itself once for each parenthesis."""

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_$][A-Za-z0-9_$]*)|(?P<sign><>|<=|>=|[=<>+\-*/(),]))"
)
_WORDS = frozenset("AND OR NOT BETWEEN LIKE IN IS NULL ESCAPE TRUE FALSE".split())
_COMPARE = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _divide(one: Any, other: Any) -> Any:
    """The quotient; of two whole numbers without what is behind the point, as in Java."""
    if isinstance(one, float) or isinstance(other, float):
        return one / other
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) == (other < 0) else -quotient


_COMPUTE = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": _divide}


class Selector(NamedTuple):
    """What it says of the properties of a message. `negates`: a NOT begins it, which its first operand ends."""

    value: _Value
    negates: bool = False

    def matches(self, bare: bytes) -> bool:
        """Whether it matches a message without its header."""
        return self.value(sections.properties(bare)) is True


class _Unknown(ValueError):
    """The text is no selector that this broker knows."""


def parse(text: str) -> Selector | None:
    """The selector of this text; None if this broker does not know such an expression.

    >>> parse("NOT size > 3 AND colour = 'red'").value({"size": 3, "colour": "red"}), parse("size >")
    (True, None)
    """
    try:
        parser = _Parser(_tokens(text))
        value = parser.any_of()
        parser.end()
        if not isinstance(value({}), bool | None):  # a number or a text is no condition
            raise _Unknown(text)
    except _Unknown:
        return None
    words = [said for _, said in parser.tokens]
    return Selector(value, words[0] == "NOT" and words[1] != "(" and "AND" in words)


def _tokens(text: str) -> list[tuple[str, str]]:
    """The kind and the text of each token; words of the language in capitals."""
    found, at, text = [], 0, text.rstrip()
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or len(text) > _MOST_TEXT:
            raise _Unknown(text)
        kind, said, at = str(token.lastgroup), token[str(token.lastgroup)], token.end()
        if kind == "name" and said.upper() in _WORDS:
            kind, said = "word", said.upper()
        elif kind == "name" and said.startswith("JMS"):
            raise _Unknown(said)
        found.append((kind, said))
    return found


class _Parser:
    """Reads tokens from the left: OR binds least, then AND, NOT, comparisons, sums, products and signs."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens = tokens
        self._at = self._depth = 0

    def _peek(self) -> tuple[str, str]:
        return self.tokens[self._at] if self._at < len(self.tokens) else ("", "")

    def _next(self, *wanted: str) -> str:
        """The next token if it is one of these signs or words; empty if not."""
        kind, said = self._peek()
        if kind not in ("sign", "word") or said not in wanted:
            return ""
        self._at += 1
        return said

    def _need(self, wanted: str) -> None:
        if not self._next(wanted):
            raise _Unknown(wanted)

    def _text(self) -> str:
        kind, said = self._peek()
        if kind != "text":
            raise _Unknown(said)
        self._at += 1
        return said[1:-1].replace("''", "'")

    def end(self) -> None:
        if self._at < len(self.tokens):
            raise _Unknown(self.tokens[self._at][1])

    def any_of(self) -> _Value:
        value = self._all_of()
        while self._next("OR"):
            value = _either(value, self._all_of(), decides=True)
        return value

    def _all_of(self) -> _Value:
        value = self._negated()
        while self._next("AND"):
            value = _either(value, self._negated(), decides=False)
        return value

    def _negated(self) -> _Value:
        odd = False
        while self._next("NOT"):
            odd = not odd
        return _not(self._comparison()) if odd else self._comparison()

    def _comparison(self) -> _Value:
        left = self._sum()
        if sign := self._next(*_COMPARE):
            return _compared(left, sign, self._sum())
        if self._next("IS"):
            there = bool(self._next("NOT"))
            self._need("NULL")
            return lambda values: (left(values) is not None) is there
        negated = bool(self._next("NOT"))
        if self._next("BETWEEN"):
            low = self._sum()
            self._need("AND")
            found = _either(_compared(left, ">=", low), _compared(left, "<=", self._sum()), decides=False)
        elif self._next("LIKE"):
            found = self._like(left)
        elif self._next("IN"):
            found = self._among(left)
        elif negated:
            raise _Unknown("NOT")
        else:
            return left
        return _not(found) if negated else found

    def _like(self, left: _Value) -> _Value:
        pattern = self._text()
        escape = self._text() if self._next("ESCAPE") else ""
        if len(escape) > 1:
            raise _Unknown(escape)
        parts, letters = [""], iter(pattern)
        for letter in letters:
            if letter == "%" and letter != escape:
                parts.append("")
            elif letter == escape:
                parts[-1] += re.escape(next(letters, ""))
            else:
                parts[-1] += "." if letter == "_" else re.escape(letter)
        first, *others = parts
        # Each part at its first place, and no way back: many `%` cost no more than one.
        rest = "".join(f"(?>.*?{part})" for part in others[:-1]) + (f".*{others[-1]}" if others else "")
        matches = re.compile(first + rest, re.DOTALL).fullmatch
        return _of_text(left, lambda text: matches(text) is not None)

    def _among(self, left: _Value) -> _Value:
        self._need("(")
        among = {self._text()}
        while self._next(","):
            among.add(self._text())
        self._need(")")
        return _of_text(left, among.__contains__)

    def _sum(self) -> _Value:
        value = self._product()
        while sign := self._next("+", "-"):
            value = _computed(value, sign, self._product())
        return value

    def _product(self) -> _Value:
        value = self._signed()
        while sign := self._next("*", "/"):
            value = _computed(value, sign, self._signed())
        return value

    def _signed(self) -> _Value:
        negative = False
        while sign := self._next("+", "-"):
            negative ^= sign == "-"
        value = self._one()
        return _computed(_constant(0), "-", value) if negative else value

    def _one(self) -> _Value:
        kind, said = self._peek()
        if kind == "text":
            return _constant(self._text())
        self._at += 1
        if kind == "name":
            return lambda values: values.get(said)
        if kind == "number":
            return _constant(int(said) if said.isdigit() else float(said))
        if said in ("TRUE", "FALSE"):
            return _constant(said == "TRUE")
        self._depth += 1
        if said != "(" or self._depth > _MOST_DEPTH:
            raise _Unknown(said)
        value = self.any_of()
        self._need(")")
        self._depth -= 1
        return value


def _constant(value: object) -> _Value:
    return lambda _: value


def _not(value: _Value) -> _Value:
    def negated(values: Values) -> bool | None:
        found = value(values)
        return not found if isinstance(found, bool) else None

    return negated


def _either(left: _Value, right: _Value, *, decides: bool) -> _Value:
    """OR where True decides, AND where False does: one operand that decides is enough, else both must be known."""

    def found(values: Values) -> bool | None:
        both = (left(values), right(values))
        if any(each is decides for each in both):
            return decides
        return not decides if all(each is (not decides) for each in both) else None

    return found


def _of_text(value: _Value, holds: Callable[[str], bool]) -> _Value:
    def found(values: Values) -> bool | None:
        text = value(values)
        return None if text is None else isinstance(text, str) and holds(text)

    return found


def _compared(left: _Value, sign: str, right: _Value) -> _Value:
    """Numbers of all types with each other; texts and truths only for equality. Values of other kinds are unequal."""
    compare = _COMPARE[sign]

    def found(values: Values) -> bool | None:
        one, other = left(values), right(values)
        if one is None or other is None:
            return None
        if _is_number(one) and _is_number(other):
            return bool(compare(one, other))
        return type(one) is type(other) and sign in ("=", "<>") and bool(compare(one, other))

    return found


def _computed(left: _Value, sign: str, right: _Value) -> _Value:
    def found(values: Values) -> object:
        one, other = left(values), right(values)
        if not (_is_number(one) and _is_number(other)):
            return None
        try:
            return _COMPUTE[sign](one, other)
        except ArithmeticError:
            return None

    return found


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
