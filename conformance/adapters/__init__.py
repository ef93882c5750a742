"""Adapters: a broker is described by data (`fixtures/brokers/NAME/broker.toml`) and run by a launcher.

`interface`     the protocols that the rest of the suite uses: `Adapter`, `Broker` and `Node`
`opening`       finds an adapter by name, and opens it: settings, client, configuration, credentials
`file_adapter`  the adapter that a `broker.toml` makes
`launchers`     the table of launchers: native, docker, external
`system`        what scenarios can have from a broker, its launcher and its client
`file`          the tables of a `broker.toml`, how it is read, its settings, placeholders and schema
`distribution`  fetches and unpacks a broker, or finds the installed one
`launch`        starts a broker as processes of this machine
`container`     starts a broker in a container
`external`      uses a broker that runs already
`config`        copies and edits a user's own configuration
`credentials`   TLS and login of clients; it holds no secret
`vendor_clients` vendors' own clients, as data
`web`           one HTTP request to a broker's own interface
"""

from __future__ import annotations

from conformance.adapters.external.broker import leftovers
from conformance.adapters.file.launch_tables import Progress
from conformance.adapters.file.model import LIAR, VARIANT, BrokerFile
from conformance.adapters.file.settings import EffectiveSettings, parse_assignments, untraced
from conformance.adapters.file_adapter import FileAdapter
from conformance.adapters.interface import READY_QUEUE, Adapter, Broker, DepthProbe, Options
from conformance.adapters.opening import (
    GROUP,
    BrokerRequest,
    OpenedBroker,
    fetch_to,
    find,
    names,
    open_broker,
    plugged_adapters,
)

__all__ = [
    "GROUP",
    "LIAR",
    "READY_QUEUE",
    "VARIANT",
    "Adapter",
    "Broker",
    "BrokerFile",
    "BrokerRequest",
    "DepthProbe",
    "EffectiveSettings",
    "FileAdapter",
    "OpenedBroker",
    "Options",
    "Progress",
    "fetch_to",
    "find",
    "leftovers",
    "names",
    "open_broker",
    "parse_assignments",
    "plugged_adapters",
    "untraced",
]
