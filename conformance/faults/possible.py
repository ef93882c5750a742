"""Find out, once, which faults this machine can inject, and what else of a scenario it cannot have."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping

from conformance.faults import shortage, watch
from conformance.faults.disk import injection
from conformance.faults.link import connection
from conformance.faults.power import image
from conformance.scenario.faults import DiskFault, Fault
from conformance.scenario.needs import Means, Need, SystemUnderTest, Wanted

MEANS: Mapping[Means, Callable[[], str]] = {
    Means.TRACER: injection.cannot,
    Means.POWER: image.cannot,
    Means.XFS: functools.partial(image.cannot, "xfs"),
    Means.LINK: connection.cannot,
    Means.WATCH: watch.cannot,
    # Any machine can do these. The broker has to have several nodes, links that are led here, or its files here.
    Means.NODES: str,
    Means.NODE_LINKS: str,
    Means.DATA: str,
    Means.LIMITS: shortage.cannot,
}
"""The check of each of the means."""


class ThisMachine:
    """See `scenario.needs.Machine`."""

    def lacks(self, means: Means) -> str:
        return MEANS[means]()


class AnySystem:
    """A system that lacks nothing: what is missing then is missing on this machine (`SystemUnderTest`)."""

    def lacks(self, wanted: Wanted) -> str:
        return ""

    def brings(self, means: Means) -> bool:
        return False


def unable(asked: Iterable[Need | Fault | DiskFault], system: SystemUnderTest | None = None) -> dict[str, str]:
    """Return by name why the system, or this machine, cannot have each of these, without those that it can have."""
    machine, system = ThisMachine(), system or AnySystem()
    by_name = {wanted.name: wanted for wanted in asked}
    found = {name: wanted.available(system, machine) for name, wanted in by_name.items()}
    return {name: why for name, why in found.items() if why}
