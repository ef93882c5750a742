"""The model of a `broker.toml`.

Words in braces are placeholders, filled in when the broker is prepared; `placeholders` says which there are. How a
broker is set up, started and given its queues is in `start_table`.
"""

from __future__ import annotations

import pathlib
import tomllib
from collections.abc import Mapping
from typing import Any, Literal

import pydantic

from conformance.adapters.distribution.installed import Installed
from conformance.adapters.file import placeholders as words
from conformance.adapters.file.config_table import Config
from conformance.adapters.file.credentials_table import AccessTable
from conformance.adapters.file.distribution_table import Fetch, order
from conformance.adapters.file.external_table import NEVER_HERE, External, outside
from conformance.adapters.file.start_table import Depth, QueuesTable, StartTable, Template, Xml
from conformance.adapters.file.table import Inside, Pattern, Table, Word, problems
from conformance.errors import UsageError

Value = pydantic.StrictBool | pydantic.StrictInt | pydantic.StrictStr
_TYPES: dict[str, type] = {"bool": bool, "int": int, "word": str, "text": str}
_SPOKEN = frozenset({"amqp", "stomp"})
_NO_DEPTH = "required: without it the suite cannot tell an empty queue from a stuck one"
VARIANT, LIAR = "profile", "liar"
"""Settings that make another broker of a broker: of its documented behaviour, and one that is wrong on purpose."""


class Protocol(Table):
    """A protocol that the broker speaks, the port it listens on, and what it can do over this protocol only.

    `ack_confirm` is how a client gets an answer to an acknowledgement: the broker's own `disposition`, or the answer
    to a `transaction` that holds only it. `destination` is how a queue is addressed: over AMQP the address of a source
    or a target, over STOMP the header. Over STOMP only: `virtual_host`, the `host` header of CONNECT (default: the name
    of the machine), and headers for SEND and SUBSCRIBE, which may hold `{queue}`, `{prefetch}` (messages) and
    `{prefetch_bytes}` (1,024 a message); one with a prefetch is left out where deliveries need no acknowledgement.

    Over AMQP only: `outcomes` are those that it knows (section 3.4): a sender names them in its attach, and no consumer
    gives another. Over STOMP only: `transacted_sends` says when a SEND in a transaction gets its RECEIPT: `at_once`, or
    `at_commit`, and after an ABORT never. Then nobody waits for it before, and a COMMIT counts as answered when all of
    its sends are.
    """

    port: str
    ack_confirm: Literal["disposition", "transaction"] | None = None
    outcomes: tuple[Literal["accepted", "rejected", "released", "modified"], ...] = pydantic.Field(
        default=("accepted", "rejected", "released", "modified"), min_length=1
    )
    capabilities: frozenset[str] = frozenset()
    destination: str = "{queue}"
    virtual_host: str = ""
    send: Mapping[str, str] = {}
    subscribe: Mapping[str, str] = {}
    transacted_sends: Literal["at_once", "at_commit"] = "at_once"


class QueueFiles(Table):
    """Files below `{data_dir}` (`*` stands for any name) of which one has the pattern of each `{queue}`.

    For a broker that answers a declaration before a kill would leave anything of it: it is ready when all stand there.
    """

    files: Inside
    pattern: Pattern


class Choice(Table):
    """One value of a setting of type `word`.

    `logged` is what the broker logs before it is ready, and only when this value is in force: a broker may fall back to
    another value and go on. `needs` is what the value rests on, for people who have to install it. `untraced` is why
    a tracer cannot make the journal's writes and syncs fail then. `requires` are values of other settings without which
    the product does not take it. `without` are settings that are of no effect then: nobody can choose them, and no
    control gives anything up by them. `stored` is where each queue stands once a restart finds it. `refused` is why
    nothing can be tried with it at all.
    """

    logged: str = ""
    needs: str = ""
    untraced: str = ""
    refused: str = ""
    requires: Mapping[str, Value] = {}
    without: tuple[Word, ...] = ()
    stored: QueueFiles | None = None


class OffWith(Table):
    """What a control switches as well in versions `before` that, or what it weakens there could not be seen."""

    before: str
    settings: Mapping[str, Value]


