"""Count what a missing part of the machine costs, from the catalogue and the scenarios."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection

DURABILITY_FAULTS = ("held_sync", "power_loss")
"""The faults that decide a claim that says "on disk" (`judge.rules`)."""


@dataclasses.dataclass(frozen=True)
class NotTried:
    """What is not tried without some faults: scenarios by id, and the claims that only they decide.

    `on_disk`: claims that are still tried but stay INCONCLUSIVE, because every disk fault for them is missing.
    """

    scenarios: frozenset[str]
    claims: frozenset[str]
    on_disk: frozenset[str]

    def __str__(self) -> str:
        told = f"{many(len(self.scenarios), 'scenario')}, {many(len(self.claims), 'claim')} decided only there"
        return told + (f", {len(self.on_disk)} more about the disk INCONCLUSIVE without" if self.on_disk else "")


def many(number: int, what: str) -> str:
    """Return the number with its noun.

    >>> many(1, "claim"), many(3, "scenario")
    ('1 claim', '3 scenarios')
    """
    return f"{number} {what}{'' if number == 1 else 's'}"


def lost(faults: Collection[str]) -> NotTried:
    """Return what the suite does not try if these faults, by name, cannot be injected."""
    from conformance import claims, scenario

    catalogue = claims.load()
    scripts = scenario.load(catalogue)
    gone = {name for name, item in scripts.items() if any(fault.name in faults for fault in item.faults)}
    homes = {claim: {name for name, item in scripts.items() if claim in item.decides} for claim in catalogue.claims}
    only = {claim for claim, where in homes.items() if where and where <= gone}
    disk = {
        claim: {name for name in where if scripts[name].fault_for(catalogue.claims[claim]) in DURABILITY_FAULTS}
        for claim, where in homes.items()
        if catalogue.claims[claim].needs == "disk"
    }
    short = {claim for claim, where in disk.items() if where and where <= gone} - only
    return NotTried(frozenset(gone), frozenset(only), frozenset(short))


def unable() -> dict[str, str]:
    """Return every fault of a scenario that this machine cannot inject, by name, and why."""
    from conformance import claims, scenario
    from conformance.faults import possible

    scripts = scenario.load(claims.load()).values()
    return possible.unable(sorted({fault.name for item in scripts for fault in item.faults}))


def every_run() -> str:
    """Say what a part that every run needs enables."""
    return "every run"


def tracer() -> str:
    """Say what the disk faults cost."""
    from conformance.faults.disk import injection as disk

    return _for_faults("faults at the disk", disk.cannot)


def power() -> str:
    """Say what the power loss costs; every scenario uses ext4."""
    from conformance.faults.power import image

    return _for_faults("power loss", image.cannot)


def _for_faults(what: str, ask: Callable[[], str]) -> str:
    """Count the faults that are refused for this very reason; empty if none is."""
    why = ask()
    return f"{what}: {lost([fault for fault, reason in unable().items() if reason == why])}" if why else ""


def protocol(word: str, other: str) -> str:
    """Count the claims of one protocol, and those that the other does not decide."""
    from conformance import claims, scenario

    catalogue = claims.load()
    decided = {claim for item in scenario.load(catalogue).values() for claim in item.decides}
    here = [catalogue.claims[name] for name in decided if claims.spoken(catalogue.claims[name], word, bundled=True)]
    only = [claim for claim in here if not claims.spoken(claim, other, bundled=True)]
    return f"--protocol {word}: {many(len(here), 'claim')}, {len(only)} of them decided only there"


def java() -> str:
    """Name what needs Java: the judge, and some brokers."""
    return f"every verdict (the judge runs on Spark), and brokers: {_brokers('java', '{}')}"


def containers() -> str:
    """Name the brokers that run in containers."""
    return f"brokers in containers: {_brokers('container', '{}:docker')}"


def _brokers(table: str, form: str) -> str:
    from conformance import adapters

    return ", ".join(form.format(name) for name in adapters.names() if getattr(adapters.find(name).file, table))
