"""The whole table of a `broker.toml`, and the parts that describe what the broker can do.

`[config]` is how the copy of a user's own configuration differs from the original. The copy must not write to the
folders of the original, listen on its ports, or connect to its peers. So ports, bind addresses and paths are rewritten,
and an element that connects to other systems is refused. Nothing else changes.
"""

from __future__ import annotations

import inspect
import pathlib
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

import msgspec
import pydantic

from conformance.adapters.credentials import OPEN, Access, check, redact_passwords
from conformance.adapters.file.access_tables import AccessTable
from conformance.adapters.file.launch_tables import (
    NEVER_HERE,
    Alarm,
    Depth,
    External,
    Fetch,
    Installed,
    Policies,
    QueueSettings,
    QueuesTable,
    StartTable,
    Template,
    Topic,
    VersionTable,
    Xml,
    order,
    with_external_defaults,
)
from conformance.adapters.file.nodes_table import NODES, NodesTable
from conformance.adapters.file.table import ByName, Inside, Pattern, Table, Value, Word
from conformance.errors import UsageError
from conformance.protocols import PROTOCOLS, others
from conformance.protocols.options import ProtocolOptions
from conformance.scenario.needs import COPIES


class Rewrite(Table):
    """One place that a copy must not share with the original: a port, a bind address, a path.

    `at` is the path of an element or attribute (`core/journal-directory`), or a key, in which `*` stands for any
    characters. If the file has it, it gets `text`, or is removed if there is no `text`. With `add` it is added if the
    file does not have it.
    """

    at: str
    text: str | None = None
    add: bool = False
    why: str

    @pydantic.model_validator(mode="after")
    def _one_place(self) -> Rewrite:
        if self.add and (self.text is None or "*" in self.at):
            raise ValueError("add needs a text, and an `at` without *")
        return self


class Refuse(Table):
    """An element or key that would let a copy connect to other systems. It is an error, which gives `why`.

    `at` is as in `rewrite`, at any depth of an xml file. A value that matches `unless` is allowed, and so is an element
    that has neither children nor text.
    """

    at: str
    unless: Pattern = ""
    why: str


class Beside(Table):
    """A further file of the user's folder. If it is there, it is copied unchanged to `to` of the instance.

    `refuses` are patterns that must not match in it, each with the reason. Text from `comment`, outside of quotes, to
    the end of the line is skipped.
    """

    file: str
    to: Inside
    comment: str = ""
    refuses: Mapping[Pattern, str] = {}


class Listeners(Table):
    """The listeners of an xml file: elements with an address `tcp://HOST:PORT?protocols=A,B;...` as their text.

    `speaks` is the name of each of our protocols there. Of the elements at `at` the first that speaks a protocol is
    kept with all its parameters, one without TLS before one with TLS. It gets one of our ports. The others are removed.
    An address without `protocols` speaks all of them.
    """

    at: str
    speaks: Mapping[Word, str]
    why: str


