"""Draft a bug report: what was promised, what was seen, and how to reproduce it."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from conformance.adapters import Adapter
from conformance.adapters.credentials import OPEN, Access
from conformance.adapters.opening import credentials_of
from conformance.claims import Claim, Value
from conformance.errors import visible
from conformance.followup.bundle.script import Reproduction, password_of, port_of
from conformance.followup.bundle.source import BundleSource
from conformance.followup.upgrade.broker import pair_of
from conformance.judge.plan.timeline import fold
from conformance.judge.rows import Witness
from conformance.protocols import REPRODUCERS
from conformance.report import phrases, pictures
from conformance.scenario.needs import LIVES, declared_options

NO_STEPS = "an earlier version of the suite recorded this trial, and its record does not have the steps as data"
NO_SCENARIO = "this version of the suite has no scenario of that name"

LINES = 24
"""A longer timeline is folded in the text; the file has all of it."""

_HIDDEN = "only the two ends of a TLS connection can read its frames"
NOTHING = (
    "In this trial no claim was violated: there is nothing to report from it. The bundle holds what was recorded, and "
    "the script repeats the trial."
)


def title(source: BundleSource) -> str:
    """Name the broker and what was seen, in one line."""
    what = source.findings[0].seen.figures if source.findings else "nothing was violated"
    return f"{_broker(source)}: {what} ({source.record.scenario})"


def _broker(source: BundleSource) -> str:
    return f"{source.run.title} {source.run.version}"


def text(
    source: BundleSource, made: Reproduction, timelines: Sequence[Mapping[str, Any]], missing: Sequence[str]
) -> str:
    """Write `bug.md`. `timelines` are those of `timeline.json`; `missing` is what the bundle does not have."""
    parts = [f"# {title(source)}", *_opening(source), *_about(source), *_steps(source, made)]
    parts += ["## Expected", *_expected(source), "## Actual", *_actual(source), *_excerpt(timelines)]
    lacking = [*missing, *(f"`reproduce.py`: {each}" for each in made.missing)]
    if lacking:
        parts += ["## What is missing", "\n".join(f"- {each}." for each in lacking)]
    return visible("\n\n".join(part for part in parts if part)) + "\n"


def _opening(source: BundleSource) -> Iterator[str]:
    if source.record.arm != "subject":
        yield f"This is a trial of a control ({source.record.control}): it is wrong on purpose, and proves a check."
    elif not source.findings:
        yield NOTHING
    elif all(row.required for finding in source.findings for row in finding.rows):
        yield (
            "This is not a bug of the product: the configuration does not promise the guarantee, and the user required "
            "it all the same."
        )
    if source.record.void:
        yield f"The trial is void: {source.record.void}. Nothing can be concluded from it."


def _about(source: BundleSource) -> Iterator[str]:
    run, record = source.run, source.record
    versions = ", ".join(f"{name} {version}" for name, version in sorted(run.versions.items()))
    yield "## Version"
    yield f"{_broker(source)} ({run.launcher}), {run.protocol.upper()}, client {run.client}. {versions}."
    yield "## Configuration"
    changed = [f"- `{name}` = `{str(value).lower()}`{_key(source, name)}" for name, value in run.changed.items()]
    base = "that configuration" if run.configuration else "stock"
    yield f"Differs from {base}:\n\n" + "\n".join(changed) if changed else f"Every setting is as in {base}."
    if record.control:
        yield f"The control runs with: {record.control}."
    if run.configuration:
        yield f"The broker ran a copy of the user's configuration, with this diff:\n\n```diff\n{run.configuration}```"
    if run.deviations:
        lines = "\n".join(f"- {name}: {why}" for name, why in run.deviations.items())
        yield f"The harness changed these settings, so that the broker runs beside others and headless:\n\n{lines}"
    yield "The files are in `configuration/`."


def _key(source: BundleSource, name: str) -> str:
    setting = source.adapter.file.settings.get(name) if source.adapter else None
    if setting is None:
        return ""
    key = f"`{setting.xml}`; " if setting.xml else ""
    return f" ({key}{setting.description})"


def capture(source: BundleSource) -> str:
    """Say how the maintainer can capture the frames that the trial did not store."""
    reproducer = REPRODUCERS[source.run.protocol]
    return _HIDDEN if reproducer.plain_only and _access(source).tls is not None else reproducer.capture


def _access(source: BundleSource) -> Access:
    return credentials_of(source.adapter, source.run.protocol) if source.adapter else OPEN


def _steps(source: BundleSource, made: Reproduction) -> Iterator[str]:
    yield "## Steps to reproduce"
    if source.record.steps is None:
        yield f"No steps: {NO_STEPS}."
    else:
        sentences = phrases.steps_in_words(source.record.steps)
        yield "\n".join(f"{number}. {step}" for number, step in enumerate(sentences, 1))
    adapter = source.adapter
    if not made.text or adapter is None:
        yield "There is no `reproduce.py`: see what is missing below."
        return
    more = " It needs root, and a disk of its own for the data: called without one it prints the commands."
    root = more if made.root else ""
    root += " The broker runs under strace, which answers for the disk." if "strace" in made.needs else ""
    access = _access(source)
    journal = f" --journal {_argument(_words(adapter, adapter.file.journal.path))}" if "journal" in made.needs else ""
    yield (
        f"`reproduce.py` does the same and needs nothing of the suite: a queue `{source.queue}`, and the command that "
        f"runs the broker.{root}"
    )
    yield from _login(access)
    address = f"127.0.0.1:{port_of(source.run.protocol, access)}{_files(access)}"
    then = ""
    pair = pair_of(adapter)
    if pair is not None:
        yield (
            f"`--start` runs {pair.old.version}. From the first start after the fault on, `--then` runs "
            f"{pair.new.version}, on the same data and at the same address."
        )
        then = f" --then {_argument(_start(source, pair.new, '<new distribution>', pair.to_set))}"
    start = _argument(_start(source, adapter))
    yield f"    python reproduce.py --address {address}{journal} --start {start}{then}"
    yield "It exits with 1 if the broker violated a check, with 0 if not, and with 2 if it could not try."


def _argument(text: str) -> str:
    return shlex.quote(text) if "'" in text else f"'{text}'"


def _login(access: Access) -> Iterator[str]:
    """Describe the login options of the script, if any; secrets and certificates stay with their owner."""
    if access.user:
        yield (
            f"It logs in as `{access.user}` (`--user` names another), and reads the password from the environment "
            f"variable `{password_of(access)}` (`--password-env` names another): no secret is in this bundle."
        )
    if access.tls is not None:
        yield "It uses TLS. No certificate or key is in this bundle: give your own."


def _files(access: Access) -> str:
    if access.tls is None:
        return ""
    own = " --tls-cert CLIENT.pem --tls-key CLIENT.key" if access.tls.certificate else ""
    return f"{' --tls-ca CA.pem' if access.tls.ca else ''}{own}"


def _start(
    source: BundleSource,
    adapter: Adapter,
    home: str = "<distribution>",
    changed: Mapping[str, Value] | None = None,
) -> str:
    """Return the command line of the broker, with words such as `<data>` instead of paths."""
    if adapter.launcher.owned:
        return "COMMAND THAT RUNS THE BROKER"
    start = adapter.file.start
    settings = adapter.file.settings
    chosen = declared_options(source.record.queue, source.queue)
    options = ",".join(f"{name}={str(value).lower()}" for name, value in chosen.items())
    queue = ":".join(filter(None, [source.queue, options]))
    each = start.each_queue if not LIVES.keys() & source.record.queue.keys() else ()
    command = list(start.command) + [part.replace("{queue}", queue) for part in each]
    for name, value in sorted({**source.record.settings, **(changed or {})}.items()):
        setting = settings.get(name)
        if setting is not None and setting.argument and setting.settable and value != setting.default:
            command += [part.format(name=name, value=setting.text(value)) for part in setting.argument]
    if source.record.control.startswith("liar "):
        command += [part.replace("{liar}", source.record.control.removeprefix("liar ")) for part in start.liar]
    return _words(adapter, " ".join(map(_quoted, command)).replace("{home}", home))


def _quoted(part: str) -> str:
    """Quote a word of a command line if a shell would interpret it; placeholders stay readable."""
    return part if re.fullmatch(r"[\w@%+=:,./{}<>-]*", part, re.ASCII) else shlex.quote(part)


def _words(adapter: Adapter, text: str) -> str:
    """Replace the placeholders of a text of the broker's file by words."""
    ports = {f"{name}_port": str(_port(adapter, name)) for name in adapter.file.ports}
    words = {"home": "<distribution>", "instance": "<instance>", "data_dir": "<data>", "python": "python", **ports}
    words |= {"here": "<broker>", "listen": "127.0.0.1"}
    for name, word in words.items():
        text = text.replace(f"{{{name}}}", word)
    return text


