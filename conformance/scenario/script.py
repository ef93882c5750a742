"""The vocabulary of a script: steps, faults and triggers.

They are typed values: the planner, the client processes, the link proxy, `trial.json` and `replay` read and write them
whole. In JSON a step has its name in `step`, a fault in `fault`, and a trigger in `trigger`.

A trigger belongs to the process that sees its event: `Nth`, `After`, `FileRemoved` and `All` to a client, `Frame` to
the link between a client and the broker, `Recovery` to the harness that starts the broker. A fault of the disk lasts
for a whole run of the broker: it belongs to a `Restart`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import msgspec

from conformance.errors import FaultError


class Between(msgspec.Struct, frozen=True):
    """A number that the trial's seed draws, both ends included."""

    low: int
    high: int


Count = Annotated[int, msgspec.Meta(ge=1)]
Above0 = Annotated[float, msgspec.Meta(gt=0)]
Drawn = Count | Between
"""A number from 1 on. `Between` until the seed of a trial has drawn it (`draw`), an int after that (`fixed_number`)."""

DrawnWait = Annotated[int, msgspec.Meta(ge=0)] | Between


def fixed_number(number: int | Between) -> int:
    """Return a number of a drawn script; raise `FaultError` if no seed has drawn it."""
    if isinstance(number, Between):
        raise FaultError(f"a fault cannot be armed: its number was not drawn: {number}")
    return number


def _name(of_class: str) -> str:
    """Return the name of a class in JSON, as `power_loss`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", of_class).lower()


class _Trigger(msgspec.Struct, frozen=True, tag_field="trigger", tag=_name):
    pass


ClientEvent = Literal[
    "sent",
    "confirm",
    "returned",
    "confirm_immediate",
    "confirm_range",
    "process",
    "ack_written",
    "ack",
    "before_commit",
    "commit_written",
    "committed",
]


class Nth(_Trigger, frozen=True):
    """A trigger: the k-th event of one client process.

    `event` is one of `sent` (a send was written), `confirm` (a send was answered), `returned` (a send was answered, and
    the next one is not sent before the fault), `confirm_immediate` (the send had asked for Ack Immediately),
    `confirm_range` (one answer has covered several sends), `process` (a processing has begun), `ack_written` (an
    acknowledgement, or a refusal, was written), `ack` (it was answered), `before_commit` (everything of a transaction
    but the request has left), `commit_written` (the request has left too) and `committed` (it was answered).
    """

    event: ClientEvent
    k: Drawn

    @property
    def number(self) -> int:
        return fixed_number(self.k)


class After(_Trigger, frozen=True):
    """A trigger: so many milliseconds after the client has begun."""

    ms: DrawnWait

    @property
    def number(self) -> int:
        return fixed_number(self.ms)


class FileRemoved(_Trigger, frozen=True):
    """A trigger: the k-th file of the journal that the broker removes once the client has begun, as in a compaction."""

    k: Drawn

    @property
    def number(self) -> int:
        return fixed_number(self.k)


Part = Nth | After | FileRemoved
"""A trigger of one event or time."""


class All(_Trigger, frozen=True):
    """A trigger: each of these has happened in the same client process. The last of them fires the fault."""

    parts: tuple[Part, ...]


class OneOf(_Trigger, frozen=True):
    """One of these triggers: the trial's seed draws which.

    A kill that is always tied to the same event always comes at the same moment of the broker's work.
    """

    options: tuple[Part | All, ...]


class Frame(_Trigger, frozen=True):
    """A trigger: the k-th frame of that kind on the link, `before` it is passed on, in the `middle` of it, or `after`.

    `kind` names frames of both protocols: `send` (SEND, or a transfer to the broker), `answer` (to a send or an
    acknowledgement: RECEIPT, or a disposition from the broker), `deliver` (MESSAGE, or a transfer to the client),
    `acknowledge` (ACK, or a disposition to the broker), `begin`, `commit` and `rollback` (BEGIN, COMMIT and ABORT, or
    declare and discharge), and `begin_answer`, `commit_answer` and `rollback_answer`. Of a message in several frames
    the first counts, or with `last` its last one.
    """

    kind: Literal[
        "send",
        "answer",
        "deliver",
        "acknowledge",
        "begin",
        "commit",
        "rollback",
        "begin_answer",
        "commit_answer",
        "rollback_answer",
    ]
    k: Drawn
    at: Literal["before", "middle", "after"] = "after"
    last: bool = False


class Recovery(_Trigger, frozen=True):
    """A trigger: the k-th access to a file of the journal, by a broker that is starting and not yet ready."""

    k: Drawn


Trigger = Part | All | OneOf


def parts_of(trigger: Trigger | Recovery) -> tuple[Part, ...]:
    """Return the events and times that must all have happened in one client; raise `FaultError` if it has none."""
    if isinstance(trigger, Recovery):
        raise FaultError("a fault cannot be armed: no client sees the recovery of a broker")
    if isinstance(trigger, OneOf):
        raise FaultError(f"a fault cannot be armed: its trigger was not drawn: {trigger}")
    return trigger.parts if isinstance(trigger, All) else (trigger,)


def leaves(trigger: object) -> Iterator[object]:
    """Yield every event and time of a trigger, also those that the seed may draw."""
    if isinstance(trigger, All | OneOf):
        for each in trigger.parts if isinstance(trigger, All) else trigger.options:
            yield from leaves(each)
    else:
        yield trigger


def waits_for_answered_ack(trigger: object) -> bool:
    """Whether the trigger may count answers to acknowledgements."""
    return any(isinstance(each, Nth) and each.event == "ack" for each in leaves(trigger))


def largest(trigger: Trigger | Recovery) -> int:
    """Return the largest number of a client's trigger, for people."""
    return max(part.number for part in parts_of(trigger))


