"""The interface of an adapter. The rest of the suite uses only these two protocols.

`FileAdapter` is the adapter that a `broker.toml` makes. A Python class may be one as well: it derives from
`FileAdapter` and changes what it must, or has every member of `Adapter` itself. It is reached as `path.py:Class`, or by
its name where a package declares it as an entry point of the group `conformance.adapters`.
`conformance adapters check` tries whether a broker keeps what is written here.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, Self

from conformance.adapters.credentials import Access
from conformance.adapters.file.distribution_table import Artifact, Progress
from conformance.adapters.file.model import BrokerFile
from conformance.adapters.file.settings import EffectiveSettings
from conformance.adapters.launch.prepared import DepthProbe, Options
from conformance.claims import Value
from conformance.ledger import Ledger


class Broker(Protocol):
    """One broker in a folder of its own, with ports of its own: started, killed by others, started again on its data.

    Leaving its `with` closes it.
    """

    prove_ready: Callable[[], None] | None
    """Sends a durable message and has it back, or raises `ClientError`: asked at the end of a start, if at all."""

    ask_depth: Callable[[str], int] | None
    """Asks how many messages a queue holds, or raises `ClientError`."""

    drain_queue: Callable[[str], None] | None
    """Takes whatever a queue holds, or raises `ClientError`: asked of existing queues, where their owner lets it."""

    journal: pathlib.Path
    """The folder of its journal."""

    no_copy: str
    """Why no second broker can be started on a copy of its data; empty where one can."""

    patience_s: float
    """A start waits for so long until it is ready, where that is longer than its file says."""

    @property
    def folder(self) -> pathlib.Path:
        """Everything of it is in here."""

    @property
    def data(self) -> pathlib.Path:
        """The folder that it stores in; a disk of its own may be mounted there before its first start."""

    @property
    def journal_files(self) -> Sequence[str]:
        """The names in that folder, with `{n}` for a number; faults at the disk are confined to these."""

    @property
    def log(self) -> pathlib.Path:
        """What the newest start has printed; another file for each start."""

    @property
    def logs(self) -> list[pathlib.Path]:
        """Every log file that there is."""

    @property
    def epoch(self) -> int:
        """How often it was started."""

    @property
    def start_seconds(self) -> list[float]:
        """Of each start that came to be ready."""

    @property
    def settings(self) -> EffectiveSettings:
        """What it was prepared with."""

    @property
    def deviations(self) -> Mapping[str, str]:
        """What was changed of its stock configuration so that it can be tried, and why."""

    @property
    def contained(self) -> bool:
        """Whether its pids in its own world are others, as in a container."""

    @property
    def http_port(self) -> int | None:
        """Of its management, where it has one."""

    @property
    def was_ready(self) -> bool:
        """Whether the newest start has come to be ready, as far as it can be told without waiting."""

    @property
    def exit_status(self) -> int | None:
        """Of the process that was started: None while it runs, negative where a signal ended it."""

    def __enter__(self) -> Self:
        """Itself."""

    def __exit__(self, *exc: object) -> None:
        """Close it."""

    def endpoint(self, protocol: str) -> tuple[str, int]:
        """Host and port, the same in every start; `UsageError` where it does not speak the protocol."""

    def access(self, protocol: str) -> Access:
        """How a client comes in there; `UsageError` where two words of it do not go together."""

    def queue_of(self, queue: str) -> str:
        """What a queue that it was prepared with is called there; `LaunchError` where a trial may not begin with it."""

    def depth_probe(self, queue: str) -> DepthProbe:
        """How a client asks for the depth of a queue, by the name that it has there."""

    def start(self, wrap: Sequence[str] = (), *, more: Sequence[str] = ()) -> None:
        """Start it, and return when it is ready and has its queues.

        `wrap` stands before its command, `more` after it. Raises `LaunchError` with the end of its log; nothing of it
        is left then.
        """

    def launch(self, wrap: Sequence[str] = (), *, more: Sequence[str] = ()) -> None:
        """Start it, and return at once. Raises `LaunchError`."""

    def stop(self) -> None:
        """A clean stop; `LaunchError` where it does not end in time, and it is killed then."""

    def processes(self) -> list[int]:
        """The pids of everything that serves, the one that was started first; empty where all is gone."""

    def pidfds(self, *, main_only: bool = False) -> contextlib.AbstractContextManager[list[int]]:
        """A pidfd for each of these, or of the one that a clean stop is asked of: SIGKILL by them ends the broker."""

    @property
    def by_command(self) -> bool:
        """Whether faults at its process are commands of its owner's, since its processes cannot be seen here."""

    def armed(self, fault: str) -> contextlib.AbstractContextManager[list[int]]:
        """What the owner of a trigger needs to fire `kill`, `stop`, `pause` or `pause_kill` at it.

        The pidfds that the signals go to; or, by command, for each command of the fault the end of a pipe, where a line
        starts it, and the pidfd of its process.
        """

    def within_s(self, fault: str) -> float:
        """The seconds within which a fault by command must have taken effect; 0 where it is a signal."""

    def gone(self) -> bool:
        """Whether nothing of it is left."""

    def wait_gone(self, timeout_s: float) -> bool:
        """Wait until nothing is left; False where that is not so in time."""

    def alive_check(self) -> None:
        """Raise `LaunchError`, with the end of its log, where it has ended although nobody here ended it."""

    def close(self) -> None:
        """End whatever is left of it, and give its ports back; a second call does nothing."""


class Adapter(Protocol):
    """A broker of one version under one launcher: it describes it, and prepares as many of it as are asked for."""

    @property
    def name(self) -> str:
        """One word."""

    @property
    def version(self) -> str:
        """Of the product."""

    @property
    def launcher(self) -> str:
        """`native`, `docker` or `external`."""

    @property
    def file(self) -> BrokerFile:
        """What a `broker.toml` would say: protocols, capabilities, settings; `read_table` makes one of a table."""

    @property
    def path(self) -> pathlib.Path:
        """The file that it was read from."""

    @property
    def spec(self) -> str:
        """The words that find it again."""

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """The distribution in a Maven repository: an archive, or its jars; empty where there is nothing to fetch."""

    @property
    def able(self) -> Callable[[str], str] | None:
        """Asked by the name of a fault, why its launcher cannot take it; None where it takes all."""

    def capabilities(self, protocol: str) -> frozenset[str]:
        """What it can do over `protocol`; `UsageError` where it does not speak it."""

    def lacks(self, need: str) -> str:
        """Why a scenario that needs this (`Scenario.needs`) cannot be played; empty where it can."""

    def chosen(self, overrides: Mapping[str, Value]) -> Adapter:
        """The broker that these settings make of it."""

    def effective(self, overrides: Mapping[str, Value] | None = None) -> EffectiveSettings:
        """Stock with these overrides; `UsageError` for an unknown or fixed setting, or a value of another type."""

    def install(
        self, progress: Progress | None = None, *, offline: bool = False, into: pathlib.Path | None = None
    ) -> pathlib.Path:
        """Have the distribution; returns its folder. `FetchError` where it cannot be had."""

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
    ) -> Broker:
        """A broker in `folder` (new or empty) that will have these queues, durable but for their `options`.

        Whatever it starts carries `ledger.environment`, so that it is found when the suite is killed. Raises
        `FetchError`, `LaunchError`, `UsageError`.
        """


MEMBERS = tuple(name for name in vars(Adapter) if not name.startswith("_"))
"""The names that an adapter has."""
