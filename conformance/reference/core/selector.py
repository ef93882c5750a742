"""Selectors: the comparison of one property of a message with a text, and no other expression."""

from __future__ import annotations

import re
from typing import NamedTuple

from conformance.reference.core import sections

KNOWN = "this broker knows one kind of selector, NAME = 'TEXT'"
_COMPARISON = re.compile(r"\s*(?!JMS)([A-Za-z_$][A-Za-z0-9_$]*)\s*=\s*'((?:[^']|'')*)'\s*")
"""A name that begins with JMS is that of a field and not of a property (Jakarta Messaging 3.1, 3.8.1.1)."""


class Selector(NamedTuple):
    """The property's name and the text that it must have, in each way in which a message may encode them."""

    name: frozenset[bytes]
    text: frozenset[bytes]

    def matches(self, bare: bytes) -> bool:
        """Whether it matches a message without its header; one without the property does not match."""
        return sections.entry(bare, sections.APPLICATION_PROPERTIES, self.name) in self.text


def parse(text: str) -> Selector | None:
    """The selector of this text; None if it is another expression than `NAME = 'TEXT'`.

    >>> parse("colour = 'red'") is None, parse("colour = 'red' OR size > 3") is None
    (False, True)
    """
    found = _COMPARISON.fullmatch(text)
    if found is None:
        return None
    name, value = found[1], found[2].replace("''", "'")
    return Selector(*(sections.encodings(each.encode(), sections.STRING) for each in (name, value)))
