"""The launcher of brokers that run already: it starts nothing, and asks their owner's rules."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping
from typing import Self

from conformance.adapters.distribution.versions import default_version
from conformance.adapters.external import broker
from conformance.adapters.external.addresses import examples, urls_by_protocol
from conformance.adapters.external.rules import asked_by, complete_rules
from conformance.adapters.file.launch_tables import External, read_external
from conformance.adapters.file.model import BrokerFile
from conformance.adapters.interface import Broker
from conformance.adapters.launch.launcher import FileLauncher
from conformance.adapters.launch.plan import BrokerSetup, BrokerSource
from conformance.claims import Value
from conformance.errors import UsageError
from conformance.scenario.needs import Need, Wanted


@dataclasses.dataclass(frozen=True)
class ExternalLauncher(FileLauncher):
    """Uses the broker of an owner by the `rules` of that owner; `here` is the folder of the file that has them."""

    word = "external"
    owned = True

    here: pathlib.Path = pathlib.Path()

    @classmethod
    def of(cls, file: BrokerFile, at: str, here: pathlib.Path, /) -> Self:
        base, home = file.external or External(), here
        if at.endswith(".toml"):
            said, here, where = read_external(pathlib.Path(at)), pathlib.Path(at).absolute().parent, at
        elif at or base.urls:
            said, where = External(urls={**base.urls, **urls_by_protocol(at)}), file.name
        else:
            raise UsageError(
                f"{file.name}:external: the address is missing: give {file.name}:external={examples(file)[0]}, or "
                "external=FILE.toml with its addresses and the commands for its faults"
            )
        try:
            return cls(at, home, complete_rules(file, said), here)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from error

    def version(self, file: BrokerFile, asked: str | None) -> str:
        return asked or default_version(file)

    def described(self, file: BrokerFile) -> BrokerFile:
        return asked_by(file, self.rules)

    def settings(self, wanted: Mapping[str, Value]) -> Mapping[str, Value]:
        """An external broker has the settings that its owner states, and no others."""
        for name, value in wanted.items():
            if self.rules.settings.get(name) != value:
                raise UsageError(
                    f"{name}={str(value).lower()}: the suite does not reconfigure an external broker; state its "
                    "settings in external.settings"
                )
        return {**self.rules.settings, **wanted}

    def lacks(self, source: BrokerSource, need: Need) -> str:
        return broker.why_not(self.rules, need)

    def able(self, source: BrokerSource) -> Callable[[Wanted], str]:
        return functools.partial(broker.why_not, self.rules)

    def prepare(self, source: BrokerSource, setup: BrokerSetup, *, offline: bool) -> Broker:
        return broker.prepare(source, self.rules, self.here, setup)