class Setting(Table):
    """A word of the common vocabulary, and what it is in this product.

    `default` is the value that the product documents for an absent key. `stock` is what its stock configuration says;
    without it the key is absent there. `follows` names the setting that decides this one; `fixed` ones cannot be
    changed. `xml` is a path in the configuration (`core/journal-datasync`, `broker/@persistent`), `argument` a part of
    the command line (`{name}`, `{value}`), and `{setting.NAME}` is its value elsewhere; `key` is where a user's own
    configuration has it, if that is a file of keys (`[config]`). `scale` multiplies a number on its way there, and
    `texts` are the product's own words for values: `{ false = "NEVER" }`. `reads` are patterns for words that are only
    read, each with the value that it means: `{ '\\d+' = "true" }`. The values of a `word` are the keys of
    `choices`, or what the command `words` prints, one a line; those of the setting `profile` are its default and the
    names of the variants; a `text` has any value. In a user's own configuration the places of `also` are read as well,
    and the first value that differs from the default counts. A value that is read there becomes an empty one where
    the file has nothing at `exists` (`{value}`): the queue that a policy names may be missing. `off_with` goes with a
    control that switches it off, unless that says something else.
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
                raise ValueError(f"{value!r} is none of its choices: {', '.join(self.choices)}")
        if self.choices and (self.type != "word" or self.words):
            raise ValueError("choices are those of a word, and it has either choices or words")
        return self

    @property
    def settable(self) -> bool:
        """Whether a user can choose it."""
        return not self.fixed and self.follows is None

    def takes(self, value: object) -> bool:
        """Whether a value is of its type, and one of its choices; `true` is no number."""
        return type(value) is _TYPES[self.type] and (not self.choices or value in self.choices)

    def text(self, value: bool | int | str) -> str:
        """The value as the product reads it: true, false, a scaled number, a word, or what `texts` has for these."""
        if isinstance(value, bool):
            plain = str(value).lower()
        else:
            plain = value if isinstance(value, str) else str(value * self.scale)
        return self.texts.get(plain, plain)


class Java(Table):
    """The broker needs a Java of at least `minimum`; `archive` keeps an AppCDS archive of its classes in the cache."""

    minimum: int = 17
    archive: bool = False


class Policies(Depth):
    """How a broker that runs already is asked for the policies of a queue, as for its depth; `body` is for AMQP.

    `fields` has, for each setting, its places in the JSON of the answer (`arguments.x-expires`). The first value that
    differs from the setting's default counts; a place that is not there, or null, says nothing. `present` is a place
    that a whole answer has: until then the broker is asked again.
    """

    body: str = ""
    present: str
    fields: Mapping[Word, tuple[str, ...]]

    @property
    def texts(self) -> tuple[str, ...]:
        """Each text that may hold words in braces."""
        return (*super().texts, self.body)


class Folder(Table):
    """A folder of the broker."""

    path: str


class JournalFolder(Folder):
    """The folder of the journal, and the names of its files, which faults at the disk are confined to.

    `{n}` in a name is a number that counts up from 1 (with a format: `{n:08d}`).
    """

    files: tuple[str, ...] = ()


class Logs(Table):
    """Log files that the broker writes besides its standard output."""

    paths: tuple[str, ...] = ()


class Variant(Table):
    """What the setting `profile` adds to a broker when it has this value; nothing is taken away or replaced.

    `profiles` are the products whose documents bind the broker as well, `settings` those that only this variant has.
    """

    description: str
    profiles: tuple[str, ...] = ()
    capabilities: frozenset[str] = frozenset()
    ack_modes: Mapping[str, str] = {}
    settings: Mapping[str, Setting] = {}


class VendorImage(Table):
    """The vendor's own image of the versions from `since` on; `{version}` stands for the version.

    A `bare` one has what the broker runs on and not the broker, which is put in.
    """

    since: str
    name: str
    bare: bool = False


class ContainerTable(Table):
    """How the broker comes into a container.

    `dockerfile` lies beside this file: its build argument BASE_IMAGE is the vendor's image, or a plain Debian with
    `packages`; it leaves the distribution at /opt/broker. `ports` are the numbers inside, by name; a port that is not
    here has the same number inside as outside.
    """

    images: tuple[VendorImage, ...]
    dockerfile: str = "Dockerfile"
    packages: tuple[str, ...] = ()
    ports: Mapping[str, int] = {}

    def official(self, version: str) -> VendorImage:
        """The vendor's image of a version, its name filled."""
        found = next(image for image in reversed(self.images) if order(image.since) <= order(version))
        return found.model_copy(update={"name": found.name.format(version=version)})


