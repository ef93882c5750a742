"""Scenarios: frozen scripts of steps and faults, with checks of what these show. Which claims they decide is derived.

The vocabulary of a script is `scenario.script`. A scenario is a class whose docstring is the report's text:

    @scenario
    class BrokerKilledWhilePublishing:
        \"\"\"A publisher keeps 100 persistent messages in flight; the broker is killed at a confirm.\"\"\"

        mode = "async_ack"
        steps = (Publish(20_000, window=100, until=Kill(Nth("confirm", Between(150, 400)))), Restart(), Drain(), ...)
        checks = (Check("lost", exposure="confirmed_in_window", control=Weakened(...)),)

This package runs nothing, and no check is code: `Check.anomaly` names an entry of the judge's table. A claim names its
anomalies as well, and `load` pairs them.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import pathlib
import random
import re
import sys
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import msgspec

from conformance import paths
from conformance.claims import Catalogue, Claim, Kind, Subject, Value
from conformance.errors import CatalogueError
from conformance.protocols import WIRES, only_with
from conformance.scenario.faults import Cause
from conformance.scenario.needs import (
    ANSWERED,
    APART,
    ASKED_AGAIN,
    COPIES,
    EXPIRY_QUEUE,
    FRAMES,
    JOURNAL_WATCHED,
    LIVES,
    MODIFIED,
    NON_PERSISTENT,
    ON_XFS,
    RAW,
    REFUSES,
    SESSION_EXPIRY,
    SETTINGS,
    SEVERAL,
    SHARED,
    SHORT_LIVES,
    SPREADS,
    TRANSACTIONS,
    TURNED_AWAY,
    TYPED,
    Need,
    answer_to,
    in_mode,
    need_of,
)
from conformance.scenario.options import options_of
from conformance.scenario.reading import (
    check_types,
    cut_around_release,
    draw,
    modes_of,
    most_queues,
    needs_of_launcher,
    questions_of,
    shares_a_queue,
    singles,
    togethers,
    unroll,
)
from conformance.scenario.script import (
    After,
    Consume,
    Cut,
    DiskFault,
    Fault,
    HoldLink,
    LinkFault,
    Offer,
    Publish,
    Recovery,
    Restart,
    Step,
    TogetherFault,
    waits_for_answered_ack,
)
from conformance.scenario.selectors import SELECTORS

DELIVERY_MODES = frozenset({"persistent", "non_persistent"})
REFUSING = {"creates_addresses", "full_queue_policy", "max_message_bytes"}
"""Settings of a scenario that may make a broker refuse sends: one that blocks or pages refuses none."""

TRIALS = 3
KILLS, LOSSES = 15, 4
"""The rounds of a script whose broker is killed, and of one that loses its power or its connections.

Three trials have 45 kills, so 30 that met something at risk: three scenarios that share a broker each fire a third of
them at their own trigger (`run.planning.companies`), and the others may meet nothing. And they have twelve losses."""

MOST_ROUNDS = 60
"""The judge tells so many faults of one trial apart (`judge.plan.relations`)."""


@dataclasses.dataclass(frozen=True)
class Weakened:
    """A control that is the same product with these settings. It is strong, unless it stores nothing.

    `widened_by` names the setting that makes the loss window wide enough for a kill (`scenario.controls`). `journal`:
    the fault waits for a read of the journal, so a broker that stores nothing cannot be the control.
    `waits_for_liveness`, `tail`: as with a `Liar`.
    """

    settings: tuple[tuple[str, bool | int], ...]
    trials: int = TRIALS
    widened_by: str = ""
    journal: bool = False
    waits_for_liveness: bool = False
    tail: bool = False

    @property
    def label(self) -> str:
        return ", ".join(f"{k}={str(v).lower()}" for k, v in self.settings)

    @property
    def stores_nothing(self) -> bool:
        return ("persistence", False) in self.settings


@dataclasses.dataclass(frozen=True)
class Liar:
    """A check-only control: the bundled broker, wrong in exactly one way. It is deterministic: one trial.

    With `waits_for_liveness` the liar omits an action, so its trials last for the liveness bound; `trials` is then the
    number that the claim needs. `profile` is the variant of the broker that lies. `over`: it lies over this protocol
    only, so its check decides claims of that protocol alone. `tail`: it stands for a missing sync, so what it loses is
    the end of what it answered. A trial in which it loses its oldest message, or everything, does not count as failed.
    """

    name: str
    trials: int = 1
    waits_for_liveness: bool = False
    profile: str = ""
    over: str = ""
    tail: bool = False

    @property
    def label(self) -> str:
        return f"liar {self.name}"


@dataclasses.dataclass(frozen=True)
class SessionLiar:
    """A session that is wrong in one way: the suite's own, on the honest bundled broker, as control of a self-check.

    Of a claim about a vendor's client it is that client, used wrongly, on the broker on trial.
    """

    name: str
    trials: int = 1
    waits_for_liveness: bool = False
    tail: ClassVar[bool] = False

    @property
    def label(self) -> str:
        return f"session liar {self.name}"


Control = Weakened | Liar | SessionLiar


def weakened(
    *, trials: int = TRIALS, waits_for_liveness: bool = False, tail: bool = False, **settings: bool | int
) -> Weakened:
    return Weakened(tuple(sorted(settings.items())), trials, waits_for_liveness=waits_for_liveness, tail=tail)


SYNC_OFF = dataclasses.replace(
    weakened(trials=5, tail=True, sync_non_transactional=False, sync_transactional=False, journal_buffer_ms=500),
    widened_by="journal_buffer_ms",
)
"""The strong control of claims about stored messages: answers leave before the journal is written, and the buffer of
half a second makes the loss window wide enough for a kill, which the page cache survives.

