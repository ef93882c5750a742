"""Explore: draw scripts from the space, play and judge them, and make smaller what failed.

The scripts name no check. They are judged by what the judge looks for in every trial of every scenario, and by the
standing checks. While a batch is judged, the next one is played.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from conformance import campaign, records
from conformance.campaign import Campaign, OpenRun, Options, Watcher
from conformance.counting import percent, plural, upper_bound
from conformance.errors import LaunchError, UsageError
from conformance.followup.explore.simpler import repeats, simpler, size
from conformance.followup.explore.source import source
from conformance.followup.trial_anomalies import offences
from conformance.judge.rows import Judgement, Verdict, VerdictRow
from conformance.records import TrialRecord
from conformance.report.expectations import Expected
from conformance.report.phrases import steps_in_words
from conformance.run.planning import subject_trials
from conformance.scenario import TRIALS, Check, Liar, Scenario, load
from conformance.scenario.script import Step
from conformance.scenario.space import DRAWN, Drawn, Pair, draw, every_pair
from conformance.scenario.triggers import leaves

STATE = "explored.json"
PAGE = "explored.html"
BATCH = 6
"""So many scripts are drawn, played and judged at a time, for each broker that runs beside the others."""
AGAIN = 3
"""So many more trials tell how often a script fails."""
OF_A_PART = 150
"""After so many scripts another run begins: a judge looks through all that its run has."""
SIMPLER_S = 180.0
"""So long a script is made simpler, or for as long as it took to find it."""


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """A violation: what the judge says, in how many of how many trials, and the simplest script that still fails.

    `found` is the drawn script, and `steps` are those of the simplest one. `seconds` are those until it was found,
    `simpler_s` those that it took to make it simpler. `known`: the user's file expects it.
    """

    claim: str
    anomaly: str
    reason: str
    fault: str
    moment: str
    found: str
    failed: int
    played: int
    steps: tuple[Step, ...]
    seconds: float
    simpler_s: float = 0.0
    part: str = ""
    file: str = ""
    known: str = ""

    def is_like(self, other: Discovery) -> bool:
        """Whether they are one finding: the same anomaly under the same fault, or under none."""
        alike = (self.fault, self.moment) == (other.fault, other.moment)
        return self.anomaly == other.anomaly and (alike or not other.fault)

    @property
    def name(self) -> str:
        return "-".join(filter(None, (self.anomaly.replace("_", "-"), self.fault, self.moment.replace("_", "-"))))


class Explored(msgspec.Struct, kw_only=True):
    """What an exploration has done, in its sessions together. `met` counts the scripts of each pair of edges."""

    adapter: str
    version: str
    protocol: str
    command: str
    seed: int
    drawn: int = 0
    void: int = 0
    faults: int = 0
    seconds: float = 0.0
    parts: int = 0
    met: dict[str, int] = {}
    findings: tuple[Discovery, ...] = ()

    @property
    def pairs(self) -> frozenset[Pair]:
        return frozenset(map(_pair, self.met))


def text_of(pair: Pair) -> str:
    """Return the key of `Explored.met` for a pair."""
    return " & ".join(f"{dimension}: {edge}" for dimension, edge in pair)


def _pair(text: str) -> Pair:
    one, other = (tuple(part.split(": ", 1)) for part in text.split(" & "))
    return (one[0], one[1]), (other[0], other[1])


@dataclasses.dataclass(frozen=True)
class ExploreRequest:
    """The options of an exploration; it ends after `for_s` seconds or `scripts` scripts, whichever comes first."""

    options: Options
    for_s: float
    scripts: int
    expected: Expected


def prepare(wanted: ExploreRequest) -> tuple[Campaign, Explored]:
    """Check every option, and read what an earlier session of the folder has explored.

    Raises `UsageError`: a wrong option, or the folder holds the exploration of another broker.
    """
    options = wanted.options
    if wanted.scripts < 1:
        raise UsageError(f"--trials {wanted.scripts}: at least 1", code="too-small", option="--trials")
    state = options.resume / STATE if options.resume else None
    if state is not None and not state.is_file():
        raise UsageError(f"--resume {options.resume}: it is not the folder of an exploration", code="no-run")
    before = records.read(state, Explored) if state else None
    seed = options.seed if options.seed is not None or before is None else before.seed
    prepared = campaign.prepare(dataclasses.replace(options, resume=None, seed=seed, trials=TRIALS))
    folder = options.resume or prepared.folder
    standing = {name: item for name, item in prepared.scenarios.items() if item.standing}
    prepared = dataclasses.replace(prepared, scenarios=standing, folder=folder)
    now = Explored(
        adapter=prepared.adapter.spec,
        version=prepared.adapter.version,
        protocol=prepared.selection.protocol,
        command=campaign.command(prepared).replace("conformance run", "conformance explore", 1),
        seed=prepared.selection.seed,
    )
    if before is not None and before.command != now.command:
        raise UsageError(
            f"--resume {folder}: this is another exploration; give the options that it had, {before.command}",
            code="another-run",
            folder=folder,
        )
    return prepared, before or now


class Explorer:
    """One session of an exploration. `say` prints a line; `save` is called when the state has changed."""

    def __init__(
        self,
        wanted: ExploreRequest,
        prepared: Campaign,
        explored: Explored,
        watcher: Watcher,
        say: Callable[[str], None],
    ) -> None:
        self.wanted, self.prepared, self.explored = wanted, prepared, explored
        self.watcher, self.say = watcher, say
        self.folder = prepared.folder
        self._until = time.monotonic() + wanted.for_s
        self._last = explored.drawn + wanted.scripts
        self._unable: dict[str, str] = {}

    def run(self) -> Explored:
        """Explore until the time or the number of scripts is over; each part of it is a run of its own."""
        while not self._over:
            self.explored.parts += 1
            scenarios = dict(self.prepared.scenarios)
            nothing = dataclasses.replace(self.prepared.selection, only=frozenset({DRAWN}))
            folder = self.folder / f"part-{self.explored.parts}"
            part = dataclasses.replace(self.prepared, folder=folder, scenarios=scenarios, selection=nothing)
            with campaign.session(part, self.watcher) as running:
                _Part(self, running, scenarios).play()
            self.save()
        return self.explored

    @property
    def _over(self) -> bool:
        return time.monotonic() >= self._until or self.explored.drawn >= self._last

    def plays(self, script: Scenario) -> bool:
        """Whether broker, client and machine can do what the script asks for."""
        new = [wanted for wanted in script.wanted if wanted.name not in self._unable]
        if new:
            found = campaign.unable(self.prepared.selection, [script])
            self._unable |= {wanted.name: found.get(wanted.name, "") for wanted in new}
        return not any(self._unable[wanted.name] for wanted in script.wanted)

    def next_batch(self, running: OpenRun) -> list[Drawn]:
        """Draw the scripts of the next batch; none if the exploration is over."""
        if self._over:
            return []
        found: list[Drawn] = []
        pairs = set(self.explored.pairs)
        first = self.explored.drawn + 1
        for number in range(first, min(first + BATCH * running.campaign.jobs, self._last + 1)):
            found.append(draw(self.explored.seed, number, pairs, self.plays))
            pairs |= found[-1].pairs
        return found

    def save(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        records.save(self.explored, self.folder / STATE)

    def known(self, row: VerdictRow) -> str:
        """Return the line of the user's file that expects this claim to fail, in any scenario; empty without one."""
        live = (entry for entry in self.wanted.expected.known if not entry.expired(self.wanted.expected.today))
        anywhere = ((entry.line, msgspec.structs.replace(entry, scenario="", mode="")) for entry in live)
        return next((line for line, entry in anywhere if entry.matches(row)), "")


