"""What a segment of a soak hands on: the events of its open messages, and the numbers of its final ones.

Both are folders of Parquet files, and `carry.json` has the rows and the checksum of each file. A final message was
confirmed and acknowledged, and nothing is wrong with it: only its number is kept, in ranges, so that a later delivery
of it is seen. Every other message stays open, for as many segments as it takes.
"""

from __future__ import annotations

import dataclasses
import pathlib

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from conformance import records
from conformance.errors import HistoryError
from conformance.records import Checksum

FILE = "carry.json"
_OPEN, _FINAL = "open", "final"

REOPENED = "final in an earlier segment"
"""Detail of an event that stands for those of a final message that came again."""


class CarriedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A Parquet file, by its path below the folder of its segment."""

    path: str
    rows: int
    checksum: Checksum


class CarryManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`carry.json`: every file that the next segment is judged with."""

    files: tuple[CarriedFile, ...]


@dataclasses.dataclass(frozen=True)
class Carry:
    """The carried files of one segment, in its folder."""

    segment: pathlib.Path

    @property
    def open(self) -> str:
        """The events of the messages that are open, as they were packed."""
        return str(self.segment / _OPEN)

    @property
    def final(self) -> str:
        """The numbers of the final messages of all segments so far: `producer`, `low`, `high`."""
        return str(self.segment / _FINAL)

    def close(self) -> None:
        """Write the manifest of what Spark has written; without it, the segment counts as not judged."""
        found = [path for name in (_OPEN, _FINAL) for path in sorted((self.segment / name).glob("*.parquet"))]
        files = [
            CarriedFile(
                path=str(path.relative_to(self.segment)),
                rows=pq.read_metadata(path).num_rows,
                checksum=records.checksum(path),
            )
            for path in found
        ]
        records.save(CarryManifest(files=tuple(files)), self.segment / FILE)

    def check(self) -> None:
        """Raise `HistoryError` unless the files are those of the manifest."""
        manifest = records.read(self.segment / FILE, CarryManifest)
        for file in manifest.files:
            path = records.inside(self.segment, file.path)
            if not path.is_file() or records.checksum(path) != file.checksum:
                why = "it is missing or was changed since it was written"
                raise HistoryError(f"{path}: {why}; put it back, or remove {FILE} beside it and all later segments")

    @property
    def messages(self) -> int:
        """The number of messages that were seen so far: the final ones, and the open ones that never were final."""
        ranges = pq.read_table(self.final, use_threads=False)
        final = int(pc.sum(pc.add(pc.subtract(ranges["high"], ranges["low"]), 1)).as_py() or 0)
        events = pq.read_table(self.open, columns=["producer", "n", "detail"], use_threads=False)
        named = events.filter(pc.is_valid(events["n"]))
        again = named.filter(pc.equal(named["detail"], REOPENED))
        return final + _messages_of(named) - _messages_of(again)


def _messages_of(events: pa.Table) -> int:
    return int(events.group_by(["producer", "n"], use_threads=False).aggregate([]).num_rows)
