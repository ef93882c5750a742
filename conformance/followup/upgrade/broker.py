"""Two versions of one broker: the old one until a fault ends it, then the new one on the same data.

`UpgradeAdapter` prepares both side by side; `UpgradedBroker` runs one after the other. Both have folders, ports and
configurations of their own. The data folder of the new one is a link to that of the old one: nothing is copied, so
nothing can be said to have been lost on the way.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import msgspec

from conformance.adapters import Adapter, Broker, BrokerFile, EffectiveSettings, Options, Progress
from conformance.adapters.file.distribution_table import Artifact, order
from conformance.adapters.interface import Processes, QueueClient, Service
from conformance.claims import Value
from conformance.errors import LaunchError, UsageError
from conformance.ledger import Ledger


class FirstStart(msgspec.Struct, frozen=True, kw_only=True):
    """The first start of the new version in a trial: its epoch, and the seconds that it and the old one's took."""

    trial: str
    epoch: int
    seconds: float
    old_seconds: float


class FailedUpgradeStart(msgspec.Struct, frozen=True, kw_only=True):
    """The new version did not start on the data of the old one: what it said, and where the data is kept."""

    trial: str
    says: str
    log: str
    log_tail: tuple[str, ...]
    data: str


class UpgradeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`upgrade.json`: which versions, how each trial's upgrade went, and where the new version did not start."""

    adapter: str
    old: str
    new: str
    launcher: str
    downgrade: bool
    to_set: dict[str, bool | int | str]
    starts: tuple[FirstStart, ...]
    refusals: tuple[FailedUpgradeStart, ...]


@dataclasses.dataclass
class UpgradeLog:
    """The outcome of each trial's upgrade; trials of several parallel groups write into it."""

    starts: dict[str, FirstStart] = dataclasses.field(default_factory=dict)
    refusals: list[FailedUpgradeStart] = dataclasses.field(default_factory=list)
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)


class UpgradedFacts:
    """The files of both brokers; see `adapters.interface.Facts`. Data and journal are those of the old version."""

    by_command = False
    no_copy = "two versions share it"

    def __init__(self, broker: UpgradedBroker, folder: pathlib.Path) -> None:
        self._broker, self.folder = broker, folder
        self.data, self.journal_files = broker.old.facts.data, broker.old.facts.journal_files

    @property
    def log(self) -> pathlib.Path:
        """The output of the newest start."""
        return self._broker.current.facts.log

    @property
    def logs(self) -> list[pathlib.Path]:
        """Every log file of both."""
        return [*self._broker.old.facts.logs, *self._broker.new.facts.logs]

    @property
    def deviations(self) -> Mapping[str, str]:
        """The deviations of both; one that differs is also given for the new version."""
        found = dict(self._broker.old.facts.deviations)
        for name, why in self._broker.new.facts.deviations.items():
            if found.get(name) != why:
                found[f"{name} (new version)"] = why
        found["data folder"] = "the new version's is a link to that of the old one"
        return found


