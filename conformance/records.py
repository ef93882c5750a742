"""The files of a run beside its histories: what was asked, and what each trial was.

`run.json` holds a `RunFile`: the run, its plan, and the checksums of its evidence. Every folder below `trials/` holds a
`TrialRecord` (`trial.json`) and one history file per process. `broker.json` holds a `BrokerRecord` if the broker is not
one of this package; a copy of its file lies beside it. It is a file of its own because it names paths of one machine,
and a report, which has the `RunRecord`, must not.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import tomllib
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from conformance import paths
from conformance.errors import HistoryError, UsageError
from conformance.history import Header
from conformance.protocols import WIRES
from conformance.scenario.script import Step

Record = TypeVar("Record", bound=msgspec.Struct)

PARTS = "workers"
"""The folder, below that of the run, with one run for each worker process of pytest."""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked of a run, before anything happened. `finished` is False until every trial was recorded.

    `settings` are the effective settings of the subject, `absent` those whose key is nowhere in its configuration,
    `changed` what differs from stock, `deviations` what the harness itself changed so that the broker runs headless.
    `selected` are the ids of the claims asked for, `required` those judged although their conditions are not met;
    `judged_as` names vendors whose sentences the user wants applied although they bind other products. `unable` says
    why: faults that this machine cannot inject, and needs of a scenario that the adapter does not have.
    `configuration` is the difference from the user's own configuration, a unified diff without secrets; empty for
    stock. With one, `changed` is the difference from that. `no_client_reason` says why no trial was possible.
    `weakens` has the settings that a control may change; None in the record of an earlier version, which could change
    each. `policies_unread` says why the policies of an external broker's queues are not known; it is empty if they are,
    or if its file does not say how to ask. `jobs` is how many brokers were on trial at once. `incomplete` is what the
    judge found missing or wrong in the folder of the run; it is never recorded. `left_to_thorough` are the scenarios
    that `--thorough` would have added: others stand for them.
    """

    run: str
    started: str
    command: str
    seed: int
    adapter: str
    version: str
    launcher: str
    protocol: str
    client: str
    title: str
    profiles: tuple[str, ...]
    capabilities: tuple[str, ...]
    settings: dict[str, bool | int | str]
    absent: tuple[str, ...]
    changed: dict[str, bool | int | str]
    deviations: dict[str, str]
    versions: dict[str, str]
    selected: tuple[str, ...]
    required: tuple[str, ...]
    judged_as: tuple[str, ...] = ()
    configuration: str = ""
    unable: dict[str, str] = {}
    weakens: tuple[str, ...] | None = None
    no_client_reason: str = msgspec.field(default="", name="mute")  # its name in `run.json` since schema 1
    policies_unread: str = ""
    vendor: str = ""
    jobs: int = 1
    left_to_thorough: tuple[str, ...] = ()
    finished: bool = False
    interrupted: bool = False
    incomplete: str = ""
    floor_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def product(self) -> str:
        """`Apache ActiveMQ Artemis 2.56.0`."""
        return f"{self.title or self.adapter} {self.version}"

    @property
    def by_vendor(self) -> bool:
        """Whether a vendor's client spoke, and no session of the suite; a protocol may have both."""
        return bool(self.vendor) or self.protocol not in WIRES

    @property
    def over(self) -> str:
        """`amqp`, or `jms through Apache Qpid JMS 2.10.0`."""
        return f"{self.protocol} through {self.client}" if self.vendor else self.protocol


NOT_FIRED = "did not fire"
"""Words of a void trial whose trigger never came."""


_ENDED_BY_BROKER = ("died by itself", "the broker closed the connection of a client")
"""Words of a void trial that the broker ended."""


class TrialRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One trial: its script, its arm, and whether the suite itself failed in it.

    `arm` is `subject` or `control`; `control` is the label of the control that it ran (`Control.label`). `k` is the
    number that the seed drew for the trigger. `steps` are the drawn steps, `client` and `queue` those of the script
    (`Scenario`): a replay compares them. `steps` is None in the record of an earlier version. `flush_ms` is how long
    the broker may keep what it has confirmed before it writes it; 0 if its settings do not say. `rounds` is the most
    that it plays of each `Rounds`. `void` says why nothing
    may be concluded from it: a fault that did not take effect, a process that died by itself, a broker that did not
    start. `void_by_broker`: the broker ended by itself, or did not let a client go on, without a fault; None in
    the record of an earlier version. The judge sets `void_after_fault` if a fault had taken effect in a void trial.
    `floor_seconds` is the time of the restarts and waits alone.
    """

    trial: str
    scenario: str
    arm: str
    control: str
    index: int
    seed: int
    k: int | None
    adapter: str
    settings: dict[str, bool | int | str]
    steps: tuple[Step, ...] | None = None
    client: str = "library"
    queue: dict[str, bool | int] = {}
    flush_ms: int = 0
    rounds: int = 1
    void: str = ""
    void_log: tuple[str, ...] = ()
    void_after_fault: bool = False
    void_by_broker: bool | None = None
    floor_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def is_void_by_broker(self) -> bool:
        """Whether the broker voided the trial; the reason of an earlier version says so."""
        if self.void_by_broker is None:
            return any(words in self.void for words in _ENDED_BY_BROKER)
        return self.void_by_broker

    @property
    def planned(self) -> TrialRecord:
        """The record without the results of the trial."""
        return msgspec.structs.replace(self, void="", void_log=(), void_by_broker=None, floor_seconds=0.0, seconds=0.0)


class Checksum(msgspec.Struct, frozen=True):
    """Size and SHA-256 of a file."""

    size: int
    sha256: str


class RunFile(RunRecord, frozen=True, kw_only=True):
    """All of `run.json`: the run, its plan, and the checksums of its evidence.

    `plan` has every trial that the run set out to record; it grows with what is recorded, and is None in a file of an
    earlier version. `checksums` has the histories and the record of each trial, by the names of trial and file. A trial
    gets its checksums when the run is closed. `seal` is the SHA-256 of all other fields, so that a field that was
    edited later is noticed; empty in a file of an earlier version.
    """

    plan: tuple[TrialRecord, ...] | None = None
    checksums: dict[str, dict[str, Checksum]] = {}
    seal: str = ""

    @property
    def sealed(self) -> RunFile:
        """The file with the seal of its other fields."""
        return msgspec.structs.replace(self, seal=seal(msgspec.json.encode(self)))

    @property
    def run_record(self) -> RunRecord:
        return RunRecord(**{name: getattr(self, name) for name in RunRecord.__struct_fields__})


class JudgedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`judged.json`: what `report.json` rests on, so that `conformance judge` need not judge it again.

    `suite` is the digest of this suite, `evidence` that of everything in the folder that the judge reads.
    """

    suite: str
    evidence: str
    report: Checksum


def judged_record(folder: pathlib.Path) -> JudgedRecord:
    """Return what the report of a run rests on as the folder and the suite are; `OSError` if there is no report."""
    plan = [folder / "run.json", *sorted(folder.glob(f"{PARTS}/*/run.json"))]
    trials = [path for place in sorted((folder / "trials").glob("*")) for path in (place, *evidence(place))]
    return JudgedRecord(
        suite=_suite_digest(),
        evidence=_digest([*plan, *trials], folder),
        report=checksum(folder / "report.json"),
    )


def keep_judged(folder: pathlib.Path) -> None:
    """Write `judged.json`, for the report that the folder has."""
    save(judged_record(folder), folder / "judged.json")


def keep_report(folder: pathlib.Path) -> None:
    """Write `judged.json` for a report that was written again from the evidence that `is_judged` has just read."""
    before = read(folder / "judged.json", JudgedRecord)
    save(msgspec.structs.replace(before, report=checksum(folder / "report.json")), folder / "judged.json")


def is_judged(folder: pathlib.Path) -> bool:
    """Whether this suite wrote the report of a run, from exactly the evidence that the folder has."""
    try:
        return read(folder / "judged.json", JudgedRecord) == judged_record(folder)
    except (HistoryError, OSError):
        return False


@functools.cache
def _suite_digest() -> str:
    """Return the digest of code, claims, scenarios and brokers: two checkouts may have one version."""
    package = pathlib.Path(__file__).parent
    files = [path for top in (package, paths.suites(), paths.fixtures()) for path in top.rglob("*") if path.is_file()]
    return _digest(sorted(path for path in set(files) if path.suffix in (".py", ".yaml", ".toml")), package)


