"""Words in braces: what `{python}` and its like stand for, and how a text is filled with them."""

from __future__ import annotations

import os
import pathlib
import re
import sys
from collections.abc import Iterator, Mapping

from conformance.errors import UsageError

_PACKAGE = pathlib.Path(__file__).resolve().parents[3]
_WORD = re.compile(r"(?<!\$)\{([a-z][a-z0-9_]*(?:\.[A-Za-z0-9_-]+)?)\}")
"""`${word}` is a shell's or a product's own, and stays."""


def fill(text: str, words: Mapping[str, str], field: str = "") -> str:
    """`text` with its placeholders filled in; every other brace stays.

    Raises `UsageError` that names one that does not exist, the closest that does, and the `field` of the file.
    """
    for name in placeholders(text):
        if name not in words:
            error = UsageError.unknown("placeholder", name, words)
            raise UsageError(f"{field}: {error}") if field else error
    return fill_known(text, words)


def fill_known(text: str, words: Mapping[str, str]) -> str:
    """The same where a word that does not exist is no mistake: a product's configuration is full of braces.

    >>> fill_known("port={amqp_port} {depth} ${amqp_port} {{amqp_port}}", {"amqp_port": "5672"})
    'port=5672 {depth} ${amqp_port} {{amqp_port}}'
    """

    def one(found: re.Match[str]) -> str:
        return words.get(found[1], found[0]) if _is_ours(found) else found[0]

    return _WORD.sub(one, text)


def placeholders(text: str) -> Iterator[str]:
    """The words in braces of a text, in order."""
    return (found[1] for found in _WORD.finditer(text) if _is_ours(found))


def _is_ours(found: re.Match[str]) -> bool:
    """Doubled braces are those of other template languages."""
    text, first, last = found.string, found.start(), found.end()
    return not (text[first - 1 : first] == "{" and text[last : last + 1] == "}")


def python_words() -> dict[str, str]:
    """The words of brokers written in Python; `{python_path}` lets a child find this very package."""
    inherited = os.environ.get("PYTHONPATH")
    search = os.pathsep.join([str(_PACKAGE), *([inherited] if inherited else [])])
    return {"python": sys.executable, "python_path": search}
