"""Adapters: what a broker is, in data (`fixtures/brokers/NAME/broker.toml`), and the launcher that runs it.

Reading order: `interface` (what an adapter is to everybody else), `model`, `starting` and `words` (what the file may
say), `settings` (what is in force), `fetch` and `download` (where the distribution comes from), `configure` and
`planned` (from data to a folder and a command), `native` (from these to a running broker), with `readiness`,
`declaring`, `tree`, `ports` and `java` as its tools; `file_adapter` holds them together, `found` finds one. In a
container: `engine`, `images` and `bundled` (what it is made from), `docker` (the same broker inside) with `docker_tree`
as its tool, and `docker_able`. A broker that runs already: `external_table` (what its owner
says), `external_places`, `external_commands`, `external_queues` and `external_left`, `external`; `launchers` tells
them all apart. `vendor_clients` are the clients of vendors, likewise data, and what a broker is through one of them.
"""

from __future__ import annotations

from conformance.adapters.distribution.fetch import Progress
from conformance.adapters.external import leftovers
from conformance.adapters.file.model import LIAR, VARIANT, BrokerFile
from conformance.adapters.file.settings import EffectiveSettings, parse_assignments, untraced
from conformance.adapters.file_adapter import FileAdapter
from conformance.adapters.interface import Adapter, Broker
from conformance.adapters.launch.prepared import READY_QUEUE, DepthProbe, Options
from conformance.adapters.launchers import left
from conformance.adapters.registry import GROUP, fetch_to, find, names, plugged
from conformance.ledger import releases

__all__ = [
    "GROUP",
    "LIAR",
    "READY_QUEUE",
    "VARIANT",
    "Adapter",
    "Broker",
    "BrokerFile",
    "DepthProbe",
    "EffectiveSettings",
    "FileAdapter",
    "Options",
    "Progress",
    "fetch_to",
    "find",
    "left",
    "names",
    "parse_assignments",
    "plugged",
    "untraced",
]

releases(leftovers.KIND, leftovers.release)