class UpgradedBroker:
    """Two brokers that the rest of the suite sees as one; see `conformance.adapters.Broker`.

    The first start after an end that no `stop` asked for is that of the new version, and so is every later one. Clients
    and faults get the `current` one: the new version has ports of its own.
    """

    def __init__(self, folder: pathlib.Path, old: Broker, new: Broker, trial: str, log: UpgradeLog) -> None:
        self.old, self.new, self.current = old, new, old
        self._folder, self._trial, self._log = folder.absolute(), trial, log
        self._stopped = self._refused = self._upgraded = False
        self._old_seconds: float | None = None
        self.facts = UpgradedFacts(self, self._folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def service(self) -> Service:
        """The service of the current one. Both have the same queues."""
        return self.current.service

    @property
    def target(self) -> Processes:
        """The processes of the current one; the other one is not running."""
        return self.current.target

    @property
    def epoch(self) -> int:
        """The number of starts of both."""
        return self.old.epoch + self.new.epoch

    def start(self, wrap: Sequence[str] = (), *, more: Sequence[str] = (), ready_s: float = 0.0) -> float:
        """Start the broker whose turn it is. If the new version does not start, remember that, with its log."""
        self._hand_over()
        try:
            took = self.current.start(wrap, more=more, ready_s=ready_s)
        except LaunchError as error:
            if self.current is self.old:
                raise
            self._remember(error)
            error.failure = None  # the refusal is reported by itself: it is no broker that failed to recover
            raise
        if self.current is self.old:
            self._old_seconds = self._old_seconds or took
        elif not self._upgraded:
            self._upgraded = True
            self._note(took)
        return took

    def launch(self, wrap: Sequence[str] = (), *, more: Sequence[str] = ()) -> None:
        """Start the broker whose turn it is, and do not wait."""
        self._hand_over()
        self.current.launch(wrap, more=more)

    def stop(self) -> None:
        """Stop it cleanly: the same version is started after it."""
        self.current.stop()
        self._stopped = True

    def close(self) -> None:
        """End both. The data goes, unless the new version refused it: a hundred trials would fill a disk."""
        try:
            with contextlib.ExitStack() as stack:
                stack.callback(self.old.close)
                stack.callback(self.new.close)
        finally:
            if not self._refused:
                shutil.rmtree(self.facts.data, ignore_errors=True)  # what a disk is mounted on stays, empty

    def _hand_over(self) -> None:
        stopped, self._stopped = self._stopped, False
        if self.current is self.new or stopped or not self.old.epoch:
            return
        if not self.target.gone():
            raise LaunchError(f"the old version is running already (pid {self.target.processes()[0]})")
        data = self.new.facts.data
        shutil.rmtree(data, ignore_errors=True)  # made empty, or as stock has it, when it was prepared
        data.symlink_to(self.facts.data, target_is_directory=True)
        self.current = self.new

    def _note(self, took: float) -> None:
        """Keep the time of the first start of the new version."""
        start = FirstStart(
            trial=self._trial, epoch=self.epoch, seconds=round(took, 3), old_seconds=round(self._old_seconds or 0.0, 3)
        )
        with self._log.lock:
            self._log.starts[self._trial] = start

    def _remember(self, error: LaunchError) -> None:
        self._refused = True
        below = self._folder.parent.parent  # the folder of the run: the record must not name this machine
        refusal = FailedUpgradeStart(
            trial=self._trial,
            says=str(error),
            log=str(self.facts.log.relative_to(below)),
            log_tail=error.log_tail,
            data=str(self.facts.data.relative_to(below)),
        )
        with self._log.lock:
            self._log.refusals.append(refusal)


_LAUNCHERS = ("native", "docker")
FROM, TO = "from", "to"
"""Folders below that of a run, where a version is none that its name finds."""


@dataclasses.dataclass(frozen=True)
class UpgradeAdapter:
    """See `Adapter`; what it says of itself is what the old version says, as far as the new one can do it too.

    `to_set` are settings of the new version only. Each trial has a pair of its own, by `trial`: data that the new
    version has taken over is no data of the old one any more.
    """

    old: Adapter
    new: Adapter
    to_set: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    trial: str = ""
    log: UpgradeLog = dataclasses.field(default_factory=UpgradeLog, compare=False)

    @property
    def name(self) -> str:
        """Of the broker."""
        return self.old.name

    @property
    def version(self) -> str:
        """Both, in words."""
        changed = ", ".join(f"{name}={self.new.file.settings[name].text(value)}" for name, value in self.to_set.items())
        return f"{self.old.version} to {self.new.version}{f' with {changed}' if changed else ''}"

    @property
    def launcher(self) -> str:
        """Of both."""
        return self.old.launcher

    @property
    def file(self) -> BrokerFile:
        """Of the old version: it is spoken to first, and `check` has seen that the new one is spoken to alike."""
        return self.old.file

    @property
    def path(self) -> pathlib.Path:
        """The file of the old version."""
        return self.old.path

    @property
    def spec(self) -> str:
        """Both, and the trial: no two trials share a broker."""
        return f"{self.old.spec} to {self.new.spec} {self.version} {self.trial}".rstrip()

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """Of both."""
        return (*self.old.artifacts, *self.new.artifacts)

    @property
    def parts(self) -> Mapping[str, Adapter]:
        """Both, by the part of a run's folder that describes them."""
        return {FROM: self.old, TO: self.new}

    @property
    def able(self) -> Callable[[str], str] | None:
        """Why the launcher cannot take a fault: both have the same."""
        return self.old.able

    @property
    def downgrade(self) -> bool:
        """Whether the new version is the older one by its number."""
        return order(self.new.version) < order(self.old.version)

    def capabilities(self, protocol: str) -> frozenset[str]:
        """What both can do."""
        return self.old.capabilities(protocol) & self.new.capabilities(protocol)

    def lacks(self, need: str) -> str:
        """Why one of them cannot play a scenario."""
        return self.old.lacks(need) or self.new.lacks(need)

    def chosen(self, overrides: Mapping[str, Value]) -> UpgradeAdapter:
        """The same settings make another broker of both."""
        old = self.old.chosen(overrides)
        return dataclasses.replace(self, old=old, new=self.new.chosen({**overrides, **self.to_set}))

    def effective(self, overrides: Mapping[str, Value] | None = None) -> EffectiveSettings:
        """Those of the old version: under these it confirms what the new one has to know."""
        return self.old.effective(overrides)

    def of_new(self, settings: EffectiveSettings) -> EffectiveSettings:
        """Those of the new version where the old one has `settings`; `UsageError` if it knows one of them not."""
        return self.new.effective({**settings.changed, **self.to_set})

    def install(
        self, progress: Progress | None = None, *, offline: bool = False, into: pathlib.Path | None = None
    ) -> pathlib.Path:
        """Have both; returns the folder of the new one."""
        self.old.install(progress, offline=offline, into=into)
        return self.new.install(progress, offline=offline, into=into)

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
    ) -> UpgradedBroker:
        """Both, in folders of their own below `folder`; neither is started.

        What a file declares at a broker that runs (`[queues]`) is declared at the old one only: a second declaration
        would hide that the new one has lost a queue. What stands in a configuration stands in both.
        """
        folder.mkdir(parents=True, exist_ok=True)
        old = self.old.prepare(
            folder / "old", settings, queues, ledger, liar, offline=offline, options=options, client=client
        )
        try:
            kept = () if self.new.file.queues else queues
            new = self.new.prepare(
                folder / "new",
                self.of_new(settings),
                kept,
                ledger,
                liar,
                offline=offline,
                options={queue: option for queue, option in (options or {}).items() if queue in kept},
                client=client,
            )
        except BaseException:
            old.close()
            raise
        return UpgradedBroker(folder, old, new, self.trial, self.log)


