"""Faults: each is one class with all that other rooms ask of it, and one entry of `FAULTS`.

How a fault is injected depends on the process that does it. A client sends the `signal` of a fault (`clients.trigger`).
The proxy of a link acts by the class of a `LinkFault` (`faults.link`), and the tracer by the class of a `DiskFault`
(`faults.disk`).
"""

from __future__ import annotations

import enum
from signal import Signals
from typing import ClassVar, Literal, get_args

import msgspec

from conformance.scenario.needs import Machine, Means, SystemUnderTest, available
from conformance.scenario.triggers import Above0, Count, Drawn, DrawnWait, Frame, Recovery, Trigger, tag_of


class Cause(enum.StrEnum):
    """What may fail, as a heading of the report, in its order."""

    NOTHING = "no fault"
    CLIENT = "a client dies"
    CONNECTION = "the connection fails"
    KILL = "the broker is killed"
    STOP = "the broker is stopped"
    DISK = "the disk fails"
    SHORTAGE = "a resource runs out for a time"
    DAMAGE = "stored data are damaged"
    POWER = "the power fails"
    NODES = "nodes fail"
    NETWORK = "the network splits"


class _Fault(msgspec.Struct, frozen=True, tag_field="fault", tag=tag_of):
    """A fault. `name` is its name in the catalogue, in histories and in JSON; `counted` is one of it, and several.

    Args:
        words: What is done, for people, with the fields of the fault; `{when}` is its trigger.
        means: What it takes on this machine beside a process.
        commands: Those that it needs of the owner of an external broker.
        signal: What a client sends to every process of the broker.
        fails_disk: Whether each operation of the disk fails, so that the broker should end by itself.
        decides_disk: Whether it decides a claim that says "on disk".
        timed: Whether it lasts for a time that is compared with answers.
        shared: Whether other scenarios may use the broker meanwhile: it meets one client or connection, or it ends the
            broker for all of them.
    """

    name: ClassVar[str]
    cause: ClassVar[Cause]
    counted: ClassVar[tuple[str, str]]
    words: ClassVar[str]
    means: ClassVar[Means | None] = None
    commands: ClassVar[tuple[str, ...]] = ()
    signal: ClassVar[Signals | None] = None
    fails_disk: ClassVar[bool] = False
    decides_disk: ClassVar[bool] = False
    timed: ClassVar[bool] = False
    shared: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        cls.name = tag_of(cls.__name__)

    @property
    def failure_model(self) -> str:
        """What fails, in words of the report."""
        raise NotImplementedError

    @property
    def names(self) -> tuple[str, ...]:
        """Its names in the catalogue."""
        return (self.name,)

    @property
    def armed_by(self) -> tuple[str, ...]:
        """The commands that are ready to start while it is armed, in their order."""
        return self.commands

    @property
    def ends_broker(self) -> bool:
        return False

    @property
    def spares_broker(self) -> bool:
        """Whether the broker lives through it, and its disk works: only clients and links meet it."""
        return not (self.ends_broker or self.fails_disk)

    def says(self, when: str) -> str:
        """Say what is done, for people; `when` is its trigger in words."""
        return self.words.format(when=when, **msgspec.structs.asdict(self))

    @classmethod
    def available(cls, system: SystemUnderTest, machine: Machine) -> str:
        """Say why it cannot be injected into that system from this machine; empty if it can."""
        return available(cls, system, machine)


_NODES = {
    "serving": "the node that serves",
    "another": "a node beside the one that serves",
    "majority": "the node that serves and others, so that no majority is left",
    "all": "all nodes",
}


class _Shortage(_Fault, frozen=True):
    """A resource runs out at a trigger, and is there again `hold_s` seconds after it was seen to have run out.

    The broker may refuse, wait or end meanwhile. One that has ended is started again. `returns`: what was taken is back
    afterwards, so that the broker has to serve without a restart. `alarm` is the one by which a broker speaks of it.
    """

    at: Trigger
    hold_s: Above0
    returns: ClassVar[bool] = True
    alarm: ClassVar[str] = ""
    cause = Cause.SHORTAGE
    spares_broker = False


class FilledDisk(_Shortage, frozen=True):
    """Another process takes all the space that is left on the file system of the broker's data, and gives it back.

    A real one: every write that needs a new block gets ENOSPC, and by the count of the file system no space is left. It
    is the broker's own, so nothing else of the machine meets it. `leaves_percent`: so much of it stays free, and only
    the broker's own limit may be passed.
    """

    leaves_percent: int = 0
    counted = ("filled disk", "filled disks")
    alarm = "disk"
    means = Means.POWER

    @property
    def failure_model(self) -> str:
        return f"{'nearly ' if self.leaves_percent else ''}full disk for a time"

    def says(self, when: str) -> str:
        but = f" but for {self.leaves_percent} %" if self.leaves_percent else ""
        return f"Another process fills the disk of the broker{but} at {when}, and frees it {self.hold_s:g} s later."


