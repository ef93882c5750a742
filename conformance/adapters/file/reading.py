"""Read a `broker.toml`, and report everything that is wrong with it at once.

Types are checked by the tables themselves. The checks here are about the file as a whole: a name must refer to
something, and a placeholder must be known. They work on the plain data of the file, so that an error of one kind hides
no error of the other.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import pydantic

from conformance.adapters.file.launch_tables import COMMANDS, NEVER_HERE, External, with_external_defaults
from conformance.adapters.file.model import VARIANT, BrokerFile, Setting, laid_over
from conformance.adapters.file.nodes_table import NODES, member_placeholders
from conformance.adapters.file.placeholders import MEANING, placeholders
from conformance.adapters.file.table import problems, read_toml, together
from conformance.errors import UsageError
from conformance.protocols import PROTOCOLS, WIRES

_REFERENCES = {
    "protocols.*.port": "ports",
    "start.ready_port|ready_ports": "ports",
    "nodes.beside.port": "ports",
    "container.ports": "ports",
    "settings.*.follows": "settings",
    "settings.*.choices.*.without|requires": "settings",
    "settings.*.off_with.settings": "settings",
    "template.files.*.when": "settings",
    "queue_settings.*.gets|where|unless|named": "settings",
    "policies.fields": "settings",
    "config.listeners.speaks": "protocols",
    "config.keeps": "deviations",
}
"""Where names stand (a text, a list, or the keys of a table), and the table that has them."""

_OF_OWNER = {"external.settings": "settings", "external.policies.fields": "settings"}
"""The same for the file of an external broker."""

_VALUES = ("settings.*.off_with.settings.*", "template.files.*.when.*")
"""Values of settings, each under the name of its setting."""

_QUEUE = ("queue",)
_SETTING = ("name", "value")
_REQUEST = ("queue", "http_port")  # a product whose own broker has no HTTP port may have one outside

TEXTS: Mapping[str, tuple[str, ...]] = {
    "start.command": (),
    "start.each_queue": _QUEUE,
    "start.liar": ("liar",),
    "start.offer": _SETTING,
    "start.environment.*": (),
    "start.folder|pid_file|ready_http": (),
    "start.ready_http.url": (),
    "settings.*.argument": _SETTING,
    "settings.*.choices.*.stored.pattern": _QUEUE,
    "template.command": (),
    "nodes.beside.command": (),
    "nodes.arguments": (),
    "nodes.links.name": (),
    "nodes.leads.name": (),
    "nodes.leads.url": ("queue",),
    "xml.edits.*.text|content": (),
    "xml.queue": _QUEUE,
    "xml.copy_of": (*_QUEUE, "address"),
    "queues.url|remove|lasting": _QUEUE,
    "queues.body|command": ("queue", "options"),
    "queues.options.*": ("queue", "value"),
    f"external.{'|'.join(COMMANDS)}": (),
    f"external.{'|'.join(COMMANDS)}.command": (),
    "external.declare.url|remove|lasting": _QUEUE,
    "external.declare.body|command": ("queue", "options"),
    "external.declare.options.*": ("queue", "value"),
    "external.remove|depth|policies.url|address|body|command": _REQUEST,
    "external.remove|depth|policies.headers|properties.*": _REQUEST,
    "config.rewrite.*.text": (),
    "depth|policies.url|address|body|command": _QUEUE,
    "depth|policies.properties.*": _QUEUE,
    "alarms.*.url|address|body|command": (),
    "alarms.*.properties.*": (),
    "external.alarms.*.url|address|body|command": ("http_port",),
    "external.alarms.*.properties.*": ("http_port",),
    "subscription_depth.url|address|command": (*_QUEUE, "topic"),
    "subscription_depth.properties.*": (*_QUEUE, "topic"),
    "data|journal.path": (),
    "logs.paths": (),
    "protocols.*.destination": ("queue", "prefetch", "prefetch_bytes"),
    "protocols.*.copied": ("queue", "address"),
    "protocols.*.topic.address": ("topic",),
    "protocols.*.topic.connect|send|subscribe.*": ("topic", "queue", "prefetch", "prefetch_bytes"),
    "protocols.*.connect.*": (),
    "protocols.*.send|copied_send|subscribe.*": ("queue", "prefetch", "prefetch_bytes"),
    "protocols.*.time_to_live.*": ("lives_ms", "expires_ms"),
}
"""The texts that may hold placeholders, and the placeholders that each has beside those of every text."""


def load(path: pathlib.Path) -> BrokerFile:
    """Read a `broker.toml`; `UsageError` names the file and everything that is wrong."""
    data = read_toml(path)
    try:
        return read_table(data, path.parent)
    except UsageError as error:
        raise error.within(str(path)) from error


def read_table(data: Mapping[str, Any], here: pathlib.Path) -> BrokerFile:
    """Make a table of the data of a `broker.toml` in the folder `here`; `UsageError` has every error, a line each."""
    read, found = _read(data, here)
    since = data.get("since")
    for version, table in since.items() if isinstance(since, Mapping) else ():
        if isinstance(table, Mapping):
            later = _read(laid_over({**data, "since": {}}, table), here)[1]
            found += [f"since.{version}.{line}" for line in later if line not in found]
    nodes = data.get("nodes")
    if isinstance(nodes, Mapping) and isinstance(nodes.get("changes"), Mapping):
        several = _read(laid_over({**data, "since": {}}, nodes["changes"]), here)[1]
        found += [f"nodes.changes.{line}" for line in several if line not in found]
    if read is None or found:
        raise together(found)
    return read


def _read(data: Mapping[str, Any], here: pathlib.Path) -> tuple[BrokerFile | None, list[str]]:
    read, found = None, []
    try:
        read = BrokerFile.model_validate(data)
    except pydantic.ValidationError as error:
        found = problems(error, BrokerFile)
    return read, [*found, *_problems(with_external_defaults(data), here)]


def check_external(file: BrokerFile, rules: External) -> None:
    """Raise `UsageError` if these rules have an unknown placeholder, or a setting that the file does not have."""
    data = {**file.model_dump(include={"ports", "settings", "variants"}), "external": rules.model_dump()}
    if found := [*_unknown_placeholders(data), *_unknown_names(data, _OF_OWNER)]:
        raise together(found)


def uses(file: BrokerFile, here: pathlib.Path) -> set[str]:
    """Every placeholder that the file, or a file of its template, uses."""
    return _used(file.model_dump(), here)


def _at(data: Any, path: str) -> list[tuple[str, Any]]:
    """Each value at a path, with its place. `*` is every key or item, and `a|b` is either of two.

    >>> _at({"a": {"x": {"b": 1}, "y": {"c": 2}}}, "a.*.b|c")
    [('a.x.b', 1), ('a.y.c', 2)]
    """
    found = [("", data)]
    for step in path.split("."):
        found = [
            (f"{place}.{key}" if place else str(key), value)
            for place, table in found
            for key, value in _items(table)
            if step == "*" or key in step.split("|")
        ]
    return found


def _items(table: Any) -> list[tuple[Any, Any]]:
    if isinstance(table, Mapping):
        return [(key, value) for key, value in table.items() if value is not None]  # None: of a table that was read
    return list(enumerate(table)) if isinstance(table, list | tuple) else []


def _names(value: Any) -> list[str]:
    every = value if isinstance(value, list | tuple | Mapping | frozenset | set) else [value]
    return [name for name in every if isinstance(name, str)]


def _problems(data: Mapping[str, Any], here: pathlib.Path) -> Iterator[str]:
    yield from _unknown_names(data, _REFERENCES)
    yield from _wrong_values(data)
    yield from _unknown_placeholders(data)
    yield from _contradictions(data)
    yield from _unplaced_settings(data, here)


def _unknown_names(data: Mapping[str, Any], references: Mapping[str, str]) -> Iterator[str]:
    for path, table in references.items():
        known = data.get(table, None if table == "ports" else {})
        if not isinstance(known, Mapping | list | tuple):
            continue  # that is an error of its own
        for place, value in _at(data, path):
            for name in _names(value):
                if name not in known:
                    yield f"{place}: {UsageError.unknown(table.removesuffix('s'), name, _names(known))}"


def _wrong_values(data: Mapping[str, Any]) -> Iterator[str]:
    for place, value in (found for path in _VALUES for found in _at(data, path)):
        name = place.rpartition(".")[2]
        with contextlib.suppress(pydantic.ValidationError, KeyError, TypeError):  # errors of their own
            setting = Setting.model_validate(data["settings"][name])
            if not setting.takes(value):
                expected = " or ".join(map(repr, setting.choices)) or setting.type
                yield f"{place}: {value!r} is not a value of the setting {name}: expected {expected}"


def texts(data: Mapping[str, Any]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Each text that may hold placeholders: its place, itself, and the placeholders of its own."""
    for path, own in TEXTS.items():
        for place, value in _at(data, path):
            texts = value if isinstance(value, list | tuple) else [value]
            yield from ((place, text, own) for text in texts if isinstance(text, str))


