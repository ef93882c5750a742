"""The system under test as scenarios ask for it: a broker's launcher, file, protocol and settings, and the client."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.adapters import opening
from conformance.adapters.file.nodes_table import nodes_in
from conformance.adapters.file.settings import EffectiveSettings, untraced, unwritten
from conformance.adapters.interface import Adapter
from conformance.adapters.vendor_clients import ClientFile
from conformance.protocols import describe
from conformance.scenario.faults import CorruptReplica
from conformance.scenario.needs import (
    ANOTHER_NODE,
    ANSWERED,
    FRAMES,
    GOES_ON,
    JOURNAL_WATCHED,
    KILL_WHILE_STARTING,
    SETTINGS,
    Means,
    Need,
    Wanted,
    need_of,
)

_OF_ONE_NODE = (Means.POWER, Means.TRACER, Means.WATCH, Means.DATA, Means.LIMITS)
_OUTSIDE = {
    Means.DATA: "its data are in a container, and no file of them is changed there",
    Means.LIMITS: "its processes are in a container, and their limits are not changed there",
}


class BrokerUnderTest:
    """A broker over one protocol, with one vendor's client if any; see `scenario.needs.SystemUnderTest`."""

    def __init__(
        self, adapter: Adapter, protocol: str, settings: EffectiveSettings, client: ClientFile | None = None
    ) -> None:
        self._adapter, self._protocol, self._settings, self._client = adapter, protocol, settings, client
        self._able = adapter.able
        self._several = nodes_in(settings.values) > 1
        self._nodes = adapter.file.nodes
        self._untraced = untraced(adapter.file, settings)
        self._unwritten = unwritten(adapter.file, settings)
        self._queues: Mapping[Need, str] = {
            need_of(option): entry.lacks(settings.values) for option, entry in adapter.file.queue_settings.items()
        }

    def brings(self, means: Means) -> bool:
        return means is Means.TRACER and self._adapter.launcher.contained

    def lacks(self, wanted: Wanted) -> str:
        if wanted.means in (Means.NODES, Means.NODE_LINKS) and not self._several:
            return "the broker has one node: --set nodes=N asks for several, where its file has [nodes]"
        if wanted == ANOTHER_NODE and self._nodes and self._nodes.standby_log:
            return "one of its nodes serves all clients"
        if wanted == GOES_ON and not self._client:
            return "the clients of the suite know one address: --protocol jms has vendors' clients that know several"
        if wanted.name == CorruptReplica.name and self._nodes and self._nodes.shared_store:
            return "its nodes share one store"
        if wanted.means is Means.NODE_LINKS and not (self._nodes and self._nodes.links):
            return "the links between its nodes do not lead through the suite: its file has no [nodes.links]"
        if self._several and (wanted.means in _OF_ONE_NODE or wanted == SETTINGS):
            return "it is tried with one node: others keep what the disk of one loses"
        if wanted.means in _OUTSIDE and self._adapter.launcher.contained:
            return _OUTSIDE[wanted.means]
        if isinstance(wanted, Need):
            return self._lacks_need(wanted)
        if wanted.fails_disk and self._untraced:
            return self._untraced
        return self._able(wanted) if self._able else ""

    def _lacks_need(self, need: Need) -> str:
        adapter, protocol = self._adapter, self._protocol
        return (
            self._lacks_answer(need)
            or adapter.lacks_over(need, protocol)
            or (self._client.lacks(need) if self._client else "")
            or self._lacks_frames(need)
            or adapter.lacks(need)
            or self._queues.get(need, "")
            or (self._unwritten if need in (KILL_WHILE_STARTING, JOURNAL_WATCHED) else "")
        )

    def _lacks_answer(self, need: Need) -> str:
        """Say why no acknowledgement is answered, or none is of one message alone; empty if they are."""
        adapter, protocol = self._adapter, self._protocol
        if need == ANSWERED and (self._client or adapter.file.protocols[protocol]).ack_confirm is None:
            return f"the file of {(self._client or adapter).name} has no ack_confirm over {protocol}"
        singly = not describe(protocol).traits.acks_one and need.mode in ("individual", "individual_dups_ok")
        if singly and "individual_ack" not in adapter.capabilities(protocol):
            return f"the adapter of {adapter.name} does not declare individual_ack over {protocol}"
        return ""

    def _lacks_frames(self, need: Need) -> str:
        if need == FRAMES and opening.credentials_of(self._adapter, self._protocol).tls is not None:
            return "over TLS a link cannot read the frames; run it over the plain port as well"
        return ""