Now and then (1 kill in 22, Artemis 2.56.0) that buffer is written between the last answer and the kill, and nothing is
lost. Five trials bear one such miss: q stays below 0.05 at 4 of 5. Three do not: on a slow machine the bundled broker
failed in 2 of 3 after acknowledgements."""


REST = Consume("auto", prefetch=100, until_silent=True)
"""Takes what a round has left, so that the next one has messages of its own."""


def sent_before(window: int, *, batch: int = 0, queues: int = 1) -> Publish:
    """Return a publisher whose messages outlive a kill of `SYNC_OFF`: it sends for 600 ms, a buffer is half a second.

    Without it a kill after some 100 ms takes everything, and a control that stores nothing would look the same. Not
    for 400 ms: the next client may send and be killed within the 100 ms that the first buffer still has.
    """
    return Publish(80, window=window, batch=batch, queues=queues, every_ms=7.5 * max(batch, 1))


def acknowledged_before(
    mode: Literal["individual", "transacted"] = "individual", acknowledge: int = 1
) -> tuple[Publish, Restart, Consume]:
    """Return steps that acknowledge for half a second: a kill of `SYNC_OFF` does not bring all of it back."""
    slow = Consume(mode, prefetch=50, acknowledge=acknowledge, work_ms=10, stop=60)
    return Publish(360, window=100), Restart(clean=True), slow


@dataclasses.dataclass(frozen=True)
class Check:
    """What a scenario can show: an anomaly of the judge's table, what was exposed to it, and where it is seen to fail.

    A check without a control is the witness of a permission, or reports an observation.
    """

    anomaly: str
    exposure: str
    control: Control | None = None


RECOVERED = Check("not_recovered", exposure="sends", control=Liar("refuses-to-start-with-messages"))
"""Whether the broker starts again after a fault. It is judged in each scenario that shows it did not; a scenario that
names it shows as well that it did."""


STUCK = Check(
    "stuck",
    exposure="confirmed",
    control=Liar("skips-every-hundredth-delivery", trials=3, waits_for_liveness=True),
)
"""Whether a consumer that waits, with credit, is given what its queue holds."""

OF_CLIENT = (Subject.VENDOR_CLIENT,)
"""The `subjects` of a scenario that shows what a vendor's client does, and nothing of the suite's own clients."""

OF_BOTH = (Subject.BROKER, Subject.SESSION, Subject.VENDOR_CLIENT)

STALE = Check("lost_though_old", exposure="confirmed", control=Liar("loses-the-oldest"))
"""How old a message must be to survive, if the broker answers before it has stored."""


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A frozen script. `id` is derived from the class name; `says` is the report's text.

    `client` is `library`, or `raw`: the suite's own client, where the library would hide what crossed the wire. `queue`
    are the options of its queue: `durable`, or `max_length`, messages beyond which sends are refused. With `copies_of`
    each of its queues gets every message: a publisher sends to the first one only, outside transactions. It is declared
    before the broker is used, unless it is `fresh` (declared when the trial begins), `created` (by the client that
    names it first), `undeclared` (the broker may make it, or refuse its clients) or `subscribed`: then the first name
    is that of a topic as well, and each queue is a durable subscription of it, which its receivers make and find again
    by the same client id. A publisher sends to the topic, outside transactions. `settings` are those that it asks
    of a broker or a vendor's client for itself, where these have them. `checks` are what it can show, and `decides` the
    claims that follow (`load`). `subjects`: whose behaviour it shows. `standing`: its checks judge the trials of every
    scenario (`judge.applicable`); its own trials are those in which the controls are seen to fail. `timing`: it
    measures time, so no other trial runs beside it (`run.planning.measures_time`). `thorough`: it is played with
    `--thorough` only; each claim that it decides has another scenario, which stands for it in every run. None that has
    shown a finding or a bug may be. `varies`: the seed of a trial draws what its publishers leave open (`values.vary`).
    """

    id: str
    says: str
    mode: str
    steps: tuple[Step, ...]
    decides: Mapping[str, Check]
    client: str = "library"
    queue: tuple[tuple[str, bool | int], ...] = ()
    settings: tuple[tuple[str, Value], ...] = ()
    standing: bool = False
    timing: bool = False
    thorough: bool = False
    varies: bool = True
    checks: tuple[Check, ...] = ()
    subjects: tuple[Subject, ...] = (Subject.BROKER, Subject.SESSION)

    @property
    def modes(self) -> frozenset[str]:
        """How its clients send and receive, and what they send, in words of the catalogue."""
        return frozenset((self.mode, *modes_of(self.steps)))

    @property
    def ways(self) -> frozenset[str]:
        """What else a claim may ask of a scenario, in words of the catalogue, and the questions of its clients."""
        queue, settings = dict(self.queue), dict(self.settings)
        words = questions_of(self.steps)
        words |= {"undeclared_queue"} if "undeclared" in queue else set()
        words |= {"declared_queue"} if not {"created", "subscribed", "undeclared"} & queue.keys() else set()
        words |= {"standing_queue"} if not LIVES.keys() & queue.keys() else set()
        words |= {"attempt_limit"} if "max_delivery_attempts" in settings else set()
        words |= {"another_protocol"} if self.crosses else set()
        words |= cut_around_release(self._clients) | ({SESSION_EXPIRY} & queue.keys())
        words |= {"broker_ended"} if any(fault.ends_broker for fault in self.faults) else set()
        words |= {option.way for step in self._clients for option in options_of(step) if option.way}
        words |= {"asked_again"} if ASKED_AGAIN in self.needs else set()
        words.add("several_queues" if most_queues(self.steps) > 1 else "one_queue")
        words.add("both_delivery_modes" if self.modes >= DELIVERY_MODES else "one_delivery_mode")
        return frozenset(words)

    @property
    def session(self) -> dict[str, Value]:
        """The settings that its clients ask for, by their names in the catalogue."""
        sends = [step for step in self._clients if isinstance(step, Publish) and not step.batch]
        modes = [step.ack_event_mode for step in sends if step.ack_event_mode]
        asked: dict[str, Value] = {**dict(self.settings), **({"ack_event_mode": modes[0]} if modes else {})}
        if sends:
            asked["publish_window"] = max(step.window for step in sends)
            asked["ack_immediately"] = any(step.immediate_every for step in sends)
        if takes := [step.prefetch for step in self._clients if isinstance(step, Consume)]:
            asked["prefetch"] = max(takes)
        return asked

    @property
    def needs(self) -> tuple[Need, ...]:
        """What a broker must be able to do: kinds of queues, settings of any name, frames on a link."""
        offers = any(isinstance(step, Offer) for step in self.steps)
        reads = any(step.linked or isinstance(step.until, Cut | HoldLink) for step in self._clients)
        refused = {word for step in self._clients if isinstance(step, Consume) for word in step.refuse}
        answered = any(waits_for_answered_ack(getattr(step.until, "at", None)) for step in self._clients)
        answered |= {check.exposure for check in self.checks} == {"acknowledgements_confirmed"}
        more = {SETTINGS: offers, FRAMES: reads, MODIFIED: {"failed", "undeliverable"} & refused, ANSWERED: answered}
        more |= {ASKED_AGAIN: "recovered" in refused, EXPIRY_QUEUE: "expiry_destination" in dict(self.settings)}
        more[SHORT_LIVES] = any(0 < getattr(step, "lives_ms", 0) < 1000 for step in self._clients)
        more |= {SEVERAL: most_queues(self.steps) > 1, SHARED: shares_a_queue(self.steps)}
        more[ON_XFS] = any(getattr(fault, "filesystem", "") == "xfs" for fault in self.faults)
        more[TYPED] = any(SELECTORS[s.selects].typed for s in self._clients if isinstance(s, Consume) and s.selects)
        more[TRANSACTIONS] = any(isinstance(step, Publish) and step.batch for step in self._clients)
        more[NON_PERSISTENT] = any(isinstance(step, Publish) and not step.durable for step in self._clients)
        asks = () if self.subjects == OF_CLIENT else map(answer_to, sorted(questions_of(self.steps)))
        others = (*asks, *(need for need in more if more[need]), *self._of_options("need"))
        return (*map(need_of, dict(self.queue)), *others, *needs_of_launcher(self.steps))

    @property
    def of_client(self) -> tuple[Need, ...]:
        """What only some clients can do, and the mode of each consumer."""
        asked = {RAW: self.client == "raw"}
        takes = [step for step in self._clients if isinstance(step, Consume)]
        limited = "max_length" in dict(self.queue) and any(isinstance(s, Publish) and s.batch for s in self._clients)
        refused = any(name in REFUSING and value not in ("block", "page") for name, value in self.settings)
        asked[TURNED_AWAY] = limited or refused or "undeclared" in dict(self.queue)
        one_place = self.copied or self.subscribed
        asked[SPREADS] = any(isinstance(step, Publish) and step.queues > 1 and not one_place for step in self._clients)
        asked[REFUSES] = any({*step.refuse} - {"thrown"} for step in takes)
        used = (need for need in asked if asked[need])
        return (*used, *self._of_options("of_client"), *(in_mode(step.mode) for step in takes))

    def _of_options(self, what: Literal["need", "of_client"]) -> tuple[Need, ...]:
        needs = (getattr(option, what) for step in self._clients for option in options_of(step))
        return tuple(dict.fromkeys(need for need in needs if need))

    @property
    def gives_back(self) -> bool:
        """Whether a consumer of it refuses deliveries, which may then be in a dead-letter queue."""
        return any(step.refuse for step in self._clients if isinstance(step, Consume))

    @property
    def declared(self) -> bool:
        """Whether its queue is there when the broker starts."""
        return not LIVES.keys() & dict(self.queue).keys()

    @property
    def copied(self) -> bool:
        """Whether each of its queues gets every message."""
        return COPIES in dict(self.queue)

    @property
    def subscribed(self) -> bool:
        """Whether its queues are durable subscriptions of one topic."""
        return "subscribed" in dict(self.queue)

    @property
    def shares_broker(self) -> bool:
        """Whether trials of other scenarios may use its broker meanwhile: it asks for no settings, and watches no file.

        What it does to the broker, the others do as well (`scenario.reading.broker_acts`).
        """
        if self.settings or {*self.needs} & {JOURNAL_WATCHED, SETTINGS} or isinstance(self.steps[0], Restart):
            return False
        starts = [step for step in self.steps if isinstance(step, Restart)]
        return all(start == Restart(clean=start.clean) for start in starts) and all(each.shared for each in self.faults)

    @property
    def damages(self) -> bool:
        """Whether it changes what the broker has stored."""
        return any(fault.cause is Cause.DAMAGE for fault in self.faults)

    @property
    def crosses(self) -> bool:
        """Whether its clients speak two protocols."""
        return any(step.over for step in self._clients)

    @property
    def linked(self) -> bool:
        """Whether a client uses a link, so that there are frames to judge by."""
        return any(step.linked or isinstance(step.until, LinkFault) for step in self._clients)

    @property
    def _clients(self) -> list[Publish | Consume]:
        return [step for step in singles(self.steps) if isinstance(step, Publish | Consume)]

    @property
    def faults(self) -> tuple[Fault | DiskFault, ...]:
        both = ((getattr(step, "under", None), getattr(step, "until", None)) for step in singles(self.steps))
        return tuple(fault for pair in both for fault in pair if fault is not None)

    @property
    def wanted(self) -> tuple[Need | Fault | DiskFault, ...]:
        """Everything that a broker, its client or this machine may not have."""
        return (*self.needs, *self.of_client, *self.faults)

    @property
    def fault(self) -> Fault | DiskFault | None:
        """The last fault, after which the queue is drained."""
        return self.faults[-1] if self.faults else None

    def fault_for(self, claim: Claim) -> str:
        """Return the name of the last of its faults that the claim is about, or `none`.

        A claim without a fault is tried before the fault, or under one that the claim does not name.
        """
        names = [name for fault in self.faults for name in fault.names]
        return next((name for name in reversed(names) if name in claim.faults), "none")

    def tries(self, claim: Claim) -> bool:
        """Whether its last fault is one of the claim's.

        A claim without a fault is tried where the broker lives through each of them. A standing check judges scenarios
        without a fault as well, so its claim has to be about these.
        """
        if self.standing:
            return "none" in claim.faults
        if "none" in claim.faults and all(fault.spares_broker for fault in self.faults):
            return True
        return self.fault is not None and not {*self.fault.names}.isdisjoint(claim.faults)

    def other_than(self, claim: Claim, *, offended: bool = False) -> str:
        """Say what the claim is about that this scenario does not do; empty if a check of it may decide the claim.

        A broker that has `offended` the claim without a fault would under any fault too.
        """
        modes = [{*claim.modes} - DELIVERY_MODES, {*claim.modes} & DELIVERY_MODES]
        tries = self.tries(claim) or (offended and not self.faults)
        obstacles = {
            f"is about a {claim.subject}": claim.subject not in self.subjects,
            f"is tried under {', '.join(claim.faults)}": not tries,
            f"is about {', '.join(claim.modes)}": any(words and words.isdisjoint(self.modes) for words in modes),
            f"needs {', '.join(claim.ways)}": not self.ways.issuperset(claim.ways),
            **{APART[way]: True for way in APART.keys() & (self.ways - {*claim.ways})},
            # Counter-example: asked for a small memory of queues, Artemis loses what it paged. No default is the cause.
            "is about a default, so no setting may be asked for": claim.kind is Kind.DEFAULT and bool(self.settings),
        }
        return next((words for words, stands in obstacles.items() if stands), "")

    def drawn(self, seed: int, most: int = MOST_ROUNDS, *, control: bool = False) -> Scenario:
        """Return the script of one trial, with every number drawn and at most `most` rounds of each `Rounds`."""
        rng = random.Random(f"{self.id}:{seed}")
        return dataclasses.replace(self, steps=draw(unroll(self.steps, most, control=control), rng))