class _Part:
    """The scripts of one run, and what they have shown."""

    def __init__(self, explorer: Explorer, running: OpenRun, scenarios: dict[str, Scenario]) -> None:
        self.explorer, self.running, self.scenarios = explorer, running, scenarios
        self.prepared = running.campaign
        self.written = tuple(load(self.prepared.catalogue).values())
        self.scripts: dict[str, Drawn] = {}
        self.recorded: dict[str, list[TrialRecord]] = {}
        """The trials of each script, by its id."""
        self._seen: set[tuple[str, str]] = set()
        self._began = time.monotonic()

    def play(self) -> None:
        judged: Future[Judgement] | None = None
        with ThreadPoolExecutor(1, "judge") as pool:
            while batch := self._next():
                self._record(batch)
                rows = self._new(judged.result()) if judged else []
                judged = pool.submit(self.running.look)
                for row, name in rows:
                    judged.result()
                    self._look_into(row, self.scripts[name])
                self._account(batch)
            for row, name in self._new(judged.result()) if judged else []:
                self._look_into(row, self.scripts[name])

    def _next(self) -> list[Drawn]:
        return self.explorer.next_batch(self.running) if len(self.scripts) < OF_A_PART else []

    def _record(self, batch: Iterable[Drawn]) -> None:
        for drawn in batch:
            self.scripts[drawn.script.id] = drawn
        self._play([drawn.script for drawn in batch], 1)

    def _play(self, scripts: Sequence[Scenario], times: int, first: int = 1) -> None:
        """Play each script so many times."""
        self.scenarios.update((script.id, script) for script in scripts)
        trials = (subject_trials(self.prepared.selection, script, range(first, first + times)) for script in scripts)
        for trial in self.running.play(itertools.chain.from_iterable(trials)):
            self.recorded.setdefault(trial.scenario, []).append(trial)

    def _account(self, batch: Sequence[Drawn]) -> None:
        """Add a batch to what was explored; raises `LaunchError` if not one of the first scripts could be played."""
        explored = self.explorer.explored
        void = {
            trial.scenario: trial.void for drawn in batch for trial in self.recorded[drawn.script.id][:1] if trial.void
        }
        if len(void) == len(batch) and not explored.drawn:
            raise LaunchError(f"none of the first {len(batch)} scripts could be played: {next(iter(void.values()))}")
        explored.drawn += len(batch)
        explored.void += len(void)
        for drawn in batch:
            explored.faults += len(drawn.script.faults) if drawn.script.id not in void else 0
            for pair in drawn.pairs:
                explored.met[text_of(pair)] = explored.met.get(text_of(pair), 0) + 1
        now = time.monotonic()
        explored.seconds = round(explored.seconds + now - self._began, 1)
        self._began = now
        self.explorer.save()
        every = sum(1 for _ in every_pair())
        self.explorer.say(
            f"{explored.drawn} scripts, {explored.faults} faults, {len(explored.met):,} of {every:,} pairs met, "
            f"{len(explored.findings)} findings, {explored.seconds:.0f} s"
        )

    def _new(self, judgement: Judgement) -> list[tuple[VerdictRow, str]]:
        """Return the violations that are new, each with the drawn script that shows it."""
        found = []
        for row in judgement.rows:
            if row.verdict is not Verdict.VIOLATED:
                continue
            for name in row.repeated_by or (row.scenario,):
                if name in self.scripts and (row.anomaly, name) not in self._seen:
                    self._seen.add((row.anomaly, name))
                    found.append((row, name))
        return found

    def _look_into(self, row: VerdictRow, drawn: Drawn) -> None:
        """Repeat a violation, make its script simpler, and keep it as a finding, unless one like it was found."""
        explored, script = self.explorer.explored, drawn.script
        fault, moment = _when(script)
        finding = Discovery(
            claim=row.claim,
            anomaly=row.anomaly,
            reason=row.reason,
            fault=fault,
            moment=moment,
            found=script.id,
            failed=1,
            played=1,
            steps=script.steps,
            seconds=round(explored.seconds + time.monotonic() - self._began, 1),
            part=self.prepared.folder.name,
            known=self.explorer.known(row),
        )
        if any(finding.is_like(other) for other in explored.findings):
            return
        self.explorer.say(f"VIOLATED {row.claim} in {script.id}: {row.reason}")
        began = time.monotonic()
        self._play([script], AGAIN, first=2)
        failed, played, seen = self._rate([script], row)[script.id]
        smallest = script
        if failed and not finding.known:
            smallest = self._simplest(script, row, repeats(failed, played), max(SIMPLER_S, finding.seconds))
        fault, moment = _when(smallest)
        finding = msgspec.structs.replace(
            finding,
            reason=seen or row.reason,
            failed=failed,
            played=played,
            steps=smallest.steps,
            simpler_s=round(time.monotonic() - began, 1),
            fault=fault,
            moment=moment,
        )
        if any(finding.is_like(other) for other in explored.findings):
            return
        file = self._write(finding, smallest)
        finding = msgspec.structs.replace(finding, file=str(file.relative_to(self.explorer.folder)))
        explored.findings = (*explored.findings, finding)
        self.explorer.save()
        for line in lines_of(finding, explored):
            self.explorer.say(line)

    def _rate(self, scripts: Sequence[Scenario], row: VerdictRow) -> dict[str, tuple[int, int, str]]:
        """Return by script in how many of how many valid trials its anomaly was seen, and what the first showed."""
        trials = [trial for script in scripts for trial in self.recorded[script.id] if not trial.void]
        asked = dataclasses.replace(scripts[0], decides={row.claim: _check(row.anomaly, self.written)})
        seen = offences(self.prepared.folder, trials, asked, self.running.spark)
        found: dict[str, tuple[int, int, str]] = dict.fromkeys((script.id for script in scripts), (0, 0, ""))
        for trial in trials:
            failed, played, words = found[trial.scenario]
            one = seen[trial.trial][row.anomaly] if trial.trial in seen else None
            first = f"{one.figures}: {', '.join(one.messages)}" if one and one.count else ""
            found[trial.scenario] = (failed + bool(first), played + 1, words or first)
        return found

    def _simplest(self, script: Scenario, row: VerdictRow, times: int, within_s: float) -> Scenario:
        """Return the simplest script that still fails: of those one change simpler the first is taken that fails."""
        until, number, best = time.monotonic() + within_s, 0, script
        waiting = list(simpler(script))
        while waiting and time.monotonic() < until:
            batch, waiting = waiting[:BATCH], waiting[BATCH:]
            named = []
            for each in batch:
                number += 1
                named.append(dataclasses.replace(each, id=f"{script.id}-simpler-{number}"))
            named = [each for each in named if self.explorer.plays(each)]
            if not named:
                continue
            self._play(named, times)
            rates = self._rate(named, row)
            failing = [each for each in named if rates[each.id][0]]
            if failing:
                best = min(failing, key=size)
                self.explorer.say(f"  simpler: {size(best)[0]} clients, {size(best)[2]:,} messages")
                waiting = list(simpler(best))
        return best

    def _write(self, finding: Discovery, script: Scenario) -> pathlib.Path:
        """Write the script as a scenario file, which pytest plays."""
        folder = self.explorer.folder / "found"
        folder.mkdir(exist_ok=True)
        file = folder / f"{finding.name.replace('-', '_')}.py"
        named = dataclasses.replace(script, id=finding.name)
        says = f"Shows {finding.claim} violated in {finding.failed} of {finding.played} trials."
        says = " ".join([says, *steps_in_words(script.steps)])
        file.write_text(source(named, says, _check(finding.anomaly, self.written)))
        return file


