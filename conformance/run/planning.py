"""Plan the trials of a run: the scenarios that the selected claims need, and the controls of their checks.

The plan is a pure function of the selection: the same seed gives the same trials with the same numbers.

"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterable, Mapping, Sequence

from conformance import adapters
from conformance.adapters import Adapter, BrokerRequest, EffectiveSettings, opening, vendor_clients
from conformance.adapters.file.nodes_table import NODES, PAIR
from conformance.adapters.file.settings import weaken
from conformance.adapters.vendor_clients import ClientFile
from conformance.claims import STORED, Catalogue, Claim, Subject, Value, is_about, unmet
from conformance.scenario import MOST_ROUNDS, TRIALS, Check, Control, Liar, Scenario, SessionLiar, Weakened, slug
from conformance.scenario.controls import STORES, changes_broker, needed_by, substitute
from conformance.scenario.needs import CLEAN_RESTART, Means
from conformance.scenario.reading import (
    broker_acts,
    most_queues,
    over,
    singles,
    without_answered_acks,
    without_last_restart,
)
from conformance.scenario.script import After, All, Consume, Drain, Offer, Restart, Rounds, Step
from conformance.scenario.values import NEEDS, vary

REFERENCE = "reference"

TIMED = frozenset(
    {
        "answered_late",
        "immediate_waited",
        "rates_of_delivery_modes",
        "rates_of_sending",
        "sooner_than_round_trip",
        "threshold_moved",
        "waited_for_timer",
    }
)
"""The anomalies that compare durations shorter than the liveness bound: another broker at work would change them."""
SLOW_ROUNDS = 11
"""The most rounds of a trial if each start of the broker takes seconds: three trials have 33 kills."""


COMPANY = 3
"""So many trials share a broker: each fires at least a third of the faults that it meets, at its own trigger.