def _known(data: Mapping[str, Any]) -> set[str]:
    settings = {f"setting.{name}" for name, _, _ in _settings(data)}
    ports = [name for _, names in [*_at(data, "ports"), *_at(data, "nodes.changes.ports")] for name in _names(names)]
    counts = [count for _, each in _at(data, "nodes.counts") for _, count in _items(each) if isinstance(count, int)]
    return {
        *MEANING,
        *settings,
        *(f"{name}_port" for name in ports),
        *(member_placeholders(counts, ports) if counts else ()),
    }


def _settings(data: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """Each setting of the broker and of its variants: name, place and table."""
    every = [*_at(data, "settings.*"), *_at(data, "variants.*.settings.*")]
    return [(place.rpartition("settings.")[2], place, table) for place, table in every]


def _unknown_placeholders(data: Mapping[str, Any]) -> Iterator[str]:
    known = _known(data)
    for place, text, own in texts(data):
        for word in placeholders(text):
            if word not in known and word not in own:
                yield f"{place}: {UsageError.unknown('placeholder', word, {*known, *own})}"


def _contradictions(data: Mapping[str, Any]) -> Iterator[str]:
    """Keys that need others."""
    settings = dict(_items(data.get("settings")))
    if data.get("depth") is None and _needs_depth(data):
        yield "depth: required: without it the suite cannot tell an empty queue from a stuck one"
    if data.get("policies") is not None and not _at(data, "policies.fields"):
        yield "policies.fields: required: without it no policy is read from the answer"
    if data.get("xml") is None:
        for place, _ in _at(data, "settings.*.xml"):
            yield f"{place}: this is a place in the file of [xml], which is missing"
    versions = {*_names(data.get("default_version")), *_names(data.get("versions", []))}
    for place, jars in _at(data, "fetch.jars"):
        if missing := sorted(versions - {*_names(jars)} if jars and not _at(data, "fetch.artifact") else ()):
            yield f"{place}: expected the jars of every version of the file, and {', '.join(missing)} has none"
    for place, options in _at(data, "start.queue_options"):
        if options and not _at(data, "start.each_queue"):
            yield f"{place}: these are words of start.each_queue, which is missing"
    if data.get("variants") and ("type", "word") not in _items(settings.get(VARIANT)):
        yield f"variants: they are chosen by a setting {VARIANT} of type word, which is missing"
    for place, _ in _at(data, "variants.*.settings.*"):
        if place.rpartition(".")[2] in settings:
            yield f"{place}: the broker has this setting already; give it another name"


def _needs_depth(data: Mapping[str, Any]) -> bool:
    """Whether a client must ask the broker how much a queue holds, over one of its protocols at least."""
    spoken = {*_names(data.get("protocols"))}
    by_client = {word for word in WIRES if PROTOCOLS[word].traits.queues_by_client}
    if _is_external(data):
        return bool(spoken & {*WIRES} - by_client)
    return not spoken or not spoken <= by_client


def _is_external(data: Mapping[str, Any]) -> bool:
    return any(_names(command) == [NEVER_HERE] for _, command in _at(data, "start.command"))


def _unplaced_settings(data: Mapping[str, Any], here: pathlib.Path) -> Iterator[str]:
    used = _used(data, here)
    for name, place, table in _settings(data):
        filled = f"setting.{name}" in used
        keys = {key for key, value in _items(table) if value or key == "stock"}
        if not (filled or keys & {"fixed", "follows", "xml", "argument"} or _is_external(data)):
            yield f"{place}: expected xml, argument, follows or fixed = true, or {{setting.{name}}} in a text"
        if filled and not keys & {"fixed", "follows", "stock"}:
            yield f"{place}: {{setting.{name}}} is always filled, so the key is never absent: say what is `stock`"


def _used(data: Mapping[str, Any], here: pathlib.Path) -> set[str]:
    """The placeholders in the texts of the file and of its template files, and the settings that choose files or nodes.

    Without those of `xml.queue`: the declaration of a queue only repeats a setting, whose key may be absent elsewhere.
    """
    found = {word for place, text, _ in texts(data) if place != "xml.queue" for word in placeholders(text)}
    found |= {f"setting.{NODES}"} if data.get("nodes") else set()
    found |= {f"setting.{name}" for _, when in _at(data, "template.files.*.when") for name in _names(when)}
    for _, file in _at(data, "template.files.*.file"):
        with contextlib.suppress(OSError, TypeError):  # reported when it is copied
            found |= _known(data) & set(placeholders((here / file).read_text(encoding="utf-8", errors="replace")))
    return found