class _Fault(msgspec.Struct, frozen=True, tag_field="fault", tag=_name):
    """A fault. `name` is its name in the catalogue, in histories and in JSON."""

    name: ClassVar[str]
    failure_model: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.name = _name(cls.__name__)


class Kill(_Fault, frozen=True):
    """SIGKILL to every process of the broker, from the process that sees the event of the trigger.

    `delay_us`: so many microseconds after that event, while the broker goes on and the client does nothing.
    `delay_percent`: or so many percent of the median time that this client has waited for the answer to such a request
    in this trial; not of the longest, because one slow answer would spread the kills over times when no request is at
    work (halves of a commit 3 ms apart: found by 7 of 30 kills up to twice the longest answer, by 10 of 30 now). A
    kill at a request that was just written comes before the broker has read it; with the delay it comes at any moment
    of the work on the request.
    """

    at: Trigger | Recovery
    delay_us: DrawnWait = 0
    delay_percent: DrawnWait = 0
    failure_model = "process death"


class Stop(_Fault, frozen=True):
    """SIGTERM to the broker at a trigger, with everything in flight: an orderly end under load."""

    at: Trigger
    failure_model = "orderly stop"


class Pause(_Fault, frozen=True):
    """SIGSTOP to every process of the broker at a trigger, and `hold_s` seconds after it took effect SIGCONT.

    It took effect when every thread is stopped; the broker cannot answer a later request before the pause ends.
    `then_kill`: SIGKILL instead of SIGCONT, so that a halted process never goes on.
    """

    at: Trigger
    hold_s: Above0 = 1.0
    then_kill: bool = False
    failure_model = "process halted for a time"


class ConsumerCrash(_Fault, frozen=True):
    """SIGKILL of the client itself, at its own trigger: in a processing, or with a transaction open."""

    at: Trigger
    failure_model = "death of the client process"


