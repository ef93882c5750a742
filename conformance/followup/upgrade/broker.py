"""Two versions of one broker: the old one until a fault ends it, then the new one on the same data.

`UpgradeAdapter` prepares both; `UpgradedBroker` runs one after the other. Each has its own folder, ports and
configuration. The data folder of the new one is a link to that of the old one: nothing is copied, so no copy can have
lost a message.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import shutil
import threading
from collections.abc import Mapping, Sequence

import msgspec

from conformance.adapters import Adapter, Broker, BrokerFile, EffectiveSettings, Options, Progress
from conformance.adapters.file.launch_tables import order
from conformance.adapters.interface import Node, Processes, QueueClient, Service
from conformance.adapters.launch.one_node import OneNodeBroker
from conformance.adapters.launchers import LAUNCHERS, is_owned
from conformance.claims import Value
from conformance.errors import LaunchError, UsageError
from conformance.ledger import Ledger
from conformance.scenario.needs import Need


class FirstStart(msgspec.Struct, frozen=True, kw_only=True):
    """The first start of the new version in a trial: its epoch, its seconds, and those of the old version's start."""

    trial: str
    epoch: int
    seconds: float
    old_seconds: float


class FailedUpgradeStart(msgspec.Struct, frozen=True, kw_only=True):
    """The new version did not start on the data of the old one: its error and log, and where the data is kept.

    `log_lines` name an error, or are the last ones if none does.
    """

    trial: str
    says: str
    log: str
    log_lines: tuple[str, ...]
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


class UpgradedBroker(OneNodeBroker):
    """Two brokers that the rest of the suite sees as one. Data and journal are those of the old version.

    The first start after a fault ended the broker is that of the new version, and so is every later one. Clients and
    faults get the `current` one: the new version has other ports.
    """

    no_copy = "two versions share it"

    def __init__(self, folder: pathlib.Path, old: Broker, new: Broker, trial: str, log: UpgradeLog) -> None:
        self.old, self.new, self.current = old, new, old
        self.folder, self._trial, self._log = folder.absolute(), trial, log
        self._stopped = self._refused = self._upgraded = False
        self._old_seconds: float | None = None
        self._facts = [each.node.facts for each in (old, new)]
        self.data, self.journal_files = self._facts[0].data, self._facts[0].journal_files

    @property
    def service(self) -> Service:
        return self.current.service

    beside = service

    def endpoint(self, protocol: str) -> tuple[str, int]:
        return self.service.endpoint(protocol)

    @property
    def target(self) -> Processes:
        return self._node.target

    def met(self, which: str) -> Processes:
        return self.target

    @property
    def epoch(self) -> int:
        return sum(each.node.epoch for each in (self.old, self.new))

    @property
    def log(self) -> pathlib.Path:
        return self._node.facts.log

    @property
    def logs(self) -> list[pathlib.Path]:
        return [path for each in self._facts for path in each.logs]

    @property
    def deviations(self) -> Mapping[str, str]:
        """The deviations of both; one that differs is also given for the new version."""
        old, new = (each.deviations for each in self._facts)
        differ = {f"{name} (new version)": why for name, why in new.items() if old.get(name) != why}
        return {**old, **differ, "data folder": "the new version's is a link to that of the old one"}

    @property
    def _node(self) -> Node:
        return self.current.node

    def start(self, wrap: Sequence[str] = (), *, more: Sequence[str] = (), ready_s: float = 0.0) -> float:
        """Start the current broker. If the new version does not start, record that, with its log."""
        self._hand_over()
        try:
            took = self.current.start(wrap, more=more, ready_s=ready_s)
        except LaunchError as error:
            if self.current is self.old:
                raise
            self._record_refusal(error)
            error.failure = None  # the refusal has its own report: it is not a broker that failed to recover
            raise
        if self.current is self.old:
            self._old_seconds = self._old_seconds or took
        elif not self._upgraded:
            self._upgraded = True
            self._record_start(took)
        return took

    def launch(self, wrap: Sequence[str] = (), *, more: Sequence[str] = ()) -> None:
        self._hand_over()
        self._node.launch(wrap, more=more)

    def wait_ready(self, ready_s: float = 0.0) -> None:
        self._node.wait_ready(ready_s)

    def declare(self, queue: str) -> None:
        self.current.declare(queue)

    def stop(self) -> None:
        """Stop it cleanly: the next start is of the same version."""
        self.current.stop()
        self._stopped = True

    def close(self) -> None:
        """End both, and remove the data unless the new version refused it: a hundred trials would fill a disk."""
        try:
            with contextlib.ExitStack() as stack:
                stack.callback(self.old.close)
                stack.callback(self.new.close)
        finally:
            if not self._refused:
                shutil.rmtree(self.data, ignore_errors=True)  # a mount point stays, empty

    def _hand_over(self) -> None:
        stopped, self._stopped = self._stopped, False
        if self.current is self.new or stopped or not self.old.node.epoch:
            return
        if not self.target.gone():
            raise LaunchError(f"the old version is running already (pid {self.target.processes()[0]})")
        data = self._facts[1].data
        shutil.rmtree(data, ignore_errors=True)  # the empty or stock folder that `prepare` made
        data.symlink_to(self.data, target_is_directory=True)
        self.current = self.new

    def _record_start(self, took: float) -> None:
        start = FirstStart(
            trial=self._trial, epoch=self.epoch, seconds=round(took, 3), old_seconds=round(self._old_seconds or 0.0, 3)
        )
        with self._log.lock:
            self._log.starts[self._trial] = start

    def _record_refusal(self, error: LaunchError) -> None:
        self._refused = True
        below = self.folder.parent.parent  # the folder of the run: the record must not name this machine
        refusal = FailedUpgradeStart(
            trial=self._trial,
            says=str(error),
            log=str(self.log.relative_to(below)),
            log_lines=error.log_lines,
            data=str(self.data.relative_to(below)),
        )
        with self._log.lock:
            self._log.refusals.append(refusal)


