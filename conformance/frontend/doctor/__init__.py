"""Check what this machine can do for a run, part by part, and what each missing part would enable.

A tracer and a power loss are tried out, and leave nothing. A package is imported only by the probe that checks it:
`python -m conformance.frontend.doctor` works without any package. `probes` has the probes. Their table is here, and the
count of the claims and scenarios that a missing part costs.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence

import conformance
from conformance.counting import plural
from conformance.errors import ExitCode
from conformance.frontend.doctor import probes
from conformance.frontend.doctor.probes import ProbeResult, State
from conformance.protocols import PROTOCOLS, WIRES


@dataclasses.dataclass(frozen=True)
class NotTried:
    """What is not tried without some faults: scenarios by id, and the claims that only they decide.

    `on_disk`: claims that are still tried but stay INCONCLUSIVE, because every disk fault for them is missing.
    """

    scenarios: frozenset[str]
    claims: frozenset[str]
    on_disk: frozenset[str]

    def __str__(self) -> str:
        counts = f"{plural(len(self.scenarios), 'scenario')}, {plural(len(self.claims), 'claim')} decided only there"
        return counts + (f", {len(self.on_disk)} more about the disk INCONCLUSIVE without" if self.on_disk else "")


def lost(faults: Collection[str]) -> NotTried:
    """Return what the suite does not try if these faults, by name, cannot be injected."""
    from conformance import claims, scenario
    from conformance.scenario.faults import DECIDE_DISK

    catalogue = claims.load()
    scripts = scenario.load(catalogue)
    gone = {name for name, item in scripts.items() if any(fault.name in faults for fault in item.faults)}
    homes = {claim: {name for name, item in scripts.items() if claim in item.decides} for claim in catalogue.claims}
    only = {claim for claim, where in homes.items() if where and where <= gone}
    disk = {
        claim: {name for name in where if scripts[name].fault_for(catalogue.claims[claim]) in DECIDE_DISK}
        for claim, where in homes.items()
        if catalogue.claims[claim].of_disk
    }
    short = {claim for claim, where in disk.items() if where and where <= gone} - only
    return NotTried(frozenset(gone), frozenset(only), frozenset(short))


def unable() -> dict[str, str]:
    """Return every fault of a scenario that this machine cannot inject, by name, and why: what its `available` says."""
    from conformance import claims, scenario
    from conformance.faults import possible

    scripts = scenario.load(claims.load()).values()
    return possible.unable(fault for item in scripts for fault in item.faults)


def _for_faults(what: str, means: str) -> str:
    """Count the faults that are refused because these means are missing; empty if none is."""
    from conformance.scenario.faults import FAULTS

    gone = [name for name in unable() if FAULTS[name].means == means]
    return f"{what}: {lost(gone)}" if gone else ""


def _protocol(word: str) -> str:
    """Count the claims of one protocol, and those that no other of the suite's own sessions decides."""
    from conformance import claims, scenario

    catalogue = claims.load()
    decided = {claim for item in scenario.load(catalogue).values() for claim in item.decides}
    here = [catalogue.claims[name] for name in decided if claims.is_about(catalogue.claims[name], word, bundled=True)]
    others = [other for other in WIRES if other != word]
    only = [claim for claim in here if not any(claims.is_about(claim, other, bundled=True) for other in others)]
    return f"--protocol {word}: {plural(len(here), 'claim')}, {len(only)} of them decided only there"


def _java() -> str:
    return f"every verdict (the judge runs on Spark), and brokers: {_brokers('java', '{}')}"


def _libaio() -> str:
    """Name the settings whose value needs it, which a configuration of the user's own (`--config`) may have."""
    from conformance import adapters

    uses = [
        f"{name} with {setting}={value}"
        for name in adapters.names()
        for setting, entry in adapters.find(name).file.settings.items()
        for value, choice in entry.choices.items()
        if choice.needs.startswith("libaio")
    ]
    return f"{', '.join(uses)}, which the product's own configuration has; our default needs no libaio"


def _containers() -> str:
    return f"brokers in containers: {_brokers('container', '{}:docker')}"


def _brokers(table: str, form: str) -> str:
    from conformance import adapters

    return ", ".join(form.format(name) for name in adapters.names() if getattr(adapters.find(name).file, table))


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


_TRACER = functools.partial(_for_faults, "faults at the disk", "tracer")
_POWER = functools.partial(_for_faults, "power loss", "power")

