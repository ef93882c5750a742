"""Read a history in blocks of lines: as strict as `history.read`, in little memory.

`history.read` alone says what a valid file is, and what is wrong with any other one. This reader accepts the same files
and has the same events. It decodes a whole block in one call, so it cannot name a line.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from conformance.errors import HistoryError
from conformance.history import SCHEMA, Event, Footer, Header

SIZE = 1 << 19
"""Bytes of a block, up to the end of its last line: its events fit in the cache of a core."""

_DECODER = msgspec.json.Decoder(Header | Event | Footer)


class Block(NamedTuple):
    """Some events in order, and their fields as columns; `footer` is None in each block but the last."""

    header: Header
    events: Sequence[Event]
    columns: Sequence[Sequence[Any]]
    footer: Footer | None


def read(path: pathlib.Path) -> Iterator[Block]:
    """Yield the events of a file; raises `HistoryError` when it comes to anything that is not valid."""
    count, latest = 0, 0
    footer: Footer | None = None
    with path.open("rb") as stream:
        header = _decoded(stream.readline(), path)[0]
        _require(isinstance(header, Header) and header.schema == SCHEMA, path)
        while lines := stream.read(SIZE):
            _require(footer is None, path)
            records = _decoded(lines + stream.readline(), path)
            if isinstance(records[-1], Footer):
                footer = records.pop()
            _require({Event}.issuperset(map(type, records)), path)
            columns = columns_of(records)
            if records:
                times = [columns[1][0] if not count else latest, *columns[1]]
                _require(columns[0] == tuple(range(count, count + len(records))) and times == sorted(times), path)
                count, latest = count + len(records), times[-1]
            yield Block(header, records, columns, footer)
    _require(footer is not None and footer.events == count, path)


def columns_of(events: Sequence[Event]) -> Sequence[Sequence[Any]]:
    """Return the values of each field of these events."""
    return tuple(zip(*map(msgspec.structs.astuple, events), strict=True))


def _decoded(lines: bytes, path: pathlib.Path) -> list[Any]:
    try:
        records = _DECODER.decode_lines(lines)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HistoryError(f"{path.name}: {error}") from error
    # It skips empty lines, and reads a record that takes several lines. Both make more lines than records.
    _require(len(records) == lines.count(b"\n") + (not lines.endswith(b"\n")), path)
    return records


def _require(valid: bool, path: pathlib.Path) -> None:
    if not valid:
        raise HistoryError(f"{path.name} is not a valid history")
