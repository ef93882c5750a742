"""The suite on trial: brokers that lie must be convicted, and an honest one on a busy machine never accused.

Each liar of the bundled broker is played by the engine of every run, in a scenario of a claim that it breaks. Only the
subject's arm is played, for that a liar cannot hold is decided by a counterexample and by no control. Then the honest
broker is played in the same scenarios. A liar that breaks no claim is left to the broker's own tests.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

import conformance
from conformance import campaign, claims, ledger, locks, paths, processes, scenario
from conformance.adapters import Adapter, find, vendor_clients
from conformance.adapters.file.nodes_table import NODES, PAIR
from conformance.campaign import Campaign, Options, Watcher
from conformance.counting import upper_bound
from conformance.errors import UsageError, matching
from conformance.frontend.progress import Show
from conformance.judge.rows import Verdict, VerdictRow
from conformance.judge.spark import JudgeSession
from conformance.protocols import PROTOCOLS, WIRES
from conformance.reference.honest import Lie
from conformance.reference.liars import LIARS
from conformance.reference.liars.pair import IN_PAIR
from conformance.report import html, questions
from conformance.run.planning import Planned

SEED = 20_240_229
TRIALS = 3
"""Of each scenario: a race may be missed once."""

RTT_MS = 5.0
"""What the slow network adds to each round trip."""

BROKERS_A_CORE = 2
"""How many honest brokers are on trial at once while the machine is kept busy, so that they get half of it."""

SCRIPTS = (1, 100)
"""Scenarios of one liar: the first, and if that does not show it, all; each takes three trials."""

HONEST = ""
"""The name of no liar."""

REDUCED = ("loses-the-oldest", "brings-acknowledged-back", "recovers-half-a-transaction")
"""Liars of different guarantees that are convicted within seconds."""


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """One liar, or the honest broker, in scenarios that should tell them apart.

    `claim`, `scenario`, `faults` and `offended` are those of the first violated row of a claim that the liar breaks:
    empty, and 0, if nothing was. `others` are violated claims that it is not said to break. `seconds` include the
    judge. `guarantee` is the question of the report that its first claim answers.
    """

    liar: str
    does: str
    guarantee: str
    breaks: tuple[str, ...]
    fault: str
    protocol: str
    scenarios: tuple[str, ...]
    claim: str = ""
    scenario: str = ""
    faults: int = 0
    offended: int = 0
    others: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        """Whether a liar is convicted, or the honest broker is not accused."""
        return bool(self.claim) if self.liar else not self.others


@dataclasses.dataclass(frozen=True)
class Score:
    """How many liars of one guarantee were played and convicted, by how many of the faults, and after which time.

    `faults` and `offended` are sums over the convicted, `seconds` is their median, `slowest` their maximum.
    """

    guarantee: str
    played: int
    convicted: int
    faults: int
    offended: int
    seconds: float
    slowest: float

    @classmethod
    def of(cls, guarantee: str, played: Sequence[Played]) -> Score:
        convicted = [one for one in played if one.right]
        seconds = [one.seconds for one in convicted] or [0.0]
        return cls(
            guarantee,
            len(played),
            len(convicted),
            sum(one.faults for one in convicted),
            sum(one.offended for one in convicted),
            statistics.median(seconds),
            max(seconds),
        )


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One whole run of an honest broker, with stock settings, while the machine is busy and the network slow.

    `trials` are those of the subject that were valid; `rtt_ms` is what the network adds to a round trip. `known` are
    claims that it violated by a known bug or finding of its version (`report.questions.problems`): no false accusation.
    """

    broker: str
    protocol: str
    rtt_ms: float
    trials: int
    accused: tuple[str, ...]
    known: tuple[str, ...]
    seconds: float


