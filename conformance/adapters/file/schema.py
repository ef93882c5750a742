"""The JSON Schema of a `broker.toml`, which `docs/broker.schema.json` publishes.

An editor that knows TOML (Taplo, Even Better TOML) reads it by the first line of a file, `#:schema` and its path or
address, and then completes keys, explains them and marks those that are not known. What no type can say (that a port
is one of `ports`) is checked when the file is loaded, and not here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pydantic

from conformance.adapters.file.launch_tables import COMMANDS
from conformance.adapters.file.model import BrokerFile
from conformance.protocols import PROTOCOLS

_SHORT: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "StartTable": {
        "ready_port": {"type": "array", "items": {"type": "string"}},
        "ready_http": {"type": "string"},
    },
    "External": {name: {"type": "array", "items": {"type": "string"}} for name in COMMANDS},
}
"""Short forms by table and key, which the model makes whole before it looks at types; `Queues.method` can be absent."""

_INFERRED = {"QueuesTable": ("method",), "BrokerFile": ("start", "data", "journal")}
"""Keys that the model takes from the others of its table where they are not given."""


def schema() -> dict[str, Any]:
    """Draft 2020-12: a table is described by its docstring, a key by the sentences there that name it."""
    made = BrokerFile.model_json_schema()
    for name, table in [("BrokerFile", made), *made.get("$defs", {}).items()]:
        for key, entry in table.get("properties", {}).items():
            entry.pop("title", None)
            if sentences := " ".join(_about(key, table.get("description", ""))):
                entry["description"] = sentences
            if short := _SHORT.get(name, {}).get(key):
                _also(entry, short)
        for inferred in _INFERRED.get(name, ()):
            table["required"].remove(inferred)
    by_client = [name for name, each in PROTOCOLS.items() if each.traits.queues_by_client]
    finds_out = {"properties": {"protocols": {"propertyNames": {"enum": by_client}}}}
    made["anyOf"] = [
        {"required": [*_INFERRED["BrokerFile"], "depth"]},
        {"required": ["external"]},
        {"required": [*_INFERRED["BrokerFile"]], **finds_out},
    ]
    dialect = pydantic.json_schema.GenerateJsonSchema.schema_dialect
    return {"$schema": dialect, **made, "title": "broker.toml"}


def _about(key: str, text: str) -> Iterator[str]:
    r"""The sentences of a docstring that name the key.

    >>> list(_about("default", "A word. `default` is its\n value. `stock` is another."))
    ['`default` is its value.']
    """
    for sentence in re.split(r"(?<=\.)\s+", " ".join(text.split())):
        if f"`{key}`" in sentence:
            yield sentence


def _also(entry: dict[str, Any], form: Mapping[str, Any]) -> None:
    kept = {name: entry.pop(name) for name in [*entry] if name not in ("description", "default")}
    entry["anyOf"] = [*(kept.pop("anyOf", None) or [kept]), form]


def text() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
