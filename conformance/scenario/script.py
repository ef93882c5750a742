"""The steps, faults and triggers of a script.

A trigger belongs to the process that owns its event: `Nth`, `After` and `All` to a client, `Frame` to the link between
a client and the broker, `Recovery` to the harness that starts the broker. Faults at the disk are at work for a whole
run of the broker: they belong to a `Restart`.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar, cast

Value = TypeVar("Value")

CLEAN_RESTART = "a clean restart"
KILL_WHILE_STARTING = "a kill while it starts"
KILL_OF_HALTED = "a kill of what is halted"
LAUNCHER_NEEDS = (CLEAN_RESTART, KILL_WHILE_STARTING, KILL_OF_HALTED)
"""What a script may need of a launcher beside its faults (`Scenario.needs`)."""


@dataclasses.dataclass(frozen=True)
class Between:
    """A number drawn from the trial's seed, both ends included."""

    low: int
    high: int


@dataclasses.dataclass(frozen=True)
class Nth:
    """A trigger: the k-th event of one client process.

    `event` is one of `sent` (a send was written), `confirm` (a send was answered), `returned` (likewise, and the next
    one is not sent before the fault), `confirm_immediate` (it had asked
    for Ack Immediately), `confirm_range` (one answer has covered several), `process` (a processing has begun),
    `ack_written` (an acknowledgement was written), `ack` (it was answered), `before_commit` (everything of a
    transaction but the request has left), `commit_written` (the request has left as well) and `committed` (it was
    answered).
    """

    event: str
    k: int | Between


@dataclasses.dataclass(frozen=True)
class After:
    """A trigger: so many milliseconds after the client has begun. What a fault without a named point can do."""

    ms: int | Between


@dataclasses.dataclass(frozen=True)
class All:
    """A trigger: each of these has happened, in the same client process; the last of them sets the fault off."""

    parts: tuple[Nth | After, ...]


@dataclasses.dataclass(frozen=True)
class Frame:
    """A trigger: the k-th frame of that kind on the link, `before` it is passed on, in the `middle` of it, or `after`.

    `kind`, in the words of both protocols: `send` (SEND, or a transfer to the broker), `answer` (to a send or an
    acknowledgement: RECEIPT, or a disposition from the broker), `deliver` (MESSAGE, or a transfer to the client),
    `acknowledge` (ACK, or a disposition to the broker), `begin`, `commit` and `rollback` (BEGIN, COMMIT and ABORT, or
    declare and discharge), and `begin_answer`, `commit_answer` and `rollback_answer`.
    """

    kind: str
    k: int | Between
    at: str = "after"


@dataclasses.dataclass(frozen=True)
class Recovery:
    """A trigger: the k-th access to a file of the journal, by a broker that is starting and not yet ready."""

    k: int | Between


Trigger = Nth | After | All


@dataclasses.dataclass(frozen=True)
class Kill:
    """SIGKILL to every process of the broker, by the process that owns the event of the trigger.

    `delay_us`: so many microseconds after that event, in which the broker goes on and the client does nothing.
    """

    at: Trigger | Recovery
    delay_us: int | Between = 0
    name = "kill"
    failure_model = "process death"


@dataclasses.dataclass(frozen=True)
class Stop:
    """SIGTERM to the broker at a trigger, with everything in flight: an orderly end under load."""

    at: Trigger
    name = "stop"
    failure_model = "orderly stop"


@dataclasses.dataclass(frozen=True)
class Pause:
    """SIGSTOP to every process of the broker at a trigger, and `hold_s` seconds after it took effect SIGCONT.

    It took effect when every thread is stopped; what the client asks for after that cannot be answered before the end
    of the pause. `then_kill`: SIGKILL instead of SIGCONT, so that what was halted never goes on.
    """

    at: Trigger
    hold_s: float = 1.0
    then_kill: bool = False
    name = "pause"
    failure_model = "process halted for a time"


@dataclasses.dataclass(frozen=True)
class ConsumerCrash:
    """SIGKILL of the client itself, at its own trigger: in a processing, or with a transaction open."""

    at: Trigger
    name = "consumer_crash"
    failure_model = "death of the client process"


@dataclasses.dataclass(frozen=True)
class PowerLoss:
    """The file system under the broker's data goes, and with it whatever was not synced; then every process is killed.

    The machine counts as dead from the moment of the command: answers read later are unknown. `torn`: some pages that
    were written and not synced reach the disk before, others not, as the seed draws them: what a disk may do.
    """

    at: Trigger
    torn: bool = False
    name = "power_loss"
    failure_model = "power loss"


