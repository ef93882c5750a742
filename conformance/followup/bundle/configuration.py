"""The configuration that the broker ran with, file by file, and how it differs from the stock one."""

from __future__ import annotations

import difflib
import pathlib
import shutil
from collections.abc import Iterator

from conformance import locks, records
from conformance.adapters import Adapter
from conformance.adapters.config import own_configuration
from conformance.adapters.file.placeholders import python_words
from conformance.adapters.launch.java import find_java
from conformance.adapters.launch.plan import BrokerSource, make_instance
from conformance.errors import ConformanceError
from conformance.followup.bundle.archive import Contents
from conformance.followup.bundle.source import BundleSource
from conformance.followup.upgrade.broker import pair_of

LARGEST = 1 << 20
"""A larger file, in bytes, is not configuration."""

_NOT_ITS_OWN = ("data", "log", "tmp", "lock")
"""Folders of an instance that hold what the broker wrote."""


def add_configuration(source: BundleSource, contents: Contents) -> None:
    """Add the effective files of the broker, its settings, unified diffs against stock, and the user's broker file."""
    if changed := _settings_diff(source):
        contents.members["configuration/settings.diff"] = changed.encode()
    kept = records.kept_broker(source.folder)
    if kept is not None and kept[0].copy and (copy := records.inside(kept[1], kept[0].copy)).is_file():
        contents.members[f"configuration/{copy.name}"] = copy.read_bytes()
    if source.broker is None:
        why = "the folder of the broker is gone, and with it its configuration: record the trial again"
        contents.missing.append(why)
        return
    pair = pair_of(source.adapter)
    brokers = {"old/": pair.old, "new/": pair.new} if pair else {"": source.adapter}
    for part, adapter in brokers.items():
        folder = records.inside(source.broker, part) if part else source.broker
        for name, data in _files(source, adapter, folder, contents.missing).items():
            if data:
                contents.members[f"configuration/{part}{name}"] = data


def _files(source: BundleSource, adapter: Adapter | None, broker: pathlib.Path, missing: list[str]) -> dict[str, bytes]:
    settings, instance = (records.inside(broker, name) for name in ("settings.toml", "instance"))
    files = {"settings.toml": settings.read_bytes()} if settings.is_file() else {}
    effective = dict(_text_files(instance))
    if own_configuration.kept_configuration(source.folder) is not None and adapter is not None:
        effective = own_configuration.public(adapter.file, effective)
    files |= {f"effective/{name}": data for name, data in effective.items()}
    if adapter is not None and adapter.file.template is not None and instance.is_dir():
        try:
            files["stock.diff"] = _stock_diff(adapter, instance, effective).encode()
        except (ConformanceError, OSError) as error:
            missing.append(f"the stock configuration could not be made here: {error}")
    return files


def _text_files(instance: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(instance.rglob("*")):
        inside = path.relative_to(instance)
        if path.is_symlink() or not path.is_file() or inside.parts[0] in _NOT_ITS_OWN:
            continue  # a link of the broker's own may lead anywhere on this machine
        if path.stat().st_size <= LARGEST:
            data = path.read_bytes()
            if b"\0" not in data:
                yield str(inside), data


def _settings_diff(source: BundleSource) -> str:
    """List what differs from stock, with the product's own names of settings if it has any."""
    known = source.adapter.file.settings if source.adapter else {}
    lines = []
    for name, value in sorted(source.record.settings.items()):
        setting = known.get(name)
        stock = (setting.default if setting.stock is None else setting.stock) if setting else None
        if setting is not None and value != stock:
            product = f"  # {setting.xml}" if setting.xml else ""
            lines += [f"-{name} = {str(stock).lower()}", f"+{name} = {str(value).lower()}{product}"]
    return "\n".join(["--- stock", "+++ effective", *lines, ""]) if lines else ""


def _stock_diff(adapter: Adapter, instance: pathlib.Path, effective: dict[str, bytes]) -> str:
    """Return a unified diff of every file against the stock instance of this version."""
    java = find_java(adapter.file.java.minimum) if adapter.file.java else None
    with locks.scratch("stock") as folder:
        stock = folder / "instance"
        words = {"home": str(adapter.install(offline=True)), "here": str(adapter.path.parent), "instance": str(stock)}
        words |= {**python_words(), **({"java": str(java.path), "java_home": str(java.home)} if java else {})}
        make_instance(BrokerSource(adapter.file, adapter.path.parent, adapter.version, adapter.install()), words)
        before = {name: data.replace(str(stock).encode(), b"<instance>") for name, data in _text_files(stock)}
        shutil.rmtree(stock)
    after = {name: data.replace(str(instance.absolute()).encode(), b"<instance>") for name, data in effective.items()}
    return "".join(_diff(name, before.get(name, b""), after.get(name, b"")) for name in sorted({*before, *after}))


def _diff(name: str, before: bytes, after: bytes) -> str:
    stock, effective = (data.decode(errors="replace").splitlines(keepends=True) for data in (before, after))
    found = difflib.unified_diff(stock, effective, f"stock/{name}", f"effective/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in found)