def _port(adapter: Adapter, name: str) -> int:
    """Return the default number of a port of the broker's file; that of HTTP if no script uses the port."""
    found = [word for word, entry in adapter.file.protocols.items() if entry.port == name and word in REPRODUCERS]
    return port_of(found[0], credentials_of(adapter, found[0])) if found else 8161


def _expected(source: BundleSource) -> Iterator[str]:
    if not source.findings:
        yield "What the claims of this scenario say; none of them was violated in this trial."
    rows = {row.claim: row for finding in source.findings for row in finding.rows}
    for name in rows:
        claim = source.catalogue.claims[name]
        address = f"> {claim.source.sentence}\n>\n> {_address(source, claim)} ({claim.id})"
        if claim.is_expectation:
            address = f"No document says this: it is an expectation of the suite ({claim.id}). {claim.reason}"
        yield f"{claim.says}\n\n{address}"


def _address(source: BundleSource, claim: Claim) -> str:
    basis = f"; {claim.basis}" if claim.basis else ""
    return f"{source.catalogue.document_title(claim)}, section “{claim.source.section}”{basis}"


def _actual(source: BundleSource) -> Iterator[str]:
    if not source.findings:
        yield "Nothing offended."
    for finding in source.findings:
        row = finding.rows[0]
        often = f"Seen in {row.offended} of {row.trials} trials of this script."
        yield f"{finding.says} In this trial: {finding.seen.figures}. {often}"
        shown = ", ".join(f"`{message}`" for message in finding.seen.messages)
        yield f"Messages: {shown}{' and others' if finding.seen.count > len(finding.seen.messages) else ''}."


def _excerpt(timelines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for one in timelines[:1]:
        seen = Witness(trial="", queue="", message=one["message"], timeline=tuple(one["events"]))
        yield "\n".join(f"- {line}" for line in (pictures.story(seen) if seen.message else ()))
        yield "```\n" + "\n".join(timeline_lines(one, LINES)) + "\n```"


def timeline_lines(timeline: Mapping[str, Any], most: int = sys.maxsize) -> list[str]:
    return [
        f"{'...':>12} {each} more in timeline.txt"
        if isinstance(each, int)
        else f"{each['at_ms']:>12} {each['process']:14} {each['op']:10} {each['phase']:9} {each['detail']}".rstrip()
        for each in fold(timeline["events"], most)
    ]