@dataclasses.dataclass(frozen=True)
class Cut:
    """The connection is broken at a frame: closed in order (`fin`), reset (`rst`), or silent for ever (`half_open`)."""

    at: Frame
    how: str = "rst"
    name = "cut"
    failure_model = "loss of the connection"


@dataclasses.dataclass(frozen=True)
class HoldLink:
    """From a frame on, nothing passes in one direction (`to_client`, `to_broker`) for `hold_s` seconds."""

    at: Frame
    direction: str = "to_client"
    hold_s: float = 1.0
    name = "hold_link"
    failure_model = "link held for a time"


@dataclasses.dataclass(frozen=True)
class Delay:
    """Each byte takes so much longer that a round trip takes `rtt_ms` more."""

    rtt_ms: float
    name = "delay"
    failure_model = "slow link"


@dataclasses.dataclass(frozen=True)
class Throttle:
    """At most so many bytes a second in each direction."""

    bytes_per_s: int
    name = "throttle"
    failure_model = "narrow link"


LinkFault = Cut | HoldLink | Delay | Throttle
LINK_FAULTS = (Cut, HoldLink, Delay, Throttle)


@dataclasses.dataclass(frozen=True)
class Watched:
    """The disk works; what is written and synced is seen."""

    name = "watched"
    failure_model = "no fault"


@dataclasses.dataclass(frozen=True)
class HeldSync:
    """Every sync of the journal's files begins `seconds` later than the broker asks for it."""

    seconds: float = 0.7
    name = "held_sync"
    failure_model = "slow disk"


@dataclasses.dataclass(frozen=True)
class FailedSync:
    """From the k-th sync of the journal's files by one thread on, each returns EIO and has synced nothing."""

    k: int | Between
    name = "failed_sync"
    failure_model = "failing disk"


@dataclasses.dataclass(frozen=True)
class DiskFull:
    """From the k-th write to the journal's files by one thread on, each returns ENOSPC and has written nothing."""

    k: int | Between
    name = "disk_full"
    failure_model = "full disk"


DiskFault = Watched | HeldSync | FailedSync | DiskFull

Fault = Kill | Stop | Pause | ConsumerCrash | PowerLoss | Cut | HoldLink | Delay | Throttle


@dataclasses.dataclass(frozen=True)
class Publish:
    """Send `count` messages of `size` bytes with at most `window` unanswered; 1 is one at a time.

    Without `until` the step ends when every send has its answer, or none came within the liveness bound. With a fault
    that ends the broker, that ends the step, and sends without an answer are `info`; a pause ends nothing.

    `batch` sends go into one transaction, which is committed, or rolled back if it is a `rollback_every`-th. `peek`: a
    receiver of the same connection waits all the while, and takes what becomes available, which must not be before the
    commit. `unasked_every`: each such send asks for no answer (raw client only). `every_ms`: sends or transactions
    are due so far apart, whatever the broker does.

    A broker that knows publish windows is told `window`, and `ack_event_mode` (`per_message`, `windowed`, or nothing);
    each `immediate_every`-th send asks it for Ack Immediately. `tells_waits`: each wait for the window is recorded.
    `linked`: it goes over a link that records what crosses it, and does nothing else.
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
    every_ms: int = 0
    ack_event_mode: str = ""
    immediate_every: int = 0
    tells_waits: bool = False
    linked: bool = False


@dataclasses.dataclass(frozen=True)
class Consume:
    """Receive in one acknowledgement mode; `prefetch` is the link credit that is given back on acknowledgement.

    `acknowledge` says which deliveries the application acknowledges: every n-th (`individual`), or all so far when so
    many are open (`client`, `transacted`). `auto` acknowledges each after its processing, `pre` before it. `confirm`
    asks for the broker's answer where the mode does not by itself. `stop` ends the step after so many deliveries,
    `until_silent` when nothing more comes.

    `refuse`: every `refuse_every`-th delivery is given back, with these outcomes in turn, when it comes for the first
    time. `hold`: with `prefetch` deliveries open, wait whether the broker sends more, before they are acknowledged.
    `rollback_every`: each such transaction is rolled back, and its deliveries are released. `work_ms`: how long each
    processing takes. `backwards`: with so many processed, those that are due are acknowledged, the last one first.
    `linked`: it goes over a link that records what crosses it, and does nothing else.

    Of a vendor's client: `receives` calls `receive()` in a mode that has a listener otherwise, and `on_session` calls
    `acknowledge()` of the session instead of the message's. `honest`: no session liar lies in this step, with which
    another is compared.
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
    work_ms: int = 0
    backwards: int = 0
    linked: bool = False
    receives: bool = False
    on_session: bool = False
    honest: bool = False