class BrokerFile(Table):
    """A whole `broker.toml`. `ack_modes`: our modes, and the words by which a consumer asks the broker for them.

    `unverified` says what a file rests on that nobody has tried; every list and every report repeats it.
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
    protocols: dict[str, Protocol]
    settings: Mapping[str, Setting] = {}
    fetch: Fetch | None = None
    installed: Installed | None = None
    java: Java | None = None
    template: Template | None = None
    xml: Xml | None = None
    start: StartTable
    queues: QueuesTable | None = None
    depth: Depth | None = None
    policies: Policies | None = None
    journal: JournalFolder
    data: Folder
    logs: Logs = Logs()
    deviations: Mapping[str, str] = {}
    container: ContainerTable | None = None
    external: External | None = None
    access: AccessTable = AccessTable()
    config: Config | None = None
    ack_modes: Mapping[str, str] = {}
    variants: Mapping[Word, Variant] = {}

    @property
    def is_external(self) -> bool:
        """Whether it says nothing of a start: it can only be one that runs already."""
        return self.start.command == (NEVER_HERE,)

    @property
    def queue_options(self) -> tuple[str, ...]:
        """The rules that a queue may have of its own, whichever way queues are declared."""
        return (*self.start.queue_options, *(self.queues.options if self.queues else ()))

    @property
    def full_title(self) -> str:
        """The title, and what an unverified file rests on."""
        return f"{self.title} (unverified: {self.unverified})" if self.unverified else self.title

    @pydantic.model_validator(mode="before")
    @classmethod
    def _listens_where_it_is_spoken(cls, data: Any) -> Any:
        """Without `start.ready_port` the broker is waited for at the port of each of its protocols."""
        data = outside(data)
        start, spoken = (data.get(key) if isinstance(data, Mapping) else None for key in ("start", "protocols"))
        if not isinstance(start, Mapping) or not isinstance(spoken, Mapping):
            return data
        ports = [table["port"] for table in spoken.values() if isinstance(table, Mapping) and "port" in table]
        return data if "ready_port" in start else {**data, "start": {**start, "ready_port": [*dict.fromkeys(ports)]}}

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> BrokerFile:
        named = {protocol.port for protocol in self.protocols.values()} | set(self.start.ready_ports)
        if missing := sorted(named - set(self.ports)):
            raise ValueError(f"no such port: {', '.join(missing)}; ports are {', '.join(self.ports)}")
        if self.container and (missing := sorted(self.container.ports.keys() - set(self.ports))):
            raise ValueError(f"no such port: {', '.join(missing)}; ports are {', '.join(self.ports)}")
        followed = {setting.follows for setting in self.settings.values() if setting.follows}
        if missing := sorted(followed - self.settings.keys()):
            raise ValueError(f"follows a setting that is not there: {', '.join(missing)}")
        for choice in [choice for setting in self.settings.values() for choice in setting.choices.values()]:
            if missing := sorted({*choice.without, *choice.requires} - self.settings.keys()):
                raise ValueError(f"a choice speaks of a setting that is not there: {', '.join(missing)}")
        for one in [setting.off_with for setting in self.settings.values() if setting.off_with]:
            for name, value in one.settings.items():
                if name not in self.settings or not self.settings[name].takes(value):
                    raise ValueError(f"off_with: there is no setting {name} that can be {value!r}")
        if self.depth is None and (not self.is_external or _SPOKEN & self.protocols.keys()):
            raise ValueError(f"[depth] is missing: {_NO_DEPTH}")
        if self.policies and (missing := sorted(self.policies.fields.keys() - self.settings.keys())):
            raise ValueError(f"policies.fields: no such setting: {', '.join(missing)}")
        if self.xml is None and any(setting.xml for setting in self.settings.values()):
            raise ValueError("a setting maps to xml, and there is no [xml]")
        if self.config is not None:
            self.config.check(self.protocols, self.deviations)
        pinned = self.fetch.jars if self.fetch else {}
        if pinned and (unpinned := {self.default_version, *self.versions} - pinned.keys()):
            raise ValueError(f"fetch.jars has none for {', '.join(sorted(unpinned))}")
        if self.start.queue_options and not self.start.each_queue:
            raise ValueError("start.queue_options are words of start.each_queue, and there is none")
        if self.variants and (VARIANT not in self.settings or self.settings[VARIANT].type != "word"):
            raise ValueError(f"variants are chosen by a setting {VARIANT} of type word, and there is none")
        for name, variant in self.variants.items():
            if twice := sorted(variant.settings.keys() & self.settings.keys()):
                raise ValueError(f"variant {name} has a setting that the broker has: {', '.join(twice)}")
        return self

    def varied(self, word: object) -> BrokerFile:
        """The file with what the variant of that name adds; itself for a word that names none."""
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


def load(file: pathlib.Path) -> BrokerFile:
    """Read a `broker.toml`; `UsageError` names file, key and the closest known key."""
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{file}: not TOML: {error}") from error
    try:
        read = read_table(data, file.parent)
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from error
    return read


def read_table(data: Mapping[str, Any], here: pathlib.Path) -> BrokerFile:
    """What a `broker.toml` in the folder `here` says, as a table; `UsageError` names every key that is wrong."""
    try:
        read = BrokerFile.model_validate(data)
    except pydantic.ValidationError as error:
        told = any(each["loc"][:1] in ((), ("depth",)) for each in error.errors())  # () is what `_consistent` raised
        also = [] if told or "depth" in data or "start" not in data else [f"depth: {_NO_DEPTH}"]
        raise UsageError(problems(error, BrokerFile, *also)) from error
    words.check(read, here)
    return read
