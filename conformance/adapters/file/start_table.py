"""The tables of a `broker.toml` that say how a broker is made, started, given its queues, asked, and stopped.

Texts may hold placeholders (`placeholders`). docs/brokers-toml.md has an example of every key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pydantic

from conformance.adapters.file.table import Inside, Pattern, Seconds, Table, Value, Word

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

    `command` makes a stock instance there. It runs once and its result is kept and copied, so `paths_in` names the
    folders whose files hold absolute paths. `files` are copied after that.
    """

    command: tuple[str, ...] = ()
    paths_in: tuple[str, ...] = ()
    files: tuple[TemplateFile, ...] = ()


class Edit(Table):
    """One deviation from the stock configuration: the element at `path` gets the text `text`, or the XML `content`."""

    path: str
    text: str | None = None
    content: str | None = None
    why: str


class Xml(Table):
    """The XML configuration file of an instance: its edits, and the XML that declares one durable queue (`{queue}`)."""

    file: str
    edits: tuple[Edit, ...] = ()
    queues_at: str
    queue: str


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
        """Whether the started process may exit while the broker goes on."""
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
    name of the queue. A broker that makes its queues by itself, by `start.each_queue` or by `[xml]` needs no such
    table. If `lasting` is `false` once it is filled, a restart does not keep queues, and every start declares them.

    `options` are rules that a queue may have of its own, by name (`max_length`: messages beyond which sends are
    refused). Each is a text with its `{value}`, which replaces `{options}` in `body` or `command`.

    `remove` removes a queue and its messages: an address, which gets a DELETE, or a command. Only an external broker
    needs it, because it outlives the run.
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
            raise ValueError("expected url with method http, or command with method command")
        if self.options and not any("{options}" in text for text in (self.body, *self.command)):
            raise ValueError("options replace {options}, which neither body nor command has")
        return self


class Depth(Table):
    """How the suite asks for the depth of a queue.

    Over HTTP: an address, and the `field` of its JSON answer. Over AMQP: a management request to `address` with these
    application properties, and the `field` of the answer if that is a map. Texts may hold `{queue}`. `needs` says what
    the broker must have to answer, for the error if it does not. With `relayed` the request is sent without a link to
    `address`, for a broker that would create a queue of that name. Only an external broker that speaks neither AMQP nor
    STOMP needs no such table.
    """

    method: Literal["http", "amqp-management"]
    url: str = ""
    field: str = ""
    address: str = ""
    properties: Mapping[str, str] = {}
    needs: str = ""
    relayed: bool = False


class Policies(Depth):
    """How the suite asks an external broker for the policies of a queue, as for its depth; `body` is for AMQP.

    `fields` has, for each setting, its places in the JSON of the answer (`arguments.x-expires`). The first value that
    differs from the setting's default counts; a place that is absent, or null, is skipped. `present` is a place that a
    complete answer has: until then the broker is asked again.
    """

    body: str = ""
    present: str
    fields: Mapping[Word, tuple[str, ...]]
