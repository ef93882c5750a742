"""The tables `[start]` and `[queues]` of a `broker.toml`: make an instance, start it, declare queues, stop it.

Every text may hold placeholders; `words` has the table of them. docs/brokers-toml.md has an example of every key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pydantic

from conformance.adapters.file.table import Inside, Pattern, Seconds, Table, Word

Signal = Literal["SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2"]


class TemplateFile(Table):
    """A file beside `broker.toml` that is copied into the instance as `to` (default: its own name), mode and all.

    In its text known placeholders are filled, and all other braces stay. `why` makes it a deviation of the report. With
    `when` it is copied only where each of these settings has that value, over what was copied there before.
    """

    file: Inside
    to: Inside = ""
    why: str = ""
    when: Mapping[str, pydantic.StrictBool | pydantic.StrictInt | pydantic.StrictStr] = {}

    @pydantic.model_validator(mode="after")
    def _told_once(self) -> TemplateFile:
        if self.when and self.why:
            raise ValueError("a file with `when` is chosen by settings, which the report tells by themselves: no `why`")
        return self


class Template(Table):
    """How `{instance}` comes to be.

    `command` makes a stock instance there; it is run once and its result kept, so `paths_in` names the folders in which
    it writes absolute paths down. `files` are copied after that.
    """

    command: tuple[str, ...] = ()
    paths_in: tuple[str, ...] = ()
    files: tuple[TemplateFile, ...] = ()


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


class ReadyHttp(Table):
    """An address that must answer a GET with `status`, and where `field` is given with that `value` in its JSON.

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
    """How it is started, when it is ready, and how it is stopped cleanly. Times in seconds.

    `{queue}` in `each_queue` is a name, or `name:option=value,...` with some of `queue_options`. `offer` is how a
    setting of any name is given (`{name}`, `{value}`), and `refused_status` how the broker ends that does not know it.

    It is ready when everything that is said here has come true: the pattern `ready_log` is in its log, something
    listens at every `ready_ports` (by default those of its protocols) and answers in the protocol of that port,
    `ready_http` gives its answer, and with `ready_message` a durable message went in and out again.

    A command that leaves its parent (a daemon) says so: `forks`, or a `pid_file` in its own folder, which names the
    process that `stop_signal` is for. `left_behind` are names of processes that outlive a clean stop, and are ended.
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
        """`ready_port` may be a list, and `ready_http` a mere address."""
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
        """Whether the process that was started may end while the broker goes on."""
        return self.forks or bool(self.pid_file)


class Remove(Table):
    """A request that removes one queue, with all that is in it: over HTTP to `url`, or over AMQP to `address`.

    HTTP: `verb` with `headers` and `body`, answered with one of `status`. AMQP: a message with `body` and `properties`
    as its application properties, which a management address answers. Where `field` is given, the answer must have
    `value` there: in the JSON of HTTP, or in the application properties of AMQP. An answer with the text `absent` says
    that there is no such queue, which is as good.
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
            raise ValueError("one of url (HTTP) and address (AMQP) says where the request goes")
        if bool(self.field) != bool(self.value):
            raise ValueError("field and value belong together")
        return self


class QueuesTable(Table):
    """How durable queues are declared at a broker that is ready, one after another, once: a restart keeps them.

    `http`: `verb` to `url` with `body`, answered with one of `status`. `command`: it ends with 0. `{queue}` is the name
    of the queue. What a broker does by itself, by `start.each_queue` or by `[xml]` needs no such table. Where `lasting`
    comes to be `false`, a restart does not keep them, and every start declares them.

    `options` are rules that a queue may have of its own, by name (`max_length`: messages beyond which sends are
    refused): what each puts where `{options}` stands in `body` or `command`, with its `{value}`.

    `remove` takes a queue away again, with all that is in it: an address, which gets a DELETE, or a command. It is for
    a broker that outlives the run, and so used for none but an external one.
    """

    method: Literal["http", "command"]
    verb: Literal["PUT", "POST"] = "PUT"
    url: str = ""
    body: str = ""
    content_type: str = "application/json"
    status: tuple[int, ...] = (200, 201, 204)
    command: tuple[str, ...] = ()
    options: Mapping[Word, str] = {}
    remove: str | tuple[str, ...] = ()
    lasting: str = "true"
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
        if not needed or other:
            raise ValueError("method http goes with url, method command with command")
        if self.options and not any("{options}" in text for text in (self.body, *self.command)):
            raise ValueError("options are put where {options} stands, and neither body nor command has it")
        return self


class Depth(Table):
    """How a queue's depth is asked for.

    An HTTP address and the field of its JSON answer, or an AMQP management request to `address` with these
    application properties; the `field` of its answer where that is a map. Everything may hold `{queue}`. `needs` says
    what the broker must have to answer, for the error if it does not. With `relayed` the request is sent without a link
    to `address`, for a broker that would create a queue of that name. Only a broker that is external and speaks neither
    AMQP nor STOMP may be without: nothing asks it yet.
    """

    method: Literal["http", "amqp-management"]
    url: str = ""
    field: str = ""
    address: str = ""
    properties: Mapping[str, str] = {}
    needs: str = ""
    relayed: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """Each text that may hold words in braces."""
        return (self.url, self.address, *self.properties.values())