PROBES = (
    Probe("python", probes.python, _always("every run"), needed=True),
    Probe("kernel", probes.kernel, _always("signals that reach no other process")),
    Probe("packages", probes.packages, _always("every run"), needed=True),
    *(
        Probe(
            each.library.distribution,
            functools.partial(probes.imports, each.library.module, each.library.build),
            functools.partial(_protocol, word),
            needed=word == WIRES[0],
        )
        for word, each in PROTOCOLS.items()
        if each.library
    ),
    Probe("compiler", probes.compiler, _always("the build of python-qpid-proton, which has no wheel")),
    Probe("java", probes.java, _java, needed=True),
    Probe("spark", probes.spark, _always("every verdict"), needed=True),
    Probe("127.0.0.1", probes.loopback, _always("every run"), needed=True),
    Probe("run folder", lambda: probes.folder(pathlib.Path("runs"), "--out DIR"), _always("every run"), needed=True),
    Probe(
        "temporary folder",
        lambda: probes.folder(pathlib.Path(tempfile.gettempdir()), "TMPDIR=DIR"),
        _always("every run"),
    ),
    Probe("cache", probes.cache, _always("brokers that are fetched, and quick starts of Java")),
    Probe("strace", probes.strace, _TRACER),
    Probe("ptrace scope", probes.ptrace, _TRACER),
    Probe("root", probes.root, _POWER),
    Probe("loop devices", probes.loop_devices, _POWER),
    Probe("power loss, ext4", probes.power, _POWER),
    Probe(
        "power loss, xfs",
        functools.partial(probes.power, "xfs"),
        _always("the same on xfs: power-lost-on-xfs, which --thorough plays; every other scenario takes ext4"),
    ),
    Probe("libaio", probes.libaio, _libaio),
    Probe("docker", probes.docker, _containers),
    Probe("open files", probes.open_files, _always("every run")),
    Probe("cores", probes.cores, _always("claims about time, and quick runs")),
    Probe("memory", probes.memory, _always("Spark and a Java broker at the same time")),
)
"""In the order in which a newcomer needs them."""


def examine(probes: Sequence[Probe] | None = None) -> tuple[PartCheck, ...]:
    """Run these probes, or all of `PROBES`. It never raises: a probe that fails is a result."""
    return tuple(map(_check, PROBES if probes is None else probes))


def check(name: str) -> PartCheck:
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
        name = probes.PACKAGES.get(str(error.name), error.name)
        return ProbeResult("missing", f"it cannot be asked: {name} is not installed", f"pip install {name}")
    except Exception as error:
        return ProbeResult("missing", f"it cannot be asked: {type(error).__name__}: {error}")


def exit_code(checks: Sequence[PartCheck]) -> ExitCode:
    """Return 0 if the bundled broker can be tested, 3 if a needed part is missing."""
    return ExitCode.HARNESS if _blocking(checks) else ExitCode.CONFORMANT


def _blocking(checks: Sequence[PartCheck]) -> list[str]:
    return [check.name for check in checks if check.needed and check.state == "missing"]


def text(checks: Sequence[PartCheck]) -> str:
    return "\n".join([f"conformance {conformance.__version__}", "", *_lines(checks), "", *_end(checks), ""])


def _lines(checks: Sequence[PartCheck]) -> Iterator[str]:
    wide = max((len(check.name) for check in checks), default=0)
    for check in checks:
        yield f"{check.state:8} {check.name:{wide}}  {check.says}"
        purpose = "would enable" if check.state == "missing" else "matters for"
        for word, text in ((purpose, check.enables), ("to do", check.todo)):
            if text:
                yield f"{'':8} {'':{wide}}    {word}: {text}"


def _end(checks: Sequence[PartCheck]) -> Iterator[str]:
    yield _not_tried()
    if blocking := _blocking(checks):
        yield f"Not even the bundled broker can be tried: {', '.join(blocking)}."
    else:
        yield "The bundled broker can be tried: conformance run --adapter reference"


def _not_tried() -> str:
    """Count what all missing parts cost together: two faults may decide the same claim."""
    found = _guarded(lambda: ProbeResult("ok", str(lost(unable())) if unable() else ""))
    if found.state != "ok":
        return f"What would not be tried here is not counted: {found.todo or found.says}."
    return f"NOT_TRIED here: {found.says}." if found.says else "No fault of any scenario is refused here."


def as_json(checks: Sequence[PartCheck]) -> str:
    """Return the checks, the versions of all packages, and the names of what is not tried, as JSON."""
    names = _guarded(lambda: ProbeResult("ok", json.dumps(_named(), sort_keys=True)))
    data = {
        "version": conformance.__version__,
        "able": not _blocking(checks),
        "checks": [dataclasses.asdict(check) for check in checks],
        "versions": probes.versions(),
        "not_tried": json.loads(names.says) if names.state == "ok" else None,
    }
    return json.dumps(data, indent=2) + "\n"


def _named() -> dict[str, list[str]]:
    not_tried = lost(unable())
    return {name: sorted(getattr(not_tried, name)) for name in ("scenarios", "claims", "on_disk")}