A kill at a random moment misses a window of 5 ms in 90 to 98 of 100."""


@dataclasses.dataclass(frozen=True)
class Selection:
    """What the user asked for. `trials` is the number of subject trials of a scenario; `only` names scenarios.

    A trial has at most `rounds` rounds of each `Rounds`. Scenarios that others stand for are played if `thorough` says
    so, or if `only` names them.

    `unable`: the faults that this machine cannot inject, by name, and why. `no_client_reason`: why nothing is tried.
    """

    adapter: Adapter
    protocol: str
    settings: EffectiveSettings
    overrides: Mapping[str, Value]
    claims: Sequence[Claim]
    required: frozenset[str]
    seed: int
    trials: int = TRIALS
    rounds: int = MOST_ROUNDS
    judged_as: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    thorough: bool = False
    unable: Mapping[str, str] = dataclasses.field(default_factory=dict)
    no_client_reason: str = ""
    client: str = ""

    @property
    def vendor(self) -> ClientFile | None:
        return vendor_clients.find(self.client) if self.client else None

    @property
    def weakens(self) -> frozenset[str]:
        """The settings that a control may change: the product has them, and accepts them beside the user's.

        Not a sync that follows `persistence`: a broker that stores nothing shows nothing about a missing sync.
        """
        file, version = self.adapter.file, self.adapter.version
        changes = {
            name: weaken(file, {name: False if isinstance(value, bool) else value}, self.overrides, version)
            for name, value in self.settings.values.items()
        }
        return frozenset(
            name for name, change in changes.items() if change and (name in change or STORES not in change)
        )

    def applies(self, claim: Claim) -> bool:
        """Whether a trial could decide the claim here, or the user requires it.

        This only saves time: the judge says why a claim does not apply (`judge.applicable`). A configuration that does
        not promise the claim still plays its trials, because they show the permission that applies instead.
        """
        if claim.id in self.required:
            return True
        if claim.subject is (Subject.SESSION if self.client else Subject.VENDOR_CLIENT):
            return False  # it is about the suite's own sessions, or about a vendor's client
        bundled = self.adapter.name == REFERENCE
        binds = not claim.binds or set(claim.binds) & (set(self.adapter.file.profiles) | self.judged_as)
        return (
            is_about(claim, self.protocol, bundled=bundled)
            and set(claim.capabilities) - {STORED} <= self.adapter.capabilities(self.protocol)
            and bool(binds or claim.subject is Subject.SESSION)
        )


@dataclasses.dataclass(frozen=True)
class Planned:
    """One trial to be recorded. `script` has its drawn numbers; `scenario` is the id it belongs to.

    `rtt_ms`: a round trip between its clients and the broker takes so much longer.
    """

    id: str
    script: Scenario
    arm: str
    control: str
    index: int
    seed: int
    adapter: Adapter
    settings: EffectiveSettings
    protocol: str
    liar: str | None = None
    session_liar: str = ""
    waits_for_liveness: bool = False
    client: str = ""
    rounds: int = MOST_ROUNDS
    rtt_ms: float = 0.0

    @property
    def queue(self) -> str:
        """Return the name of its queue; a dot would be a wildcard in some brokers."""
        return self.id.replace(".", "-")

    @property
    def queues(self) -> tuple[str, ...]:
        """Return the names of all its queues, its own first."""
        return (self.queue, *(f"{self.queue}-{number}" for number in range(2, most_queues(self.script.steps) + 1)))

    @property
    def instance(self) -> tuple[object, ...]:
        """Trials with equal instances share one broker; the settings of clients do not count.

        A trial that waits for the liveness bound has its own broker, since it runs beside the rest. A trial with a
        power loss has its own, since it needs a disk.
        """
        settings = vendor_clients.of_broker(self.adapter.file, self.settings) if self.client else self.settings
        return (self.adapter.spec, settings, self.liar, self.parallel_group, self.own_disk)

    @property
    def flush_ms(self) -> int:
        """The broker's flush interval by its settings; 0 if unknown.

        For an external broker the settings only say what its product documents, so it is unknown.
        """
        buffered = self.settings.values.get("journal_buffer_ms", 0)
        return buffered if isinstance(buffered, int) and not self.adapter.launcher.owned else 0

    @property
    def own_disk(self) -> str:
        """The file system of the disk image that the broker stores on, and that the fault can take away; else empty."""
        lost = [fault for fault in self.script.faults if fault.means is Means.POWER]
        return next((getattr(fault, "filesystem", "ext4") for fault in lost), "")

    @property
    def parallel_group(self) -> str:
        """The group in which trials follow each other: the broker on trial (empty), `liars`, or one waiting trial.

        Groups run in parallel. A vendor's client that is used wrongly belongs to the broker on trial.
        """
        if self.waits_for_liveness:
            return self.id
        return "liars" if self.liar or (self.session_liar and not self.client) else ""

    @property
    def alone(self) -> bool:
        """Whether no other trial runs at the same time. A trial that waits for the liveness bound does nothing else."""
        return not self.waits_for_liveness and measures_time(self.script)

    @property
    def shape(self) -> tuple[str, ...]:
        """What its script does to the broker, in this order; empty if no other trial may use the broker meanwhile.

        Trials of one shape can share a broker (`companies`). One with a fault or two may then fire none itself. A
        weakened broker needs no exact moment to be seen: of its trials a third fires its fault itself.
        """
        subject = self.arm == "subject"
        liar = bool(self.liar or self.session_liar)
        few = subject and 0 < sum(fault.ends_broker for fault in self.script.faults) < COMPANY
        if liar or few or self.alone or self.waits_for_liveness or self.own_disk or self.rtt_ms:
            return ()
        if self.adapter.launcher.owned or not self.script.shares_broker:
            return ()
        return broker_acts(self.script.steps)

    @property
    def start_seconds(self) -> float:
        """Estimate the seconds of a start of its broker."""
        return start_seconds(self.adapter)

    @property
    def seconds(self) -> float:
        """Estimate the seconds of the trial, on a broker that has started."""
        return seconds_of(self.script.steps, self.start_seconds)

    @property
    def arm_label(self) -> str:
        return arm_label(self.arm, self.control)

    @property
    def k(self) -> int | None:
        return drawn_number(self.script.fault)


def measures_time(script: Scenario) -> bool:
    """Whether a busy machine could change what its trials show.

    Its author or a check says so (`timing`, `TIMED`). A sync is held, or a link slow, for a time that is compared with
    answers. Or the stamps of a link are compared with the end of a processing. A kill, a cut, a failing disk and a
    power loss come at counted events, and only the order of events is judged: they need no quiet.
    """
    return (
        script.timing
        or any(check.anomaly in TIMED for check in script.decides.values())
        or any(fault.timed for fault in script.faults)
        or any(isinstance(step, Consume) and step.linked and step.work_ms for step in singles(script.steps))
    )


def drawn_number(fault: object) -> int | None:
    """Return the number of a fault's trigger; None if it has none, or none was drawn yet."""
    at = getattr(fault, "at", fault)
    first = at.parts[0] if isinstance(at, All) else at
    number = first.ms if isinstance(first, After) else getattr(first, "k", None)
    return number if isinstance(number, int) else None


