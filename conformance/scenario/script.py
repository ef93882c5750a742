"""The vocabulary of a script: its steps, with the triggers and faults that they use.

They are typed values: the planner, the client processes, the link proxy, `trial.json` and `replay` read and write them
whole. In JSON a step has its name in `step`, a fault in `fault`, and a trigger in `trigger`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from conformance.scenario.faults import (
    ClientFault,
    ConsumerCrash,
    Corrupt,
    CorruptReplica,
    Cut,
    Delay,
    DiskFault,
    DiskFull,
    FailedSync,
    Fault,
    FilesUsedUp,
    FilledDisk,
    HeldSync,
    HoldLink,
    Kill,
    KillNodes,
    LinkFault,
    LoseNode,
    PartNodes,
    Pause,
    PauseNodes,
    PowerLoss,
    Shortage,
    Stop,
    StopNodes,
    Throttle,
    TogetherFault,
    TracedFault,
    Watched,
)
from conformance.scenario.triggers import (
    After,
    All,
    Between,
    ClientEvent,
    Count,
    FileRemoved,
    Frame,
    Nth,
    OneOf,
    Part,
    Recovery,
    Trigger,
    fixed_number,
    largest,
    leaves,
    parts_of,
    tag_of,
    waits_for_answered_ack,
)

__all__ = [
    "ANOTHER",
    "LONGEST_DELAY_MS",
    "LONG_LIFE_MS",
    "MOST_DRAINS",
    "SETTLE",
    "After",
    "All",
    "Ask",
    "Between",
    "ClientEvent",
    "ClientFault",
    "ClientStep",
    "Consume",
    "ConsumerCrash",
    "Corrupt",
    "CorruptReplica",
    "Cut",
    "Delay",
    "DiskFault",
    "DiskFull",
    "Drain",
    "FailedSync",
    "Fault",
    "FileRemoved",
    "FilesUsedUp",
    "FilledDisk",
    "Frame",
    "HeldSync",
    "HoldLink",
    "Kill",
    "KillNodes",
    "LinkFault",
    "LoseNode",
    "Nth",
    "Offer",
    "OneOf",
    "Part",
    "PartNodes",
    "Pause",
    "PauseNodes",
    "PowerLoss",
    "Publish",
    "Recovery",
    "Restart",
    "Rounds",
    "Shortage",
    "Single",
    "Step",
    "Stop",
    "StopNodes",
    "Throttle",
    "Together",
    "TogetherFault",
    "TracedFault",
    "Trigger",
    "Watched",
    "fixed_number",
    "largest",
    "leaves",
    "parts_of",
    "waits_for_answered_ack",
]


class _Step(msgspec.Struct, frozen=True, tag_field="step", tag=tag_of):
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
    new messages it sends those transactions again, with the same duplicate ids, that the publishers since the last such
    step had asked to commit last; with `exactly_once` it goes on with what they have no last answer for, in the session
    that they had. `exactly_once`: over MQTT each message has QoS 2, and the session outlives its connection. `hurries`:
    the request to commit follows the sends at once, and their answers are read with its own. `queues`: the sends go in
    turn to that many queues; the first is that of the other steps. Each goes to all of them in a scenario with
    `copies_of`. `correlates`: over AMQP each message has a correlation-id, of the four types that it can have in turn.
    `for_topic`: over AMQP each message says that it is for a topic. `parity`: each message has the property `parity`,
    `odd` or `even` by its number. `headers`: each has application properties of several types, which must arrive as
    they were sent. `nulls`: each also has an application property without a value. `lives_ms`: the time to live of each
    message; 0 for one without end. `delay_ms`: how long after its send each may be delivered at the earliest.
    `priority`: that of each message, from 0 to 9; None for one that says none. `over`:
    the protocol of this client, if it is another than that of the trial (`ANOTHER`). `node`: it is connected to
    `another` one than the one that serves, of a broker that takes clients at each of several. `goes_on`: a vendor's
    client knows all nodes, and goes on by itself at another one when its own is gone; it may then send again what had
    no answer.

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
    headers: bool = False
    nulls: bool = False
    lives_ms: Annotated[int, msgspec.Meta(ge=0)] = 0
    delay_ms: Annotated[int, msgspec.Meta(ge=0)] = 0
    priority: Annotated[int, msgspec.Meta(ge=0, le=9)] | None = None
    over: str = ""
    exactly_once: bool = False
    node: Literal["", "another"] = ""
    goes_on: bool = False

    @property
    def may_be_refused(self) -> bool:
        """Whether a refusal is an answer to record: a broker may refuse the commit of what it has stored already."""
        return self.resends and not self.exactly_once


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
    consumer of its own. A cumulative acknowledgement covers what all of them got. `from_queue`: so many queues of the
    trial come before the first of these, so that clients beside each other can have a queue each. `ends`: after so many
    deliveries the first of them ends, and gives back what it has not acknowledged; the others go on. `selects`: the
    name of the selector of each receiver (`scenario.selectors`). `over`: as with a publisher.

    `recovered` among `refuse` asks the broker for what the consumer holds, so with `prefetch` 1 for that delivery.
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
    refuse: tuple[Literal["released", "rejected", "failed", "undeliverable", "recovered", "thrown"], ...] = ()
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
    from_queue: int = 0
    ends: int = 0
    selects: str = ""
    over: str = ""
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

    One that a shortage or a failing disk has left alive is killed before, unless it is stopped.
    `flushed`: while it is down, the operating system writes everything in its cache to the disk of its own that a
    broker has which is to lose its power. By itself it does so within half a minute.
    `under`: its disk is faulty, or watched, for this whole run of the broker, or its data were changed before it. The
    run before it was started without that. `until`: the broker is killed while it recovers (`Recovery`), or so long
    after it was ready, without any use (`After`), and started once more. `beside`: these clients begin before the
    start, try to connect until the broker answers, and go on while it recovers; the step ends when they have ended. It
    goes with neither `under` nor `until`.
    """

    clean: bool = False
    flushed: bool = False
    under: DiskFault | None = None
    until: Kill | None = None
    beside: tuple[Publish | Consume, ...] = ()

    @property
    def does(self) -> str:
        """Return `restart` for a broker that runs, and `start` for one that has ended."""
        return "restart" if self.clean else "start"


class Drain(_Step, frozen=True):
    """Receive and acknowledge everything until silence, then ask the broker for its own depth."""


class Offer(_Step, frozen=True):
    """Offer the broker each of these settings (`name=value`) at a start of its own; it may refuse to start with one.

    The settings that it took are in force until the next `Restart`.
    """

    settings: tuple[str, ...]


class Ask(_Step, frozen=True):
    """Ask a vendor's client what it offers, or a broker what it allows, and record each answer.

    The question is an entry of `QUESTIONS` of the sessions of a protocol: of JMS, or of AMQP 0-9-1.
    """

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

ANOTHER = "another"
"""The protocol of a client, until a trial has one: any that the broker speaks on the same queues beside its own."""

LONG_LIFE_MS = 3_600_000
"""A message with such a time to live, or a longer one, outlives every trial."""

LONGEST_DELAY_MS = 30_000
"""A drain does not wait for a redelivery delay beyond this: the liveness bound is ten times the delay."""
