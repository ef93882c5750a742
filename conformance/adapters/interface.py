"""The interface of an adapter. The rest of the suite uses only these protocols.

`FileAdapter` is the adapter that a `broker.toml` makes. A Python class may be one as well: it derives from
`FileAdapter` and changes what it must, or has every member of `Adapter` itself. It is reached as `path.py:Class`, or by
its name where a package declares it as an entry point of the group `conformance.adapters`.
`conformance adapters check` tries whether a broker keeps what is written here.

A `Broker` has a `Service` for clients, and one node or several. A `Node` is a process tree: it has `Facts` for evidence
and reports, and `Processes` for faults.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, Self

import msgspec

from conformance.adapters.credentials import OPEN, Access
from conformance.adapters.file.launch_tables import Artifact, External, Progress, Remove
from conformance.adapters.file.model import BrokerFile
from conformance.adapters.file.settings import EffectiveSettings
from conformance.claims import Value
from conformance.ledger import Ledger
from conformance.scenario.needs import Need, Wanted

Options = tuple[tuple[str, bool | int | str], ...]
"""Names and values of a queue's own rules."""

READY_QUEUE = "conformance-ready"
"""The queue for the message that proves that a broker is ready (`start.ready_message`)."""


class DepthProbe(msgspec.Struct, frozen=True):
    """How a client asks for the depth of one queue.

    `http`: GET `url`, the answer is JSON, its `field` the depth, or several with `+` between them, to be added.
    `amqp-management`: a request to `address` with `properties` as application properties, and `body`. The answer's body
    is a map with the depth as its `field` (ActiveMQ Classic), or a JSON array whose first item is the depth (Artemis).
    `command`: run it; the depth is the group of `pattern` in its output. `needs` names what the broker must have to
    answer at all. With `relayed` no link is made to `address` itself. `host` and `port` are those of its AMQP endpoint,
    for a client of any protocol, and `access` is its login; they are set when the broker runs. Asked for an alarm, the
    broker announces it if `pattern` is in its answer.
    """

    method: Literal["http", "amqp-management", "command"]
    url: str = ""
    field: str = ""
    address: str = ""
    properties: dict[str, str] = {}
    body: str = ""
    needs: str = ""
    relayed: bool = False
    host: str = ""
    port: int = 0
    access: Access = OPEN
    command: tuple[str, ...] = ()
    pattern: str = ""


@dataclasses.dataclass(frozen=True)
class JournalFiles:
    """The folder of a journal, and the names of its files, with `{n}` for a number. Disk faults use only these."""

    folder: pathlib.Path
    names: Sequence[str]


class Facts(Protocol):
    """The files of a broker, and what a report says of it."""

    @property
    def folder(self) -> pathlib.Path:
        """The folder that holds everything of the broker."""

    @property
    def data(self) -> pathlib.Path:
        """The folder that it stores in; a disk of its own may be mounted there before its first start."""

    @property
    def journal_files(self) -> JournalFiles:
        """The files in which it stores messages."""

    @property
    def log(self) -> pathlib.Path:
        """The output of the newest start; each start has another file."""

    @property
    def logs(self) -> list[pathlib.Path]:
        """Every log file that exists."""

    @property
    def deviations(self) -> Mapping[str, str]:
        """The changes of its stock configuration that make it testable, each with its reason."""

    @property
    def no_copy(self) -> str:
        """Why no second broker can be started on a copy of its data; empty if one can."""

    @property
    def by_command(self) -> bool:
        """Whether its owner's commands inject faults, because its processes cannot be seen here."""


class Service(Protocol):
    """What a client needs to use the broker."""

    def endpoint(self, protocol: str) -> tuple[str, int]:
        """Host and port, the same in every start; `http` is its management. `UsageError` if there is none."""

    def access(self, protocol: str) -> Access:
        """TLS and login for that protocol; `UsageError` if two of these options exclude each other."""

    def queue_of(self, queue: str) -> str:
        """The name at the broker of a queue that it was prepared with; `LaunchError` if no trial may begin with it."""

    def depth_probe(self, queue: str, topic: str = "") -> DepthProbe:
        """How a client asks for the depth of a queue, or of a subscription of the `topic`, by its name there."""

    def alarm_probes(self) -> Mapping[str, DepthProbe]:
        """How to ask whether it announces an alarm that blocks producers, by the name of the alarm."""

    def policy_probe(self, queue: str) -> DepthProbe | None:
        """How to ask for the policies of a queue, by its name at the broker; None if there is no way, or no need."""


