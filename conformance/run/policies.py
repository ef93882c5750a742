"""Ask a running broker for the policies of its queues."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable

from conformance import limits
from conformance.adapters import READY_QUEUE, Broker, EffectiveSettings
from conformance.adapters.config.own_configuration import first_in_force, value_of
from conformance.adapters.file.launch_tables import Policies
from conformance.adapters.file.model import BrokerFile
from conformance.adapters.web import field_of
from conformance.claims import Value
from conformance.clients.management import DepthClient
from conformance.clients.session import Disconnected
from conformance.errors import ClientError, UsageError
from conformance.run.trial.jobs import reachable

_COMPLETE_S = 30.0
_TICK_S = 0.1


def read(broker: Broker, file: BrokerFile, settings: EffectiveSettings) -> tuple[EffectiveSettings, str]:
    """Return the settings with the policies that a queue of the run has at the broker, and why these are not known.

    The settings stay as they are if its file does not say how to ask, or if the answer cannot be read.
    """
    try:
        probe = broker.service.policy_probe(broker.service.queue_of(READY_QUEUE))
        if file.policies is None or probe is None:
            return settings, ""
        with contextlib.closing(DepthClient(reachable(broker, probe), "policies")) as asked:
            return in_force(complete(asked.text, file.policies), file.policies, file, settings), ""
    except (ClientError, Disconnected, UsageError) as error:
        return settings, str(error)


def complete(ask: Callable[[], str], table: Policies) -> str:
    """Ask until the answer is complete, and return it; `ClientError` if it is no JSON object, or never complete.

    An answer without `present` of the file is incomplete: RabbitMQ adds a queue's policy some seconds later.
    """
    deadline = time.monotonic() + _COMPLETE_S
    while True:
        text = ask()
        if not _is_object(text):
            raise ClientError(f"the answer is no JSON object: {limits.quote(text)}")
        if not table.present or _at(text, table.present) is not None:
            return text
        if time.monotonic() > deadline:
            raise ClientError(f"the answer has no {table.present} after {_COMPLETE_S:g} s")
        time.sleep(_TICK_S)


def in_force(text: str, table: Policies, file: BrokerFile, settings: EffectiveSettings) -> EffectiveSettings:
    """Return the settings with those of a complete answer; `UsageError` for a value of another type.

    A setting that is nowhere in the answer has its documented default: Artemis leaves out each key that its owner has
    not set.
    """
    found: dict[str, Value] = {}
    unset: dict[str, Value] = {}
    for name, places in table.fields.items():
        values = [(place, value) for place in places if (value := _at(text, place)) is not None and value != "null"]
        chosen = first_in_force(file.settings[name], values, name)
        if chosen is None:
            unset[name] = file.settings[name].default
        else:
            found[name] = value_of(file.settings[name], chosen[1], chosen[0], name)
    return dataclasses.replace(
        settings,
        values={**settings.values, **unset, **found},
        absent=settings.absent.union(unset).difference(found),
    )


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _at(text: str, place: str) -> str | None:
    try:
        return field_of(text, place)
    except ValueError:
        return None