@dataclasses.dataclass(frozen=True)
class WholeRuns:
    """All rounds of one honest broker."""

    rounds: Sequence[Round]

    @property
    def trials(self) -> int:
        return sum(one.trials for one in self.rounds)

    @property
    def accused(self) -> list[str]:
        return sorted(itertools.chain.from_iterable(one.accused for one in self.rounds))

    @property
    def known(self) -> list[str]:
        return sorted({*itertools.chain.from_iterable(one.known for one in self.rounds)})

    @property
    def most(self) -> float:
        """The upper end (95 %) of the chance that a trial accuses it, if trials are independent; 1.0 if one did."""
        return upper_bound(self.trials) if self.trials and not self.accused else 1.0

    @property
    def seconds(self) -> float:
        """The median of a round."""
        return statistics.median(one.seconds for one in self.rounds)


class Selftest(msgspec.Struct, kw_only=True):
    """What `selftest.json` has. `asked` is the number of liars that were to be played."""

    version: str
    machine: str
    started: str
    asked: int
    played: list[Played] = []
    rounds: list[Round] = []

    @property
    def convicted(self) -> list[Played]:
        return [one for one in self.played if one.liar and one.right]

    @property
    def missed(self) -> list[Played]:
        return [one for one in self.played if one.liar and not one.right]

    @property
    def scores(self) -> list[Score]:
        """What was found of each guarantee, in the order of the report's questions."""
        liars = [one for one in self.played if one.liar]
        by = {asks: [one for one in liars if one.guarantee == asks] for asks in questions.QUESTIONS}
        return [Score.of(asks, found) for asks, found in by.items() if found]

    @property
    def accusations(self) -> list[str]:
        """The claims of which an honest broker was accused."""
        of_honest = [one.others for one in self.played if not one.liar]
        return sorted(itertools.chain.from_iterable([*of_honest, *(one.accused for one in self.rounds)]))

    @property
    def honest(self) -> list[WholeRuns]:
        """What was found of each honest broker, in the order in which they were played first."""
        brokers = dict.fromkeys(one.broker for one in self.rounds)
        return [WholeRuns([one for one in self.rounds if one.broker == broker]) for broker in brokers]


def chosen_liars(patterns: Sequence[str], *, reduced: bool) -> dict[str, Lie]:
    """Return the liars that break a claim and match, for `none` none; `UsageError` for a pattern that matches none."""
    if [*patterns] == ["none"]:
        return {}
    found = {name: liar for name, liar in LIARS.items() if liar.shows and (not reduced or name in REDUCED)}
    if not patterns:
        return found
    return {name: found[name] for name in matching("liar", patterns, found)}


def play(
    liars: dict[str, Lie], adapters: Sequence[str], rounds: int, folder: pathlib.Path, say: Callable[[str], None]
) -> Iterator[Selftest]:
    """Play these liars and the honest broker beside them, then whole rounds of brokers; yield what is known so far.

    What `folder` has of an earlier call stays, and comes first. A liar that was convicted there is not played again,
    and one that was missed stays missed until it is. One Spark judges all of it.

    Raises `ConformanceError` if a part of the suite fails.
    """
    found = _begun(folder)
    convicted = {one.liar for one in found.convicted}
    found.asked = len({one.liar for one in found.played if one.liar} | liars.keys())
    if found.played or found.rounds:
        yield found
    to_play = {name: liar for name, liar in liars.items() if name not in convicted}
    if not to_play and not rounds:
        return
    with JudgeSession.start():
        for name, liar in to_play.items():
            row = _played(name, liar)
            found.played = [*(one for one in found.played if one.liar != name), row]
            say(line(row))
            if row.claim:
                honest = _honest(row, liar)
                found.played.append(honest)
                if not honest.right:
                    say(line(honest))
            yield found
        for adapter, _ in itertools.product(adapters, range(rounds)):
            done = _round(adapter, SEED + len(found.rounds), folder)
            found.rounds.append(done)
            said = f"accused of {', '.join(done.accused) or 'nothing'}"
            said += f", and convicted of a known bug by {', '.join(done.known)}" if done.known else ""
            say(f"{done.broker}, honest, on a busy machine: {said} in {done.trials} trials, {done.seconds:.0f} s")
            yield found


