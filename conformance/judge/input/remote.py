"""Copy runs from a file system that Spark knows (`hdfs://`, `s3a://`) to this machine, by the session that judges them.

A copy has what the judge reads: `run.json` and those of worker processes, and the record and histories of each trial.
Logs and data of brokers, and an earlier report, stay where they are. A copy never replaces a file: a folder that exists
must be an earlier copy of the same run. Then its report is as good as that of any local run that was judged before.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from conformance import records
from conformance.errors import JudgeError, UsageError
from conformance.judge.spark import cause, literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_ONCE = 1 << 25
"""Bytes of files that are collected at once: they are several times in the heap of Spark's JVM."""

_WANTED = f"{{run.json,trials,{records.PARTS}/*/run.json}}"
_EVIDENCE = re.compile(rf"run\.json|{records.PARTS}/[^/]+/run\.json|trials/[^/]+/(trial\.json|[^/]+\.jsonl)")


def is_uri(word: str) -> bool:
    return "://" in word


def copy_runs(spark: SparkSession, uri: str) -> list[pathlib.Path]:
    """Copy the run at this URI, or each run that the pattern matches, to `runs/NAME`; return the folders.

    Raises:
        UsageError: There is no run, or the folder of a copy holds something else.
        JudgeError: Spark cannot read it.
        HistoryError: The name of a file leads out of the folder of its run.
    """
    found = sorted(_files(spark, uri, f"{uri.rstrip('/')}/run.json"))
    return [_copy(spark, path.removesuffix("/run.json"), plan) for path, plan in found]


def _copy(spark: SparkSession, home: str, plan: bytes) -> pathlib.Path:
    # The whole path: a Spark Connect server has another working folder.
    folder = records.inside(pathlib.Path.cwd() / "runs", home.rpartition("/")[2])
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not (folder / "run.json").is_file():
        raise _taken(folder, home)
    copied = {keep(folder, "run.json", plan, home)}  # the first file: an interrupted copy is known by it
    for path, data in _files(spark, home, f"{literal(home)}/{_WANTED}"):
        copied.add(keep(folder, path.removeprefix(f"{home}/"), data, home))
    here = {each for kind in ("trials/*/*.json*", f"{records.PARTS}/*/run.json") for each in folder.glob(kind)}
    if any(_EVIDENCE.fullmatch(each.relative_to(folder).as_posix()) for each in here - copied):
        raise _taken(folder, home)
    return folder


def keep(folder: pathlib.Path, name: str, data: bytes, home: str) -> pathlib.Path:
    """Write a file of the run at `home` into the folder of its copy, unless the judge would not read it.

    Raises:
        HistoryError: The name leads out of the folder.
        UsageError: The folder has another file of that name.
    """
    path = records.inside(folder, name)
    if not _EVIDENCE.fullmatch(name):
        return path
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_bytes(data)
        part.replace(path)
    elif not path.is_file() or path.read_bytes() != data:
        raise _taken(folder, home)
    return path


def _taken(folder: pathlib.Path, home: str) -> UsageError:
    return UsageError(
        f"{home} cannot be copied to {folder}, which holds something else; move that away, or judge it by its name",
        code="folder-not-empty",
        folder=folder,
    )


# No fast test can tell a change of it: it needs Spark.
def _files(spark: SparkSession, uri: str, pattern: str) -> Iterator[tuple[str, bytes]]:  # pragma: no mutate block
    """Yield path and content of the files that match, and hold at most `AT_ONCE` bytes of them, or one file.

    They are collected, although only `verdict` collects what is judged: the JVM keeps all that `toLocalIterator` has
    yielded. Measured: 476 MB in 3,000 files took 476 MB of its heap, and 21 s, since each partition is a job.
    """
    from pyspark.errors import PySparkException

    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    reader = reader.option("pathGlobFilter", "{run.json,trial.json,*.jsonl}")
    try:
        sizes = sorted(reader.load(pattern).select("path", "length").collect())
        for batch in _batches(sizes):
            for row in reader.load(batch).select("path", "content").collect():
                yield row["path"], bytes(row["content"])
    except Exception as error:
        if isinstance(error, PySparkException) and error.getCondition() == "PATH_NOT_FOUND":
            raise UsageError(f"{uri}: there is no run, because it has no run.json", code="not-a-run") from error
        raise JudgeError(
            f"{uri}: Spark cannot read it: {cause(error)}. Is the address right? A file system that Spark does not have"
            " comes as a package: --spark-conf spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION"
        ) from error


def _batches(sizes: Iterable[tuple[str, int]]) -> Iterator[list[str]]:
    """Yield the paths of files that have at most `AT_ONCE` bytes together, or of one file."""
    batch: list[str] = []
    total = 0
    for path, size in sizes:
        if batch and total + size > AT_ONCE:
            yield batch
            batch, total = [], 0
        batch.append(literal(path))
        total += size
    yield batch
