"""The adapter that a `broker.toml` makes, and the base class of adapters in Python."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from conformance.adapters.config.own_configuration import OwnConfig
from conformance.adapters.file import settings
from conformance.adapters.file.launch_tables import Artifact, Progress
from conformance.adapters.file.model import LIAR, VARIANT, BrokerFile
from conformance.adapters.file.nodes_table import nodes_in
from conformance.adapters.file.reading import read_table
from conformance.adapters.file.settings import EffectiveSettings
from conformance.adapters.interface import Adapter, Broker, Options, QueueClient
from conformance.adapters.launch.launcher import FileLauncher
from conformance.adapters.launch.plan import BrokerSetup, BrokerSource
from conformance.adapters.launchers import choose
from conformance.claims import STORED, Value
from conformance.errors import UsageError
from conformance.ledger import Ledger
from conformance.protocols import describe
from conformance.scenario import needs
from conformance.scenario.needs import Need, Wanted

DURABLE = frozenset({"durable_queues", "send_confirmed"})
"""With these capabilities a protocol whose confirm stores promises `STORED`, also if the file does not declare it.

AMQP 1.0 is one (3.2.1, durable).
"""


@dataclasses.dataclass(frozen=True)
class FileAdapter:
    """See `Adapter`. `file` is its data, `path` the file it was read from, `asked` the text that named it.

    `own` is the configuration of a user (`opening.with_configuration`).
    """

    name: str
    version: str
    launcher: FileLauncher
    file: BrokerFile
    path: pathlib.Path
    asked: str = dataclasses.field(default="", compare=False)
    own: OwnConfig | None = dataclasses.field(default=None, compare=False)

    @classmethod
    def make(cls, version: str | None, launcher: str | None, *, path: pathlib.Path, asked: str) -> Self:
        """Make the adapter of a version and launcher; `UsageError` if there is no such one. A plugin's entry point."""
        return cls.of(read_table(cls.table(), path.parent), version, launcher, path=path, asked=asked)

    @classmethod
    def table(cls) -> Mapping[str, Any]:
        """The data of a `broker.toml`; a class that derives from this one has its own."""
        raise UsageError(f"{cls.__name__} has no table(): what a broker.toml would say")

    @classmethod
    def of(
        cls, file: BrokerFile, version: str | None, launcher: str | None, *, path: pathlib.Path, asked: str = ""
    ) -> Self:
        """The adapter of a file; None is its default version, and the native launcher, or that of its `[external]`."""
        chosen = choose(file, launcher, path.parent)
        found = chosen.version(file, version)
        return cls(file.name, found, chosen, chosen.described(file.at(found)), path, asked or file.name)

    @property
    def spec(self) -> str:
        return f"{self.asked or self.name}@{self.version}:{self.launcher}"

    def capabilities(self, protocol: str) -> frozenset[str]:
        if protocol not in self.file.protocols:
            raise UsageError.unknown("protocol", protocol, self.file.protocols, of=self.name)
        found = (self.file.capabilities | self.file.protocols[protocol].capabilities) - describe(protocol).without
        return found | {STORED} if describe(protocol).traits.confirm_stores and found >= DURABLE else found

    def chosen(self, overrides: Mapping[str, Value]) -> Self:
        """As `Adapter.chosen`. `profile`, `liar` and `nodes` change what a broker is; others change what it does."""
        file = self.file.of_nodes(nodes_in(overrides))
        file = file.varied({**self.launcher.rules.settings, **overrides}.get(VARIANT))
        if overrides.get(LIAR):
            file = file.model_copy(update={"title": f"{file.title}, liar {overrides[LIAR]}"})
        return dataclasses.replace(self, file=file)

    def effective(self, overrides: Mapping[str, Value] | None = None) -> EffectiveSettings:
        return settings.effective(self.file, self.launcher.settings(overrides or {}))

    def lacks(self, need: Need) -> str:
        return self.launcher.lacks(self.source, need)

    def lacks_over(self, need: Need, protocol: str) -> str:
        over, name, traits = self.file.protocols[protocol], self.name, describe(protocol).traits
        outcomes = over.options.outcomes
        beside = () if self.launcher.owned else self.file.beside(protocol)
        no_other = f"{name} has no other protocol on the queues of {protocol} that we start"
        met: Mapping[Need, tuple[object, str]] = {
            needs.ANOTHER_PROTOCOL: (beside, no_other),
            needs.ANOTHER_CONSUMER: (beside, no_other),
            needs.COPIED: (over.copied, f"the adapter of {name} does not say `copied` over {protocol}"),
            needs.EXACTLY_ONCE: (
                "exactly_once" in self.capabilities(protocol),
                f"the adapter of {name} does not declare exactly_once over {protocol}",
            ),
            needs.FOR_TOPIC: (traits.annotations, f"messages have no annotations over {protocol}"),
            needs.MODIFIED: ("modified" in outcomes, f"{name} has only {', '.join(outcomes)} over {protocol}"),
            needs.ASKED_AGAIN: ("recovered" in outcomes, f"a consumer has no word for it over {protocol}"),
            needs.PRIORITY: (traits.priority, f"a message has no field for it over {protocol}"),
            needs.SELECTS: (
                "selectors" in self.capabilities(protocol),
                f"the adapter of {name} does not declare selectors over {protocol}",
            ),
            needs.DELAYED: (
                over.options.delays,
                f"the file of {name} does not say `delivery_time` over {protocol}",
            ),
            needs.EXPIRES: (traits.session_expiry, f"no session says its expiry over {protocol}"),
            needs.SUBSCRIBED: (over.topic is not None, f"the adapter of {name} does not say `topic` over {protocol}"),
            needs.TYPED: (traits.typed, f"every property is a text over {protocol}"),
            needs.TIME_TO_LIVE: (
                traits.time_to_live or over.options.expires,
                f"the file of {name} does not say `time_to_live` over {protocol}",
            ),
        }
        can_ask = need.question in ("", *traits.questions)
        is_met, why = met.get(need, (can_ask, f"{need.question}? There is no way to ask over {protocol}"))
        return describe(protocol).lacks.get(need.says, "" if is_met else why)

    @property
    def source(self) -> BrokerSource:
        """What its brokers are made from. Its home is the folder of its file until the launcher has installed it."""
        return BrokerSource(self.file, self.path.parent, self.version, self.path.parent, self.own)

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        return self.launcher.artifacts(self.source)

    def install(
        self, progress: Progress | None = None, *, offline: bool = False, into: pathlib.Path | None = None
    ) -> pathlib.Path:
        return self.launcher.install(self.source, progress, offline=offline, into=into)

    @property
    def parts(self) -> Mapping[str, Adapter]:
        return {"": self}

    @property
    def able(self) -> Callable[[Wanted], str] | None:
        return self.launcher.able(self.source)

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
        """As `Adapter.prepare`. Installs the broker first if it is missing."""
        setup = BrokerSetup(folder.absolute(), settings, queues, ledger, liar, options or {}, client)
        return self.launcher.prepare(self.source, setup, offline=offline)
