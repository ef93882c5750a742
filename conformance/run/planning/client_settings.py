"""What a vendor's client is told, and what no application of it can do."""

from __future__ import annotations

from conformance.adapters import Adapter, vendor_clients
from conformance.adapters.file.settings import EffectiveSettings
from conformance.adapters.vendor_clients import ClientFile
from conformance.clients.workers.job import Vendor
from conformance.scenario import CALLS, FRAMES, MODIFIED


def lacks(client: ClientFile, need: str) -> str:
    """Why a script that needs this of its client (`Scenario.of_client`) cannot be played; empty where it can."""
    kind, _, mode = need.partition(" ")
    if need in CALLS:
        return f"an application of {client.title} has nothing of the kind"
    return f"{client.title} has no such mode" if kind == "mode" and mode not in client.modes else ""


def unseen(client: ClientFile) -> dict[str, str]:
    """What a script may need (`Scenario.needs`) and a trial through this client has not, and why."""
    found = {MODIFIED: f"an application of {client.title} has no word for it"}
    if client.wire == "core":
        found[FRAMES] = f"no link tells what {client.title} says"
    return found


def told(
    adapter: Adapter,
    protocol: str,
    settings: EffectiveSettings,
    client: str,
    prefetch: int,
    *,
    asynchronous: bool = False,
) -> Vendor:
    """What a process needs to use the client of that name; its jars are here already.

    It has no transactions where the broker has none: RabbitMQ 3.10.8 leaves who asks for one without an answer.
    """
    file = vendor_clients.find(client)
    without = set() if "transactions" in adapter.capabilities(protocol) else {"transacted"}
    asynchronous = asynchronous and file.asynchronous is not False
    return Vendor(
        name=file.name,
        api=file.api,
        factory=file.factory,
        url=file.url(prefetch, vendor_clients.said(adapter.file, settings), asynchronous=asynchronous),
        jars=tuple(map(str, file.install(offline=True))),
        modes={mode: number for mode, number in file.modes.items() if mode not in without},
        lost=file.lost,
        asynchronous=asynchronous,
        properties=dict(file.properties),
        java=file.java,
    )
