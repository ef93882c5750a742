"""Files beside the main file of a user's configuration: which are copied, and which the copy reads in place."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable

from conformance.adapters.file.config_table import Beside
from conformance.errors import UsageError

_NAMED = re.compile(rb"""(?<![\w:/.$}])/[^\s<>"'&;,?=()\[\]{}]+""")
_OF_THE_IMAGE = ("/bin/", "/dev/", "/lib", "/proc/", "/sbin/", "/sys/", "/usr/")
"""Folders of an image. A file of this machine in their place would break it."""


def read(path: pathlib.Path) -> bytes:
    """Read the file; `UsageError` if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"it cannot be read: {error.strerror}") from error


def fit(folder: pathlib.Path, rules: Beside) -> bytes:
    """Read a further file; `UsageError` if a copy of it would connect to other systems, or bind their addresses."""
    data = read(folder / rules.file)
    looked_at = _uncommented(data, rules.comment.encode()) if rules.comment else data
    for pattern, why in rules.refuses.items():
        if found := re.search(pattern.encode(), looked_at, re.MULTILINE):
            word = " ".join(found[0].decode(errors="replace").split())
            raise UsageError(f"{rules.file}: {word}: {why}; take it out of a copy of the folder, and give that")
    return data


def _uncommented(data: bytes, mark: bytes) -> bytes:
    """Remove the comments of a text of Erlang terms. A mark in a string, an atom or a character begins no comment.

    Why comments are skipped: the `advanced.config` of the package has every key in a comment.
    """
    tokens = rb""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\$\\?.|""" + re.escape(mark) + rb"[^\n]*"
    return re.sub(tokens, lambda found: b"" if found[0].startswith(mark) else found[0], data, flags=re.DOTALL)


def named_in(texts: Iterable[bytes]) -> list[pathlib.Path]:
    """The files of this machine that these texts name by absolute paths, such as key stores and certificates.

    Folders are left out: a folder that the broker writes to is rewritten, and no other is shared.
    """
    found = {pathlib.Path(name[0].decode(errors="replace")) for text in texts for name in _NAMED.finditer(text)}
    return sorted(path for path in found if not str(path).startswith(_OF_THE_IMAGE) and path.is_file())
