"""The tables of a `broker.toml` that say where a broker comes from, how it is started, asked and stopped.

`[fetch]`, `[installed]` and `[version]` are its distribution, `[template]`, `[xml]` and `[start]` make and start it,
`[queues]`, `[depth]` and `[policies]` ask it. `[external]` is a broker that is running already; it is also a file for a
broker of this package, `--adapter NAME:external=FILE.toml`. Texts may hold placeholders (`placeholders`).
docs/how-to/broker-file.md has an example of every key.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import pydantic

from conformance.adapters.file.table import Inside, Pattern, Seconds, Table, Value, Word
from conformance.claims import unmet
from conformance.errors import UsageError

Progress = Callable[[int, int | None], None]
"""Called during a download with the bytes so far and the size of the whole, which is None if it is unknown."""

Sha512 = Annotated[str, pydantic.StringConstraints(pattern=r"^[0-9a-f]{128}$")]


def _one_group(value: str) -> str:
    if value and re.compile(value).groups != 1:
        raise ValueError(f"{value!r} needs one group, the version: (...)")
    return value


VersionPattern = Annotated[Pattern, pydantic.AfterValidator(_one_group)]
Coordinates = Annotated[str, pydantic.StringConstraints(pattern=r"^[\w.-]+:[\w.-]+:[\w.-]+$")]


@dataclasses.dataclass(frozen=True)
class Artifact:
    """One file of a Maven repository: its path there, its pinned SHA-512 (hex) and its adapter."""

    path: str
    sha512: str | None
    adapter: str

    @property
    def file(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    @property
    def coordinates(self) -> str:
        *group, artifact, version, _ = self.path.split("/")
        return ":".join([".".join(group), artifact, version])


def order(version: str) -> tuple[int, ...]:
    """The numbers of a version, by which versions compare."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


def _path(group: str, artifact: str, version: str, file: str) -> str:
    return "/".join([*group.split("."), artifact, version, file])


class MavenGroup(Table):
    """The Maven group that holds the versions from `since` on."""

    since: str
    group: str


class Jar(Table):
    """One jar of a distribution: `group:artifact:version`, and its SHA-512, without which it is not used."""

    maven: Coordinates
    sha512: Sha512

    def of(self, adapter: str) -> Artifact:
        """The file in a Maven repository, for the adapter of that name."""
        group, artifact, version = self.maven.split(":")
        return Artifact(_path(group, artifact, version, f"{artifact}-{version}.jar"), self.sha512, adapter)


class Fetch(Table):
    """Maven coordinates of the distribution: of one archive, or of the jars that make it up.

    An archive is a `tar.gz` or a `zip` (`extension`); its name may have a `classifier`. `folder` is the folder that the
    archive unpacks to, or that the jars are put together in; `inside` is its name in the archive, if that is another.
    `sha512` pins versions of the archive that were tried; it is preferred to the `.sha512` file beside the download.
    `jars` are those of each version. A version without `jars` has the archive. If the file names none, the version
    cannot be fetched, since its jars have other versions. `added` are jars that go into `lib` of the archive's folder:
    an old version may need what Java had in its time.
    """

    artifact: str = ""
    groups: tuple[MavenGroup, ...] = ()
    classifier: str = "bin"
    extension: Literal["tar.gz", "zip"] = "tar.gz"
    folder: str
    inside: str = ""
    sha512: Mapping[str, Sha512] = {}
    jars: Mapping[str, tuple[Jar, ...]] = {}
    added: Mapping[str, tuple[Jar, ...]] = {}

    @pydantic.model_validator(mode="after")
    def _one_way(self) -> Fetch:
        if not (self.artifact or self.jars) or bool(self.artifact) != bool(self.groups):
            raise ValueError("expected artifact and groups for an archive, or jars, or both")
        if self.sha512 and (not self.artifact or self.sha512.keys() & self.jars.keys()):
            raise ValueError("sha512 pins an archive; each of the jars has a sum of its own")
        if self.added and (not self.artifact or self.added.keys() & self.jars.keys()):
            raise ValueError("added goes into the folder of an archive")
        if self.jars and "{version}" not in self.folder:
            raise ValueError("the jars of two versions need two folders: say {version} in folder")
        for version, jars in self.jars.items():
            files = Counter(jar.of("").file for jar in jars)
            if twice := [file for file, count in files.items() if count > 1]:
                raise ValueError(f"jars.{version}: twice in one folder: {', '.join(twice)}")
        return self

    def artifacts(self, version: str, adapter: str) -> tuple[Artifact, ...]:
        """The files of a version, for the adapter of that name; `UsageError` if it has no such version."""
        asked = f"{adapter}@{version}"
        if self.artifact and version not in self.jars:
            group = next(entry.group for entry in reversed(self.groups) if order(entry.since) <= order(version))
            named = "-".join(filter(None, [self.artifact, version, self.classifier]))
            file = f"{named}.{self.extension}"
            archive = Artifact(_path(group, self.artifact, version, file), self.sha512.get(version), asked)
            return (archive, *(jar.of(asked) for jar in self.added.get(version, ())))
        if version not in self.jars:
            raise UsageError.unknown("version", version, self.jars, of=adapter)
        return tuple(jar.of(asked) for jar in self.jars[version])