class PowerLoss(_Fault, frozen=True):
    """The file system under the broker's data goes, with everything that was not synced; then every process is killed.

    The machine counts as dead from the moment of the command: answers read later are unknown. `torn`: before that, some
    of the pages that were written and not synced reach the disk, and others do not. The seed draws which: a disk may
    do that.
    """

    at: Trigger
    torn: bool = False
    failure_model = "power loss"


class Cut(_Fault, frozen=True):
    """The connection is broken at a frame: closed in order (`fin`), reset (`rst`), or silent for ever (`half_open`)."""

    at: Frame
    how: Literal["fin", "rst", "half_open"] = "rst"
    failure_model = "loss of the connection"


class HoldLink(_Fault, frozen=True):
    """From a frame on, nothing passes in one direction for `hold_s` seconds."""

    at: Frame
    direction: Literal["to_client", "to_broker"] = "to_client"
    hold_s: Above0 = 1.0
    failure_model = "link held for a time"


class Delay(_Fault, frozen=True):
    """Each byte takes so much longer that a round trip takes `rtt_ms` more."""

    rtt_ms: Above0
    failure_model = "slow link"


class Throttle(_Fault, frozen=True):
    """At most so many bytes a second in each direction."""

    bytes_per_s: Count
    failure_model = "narrow link"


class Watched(_Fault, frozen=True):
    """The disk works, and the suite sees what is written and synced."""

    failure_model = "no fault"


class HeldSync(_Fault, frozen=True):
    """Every sync of the journal's files begins `seconds` later than the broker asks for it."""

    seconds: Above0 = 0.7
    failure_model = "slow disk"


class FailedSync(_Fault, frozen=True):
    """From the k-th sync of the journal's files by one thread on, each returns EIO and has synced nothing."""

    k: Drawn
    failure_model = "failing disk"


class DiskFull(_Fault, frozen=True):
    """From the k-th write to the journal's files by one thread on, each returns ENOSPC and has written nothing."""

    k: Drawn
    failure_model = "full disk"


ClientFault = Kill | Stop | Pause | ConsumerCrash | PowerLoss
"""Faults that a client process fires."""

TogetherFault = Kill | Stop | Pause
"""Faults of a client that other clients may meet beside it."""


def ends_broker(fault: TogetherFault) -> bool:
    return not isinstance(fault, Pause) or fault.then_kill


def spares_broker(fault: Fault | DiskFault) -> bool:
    """Whether the broker lives through the fault, and its disk works: only clients and links meet it."""
    ends = isinstance(fault, Kill | Stop | PowerLoss | FailedSync | DiskFull)
    return not ends and not (isinstance(fault, Pause) and fault.then_kill)


LinkFault = Cut | HoldLink | Delay | Throttle
DiskFault = Watched | HeldSync | FailedSync | DiskFull
Fault = Kill | Stop | Pause | ConsumerCrash | PowerLoss | Cut | HoldLink | Delay | Throttle


class _Step(msgspec.Struct, frozen=True, tag_field="step", tag=_name):
    pass