class Processes(Protocol):
    """The processes of a broker, or the commands that stand for them. Faults see it as their `Target`."""

    def armed(self, *commands: str) -> contextlib.AbstractContextManager[list[int]]:
        """What the owner of a trigger needs to fire a fault with these `commands`, in their order.

        The handles (`processes`) that the signals go to. If a command injects the fault: for each command the end of a
        pipe, where a line starts it, and the handle of its process.
        """

    def within_s(self, fault: str) -> float:
        """The seconds within which a fault by command must have taken effect; 0 for a signal."""

    def processes(self) -> list[int]:
        """The pids of everything that serves, the process that was started first; empty if all have ended."""

    def gone(self) -> bool:
        """Whether no process is left."""

    def wait_gone(self, timeout_s: float) -> bool:
        """Wait until no process is left; False after the timeout."""

    def alive_check(self) -> None:
        """Raise `LaunchError`, with the end of its log, if it ended and no fault or stop of this suite ended it."""

    @property
    def was_ready(self) -> bool:
        """Whether the newest start is known to have become ready; does not wait."""

    @property
    def exit_status(self) -> int | None:
        """The status of the process that was started: None while it runs, negative if a signal ended it."""


class Node(Protocol):
    """One process tree of a broker, with its data, its journal and its logs. Faults and tracers act on a node."""

    @property
    def facts(self) -> Facts:
        """For evidence and reports."""

    @property
    def target(self) -> Processes:
        """For faults."""

    @property
    def epoch(self) -> int:
        """The number of its starts."""

    def launch(self, wrap: Sequence[str] = (), *, more: Sequence[str] = ()) -> None:
        """Start it, and return at once; `wrap` stands before its command, `more` after it. Raises `LaunchError`."""

    def wait_ready(self, ready_s: float = 0.0) -> None:
        """Wait until it is ready for clients: `ready_s`, or longer if its file says so. Raises `LaunchError`."""

    def stop(self) -> None:
        """Stop it cleanly; `LaunchError` if it does not end in time, and it is killed then."""


class Broker(Protocol):
    """One broker as clients see it, with its nodes: started, killed by others, started again on its data.

    It has a folder and ports of its own. Leaving its `with` closes it.
    """

    @property
    def folder(self) -> pathlib.Path:
        """The folder that holds everything of it."""

    @property
    def nodes(self) -> Sequence[Node]:
        """Its nodes, at least one."""

    @property
    def node(self) -> Node:
        """The node that clients use now: faults act on it."""

    @property
    def epoch(self) -> int:
        """The number of its runs, as clients see them: one begins at each start, and when another node takes over."""

    @property
    def service(self) -> Service:
        """For clients."""

    @property
    def beside(self) -> Service:
        """For clients at another node than `node`; the same as `service` if clients cannot use another one."""

    def addresses(self, protocol: str) -> Sequence[tuple[str, int]]:
        """Where clients that know every node reach them, host and port: the one that serves, and then the others."""

    def __enter__(self) -> Self:
        """Return itself."""

    def __exit__(self, *exc: object) -> None:
        """Close it."""

    def start(self, wrap: Sequence[str] = (), *, more: Sequence[str] = (), ready_s: float = 0.0) -> float:
        """Launch it, and return the seconds after which it was ready and had its queues; see `Node.launch`.

        If enough of several nodes are left, one of them takes over instead, and no node is launched.

        Raises `LaunchError` with the end of its log; nothing of it is left then.
        """

    def stop(self) -> None:
        """Stop each node cleanly; see `Node.stop`."""

    def declare(self, queue: str) -> None:
        """Declare one more queue while it runs, and return when the broker has answered. Raises `LaunchError`."""

    def find_serving(self) -> Node:
        """Let `node` be the one that serves now, after nodes could not reach each other, and return it. Never waits."""

    def met(self, which: str) -> Processes:
        """The processes that a fault of nodes meets: those of `serving`, `another`, the `majority`, or `all`."""

    def halting(self, which: str) -> contextlib.AbstractContextManager[None]:
        """A node, the `serving` or `another`, may be halted until the end of the `with`; it goes on then."""

    def parting(self, which: str, *, one_way: bool = False) -> contextlib.AbstractContextManager[int]:
        """A descriptor by which a client parts a node, the `serving` or `another`, from all others.

        `one_way`: what that node sends crosses to no other. They are joined again at the end. Raises `FaultError` if
        that cannot be done.
        """

    def close(self) -> None:
        """Kill its processes, and release its ports; a second call does nothing."""