def _begun(folder: pathlib.Path) -> Selftest:
    """Return what the folder has; `UsageError` if that is not of this version and machine."""
    machine = f"{processes.cores()} cores, {os.uname().sysname} {os.uname().release}"
    started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    new = Selftest(version=conformance.__version__, machine=machine, started=started, asked=0)
    path = folder / "selftest.json"
    if not path.exists():
        return new
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Selftest)
    except (msgspec.DecodeError, OSError) as error:
        raise UsageError(f"{path}: {error}; choose another --out") from error
    if (found.version, found.machine) != (new.version, new.machine):
        raise UsageError(f"{path} is of {found.version} on {found.machine}; choose another --out")
    return found


def line(row: Played) -> str:
    """Return one result for people."""
    if not row.liar:
        verdict = f"ACCUSED of {', '.join(row.others)}" if row.others else "not accused"
        return f"the honest broker in {', '.join(row.scenarios)}: {verdict}"
    seconds = f"{row.seconds:.0f} s"
    if row.claim:
        return f"{row.liar}: {row.claim} in {row.scenario}, {row.offended} of {row.faults} ({row.fault}); {seconds}"
    if not row.scenarios:
        return f"{row.liar}: NOT TRIED: no scenario with its fault ({row.fault}) can be played here; {seconds}"
    return f"{row.liar}: MISSED by {len(row.scenarios)} scenarios ({row.fault}); {seconds}"


def broken_by(name: str, liar: Lie) -> tuple[str, ...]:
    """Return the claims about brokers that a liar breaks.

    A scenario decides them by an anomaly that the liar shows; it has the liar's fault, or the liar as the control.
    """
    catalogue = claims.load()
    found = {
        claim
        for item in scenario.load(catalogue).values()
        for claim, check in item.decides.items()
        if check.anomaly in liar.shows and check.control is not None
        if _shows(item, liar.fault) or (isinstance(check.control, scenario.Liar) and check.control.name == name)
    }
    return tuple(sorted(claim for claim in found if catalogue.claims[claim].subject is claims.Subject.BROKER))


def _protocols() -> list[str]:
    """Return the protocols over which a client of the suite or of a vendor can reach the bundled broker."""
    file = find("reference").file
    return [word for word in PROTOCOLS if word in file.protocols or any(vendor_clients.speaking(word, file))]


def _played(name: str, liar: Lie) -> Played:
    """Play a liar until one of its claims is violated: over each protocol, in one scenario and then in all.

    They are required only if nothing is violated otherwise: an expectation is OBSERVED unless it is required, and the
    claim of the liar that records rollbacks does not bind the honest broker.
    """
    began = time.monotonic()
    broken = broken_by(name, liar)
    stated = [claims.load().claims[claim] for claim in broken]
    over = [word for word in _protocols() if any(claims.is_about(claim, word, bundled=True) for claim in stated)]
    asks = questions.question_of(liar.shows[0])
    played = functools.partial(Played, liar=name, does=liar.does, guarantee=asks, breaks=broken, fault=liar.fault)
    protocol = ""
    scripts: tuple[str, ...] = ()
    for most, required, protocol in itertools.product(SCRIPTS, ((), broken), over):
        choose = functools.partial(_fitting, name, liar.fault, most)
        rows, scripts = _rows(name, liar, broken, protocol, required, choose)
        shown = [row for row in rows if row.verdict is Verdict.VIOLATED]
        if best := next((row for row in shown if row.claim in broken), None):
            return played(
                protocol=protocol,
                scenarios=scripts,
                claim=best.claim,
                scenario=best.scenario,
                faults=best.faults,
                offended=best.offended_faults,
                others=tuple(sorted({row.claim for row in shown} - {*broken})),
                seconds=time.monotonic() - began,
            )
    return played(protocol=protocol, scenarios=scripts, seconds=time.monotonic() - began)