class FilesUsedUp(_Shortage, frozen=True):
    """No process of the broker can open one more file or socket, as if it had used up what it may have open.

    The soft limit of its open files (getrlimit(2)) goes down to what it has open, and back. Each open and each accept
    gets EMFILE until it closes something.
    """

    counted = ("shortage of files", "shortages of files")
    means = Means.LIMITS
    failure_model = "no file descriptors for a time"
    words = "The broker can open no more files and sockets from {when} on, and again {hold_s:g} s later."


class PartNodes(_Shortage, frozen=True):
    """A node of several and all others cannot reach each other for a time: no byte crosses.

    `which`: the one that is `serving` the client, which stays connected to it, or `another`. `one_way`: what it sends
    crosses to no other, and what they send comes. `then_kill`: the node that serves gets SIGKILL at the end of that
    time, before they are joined.
    """

    which: Literal["serving", "another"]
    then_kill: bool = False
    one_way: bool = False
    cause = Cause.NETWORK
    counted = ("partition", "partitions")
    means = Means.NODE_LINKS

    @property
    def failure_model(self) -> str:
        apart = f"{_NODES[self.which]} is {'not heard by' if self.one_way else 'cut off from'} the others"
        return f"{apart}, then one dies" if self.then_kill else f"{apart} for a time"

    @property
    def names(self) -> tuple[str, ...]:
        return ("part_nodes", "kill_nodes") if self.then_kill else ("part_nodes",)

    @property
    def ends_broker(self) -> bool:
        return self.then_kill

    def says(self, when: str) -> str:
        end = "the one that serves is killed" if self.then_kill else "they are joined"
        way = ("between", "and") if not self.one_way else ("from", "to")
        apart = f"No byte crosses {way[0]} {_NODES[self.which]} {way[1]} the others from {when} on"
        return f"{apart}; {self.hold_s:g} s later {end}."


class PauseNodes(_Shortage, frozen=True):
    """SIGSTOP to every process of a node of several, and SIGCONT `hold_s` seconds after every thread of it was halted.

    `which`: the one that is `serving` the client, which stays connected to it, or `another`. The others may go on
    without it meanwhile: then it is behind when it wakes, and does not know that.
    """

    which: Literal["serving", "another"]
    cause = Cause.NODES
    counted = ("pause of a node", "pauses of a node")
    means = Means.NODES

    @property
    def failure_model(self) -> str:
        return f"{_NODES[self.which]} is halted for a time"

    def says(self, when: str) -> str:
        return f"SIGSTOP to every process of {_NODES[self.which]} at {when}, and SIGCONT {self.hold_s:g} s later."


class LoseNode(_Shortage, frozen=True):
    """SIGKILL to the node that serves a client, which goes on by itself at another one; that has `hold_s` seconds.

    A client that stays connected to nothing is another matter: `KillNodes`.
    """

    returns = False
    cause = Cause.NODES
    counted = ("death of the node of a client", "deaths of the node of a client")
    means = Means.NODES
    failure_model = "death of the node of a client that goes on at another"
    words = (
        "SIGKILL to every process of the node that serves at {when}; the client goes on at another within {hold_s:g} s."
    )


_CUTS = {"fin": "Close the connection cleanly", "rst": "Reset the connection", "half_open": "Silence the connection"}
_DIRECTIONS = {"to_client": "from the broker to the client", "to_broker": "from the client to the broker"}


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
    cause = Cause.KILL
    counted = ("kill", "kills")
    commands = ("kill",)
    signal = Signals.SIGKILL
    shared = True
    failure_model = "process death"
    ends_broker = True
    words = "SIGKILL to every process of the broker at {when}."


class Stop(_Fault, frozen=True):
    """SIGTERM to the broker at a trigger, with everything in flight: an orderly end under load."""

    at: Trigger
    cause = Cause.STOP
    counted = ("stop", "stops")
    commands = ("stop",)
    signal = Signals.SIGTERM
    shared = True
    failure_model = "orderly stop"
    ends_broker = True
    words = "SIGTERM to the broker at {when}."


