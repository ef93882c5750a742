"""What a scenario needs beside its steps: values that the system under test and this machine are asked for.

A need costs one entry here, the line of `Scenario` that says who has it, and an entry of `adapters.system` that
says which brokers cannot meet it. Faults are asked for in the same way (`scenario.faults`).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from signal import Signals
from typing import Any, ClassVar, Protocol


class Means(enum.StrEnum):
    """What it takes beside a process. `faults.possible` finds out whether this machine has it."""

    TRACER = "tracer"
    POWER = "power"
    XFS = "xfs"
    LINK = "link"
    WATCH = "watch"
    NODES = "nodes"
    NODE_LINKS = "node links"
    DATA = "data"
    LIMITS = "limits"


class Wanted(Protocol):
    """A need or a fault, as system and machine are asked for it. `commands`: those that an external broker needs.

    `signal` is what a fault sends to the processes of the broker, and `fails_disk` says whether its disk fails.
    """

    @property
    def name(self) -> str: ...

    @property
    def means(self) -> Means | None: ...

    @property
    def commands(self) -> tuple[str, ...]: ...

    @property
    def signal(self) -> Signals | None: ...

    @property
    def fails_disk(self) -> bool: ...


class SystemUnderTest(Protocol):
    """A broker as it is started, with the client that speaks to it. Its processes are `adapters.interface.Node`s."""

    def lacks(self, wanted: Wanted) -> str:
        """Say why this cannot be had from the system; empty if it can."""

    def brings(self, means: Means) -> bool:
        """Whether the system has these means itself, as a container has its own tracer."""


class Machine(Protocol):
    """The machine that injects faults."""

    def lacks(self, means: Means) -> str:
        """Say why it does not have these means; empty if it does."""


def available(wanted: Wanted, system: SystemUnderTest, machine: Machine) -> str:
    """Say why this cannot be had from that system on this machine; empty if it can."""
    if (why := system.lacks(wanted)) or wanted.means is None or system.brings(wanted.means):
        return why
    return machine.lacks(wanted.means)


@dataclasses.dataclass(frozen=True)
class Need:
    """Something that not every system can give a scenario. `says` is its name in `run.json` and in reports.

    `option` is the option of a queue that it is, `mode` the mode of a consumer, and `question` what a broker is asked.
    `of_client`: the suite's own sessions can do it, and a vendor's client cannot.
    """

    signal: ClassVar[None] = None
    fails_disk: ClassVar[bool] = False

    says: str
    means: Means | None = None
    commands: tuple[str, ...] = ()
    option: str = ""
    mode: str = ""
    question: str = ""
    of_client: bool = False

    @property
    def name(self) -> str:
        return self.says

    def available(self, system: SystemUnderTest, machine: Machine) -> str:
        """Say why a script that needs it cannot be played there; empty if it can."""
        return available(self, system, machine)


FRAMES = Need("frames that the link can tell apart", Means.LINK)
"""Of faults at a frame, and of checks by frames."""

ON_XFS = Need("a disk with xfs that can lose its power", Means.XFS)
UNDECLARED = Need("a queue that was never declared")
CREATED = Need("a queue that the broker makes when a client names it")
FRESH = Need("a queue that is declared while the broker runs")
SUBSCRIBED = Need("durable subscriptions of a topic")
"""Of clients that make their queues themselves, and find them again (`Scenario.subscribed`)."""

LIVES = {"undeclared": UNDECLARED, "created": CREATED, "fresh": FRESH, "subscribed": SUBSCRIBED}
"""By option of a scenario's queue, the need of a queue that is not there when the broker starts."""


SESSION_EXPIRY = "session_expiry_s"
"""The option of a queue that is a session, and outlives its connection for so many seconds."""

APART = {
    "another_protocol": "is about one protocol",
    "asked_again": "asks for nothing again",
    "message_priority": "is about no priority",
    SESSION_EXPIRY: "is about a session that never expires",
}
"""Ways of a scenario that a claim must name to be decided by it, and what the other claims are about."""

EXPIRES = Need("a session that says how long it outlives its connection")
_BY_OPTION = {**LIVES, SESSION_EXPIRY: EXPIRES}


