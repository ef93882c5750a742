"""The command `soak`: hours of load with faults, judged while they are recorded."""

from __future__ import annotations

import pathlib
import secrets
import shlex
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from conformance.frontend.cli.group import GroupedCommand, cli, options, say, terminated
from conformance.frontend.options import SOAK, seconds

if TYPE_CHECKING:
    from conformance.followup.soak import SoakReport, SoakSegment
    from conformance.run.soak.script import SoakOptions

_OF_A_SOAK = ("adapter", "protocol", "set", "for", "every", "faults", "seed", "out")
_HEAD = (
    "segment  seconds  fault       events  confirmed  at risk    open  lost  duplicated  altered"
    "  memory in MB: recorder clients judge broker"
)


@cli.command("soak", cls=GroupedCommand)
@options(SOAK)
def soak_command(resume: pathlib.Path | None, quiet: bool, **values: Any) -> int:
    """Keep one broker under load for hours, with a fault every few minutes.

    \b
    conformance soak --adapter reference --for 10m --rate 500 --every 1m
    conformance soak --adapter artemis --for 8h --rate 2000
    conformance soak --adapter artemis --protocol stomp --for 1h --faults kill,stop,pause --out runs/soak
    conformance soak --resume runs/soak
    conformance soak --adapter reference --set liar=loses-the-last-batch --for 1m --every 20s

    Publishers send, consumers acknowledge, and each fault ends a segment. A segment is judged while the next one is
    recorded, with the messages that earlier ones left open. At the end the queue is drained, the whole is judged once
    more, and must agree: else the exit code is 3. Two liars of the bundled broker are soaked first, for seconds: the
    check must be seen to fail. Ctrl-C or a kill loses nothing: --resume goes on with the next segment. An event takes
    about 160 bytes of disk, and a message has seven.
    """
    from conformance.errors import Interrupted, UsageError
    from conformance.followup import soak

    if resume:
        if given := [name for name in _OF_A_SOAK if values[name]]:
            raise UsageError(f"--resume: the folder has the options of the soak; leave out --{given[0]}", code="one-of")
        prepared = soak.resume(resume)
    else:
        prepared = soak.prepare(_options(values), values["out"])
    signal.signal(signal.SIGTERM, terminated)
    say(f"folder: {prepared.folder}; again: {prepared.campaign.again}")
    try:
        shown = soak.SoakWatcher() if quiet else soak.SoakWatcher(say, lambda segment: say(_progress(segment)))
        report = soak.execute(prepared, shown)
    except Interrupted as error:
        again = f"conformance soak --resume {shlex.quote(str(prepared.folder))}"
        raise Interrupted(f"{error}; to go on: {again}") from error
    for line in _result(report):
        say(line)
    say(f"result: {prepared.folder / soak.FILE}")
    return int(report.exit_code)


def _options(values: dict[str, Any]) -> SoakOptions:
    from conformance.claims import words
    from conformance.errors import UsageError
    from conformance.run.soak.script import SoakOptions

    for option, value in (("--adapter", values["adapter"]), ("--for", values["for"])):
        if not value:
            raise UsageError(f"{option}: it is missing; give it, or --resume DIR", code="missing", option=option)
    seed = values["seed"]
    return SoakOptions(
        adapter=values["adapter"],
        protocol=values["protocol"],
        settings=tuple(values["set"]),
        for_s=seconds(values["for"], "--for"),
        rate=values["rate"],
        every_s=seconds(values["every"] or "5m", "--every"),
        faults=tuple(words([values["faults"] or "kill"])),
        seed=seed if seed is not None else secrets.randbelow(1 << 31),
        offline=values["offline"],
    )


def _progress(segment: SoakSegment) -> str:
    counts, used = segment.counts, {kind: size >> 20 for kind, size in segment.memory.items()}
    memory = ", ".join(f"{kind} {size:,} MB" for kind, size in used.items())
    return (
        f"segment {segment.number}: {segment.seconds:,.0f} s, {segment.ended_by}, {segment.events:,} events, "
        f"{counts.confirmed:,} confirmed, {counts.open:,} open ({counts.overdue:,} overdue), lost {counts.lost:,}, "
        f"duplicated {counts.duplicated:,}, altered {counts.altered:,}"
        f"{f'; memory: {memory}' if memory else ''}{f'; void: {segment.void}' if segment.void else ''}"
    )


def _result(report: SoakReport) -> Iterator[str]:
    """Yield a table over the segments, and the verdict."""
    from conformance.judge.rows import Verdict
    from conformance.run.soak.memory import KINDS

    yield _HEAD
    for segment in report.segments:
        counts, used = segment.counts, [segment.memory.get(kind, 0) >> 20 for kind in KINDS]
        yield (
            f"{segment.number:>7}  {segment.seconds:>7.0f}  {segment.ended_by:<7}  {segment.events:>9,}  "
            f"{counts.confirmed:>9,}  {counts.exposed:>7,}  {counts.open:>6,}  {counts.lost:>4,}  "
            f"{counts.duplicated:>10,}  {counts.altered:>7,}  {' ' * 12}{' '.join(f'{size:>7,}' for size in used)}"
        )
    for control in report.controls:
        yield f"control (liar {control.liar}): {control.offences:,} {control.word}"
    said = "disagree" if report.verdict is Verdict.HARNESS_ERROR else "agree"
    yield f"the sum of the segments and the whole, judged at once in {report.whole_seconds:.0f} s, {said}"
    yield f"{report.word}: {report.reason}"