def _honest(convicted: Played, liar: Lie) -> Played:
    """Play the honest broker in the scenario that convicted a liar, with the same claim required."""
    began = time.monotonic()
    alone = convicted.scenario if convicted.scenario in convicted.scenarios else convicted.scenarios[0]
    claim = (convicted.claim,)
    rows, scripts = _rows(HONEST, liar, claim, convicted.protocol, claim, lambda _: (alone,))
    return Played(
        liar=HONEST,
        does="It keeps its word.",
        guarantee=convicted.guarantee,
        breaks=(),
        fault=convicted.fault,
        protocol=convicted.protocol,
        scenarios=scripts,
        others=tuple(sorted({row.claim for row in rows if row.verdict is Verdict.VIOLATED})),
        seconds=time.monotonic() - began,
    )


def _rows(
    name: str,
    liar: Lie,
    chosen: Sequence[str],
    protocol: str,
    required: Sequence[str],
    choose: Callable[[Sequence[Planned]], Sequence[str]],
) -> tuple[list[VerdictRow], tuple[str, ...]]:
    """Record and judge the subject in the scenarios that `choose` takes of the plan, `TRIALS` of each.

    Return the rows that had a trial, and the scenarios.
    """
    profile = [] if liar.needs in ("standard", IN_PAIR) else [f"profile={liar.needs}"]
    pair = [f"{NODES}={PAIR}"] if liar.needs == IN_PAIR else []
    words = [*([f"liar={name}"] if name else []), *profile, *pair]
    with locks.scratch("selftest") as folder:
        made = prepare_run(words, chosen, folder / "run", protocol=protocol, required=required)
        planned = made.trials
        scripts = tuple(choose(planned))
        subject = [each for each in planned if each.arm == "subject" and each.index <= TRIALS]
        made = dataclasses.replace(made, chosen=tuple(each for each in subject if each.script.id in scripts))
        rows = campaign.execute(made, Watcher()).rows if made.chosen else ()
        return [row for row in rows if row.trials], scripts


def prepare_run(
    words: Sequence[str],
    chosen: Sequence[str],
    folder: pathlib.Path | None,
    *,
    protocol: str = WIRES[0],
    required: Sequence[str] = (),
) -> Campaign:
    """Prepare a run of the bundled broker with these settings and claims, in every scenario that decides them."""
    return campaign.prepare(
        Options(
            adapter="reference",
            protocol=protocol,
            settings=words,
            claims=chosen,
            required=required,
            thorough=True,
            trials=TRIALS,
            seed=SEED,
            out=folder,
        )
    )


def _fitting(name: str, fault: str, most: int, planned: Sequence[Planned]) -> list[str]:
    """Return the first scenarios with the liar's fault; any where none has it.

    Those that have the liar as a control come first.
    Counter-example: a full disk is no fault that a failed sync could stand for.
    """
    own = {each.script.id for each in planned if each.liar == name}
    subject = [each for each in planned if each.arm == "subject"]
    subject.sort(key=lambda each: each.script.id not in own)
    fitting = [each for each in subject if each.script.id in own or _shows(each.script, fault)] or subject
    return list(dict.fromkeys(each.script.id for each in fitting))[:most]


def _shows(script: scenario.Scenario, fault: str) -> bool:
    names = {each.name for each in script.faults}
    return fault in names if fault != "none" else not names