class Installed(Table):
    """A distribution that a package manager installed.

    `pattern` has one group, the version, in what `command` prints. `needs` says how to install it. `suites` are
    versions in other suites of Debian, and the names of these: each is made by debootstrap, as root, with the packages
    of `[container]`, and the broker runs with that folder as its root.
    """

    command: tuple[str, ...] = pydantic.Field(min_length=1)
    pattern: VersionPattern
    needs: str
    suites: Mapping[str, Word] = {}


class VersionTable(Table):
    """How the suite reads the version of a broker. Each pattern that finds it has one group, the version.

    `logged` is searched in what the broker prints when it starts. A start that prints another version than the one
    asked for is an error, and a broker that has printed none is not ready. `greeted` is searched in what an external
    broker calls itself: product and version in the properties of its AMQP open frame, or the header `server` of STOMP.

    `file` is the path of a file of the distribution, for a folder that the user names (`native=FOLDER`). Its group is
    the version, or it is a jar that has the version in the text file `member`, where `pattern` is searched.
    """

    logged: VersionPattern = ""
    greeted: VersionPattern = ""
    file: Pattern = ""
    member: str = ""
    pattern: VersionPattern = ""

    @pydantic.model_validator(mode="after")
    def _one_place(self) -> VersionTable:
        if bool(self.member) != bool(self.pattern) or (self.member and not self.file):
            raise ValueError("member and pattern belong together, and file is the jar that has the member")
        if self.file and re.compile(self.file).groups != (0 if self.member else 1):
            raise ValueError(f"file: {self.file!r} needs one group, the version: (...), or none beside a member")
        return self


Signal = Literal["SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2"]


class TemplateFile(Table):
    """A file beside `broker.toml` that is copied into the instance as `to` (default: its own name), with its mode.

    Known placeholders in it are filled, and all other braces stay. `why` makes it a deviation of the report. With
    `when` it is copied only if each of these settings has that value, over the file that was copied there before.
    """

    file: Inside
    to: Inside = ""
    why: str = ""
    when: Mapping[str, Value] = {}

    @pydantic.model_validator(mode="after")
    def _one_reason(self) -> TemplateFile:
        if self.when and self.why:
            raise ValueError("a file with `when` takes no `why`: settings choose it, and the report lists the settings")
        return self


class Template(Table):
    """How the folder `{instance}` is made.

    `command` makes a stock instance there, with these variables in its `environment`. It runs once and its result is
    kept and copied, so `paths_in` names the folders whose files hold absolute paths. `files` are copied after that.
    """

    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    paths_in: tuple[str, ...] = ()
    files: tuple[TemplateFile, ...] = ()


class Edit(Table):
    """One deviation from the stock configuration: the element at `path` gets the text `text`, or the XML `content`."""

    path: str
    text: str | None = None
    content: str | None = None
    why: str


class Xml(Table):
    """The XML configuration file of an instance: its edits, and the XML that declares one durable queue (`{queue}`).

    `copy_of` declares a queue that gets everything that is sent to `{address}`, which is the name of a queue as well.
    """

    file: str
    edits: tuple[Edit, ...] = ()
    queues_at: str
    queue: str
    copy_of: str = ""


class ReadyHttp(Table):
    """An address that must answer a GET with `status`; with `field`, its JSON must have `value` there.

    `field` is a path through objects and lists: `0.state`. `user:password@` in the address is its basic authentication.
    """

    url: str
    status: int = 200
    field: str = ""
    value: str = ""

    @pydantic.model_validator(mode="after")
    def _both(self) -> ReadyHttp:
        if bool(self.field) != bool(self.value):
            raise ValueError("field and value belong together")
        return self