def summary(explored: Explored) -> Iterator[str]:
    """Yield what was found, and what it rules out, in sentences."""
    new = [finding for finding in explored.findings if not finding.known]
    yield (
        f"{plural(explored.drawn, 'script')} with {plural(explored.faults, 'fault')} in {explored.seconds / 60:.0f} "
        f"minutes: {plural(len(new), 'finding')}, {len(explored.findings) - len(new)} known."
    )
    if not new:
        most = percent(upper_bound(max(explored.drawn - explored.void, 1)))
        yield (
            f"If such scripts are independent, at most {most} of them show a violation of this broker "
            "(95 % confidence). That says nothing about what the space does not have."
        )
    for finding in new:
        yield f"{finding.claim}, in {finding.failed} of {finding.played} trials: {finding.file}"


def lines_of(finding: Discovery, explored: Explored) -> Iterator[str]:
    """Yield a finding in words: what failed, how often, the steps, and the file that shows it again."""
    yield f"{finding.claim}: {finding.failed} of {finding.played} trials, found after {finding.seconds:.0f} s"
    yield f"  {finding.reason}"
    if finding.known:
        yield f"  known: {finding.known}"
    yield from (f"  {number}. {step}" for number, step in enumerate(steps_in_words(finding.steps), 1))
    if finding.file:
        yield f"  again: pytest {finding.file} --adapter {explored.adapter} --protocol {explored.protocol}"


def _when(script: Scenario) -> tuple[str, str]:
    """Return the last fault of a script, and the event at which it comes; both are empty without one."""
    if script.fault is None:
        return "", ""
    first = next(leaves(getattr(script.fault, "at", None)))
    return script.fault.name, str(getattr(first, "event", "") or getattr(first, "kind", ""))


def _check(anomaly: str, scenarios: Iterable[Scenario]) -> Check:
    """Return a check of that anomaly as the written scenarios have it, with a liar of the bundled broker if any has."""
    checks = [check for item in scenarios for check in item.checks if check.anomaly == anomaly]
    plain = [check for check in checks if isinstance(check.control, Liar) and not check.control.profile]
    return next(iter([*plain, *checks]), Check(anomaly, exposure="confirmed"))
