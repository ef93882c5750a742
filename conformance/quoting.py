"""Make foreign text safe to print: a broker, its log, its file or a run folder may hold anything."""

from __future__ import annotations


def visible(text: str) -> str:
    r"""Spell out every character that controls a terminal or a browser; line ends and tabs stay.

    Escape sequences could repaint a terminal, direction marks could reverse a message id.

    >>> visible("a\x1b[2J" + chr(0x202e) + "b")
    'a\\x1b[2J\\u202eb'
    """
    return "".join(char if char in "\n\t" or char.isprintable() else ascii(char)[1:-1] for char in text)