class StartTable(Table):
    """How the broker is started, when it is ready, and how it is stopped cleanly. Times are in seconds.

    `{queue}` in `each_queue` is a name, or `name:option=value,...` with some of `queue_options`. `offer` passes a
    setting of any name (`{name}`, `{value}`); `refused_status` is the exit code of a broker that does not know it.

    The broker is ready when all of these are true: the pattern `ready_log` is in its log, something listens at every
    port of `ready_ports` (by default those of its protocols) and answers in the protocol of that port, `ready_http`
    answers as expected, and with `ready_message` a durable message was sent and received.

    A command that leaves its parent (a daemon) says so: `forks`, or a `pid_file` in its own folder, which names the
    process that gets `stop_signal`. `left_behind` are names of processes that outlive a clean stop, and are killed.
    """

    command: tuple[str, ...] = pydantic.Field(min_length=1)
    each_queue: tuple[str, ...] = ()
    queue_options: tuple[Word, ...] = ()
    liar: tuple[str, ...] = ()
    offer: tuple[str, ...] = ()
    refused_status: int | None = None
    environment: Mapping[str, str] = {}
    folder: str = ""
    ready_log: Pattern = ""
    ready_port: Word = ""
    ready_ports: tuple[Word, ...] = ()
    ready_http: ReadyHttp | None = None
    ready_message: bool = False
    ready_s: Seconds = 60.0
    forks: bool = False
    pid_file: str = ""
    left_behind: tuple[str, ...] = ()
    stop_signal: Signal = "SIGTERM"
    stop_s: Seconds = 30.0

    @pydantic.model_validator(mode="before")
    @classmethod
    def _one_or_several(cls, data: Any) -> Any:
        """Accept a list as `ready_port`, and an address as `ready_http`."""
        if not isinstance(data, Mapping):
            return data
        port, http = data.get("ready_port"), data.get("ready_http")
        if isinstance(port, str) and "ready_ports" not in data:
            data = {**data, "ready_ports": [port]}
        elif isinstance(port, list) and port:
            data = {**data, "ready_port": port[0], "ready_ports": port}
        return {**data, "ready_http": {"url": http}} if isinstance(http, str) else data

    @property
    def leaves_its_parent(self) -> bool:
        return self.forks or bool(self.pid_file)


class Remove(Table):
    """A request that removes one queue and its messages: over HTTP to `url`, or over AMQP to `address`.

    HTTP: `verb` with `headers` and `body`; the answer has one of `status`. AMQP: a message with `body` and the
    application properties `properties`, which a management address answers. With `field` the answer must have `value`
    there: in the JSON of HTTP, or in the application properties of AMQP. If the answer has the text `absent`, there is
    no such queue, and it counts as removed.
    """

    url: str = ""
    verb: Literal["DELETE", "GET", "POST", "PUT"] = "DELETE"
    headers: Mapping[str, str] = {}
    status: tuple[int, ...] = (200, 202, 204, 404)
    address: str = ""
    properties: Mapping[str, str] = {}
    body: str = ""
    field: str = ""
    value: str = ""
    absent: str = ""
    seconds: Seconds = 30.0

    @pydantic.model_validator(mode="after")
    def _one_way(self) -> Remove:
        if bool(self.url) == bool(self.address):
            raise ValueError("expected either url (HTTP) or address (AMQP), where the request goes")
        if bool(self.field) != bool(self.value):
            raise ValueError("field and value belong together")
        return self


