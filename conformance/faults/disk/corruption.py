"""Change what a broker that is down has on its disk, in one place that a seed draws.

The place is drawn among the bodies of given messages (`StoredBody`), which are found by their first line: a broker that
compresses or encrypts what it stores shows none. Nothing here knows the format of a journal, so what else a change hits
is the broker's affair: it may be data that nothing reads any more.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import pathlib
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

from conformance.errors import FaultError
from conformance.history import WHOLE_BODY, parse_message
from conformance.scenario.script import Corrupt

PAGE = 4096
BEFORE = 32
"""Bytes before a body in which `header_bit` flips one: most formats have the headers of a message there."""

INDEX = 64
"""Bytes of the least file in which `index_bit` flips one: a smaller one is a lock, or names a process."""

DRAWS = 10_000
"""So many places of an index are looked at for one that was written: most of a file may be zeros that nothing reads."""


@dataclasses.dataclass(frozen=True)
class StoredBody:
    """Where a body is stored: the offset of its first line, and those at which what follows it begins and ends."""

    file: pathlib.Path
    line: int
    begin: int
    end: int
    message: str


@dataclasses.dataclass(frozen=True)
class _Damage:
    """The data folder of a broker that is down, the places of bodies in it, and a copy of it from before (`older`).

    `others` are its files that have no stored body, and are no locks.
    """

    data: pathlib.Path
    places: Sequence[StoredBody]
    others: Sequence[pathlib.Path]
    older: pathlib.Path
    rng: random.Random

    @property
    def fullest(self) -> pathlib.Path:
        """The file that has the most stored bodies."""
        return Counter(place.file for place in self.places).most_common(1)[0][0]

    def named(self, file: pathlib.Path) -> str:
        return str(file.relative_to(self.data))

    def flip(self, file: pathlib.Path, begin: int, end: int, where: str = "") -> str:
        """Flip a bit of one byte between two offsets of a file."""
        at = self.rng.randrange(begin, end)
        with file.open("r+b") as stream:
            before = os.pread(stream.fileno(), 1, at)[0]
            after = before ^ 1 << self.rng.randrange(8)
            _write(stream.fileno(), at, bytes([after]))
        return f"byte {at:,} of {self.named(file)} was {before:#04x} and is {after:#04x}{where}"


def corrupt(
    fault: Corrupt,
    data: pathlib.Path,
    messages: Collection[str],
    seed: str,
    *,
    older: pathlib.Path,
    spared: Collection[pathlib.Path] = (),
) -> str:
    """Change the data as the fault says, and return what was changed and where.

    Args:
        fault: What is done.
        data: The folder of a broker that is down.
        messages: Only bodies of these messages count.
        seed: Draws the place.
        older: A copy of the folder from before, for `older_file`.
        spared: Files that are no data, such as logs.

    Raises:
        FaultError: There is no such place, or the change cannot be read back.
    """
    places = list(places_of(data, messages))
    if not places:
        raise FaultError(f"none of {len(messages)} bodies is stored as it was sent: what this broker stores is encoded")
    stores = {place.file for place in places}
    others = [file for file in _files(data) if file not in {*stores, *spared} and file.stat().st_size >= INDEX]
    return _WAYS[fault.how](_Damage(data, places, others, older, random.Random(seed)))


def places_of(data: pathlib.Path, messages: Collection[str]) -> Iterator[StoredBody]:
    """Yield each place in which the body of one of these messages is stored, in the order of files and offsets."""
    wanted = {message.encode(): message for message in messages}
    for file in _files(data):
        with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as stored:
            for found in WHOLE_BODY.finditer(stored):
                if found[1] in wanted:
                    yield StoredBody(file, found.start(), found.start(2), found.end(), wanted[found[1]])


def _files(data: pathlib.Path) -> list[pathlib.Path]:
    """Return every regular file that is not empty."""
    return sorted(path for path in data.rglob("*") if path.is_file() and not path.is_symlink() and path.stat().st_size)


def _write(descriptor: int, at: int, content: bytes) -> None:
    os.pwrite(descriptor, content, at)
    if os.pread(descriptor, len(content), at) != content:
        raise FaultError("a change of the data of the broker cannot be read back")


def _body_bit(damage: _Damage) -> str:
    filled = [place for place in damage.places if place.begin < place.end]
    if not filled:
        raise FaultError("no stored body has more than its first line")
    place = damage.rng.choice(filled)
    return damage.flip(place.file, place.begin, place.end, f", in the body of {place.message}")


def _header_bit(damage: _Damage) -> str:
    behind = [place for place in damage.places if place.line]
    if not behind:
        raise FaultError("no stored body has anything before it in its file")
    place = damage.rng.choice(behind)
    return damage.flip(place.file, max(0, place.line - BEFORE), place.line, f", before the body of {place.message}")


def _index_bit(damage: _Damage) -> str:
    if not damage.others:
        raise FaultError("this broker has no file without stored bodies")
    file = damage.rng.choice(damage.others)
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as stored:
        drawn = (damage.rng.randrange(len(stored)) for _ in range(DRAWS))
        at = next((at for at in drawn if stored[at]), 0)
    return damage.flip(file, at, at + 1)


def _zeroed_page(damage: _Damage) -> str:
    place = damage.rng.choice(damage.places)
    begin = place.line // PAGE * PAGE
    with place.file.open("r+b") as stream:
        _write(stream.fileno(), begin, bytes(min(PAGE, place.file.stat().st_size - begin)))
    return (
        f"bytes {begin:,} to {begin + PAGE - 1:,} of {damage.named(place.file)} are zeros, {place.message} among them"
    )


def _cut_file(damage: _Damage) -> str:
    last = max(damage.places, key=lambda place: parse_message(place.message) or (0, 0))
    at = (last.line + last.end) // 2
    os.truncate(last.file, at)
    return f"{damage.named(last.file)} ends at byte {at:,}, in the body of {last.message}"


def _missing_file(damage: _Damage) -> str:
    damage.fullest.unlink()
    return f"{damage.named(damage.fullest)} is gone"


def _empty_file(damage: _Damage) -> str:
    os.truncate(damage.fullest, 0)
    return f"{damage.named(damage.fullest)} is empty"


def _older_file(damage: _Damage) -> str:
    file = damage.fullest
    kept = damage.older / file.relative_to(damage.data)
    if not kept.is_file() or kept.read_bytes() == file.read_bytes():
        raise FaultError(f"{damage.named(file)} has no older state: nothing in it has changed since the start before")
    file.write_bytes(kept.read_bytes())
    return f"{damage.named(file)} is as it was at the start before"


_WAYS: dict[str, Callable[[_Damage], str]] = {
    "body_bit": _body_bit,
    "header_bit": _header_bit,
    "index_bit": _index_bit,
    "zeroed_page": _zeroed_page,
    "cut_file": _cut_file,
    "missing_file": _missing_file,
    "empty_file": _empty_file,
    "older_file": _older_file,
}