class Publish(_Step, frozen=True):
    """Send `count` messages of `size` bytes with at most `window` unanswered; 1 is one at a time.

    Above 0, a body has at least the 30 bytes or so that say whose it is. A message without a body is known by its id.

    Without `until` the step ends when every send has its answer, or no answer came within the liveness bound. A fault
    that ends the broker ends the step too, and sends without an answer are `info`; a pause does not end the step.

    `batch` sends go into one transaction, which is committed, or rolled back if it is a `rollback_every`-th. `peek`: a
    receiver of the same connection waits during the step, and takes every message that becomes available. No message
    may become available before the commit. `unasked_every`: each such send asks for no answer (raw client only).
    `every_ms`: sends or transactions are due at this interval, however late the broker answers. `resends`: instead of
    new messages it sends those transactions again, with the same duplicate ids, that the publishers since the last
    such step had asked to commit last. `hurries`: the request to commit follows the sends at once, and their answers
    are read with its own. `queues`: the sends go in turn to that many queues; the first is that of the other steps.
    Each goes to all of them in a scenario with `copies_of`. `correlates`: over AMQP each message has a correlation-id,
    of the four types that it can have in turn. `for_topic`: over AMQP each message says that it is for a topic.
    `parity`: each message has the property `parity`, `odd` or `even` by its number.
    `lives_ms`: the time to live of each message; 0 for one without end.

    If the broker knows publish windows, the client asks it for `window` and `ack_event_mode` (`per_message`,
    `windowed`, or nothing); each `immediate_every`-th send asks for Ack Immediately. `tells_waits`: each wait for the
    window is recorded. `linked`: the client goes over a link that records every frame, and does nothing else.
    """

    count: Count
    window: Count
    size: Annotated[int, msgspec.Meta(ge=0)] = 256
    durable: bool = True
    until: Fault | None = None
    batch: int = 0
    rollback_every: int = 0
    peek: bool = False
    unasked_every: int = 0
    every_ms: float = 0
    ack_event_mode: Literal["", "per_message", "windowed"] = ""
    immediate_every: int = 0
    tells_waits: bool = False
    linked: bool = False
    resends: bool = False
    hurries: bool = False
    queues: Count = 1
    correlates: bool = False
    for_topic: bool = False
    parity: bool = False
    lives_ms: Annotated[int, msgspec.Meta(ge=0)] = 0

    @property
    def may_be_refused(self) -> bool:
        """Whether a refusal is an answer to record: a broker may refuse the commit of what it has stored already."""
        return self.resends


class Consume(_Step, frozen=True):
    """Receive in one acknowledgement mode; `prefetch` is the link credit that is given back on acknowledgement.

    `acknowledge` says which deliveries the application acknowledges: every n-th (`individual`), or all so far when so
    many are open (`client`, `transacted`). `auto` acknowledges each after its processing, `pre` before it. `confirm`
    asks for the broker's answer if the mode does not, in a transaction before its commit. `stop` ends the step after so
    many deliveries, `until_silent` when no more deliveries come. `renews`: in `no_ack`, only so many deliveries give
    their credit back.

    `refuse`: every `refuse_every`-th delivery is given back, with these outcomes in turn, when it comes for the first
    time, and with `refuse_again` whenever it comes. `hold`: with `prefetch` deliveries open, wait whether the broker
    sends more, before they are acknowledged. `rollback_every`: each such transaction is rolled back, and its deliveries
    are released. `forwards`: each transaction also has as many new messages as acknowledgements, for the same queue.
    `work_ms`: how long each processing takes. `backwards`: with so many processed, those that are due are
    acknowledged, the last one first. `linked`: the client goes over a link that records every frame, and does nothing
    else.

    `receivers`: so many receivers of one session on one connection, on `queues` queues in turn; to the judge each is a
    consumer of its own. A cumulative acknowledgement covers what all of them got. `ends`: after so many deliveries the
    first of them ends, and gives back what it has not acknowledged; the others go on. `selects`: the selector of each
    receiver matches the messages with this `parity` (`Publish.parity`), and no others.

    For a vendor's client: `thrown` among `refuse` is a listener that throws. `receives` calls `receive()` in a mode
    that otherwise has a listener, and `on_session` calls `acknowledge()` of the session instead of the message's.
    `honest`: no session liar lies in this step, which another step is compared with.
    """

    mode: Literal["auto", "dups_ok", "client", "individual", "individual_dups_ok", "pre", "no_ack", "transacted"]
    prefetch: Count = 100
    acknowledge: Count = 1
    confirm: bool = False
    stop: int | None = None
    until_silent: bool = False
    renews: int | None = None
    until: Fault | None = None
    refuse: tuple[Literal["released", "rejected", "failed", "undeliverable", "thrown"], ...] = ()
    refuse_every: int = 0
    refuse_again: bool = False
    hold: bool = False
    rollback_every: int = 0
    forwards: bool = False
    work_ms: int = 0
    backwards: int = 0
    linked: bool = False
    receivers: Count = 1
    queues: Count = 1
    ends: int = 0
    selects: Literal["", "odd", "even"] = ""
    receives: bool = False
    on_session: bool = False
    honest: bool = False

    @property
    def may_be_refused(self) -> bool:
        """Whether a refused acknowledgement is an answer to record, and not the end of the trial."""
        return bool(self.backwards) or (self.mode == "transacted" and self.confirm)