def _round(adapter: str, seed: int, folder: pathlib.Path) -> Round:
    """Play a whole run of a broker with stock settings while every core and the disk are busy and the network is slow.

    Controls are left out: they cannot accuse. What was recorded stays in `folder` if the broker was accused, or if the
    run did not come to its end.
    """
    began = time.monotonic()
    jobs = BROKERS_A_CORE * processes.cores()
    out = folder / f"round-{uuid.uuid4().hex[:8]}"
    made = campaign.prepare(Options(adapter=adapter, seed=seed, jobs=jobs, out=out))
    made = dataclasses.replace(made, adapt=_slowed)
    with locks.scratch("selftest") as scratch, busy(scratch / "written"), Show(made) as show:
        judged = campaign.execute(made, show.watcher)
    shown = [row for row in judged.rows if row.verdict is Verdict.VIOLATED and not row.required]
    violated = {(row.claim, row.scenario) for row in shown}
    known = violated & _of_bugs(made.adapter)
    accused = violated - known
    if not accused:
        shutil.rmtree(made.folder)
    return Round(
        broker=f"{judged.run.title} {judged.run.version}",
        protocol=judged.run.protocol,
        rtt_ms=RTT_MS,
        trials=sum(trial.arm == "subject" and not trial.void for trial in judged.trials),
        accused=_claims(accused),
        known=_claims(known),
        seconds=time.monotonic() - began,
    )


def _claims(violated: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(sorted({claim for claim, _ in violated}))


def _of_bugs(adapter: Adapter) -> set[tuple[str, str]]:
    """Return the claims that this version is known to violate with stock settings, each with a scenario that shows it.

    Counter-example to a claim alone: a full disk shows that Artemis 2.56.0 violates ARTEMIS-SEND-09, and a kill that
    accused it of the same would be our error.
    """
    of_it = [one for one in questions.problems() if one.adapter == adapter.name and adapter.version in one.versions]
    pairs = (itertools.product(one.claims, one.scenarios) for one in of_it if not one.settings)
    return {*itertools.chain.from_iterable(pairs)}


def _slowed(planned: Iterable[Planned]) -> list[Planned]:
    return [dataclasses.replace(each, rtt_ms=RTT_MS) for each in planned if each.arm == "subject"]


_UNTIL_CLOSED = "import os,sys,threading\nthreading.Thread(target=lambda: (sys.stdin.read(), os._exit(0))).start()\n"
_BURN = _UNTIL_CLOSED + "while True: sum(range(100000))"
_WRITE = (
    _UNTIL_CLOSED + "with open(sys.argv[1], 'wb', buffering=0) as file:\n"
    "    while True:\n        file.seek(0); file.write(bytes(1 << 20)); os.fsync(file.fileno())"
)


@contextlib.contextmanager
def busy(file: pathlib.Path) -> Iterator[None]:
    """Keep every core and the disk of `file` busy. The processes end when their stdin is closed, also by our death."""
    commands = [[_BURN]] * processes.cores() + [[_WRITE, str(file)]]
    started = [
        subprocess.Popen([sys.executable, "-c", *command], stdin=subprocess.PIPE, env=ledger.child_environment())
        for command in commands
    ]
    try:
        yield
    finally:
        for process in started:
            with contextlib.suppress(OSError):
                assert process.stdin is not None
                process.stdin.close()
        for process in started:
            process.wait()


def gaps() -> dict[str, str]:
    """Return the claims that no scenario decides, with the reason, and the liars of no claim."""
    found = claims.load().untried
    return found | {f"liar {name}": "it breaks no claim of the catalogue" for name in LIARS if not LIARS[name].shows}


def save(found: Selftest, folder: pathlib.Path) -> pathlib.Path:
    """Write `selftest.json` and `selftest.html` into the folder, and return the page."""
    folder.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(found), indent=1)
    (folder / "selftest.json").write_bytes(text + b"\n")
    page = folder / "selftest.html"
    template = html.environment().get_template("selftest.html.j2")
    files = {"bugs": paths.fixtures() / "bugs" / "README.md", "power": paths.docs() / "explanation" / "power.md"}
    tables = {name: html.markdown(path) for name, path in files.items()}
    page.write_text(template.render(found=found, uncovered=gaps(), **tables), "utf-8")
    return page
