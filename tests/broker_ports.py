"""Ports of brokers that a test starts by a command line of its own."""

from conformance.adapters.ports import Ports

_KEPT = []  # until this process ends


def broker_port():
    """A port that stays reserved while its broker is down: see `conformance.adapters.ports`."""
    _KEPT.append(Ports(["broker"]))
    return _KEPT[-1]["broker"]
