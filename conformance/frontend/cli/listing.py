"""The output of `conformance adapters`: brokers with versions, launchers, protocols, capabilities and settings."""

from __future__ import annotations

import functools
import json
import shutil
import textwrap
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from conformance.adapters import Adapter
    from conformance.adapters.file.model import BrokerFile

_WIDE = 12
_COLUMNS = 110
_AT_ITS_ADDRESS = "no [start] in its broker.toml: it is reached at its address only"


def options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of the listing; their names are the arguments of `listing`."""
    for option in (
        click.option("--schema", is_flag=True, help="Print the JSON Schema of a broker.toml instead."),
        click.option("--json", "as_json", is_flag=True, help="For machines."),
    ):
        command = option(command)
    return command


def listing(*, as_json: bool = False, schema: bool = False) -> str:
    """Describe every broker in a block of text, or all as a JSON list; or return the schema of their files.

    Brokers of other packages come last. It checks what each launcher lacks on this machine, and starts no broker.
    """
    if schema:
        from conformance.adapters.file import schema as schema_of

        return schema_of.text()
    from conformance import adapters

    told = [_found(name) for name in [*adapters.names(), *sorted(adapters.plugged())]]
    return json.dumps(told, indent=2) + "\n" if as_json else "\n".join("\n".join([*_block(one), ""]) for one in told)


def _found(name: str) -> dict[str, Any]:
    """Describe one broker, or say why it cannot be loaded."""
    from conformance import adapters
    from conformance.errors import UsageError

    try:
        return _told(adapters.find(name), name)
    except UsageError as error:
        return {"name": name, "faulty": str(error)}


def _told(adapter: Adapter, name: str) -> dict[str, Any]:
    """Describe one broker in strings and lists only."""
    from conformance.adapters import vendor_clients
    from conformance.adapters.opening import WIRES

    file = adapter.file
    clients = {word: vendor_clients.over(word) for word in file.protocols}
    return {
        "name": name,
        "title": file.full_title,
        "vendor": file.vendor,
        "versions": _versions(adapter, name),
        "other_versions": file.fetch is not None and not file.fetch.jars,
        "source": _source(file),
        "launchers": [
            {"name": "native", "lacks": _native_lacks(adapter)},
            {"name": "docker", "lacks": _docker_lacks(adapter)},
            {"name": "external", "lacks": ""},
        ],
        "capabilities": sorted(file.capabilities),
        "protocols": {
            word: {
                "client": word in WIRES or bool(clients[word]),
                "clients": clients[word],
                "capabilities": sorted(protocol.capabilities),
            }
            for word, protocol in file.protocols.items()
        },
        "profiles": list(file.profiles),
        "settings": {
            name: {
                "default": entry.default,
                "stock": entry.default if entry.stock is None else entry.stock,
                "settable": entry.settable,
                "description": entry.description,
            }
            for name, entry in file.settings.items()
        },
        "variants": {name: variant.description for name, variant in file.variants.items()},
    }


def _source(file: BrokerFile) -> str:
    """How a version comes to this machine."""
    if file.is_external:
        return "external"
    return "fetched" if file.fetch else "installed" if file.installed else "bundled"


def _versions(adapter: Adapter, name: str) -> list[dict[str, Any]]:
    """Those that the file names, then others that are there; `fetched`: it is on this machine, unpacked or not.

    A broker that is only reached at its address has the version that its owner says: none is on this machine.
    """
    from conformance import adapters
    from conformance.adapters.distribution import fetch, installed
    from conformance.adapters.file.distribution_table import order

    named = dict.fromkeys([adapter.version, *adapter.file.versions])
    there = set() if adapter.file.is_external or installed.missing(adapter.file) else set(named)
    if adapter.file.fetch is not None:
        before, _, after = adapter.file.fetch.folder.partition("{version}")
        unpacked = [path.name for path in fetch.dist().glob(f"{before}[0-9]*{after}") if path.is_dir()]
        there = {name.removeprefix(before).removesuffix(after) for name in unpacked}
        made = {word: adapters.find(f"{name}@{word}").artifacts for word in named}
        there |= {word for word, files in made.items() if all((fetch.dist() / one.file).is_file() for one in files)}
    words = [*named, *sorted(there - named.keys(), key=order)]
    return [{"version": word, "default": word == adapter.version, "fetched": word in there} for word in words]


def _native_lacks(adapter: Adapter) -> str:
    """What this machine has not; empty where it can be started here. What is fetched at its first use lacks nothing."""
    from conformance.adapters.launch.java import find_java
    from conformance.errors import LaunchError

    if adapter.file.is_external:
        return _AT_ITS_ADDRESS
    if adapter.file.java is not None:
        try:
            find_java(adapter.file.java.minimum)
        except LaunchError as error:
            return str(error)
    first = adapter.file.start.command[0]
    return "" if "{" in first or shutil.which(first) else f"{first} is not on PATH"


def _docker_lacks(adapter: Adapter) -> str:
    if adapter.file.is_external:
        return _AT_ITS_ADDRESS
    if adapter.file.container is None:
        return "no [container] in its broker.toml: it runs natively only"
    return _engine_lacks()


@functools.cache
def _engine_lacks() -> str:
    """In the words of `conformance doctor`; asked once for all brokers."""
    from conformance.frontend import doctor

    seen = doctor.check("docker")
    return "" if seen.state == "ok" else f"{seen.says}; see `conformance doctor`"


def _block(told: dict[str, Any]) -> Iterator[str]:
    if "faulty" in told:
        yield f"{told['name']}: cannot be used: {told['faulty']}"
        return
    yield f"{told['name']}: {told['title']}"
    had = [_version(version, told["source"]) for version in told["versions"]]
    versions = [*had, *(["or any other"] * told["other_versions"])]
    yield from _wrapped(
        "versions", [f"as you say: {told['name']}@VERSION"] if told["source"] == "external" else versions
    )
    for launcher in told["launchers"]:
        able = "at its address" if launcher["name"] == "external" else "can be started here"
        here = f"not here: {launcher['lacks']}" if launcher["lacks"] else able
        yield f"    {launcher['name']:{_WIDE}} {here}"
    yield from _wrapped("capabilities", told["capabilities"])
    for word, protocol in told["protocols"].items():
        untried = [] if protocol["client"] else ["and no client of this suite speaks it"]
        yield from _wrapped(f"over {word}", ["the same", *protocol["capabilities"], *untried])
    for name, setting in told["settings"].items():
        given = str(setting["stock"]).lower() if isinstance(setting["stock"], bool) else setting["stock"]
        yield f"    {name}={given or '...'}{'' if setting['settable'] else ' (fixed)'}: {setting['description']}"
    for name, says in told["variants"].items():
        yield f"    --set profile={name}: {says}"


def _version(told: dict[str, Any], had: str) -> str:
    marks = [word for mark, word in (("default", "default"), ("fetched", had)) if told[mark]]
    return f"{told['version']} ({', '.join(marks)})" if marks else str(told["version"])


def _wrapped(name: str, words: list[str]) -> Iterator[str]:
    """A comma between two words, and a line of its own for what is left."""
    first, rest = f"    {name:{_WIDE}} ", " " * (_WIDE + 5)
    yield from textwrap.wrap(", ".join(words), _COLUMNS, initial_indent=first, subsequent_indent=rest)
