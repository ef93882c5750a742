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

from conformance.adapters import Adapter, Broker, BrokerFile, DepthProbe, EffectiveSettings, Options, Progress
from conformance.adapters.credentials import Access
from conformance.adapters.file.distribution_table import Artifact, order
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
    """What became of each trial's upgrade; trials of several lanes write into it."""

    starts: dict[str, FirstStart] = dataclasses.field(default_factory=dict)
    refusals: list[FailedUpgradeStart] = dataclasses.field(default_factory=list)
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)


class UpgradedBroker:
    """Two brokers that the rest of the suite sees as one; see `conformance.adapters.Broker`.

    The first start after an end that no `stop` asked for is that of the new version, and so is every later one.
    """

    drain_queue: Callable[[str], None] | None = None
    no_copy = "two versions share it"
    patience_s = 0.0

    def __init__(self, folder: pathlib.Path, old: Broker, new: Broker, trial: str, log: UpgradeLog) -> None:
        self.old, self.new, self._now = old, new, old
        self._folder, self._trial, self._log = folder.absolute(), trial, log
        self._stopped = self._refused = False
        self.journal = old.journal

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def prove_ready(self) -> Callable[[], None] | None:
        """See `Broker`; it asks whichever of the two is at work."""
        return self._now.prove_ready

    @prove_ready.setter
    def prove_ready(self, prove_ready: Callable[[], None] | None) -> None:
        self.old.prove_ready = self.new.prove_ready = prove_ready

    @property
    def ask_depth(self) -> Callable[[str], int] | None:
        """See `Broker`; it asks whichever of the two is at work."""
        return self._now.ask_depth

    @ask_depth.setter
    def ask_depth(self, ask_depth: Callable[[str], int] | None) -> None:
        self.old.ask_depth = self.new.ask_depth = ask_depth

    @property
    def folder(self) -> pathlib.Path:
        """Holds the folders `old` and `new`."""
        return self._folder

    @property
    def data(self) -> pathlib.Path:
        """That of the old version, on which the new one is started."""
        return self.old.data

    @property
    def journal_files(self) -> Sequence[str]:
        """The same for both."""
        return self.old.journal_files

    @property
    def log(self) -> pathlib.Path:
        """Of the newest start."""
        return self._now.log

    @property
    def logs(self) -> list[pathlib.Path]:
        """Of both."""
        return [*self.old.logs, *self.new.logs]

    @property
    def epoch(self) -> int:
        """Starts of both."""
        return self.old.epoch + self.new.epoch

    @property
    def start_seconds(self) -> list[float]:
        """Of both."""
        return [*self.old.start_seconds, *self.new.start_seconds]

    @property
    def settings(self) -> EffectiveSettings:
        """Of the old version: under these the messages were confirmed."""
        return self.old.settings

    @property
    def deviations(self) -> Mapping[str, str]:
        """Of both; where they differ, those of the new version beside those of the old one."""
        found = dict(self.old.deviations)
        for name, why in self.new.deviations.items():
            if found.get(name) != why:
                found[f"{name} (new version)"] = why
        found["data folder"] = "the new version's is a link to that of the old one"
        return found

    @property
    def contained(self) -> bool:
        """Both have one launcher."""
        return self._now.contained

    @property
    def http_port(self) -> int | None:
        """Of the one at work."""
        return self._now.http_port

    @property
    def was_ready(self) -> bool:
        """Of the one at work."""
        return self._now.was_ready

    @property
    def exit_status(self) -> int | None:
        """Of the one at work."""
        return self._now.exit_status

    def endpoint(self, protocol: str) -> tuple[str, int]:
        """Of the one at work: the new version has ports of its own."""
        return self._now.endpoint(protocol)

    def access(self, protocol: str) -> Access:
        """Of the one at work."""
        return self._now.access(protocol)

    def queue_of(self, queue: str) -> str:
        """The same for both: the new version has the queues of the old one."""
        return self.old.queue_of(queue)

    def depth_probe(self, queue: str) -> DepthProbe:
        """Of the one at work."""
        return self._now.depth_probe(queue)

    def start(self, wrap: Sequence[str] = (), *, more: Sequence[str] = ()) -> None:
        """Start the one whose turn it is; a new version that does not start is remembered, with its log."""
        self._hand_over()
        try:
            self._now.start(wrap, more=more)
        except LaunchError as error:
            if self._now is self.old:
                raise
            self._remember(error)
            error.failure = None  # a new version that was never ready here has a report of its own: the refusal
            raise
        if self._now is self.new and len(self.new.start_seconds) == 1:
            self._note()

    def launch(self, wrap: Sequence[str] = (), *, more: Sequence[str] = ()) -> None:
        """The same, without waiting."""
        self._hand_over()
        self._now.launch(wrap, more=more)

    def stop(self) -> None:
        """A clean stop: the same version is started after it."""
        self._now.stop()
        self._stopped = True

    def processes(self) -> list[int]:
        """Of the one at work."""
        return self._now.processes()

    def pidfds(self, *, main_only: bool = False) -> contextlib.AbstractContextManager[list[int]]:
        """Of the one at work."""
        return self._now.pidfds(main_only=main_only)

    @property
    def by_command(self) -> bool:
        """Both are started here: their processes are seen."""
        return self._now.by_command

    def armed(self, fault: str) -> contextlib.AbstractContextManager[list[int]]:
        """Of the one at work."""
        return self._now.armed(fault)

    def within_s(self, fault: str) -> float:
        """Of the one at work."""
        return self._now.within_s(fault)

    def gone(self) -> bool:
        """Whether nothing of the one at work is left; the other one is not running."""
        return self._now.gone()

    def wait_gone(self, timeout_s: float) -> bool:
        """Of the one at work."""
        return self._now.wait_gone(timeout_s)

    def alive_check(self) -> None:
        """Of the one at work."""
        self._now.alive_check()

    def close(self) -> None:
        """End both. The data goes, unless the new version refused it: a hundred trials would fill a disk."""
        try:
            with contextlib.ExitStack() as stack:
                stack.callback(self.old.close)
                stack.callback(self.new.close)
        finally:
            if not self._refused:
                shutil.rmtree(self.old.data, ignore_errors=True)  # what a disk is mounted on stays, empty

    def _hand_over(self) -> None:
        stopped, self._stopped = self._stopped, False
        if self._now is self.new or stopped or not self.old.epoch:
            return
        if not self.old.gone():
            raise LaunchError(f"the old version is running already (pid {self.old.processes()[0]})")
        shutil.rmtree(self.new.data, ignore_errors=True)  # made empty, or as stock has it, when it was prepared
        self.new.data.symlink_to(self.old.data, target_is_directory=True)
        self._now = self.new

    def _note(self) -> None:
        start = FirstStart(
            trial=self._trial,
            epoch=self.epoch,
            seconds=round(self.new.start_seconds[0], 3),
            old_seconds=round(self.old.start_seconds[0], 3),
        )
        with self._log.lock:
            self._log.starts[self._trial] = start

    def _remember(self, error: LaunchError) -> None:
        self._refused = True
        below = self._folder.parent.parent  # the folder of the run: what is written must not name this machine
        refusal = FailedUpgradeStart(
            trial=self._trial,
            says=str(error),
            log=str(self.new.log.relative_to(below)),
            log_tail=error.log_tail,
            data=str(self.old.data.relative_to(below)),
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
        """Both, by the parts of a run's folder in which it is written how they are found again."""
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
        """Those of the new version where the old one has `settings`; `UsageError` where it knows one of them not."""
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
    ) -> UpgradedBroker:
        """Both, in folders of their own below `folder`; neither is started.

        What a file declares at a broker that runs (`[queues]`) is declared at the old one only: a second declaration
        would hide that the new one has lost a queue. What stands in a configuration stands in both.
        """
        folder.mkdir(parents=True, exist_ok=True)
        old = self.old.prepare(folder / "old", settings, queues, ledger, liar, offline=offline, options=options)
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
            )
        except BaseException:
            old.close()
            raise
        return UpgradedBroker(folder, old, new, self.trial, self.log)


def check(old: Adapter, new: Adapter, protocol: str) -> None:
    """Raise `UsageError` where one cannot be started on the data of the other, or is another broker altogether."""
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
