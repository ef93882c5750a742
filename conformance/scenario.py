"""What is done to a broker, and which claims that decides: frozen scripts of steps, faults and checks.

A scenario is a class whose docstring is the report's text:

    @scenario
    class BrokerKilledWhilePublishing:
        \"\"\"A publisher keeps 100 persistent messages in flight; the broker is killed at a confirm.\"\"\"

        mode = "async_ack"
        steps = (Publish(20_000, window=100, until=Kill(Nth("confirm", Between(150, 400)))), Restart(), Drain(), ...)
        decides = {"SOLCD-ACK-01": Check("lost", exposure="confirmed_in_window", control=Weakened(...))}

Nothing here runs anything, and no check is code: `Check.anomaly` names a sentence of the judge's one table.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import pathlib
import random
import re
import sys
from collections.abc import Mapping
from typing import Any

import yaml

from conformance import paths
from conformance.claims import Catalogue, Claim, Subject, select
from conformance.errors import CatalogueError

TRIALS = 3


@dataclasses.dataclass(frozen=True)
class Between:
    """A number drawn from the trial's seed, both ends included."""

    low: int
    high: int


@dataclasses.dataclass(frozen=True)
class Nth:
    """A trigger: the k-th event of one client process.

    `event` is one of `confirm` (a send was answered), `process` (a processing has begun), `ack` (an acknowledgement was
    answered), `before_commit` (everything of a transaction but the request has left), `commit_written` (the request has
    left as well) and `committed` (it was answered).
    """

    event: str
    k: int | Between

    def drawn(self, rng: random.Random) -> Nth:
        """The trigger with its number fixed for one trial."""
        if isinstance(self.k, Between):
            return Nth(self.event, rng.randint(self.k.low, self.k.high))
        return self


@dataclasses.dataclass(frozen=True)
class Kill:
    """SIGKILL to every process of the broker, at a trigger of the client that owns the event."""

    at: Nth
    name = "kill"
    failure_model = "process death"


@dataclasses.dataclass(frozen=True)
class Stop:
    """SIGTERM to the broker at a trigger, with everything in flight: an orderly end under load."""

    at: Nth
    name = "stop"
    failure_model = "orderly stop"


@dataclasses.dataclass(frozen=True)
class Pause:
    """SIGSTOP to every process of the broker at a trigger, and SIGCONT `hold_s` seconds after it took effect.

    It took effect when every thread is stopped; what the client asks for after that cannot be answered before the end
    of the pause.
    """

    at: Nth
    hold_s: float = 1.0
    name = "pause"
    failure_model = "process halted for a time"


@dataclasses.dataclass(frozen=True)
class ConsumerCrash:
    """SIGKILL of the client itself, at its own trigger: in a processing, or with a transaction open."""

    at: Nth
    name = "consumer_crash"
    failure_model = "death of the client process"


Fault = Kill | Stop | Pause | ConsumerCrash


@dataclasses.dataclass(frozen=True)
class Publish:
    """Send `count` messages of `size` bytes with at most `window` unanswered; 1 is one at a time.

    Without `until` the step ends when every send has its answer, or none came within the liveness bound. With a fault
    that ends the broker, that ends the step, and sends without an answer are `info`; a pause ends nothing.

    `batch` sends go into one transaction, which is committed, or rolled back if it is a `rollback_every`-th. `peek`: a
    receiver of the same connection waits all the while, and takes what becomes available, which must not be before the
    commit. `unasked_every`: each such send asks for no answer (raw client only).
    """

    count: int
    window: int
    size: int = 256
    durable: bool = True
    until: Fault | None = None
    batch: int = 0
    rollback_every: int = 0
    peek: bool = False
    unasked_every: int = 0


@dataclasses.dataclass(frozen=True)
class Consume:
    """Receive in one acknowledgement mode; `prefetch` is the link credit that is given back on acknowledgement.

    `acknowledge` says which deliveries the application acknowledges: every n-th (`individual`), or all so far when so
    many are open (`client`, `transacted`). `auto` acknowledges each after its processing, `pre` before it. `confirm`
    asks for the broker's answer where the mode does not by itself. `stop` ends the step after so many deliveries,
    `until_silent` when nothing more comes.

    `refuse`: every `refuse_every`-th delivery is given back, with these outcomes in turn, when it comes for the first
    time. `hold`: with `prefetch` deliveries open, wait whether the broker sends more, before they are acknowledged.
    `rollback_every`: each such transaction is rolled back, and its deliveries are released.
    """

    mode: str
    prefetch: int = 100
    acknowledge: int = 1
    confirm: bool = False
    stop: int | None = None
    until_silent: bool = False
    until: Fault | None = None
    refuse: tuple[str, ...] = ()
    refuse_every: int = 0
    hold: bool = False
    rollback_every: int = 0


@dataclasses.dataclass(frozen=True)
class Restart:
    """Start the broker again on the same data; `clean` stops it in order before."""

    clean: bool = False


@dataclasses.dataclass(frozen=True)
class Drain:
    """Receive and acknowledge everything until silence, then ask the broker for its own depth."""


Step = Publish | Consume | Restart | Drain
SETTLE = (Drain(), Restart(clean=True), Drain())


@dataclasses.dataclass(frozen=True)
class Weakened:
    """A strong control: the same product with these settings, seen to fail in each of `trials`."""

    settings: tuple[tuple[str, bool | int], ...]
    trials: int = TRIALS

    @property
    def label(self) -> str:
        """What the report calls it."""
        return ", ".join(f"{k}={str(v).lower()}" for k, v in self.settings)


