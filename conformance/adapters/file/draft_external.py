"""A first file for a broker that runs already, as `conformance init external` writes it."""

from __future__ import annotations

import json

from conformance.adapters.external.addresses import places, with_management, words_of
from conformance.adapters.file.external_table import External
from conformance.adapters.file.model import BrokerFile

_COMMANDS = """\
# The commands by which the suite may hurt it. A fault without its command is not tried (docs/external-brokers.md).
# kill = ["docker", "kill", "broker"]       # ends it at once
# start = ["docker", "start", "broker"]     # starts it again on the same data, unless it comes back by itself
# stop = { command = ["docker", "stop", "--time", "20", "broker"], seconds = 30 }
# pause = ["docker", "pause", "broker"]
# resume = ["docker", "unpause", "broker"]
"""
_EXISTING = '# queues = ["tests.a", "tests.b", "tests.ready"]   # existing ones, where your users may make none'


def text(file: BrokerFile, urls: str) -> str:
    """The file for a broker of this product at these addresses, `URL,URL`; `UsageError` where one is none."""
    own = file.external or External()
    found = with_management(words_of(urls), own.management_port)
    places(found, file)
    addresses = ", ".join(f"{name} = {json.dumps(url)}" for name, url in found.items())
    settings = [name for name, setting in file.settings.items() if setting.settable]
    return "\n".join(
        [
            f"# {file.title}, one that runs already.",
            f"urls = {{ {addresses} }}",
            "",
            "# What it runs with, where that differs from stock; the settings are:",
            *(f"#   {name}: {file.settings[name].description}" for name in settings),
            "# settings = { NAME = VALUE }",
            "",
            *_queues(file, own),
            "",
            _COMMANDS,
        ]
    )


def _queues(file: BrokerFile, own: External) -> list[str]:
    """How its queues come to be."""
    if own.creates_queues:
        return ["creates_queues = true   # it makes a durable queue when a client names one", _EXISTING]
    if own.declare is not None or file.queues is not None:
        return ["# The suite declares its queues as it does for a broker of its own.", _EXISTING]
    return ["creates_queues = true   # if it does not, say how: [declare], or queues", _EXISTING]