class Together(_Step, frozen=True):
    """Run these steps beside each other, each in a client process of its own; publishers begin after consumers.

    No publisher begins before every consumer is attached. One step may have a fault (`TogetherFault`): its client
    begins last, when all others are attached. A fault that ends the broker ends the others too. The step ends when all
    of them have ended. None of them has a link.
    """

    steps: tuple[Publish | Consume, ...]

    @property
    def until(self) -> Fault | None:
        return next((step.until for step in self.steps if step.until is not None), None)

    @property
    def groups(self) -> list[list[Publish | Consume]]:
        """The steps in the order in which their clients begin; a group begins when those before it are attached."""
        others = [step for step in self.steps if step.until is None]
        order: list[list[Publish | Consume]] = [
            [step for step in others if isinstance(step, Consume)],
            [step for step in others if isinstance(step, Publish)],
            [step for step in self.steps if step.until is not None],
        ]
        return [group for group in order if group]


class Restart(_Step, frozen=True):
    """Start the broker again on the same data; `clean` stops it in order before.

    `under`: its disk is faulty, or watched, for this whole run of the broker. The run before it was started without
    that. `until`: the broker is killed while it recovers (`Recovery`), or so long after it was ready, without any use
    (`After`), and started once more. `beside`: these clients begin before the start, try to connect until the broker
    answers, and go on while it recovers; the step ends when they have ended. It goes with neither `under` nor `until`.
    """

    clean: bool = False
    under: DiskFault | None = None
    until: Kill | None = None
    beside: tuple[Publish | Consume, ...] = ()


class Drain(_Step, frozen=True):
    """Receive and acknowledge everything until silence, then ask the broker for its own depth."""


class Offer(_Step, frozen=True):
    """Offer the broker each of these settings (`name=value`) at a start of its own; it may refuse to start with one.

    The settings that it took are in force until the next `Restart`.
    """

    settings: tuple[str, ...]


class Ask(_Step, frozen=True):
    """Ask a vendor's client what it offers, and record each answer: an entry of `jms.sessions.questions.QUESTIONS`."""

    question: str


class Rounds(_Step, frozen=True):
    """Do these steps `times` times, each time with newly drawn numbers; the drawn script lists them all (`draw`).

    One drain at the end serves every fault: a loss belongs to the run of the broker that confirmed the message. A
    control does `control` rounds: what it needs is one loss a fault, not many faults.
    """

    steps: tuple[Publish | Consume | Together | Restart, ...]
    times: Count
    control: Count = 1


Single = Publish | Consume | Restart | Drain | Offer | Ask
Step = Publish | Consume | Together | Restart | Drain | Offer | Ask | Rounds
ClientStep = Publish | Consume | Drain | Ask
"""Steps that one client process does."""

SETTLE: tuple[Step, ...] = (Drain(), Restart(clean=True), Drain())
"""Before an absence is concluded: the queue is empty, and still is after one more restart.

If the last drain brings messages, the trial goes on with a clean restart and another drain, until a drain brings
nothing (`MOST_DRAINS`).
"""

MOST_DRAINS = 5
"""Drains of one trial. If the last of them still brings messages, nothing is concluded from what is missing."""

LONGEST_DELAY_MS = 30_000
"""A drain does not wait for a redelivery delay beyond this: the liveness bound is ten times the delay."""
