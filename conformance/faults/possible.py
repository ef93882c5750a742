"""Find out by trying, once, which faults this machine can inject."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from conformance.faults.disk import injection
from conformance.faults.power import image

_NEEDS: Mapping[str, Callable[[], str]] = {
    "watched": injection.cannot,
    "held_sync": injection.cannot,
    "failed_sync": injection.cannot,
    "disk_full": injection.cannot,
    "power_loss": image.cannot,
}
"""The check of each fault that needs more than a process."""


def unable(faults: Iterable[str], container: Callable[[str], str] | None = None) -> dict[str, str]:
    """Return why this machine cannot inject each of these faults, by name, without those that it can inject.

    `container` answers for a broker in a container, which has a tracer of its own.
    """
    asked = {fault: _why(fault, container) for fault in dict.fromkeys(faults)}
    return {fault: why for fault, why in asked.items() if why}


def _why(fault: str, container: Callable[[str], str] | None) -> str:
    here = _NEEDS.get(fault, str)
    if container is None:
        return here()
    return container(fault) or ("" if here is injection.cannot else here())