class QueuesTable(Table):
    """How the suite declares durable queues at a ready broker, once: a restart keeps them.

    `http`: `verb` to `url` with `body`; the answer has one of `status`. `command`: its exit code is 0. `{queue}` is the
    name of the queue. `client`: clients make them, as always over MQTT. A broker that makes its queues by itself, by
    `start.each_queue` or by `[xml]`, needs no such table. If `lasting` is `false` once it is filled, a restart does not
    keep queues, and every start declares them.

    `hyphen` replaces each hyphen in the names of queues, for a broker that refuses such names.

    `options` are rules that a queue may have of its own, by name (`max_length`: messages beyond which sends are
    refused). Each is a text with its `{value}`, which replaces `{options}` in `body` or `command`.

    `remove` removes a queue and its messages: an address, which gets a DELETE, or a command. Only an external broker
    needs it, because it outlives the run.
    """

    method: Literal["http", "command", "client"]
    verb: Literal["PUT", "POST"] = "PUT"
    url: str = ""
    body: str = ""
    content_type: str = "application/json"
    status: tuple[int, ...] = (200, 201, 204)
    command: tuple[str, ...] = ()
    options: Mapping[Word, str] = {}
    remove: str | tuple[str, ...] = ()
    lasting: str = "true"
    hyphen: str = "-"
    seconds: Seconds = 30.0

    @pydantic.model_validator(mode="before")
    @classmethod
    def _method(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and "method" not in data and ("url" in data) != ("command" in data):
            return {**data, "method": "http" if "url" in data else "command"}
        return data

    @pydantic.model_validator(mode="after")
    def _has_its_own(self) -> QueuesTable:
        needed, other = (self.url, self.command) if self.method == "http" else (self.command, self.url)
        if self.method == "client":
            needed, other = "client", self.url or self.command
        if not needed or other:
            raise ValueError("expected url with method http, or command with method command")
        if self.options and not any("{options}" in text for text in (self.body, *self.command)):
            raise ValueError("options replace {options}, which neither body nor command has")
        return self


class QueueSettings(Table):
    """How settings of all queues decide what a scenario asks of its own queue (`Scenario.queue`).

    The setting `gets` receives the value of the option, where a queue has none of its own. The option is there if the
    effective settings meet `where`, and if they do not meet all of `unless`. `named` are the settings about such
    queues: if a user's own file turns one of them on, `--quick` plays the scenarios with such queues.
    """

    gets: str = ""
    where: Mapping[str, Value] = {}
    unless: Mapping[str, Value] = {}
    named: tuple[Word, ...] = ()

    def lacks(self, values: Mapping[str, Value]) -> str:
        """Return why a queue does not have the option with these effective settings; empty if it has it."""
        if missed := unmet(self.where, values, ()):
            return missed.replace("the claim", "the scenario")
        if self.unless and not unmet(self.unless, values, ()):
            return ", ".join(f"{name} is {str(values[name]).lower()}" for name in self.unless)
        return ""


class Depth(Table):
    """How the suite asks for the depth of a queue.

    Over HTTP: an address, and the `field` of its JSON answer; `a+b` is the sum of two. Over AMQP: a management request
    to `address` with these application properties, and the `field` of the answer if that is a map. By a `command` of
    the product, which runs on this machine: the one group of `pattern` in its output. Texts may hold `{queue}`. `needs`
    says what the broker must have to answer, for the error if it does not. With `relayed` the request is sent without a
    link to `address`, for a broker that would create a queue of that name. Only an external broker that speaks neither
    AMQP nor STOMP needs no such table.
    """

    method: Literal["http", "amqp-management", "command"]
    command: tuple[str, ...] = ()
    pattern: Pattern = ""
    url: str = ""
    field: str = ""
    address: str = ""
    properties: Mapping[str, str] = {}
    needs: str = ""
    relayed: bool = False

    @pydantic.model_validator(mode="after")
    def _answers(self) -> Depth:
        if self.method == "command" and not (self.command and self.pattern and re.compile(self.pattern).groups == 1):
            raise ValueError("method command needs command, and pattern with one group, the number of messages: (...)")
        return self


class Topic(Table):
    """How a client subscribes durably to a topic. Texts may hold `{topic}`: it is the client's id too.

    `address` is that of the topic, for its publisher and its subscribers. Over AMQP a subscription is known by the
    container-id `{topic}` and the link name `{queue}`, and a vendor's client makes these of its client id and the name
    of a subscription. Over STOMP, `connect`, `send` and `subscribe` are the headers that say so, with `{queue}` as
    well; the last two replace those of the protocol.
    """

    address: str
    connect: Mapping[str, str] = {}
    send: Mapping[str, str] = {}
    subscribe: Mapping[str, str] = {}


class Policies(Depth):
    """How the suite asks an external broker for the policies of a queue, as for its depth; `body` is for AMQP.

    `fields` has, for each setting, its places in the JSON object of the answer (`arguments.x-expires`). The first value
    that differs from the setting's default counts. If no place has a value, or each has null, the setting has its
    default. `present` is for a broker that adds policies to its answer later: a place that only a complete answer has.
    Until then the broker is asked again. Without `present` the first answer is complete.

    In the table of an external broker, each key replaces the one of its product.
    """

    body: str = ""
    present: str = ""
    fields: Mapping[Word, tuple[str, ...]] = {}


class Alarm(Depth):
    """How the suite asks whether the broker announces an alarm that blocks producers; `body` is for AMQP.

    The alarm is on if `pattern` is found in the answer. The status of an HTTP answer does not matter.
    """

    pattern: Pattern
    body: str = ""

    @pydantic.model_validator(mode="after")
    def _answers(self) -> Alarm:
        if bool(self.command) != (self.method == "command"):
            raise ValueError("expected command exactly with method command")
        return self


COMMANDS = ("kill", "start", "stop", "pause", "resume", "wait_ready")
"""The keys of the commands that a user can give."""

NEVER_HERE = "none: it is external"
"""The start command of a file whose broker is only ever external."""

_QUEUES = frozenset({"declare", "creates_queues", "queues", "drain_queues"})
"""Ways to get a queue: a user who gives one of them replaces all of the product's."""

_OUTSIDE: Mapping[str, Mapping[str, Any]] = {
    "start": {"command": [NEVER_HERE]},
    "data": {"path": "{instance}/data"},
    "journal": {"path": "{instance}/data"},
}


class Command(Table):
    """A command line of the user, run without a shell in the folder of its file.

    It must end with exit code 0 within `seconds`, when its work is done. A list alone is short for `command`.
    """

    command: tuple[str, ...] = pydantic.Field(min_length=1)
    seconds: Seconds = 30.0

    @pydantic.model_validator(mode="before")
    @classmethod
    def _bare(cls, data: Any) -> Any:
        return {"command": data} if isinstance(data, list | tuple) else data


class External(Table):
    """A broker that is running already: its addresses, settings and queues, and the commands for its faults.

    `urls` are addresses by protocol, and `http` is the address of its management. `management_port` is the usual port
    of the management: it is used at the host of the first address if no `http` address is given. `settings` are the
    settings it runs with; any other setting is assumed to be as the product documents it. `kill` kills the broker,
    `stop` stops it cleanly. `start` starts it again; without `start` the broker restarts by itself. `pause` stops all
    of its processes until `resume`. `wait_ready` ends when the broker is ready; the suite sends and receives a message
    in any case.

    Queues: `declare` makes and removes one (default: `queues` of the file). `creates_queues` says that the broker
    creates a queue that a client names. `queues` are existing queues, for users without the right to create one: two or
    more, empty and used by this run only. The last one is for the readiness probe. A queue that holds messages is
    skipped; with `drain_queues` its messages are consumed before it is used.

    `remove` removes a queue of the run if `declare` has no `remove`. `depth` replaces the product's own [depth], and
    `alarms` its [alarms]. The keys of `policies` replace those of its [policies]. With `same_login` the suite uses the
    login of the clients for the management, not the one in the addresses.
    """

    urls: Mapping[Word, str] = {}
    management_port: int = pydantic.Field(default=0, ge=0, le=65535)
    settings: Mapping[str, Value] = {}
    kill: Command | None = None
    start: Command | None = None
    stop: Command | None = None
    pause: Command | None = None
    resume: Command | None = None
    wait_ready: Command | None = None
    declare: QueuesTable | None = None
    creates_queues: bool = False
    queues: tuple[str, ...] = ()
    drain_queues: bool = False
    remove: Remove | None = None
    depth: Depth | None = None
    policies: Policies | None = None
    alarms: Mapping[Word, Alarm] = {}
    same_login: bool = False

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> External:
        if (self.pause is None) != (self.resume is None):
            raise ValueError("pause and resume belong together: a paused broker must be resumed")
        if len(self.queues) == 1 or len(set(self.queues)) < len(self.queues):
            raise ValueError("queues needs at least two different ones: the last is for the readiness probe")
        if self.drain_queues and not self.queues:
            raise ValueError("drain_queues needs existing queues: name them (queues = [...])")
        if sum([self.declare is not None, self.creates_queues, bool(self.queues)]) > 1:
            raise ValueError("expected one of declare, creates_queues and queues")
        return self

    def under(self, owner: External) -> External:
        """The owner's table, with the keys of this one (the product's) that the owner leaves out."""
        said = owner.model_fields_set
        kept = self.model_fields_set - said - (_QUEUES if said & _QUEUES else set())
        return owner.model_copy(update={name: getattr(self, name) for name in kept})

    def asked_of(self, policies: Policies | None) -> Policies | None:
        """How this broker is asked for policies, if its product is asked like this."""
        if policies is None or self.policies is None:
            return self.policies or policies
        return policies.model_copy(update={key: getattr(self.policies, key) for key in self.policies.model_fields_set})

    def command(self, name: str) -> Command | None:
        """The command of that key; None if the user gave none."""
        found: Command | None = getattr(self, name) if name in COMMANDS else None
        return found


def with_external_defaults(data: Any) -> Any:
    """Add `[start]`, `[data]` and `[journal]` to a file with `[external]`, which needs none of them."""
    return {**_OUTSIDE, **data} if isinstance(data, Mapping) and "external" in data else data