class Config(Table):
    """A user's own configuration: which files are copied, what is rewritten, and what is refused.

    `file` is the name of the main file, and `to` its place in the instance. `expects` is an element or a key that it
    must have: a file without it belongs to another broker. `keeps` names the `[deviations]` that apply to it too. Edits
    of `[xml]`, and template files with the same `to`, do not apply. `natively_only` is why no copy runs in a container.
    """

    file: str
    to: Inside
    format: Literal["xml", "keys"]
    expects: str = ""
    beside: tuple[Beside, ...] = ()
    rewrite: tuple[Rewrite, ...] = ()
    refuses: tuple[Refuse, ...] = ()
    listeners: Listeners | None = None
    keeps: tuple[str, ...] = ()
    natively_only: str = ""

    @pydantic.model_validator(mode="after")
    def _of_its_format(self) -> Config:
        if self.listeners is not None and self.format != "xml":
            raise ValueError("listeners need format xml; a file of keys has rewrite")
        return self


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables of a file. A table is merged with the one below it, and any other value replaces it.

    >>> laid_over({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}})
    {'a': {'b': 3, 'c': 2}}

    `false` in the place of a table takes it away.

    >>> laid_over({"a": {"b": 1}}, {"a": False})
    {}
    """
    merged = dict(below)
    for key, value in above.items():
        old = below.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[key] = laid_over(old, value)
        elif isinstance(old, Mapping) and value is False:
            del merged[key]
        else:
            merged[key] = value
    return merged


_TYPES: dict[str, type] = {"bool": bool, "int": int, "word": str, "text": str}
VARIANT, LIAR = "profile", "liar"
"""Settings that select a variant of a broker: its documented behaviour, or a deliberately broken one."""


class Protocol(Table):
    """A protocol that the broker speaks, the port it listens on, and what it can do over this protocol only.

    `ack_confirm` is how a client gets an answer to an acknowledgement: the broker's own `disposition`, or the answer
    to a `transaction` that holds only it. `destination` is how a queue is addressed: over AMQP the address of a source
    or a target, over STOMP the header.

    `copied` is the address at which a receiver finds a queue that gets everything that is sent to `{address}`; a sender
    uses the `destination` of that. `topic` says how clients subscribe durably to a topic; without it no scenario with
    such subscriptions is tried. `duplicate_id` is the application property, or the header, by whose value the broker
    knows a message that it has stored already (capability `duplicate_detection`).
    """

    of_protocol: ClassVar[type[ProtocolOptions]] = ProtocolOptions

    port: str
    ack_confirm: Literal["disposition", "transaction"] | None = None
    capabilities: frozenset[str] = frozenset()
    destination: str = "{queue}"
    copied: str = ""
    topic: Topic | None = None
    duplicate_id: str = ""

    @property
    def options(self) -> ProtocolOptions:
        """What the file says about this protocol and no other, for its sessions."""
        given = {name: getattr(self, name) for name in self.of_protocol.__struct_fields__}
        return msgspec.convert(given, self.of_protocol)

    @pydantic.model_validator(mode="after")
    def _has_options(self) -> Self:
        try:
            _ = self.options
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from error
        return self


def _with_own_keys(name: str, options: type[ProtocolOptions]) -> type[Protocol]:
    """Return the table of one protocol, with the keys of its options."""
    keys: dict[str, Any] = {
        field.name: (field.type, field.default_factory() if field.default is msgspec.NODEFAULT else field.default)
        for field in msgspec.structs.fields(options)
    }
    made: type[Protocol] = pydantic.create_model(
        f"{name.capitalize()}Table",
        __base__=Protocol,
        __doc__=f"{inspect.getdoc(Protocol)}\n\n{inspect.getdoc(options)}",
        **keys,
    )
    made.of_protocol = options
    return made


OF_PROTOCOL = {name: _with_own_keys(name, each.options()) for name, each in PROTOCOLS.items() if each.options}
"""The tables of the protocols that have keys of their own."""


class QueueFiles(Table):
    """Files below `{data_dir}` (`*` stands for any name), one of which must match the pattern of each `{queue}`.

    For a broker that answers a declaration before it is on the disk: after one it is ready when every queue is found.
    """

    files: Inside
    pattern: Pattern


class Choice(Table):
    """One value of a setting of type `word`.

    `logged` is a text that the broker logs before it is ready, and only with this value: a broker may fall back to
    another value and go on. `needs` is what the user must install for this value. `unwritten` is why the
    broker neither writes nor reads its journal while a trial lasts. `untraced` is why a tracer cannot
    make the journal's writes and syncs fail with it. `requires` are values of other settings without which the product
    refuses it. `without` are settings that have no effect with it: a user cannot choose them, and no control uses
    them. `stored` is where each queue is found on the disk once it survives a restart. `refused` is why nothing can be
    tested with this value.
    """

    logged: str = ""
    needs: str = ""
    untraced: str = ""
    unwritten: str = ""
    refused: str = ""
    requires: Mapping[str, Value] = {}
    without: tuple[Word, ...] = ()
    stored: QueueFiles | None = None


class OffWith(Table):
    """Settings that a control changes as well in versions `before` that: without them its effect cannot be seen."""

    before: str
    settings: Mapping[str, Value]


class Setting(Table):
    """A setting of the common vocabulary, and its form in this product.

    `default` is the value that the product documents for an absent key. `stock` is the value in its stock
    configuration; without it the key is absent there. `follows` names the setting that decides this one; `fixed` ones
    cannot be changed. `xml` is a path in the configuration (`core/journal-datasync`, `broker/@persistent`), `argument`
    a part of the command line (`{name}`, `{value}`), and `{setting.NAME}` is its value elsewhere. `key` is its key in a
    user's own configuration, if that is a file of keys (`[config]`).

    `scale` multiplies a number on its way to the product, and `texts` are the product's own words for values:
    `{ false = "NEVER" }`. `reads` are patterns for words that are only read, each with the value that it means:
    `{ '\\d+' = "true" }`. The values of a `word` are the keys of `choices`, or the lines that the command `words`
    prints (`late-N-ms`: N is a number); those of the setting `profile` are its default and the names of the variants; a
    `text` has any value.

    In a user's own configuration the places of `also` are read as well, and the first value that differs from the
    default counts. A value that is read there becomes empty if the file has nothing at `exists` (`{value}`): the queue
    that a policy names may be missing. `off_with` are changes that a control makes as well when it sets this to false.
    """

    type: Literal["bool", "int", "word", "text"]
    default: Value
    stock: Value | None = None
    description: str
    fixed: bool = False
    follows: str | None = None
    xml: str | None = None
    key: str | None = None
    also: tuple[str, ...] = ()
    exists: str = ""
    argument: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    choices: Mapping[str, Choice] = {}
    texts: Mapping[str, str] = {}
    reads: Mapping[Pattern, str] = {}
    scale: int = 1
    off_with: OffWith | None = None

    @pydantic.model_validator(mode="after")
    def _one_place(self) -> Setting:
        for value in (self.default, self.stock):
            if value is not None and type(value) is not _TYPES[self.type]:
                raise ValueError(f"{value!r} is not of type {self.type}")
            if value is not None and self.choices and value not in self.choices:
                raise ValueError(f"{value!r} is not one of its choices: {', '.join(self.choices)}")
        if self.choices and (self.type != "word" or self.words):
            raise ValueError("choices need type word, and a setting has either choices or words")
        return self

    @property
    def settable(self) -> bool:
        return not self.fixed and self.follows is None

    def takes(self, value: object) -> bool:
        """Whether a value has its type, and is one of its choices; `true` is not a number."""
        return type(value) is _TYPES[self.type] and (not self.choices or value in self.choices)

    def text(self, value: bool | int | str) -> str:
        if isinstance(value, bool):
            plain = str(value).lower()
        else:
            plain = value if isinstance(value, str) else str(value * self.scale)
        return self.texts.get(plain, plain)


class Java(Table):
    """The broker needs a Java of at least `minimum`; `archive` keeps an AppCDS archive of its classes in the cache."""

    minimum: int = 17
    archive: bool = False


class Folder(Table):
    """A folder of the broker."""

    path: str


class JournalFolder(Folder):
    """The folder of the journal, and the names of its files. Disk faults affect only these files.

    `{n}` in a name is a number that counts up from 1 (with a format: `{n:08d}`).
    """

    files: tuple[str, ...] = ()


class Logs(Table):
    """Log files that the broker writes besides its standard output."""

    paths: tuple[str, ...] = ()


class Variant(Table):
    """What the setting `profile` adds to a broker when it has this value. It removes and replaces nothing.

    `profiles` are the products whose documents bind the broker as well, `settings` those that only this variant has.
    """

    description: str
    profiles: tuple[str, ...] = ()
    capabilities: frozenset[str] = frozenset()
    ack_modes: Mapping[str, str] = {}
    settings: Mapping[str, Setting] = {}


class VendorImage(Table):
    """The vendor's own image of the versions from `since` on; `{version}` stands for the version.

    A `bare` image has what the broker needs, but not the broker, which the suite adds.
    """

    since: str
    name: str
    bare: bool = False


class ContainerTable(Table):
    """How the broker runs in a container.

    `dockerfile` lies beside this file. Its build argument BASE_IMAGE is the vendor's image, or a plain Debian with
    `packages`; it leaves the distribution at /opt/broker. `ports` are the numbers inside, by name. Any other port has
    the same number inside as outside.
    """

    images: tuple[VendorImage, ...]
    dockerfile: str = "Dockerfile"
    packages: tuple[str, ...] = ()
    ports: Mapping[str, int] = {}

    def official(self, version: str) -> VendorImage:
        """The vendor's image of a version; its name is filled."""
        found = next(image for image in reversed(self.images) if order(image.since) <= order(version))
        return found.model_copy(update={"name": found.name.format(version=version)})