@dataclasses.dataclass(frozen=True)
class Liar:
    """A check-only control: the bundled broker, wrong in exactly this one way. Deterministic: one trial.

    `claim` is the claim whose liar the catalogue describes. A liar that does nothing where something is due must be
    waited for: `patient` trials are idle for the liveness bound, and `trials` of them repeat what the claim asks for.
    """

    name: str
    trials: int = 1
    patient: bool = False

    @property
    def label(self) -> str:
        """What the report calls it."""
        return f"liar {self.name}"


@dataclasses.dataclass(frozen=True)
class SessionLiar:
    """A control of a self-check: the suite's own session on the honest bundled broker, wrong in one way."""

    name: str
    trials: int = 1

    @property
    def label(self) -> str:
        """What the report calls it."""
        return f"session liar {self.name}"


Control = Weakened | Liar | SessionLiar


def weakened(*, trials: int = TRIALS, **settings: bool | int) -> Weakened:
    """The same product with the guarantee switched off."""
    return Weakened(tuple(sorted(settings.items())), trials)


SYNC_OFF = weakened(sync_non_transactional=False, sync_transactional=False, journal_buffer_ms=500)
"""The strong control of whatever claims to be stored: answers leave before the journal is written, and the buffer of
half a second makes the window wide enough for the death of a process, which the page cache survives."""

SYNC_OFF_SLOWLY = dataclasses.replace(SYNC_OFF, trials=5)
"""The same where little is written: one message, or one transaction, at a time. Now and then (1 kill in 22, Artemis
2.56.0) the half-second flush falls between the last confirm and the kill, and nothing is lost. Five trials bear one
such miss: q stays below 0.05 at 4 of 5."""


@dataclasses.dataclass(frozen=True)
class Check:
    """How a claim is decided: an anomaly of the judge's table, what was exposed to it, and where it is seen to fail.

    Permissions name a `witness` of the same table as their anomaly, and have no control.
    """

    anomaly: str
    exposure: str
    control: Control | None = None


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A frozen script. `id` is derived from the class name; `says` is the report's text.

    `client` is `library`, or `raw`: the suite's own client, where the library would hide what crossed the wire.
    """

    id: str
    says: str
    mode: str
    steps: tuple[Step, ...]
    decides: Mapping[str, Check]
    client: str = "library"

    @property
    def fault(self) -> Fault | None:
        """The fault of the script; a script of this version has at most one."""
        for step in self.steps:
            if isinstance(step, Publish | Consume) and step.until is not None:
                return step.until
        return None

    def fault_for(self, claim: Claim) -> str:
        """The fault under which this scenario tries the claim: its own, or `none` for what happens before it."""
        if self.fault is not None and self.fault.name in claim.faults:
            return self.fault.name
        return "none"

    def drawn(self, seed: int) -> Scenario:
        """The script of one trial: every number that is drawn from a seed is fixed."""
        rng = random.Random(f"{self.id}:{seed}")
        return dataclasses.replace(self, steps=tuple(_draw(step, rng) for step in self.steps))


def _draw(step: Step, rng: random.Random) -> Step:
    if isinstance(step, Publish | Consume) and step.until is not None:
        return dataclasses.replace(step, until=dataclasses.replace(step.until, at=step.until.at.drawn(rng)))
    return step


_REGISTRY: dict[str, Scenario] = {}


def slug(name: str) -> str:
    """The id of a scenario class.

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
    says = " ".join(cls.__doc__.split())
    client = getattr(cls, "client", "library")
    _REGISTRY[identity] = Scenario(identity, says, cls.mode, tuple(cls.steps), dict(cls.decides), client)
    return cls


def load(catalogue: Catalogue, folder: pathlib.Path | None = None) -> dict[str, Scenario]:
    """Import every module of `suites/` and return the scenarios by id, each checked against the catalogue."""
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
    for item in _REGISTRY.values():
        _validate(item, catalogue)
    return dict(_REGISTRY)


def _validate(item: Scenario, catalogue: Catalogue) -> None:
    sent = any(isinstance(step, Publish) and step.batch for step in item.steps)
    if sent and any(isinstance(step, Consume) and step.mode == "transacted" for step in item.steps):
        raise CatalogueError(f"scenario {item.id} has transactions of sends and of acknowledgements: use two scenarios")
    for claim_id, check in item.decides.items():
        claim = catalogue.claims.get(claim_id)
        if claim is None:
            raise CatalogueError(f"scenario {item.id} decides {claim_id}, which is not in the catalogue")
        if claim.judged != (check.control is not None):
            raise CatalogueError(f"scenario {item.id}: {claim_id} needs a control exactly where it can be violated")
        if item.fault_for(claim) not in claim.faults:
            raise CatalogueError(f"scenario {item.id}: {claim_id} is tried under {claim.faults}, not under its fault")
        if (claim.subject is Subject.SESSION) != isinstance(check.control, SessionLiar):
            raise CatalogueError(f"scenario {item.id}: {claim_id}: session claims have session liars, others have not")


def untried(catalogue: Catalogue, path: pathlib.Path | None = None) -> dict[str, str]:
    """Claim id -> why no scenario decides it yet, with the date (`suites/untried.yaml`).

    Raises `CatalogueError` where an entry names no claim, or a claim has two entries.
    """
    path = path or paths.suites() / "untried.yaml"
    reasons: dict[str, str] = {}
    for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["untried"]:
        for claim in select(entry["claims"], catalogue):
            if claim.id in reasons:
                raise CatalogueError(f"{path.name}: {claim.id} has two reasons")
            reasons[claim.id] = f"{entry['reason']} (since {entry['since']})"
    return reasons