def wanted_checks(scenario: Scenario, selection: Selection) -> dict[str, Check]:
    """Return the checks of the scenario whose claims are selected and could be decided here."""
    if selection.no_client_reason or (selection.only and scenario.id not in selection.only):
        return {}
    if scenario.thorough and not (selection.thorough or selection.only):
        return {}  # another scenario stands for it
    if any(wanted.name in selection.unable for wanted in scenario.wanted):
        return {}
    ids = {claim.id for claim in selection.claims if selection.applies(claim)}
    return {claim: check for claim, check in scenario.decides.items() if claim in ids}


def left_to_thorough(selection: Selection, scenarios: Mapping[str, Scenario]) -> tuple[str, ...]:
    """Return the ids of the scenarios that `--thorough` would add."""
    more = [item for item in scenarios.values() if item.thorough and not wanted_checks(item, selection)]
    thorough = dataclasses.replace(selection, thorough=True)
    return tuple(item.id for item in more if wanted_checks(item, thorough))


def plan(selection: Selection, scenarios: Mapping[str, Scenario], catalogue: Catalogue) -> list[Planned]:
    """Return every trial of a run; trials that share a broker follow each other."""
    trials: list[Planned] = []
    for scenario in scenarios.values():
        if not wanted_checks(scenario, selection):
            continue
        trials += subject_trials(selection, scenario, range(1, selection.trials + 1))
        for control in _controls(scenario, selection, catalogue):
            trials += [_control_trial(selection, scenario, control, n) for n in range(1, control.trials + 1)]
    return _grouped(trials)


def subject_trials(selection: Selection, scenario: Scenario, indices: Iterable[int]) -> list[Planned]:
    """Return trials of the broker as configured; also used to repeat a violation."""
    settings = _settings(selection, scenario)
    return [_planned(selection, scenario, "subject", "", index, selection.adapter, settings) for index in indices]


def more_faults(
    selection: Selection, scenarios: Mapping[str, Scenario], added: Mapping[str, int], seconds: float
) -> list[Planned]:
    """Return more trials of the broker as configured, for about `seconds` of work, but at least one.

    Each is of the scenario that has had the fewest faults; `added` are the trials of each that were added before. So
    trials are chosen by exposure and never by outcome.
    """
    one = {
        item.id: subject_trials(selection, item, [1])[0]
        for item in scenarios.values()
        if wanted_checks(item, selection)
    }
    played = {name: selection.trials + added.get(name, 0) for name, trial in one.items() if trial.script.faults}
    chosen: list[Planned] = []
    while played and (not chosen or sum(trial.seconds for trial in chosen) < seconds):
        name = min(played, key=lambda each: played[each] * len(one[each].script.faults))
        played[name] += 1
        chosen += subject_trials(selection, scenarios[name], [played[name]])
    return chosen


def _controls(scenario: Scenario, selection: Selection, catalogue: Catalogue) -> list[Control]:
    """Return the controls of the checks that can be judged here. A subject as weak as its control needs none."""
    found: dict[Control, None] = {}
    for claim_id, stated in wanted_checks(scenario, selection).items():
        claim = catalogue.claims[claim_id]
        settings = _settings(selection, scenario)
        missed = unmet(claim.when, {**settings.values, **scenario.session}, settings.absent)
        given_up = missed and claim_id not in selection.required and claim.subject is not Subject.SESSION
        run = (selection.adapter.launcher.owned, bool(selection.client), selection.weakens)
        check = substitute(stated, claim.kind, scenario.fault_for(claim), *run)
        if check.control is None or given_up or not claim.gets_verdict(selection.required):
            continue
        external = selection.adapter.launcher.owned
        if isinstance(check.control, Weakened) and external and changes_broker(check.control):
            continue  # the judge says that it was not run
        if isinstance(check.control, Liar) and selection.client and _client_of_liars(selection) is None:
            continue  # its liars do not speak this protocol
        if isinstance(check.control, Weakened) and _is_as_weak(selection, scenario, check.control):
            continue
        found[check.control] = None
    return list(found)


