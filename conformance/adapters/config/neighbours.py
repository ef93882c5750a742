"""Files beside the main file of a user's configuration: which are copied, and which the copy reads in place."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable

from conformance.adapters.file.config_table import Beside
from conformance.errors import UsageError

_NAMED = re.compile(rb"""(?<![\w:/.$}])/[^\s<>"'&;,?=()\[\]{}]+""")
_OF_THE_IMAGE = ("/bin/", "/dev/", "/lib", "/proc/", "/sbin/", "/sys/", "/usr/")
"""What an image has of its own; one of this machine in its place would break it."""


def read(path: pathlib.Path) -> bytes:
    """What is in the file; `UsageError` where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"it cannot be read: {error.strerror}") from error


def fit(folder: pathlib.Path, rules: Beside) -> bytes:
    """What is in a further file; `UsageError` where a copy of it would reach others, or bind what is not its own."""
    data = read(folder / rules.file)
    looked_at = _uncommented(data, rules.comment.encode()) if rules.comment else data
    for pattern, why in rules.refuses.items():
        if found := re.search(pattern.encode(), looked_at, re.MULTILINE):
            word = " ".join(found[0].decode(errors="replace").split())
            raise UsageError(f"{rules.file}: {word}: {why}; take it out of a copy of the folder, and give that")
    return data


def _uncommented(data: bytes, mark: bytes) -> bytes:
    """Without comments, in a text of Erlang terms: a mark in a string, an atom or a character begins none.

    Counter-example for looking at comments too: the `advanced.config` that is delivered has every key in one.
    """
    tokens = rb""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\$\\?.|""" + re.escape(mark) + rb"[^\n]*"
    return re.sub(tokens, lambda found: b"" if found[0].startswith(mark) else found[0], data, flags=re.DOTALL)


def named_in(texts: Iterable[bytes]) -> list[pathlib.Path]:
    """The files of this machine that these texts name by absolute paths: key stores, certificates.

    A folder is none: those that a broker writes to are rewritten, and no other is given away.
    """
    found = {pathlib.Path(name[0].decode(errors="replace")) for text in texts for name in _NAMED.finditer(text)}
    return sorted(path for path in found if not str(path).startswith(_OF_THE_IMAGE) and path.is_file())