FROM, TO = "from", "to"
"""Folders below that of a run, for the broker file of a version that its name alone does not find."""


class UpgradeAdapter:
    """See `Adapter`. It describes itself as the old version does, with the capabilities that both have.

    `to_set` are settings of the new version only. Each trial has its own pair, by `trial`: data that the new version
    has taken over cannot be used by the old one again.
    """

    def __init__(
        self,
        old: Adapter,
        new: Adapter,
        to_set: Mapping[str, Value] | None = None,
        trial: str = "",
        log: UpgradeLog | None = None,
    ) -> None:
        self.old, self.new, self.to_set, self.trial, self.log = old, new, to_set or {}, trial, log or UpgradeLog()
        self.name, self.path, self.launcher, self.able = old.name, old.path, old.launcher, old.able
        self.file = old.file  # `check` has seen that clients use the new version in the same way
        changed = ", ".join(f"{name}={new.file.settings[name].text(value)}" for name, value in self.to_set.items())
        self.version = f"{old.version} to {new.version}{f' with {changed}' if changed else ''}"
        self.spec = f"{old.spec} to {new.spec} {self.version} {trial}".rstrip()  # no two trials share a broker
        self.artifacts = (*old.artifacts, *new.artifacts)
        self.parts: Mapping[str, Adapter] = {FROM: old, TO: new}

    def for_trial(self, trial: str) -> UpgradeAdapter:
        return UpgradeAdapter(self.old, self.new, self.to_set, trial, self.log)

    def chosen(self, overrides: Mapping[str, Value]) -> UpgradeAdapter:
        new = self.new.chosen({**overrides, **self.to_set})
        return UpgradeAdapter(self.old.chosen(overrides), new, self.to_set, self.trial, self.log)

    @property
    def downgrade(self) -> bool:
        return order(self.new.version) < order(self.old.version)

    def capabilities(self, protocol: str) -> frozenset[str]:
        return self.old.capabilities(protocol) & self.new.capabilities(protocol)

    def lacks(self, need: Need) -> str:
        return self.old.lacks(need) or self.new.lacks(need)

    def lacks_over(self, need: Need, protocol: str) -> str:
        return self.old.lacks_over(need, protocol) or self.new.lacks_over(need, protocol)

    def effective(self, overrides: Mapping[str, Value] | None = None) -> EffectiveSettings:
        """Return the settings of the old version: under them it confirms the messages that the new one must have."""
        return self.old.effective(overrides)

    def of_new(self, settings: EffectiveSettings) -> EffectiveSettings:
        """Return the settings of the new version if the old one has `settings`; `UsageError` if it lacks one."""
        return self.new.effective({**settings.changed, **self.to_set})

    def install(
        self, progress: Progress | None = None, *, offline: bool = False, into: pathlib.Path | None = None
    ) -> pathlib.Path:
        """Install both; return the folder of the new one."""
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
        """Prepare both, each in its own folder below `folder`; start neither.

        Queues that are declared at a running broker (`[queues]`) are declared at the old one only: a second declaration
        would hide that the new one has lost a queue. Queues in a configuration are in both.
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
    return adapter if isinstance(adapter, UpgradeAdapter) else None


def for_trial(adapter: Adapter, trial: str) -> Adapter:
    """Return the adapter of one trial: an upgrade prepares new data for each, since the new version takes it over."""
    pair = pair_of(adapter)
    return adapter if pair is None else pair.for_trial(trial)


def check(old: Adapter, new: Adapter, protocol: str) -> None:
    """Raise `UsageError` if one cannot be started on the data of the other, or is another broker altogether."""
    if old.name != new.name:
        raise UsageError(
            f"--from is {old.name} and --to is {new.name}: an upgrade is between versions of one broker",
            code="two-brokers",
        )
    if old.launcher.word != new.launcher.word:
        raise UsageError(
            f"--from runs by {old.launcher.word} and --to by {new.launcher.word}: an upgrade has one launcher",
            code="two-launchers",
        )
    if old.launcher.owned:
        able = [word for word in LAUNCHERS if not is_owned(word)]
        raise UsageError(
            f"launcher {old.launcher.word}: the suite must start both versions, by {' or '.join(able)}",
            code="launcher-of-upgrade",
            launcher=old.launcher.word,
        )
    before, after = _layout(old.file), _layout(new.file)
    if before != after:
        raise UsageError(
            f"the data of {old.spec} is in {before}, that of {new.spec} in {after}: neither finds that of the other",
            code="two-layouts",
        )
    entries = [adapter.file.protocols.get(protocol) for adapter in (old, new)]
    if None in entries:
        new.capabilities(protocol)  # raises the error that lists the protocols
    alike = [entry.model_copy(update={"capabilities": frozenset()}) for entry in entries if entry is not None]
    if len(alike) == 2 and alike[0] != alike[1]:
        raise UsageError(
            f"the files of {old.spec} and {new.spec} differ in [protocols.{protocol}]: one script cannot use both",
            code="two-protocols",
            protocol=protocol,
        )


def _layout(file: BrokerFile) -> str:
    """Describe where data and journal are, without the path of the instance."""
    if file.data.path.rstrip("/") in ("{instance}", "{here}", "{home}"):
        raise UsageError(
            f"{file.name}: data.path is {file.data.path}, which also has its configuration, so the data of another "
            "version cannot replace it. Name a folder for the data alone",
            code="data-beside-configuration",
            path=file.data.path,
        )
    inside = file.journal.path.removeprefix(file.data.path)
    return " ".join([file.data.path, f"with its journal in {inside or '/'}", *file.journal.files])