class BrokerFile(Table):
    """A whole `broker.toml`. `ack_modes`: our modes, and the words by which a consumer asks the broker for them.

    `subscription_depth` is how the suite asks how many messages the durable subscription `{queue}` of the client and
    topic `{topic}` holds.

    `unverified` says what the file assumes without a test; every list and every report repeats it. `since` has what
    is different from a version on: `[since."4.0".protocols.amqp]` is laid over `[protocols.amqp]`. A table is merged
    with the one below it, and any other value replaces it.
    """

    name: Word
    title: str
    vendor: str
    default_version: str
    versions: tuple[str, ...] = ()
    unverified: str = ""
    profiles: tuple[str, ...] = ()
    capabilities: frozenset[str]
    ports: tuple[Word, ...]
    protocols: Annotated[dict[str, Protocol], ByName(OF_PROTOCOL)]
    settings: Mapping[str, Setting] = {}
    queue_settings: Mapping[Word, QueueSettings] = {}
    fetch: Fetch | None = None
    installed: Installed | None = None
    version: VersionTable = VersionTable()
    java: Java | None = None
    template: Template | None = None
    xml: Xml | None = None
    start: StartTable
    queues: QueuesTable | None = None
    depth: Depth | None = None
    subscription_depth: Depth | None = None
    policies: Policies | None = None
    alarms: Mapping[Word, Alarm] = {}
    journal: JournalFolder
    data: Folder
    logs: Logs = Logs()
    deviations: Mapping[str, str] = {}
    nodes: NodesTable | None = None
    container: ContainerTable | None = None
    external: External | None = None
    access: AccessTable = AccessTable()
    config: Config | None = None
    ack_modes: Mapping[str, str] = {}
    variants: Mapping[Word, Variant] = {}
    since: Mapping[str, Mapping[str, Any]] = {}

    @property
    def is_external(self) -> bool:
        """Whether the file has no `[start]`, so that its broker must be running already."""
        return self.start.command == (NEVER_HERE,)

    @property
    def queue_options(self) -> tuple[str, ...]:
        """The rules that a queue may have of its own, however queues are declared."""
        copies = (COPIES,) if self.xml and self.xml.copy_of else ()
        given = (name for name, entry in self.queue_settings.items() if entry.gets)
        return (*self.start.queue_options, *(self.queues.options if self.queues else ()), *copies, *given)

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages of Debian that the broker needs where a Debian is made for it."""
        return self.container.packages if self.container else ()

    @property
    def full_title(self) -> str:
        """The title, and what an unverified file assumes."""
        return f"{self.title} (unverified: {self.unverified})" if self.unverified else self.title

    @pydantic.model_validator(mode="before")
    @classmethod
    def _ready_at_every_protocol(cls, data: Any) -> Any:
        """Make the port of each protocol the default of `start.ready_port`."""
        data = with_external_defaults(data)
        start, spoken = (data.get(key) if isinstance(data, Mapping) else None for key in ("start", "protocols"))
        if not isinstance(start, Mapping) or not isinstance(spoken, Mapping):
            return data
        ports = [table.get("port") for table in spoken.values() if isinstance(table, Mapping)]
        names = [*dict.fromkeys(port for port in ports if isinstance(port, str))]
        return data if "ready_port" in start else {**data, "start": {**start, "ready_port": names}}

    def beside(self, protocol: str) -> tuple[str, ...]:
        """The other protocols over which messages reach the queues of this one."""
        return others(protocol, self.protocols, [name for name, each in self.protocols.items() if each.topic])

    def at(self, version: str) -> BrokerFile:
        """The file for a version of the broker; `pydantic.ValidationError` if what is laid over it does not fit."""
        later = [self.since[word] for word in sorted(self.since, key=order) if order(word) <= order(version)]
        if not later:
            return self
        data = self.model_dump(exclude={"since"})
        for table in later:
            data = laid_over(data, table)
        return BrokerFile.model_validate(data)

    def of_nodes(self, count: int) -> BrokerFile:
        """The file for a broker of so many nodes; `UsageError` if it cannot have as many."""
        if count == 1:
            return self
        if self.nodes is None or count not in self.nodes.counts:
            able = [1, *(self.nodes.counts if self.nodes else ())]
            raise UsageError.unknown(NODES, str(count), map(str, able), of=self.name, code="unknown-value")
        data = laid_over(self.model_dump(), self.nodes.changes)
        start = {**data["start"], "command": [*data["start"]["command"], *self.nodes.arguments]}
        return BrokerFile.model_validate({**data, "start": start, "title": f"{count} nodes of {self.title}"})

    def varied(self, word: object) -> BrokerFile:
        """The file with the additions of the variant of that name; itself if there is no such variant."""
        variant = self.variants.get(str(word))
        if variant is None:
            return self
        return self.model_copy(
            update={
                "title": f"{self.title} (profile {word})",
                "profiles": tuple(dict.fromkeys([*self.profiles, *variant.profiles])),
                "capabilities": self.capabilities | variant.capabilities,
                "ack_modes": {**self.ack_modes, **variant.ack_modes},
                "settings": {**self.settings, **variant.settings},
            }
        )

    def credentials(self, protocol: str, here: pathlib.Path, at: Access = OPEN) -> Access:
        """The credentials of a client: the file, then the address `at`, then the options of the user override.

        `here` is the folder of the file. Raises `UsageError` if two of them contradict each other.
        """
        found = self.access.of(protocol, here, at)
        try:
            check(found, protocol)
        except UsageError as error:
            raise error.within(f"access of {self.name} over {protocol}") from error
        return found

    def with_credentials(self, access: Access) -> BrokerFile:
        """The file whose `[access]` is overridden by the options of a user."""
        return self.model_copy(update={"access": self.access.typed(access)})

    def without_secrets(self, text: str, here: pathlib.Path) -> str:
        """Redact the secrets of the broker's clients in a text such as a log."""
        return redact_passwords(text, *(self.access.of(protocol, here) for protocol in self.protocols))