def pair_of(adapter: Adapter | None) -> UpgradeAdapter | None:
    """The adapter if it is an upgrade, else None."""
    return adapter if isinstance(adapter, UpgradeAdapter) else None


def for_trial(adapter: Adapter, trial: str) -> Adapter:
    """The adapter of one trial: an upgrade prepares new data for each, since the new version takes the old one's."""
    pair = pair_of(adapter)
    return adapter if pair is None else dataclasses.replace(pair, trial=trial)


def check(old: Adapter, new: Adapter, protocol: str) -> None:
    """Raise `UsageError` if one cannot be started on the data of the other, or is another broker altogether."""
    if old.name != new.name:
        raise UsageError(f"--from is {old.name} and --to is {new.name}: an upgrade is between versions of one broker")
    if old.launcher != new.launcher:
        raise UsageError(f"--from runs by {old.launcher} and --to by {new.launcher}: an upgrade has one launcher")
    if old.launcher not in _LAUNCHERS:
        raise UsageError(
            f"launcher {old.launcher}: both versions must be started here, by {' or '.join(_LAUNCHERS)}; the run says "
            "when one is followed by the other"
        )
    before, after = _layout(old.file), _layout(new.file)
    if before != after:
        raise UsageError(
            f"the data of {old.spec} lies as {before}, that of {new.spec} as {after}: neither could find the other's"
        )
    spoken = [adapter.file.protocols.get(protocol) for adapter in (old, new)]
    if None in spoken:
        new.capabilities(protocol)  # says which protocols there are
    words = [each.model_copy(update={"capabilities": frozenset()}) for each in spoken if each is not None]
    if len(words) == 2 and words[0] != words[1]:
        raise UsageError(f"the files of {old.spec} and {new.spec} do not speak {protocol} alike: see [protocols]")


def _layout(file: BrokerFile) -> str:
    """How data and journal lie, in words that do not name the instance."""
    if file.data.path.rstrip("/") in ("{instance}", "{here}", "{home}"):
        raise UsageError(
            f"{file.name}: data.path is {file.data.path}, where its configuration lies as well: the data of another "
            "version cannot take that place. Name a folder of its own"
        )
    inside = file.journal.path.removeprefix(file.data.path)
    return " ".join([file.data.path, f"with its journal in {inside or '/'}", *file.journal.files])