def declared_options(options: Mapping[str, Any], queue: str) -> dict[str, Any]:
    """Return the options that a broker is given for a queue: not who makes it, and not what its clients say.

    `queue` is the one of the trial, of which a queue with `copies_of` gets copies.
    """
    chosen = ((name, queue if name == COPIES else value) for name, value in options.items())
    return {name: value for name, value in chosen if name not in (SESSION_EXPIRY, *LIVES)}


def need_of(option: str) -> Need:
    """Return the need of a scenario whose queue has this option."""
    return _BY_OPTION.get(option) or Need(f"a queue with {option}", option=option)


def in_mode(name: str) -> Need:
    """Return the need of a consumer in this mode."""
    return Need(f"mode {name}", mode=name, of_client=True)


def answer_to(question: str) -> Need:
    """Return the need of a broker that is asked this over its protocol."""
    return Need(f"an answer to: {question}", question=question, of_client=True)


COPIES = "copies_of"
COPIED = need_of(COPIES)
"""Of a publisher whose sends go to several queues each."""

ANOTHER_PROTOCOL = Need("another protocol on the same queues")
ANOTHER_CONSUMER = Need("a consumer of another protocol")
"""Of a client that speaks another protocol than the others of its trial."""

SETTINGS = Need("settings of any name")
"""Of a broker that is offered settings."""

FOR_TOPIC = Need("messages that say what they are for")
"""Over AMQP, of a publisher whose messages are annotated as for a topic."""

PROPERTIES = Need("messages with properties")
"""Of a publisher whose messages have application properties."""

TIME_TO_LIVE = Need("messages with a time to live")
"""Of a publisher whose messages expire."""

DELAYED = Need("messages with a delivery delay")
"""Of a publisher whose messages may not be delivered at once."""

PRIORITY = Need("messages with a priority")
"""Of a publisher whose messages say one."""

ANOTHER_NODE = Need("clients at another node than the one that serves", Means.NODES)
"""Of a publisher that is connected to it."""

GOES_ON = Need("a client that goes on at another node by itself", Means.NODES)
"""Of a publisher that outlives its node."""

SHORT_LIVES = Need("a time to live of less than a second")
"""Of a publisher whose messages expire sooner than a clock of seconds can say."""

EXPIRY_QUEUE = Need("a queue that keeps expired messages")
"""Of a scenario that asks for the setting expiry_destination: without it expired messages are discarded."""

MODIFIED = Need("the outcome modified")
"""Over AMQP, of a consumer that gives a delivery back as failed or undeliverable."""

ASKED_AGAIN = Need("a request to have what is unacknowledged once more")
"""Of a consumer that asks for it without an end of its channel: basic.recover of AMQP 0-9-1."""

SELECTS = Need("message selectors")
"""Of a consumer that selects."""

TYPED = Need("properties that are numbers and truths")
"""Of a consumer that selects by them."""

ANSWERED = Need("an answer to an acknowledgement")
"""Of a fault at the answer to an acknowledgement: without answers it would never fire."""

TRANSACTIONS = Need("transactions")
"""Of a publisher that sends in transactions."""

NON_PERSISTENT = Need("messages that are not persistent")
SHARED = Need("several consumers of one queue at a time")
"""Of consumers beside each other, and of receivers of one client."""

DISORDERED = Need("acknowledgements in another order")
"""Of a consumer that acknowledges the last message first."""

SEVERAL = Need("several queues in one trial")
"""Of a publisher that sends to more than one queue."""

CLEAN_RESTART = Need("a clean restart", commands=("stop",))
KILL_WHILE_STARTING = Need("a kill while it starts", Means.WATCH)
KILL_OF_HALTED = Need("a kill of what is halted", commands=("pause", "kill"))
JOURNAL_WATCHED = Need("a look at the files of its journal", Means.WATCH)

EXACTLY_ONCE = Need("messages that are sent exactly once")
"""Of a publisher whose messages are sent once and for all, over every connection that it takes."""

RAW = Need("the suite's own view of the wire", of_client=True)
REFUSES = Need("deliveries given back", of_client=True)
HOLDS = Need("deliveries seen before they are asked for", of_client=True)
PEEKS = Need("a receiver beside the publisher", of_client=True)
RESENDS = Need("duplicate ids", of_client=True)
SPREADS = Need("sends of one session to several queues", of_client=True)
ENDS_ONE = Need("the end of one of several receivers", of_client=True)
TURNED_AWAY = Need("the end of a link or connection as a refusal", of_client=True)
