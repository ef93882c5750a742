"""Find out, once, which faults this machine can inject, and what else of a scenario it cannot have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from conformance.faults import watch
from conformance.faults.disk import injection
from conformance.faults.link import connection
from conformance.faults.power import image
from conformance.scenario import FRAMES
from conformance.scenario.reading import JOURNAL_WATCHED, KILL_WHILE_STARTING

_NEEDS: Mapping[str, Callable[[], str]] = {
    "watched": injection.cannot,
    "held_sync": injection.cannot,
    "failed_sync": injection.cannot,
    "disk_full": injection.cannot,
    "power_loss": image.cannot,
    "cut": connection.cannot,
    "hold_link": connection.cannot,
    "delay": connection.cannot,
    "throttle": connection.cannot,
    FRAMES: connection.cannot,
    JOURNAL_WATCHED: watch.cannot,
    KILL_WHILE_STARTING: watch.cannot,
}
"""The check of each fault, and of each other need of a scenario, that takes more than a process."""


def unable(names: Iterable[str], container: Callable[[str], str] | None = None) -> dict[str, str]:
    """Return why this machine cannot have each of these faults and needs, by name, without those that it can have.

    `container` answers for a broker in a container, which has a tracer of its own.
    """
    asked = {name: _why(name, container) for name in dict.fromkeys(names)}
    return {name: why for name, why in asked.items() if why}


def _why(fault: str, container: Callable[[str], str] | None) -> str:
    here = _NEEDS.get(fault, str)
    if container is None:
        return here()
    return container(fault) or ("" if here is injection.cannot else here())