def _digest(files: Iterable[pathlib.Path], home: pathlib.Path) -> str:
    """Return the SHA-256 of the names and contents of these files and folders."""
    total = hashlib.sha256()
    for path in files:
        content = checksum(path).sha256 if path.is_file() else "folder"
        total.update(f"{os.path.relpath(path, home)}\0{content}\0".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def checksum(path: pathlib.Path) -> Checksum:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256")
        return Checksum(stream.tell(), digest.hexdigest())


def evidence(folder: pathlib.Path) -> list[pathlib.Path]:
    """Return the files of a trial that its verdict rests on: `trial.json` and the histories."""
    return [path for path in (folder / "trial.json", *sorted(folder.glob("*.jsonl"))) if path.is_file()]


class FileRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the user: its absolute path, the name of the copy in the run's folder, and the sha256 of its bytes."""

    path: str
    copy: str
    sha256: str


class BrokerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What opens a broker again that its name and version alone do not find.

    `words` are what `--adapter` takes, without version and launcher. `path`, `copy` and `sha256` are those of its file
    (`FileRecord`), empty for a broker of this or another package. `launcher` is the launcher with its argument
    (`external=URL`, `native=FOLDER`), empty if it had none; `rules` is the file of `external=FILE.toml`.
    """

    words: str
    path: str = ""
    copy: str = ""
    sha256: str = ""
    launcher: str = ""
    rules: FileRecord | None = None

    def spec(self, version: str, launcher: str) -> str:
        """Return the whole `--adapter` word; `launcher` is the one without an argument."""
        return f"{self.words}@{version}:{self.launcher or launcher}"

    @property
    def files(self) -> tuple[FileRecord, ...]:
        """The files of the user, which may have changed since the run."""
        own = (FileRecord(path=self.path, copy=self.copy, sha256=self.sha256),) if self.path else ()
        return (*own, *((self.rules,) if self.rules else ()))


def header(run: RunRecord) -> Header:
    """Return the header of every history of the run; a trial fills in the rest."""
    return Header(
        run=run.run,
        scenario="",
        trial="",
        arm="",
        process="",
        seed=run.seed,
        adapter=run.adapter,
        version=run.version,
        protocol=run.protocol,
        client=run.client,
        mode="",
        settings=dict(run.settings),
        changed=dict(run.changed),
        versions=run.versions,
        command=run.command,
    )


def keep_broker(folder: pathlib.Path, asked: str, path: pathlib.Path, launcher: str = "") -> None:
    """Store the broker of a run, and copy its file: a TOML file, or the Python file of a class.

    Args:
        folder: Of the run.
        asked: The words that named it, without version and launcher; `path.py:Class` for a class.
        path: Its file; if there is no such file, the broker belongs to a package, which is found by its name alone.
        launcher: The launcher, with its argument if it had one; the file of an external broker is copied as well.
    """
    word, equals, at = launcher.partition("=")
    rules = None
    if equals and "://" not in at:
        at = str(pathlib.Path(at).absolute())
        rules = _copied(pathlib.Path(at), folder, "external") if at.endswith(".toml") else None
    placed = f"{word}={at}" if equals else ""
    if not path.is_file():
        save(BrokerRecord(words=asked, launcher=placed, rules=rules), folder / "broker.json")
        return
    own = _copied(path.absolute(), folder, "broker")
    words = f"{own.path}:{asked.rpartition(':')[2]}" if path.suffix == ".py" else own.path
    record = BrokerRecord(words=words, path=own.path, copy=own.copy, sha256=own.sha256, launcher=placed, rules=rules)
    save(record, folder / "broker.json")


def _copied(path: pathlib.Path, folder: pathlib.Path, name: str) -> FileRecord:
    data = path.read_bytes()
    copy = f"{name}{path.suffix}"
    (folder / copy).write_bytes(data)
    return FileRecord(path=str(path), copy=copy, sha256=hashlib.sha256(data).hexdigest())


def kept_broker(folder: pathlib.Path) -> tuple[BrokerRecord, pathlib.Path] | None:
    """Return the stored broker of the run and the folder with its copy; None for a broker of this package."""
    for part in parts(folder):
        if (part / "broker.json").is_file():
            return read(part / "broker.json", BrokerRecord), part
    return None


def parts(folder: pathlib.Path) -> list[pathlib.Path]:
    """Return the folder of a run, and those of its worker processes, each of which stored broker and credentials."""
    return [folder, *sorted(folder.glob(f"{PARTS}/*"))]


def file_changed(record: FileRecord, part: pathlib.Path) -> str | None:
    """Return what has changed in a file of the user since: None for nothing, empty for a change without meaning.

    Raises `UsageError` if the file is gone, with what the user can do.
    """
    path, copy = pathlib.Path(record.path), inside(part, record.copy)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"the run tried the broker of {path}, which cannot be read: {error.strerror}. The run kept a copy: put "
            f"{copy} back there with the files that were beside it, or name another by --adapter",
            code="not-read",
            file=path,
        ) from error
    if hashlib.sha256(data).hexdigest() == record.sha256:
        return None
    if path.suffix == ".py":
        return "its code is another"
    try:
        now, then = tomllib.loads(data.decode()), tomllib.loads(copy.read_text())
    except (OSError, ValueError):
        return "it is no TOML any more, or the copy of the run is gone"
    return difference(then, now)


def difference(then: Mapping[str, object], now: Mapping[str, object], at: str = "") -> str:
    """Describe the first key that differs between two tables; return nothing if they are equal."""
    for key in sorted({*then, *now}):
        was, is_ = then.get(key), now.get(key)
        if isinstance(was, dict) and isinstance(is_, dict):
            if found := difference(was, is_, f"{at}{key}."):
                return found
        elif was != is_:
            words = ["nothing" if value is None else repr(value) for value in (was, is_)]
            return f"{at}{key} was {words[0]}, and is {words[1]}"
    return ""


def seal(data: bytes) -> str:
    """Return the SHA-256 of a `run.json` without its seal.

    It is that of the text and not of `RunFile`: a version with another field must not report the file as edited.
    """
    fields = msgspec.json.decode(data, type=dict[str, object])
    return hashlib.sha256(msgspec.json.encode({**fields, "seal": ""}, order="sorted")).hexdigest()


def save(record: msgspec.Struct, path: pathlib.Path) -> None:
    """Write a record in one step (`replace`)."""
    replace(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n", path)


def replace(data: bytes, path: pathlib.Path) -> None:
    """Write a file in one step: a reader sees the old one or the new one."""
    part = path.with_suffix(".part")
    part.write_bytes(data)
    part.replace(path)


def read(path: pathlib.Path, kind: type[Record]) -> Record:
    """Read a record of that kind; raises `HistoryError` if it is missing or not one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError, RecursionError) as error:  # RecursionError: endless opening brackets
        raise HistoryError(f"{path}: {error}") from error


