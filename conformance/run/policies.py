"""Ask a running broker for the policies of its queues."""

from __future__ import annotations

import dataclasses
import time

from conformance.adapters import READY_QUEUE, Broker, EffectiveSettings
from conformance.adapters.config.own_configuration import first_in_force, value_of
from conformance.adapters.file.model import BrokerFile
from conformance.adapters.web import field_of
from conformance.claims import Value
from conformance.clients.management import DepthClient
from conformance.clients.session import Disconnected
from conformance.errors import ClientError, UsageError
from conformance.run.clients import reachable

_COMPLETE_S = 30.0
_TICK_S = 0.1


def read(broker: Broker, file: BrokerFile, settings: EffectiveSettings) -> tuple[EffectiveSettings, str]:
    """Return the settings with the policies that a queue of the run has at the broker, and why these are not known.

    The settings stay as they are if its file does not say how to ask, or if the answer cannot be read.
    """
    probe = broker.service.policy_probe(broker.service.queue_of(READY_QUEUE))
    if file.policies is None or probe is None:
        return settings, ""
    asked = DepthClient(reachable(broker, probe), "policies")
    try:
        found = _found(_complete(asked, file.policies.present), file)
    except (ClientError, Disconnected, UsageError) as error:
        return settings, str(error)
    finally:
        asked.close()
    values = {**settings.values, **found}
    return dataclasses.replace(settings, values=values, absent=settings.absent.difference(found)), ""


def _complete(asked: DepthClient, present: str) -> str:
    """Wait for an answer that has the field `present`: RabbitMQ adds a queue's policy some seconds later."""
    deadline = time.monotonic() + _COMPLETE_S
    while True:
        text = asked.text()
        if _at(text, present) is not None:
            return text
        if time.monotonic() > deadline:
            raise ClientError(f"the answer has no {present} after {_COMPLETE_S:g} s")
        time.sleep(_TICK_S)


def _found(text: str, file: BrokerFile) -> dict[str, Value]:
    """Return the settings in the answer; raises `UsageError` for a value of another type."""
    found: dict[str, Value] = {}
    for name, places in file.policies.fields.items() if file.policies else ():
        values = [(place, value) for place in places if (value := _at(text, place)) is not None and value != "null"]
        chosen = first_in_force(file.settings[name], values, name)
        if chosen is not None:
            found[name] = value_of(file.settings[name], chosen[1], chosen[0], name)
    return found


def _at(text: str, place: str) -> str | None:
    try:
        return field_of(text, place)
    except ValueError:
        return None
