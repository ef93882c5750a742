"""Pack one trial for the maintainer of a broker: a zip that needs nothing of this suite.

Reading order: `source` (what the run holds), `script` (from the drawn steps to `reproduce.py`), `configuration`, `bug`
(the draft of the report), `archive` (the zip, without secrets and paths of this machine).
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable

import msgspec

from conformance import records
from conformance.adapters.credentials import REDACTED, forms
from conformance.adapters.opening import credentials_of
from conformance.errors import UsageError
from conformance.followup.bundle import archive, bug
from conformance.followup.bundle.archive import Contents
from conformance.followup.bundle.configuration import add_configuration
from conformance.followup.bundle.script import Reproduction, write
from conformance.followup.bundle.source import MESSAGES, BundleSource, frames, gather
from conformance.judge.spark import JudgeSession
from conformance.run import artifacts

README = """# {title}

| file | what it is |
|---|---|
{rows}

Paths of the machine that recorded it are replaced by words such as `<run>` and `<home>`.
"""

CONTENTS = {
    "bug.md": "the draft of a bug report",
    "reproduce.py": "repeats the trial without the suite that found it",
    "configuration/": "the files that the broker ran with, and how they differ from stock",
    "broker.log": "everything that the broker wrote, a heading for each file",
    "broker-trial.log": "the part of it that was written during this trial",
    "wire.jsonl": "the frames of the connection, one a line",
    "journal/": "the journal as a fault left it, before the next start; `sizes.json` says how large its files were",
    "timeline.txt": "what happened to some of the messages, with faults and starts",
    "timeline.json": "the same as data",
    "history/": "what every process did, one event a line, and the records of the trial and its run",
    "versions.json": "versions of everything involved",
}


@dataclasses.dataclass(frozen=True)
class Made:
    """The written zip, and notes for the user."""

    path: pathlib.Path
    lines: tuple[str, ...]


def make(
    words: str,
    out: pathlib.Path | None = None,
    spark: JudgeSession | None = None,
    *,
    trust: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> Made:
    """Write the bundle of the trial that `RUN#TRIAL` names; `spark` is a session that is open already.

    With `trust` the broker file of that run is loaded, which can run any program. `note` gets a line before each step.

    Raises:
        UsageError: No such run or trial, the file exists and is a folder, or the run brings code and is not trusted.
        HistoryError: The folder names files outside it, or holds what no run writes.
        JudgeError: Spark could not judge.
    """
    if out is not None and (out.is_dir() or not out.absolute().parent.is_dir()):
        raise UsageError(f"--out {out}: name a file in a folder that exists", code="no-such-folder", file=out)
    source = gather(words, spark, trust=trust, note=note)
    path = out or pathlib.Path(f"{source.record.trial}.zip")
    note(f"writing {path}: {len(source.events):,} events, logs and journals")
    script = _reproduction(source)
    contents = _contents(source, script)
    for secret in _secrets(source):
        contents.members = {name: data.replace(secret, REDACTED.encode()) for name, data in contents.members.items()}
    kept = records.kept_broker(source.folder)
    theirs = [(pathlib.Path(kept[0].path).parent, "<broker>")] if kept and kept[0].path else []
    archive.write(path, contents.members, archive.places(source.folder, *theirs))
    lines = [bug.title(source), *([] if source.findings else [bug.NOTHING])]
    lines += [f"missing: {each}" for each in contents.missing]
    return Made(path, (*lines, *(f"reproduce.py: {each}" for each in script.missing)))


def _contents(source: BundleSource, script: Reproduction) -> Contents:
    contents = Contents()
    add_configuration(source, contents)
    _add_logs(source, contents)
    _add_journals(source, contents)
    if wire := b"".join(msgspec.json.encode(frame) + b"\n" for frame in frames(source)):
        contents.members["wire.jsonl"] = wire
    else:
        contents.missing.append(f"`wire.jsonl`: the trial did not go over the link; {bug.capture(source)}")
    kept = [*sorted(source.place.glob("*.jsonl")), *sorted(source.place.glob("*.json")), source.folder / "run.json"]
    contents.members |= {f"history/{path.name}": path.read_bytes() for path in kept}
    contents.add_json("versions.json", {"broker": f"{source.run.title} {source.run.version}", **source.run.versions})
    timelines = _timelines(source)
    contents.add_json("timeline.json", timelines)
    contents.members["timeline.txt"] = _text_of(timelines).encode()
    contents.members["bug.md"] = bug.text(source, script, timelines, contents.missing).encode()
    if script.text:
        contents.members["reproduce.py"] = script.text.encode()
    there = [name for name in CONTENTS if any(member.startswith(name) for member in contents.members)]
    rows = "\n".join(f"| `{name}` | {CONTENTS[name]} |" for name in there)
    contents.members["README.md"] = README.format(title=bug.title(source), rows=rows).encode()
    return contents


def _secrets(source: BundleSource) -> list[bytes]:
    """Return every form of the passwords of the run, the longest first: none may leave this machine."""
    every = [artifacts.kept_access(source.folder)]
    if source.adapter is not None:
        every.append(credentials_of(source.adapter, source.run.protocol))
    found = {form for access in every for form in forms(access)}
    return [form.encode() for form in sorted(found, key=len, reverse=True)]


def _reproduction(source: BundleSource) -> Reproduction:
    if source.script is None:
        return Reproduction("", (bug.NO_STEPS if source.record.steps is None else bug.NO_SCENARIO,))
    if source.adapter is None:
        return Reproduction("", (f"the broker {source.run.adapter} is not known here, nor how its queues are named",))
    if source.record.control.startswith("session liar"):
        return Reproduction("", ("the client of this trial lied on purpose, and no script does",))
    anomalies = [finding.seen.anomaly for finding in source.findings]
    if not anomalies:
        checks = source.script.decides.items()
        anomalies = [check.anomaly for claim, check in checks if source.catalogue.claims[claim].judged]
    return write(source.script, anomalies, source.adapter, source.run.protocol, source.queue, bug.title(source))


def _add_logs(source: BundleSource, contents: Contents) -> None:
    if source.broker is None or source.evidence is None:
        contents.missing.append("`broker.log`: the run kept no log of the broker for this trial")
        return
    whole, own = [], []
    parts = {log.path: log for log in source.evidence.logs}
    later = [path.name for path in source.broker.glob("start-*.log")]  # of trials after this one
    for name in sorted({*parts, *later}, key=lambda name: (name.startswith("new/"), name)):  # of an upgrade
        path, part = records.inside(source.broker, name), parts.get(name)
        if not path.is_file():
            contents.missing.append(f"`broker.log`: {name} is gone")
            continue
        data = path.read_bytes()
        head = f"=== {name}\n".encode()
        whole.append(head + data)
        if part is not None and part.end > part.begin:
            own.append(head + data[part.begin : part.end])
    contents.members |= {"broker.log": b"".join(whole), "broker-trial.log": b"".join(own)}


def _add_journals(source: BundleSource, contents: Contents) -> None:
    journals = source.evidence.journals if source.evidence else ()
    if not journals:
        contents.missing.append("`journal/`: no copy was made, because no fault ended the broker in this trial")
        return
    for journal in journals:
        path = records.inside(source.place, journal.file) if journal.file else None
        if path is not None and path.is_file():
            contents.members[f"journal/{path.name}"] = path.read_bytes()
        elif path is not None:
            contents.missing.append(f"`journal/`: {journal.file} is gone")
        left_out = journal.left_out.items()
        contents.missing += [f"`journal/`: {name} of start {journal.epoch}: {why}" for name, why in left_out]
    contents.add_json("journal/sizes.json", {str(journal.epoch): journal.sizes for journal in journals})


def _timelines(source: BundleSource) -> list[dict[str, object]]:
    """Return the timelines of the offending messages, or only the faults and starts if there are none."""
    found: list[dict[str, object]] = [
        {
            "claims": [row.claim for row in finding.rows],
            "message": message,
            "queue": source.queue,
            "events": source.timeline(message),
        }
        for finding in source.findings
        for message in finding.seen.messages[:MESSAGES]
    ]
    return found or [{"claims": [], "message": "", "queue": source.queue, "events": source.timeline("")}]


def _text_of(timelines: list[dict[str, object]]) -> str:
    parts = []
    for timeline in timelines:
        about = f"{timeline['message']} in {timeline['queue']}" if timeline["message"] else "faults and starts"
        parts.append("\n".join([about, *bug.timeline_lines(timeline)]))
    return "\n\n".join(parts) + "\n"
