"""Find an adapter by name, and open it: with its settings, vendor's client, configuration and credentials.

A broker is one of this package, of another package, of a TOML file or of a Python file.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import importlib.util
import pathlib
import re
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, overload

from conformance import paths
from conformance.adapters import vendor_clients
from conformance.adapters.config import own_configuration
from conformance.adapters.config.own_configuration import OwnConfig
from conformance.adapters.credentials import OPEN, Access, library_lacks
from conformance.adapters.distribution import fetch
from conformance.adapters.external.addresses import places
from conformance.adapters.file.launch_tables import Progress
from conformance.adapters.file.reading import load
from conformance.adapters.file.settings import parse_assignments
from conformance.adapters.file_adapter import FileAdapter
from conformance.adapters.interface import MEMBERS, Adapter
from conformance.adapters.vendor_clients import ClientFile
from conformance.claims import Value
from conformance.errors import UsageError
from conformance.protocols import PROTOCOLS, VENDOR_SURFACES, WIRES, describe

GROUP = "conformance.adapters"
"""The entry points by which other packages declare adapters: a class each, as in `path.py:Class`."""

_SPEC = re.compile(
    r"(?P<name>[^:@]+\.py:[A-Za-z_]\w*|[^:@]+)(?:@(?P<version>[^:@]+))?(?::(?P<launcher>[^:@=]+(?:=.*)?))?", re.ASCII
)


def names() -> list[str]:
    return sorted(file.parent.name for file in (paths.fixtures() / "brokers").glob("*/broker.toml"))


def plugged_adapters() -> dict[str, importlib.metadata.EntryPoint]:
    """The adapters of other packages, by name. A name of this package always means the adapter of this package."""
    own = set(names())
    return {point.name: point for point in importlib.metadata.entry_points(group=GROUP) if point.name not in own}


@overload
def find(spec: Literal["artemis", "reference"]) -> FileAdapter: ...
@overload
def find(spec: str) -> Adapter: ...
def find(spec: str) -> Adapter:
    """Find the adapter of `NAME[@VERSION][:LAUNCHER]`; NAME may also be the path of a TOML file, or `path.py:Class`.

    Raises `UsageError`: an unknown name (with the closest), version or launcher, a malformed address, a faulty file, or
    a class that lacks a member of `Adapter`.
    """
    match = _SPEC.fullmatch(spec)
    if spec.startswith(("external=", "native=")):
        raise _bad_spec(spec, f"NAME:{spec}")
    if match is None:
        raise _bad_spec(spec, "NAME[@VERSION][:LAUNCHER]")
    name, version_word, launcher = match["name"], match["version"], match["launcher"]
    if name.endswith(".py"):
        raise _bad_spec(spec, "path.py:Class")
    if ".py:" in name:
        file, _, word = name.rpartition(":")
        path = pathlib.Path(file).absolute()
        return _made(_member(_module(path), word, path), name, version_word, launcher, path)
    own = names()
    others = {} if name in own else plugged_adapters()  # to list them reads the metadata of every package
    if name in others:
        return _made(_loaded(others[name]), name, version_word, launcher, paths.fixtures())
    path = _path(name, [*own, *others])
    return FileAdapter.of(_load(path), version_word, launcher, path=path, asked=name)


def _bad_spec(spec: str, expected: str) -> UsageError:
    return UsageError(f"adapter {spec!r}: expected {expected}", code="bad-adapter", word=spec, expected=expected)


def fetch_to(spec: str, folder: pathlib.Path, progress: Progress | None = None) -> list[pathlib.Path]:
    """Put the distribution of `spec`, each file with its `.sha512`, into `folder`, for a machine without network."""
    adapter = find(spec)
    if not adapter.artifacts:
        raise UsageError(f"{adapter.name} has nothing to fetch: it is part of this package", code="nothing-to-fetch")
    with fetch.known_version(adapter.file, adapter.version):
        return fetch.fetch_to(adapter.artifacts, folder, progress)


_load = functools.cache(load)


def _path(name: str, known: list[str]) -> pathlib.Path:
    if name.endswith(".toml") or "/" in name:
        return pathlib.Path(name).absolute()
    if name not in known:
        raise UsageError.unknown("adapter", name, known)
    return paths.fixtures() / "brokers" / name / "broker.toml"


@functools.cache
def _module(path: pathlib.Path) -> Any:
    """Load the module of a file once; a user's mistake in it becomes one line."""
    wanted = importlib.util.spec_from_file_location(f"conformance_adapter_{path.stem}", path)
    assert wanted is not None  # its name ends in .py
    assert wanted.loader is not None
    module = importlib.util.module_from_spec(wanted)
    try:
        wanted.loader.exec_module(module)
    except Exception as error:
        raise _not_loaded(str(path), error) from error
    return module