def _client_of_liars(selection: Selection) -> ClientFile | None:
    """Return the vendor's client for the bundled broker's liars; over AMQP 0-9-1 none was tried with it."""
    return vendor_clients.choose("", selection.protocol, adapters.find(REFERENCE))


def _settings(selection: Selection, scenario: Scenario) -> EffectiveSettings:
    """Return the settings of the run with those of the script that this client has."""
    asked = _asked(selection.adapter, scenario)
    return selection.adapter.effective({**selection.overrides, **asked}) if asked else selection.settings


def _asked(adapter: Adapter, scenario: Scenario) -> dict[str, Value]:
    """Return the settings of the script that this broker has: none, if one of them cannot have its value here.

    Counter-example: OpenMQ cannot page, so a limit for the memory of its queue refuses what the script fills it with.
    """
    if adapter.launcher.owned:
        return {}  # its owner states its settings
    known, of_queue = adapter.file.settings, adapter.file.queue_settings
    asked = {name: value for name, value in scenario.settings if name in known and known[name].settable}
    if not all(known[name].takes(value) for name, value in asked.items()):
        asked = {}
    limits = [(of_queue[name].gets, value) for name, value in scenario.queue if name in of_queue]
    return {**asked, **{gets: value for gets, value in limits if gets}}


def _weakened(selection: Selection, scenario: Scenario, control: Weakened) -> EffectiveSettings:
    adapter = selection.adapter
    wanted = weaken(adapter.file, dict(control.settings), selection.overrides, adapter.version)
    return adapter.effective({**selection.overrides, **_asked(selection.adapter, scenario), **wanted})


def _is_as_weak(selection: Selection, scenario: Scenario, control: Weakened) -> bool:
    """Whether the broker on trial is its own control: it is as weak, and its loss window is at least as wide."""
    subject, weak = _settings(selection, scenario), _weakened(selection, scenario, control)
    width = control.widened_by
    if width in subject.values and subject.values[width] > weak.values[width]:  # type: ignore[operator]
        return {**weak.values, width: subject.values[width]} == subject.values
    return weak == subject


def _control_trial(selection: Selection, scenario: Scenario, control: Control, index: int) -> Planned:
    adapter, settings, client = _tried_on(selection, scenario, control)
    trial = _planned(selection, scenario, "control", control.label, index, adapter, settings)
    script, needed = trial.script, needed_by(scenario, filter(selection.applies, selection.claims))
    if isinstance(control, Liar) and client and vendor_clients.find(client).ack_confirm is None:
        # Another client than that of the broker on trial: a kill that waits for an answer would never come.
        script = dataclasses.replace(script, steps=without_answered_acks(script.steps))
    return dataclasses.replace(
        trial,
        script=script,
        client=client,
        protocol=opening.spoken(selection.protocol, adapter, needed),
        waits_for_liveness=control.waits_for_liveness,
        liar=control.name if isinstance(control, Liar) else None,
        session_liar=control.name if isinstance(control, SessionLiar) else "",
    )


def _tried_on(selection: Selection, scenario: Scenario, control: Control) -> tuple[Adapter, EffectiveSettings, str]:
    """Return the broker of a control, its settings, and the name of its vendor's client."""
    if isinstance(control, Weakened):
        return selection.adapter, _weakened(selection, scenario, control), selection.client
    if selection.client and isinstance(control, SessionLiar):
        return selection.adapter, _settings(selection, scenario), selection.client
    chosen: dict[str, Value] = {adapters.VARIANT: profile} if (profile := getattr(control, "profile", "")) else {}
    chosen |= {NODES: PAIR} if any(fault.means in (Means.NODES, Means.NODE_LINKS) for fault in scenario.faults) else {}
    protocol = selection.protocol if selection.client else None
    opened = adapters.open_broker(BrokerRequest(REFERENCE, protocol, overrides=chosen))
    client = opened.client.name if opened.client else selection.client
    return opened.adapter, opened.adapter.effective({**chosen, **_asked(opened.adapter, scenario)}), client