_REGISTRY: dict[str, Scenario] = {}


def slug(name: str) -> str:
    """Return the id of a scenario class.

    >>> slug("BrokerKilledWhilePublishing")
    'broker-killed-while-publishing'
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


def scenario(cls: type[Any]) -> type[Any]:
    """Register a class as a scenario. A repeated id, or a class without docstring, stops the import."""
    identity = slug(cls.__name__)
    if identity in _REGISTRY:
        raise CatalogueError(f"scenario {identity} is defined twice")
    if not cls.__doc__:
        raise CatalogueError(f"scenario {identity} has no docstring: the report would have no text")
    if hasattr(cls, "decides"):
        raise CatalogueError(
            f"scenario {identity}: the class {cls.__name__} has `decides`, but a scenario names no claims. Write "
            "`checks = (Check(...), ...)` with the checks of that mapping; the claims that name these anomalies follow"
        )
    optional = ("client", "standing", "timing", "thorough", "varies", "subjects")
    _REGISTRY[identity] = Scenario(
        identity,
        " ".join(cls.__doc__.split()),
        cls.mode,
        tuple(cls.steps),
        {},
        queue=tuple(getattr(cls, "queue", {}).items()),
        settings=tuple(sorted(getattr(cls, "settings", {}).items())),
        checks=tuple(cls.checks),
        **{name: getattr(cls, name) for name in optional if hasattr(cls, name)},
    )
    return cls


def load(catalogue: Catalogue, folder: pathlib.Path | None = None) -> dict[str, Scenario]:
    """Import every module of `suites/` and return the scenarios by id, each with the claims that it decides.

    Raises `CatalogueError` if a scenario contradicts itself, or a check of it decides no claim.
    """
    folder = folder or paths.suites()
    for path in sorted(folder.glob("*/*.py")):
        if path.parent.name == "claims" or path.name.startswith("_"):
            continue
        name = f"conformance_suites.{path.parent.name}.{path.stem}"
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
    found = {
        name: dataclasses.replace(item, decides=decided_claims(item, catalogue)) for name, item in _REGISTRY.items()
    }
    in_every_run = {claim for item in found.values() if not item.thorough for claim in item.decides}
    for item in found.values():
        validate(item)
        if idle := next((check for check in item.checks if check not in item.decides.values()), None):
            raise CatalogueError(f"scenario {item.id}: {_idle(item, idle, catalogue)}")
        if alone := item.thorough and item.decides.keys() - in_every_run:
            raise CatalogueError(f"scenario {item.id} is thorough, and no other decides {min(alone)}")
    return found


def decided_claims(item: Scenario, catalogue: Catalogue) -> dict[str, Check]:
    """Return by claim id the check by which this scenario decides it: its first that the claim names and that fits."""
    found: dict[str, Check] = {}
    for claim in catalogue.claims.values():
        for check in item.checks:
            if check.anomaly in claim.checks and claim.id not in found and not _obstacle(item, check, claim):
                found[claim.id] = check
    return found


def _obstacle(item: Scenario, check: Check, claim: Claim) -> str:
    """Return why a check that the claim names does not decide it in this scenario; empty if it does."""
    lies = isinstance(check.control, SessionLiar)
    over = only_with(item.client) or getattr(check.control, "over", "")
    obstacles = {
        item.other_than(claim): True,
        "needs a control" if claim.judged else "takes no control": claim.judged != (check.control is not None),
        "is about a broker, which no session liar proves": lies and claim.subject is Subject.BROKER,
        "is about a session, and needs a session liar": not lies and claim.subject is Subject.SESSION,
        f"is not about {over} alone": bool(over) and {*claim.surfaces} & {*WIRES} != {over},
    }
    return next((words for words, stands in obstacles.items() if words and stands), "")


def _idle(item: Scenario, check: Check, catalogue: Catalogue) -> str:
    """Say why a check decides no claim, and of the first claims that name it, what is in the way."""
    named = [claim for claim in catalogue.claims.values() if check.anomaly in claim.checks]
    first = [f"{claim.id} {_obstacle(item, check, claim) or 'has another check here'}" for claim in named[:3]]
    why = f": {'; '.join(first)}" if named else ", since no claim of the catalogue names it in `checks`"
    return f"its check {check.anomaly!r} decides no claim{why}"


def validate(item: Scenario) -> None:
    try:
        check_types(item.steps)
    except msgspec.ValidationError as error:
        raise CatalogueError(f"scenario {item.id}: its steps: {error}") from error
    steps = list(singles(item.steps))
    sent = any(isinstance(step, Publish) and step.batch for step in steps)
    if sent and any(isinstance(step, Consume) and step.mode == "transacted" for step in steps):
        raise CatalogueError(f"scenario {item.id} has transactions of sends and of acknowledgements: use two scenarios")
    for together in togethers(item.steps):
        faults = [step.until for step in together.steps if step.until is not None]
        if len(faults) > 1 or not all(isinstance(fault, TogetherFault) for fault in faults):
            raise CatalogueError(f"scenario {item.id}: one step of Together may have a kill, a stop or a pause")
        if any(step.linked for step in together.steps):
            raise CatalogueError(f"scenario {item.id}: a step of Together has no link")
    if (item.copied or item.subscribed) and (sent or most_queues(item.steps) == 1):
        raise CatalogueError(f"scenario {item.id}: what several queues get goes to several, and is in no transaction")
    for consumer in (step for step in steps if isinstance(step, Consume)):
        _validate_receivers(item, consumer)
    for restart in (step for step in steps if isinstance(step, Restart)):
        if restart.until and not isinstance(restart.until.at, Recovery | After):
            raise CatalogueError(f"scenario {item.id}: a start is killed in its recovery, or some time after it")
        if not restart.beside:
            continue
        if restart.until or restart.under or any(step.until or step.linked for step in restart.beside):
            raise CatalogueError(f"scenario {item.id}: clients beside a restart go without a fault and without a link")


def _validate_receivers(item: Scenario, step: Consume) -> None:
    alone = step.hold or step.forwards or step.linked or step.mode == "transacted" or isinstance(step.until, LinkFault)
    if step.receivers > 1 and alone:
        raise CatalogueError(f"scenario {item.id}: several receivers go without a transaction, a link and `hold`")
    if step.queues > step.receivers or (step.ends and step.receivers == 1):
        raise CatalogueError(f"scenario {item.id}: it needs a receiver for each queue, and one that goes on")
