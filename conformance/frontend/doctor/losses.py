"""What is lost without a part of the machine: counted in the catalogue and the scenarios, never written down."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection

AT_THE_DISK = ("held_sync", "power_loss")
"""The faults that decide a claim that says "on disk" (`judge.rules`)."""


@dataclasses.dataclass(frozen=True)
class NotTried:
    """What is not tried without some faults: scenarios by id, and the claims that are decided in no other.

    `on_disk`: claims that are tried all the same, and stay INCONCLUSIVE, since no fault at the disk is left for them.
    """

    scenarios: frozenset[str]
    claims: frozenset[str]
    on_disk: frozenset[str]

    def __str__(self) -> str:
        told = f"{many(len(self.scenarios), 'scenario')}, {many(len(self.claims), 'claim')} decided only there"
        return told + (f", {len(self.on_disk)} more about the disk INCONCLUSIVE without" if self.on_disk else "")


def many(number: int, what: str) -> str:
    """As people count.

    >>> many(1, "claim"), many(3, "scenario")
    ('1 claim', '3 scenarios')
    """
    return f"{number} {what}{'' if number == 1 else 's'}"


def lost(faults: Collection[str]) -> NotTried:
    """What the suite does not try where these faults, by name, cannot be taken."""
    from conformance import claims, scenario

    catalogue = claims.load()
    scripts = scenario.load(catalogue)
    gone = {name for name, item in scripts.items() if any(fault.name in faults for fault in item.faults)}
    homes = {claim: {name for name, item in scripts.items() if claim in item.decides} for claim in catalogue.claims}
    only = {claim for claim, where in homes.items() if where and where <= gone}
    disk = {
        claim: {name for name in where if scripts[name].fault_for(catalogue.claims[claim]) in AT_THE_DISK}
        for claim, where in homes.items()
        if catalogue.claims[claim].needs == "disk"
    }
    short = {claim for claim, where in disk.items() if where and where <= gone} - only
    return NotTried(frozenset(gone), frozenset(only), frozenset(short))


def unable() -> dict[str, str]:
    """Every fault of a scenario that this machine cannot take, by name, and why."""
    from conformance import claims, scenario
    from conformance.faults import possible

    scripts = scenario.load(claims.load()).values()
    return possible.unable(sorted({fault.name for item in scripts for fault in item.faults}))


def every_run() -> str:
    """What is needed whatever is tried."""
    return "every run"


def tracer() -> str:
    """Faults at the disk."""
    from conformance.faults.disk import injection as disk

    return _for_faults("faults at the disk", disk.cannot)


def power() -> str:
    """A loss of power; every scenario takes ext4."""
    from conformance.faults.power import image

    return _for_faults("power loss", image.cannot)


def _for_faults(what: str, ask: Callable[[], str]) -> str:
    """Those that are refused for this very reason; nothing where none is refused."""
    why = ask()
    return f"{what}: {lost([fault for fault, reason in unable().items() if reason == why])}" if why else ""


def protocol(word: str, other: str) -> str:
    """What is decided over one wire protocol, and how much of it not over the other."""
    from conformance import claims, scenario

    catalogue = claims.load()
    decided = {claim for item in scenario.load(catalogue).values() for claim in item.decides}
    here = [catalogue.claims[name] for name in decided if claims.spoken(catalogue.claims[name], word, bundled=True)]
    only = [claim for claim in here if not claims.spoken(claim, other, bundled=True)]
    return f"--protocol {word}: {many(len(here), 'claim')}, {len(only)} of them decided only there"


def java() -> str:
    """The judge, and the brokers that run on it."""
    return f"every verdict (the judge runs on Spark), and brokers: {_brokers('java', '{}')}"


def containers() -> str:
    """The brokers that can be in one."""
    return f"brokers in containers: {_brokers('container', '{}:docker')}"


def _brokers(table: str, form: str) -> str:
    from conformance import adapters

    return ", ".join(form.format(name) for name in adapters.names() if getattr(adapters.find(name).file, table))
