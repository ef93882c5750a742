"""Store the broker file and the credentials of a run, and read them again for a replay or a bundle."""

from __future__ import annotations

import contextlib
import hashlib
import pathlib
import re
from collections.abc import Iterable

from conformance import adapters, paths, records
from conformance.adapters import Adapter, EffectiveSettings, opening
from conformance.adapters.config import own_configuration
from conformance.adapters.credentials import OPEN, Access
from conformance.errors import UsageError
from conformance.records import BrokerRecord, FileRecord, RunRecord

_PARTS = ("", "from", "to")
"""The parts of a run's folder that describe a broker: an upgrade has two (`Adapter.parts`)."""

_ACCESS = "access.json"
_RECORDED = "recorded"
"""A file of `paths.state()`: digests of what the runs of this user stored. No folder of a stranger can change it."""

_SPEC = re.compile(r"[\w.+-]+@[\w.+-]+:\w+", re.ASCII)


def keep_all(folder: pathlib.Path, adapter: Adapter, typed: Access, settings: EffectiveSettings) -> str:
    """Store what opens the broker of a run again, and note that this user has recorded it.

    Returns the difference from the user's own configuration; empty for stock.
    """
    keep(folder, adapter)
    keep_access(folder, typed)
    own = opening.configuration_of(adapter)
    difference = own.keep(folder, adapter.file, settings) if own else ""
    remember(folder)
    return difference


def keep(folder: pathlib.Path, adapter: Adapter) -> None:
    """Store the broker's data that name and version do not give: a file of the user, or the launcher's place.

    An upgrade has two brokers, each in a part of the folder.
    """
    for part, each in adapter.parts.items():
        asked, _, place = each.spec.partition(f"@{each.version}:")
        packaged = each.path == paths.fixtures() / "brokers" / each.name / "broker.toml"
        if not packaged or "=" in place:
            (folder / part).mkdir(exist_ok=True)
            records.keep_broker(folder / part, asked, pathlib.Path() if packaged else each.path, place)


def keep_access(folder: pathlib.Path, typed: Access) -> None:
    """Write the typed credentials into the folder of a run: they name files of one machine, which no report may."""
    if typed != OPEN:
        records.save(typed, folder / _ACCESS)


def kept_access(folder: pathlib.Path) -> Access:
    """Read the typed credentials of a run."""
    for part in records.parts(folder):
        if (part / _ACCESS).is_file():
            return records.read(part / _ACCESS, Access)
    return OPEN


def check_trust(folder: pathlib.Path, *, replayed: bool, named: bool = False) -> None:
    """Raise `UsageError` if this folder of a run names code, or addresses and secrets, that would be used.

    A run that this user recorded on this machine is trusted, as long as it holds the bytes that were recorded. A bundle
    loads the copy of a broker file that has changed since, so then it needs the user's word. A replay refuses that.

    Args:
        folder: Of the run.
        replayed: A replay also connects to the broker, with the stored configuration and login.
        named: The user named the broker, so the stored broker is not used.
    """
    files = _deciding(folder, replayed=replayed, named=named)
    config = folder / own_configuration.KEPT
    shown = [f"{config.name}/" if config in (path, *path.parents) else str(path.relative_to(folder)) for path in files]
    found = list(dict.fromkeys(shown))
    if found and (_unknown(files) or not (replayed or _unchanged(folder))):
        other = "" if named or found == [_ACCESS] else ", or name a broker of your own by --adapter"
        raise UsageError(
            f"{folder}: {', '.join(found)}: these files of the run say how to start, configure or reach the broker. "
            "They can run any program as you, and send your passwords to any address. Read them. If you trust the "
            f"author of the folder, add --trust{other if replayed else ''}",
            code="untrusted-folder",
            files=tuple(found),
        )


def remember(folder: pathlib.Path) -> None:
    """Note what the folder of a run has now, so that `check_trust` knows it again.

    If it cannot be noted, a replay asks for `--trust`.
    """
    if new := _unknown(_deciding(folder, replayed=True)):
        with contextlib.suppress(OSError):
            paths.state().mkdir(parents=True, exist_ok=True)
            with (paths.state() / _RECORDED).open("a") as recorded:
                recorded.write("".join(f"{digest}\n" for digest in new))


