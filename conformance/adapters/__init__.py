"""Adapters: a broker is described by data (`fixtures/brokers/NAME/broker.toml`) and run by a launcher.

`interface`     the two protocols that the rest of the suite uses: `Adapter` and `Broker`
`opening`       opens the broker that a user asks for: settings, client, configuration, credentials
`registry`      finds an adapter by the words of a user; `launchers` reads the last of these words
`file_adapter`  the adapter that a `broker.toml` makes
`file`          the tables of a `broker.toml`, how it is read, its settings, placeholders and schema
`distribution`  fetches and unpacks a broker, or finds the installed one
`launch`        starts a broker as processes of this machine
`container`     starts a broker in a container
`external`      uses a broker that runs already
`config`        copies and edits a user's own configuration
`credentials`   TLS and login of clients; it holds no secret
`controls`      chooses the fallback of a control that this broker cannot be given
`vendor_clients` vendors' own clients, likewise data
`web`           one HTTP request to a broker's own interface
"""

from __future__ import annotations

from conformance.adapters.external import leftovers
from conformance.adapters.file.distribution_table import Progress
from conformance.adapters.file.model import LIAR, VARIANT, BrokerFile
from conformance.adapters.file.settings import EffectiveSettings, parse_assignments, untraced
from conformance.adapters.file_adapter import FileAdapter
from conformance.adapters.interface import Adapter, Broker
from conformance.adapters.launch.prepared import READY_QUEUE, DepthProbe, Options
from conformance.adapters.launchers import left
from conformance.adapters.opening import BrokerRequest, OpenedBroker, open_broker
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
    "BrokerRequest",
    "DepthProbe",
    "EffectiveSettings",
    "FileAdapter",
    "OpenedBroker",
    "Options",
    "Progress",
    "fetch_to",
    "find",
    "left",
    "names",
    "open_broker",
    "parse_assignments",
    "plugged",
    "untraced",
]

releases(leftovers.KIND, leftovers.release)