def check_run(folder: pathlib.Path) -> None:
    """Check that the folder is that of a run, and holds nothing but files and folders.

    Raises:
        UsageError: It has no `run.json`; the error names the run if the folder is a part of one.
        HistoryError: It holds a symbolic link, a pipe or a device (`inside`).
    """
    if not (folder / "run.json").is_file():
        above = next((each for each in folder.absolute().parents if (each / "run.json").is_file()), None)
        hint = f"; its run is {above.name}, some folders up" if above else ""
        raise UsageError(
            f"{folder} is not the folder of a run: it has no run.json{hint}", code="not-a-run", folder=folder
        )
    for place, folders, files in os.walk(folder):
        below = pathlib.Path(place).relative_to(folder)
        for name in (*folders, *files):
            inside(folder, str(below / name))
        if below.name != "trials" and "brokers" in folders:
            folders.remove("brokers")  # a broker may make links of its own; what is read there is checked one by one


def inside(folder: pathlib.Path, name: str) -> pathlib.Path:
    """Return the path of `name` below `folder`.

    Raises `HistoryError` if the name leads out of the folder, passes a symbolic link, or is a pipe or a device: a run
    folder may come from another person, and must not make the suite read or write other files of this machine.
    """
    home = folder.resolve()
    wanted = home / name
    try:
        stays = wanted.resolve() == wanted and wanted.is_relative_to(home) and wanted != home
        regular = not wanted.exists() or wanted.is_file() or wanted.is_dir()
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, or a name that no file can have
        raise HistoryError(f"{folder}: {name!r} is not the name of a file: {error}") from error
    if not stays:
        raise HistoryError(
            f"{folder}: {name!r} leads out of the folder or is a symbolic link. A run writes neither: the folder was "
            "changed since, or another person made it. Nothing was read or written. Remove it if you know its origin"
        )
    if not regular:
        raise HistoryError(f"{folder}: {name!r} is a pipe or a device, and a run writes files only; remove it")
    return folder / name
