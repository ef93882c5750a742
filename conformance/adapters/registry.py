"""Find an adapter by name: a broker of this package, of another package, of a TOML file or a Python file."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import pathlib
import re
from collections.abc import Sequence
from typing import Any, Literal, overload

from conformance import paths
from conformance.adapters.distribution import fetch
from conformance.adapters.file.distribution_table import Progress
from conformance.adapters.file.reading import load
from conformance.adapters.file_adapter import FileAdapter
from conformance.adapters.interface import MEMBERS, Adapter
from conformance.errors import UsageError

GROUP = "conformance.adapters"
"""The entry points by which other packages declare adapters: a class each, as in `path.py:Class`."""

_SPEC = re.compile(
    r"(?P<name>[^:@]+\.py:[A-Za-z_]\w*|[^:@]+)(?:@(?P<version>[^:@]+))?(?::(?P<launcher>[^:@=]+(?:=.*)?))?", re.ASCII
)


def names() -> list[str]:
    """The brokers that this package knows, sorted."""
    return sorted(file.parent.name for file in (paths.fixtures() / "brokers").glob("*/broker.toml"))


def plugged() -> dict[str, importlib.metadata.EntryPoint]:
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
    name, version, launcher = match["name"], match["version"], match["launcher"]
    if name.endswith(".py"):
        raise _bad_spec(spec, "path.py:Class")
    if ".py:" in name:
        file, _, word = name.rpartition(":")
        path = pathlib.Path(file).absolute()
        return _made(_member(_module(path), word, path), name, version, launcher, path)
    if name in (others := plugged()):
        return _made(_loaded(others[name]), name, version, launcher, paths.fixtures())
    path = _path(name, [*names(), *others])
    return FileAdapter.of(_load(path), version, launcher, path=path, asked=name)


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