class Pause(_Fault, frozen=True):
    """SIGSTOP to every process of the broker at a trigger, and `hold_s` seconds after it took effect SIGCONT.

    It took effect when every thread is stopped; the broker cannot answer a later request before the pause ends.
    `then_kill`: SIGKILL instead of SIGCONT, so that a halted process never goes on.
    """

    at: Trigger
    hold_s: Above0 = 1.0
    then_kill: bool = False
    cause = Cause.STOP
    counted = ("pause", "pauses")
    commands = ("pause", "resume")
    signal = Signals.SIGSTOP

    @property
    def failure_model(self) -> str:
        return "process halted, then killed" if self.then_kill else "process halted for a time"

    @property
    def names(self) -> tuple[str, ...]:
        return ("pause", "kill") if self.then_kill else ("pause",)

    @property
    def armed_by(self) -> tuple[str, ...]:
        return ("pause", "kill") if self.then_kill else self.commands

    @property
    def ends_broker(self) -> bool:
        return self.then_kill

    def says(self, when: str) -> str:
        end = "SIGKILL" if self.then_kill else "SIGCONT"
        return f"SIGSTOP to every process of the broker at {when}, and {end} {self.hold_s:g} s later."


class ConsumerCrash(_Fault, frozen=True):
    """SIGKILL of the client itself, at its own trigger: in a processing, or with a transaction open."""

    at: Trigger
    cause = Cause.CLIENT
    counted = ("crash of the client", "crashes of the client")
    shared = True
    failure_model = "death of the client process"
    words = "SIGKILL to the client process itself at {when}."


class PowerLoss(_Fault, frozen=True):
    """The file system under the broker's data goes, with everything that was not synced; then every process is killed.

    The machine counts as dead from the moment of the command: answers read later are unknown. `torn`: before that, some
    of the pages that were written and not synced reach the disk, and others do not. The seed draws which: a disk may
    do that. `filesystem`: what the broker stores on.
    """

    at: Trigger
    torn: bool = False
    filesystem: Literal["ext4", "xfs"] = "ext4"
    cause = Cause.POWER
    counted = ("power loss", "power losses")
    means = Means.POWER
    signal = Signals.SIGKILL
    decides_disk = True
    ends_broker = True
    failure_model = "power loss"

    def says(self, when: str) -> str:
        some = "; some pages that were not synced are written, and others are lost" if self.torn else ""
        on = "" if self.filesystem == "ext4" else f" of a disk with {self.filesystem}"
        return f"Power loss{on} at {when}: data that was not synced is lost{some}."


class Cut(_Fault, frozen=True):
    """The connection is broken at a frame: closed in order (`fin`), reset (`rst`), or silent for ever (`half_open`)."""

    at: Frame
    how: Literal["fin", "rst", "half_open"] = "rst"
    cause = Cause.CONNECTION
    counted = ("cut", "cuts")
    means = Means.LINK
    shared = True
    failure_model = "loss of the connection"

    def says(self, when: str) -> str:
        return f"{_CUTS[self.how]} {when}."


class HoldLink(_Fault, frozen=True):
    """From a frame on, nothing passes in one direction for `hold_s` seconds."""

    at: Frame
    direction: Literal["to_client", "to_broker"] = "to_client"
    hold_s: Above0 = 1.0
    cause = Cause.CONNECTION
    counted = ("held link", "held links")
    means = Means.LINK
    shared = True
    failure_model = "link held for a time"

    def says(self, when: str) -> str:
        return f"{when.capitalize()}, nothing passes {_DIRECTIONS[self.direction]} for {self.hold_s:g} s."


class Delay(_Fault, frozen=True):
    """Each byte takes so much longer that a round trip takes `rtt_ms` more."""

    rtt_ms: Above0
    cause = Cause.CONNECTION
    counted = ("slow link", "slow links")
    means = Means.LINK
    shared = True
    failure_model = "slow link"
    words = "A round trip to the broker takes {rtt_ms:g} ms more."


class Throttle(_Fault, frozen=True):
    """At most so many bytes a second in each direction."""

    bytes_per_s: Count
    cause = Cause.CONNECTION
    counted = ("narrow link", "narrow links")
    means = Means.LINK
    shared = True
    failure_model = "narrow link"
    words = "The link carries at most {bytes_per_s:,} bytes a second each way."


class Watched(_Fault, frozen=True):
    """The disk works, and the suite sees what is written and synced."""

    cause = Cause.NOTHING
    counted = ("trial", "trials")
    means = Means.TRACER
    failure_model = "no fault"
    words = "its writes and syncs of the journal are traced"


class HeldSync(_Fault, frozen=True):
    """Every sync of the journal's files begins `seconds` later than the broker asks for it."""

    seconds: Above0 = 0.7
    cause = Cause.DISK
    counted = ("start with held syncs", "starts with held syncs")
    means = Means.TRACER
    decides_disk = True
    timed = True
    failure_model = "slow disk"
    words = "every sync of its journal begins {seconds:g} s late until it ends"


