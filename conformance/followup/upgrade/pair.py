"""The adapter of an upgrade: two versions of one broker, prepared side by side."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence

from conformance.adapters import Adapter, BrokerFile, EffectiveSettings, Options, Progress
from conformance.adapters.distribution.fetch import Artifact
from conformance.adapters.file.distribution_table import order
from conformance.claims import Value
from conformance.errors import UsageError
from conformance.followup.upgrade.broker import UpgradedBroker, UpgradeLog
from conformance.ledger import Ledger

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
    diary: UpgradeLog = dataclasses.field(default_factory=UpgradeLog, compare=False)

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
        return UpgradedBroker(folder, old, new, self.trial, self.diary)


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
