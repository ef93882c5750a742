"""Write the zip: the same bytes for the same trial, without anything about the machine."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping

import msgspec

from conformance import paths
from conformance.errors import HistoryError

DATE = (1980, 1, 1, 0, 0, 0)
"""Of every member: the earliest that a zip can say."""

BINARY = (".gz",)
"""Members that are not text; their names are all that could tell of the machine."""

_SECRET = re.compile(rb"(?im)^(\s*[\w.-]*(?:password|passwd|secret|token)[\w.-]*\s*[=:]\s*)(\S.*)$")


@dataclasses.dataclass
class Contents:
    """The members of a bundle by name, and a sentence for everything that it does not have."""

    members: dict[str, bytes] = dataclasses.field(default_factory=dict)
    missing: list[str] = dataclasses.field(default_factory=list)

    def add_json(self, name: str, data: object) -> None:
        self.members[name] = msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n"


def places(folder: pathlib.Path, *more: tuple[pathlib.Path, str]) -> list[tuple[bytes, bytes]]:
    """Return the folders of this machine and their replacements, the longest first: one may be in another."""
    known = [
        (folder, "<run>"),
        *more,
        (paths.cache(), "<cache>"),
        (paths.root(), "<suite>"),
        (pathlib.Path(sys.prefix), "<python>"),
        (pathlib.Path(tempfile.gettempdir()), "<tmp>"),
        (pathlib.Path.home(), "<home>"),
        (pathlib.Path.cwd(), "<here>"),
    ]
    found: dict[bytes, bytes] = {}
    for path, word in known:
        for each in (path.absolute(), path.resolve()):
            if each != pathlib.Path(each.anchor):
                found.setdefault(os.fsencode(each), word.encode())
    return sorted(found.items(), key=lambda pair: (-len(pair[0]), pair[0]))


def clean(data: bytes, known: Iterable[tuple[bytes, bytes]]) -> bytes:
    r"""The text without places of this machine, and without what follows a word for a secret.

    >>> clean(b"in /home/me/x\npassword = abc", [(b"/home/me", b"<home>")])
    b'in <home>/x\npassword = <removed>'
    """
    for place, word in known:
        short = rb"(?<![\w.-])" if place.count(b"/") == 1 else b""  # `/tmp` is also the end of other folders
        data = re.sub(short + re.escape(place) + rb"(?![\w.-])", word, data)
    return _SECRET.sub(rb"\1<removed>", data)


def check_name(name: str) -> None:
    r"""Raise `HistoryError` if a program that unpacks the zip could write the member outside its folder.

    >>> check_name("history/../../.profile")
    Traceback (most recent call last):
    conformance.errors.HistoryError: 'history/../../.profile' cannot be a member of a bundle: its name leads out ...
    """
    parts = name.split("/")
    if name.startswith("/") or {"", ".", ".."} & set(parts) or re.search(r"[\\\x00-\x1f\x7f]|^[A-Za-z]:", name):
        raise HistoryError(
            f"{name!r} cannot be a member of a bundle: its name leads out of the folder that the zip is unpacked in, "
            "on this or another system. Rename or remove the file in the folder of the run"
        )


def write(path: pathlib.Path, members: Mapping[str, bytes], known: Iterable[tuple[bytes, bytes]]) -> None:
    """Write the zip: members by name, dates that say nothing, and text that was cleaned.

    Raises `HistoryError` for a member that `check_name` refuses; nothing is written then.
    """
    pairs = list(known)
    for name in members:
        check_name(name)
    part = path.with_name(path.name + ".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in sorted(members):
            entry = zipfile.ZipInfo(name, DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if name.endswith(".py") else 0o644) << 16
            data = members[name]
            archive.writestr(entry, data if name.endswith(BINARY) else clean(data, pairs))
    part.replace(path)