def _planned(
    selection: Selection,
    scenario: Scenario,
    arm: str,
    control: str,
    index: int,
    adapter: Adapter,
    settings: EffectiveSettings,
) -> Planned:
    label = slug(arm_label(arm, control).replace(" ", "-"))
    identity = f"{scenario.id}.{label}.{index}"
    seed = zlib.crc32(f"{selection.seed}:{identity}".encode())
    rounds = selection.rounds if _starts_fast(adapter) else min(selection.rounds, SLOW_ROUNDS)
    script = drawn_for(scenario, seed, adapter, selection.protocol, rounds, control=arm == "control")
    if script.crosses and (beside := adapter.file.beside(selection.protocol)):
        script = dataclasses.replace(script, steps=over(script.steps, beside[(index - 1) % len(beside)]))
    return Planned(
        id=identity,
        script=script,
        rounds=rounds,
        arm=arm,
        control=control,
        index=index,
        seed=seed,
        adapter=adapter,
        settings=settings,
        protocol=selection.protocol,
        client=selection.client,
    )


def _starts_fast(adapter: Adapter) -> bool:
    return not (adapter.launcher.owned or adapter.launcher.contained or adapter.file.java)


def drawn_for(
    scenario: Scenario, seed: int, adapter: Adapter, protocol: str, rounds: int = MOST_ROUNDS, *, control: bool = False
) -> Scenario:
    """Return the script of one trial with what its seed draws, numbers and values, as far as the adapter can play it.

    No values are drawn for a control: a liar that alters bodies needs one.
    """
    script = scenario.drawn(seed, rounds, control=control)
    steps = script.steps
    if script.varies and not (control or measures_time(script)):
        steps = vary(script, seed, [name for name, need in NEEDS.items() if adapter.lacks_over(need, protocol)])
    return dataclasses.replace(script, steps=without_last_restart(steps) if adapter.lacks(CLEAN_RESTART) else steps)


def arm_label(arm: str, control: str) -> str:
    """Return the short name of an arm: `subject`, `weakened`, or its liar.

    >>> arm_label("subject", ""), arm_label("control", "persistence=false"), arm_label("control", "liar x")
    ('subject', 'weakened', 'liar x')
    """
    if arm == "subject":
        return arm
    return control if "liar " in control else "weakened"


def _grouped(trials: Sequence[Planned]) -> list[Planned]:
    order = {instance: number for number, instance in enumerate(dict.fromkeys(trial.instance for trial in trials))}
    return sorted(trials, key=lambda trial: order[trial.instance])


def companies(trials: Iterable[Planned]) -> list[tuple[Planned, ...]]:
    """Return the trials that share their broker: they do the same to it, and are of different scenarios.

    Those of similar length are together, since each waits for the others. A trial alone is a company of one.
    """
    fitting: dict[object, list[Planned]] = {}
    for trial in sorted(trials, key=lambda each: -each.seconds):
        shape = trial.shape
        fitting.setdefault((trial.instance, trial.arm, shape, trial.index) if shape else trial.id, []).append(trial)
    return [tuple(each[at : at + COMPANY]) for each in fitting.values() for at in range(0, len(each), COMPANY)]


def scenarios_sharing(trials: Iterable[Planned], scenario_id: str) -> tuple[str, ...]:
    """Return the ids of the scenarios whose trials share the broker of the first trial of that one, itself among them.

    The further trials of a scenario are in the same company as its first.
    """
    groups = companies(trial for trial in trials if trial.arm == "subject" and trial.index == 1)
    shared = (tuple(trial.script.id for trial in members) for members in groups)
    return next((ids for ids in shared if scenario_id in ids), (scenario_id,))


def clients_of(trials: Sequence[Planned]) -> list[ClientFile]:
    return [vendor_clients.find(name) for name in sorted({trial.client for trial in trials} - {""})]


_JAVA_START_S, _START_S = 1.4, 0.2
_STEP_S, _DRAIN_S = 0.15, 0.3


def start_seconds(adapter: Adapter) -> float:
    """Estimate the seconds of a start of the broker."""
    return _JAVA_START_S if adapter.file.java else _START_S


def seconds_of(steps: Iterable[Step], start: float) -> float:
    """Estimate the seconds of one trial: starts of the broker, drains, and the work of clients.

    Clients beside each other take the time of one; rounds that are not drawn yet are one round.
    """
    seconds = 0.0
    for step in steps:
        match step:
            case Rounds():
                seconds += seconds_of(step.steps, start)
            case Restart():
                seconds += start
            case Drain():
                seconds += _DRAIN_S
            case Offer():
                seconds += start * (len(step.settings) + 1)
            case _:
                silent = _DRAIN_S if isinstance(step, Consume) and step.until_silent else 0.0
                seconds += _STEP_S + silent + getattr(getattr(step, "until", None), "hold_s", 0.0)
    return seconds
