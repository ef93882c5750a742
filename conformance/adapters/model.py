"""What a `broker.toml` may say: a broker is data.

Words in braces are placeholders, filled in when the broker is prepared: `{home}` (the unpacked distribution),
`{here}` (the folder of the file), `{instance}` (this broker's folder), `{data_dir}`, `{python}`, `{java}`,
`{java_home}`, `{archive}` (the JVM option of a class archive, or nothing), `{listen}` (the address to listen on) and
`{NAME_port}` for each name in `ports`.
"""

from __future__ import annotations

import pathlib
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import pydantic

from conformance.errors import UsageError

Value = pydantic.StrictBool | pydantic.StrictInt | pydantic.StrictStr
_TYPES: dict[str, type] = {"bool": bool, "int": int, "word": str}
VARIANT, LIAR = "profile", "liar"
"""Settings that make another broker of a broker: of its documented behaviour, and one that is wrong on purpose."""

Word = Annotated[str, pydantic.StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$")]


class _UnknownKeyError(Exception):
    """Carries an unknown key and its table out of pydantic, which would only say that it is extra."""

    def __init__(self, key: str, known: Iterable[str]) -> None:
        super().__init__(key)
        self.key = key
        self.known = tuple(known)


class Table(pydantic.BaseModel):
    """A table of the file: frozen, and every key known."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    @pydantic.model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        for key in data if isinstance(data, Mapping) else ():
            if key not in cls.model_fields:
                raise _UnknownKeyError(str(key), cls.model_fields)
        return data


class Protocol(Table):
    """A protocol that the broker speaks, the port it listens on, and what it can do over this protocol only.

    `ack_confirm` is how a client gets an answer to an acknowledgement: the broker's own `disposition`, or the answer
    to a `transaction` that holds only it. Over STOMP: how a queue is addressed, and headers for SEND and SUBSCRIBE,
    which may hold `{queue}`, `{prefetch}` (messages) and `{prefetch_bytes}` (1,024 a message); one with a prefetch is
    left out where deliveries need no acknowledgement.
    """

    port: str
    ack_confirm: Literal["disposition", "transaction"] | None = None
    capabilities: frozenset[str] = frozenset()
    destination: str = "{queue}"
    send: dict[str, str] = {}
    subscribe: dict[str, str] = {}


class Setting(Table):
    """A word of the common vocabulary, and what it is in this product.

    `default` is the value that the product documents for an absent key. `stock` is what its stock configuration says;
    without it the key is absent there. `follows` names the setting that decides this one; `fixed` ones cannot be
    changed. `xml` is a path in the configuration (`core/journal-datasync`), `argument` a part of the command line
    (`{name}`, `{value}`); `scale` multiplies a number on its way there. The values of a `word` are what the command
    `words` prints, one a line; those of the setting `profile` are its default and the names of the variants.
    """

    type: Literal["bool", "int", "word"]
    default: Value
    stock: Value | None = None
    description: str
    fixed: bool = False
    follows: str | None = None
    xml: str | None = None
    argument: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    scale: int = 1

    @pydantic.model_validator(mode="after")
    def _one_place(self) -> Setting:
        if not any([self.fixed, self.follows, self.xml, self.argument]):
            raise ValueError("needs one of xml, argument, follows or fixed = true")
        for value in (self.default, self.stock):
            if value is not None and type(value) is not _TYPES[self.type]:
                raise ValueError(f"{value!r} is not of type {self.type}")
        return self

    @property
    def settable(self) -> bool:
        """Whether a user can choose it."""
        return not self.fixed and self.follows is None

    def takes(self, value: object) -> bool:
        """Whether a value is of its type; `true` is no number."""
        return type(value) is _TYPES[self.type]

    def text(self, value: bool | int | str) -> str:
        """The value as the product reads it: `true`, `false`, a scaled number or a word."""
        if isinstance(value, str):
            return value
        return str(value).lower() if isinstance(value, bool) else str(value * self.scale)


class Group(Table):
    """The Maven group that holds the versions from `since` on."""

    since: str
    group: str


class Fetch(Table):
    """Maven coordinates of the distribution.

    `sha512` pins versions that were tried; it is preferred to the `.sha512` file beside the download. `folder` is the
    one that the archive unpacks to.
    """

    artifact: str
    groups: tuple[Group, ...]
    classifier: str = "bin"
    extension: str = "tar.gz"
    folder: str
    sha512: dict[str, str] = {}


class Java(Table):
    """The broker needs a Java of at least `minimum`; `archive` keeps an AppCDS archive of its classes in the cache."""

    minimum: int = 17
    archive: bool = False


class Template(Table):
    """The command that makes a stock instance in `{instance}`, and where in it absolute paths are written down."""

    command: tuple[str, ...]
    paths_in: tuple[str, ...]


class Edit(Table):
    """One deviation from the stock configuration: the element at `path` gets a text or is filled with `content`."""

    path: str
    text: str | None = None
    content: str | None = None
    why: str


class Xml(Table):
    """The XML configuration file of an instance: its edits, and what declares one durable queue (`{queue}`)."""

    file: str
    edits: tuple[Edit, ...] = ()
    queues_at: str
    queue: str


class Start(Table):
    """How it is started, when it is ready, and how it is stopped cleanly. Times in seconds.

    `{queue}` in `each_queue` is a name, or `name:option=value,...` with some of `queue_options`. `offer` is how a
    setting of any name is given (`{name}`, `{value}`), and `refused_status` how the broker ends that does not know it.
    """

    command: tuple[str, ...]
    each_queue: tuple[str, ...] = ()
    queue_options: tuple[Word, ...] = ()
    liar: tuple[str, ...] = ()
    offer: tuple[str, ...] = ()
    refused_status: int | None = None
    environment: dict[str, str] = {}
    ready_log: str
    ready_port: str
    ready_s: float = 60.0
    stop_signal: Literal["SIGTERM", "SIGINT"] = "SIGTERM"
    stop_s: float = 30.0


class Depth(Table):
    """How a queue's depth is asked for.

    An HTTP address and the field of its JSON answer, or an AMQP management request to `address` with these
    application properties. Everything may hold `{queue}`.
    """

    method: Literal["http", "amqp-management"]
    url: str = ""
    field: str = ""
    address: str = ""
    properties: dict[str, str] = {}


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
    ack_modes: dict[str, str] = {}
    settings: dict[str, Setting] = {}


class VendorImage(Table):
    """The vendor's own image of the versions from `since` on; `{version}` stands for the version."""

    since: str
    name: str


class Container(Table):
    """How the broker comes into a container.

    `dockerfile` lies beside this file: its build argument BASE_IMAGE is the vendor's image, or a plain Debian with
    `packages`; it leaves the distribution at /opt/broker. `ports` are the numbers inside, by name; a port that is not
    here has the same number inside as outside.
    """

    images: tuple[VendorImage, ...]
    dockerfile: str = "Dockerfile"
    packages: tuple[str, ...] = ()
    ports: dict[str, int] = {}

    def official(self, version: str) -> str:
        """The vendor's image of a version."""
        name = next(image.name for image in reversed(self.images) if order(image.since) <= order(version))
        return name.format(version=version)


class BrokerFile(Table):
    """A whole `broker.toml`. `ack_modes`: our modes, and the words by which a consumer asks the broker for them."""

    name: Word
    title: str
    vendor: str
    default_version: str
    versions: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    capabilities: frozenset[str]
    ports: tuple[Word, ...]
    protocols: dict[str, Protocol]
    settings: dict[str, Setting] = {}
    fetch: Fetch | None = None
    java: Java | None = None
    template: Template | None = None
    xml: Xml | None = None
    start: Start
    depth: Depth
    journal: JournalFolder
    data: Folder
    logs: Logs = Logs()
    deviations: dict[str, str] = {}
    container: Container | None = None
    ack_modes: dict[str, str] = {}
    variants: dict[Word, Variant] = {}

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> BrokerFile:
        named = {protocol.port for protocol in self.protocols.values()} | {self.start.ready_port}
        if missing := sorted(named - set(self.ports)):
            raise ValueError(f"no such port: {', '.join(missing)}; ports are {', '.join(self.ports)}")
        if self.container and (missing := sorted(self.container.ports.keys() - set(self.ports))):
            raise ValueError(f"no such port: {', '.join(missing)}; ports are {', '.join(self.ports)}")
        followed = {setting.follows for setting in self.settings.values() if setting.follows}
        if missing := sorted(followed - self.settings.keys()):
            raise ValueError(f"follows a setting that is not there: {', '.join(missing)}")
        if self.xml is None and any(setting.xml for setting in self.settings.values()):
            raise ValueError("a setting maps to xml, and there is no [xml]")
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


def order(version: str) -> tuple[int, ...]:
    """Versions compare by their numbers."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


def load(file: pathlib.Path) -> BrokerFile:
    """Read a `broker.toml`; `UsageError` names file, key and the closest known key."""
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not TOML: {error}") from error
    try:
        return BrokerFile.model_validate(data)
    except _UnknownKeyError as error:
        raise UsageError(f"{file}: {UsageError.unknown('key', error.key, error.known)}") from error
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "file"
        raise UsageError(f"{file}: {where}: {first['msg']}") from error
