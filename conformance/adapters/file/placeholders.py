"""Placeholders such as `{python}` in the texts of a `broker.toml`: find them, and fill them in."""

from __future__ import annotations

import os
import pathlib
import re
import sys
from collections.abc import Iterator, Mapping

from conformance.errors import UsageError

_PACKAGE = pathlib.Path(__file__).resolve().parents[3]
_WORD = re.compile(r"(?<!\$)\{([a-z][a-z0-9_]*(?:\.[A-Za-z0-9_-]+){0,2})\}")
"""`${word}` belongs to a shell or to the product, and stays."""

MEANING = {
    "home": "the folder of the unpacked distribution",
    "here": "the folder of this file",
    "instance": "the folder that the suite creates for this broker",
    "data_dir": "the folder that `data.path` names",
    "log_file": "a log file, beside the output of the process; `ready_log` is searched there too",
    "listen": "the address to listen on",
    "python": "the Python that the suite runs in",
    "python_path": "the PYTHONPATH by which that Python finds the suite",
    "java": "the Java that was found",
    "java_home": "its home",
    "archive": "the JVM option of a class archive, or empty",
}
"""The placeholders of every text. So are `{NAME_port}` of each of `ports`, and `{setting.NAME}`.

A node of several also has `{cluster}`, the folder of all nodes, `{node}`, its number, `{peer.K.NAME_port}` of node K,
and `{other.NAME_port}` of the next node, which of a pair is the other one.
"""


def fill(text: str, words: Mapping[str, str], field: str = "") -> str:
    """Fill in the placeholders of `text`; every other brace stays.

    Raises `UsageError` for an unknown placeholder. It names the closest known one and the `field` of the file.
    """
    for name in placeholders(text):
        if name not in words:
            error = UsageError.unknown("placeholder", name, words)
            raise UsageError(f"{field}: {error}") if field else error
    return fill_known(text, words)


def fill_known(text: str, words: Mapping[str, str]) -> str:
    """Fill in the known placeholders of a product's own file, in which other words in braces are no mistake.

    >>> fill_known("port={amqp_port} {depth} ${amqp_port} {{amqp_port}}", {"amqp_port": "5672"})
    'port=5672 {depth} ${amqp_port} {{amqp_port}}'
    """

    def one(found: re.Match[str]) -> str:
        return words.get(found[1], found[0]) if _is_ours(found) else found[0]

    return _WORD.sub(one, text)


def placeholders(text: str) -> Iterator[str]:
    """The names of the placeholders of a text, in order."""
    return (found[1] for found in _WORD.finditer(text) if _is_ours(found))


def _is_ours(found: re.Match[str]) -> bool:
    """Doubled braces belong to other template languages."""
    text, first, last = found.string, found.start(), found.end()
    return not (text[first - 1 : first] == "{" and text[last : last + 1] == "}")


def python_words() -> dict[str, str]:
    """The values of `{python}` and `{python_path}`; a child process finds this very package by the second."""
    inherited = os.environ.get("PYTHONPATH")
    search = os.pathsep.join([str(_PACKAGE), *([inherited] if inherited else [])])
    return {"python": sys.executable, "python_path": search}
