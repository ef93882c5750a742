"""Words in braces: what `{python}` and its like stand for, and how a text is filled with them."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Mapping

from conformance.errors import UsageError

_PACKAGE = pathlib.Path(__file__).resolve().parents[2]


def fill(text: str, words: Mapping[str, str]) -> str:
    """`text` with its placeholders filled in; `UsageError` names one that does not exist."""
    try:
        return text.format_map(words)
    except KeyError as error:
        raise UsageError.unknown("placeholder", str(error.args[0]), words) from error
    except (ValueError, IndexError, AttributeError) as error:
        raise UsageError(f"placeholders of {text!r}: {error}") from error


def python_words() -> dict[str, str]:
    """The words of brokers written in Python; `{python_path}` lets a child find this very package."""
    inherited = os.environ.get("PYTHONPATH")
    search = os.pathsep.join([str(_PACKAGE), *([inherited] if inherited else [])])
    return {"python": sys.executable, "python_path": search}