@dataclasses.dataclass(frozen=True)
class Together:
    """Run these steps beside each other, each in a client process of its own; publishers begin last.

    No publisher begins before every consumer is attached. The step ends when all of them have ended. None of them has a
    fault, or goes over a link.
    """

    steps: tuple[Publish | Consume, ...]


@dataclasses.dataclass(frozen=True)
class Restart:
    """Start the broker again on the same data; `clean` stops it in order before.

    `under`: with its disk faulty, or watched, for as long as this run of it lasts; the one before it was started whole.
    `until`: it is killed while it recovers, and started once more.
    """

    clean: bool = False
    under: DiskFault | None = None
    until: Kill | None = None


@dataclasses.dataclass(frozen=True)
class Drain:
    """Receive and acknowledge everything until silence, then ask the broker for its own depth."""


@dataclasses.dataclass(frozen=True)
class Offer:
    """Offer the broker each of these settings (`name=value`) at a start of its own; it may refuse to start with one.

    What it took is in force until the next `Restart`.
    """

    settings: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Ask:
    """Ask a vendor's client what it offers, and record each answer: an entry of `clients.jms.questions.QUESTIONS`."""

    question: str


Step = Publish | Consume | Together | Restart | Drain | Offer | Ask
Single = Publish | Consume | Restart | Drain | Offer | Ask
SETTLE: tuple[Step, ...] = (Drain(), Restart(clean=True), Drain())
"""Before an absence is concluded: the queue is empty, and still is after one more restart.

Where the last drain brings messages, the trial goes on with a clean restart and another drain, until a drain brings
nothing (`MOST_DRAINS`).
"""

MOST_DRAINS = 5
"""Drains of one trial. If the last of them still brings messages, nothing is concluded from what is missing."""


LONGEST_DELAY_MS = 30_000
"""A redelivery delay beyond which no drain waits: the liveness bound is ten times the delay."""


def singles(steps: Iterable[Step]) -> Iterator[Single]:
    """Each step by itself: those that run together one after the other."""
    for step in steps:
        if isinstance(step, Together):
            yield from step.steps
        else:
            yield step


def needs_of_launcher(steps: tuple[Step, ...]) -> Iterator[str]:
    """What only a broker can give that is started here, or whose owner has a command for it: see `LAUNCHER_NEEDS`."""
    core = steps[: -len(SETTLE)] if steps[-len(SETTLE) :] == SETTLE else steps
    restarts = [step for step in core if isinstance(step, Restart)]
    faults = [step.until for step in core if isinstance(step, Publish | Consume)]
    if any(step.clean and step.under is None for step in restarts):
        yield CLEAN_RESTART
    if any(step.until is not None for step in restarts):
        yield KILL_WHILE_STARTING
    if any(isinstance(fault, Pause) and fault.then_kill for fault in faults):
        yield KILL_OF_HALTED


def unsettled(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps without the clean restart before the last look, for a broker that nobody here can restart.

    Two drains to silence are left, and with each the broker's own word that nothing more is there.
    """
    return (*steps[: -len(SETTLE)], Drain(), Drain()) if steps[-len(SETTLE) :] == SETTLE else steps


def drawn(value: Value, rng: random.Random) -> Value:
    """`value` with every number in it that is drawn from a seed fixed: a step, a fault, a trigger, or several."""
    found: Any = value
    if isinstance(value, Between):
        found = rng.randint(value.low, value.high)
    elif isinstance(value, tuple):
        found = tuple(drawn(item, rng) for item in value)
    elif dataclasses.is_dataclass(value):
        fields = {field.name: drawn(getattr(value, field.name), rng) for field in dataclasses.fields(value)}
        found = dataclasses.replace(found, **fields)
    return cast(Value, found)


def words(value: object) -> str:
    """A step, a fault or a trigger as it is written, without what is as by default."""
    if isinstance(value, tuple):
        return f"({', '.join(map(words, value))})"
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}({', '.join(_changed(value))})"
    return repr(value)


def _changed(value: object) -> Iterator[str]:
    for field in dataclasses.fields(value):  # type: ignore[arg-type]
        given = getattr(value, field.name)
        if field.default is dataclasses.MISSING or given != field.default:
            yield f"{field.name}={words(given)}"
