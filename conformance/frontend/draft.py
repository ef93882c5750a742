"""Write a first `broker.toml` (`conformance init broker`), or a first file for an external broker."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from conformance.adapters.external.addresses import places, urls_by_protocol, with_management
from conformance.adapters.external.rules import complete_rules
from conformance.adapters.file.launch_tables import External
from conformance.adapters.file.model import BrokerFile
from conformance.adapters.file.placeholders import placeholders
from conformance.adapters.file.reading import read_table
from conformance.claims import STORED
from conformance.errors import UsageError
from conformance.frontend.options import PORT_WORDS, pairs
from conformance.protocols import WIRES, describe

_COMMANDS = """\
# Commands that inject faults. A fault without a command is not tried (docs/how-to/external-brokers.md).
# kill = ["docker", "kill", "broker"]       # ends it at once
# start = ["docker", "start", "broker"]     # starts it again on the same data, unless it comes back by itself
# stop = { command = ["docker", "stop", "--time", "20", "broker"], seconds = 30 }
# pause = ["docker", "pause", "broker"]
# resume = ["docker", "unpause", "broker"]
"""
_EXISTING = '# queues = ["tests.a", "tests.b", "tests.ready"]   # existing ones, if your user may not create queues'


def text(file: BrokerFile, urls: str) -> str:
    """Write the file for a broker of this product at these addresses, `URL,URL`.

    Raises `UsageError` for a bad or missing address.
    """
    own = file.external or External()
    found = with_management(urls_by_protocol(urls), own.management_port)
    places(found, file)
    addresses = ", ".join(f"{name} = {json.dumps(url)}" for name, url in found.items())
    settings = [name for name, setting in file.settings.items() if setting.settable]
    made = "\n".join(
        [
            f"# {file.title}, an external broker.",
            f"urls = {{ {addresses} }}",
            "",
            "# Its settings that differ from stock; the known settings are:",
            *(f"#   {name}: {file.settings[name].description}" for name in settings),
            "# settings = { NAME = VALUE }",
            "",
            *_queues(file, own),
            "",
            _COMMANDS,
            *_tools(own),
        ]
    )
    complete_rules(file, External.model_validate(tomllib.loads(made)))
    return made


def _queues(file: BrokerFile, own: External) -> list[str]:
    if own.creates_queues:
        return ["creates_queues = true   # it creates a durable queue when a client names one", _EXISTING]
    if own.declare is not None or file.queues is not None:
        return ["# The suite declares its queues as it does for a broker that it starts.", _EXISTING]
    return ["creates_queues = true   # if it does not, say how: [declare], or queues", _EXISTING]


def _tools(own: External) -> Iterator[str]:
    """The tables of the product that run its own tool: where the tool is, and where it asks, only the user knows."""
    tools = {name: table for name, table in (("declare", own.declare), ("depth", own.depth)) if table and table.command}
    if tools:
        yield "# Its own tool. Change what differs here: its path, the address and the login of the administration."
    for name, table in tools.items():
        yield f"[{name}]"
        for key, value in table.model_dump(exclude_unset=True).items():
            yield f"{key} = {_toml(value)}"
        yield ""


PROMISED = ("durable_queues", "individual_ack", "queues", "send_confirmed")
"""The capabilities of a draft: without them a kill can show no loss."""


@dataclasses.dataclass(frozen=True)
class Draft:
    """A user's description of a broker. Texts may have the placeholders of a `broker.toml`, such as `{amqp_port}`.

    `protocols` are `WORD` or `WORD=PORT`; by default those whose `{WORD_port}` is in a text. `destinations` are
    `WORD=ADDRESS`, `environment` is `NAME=VALUE`, and `declare` the address of a PUT that creates a queue.
    """

    name: str
    command: Sequence[str]
    depth_url: str = ""
    depth_field: str = ""
    depth_command: str = ""
    receipt_stores: bool = False
    title: str = ""
    vendor: str = "unknown"
    version: str = "1.0"
    protocols: Sequence[str] = ()
    destinations: Sequence[str] = ()
    environment: Sequence[str] = ()
    each_queue: str = ""
    declare: str = ""
    ready_log: str = ""

    def text(self, capabilities: Mapping[str, str], here: pathlib.Path) -> str:
        """Write the file for the folder `here`; `capabilities` are all known ones, with their meaning.

        Raises `UsageError` if the words describe no broker, as `adapters check` would before a start.
        """
        made = "\n".join(self._lines(capabilities)) + "\n"
        try:
            read_table(tomllib.loads(made), here)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"the draft is not TOML: {error}", code="bad-draft") from error
        return made

    def unknown(self) -> list[str]:
        """List what the file cannot know, and where to say it."""
        return [
            "capabilities: durable queues and confirmed sends are assumed. Remove one that it does not promise",
            "other capabilities: none. Uncomment what its documentation promises, or claims about them do not apply",
            "settings: none. Promises about storage are assumed; describe each setting that weakens one",
            "ack_confirm: none, so claims about confirmed acknowledgements do not apply",
            "journal.files: none. Name the journal's files, so that faults at the disk are confined to them",
            "profiles: none. No vendor's documents bind it",
            *(
                f"{STORED} over {word}: not declared, so a loss there is INCONCLUSIVE. Uncomment it if its "
                "documentation says so"
                for word in self._port_of_protocols()
                if not self._stores(word)
            ),
        ]

    def _lines(self, capabilities: Mapping[str, str]) -> Iterator[str]:
        ports = self._port_of_protocols()
        yield f"name = {_toml(self.name)}"
        yield f"title = {_toml(self.title or self.name)}"
        yield f"vendor = {_toml(self.vendor)}"
        yield f"default_version = {_toml(self.version)}"
        yield f"ports = {_toml([*dict.fromkeys([*ports.values(), *self._ports()])])}"
        yield "# Read your broker's documentation, and uncomment what it promises: claims about the rest do not apply."
        yield "capabilities = ["
        for word, means in capabilities.items():
            if word in PROMISED:
                yield f"  {_toml(word)},  # {means}"
            elif word != STORED:
                yield f"  # {_toml(word)},  # {means}"
        yield "]"
        addresses = pairs("--destination", self.destinations)
        for word, port in ports.items():
            yield f"\n[protocols.{word}]"
            yield f"port = {_toml(port)}"
            if word in addresses:
                yield f"destination = {_toml(addresses.pop(word))}"
            if "ack_confirmed" not in (spoken := describe(word)).without:
                way = _toml(spoken.traits.ack_confirm)
                yield f"# ack_confirm = {way}  # if an acknowledgement is answered when its effect is stored"
            yield f"{'' if self._stores(word) else '# '}capabilities = [{_toml(STORED)}]  # {capabilities[STORED]}"
        if addresses:
            raise UsageError.unknown("protocol", next(iter(addresses)), ports, of="--destination")
        yield from self._start()
        yield "\n[depth]"
        if self.depth_command:
            yield 'method = "command"'
            yield f"command = {_toml(shlex.split(self.depth_command))}"
            yield r"pattern = '(\d+)'  # the number of messages in what it prints"
        else:
            yield 'method = "http"'
            yield f"url = {_toml(self.depth_url)}"
            yield f"field = {_toml(self.depth_field)}"
        yield '\n[data]\npath = "{instance}/data"'
        yield '\n[journal]\npath = "{data_dir}"'
        yield '# files = ["{n:08d}.journal"]  # the names of its files: faults at the disk are confined to these'

    def _stores(self, protocol: str) -> bool:
        return describe(protocol).traits.confirm_stores or self.receipt_stores

    def _start(self) -> Iterator[str]:
        yield "\n[start]"
        yield f"command = {_toml(list(self.command))}"
        if self.environment:
            pairs = ", ".join(f"{_toml(name)} = {_toml(value)}" for name, value in _environment(self.environment))
            yield f"environment = {{ {pairs} }}"
        if self.each_queue:
            yield f"each_queue = {_toml(shlex.split(self.each_queue))}"
        if self.ready_log:
            yield f"ready_log = {_toml(self.ready_log)}"
        if self.declare:
            yield "\n[queues]"
            yield 'method = "http"'
            yield f"url = {_toml(self.declare)}"

    def _texts(self) -> list[str]:
        return [*self._started_with, self.each_queue, self.declare, self.depth_url, self.depth_command]

    @property
    def _started_with(self) -> list[str]:
        return [*self.command, *self.environment]

    def _ports(self) -> list[str]:
        words = [word for text in self._texts() for word in placeholders(text)]
        return [word.removesuffix("_port") for word in dict.fromkeys(words) if word.endswith("_port")]

    def _port_of_protocols(self) -> dict[str, str]:
        asked = [*self.protocols] or [word for word in WIRES if word in self._ports()]
        if not asked:
            raise UsageError(
                f"no protocol: write {PORT_WORDS} where the command line takes a port, or give "
                "--protocol WORD=PORT with the name of another ({PORT_port})",
                code="no-protocol",
            )
        found = {word: port or word for word, _, port in (one.partition("=") for one in asked)}
        taken = {word for text in self._started_with for word in placeholders(text)}
        for word, port in found.items():
            if word not in WIRES:
                raise UsageError.unknown("protocol", word, WIRES)
            if f"{port}_port" not in taken:
                raise UsageError(
                    f"the command line takes no {{{port}_port}}: the suite starts each broker at free ports, so write "
                    f"it where the command line, or a variable of --env, has the port of {word}",
                    code="no-port",
                )
        return found


def _environment(given: Iterable[str]) -> Iterable[tuple[str, str]]:
    return pairs("--env", given).items()


def _toml(value: str | Sequence[str]) -> str:
    """Write a string, or a list of strings, as TOML: JSON's form is one of TOML's."""
    return json.dumps(value).replace("\x7f", "\\u007f")