class QueueClient(Protocol):
    """A client that a broker uses itself, to prove that it is ready and to find its queues empty.

    Each method takes the name of the queue at the broker, and raises `ClientError`.
    """

    def make(self, broker: Broker, queue: str) -> None:
        """Make the queue, if over this protocol a queue is made by its client; else do nothing."""

    def exchange(self, broker: Broker, queue: str) -> None:
        """Send a durable message to the queue, and receive until that message comes."""

    def depth(self, broker: Broker, queue: str) -> int:
        """Return the number of messages in the queue."""

    def drain(self, broker: Broker, queue: str) -> None:
        """Receive every message of the queue."""

    def remove(self, request: Remove, host: str, port: int, access: Access) -> str:
        """Ask the management over AMQP to remove a queue. Return why it is still there; empty if it is gone."""


class Launcher(Protocol):
    """How the brokers of an adapter come to run. Its text is `word`, with its value if it has one (`external=URL`)."""

    @property
    def word(self) -> str:
        """The word in an adapter's name: `native`, `docker` or `external`."""

    @property
    def owned(self) -> bool:
        """Whether an owner runs the broker and its messages, and the suite may not stop or configure it by itself."""

    @property
    def contained(self) -> bool:
        """Whether the processes run in a container, which has its own tracer, and its own numbers of processes."""

    @property
    def rules(self) -> External:
        """What its owner says: addresses, and commands for faults; empty for a broker that the suite starts."""


class Adapter(Protocol):
    """A broker of one version under one launcher: it describes the broker, and prepares any number of it."""

    @property
    def name(self) -> str:
        """The name of the product, one word."""

    @property
    def version(self) -> str:
        """The version of the product."""

    @property
    def launcher(self) -> Launcher:
        """One of `launchers.LAUNCHERS`."""

    @property
    def file(self) -> BrokerFile:
        """What a `broker.toml` would say: protocols, capabilities, settings; `read_table` makes one of a table."""

    @property
    def path(self) -> pathlib.Path:
        """The file that describes it."""

    @property
    def spec(self) -> str:
        """The text that finds it again: `NAME@VERSION:LAUNCHER`."""

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """The distribution in a Maven repository: an archive, or its jars; empty if there is nothing to fetch."""

    @property
    def parts(self) -> Mapping[str, Adapter]:
        """The brokers of an upgrade, by the part of a run's folder that describes each; else `{"": self}`."""

    @property
    def able(self) -> Callable[[Wanted], str] | None:
        """Tells why its launcher cannot inject a fault; None if it can inject all."""

    def capabilities(self, protocol: str) -> frozenset[str]:
        """The capabilities over `protocol`; `UsageError` if the broker does not speak it."""

    def lacks(self, need: Need) -> str:
        """Why a scenario that needs this (`Scenario.needs`) cannot be played; empty if it can."""

    def lacks_over(self, need: Need, protocol: str) -> str:
        """Why a need cannot be had over this protocol; empty if it can."""

    def chosen(self, overrides: Mapping[str, Value]) -> Adapter:
        """The adapter with these settings: its variant, and its title."""

    def effective(self, overrides: Mapping[str, Value] | None = None) -> EffectiveSettings:
        """Stock with these overrides; `UsageError` for an unknown or fixed setting, or a value of another type."""

    def install(
        self, progress: Progress | None = None, *, offline: bool = False, into: pathlib.Path | None = None
    ) -> pathlib.Path:
        """Install the distribution if it is missing; return its folder. Raises `FetchError`."""

    def prepare(
        self,
        folder: pathlib.Path,
        settings: EffectiveSettings,
        queues: Sequence[str],
        ledger: Ledger,
        liar: str | None = None,
        *,
        offline: bool = False,
        options: Mapping[str, Options] | None = None,
        client: QueueClient | None = None,
    ) -> Broker:
        """Make a broker in `folder` (new or empty) with these queues, durable unless their `options` say otherwise.

        Its processes carry `ledger.environment`, so that they are found if the suite is killed. Without a `client` no
        message proves that it is ready. Raises `FetchError`, `LaunchError`, `UsageError`.
        """


MEMBERS = tuple(name for name in vars(Adapter) if not name.startswith("_"))
"""The names that an adapter has."""