def _unknown(files: Iterable[pathlib.Path]) -> set[str]:
    """Return the digests of these files that no run of this user has noted on this machine."""
    try:
        known = (paths.state() / _RECORDED).read_text().split()
    except OSError:
        known = []
    return {_digest(file) for file in files}.difference(known)


def _digest(path: pathlib.Path) -> str:
    content = records.checksum(path).sha256 if path.is_file() else "not a file"
    return hashlib.sha256(f"{path.name} {content}".encode()).hexdigest()


def _deciding(folder: pathlib.Path, *, replayed: bool, named: bool = False) -> list[pathlib.Path]:
    """Return the files of a run that decide what is started, and which secret is sent where; see `check_trust`."""
    found = []
    for record, part in _brokers(folder):
        if not named and not _harmless(record, replayed=replayed):
            found += [part / name for name in ("broker.json", *(file.copy for file in record.files))]
    if replayed and (config := own_configuration.kept_configuration(folder)):
        found += [config, *sorted(config.rglob("*"))]
    if replayed and kept_access(folder) != OPEN:
        found += [part / _ACCESS for part in records.parts(folder) if (part / _ACCESS).is_file()]
    return found


def _brokers(folder: pathlib.Path) -> list[tuple[BrokerRecord, pathlib.Path]]:
    return [found for part in _PARTS if (found := records.kept_broker(folder / part))]


def _unchanged(folder: pathlib.Path) -> bool:
    return all(_same(file, part) for record, part in _brokers(folder) for file in record.files)


def _harmless(record: BrokerRecord, *, replayed: bool) -> bool:
    """Whether the record only loads an installed adapter. A bundle may also have an address: it never connects."""
    address = record.launcher.startswith("external=") and "://" in record.launcher and not replayed
    known = record.words in (*adapters.names(), *adapters.plugged_adapters())
    return known and not record.path and record.rules is None and (address or not record.launcher)


def adapter_word(run: RunRecord, name: str, version: str) -> str:
    """Return the `--adapter` word of a broker that is installed with the suite or as a package.

    Raises `UsageError` if the record of a run names anything else here: a file, a class, an address or a folder.
    """
    found = f"{name}@{version}:{run.launcher}"
    known = [*adapters.names(), *adapters.plugged_adapters()]
    if name not in known:
        raise UsageError.unknown("adapter", name, known)
    if not _SPEC.fullmatch(found):
        raise UsageError(
            f"{found!r} in run.json: expected NAME@VERSION:LAUNCHER and nothing else", code="bad-adapter", word=found
        )
    return found


def spec(folder: pathlib.Path, run: RunRecord, version: str, notices: list[str]) -> str:
    """Return the `--adapter` word of the broker of the run; append to `notices` what the user should know of its files.

    Raises `UsageError` if a file is gone or has changed in meaning.
    """
    kept = records.kept_broker(folder)
    if kept is None:
        return adapter_word(run, run.adapter, version)
    record, part = kept
    found = record.spec(version, run.launcher)
    for file in record.files:
        changed = records.file_changed(file, part)
        if changed:
            today = found if record.launcher else record.words
            raise UsageError(
                f"{file.path} has changed since the run: {changed}. The run kept a copy, {part / file.copy}: put it "
                f"back, or try the broker as it is today by --adapter {today}",
                code="file-changed",
                file=file.path,
            )
        if changed is not None:
            notices.append(f"{file.path} has changed since, in words that mean the same")
    return found


def spec_of_then(folder: pathlib.Path, run: RunRecord, version: str) -> str:
    """Return the same word, with the copy that the run stored for each file that is gone or has changed."""
    kept = records.kept_broker(folder)
    if kept is None:
        return adapter_word(run, run.adapter, version)
    record, part = kept
    found = record.spec(version, run.launcher)
    for file in record.files:
        if not _same(file, part):
            found = found.replace(file.path, str(records.inside(part, file.copy).absolute()))
    return found


def _same(file: FileRecord, part: pathlib.Path) -> bool:
    try:
        return not records.file_changed(file, part)
    except UsageError:
        return False
