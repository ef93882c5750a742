"""Check what this machine can do for a run, part by part, and what each missing part would enable.

A tracer and a power loss are tried out, and nothing of that stays. A package is imported only by the probe that checks
it: `python -m conformance.frontend.doctor` works without any package. `software` and `machine` have the probes,
`losses` counts what a missing part costs; the table of probes is here.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Sequence

import conformance
from conformance.errors import ExitCode
from conformance.frontend.doctor import losses, machine, software
from conformance.frontend.doctor.software import ProbeResult, State

__all__ = ["PROBES", "PartCheck", "Probe", "ProbeResult", "as_json", "check", "examine", "exit_code", "text"]


@dataclasses.dataclass(frozen=True)
class Probe:
    """One part of the machine, and what it enables; no broker can be tested if a `needed` part is missing."""

    name: str
    look: Callable[[], ProbeResult]
    enables: Callable[[], str]
    needed: bool = False


@dataclasses.dataclass(frozen=True)
class PartCheck:
    """The result for one part; `enables` and `todo` are empty if it is in order."""

    name: str
    state: State
    says: str
    enables: str
    todo: str
    needed: bool


def _always(words: str) -> Callable[[], str]:
    return lambda: words


PROBES = (
    Probe("python", software.python, losses.every_run, needed=True),
    Probe("kernel", machine.kernel, losses.every_run, needed=True),
    Probe("packages", software.packages, losses.every_run, needed=True),
    Probe(
        "python-qpid-proton",
        functools.partial(software.imports, "proton", software.BUILD),
        functools.partial(losses.protocol, "amqp", "stomp"),
        needed=True,
    ),
    Probe(
        "stomp.py",
        functools.partial(software.imports, "stomp"),
        functools.partial(losses.protocol, "stomp", "amqp"),
    ),
    Probe("compiler", software.compiler, _always("the build of python-qpid-proton, which has no wheel")),
    Probe("java", software.java, losses.java, needed=True),
    Probe("spark", software.spark, _always("every verdict"), needed=True),
    Probe("127.0.0.1", machine.loopback, losses.every_run, needed=True),
    Probe("run folder", lambda: machine.folder(pathlib.Path("runs"), "--out DIR"), losses.every_run, needed=True),
    Probe(
        "temporary folder",
        lambda: machine.folder(pathlib.Path(tempfile.gettempdir()), "TMPDIR=DIR"),
        losses.every_run,
    ),
    Probe("cache", machine.cache, _always("brokers that are fetched, and quick starts of Java")),
    Probe("strace", machine.strace, losses.tracer),
    Probe("ptrace scope", machine.ptrace, losses.tracer),
    Probe("root", machine.root, losses.power),
    Probe("loop devices", machine.loop_devices, losses.power),
    Probe("power loss, ext4", functools.partial(machine.power, "ext4"), losses.power),
    Probe(
        "power loss, xfs",
        functools.partial(machine.power, "xfs"),
        _always("the same on xfs; every scenario takes ext4"),
    ),
    Probe("docker", machine.docker, losses.containers),
    Probe("open files", machine.open_files, losses.every_run),
    Probe("cores", machine.cores, _always("claims about time, and quick runs")),
    Probe("memory", machine.memory, _always("Spark and a Java broker at the same time")),
)
"""In the order in which a newcomer needs them."""


def examine(probes: Sequence[Probe] | None = None) -> tuple[PartCheck, ...]:
    """Run these probes, or all of `PROBES`. It never raises: a probe that fails is a result."""
    return tuple(map(_check, PROBES if probes is None else probes))


def check(name: str) -> PartCheck:
    """Check one part, by the name of its probe."""
    return _check(next(probe for probe in PROBES if probe.name == name))


def _check(probe: Probe) -> PartCheck:
    seen = _guarded(probe.look)
    enables = ""
    if seen.state != "ok":
        found = _guarded(lambda: ProbeResult("ok", probe.enables()))
        enables = found.says if found.state == "ok" else f"not counted: {found.todo or found.says}"
    return PartCheck(probe.name, seen.state, seen.says, enables, seen.todo, probe.needed)


def _guarded(look: Callable[[], ProbeResult]) -> ProbeResult:
    """Turn the error of a probe into a result: the machine may lack a package of the probe itself."""
    try:
        return look()
    except ImportError as error:
        name = software.PACKAGES.get(str(error.name), error.name)
        return ProbeResult("missing", f"it cannot be asked: {name} is not installed", f"pip install {name}")
    except Exception as error:
        return ProbeResult("missing", f"it cannot be asked: {type(error).__name__}: {error}")


def exit_code(checks: Sequence[PartCheck]) -> ExitCode:
    """Return 0 if the bundled broker can be tested, 3 if a needed part is missing."""
    return ExitCode.HARNESS if _blocking(checks) else ExitCode.CONFORMANT


def _blocking(checks: Sequence[PartCheck]) -> list[str]:
    return [check.name for check in checks if check.needed and check.state == "missing"]


def text(checks: Sequence[PartCheck]) -> str:
    """Describe the checks for people."""
    return "\n".join([f"conformance {conformance.__version__}", "", *_lines(checks), "", *_end(checks), ""])


def _lines(checks: Sequence[PartCheck]) -> Iterator[str]:
    wide = max((len(check.name) for check in checks), default=0)
    for check in checks:
        yield f"{check.state:8} {check.name:{wide}}  {check.says}"
        purpose = "would enable" if check.state == "missing" else "matters for"
        for word, told in ((purpose, check.enables), ("to do", check.todo)):
            if told:
                yield f"{'':8} {'':{wide}}    {word}: {told}"


def _end(checks: Sequence[PartCheck]) -> Iterator[str]:
    yield _not_tried()
    if blocking := _blocking(checks):
        yield f"Not even the bundled broker can be tried: {', '.join(blocking)}."
    else:
        yield "The bundled broker can be tried: conformance run --adapter reference"


def _not_tried() -> str:
    """Count what all missing parts cost together: two faults may decide the same claim."""
    found = _guarded(lambda: ProbeResult("ok", str(losses.lost(losses.unable())) if losses.unable() else ""))
    if found.state != "ok":
        return f"What would not be tried here is not counted: {found.todo or found.says}."
    return f"NOT_TRIED here: {found.says}." if found.says else "No fault of any scenario is refused here."


def as_json(checks: Sequence[PartCheck]) -> str:
    """Return the checks, the versions of all packages, and the names of what is not tried, as JSON."""
    lost = _guarded(lambda: ProbeResult("ok", json.dumps(_named(), sort_keys=True)))
    told = {
        "version": conformance.__version__,
        "able": not _blocking(checks),
        "checks": [dataclasses.asdict(check) for check in checks],
        "versions": software.versions(),
        "not_tried": json.loads(lost.says) if lost.state == "ok" else None,
    }
    return json.dumps(told, indent=2) + "\n"


def _named() -> dict[str, list[str]]:
    lost = losses.lost(losses.unable())
    return {name: sorted(getattr(lost, name)) for name in ("scenarios", "claims", "on_disk")}