def _member(module: Any, word: str, path: pathlib.Path) -> Any:
    classes = [name for name, value in vars(module).items() if isinstance(value, type)]
    if not hasattr(module, word):
        raise UsageError.unknown("class", word, classes).within(str(path))
    return getattr(module, word)


def _loaded(point: importlib.metadata.EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:
        raise _not_loaded(f"adapter {point.name} ({point.value})", error) from error


def _made(factory: Any, asked: str, version: str | None, launcher: str | None, path: pathlib.Path) -> Adapter:
    """Call `factory.make`; raise `UsageError` if its result lacks a member of `Adapter`."""
    if not callable(getattr(factory, "make", None)):
        raise _incomplete(asked, ["make(version, launcher, *, path, asked)"])
    try:
        adapter = factory.make(version, launcher, path=path, asked=asked)
        missing = [name for name in MEMBERS if not hasattr(adapter, name)]
    except UsageError as error:
        raise error.within(asked) from error
    except Exception as error:
        raise _not_loaded(f"{asked}: make()", error) from error
    if missing:
        raise _incomplete(asked, missing)
    made: Adapter = adapter
    return made


def _not_loaded(what: str, error: Exception) -> UsageError:
    return UsageError(f"{what} failed: {type(error).__name__}: {error}", code="adapter-failed", error=error)


def _incomplete(asked: str, missing: Sequence[str]) -> UsageError:
    text = f"{asked} is not an adapter: it lacks {', '.join(missing)}"
    return UsageError(text, code="incomplete-adapter", missing=tuple(missing))


@dataclasses.dataclass(frozen=True)
class BrokerRequest:
    """Which broker to open, and how clients connect to it.

    `adapter` is `NAME[@VERSION][:LAUNCHER]`; NAME may be a file. `protocol` is one word, or empty for the first that
    a client of the suite speaks; None means that no client is chosen, and that no credentials are checked. `settings`
    are NAME=VALUE as a user types them, `overrides` values that are known already. `config` is the user's own
    configuration, a file or folder.
    """

    adapter: str
    protocol: str | None = None
    client: str = ""
    settings: Sequence[str] = ()
    overrides: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    config: pathlib.Path | None = None
    access: Access = OPEN


@dataclasses.dataclass(frozen=True)
class OpenedBroker:
    """An adapter that is ready to prepare brokers, and what was chosen for it.

    `overrides` are the values of every setting that the request changes. `client` is None if the suite's own sessions
    are used.
    """

    adapter: Adapter
    protocol: str
    client: ClientFile | None
    overrides: Mapping[str, Value]


def open_broker(request: BrokerRequest) -> OpenedBroker:
    """Find the adapter and apply everything that the request asks for. Nothing is downloaded or started.

    Raises `UsageError`: a word is unknown, two words do not go together, a file is faulty, a secret is missing, or a
    client library of this machine lacks the SASL mechanism.
    """
    adapter = with_configuration(find(request.adapter), request.config)
    protocol, client = "", None
    if request.protocol is not None:
        protocol = choose_protocol(request.protocol, adapter)
        client = vendor_clients.choose(request.client, protocol, adapter)
        if client is not None:
            client_versions(protocol, client)  # the bridge to Java is installed
    settings = vendor_clients.with_client(adapter, client).file
    overrides = {**request.overrides, **parse_assignments(request.settings, settings)}
    # The variant comes first: a client may hide what it adds.
    adapter = vendor_clients.with_client(adapter.chosen(overrides), client)
    adapter = with_credentials(adapter, request.access)
    if request.protocol is not None:
        check_credentials(adapter, protocol, client)
    return OpenedBroker(adapter, protocol, client, overrides)


def choose_protocol(asked: str, adapter: Adapter) -> str:
    """Return the protocol that was asked for, or the first of `WIRES` that the broker speaks, or its own first one.

    Raises `UsageError` if the word is unknown, or no client of the suite speaks it with this broker. A protocol that
    no client speaks is accepted only from a broker that has no other: its run reports NOT_TRIED.
    """
    own = adapter.file.protocols
    protocol = asked or next((word for word in (*WIRES, *own) if word in own), WIRES[0])
    if next(vendor_clients.speaking(protocol, adapter.file), None):
        return protocol
    if protocol not in PROTOCOLS and (protocol not in own or set(WIRES) & set(own)):
        raise UsageError.unknown("protocol", protocol, PROTOCOLS)
    if protocol in VENDOR_SURFACES and protocol not in own:
        raise UsageError(
            f"--protocol {protocol}: no client of this suite speaks {protocol} with {adapter.file.title}",
            code="no-client",
            protocol=protocol,
            adapter=adapter.name,
        )
    adapter.capabilities(protocol)
    return protocol


def spoken(asked: str, adapter: Adapter, needed: Collection[str]) -> str:
    """Return that protocol; if the broker does not speak it, the one over which it has most capabilities of `needed`.

    A liar of the bundled broker checks the judge, not the protocol: it may lie over another one. Counter-example: the
    liar that ignores a prefetch has no such limit over AMQP 1.0.
    """
    if asked in adapter.file.protocols:
        return asked
    own = [word for word in WIRES if word in adapter.file.protocols]
    return max(own, key=lambda word: len(adapter.capabilities(word) & set(needed)))


def no_client_reason(protocol: str, adapter: Adapter) -> str:
    if protocol in WIRES or next(vendor_clients.speaking(protocol, adapter.file), None):
        return ""
    return f"No client that this suite has speaks {protocol} as {adapter.file.title} does, and it speaks nothing else."


def client_versions(protocol: str, vendor: ClientFile | None = None) -> tuple[str, dict[str, str]]:
    """Return the client library, or the vendor's client, with its version: in words and as a table.

    It is `none` for a protocol without a client, and has no version for a client of the suite that needs no library.
    Raises `UsageError` if a vendor's client needs JPype and it is not installed.
    """
    if vendor is not None:
        try:
            jpype = version("JPype1")
        except PackageNotFoundError as error:
            raise UsageError(
                f"{vendor.title} needs JPype: pip install 'ack-conformance[jms]'", code="missing-library", name="JPype1"
            ) from error
        return f"{vendor.title} {vendor.version}", {vendor.name: vendor.version, "JPype1": jpype}
    library = describe(protocol).library
    if library is None:
        return ("a client of this suite" if protocol in WIRES else "none"), {}
    name = library.distribution
    return f"{name} {version(name)}", {name: version(name)}


def with_configuration(adapter: Adapter, path: pathlib.Path | None) -> Adapter:
    """Return the adapter whose brokers run with a copy of the user's configuration at `path`; itself for None.

    Raises `UsageError`, before anything is started: a launcher or a broker that cannot use one, a file that does not
    exist or belongs to another broker, a copy that would connect to other systems, a value of another type.
    """
    if path is None:
        return adapter
    if not isinstance(adapter, FileAdapter) or adapter.file.config is None:
        raise UsageError(
            f"--config {path}: {adapter.name} has no [config] in its broker.toml, the table that says what of a "
            "configuration is a port or a path; docs/how-to/own-configuration.md has an example"
        )
    contained = adapter.launcher.contained
    reason = "its owner configures it" if adapter.launcher.owned else ""
    if reason := reason or (adapter.file.config.natively_only if contained else ""):
        raise UsageError(
            f"--config {path}: {adapter.spec}: {reason}; a copy runs natively, --adapter "
            f"{adapter.name}@{adapter.version}"
        )
    try:
        own = own_configuration.read(adapter.file, adapter.path.parent, path, contained=contained)
    except UsageError as error:
        raise error.within(f"--config {path}") from error
    return dataclasses.replace(adapter, file=own.configured, own=own)


def configuration_of(adapter: Adapter) -> OwnConfig | None:
    return adapter.own if isinstance(adapter, FileAdapter) else None


def with_credentials(adapter: Adapter, typed: Access) -> Adapter:
    """Return the adapter with the typed credentials above those of its file. No secret is read."""
    if typed == OPEN:
        return adapter
    if not dataclasses.is_dataclass(adapter):
        raise UsageError(
            f"{adapter.name} is a Python class and takes no credentials from the command line; put them into [access] "
            "of its table",
            code="credentials-of-class",
            adapter=adapter.name,
        )
    return dataclasses.replace(adapter, file=adapter.file.with_credentials(typed))


def check_credentials(adapter: Adapter, protocol: str, client: ClientFile | None = None) -> None:
    """Check, before anything is started, that clients can use these credentials over the protocol.

    Raises `UsageError`: two words do not go together, a secret is missing, or a client library has no such mechanism.
    """
    if client is not None and credentials_of(adapter, protocol) != OPEN:
        raise UsageError(
            f"--client {client.name}: vendors' clients support neither TLS nor a login here; use --protocol "
            f"{' or '.join(WIRES)}",
            code="client-without-credentials",
            client=client.name,
        )
    access = adapter.file.credentials(protocol, adapter.path.parent, _of_address(adapter, protocol))
    if access.password is not None:
        access.password.read()
    if missing := library_lacks(access):
        raise UsageError(missing, code="mechanism-not-supported", mechanism=access.mechanism)


def credentials_of(adapter: Adapter, protocol: str) -> Access:
    """Return what clients of the protocol use: what the user typed, then the address, then the file. Unchecked."""
    return adapter.file.access.of(protocol, adapter.path.parent, _of_address(adapter, protocol))


def _of_address(adapter: Adapter, protocol: str) -> Access:
    launcher = adapter.launcher
    found = places(launcher.rules.urls, adapter.file).get(protocol) if launcher.owned else None
    return found.access if found is not None else OPEN