class FailedSync(_Fault, frozen=True):
    """From the k-th sync of the journal's files by one thread on, each returns EIO and has synced nothing."""

    k: Drawn
    cause = Cause.DISK
    counted = ("trial with failed syncs", "trials with failed syncs")
    means = Means.TRACER
    fails_disk = True
    failure_model = "failing disk"
    words = "from {when} on, each sync of its journal by one thread fails with EIO"


class DiskFull(_Fault, frozen=True):
    """From the k-th write to the journal's files by one thread on, each returns ENOSPC and has written nothing."""

    k: Drawn
    cause = Cause.DISK
    counted = ("full disk", "full disks")
    means = Means.TRACER
    fails_disk = True
    failure_model = "full disk"
    words = "from {when} on, each write to its journal by one thread fails with ENOSPC"


How = Literal[
    "body_bit",
    "header_bit",
    "index_bit",
    "zeroed_page",
    "cut_file",
    "missing_file",
    "empty_file",
    "older_file",
]

DAMAGE = {
    "body_bit": "a bit of the stored body of a message is flipped",
    "header_bit": "a bit of the 32 bytes before the stored body of a message is flipped",
    "index_bit": "a bit of a file that has no stored body is flipped",
    "zeroed_page": "the 4 KiB with the beginning of a stored body become zeros",
    "cut_file": "the file with the body that was stored last ends in the middle of it",
    "missing_file": "the file with the most stored bodies is gone",
    "empty_file": "the file with the most stored bodies is empty",
    "older_file": "the file with the most stored bodies is as it was at the start before",
}
"""What `Corrupt` does, by its `how`."""


class Corrupt(_Fault, frozen=True):
    """While the broker is down, its data are changed in one place, once.

    `how` says in which way. The place is drawn by the seed of the trial, among what the broker has stored of messages
    that it confirmed and no consumer took.
    """

    how: How
    cause = Cause.DAMAGE
    counted = ("damaged file", "damaged files")
    means = Means.DATA
    spares_broker = False
    failure_model = "damage at rest"

    def says(self, when: str) -> str:
        return f"while it is down, {DAMAGE[self.how]}"


class CorruptReplica(Corrupt, frozen=True):
    """The same at a node beside the one that served last, of a broker of several."""

    counted = ("damaged replica", "damaged replicas")
    means = Means.NODES
    failure_model = "damage at rest of one of several nodes"

    def says(self, when: str) -> str:
        return f"{super().says(when)}, at a node beside the one that served"


class KillNodes(_Fault, frozen=True):
    """SIGKILL to nodes of a broker of several, at a trigger.

    `which`: the one that is `serving` the client, which a `Kill` meets too, `another` one, the `majority` with the one
    that serves, or `all`.
    """

    at: Trigger
    which: Literal["serving", "another", "majority", "all"]
    cause = Cause.NODES
    counted = ("kill of nodes", "kills of nodes")
    means = Means.NODES
    signal = Signals.SIGKILL

    @property
    def failure_model(self) -> str:
        return f"death of {_NODES[self.which]}"

    @property
    def ends_broker(self) -> bool:
        return self.which != "another"

    def says(self, when: str) -> str:
        return f"SIGKILL to every process of {_NODES[self.which]} at {when}."


class StopNodes(KillNodes, frozen=True):
    """SIGTERM to nodes of a broker of several, at a trigger: an orderly end of them under load."""

    counted = ("stop of nodes", "stops of nodes")
    commands = ("stop",)
    signal = Signals.SIGTERM

    @property
    def failure_model(self) -> str:
        return f"orderly stop of {_NODES[self.which]}"

    def says(self, when: str) -> str:
        return f"SIGTERM to {_NODES[self.which]} at {when}."


TogetherFault = Kill | Stop | Pause | KillNodes | StopNodes
"""Faults of a client that other clients may meet beside it."""

Shortage = FilledDisk | FilesUsedUp | PartNodes | PauseNodes | LoseNode

ClientFault = TogetherFault | ConsumerCrash | PowerLoss | Shortage
"""Faults that a client process fires."""

LinkFault = Cut | HoldLink | Delay | Throttle
TracedFault = Watched | HeldSync | FailedSync | DiskFull
"""Faults that a tracer injects, each for a whole run of the broker: the unit is the run, not the sync."""

DiskFault = TracedFault | Corrupt | CorruptReplica

Fault = ClientFault | LinkFault

FAULTS: dict[str, type[Fault | DiskFault]] = {kind.name: kind for kind in get_args(Fault | DiskFault)}
"""Every fault by its name. The place of a fault is its bit in the judge's mask."""

DECIDE_DISK = frozenset(name for name, kind in FAULTS.items() if kind.decides_disk)
