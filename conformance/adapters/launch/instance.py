"""Make the folder in which a broker starts: create a stock instance, fill its placeholders, edit its XML."""

from __future__ import annotations

import hashlib
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence

from conformance import paths
from conformance.adapters.config.xml_editor import XmlText
from conformance.adapters.file.model import BrokerFile
from conformance.adapters.file.placeholders import fill, fill_known
from conformance.adapters.file.settings import EffectiveSettings, explicit, show
from conformance.adapters.file.start_table import TemplateFile
from conformance.adapters.launch.java import JavaFound
from conformance.adapters.launch.prepared import (
    READY_QUEUE,
    BrokerSource,
    Options,
    Plan,
    declared,
    start_command,
    words_of,
)
from conformance.errors import LaunchError, UsageError
from conformance.ledger import inherited
from conformance.locks import locked

_CREATE_S = 120

Create = Callable[[Sequence[str], BrokerSource, Mapping[str, str]], None]
"""Runs the product's own command that makes a stock instance."""


def make_plan(
    source: BrokerSource,
    folder: pathlib.Path,
    settings: EffectiveSettings,
    queues: Sequence[str],
    numbers: Mapping[str, int],
    *,
    java: JavaFound | None = None,
    archive: str = "",
    liar: str | None = None,
    options: Mapping[str, Options] | None = None,
    inside: Mapping[str, str] | None = None,
    create: Create | None = None,
) -> Plan:
    """Make the broker's folder (new or empty), and return the plan by which it is started.

    Args:
        source: What the broker is made from.
        folder: Its folder.
        settings: Its settings.
        queues: Its queues; the one that proves it ready is added if its file asks for that.
        numbers: Its ports by name.
        java: The Java that runs it.
        archive: The JVM option of a class archive.
        liar: The liar to start instead, if the broker has some.
        options: Rules of single queues, by queue.
        inside: The placeholders with another value where the broker runs (a container).
        create: Runs the product's command that makes a stock instance.

    Raises:
        UsageError: The broker has no liars, or no such option of a queue.
        LaunchError: The instance cannot be made.
    """
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if source.file.start.ready_message:
        queues = [*queues, READY_QUEUE]
    words = words_of(source, folder, settings, numbers, java, archive)
    own = {**words, **(inside or {})}
    make_instance(source, own, create)
    edits = edit_xml(source, settings, queues, own)
    pathlib.Path(words["data_dir"]).mkdir(parents=True, exist_ok=True)
    show(folder, settings)
    command = start_command(source, settings, declared(source, queues, options or {}), own, liar)
    files = source.file.template.files if source.file.template else ()
    changed_files = {wanted.to or wanted.file: wanted.why for wanted in files if wanted.why}
    deviations = {**edits, **changed_files, **source.file.deviations}
    return Plan(
        source, settings, tuple(queues), folder, words, command, java, deviations, inside or {}, options=options or {}
    )


def make_instance(source: BrokerSource, words: Mapping[str, str], create: Create | None = None) -> None:
    """Make `{instance}`: a copy of the stock instance, or a new folder if the broker has none; then add its files.

    Raises `LaunchError` if the command of the product fails, or if a file of the template cannot be copied.
    """
    instance = pathlib.Path(words["instance"])
    template = source.file.template
    if template is None or not template.command:
        instance.mkdir(parents=True, exist_ok=True)
    else:
        stock = _stock_instance(source, words, create or _create)
        shutil.copytree(stock, instance)
        for folder in template.paths_in:
            for file in (instance / folder).rglob("*"):
                if file.is_file():
                    _rewrite(file, str(stock), str(instance))
    for wanted in template.files if template else ():
        if not _holds(wanted, source.file, words):
            continue
        _copy(source.here / wanted.file, instance / (wanted.to or wanted.file), words)


def _holds(wanted: TemplateFile, file: BrokerFile, words: Mapping[str, str]) -> bool:
    """Whether every setting of its `when` has that value."""
    return all(file.settings[name].text(value) == words[f"setting.{name}"] for name, value in wanted.when.items())


def _copy(source: pathlib.Path, target: pathlib.Path, words: Mapping[str, str]) -> None:
    try:
        text = source.read_text(encoding="utf-8", errors="surrogateescape")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(fill_known(text, words), encoding="utf-8", errors="surrogateescape")
        shutil.copymode(source, target)
    except OSError as error:
        raise LaunchError(f"template.files: {source} cannot be copied to {target}: {error.strerror}") from error


def _stock_instance(source: BrokerSource, words: Mapping[str, str], create: Create) -> pathlib.Path:
    """The instance that the product's own command makes; made once, since that costs a JVM start (1 s).

    It holds absolute paths (of itself and of the distribution), so both are part of its key: a cache that was moved
    makes a new one.
    """
    assert source.file.template is not None  # the caller has looked
    key = "\0".join([str(source.home), *source.file.template.command])
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    stock = paths.cache() / "instances" / f"{source.file.name}-{source.version}-{digest}"
    complete = stock.with_name(stock.name + ".complete")
    with locked(stock):
        if not (complete.exists() and complete.read_text() == str(stock)):
            shutil.rmtree(stock, ignore_errors=True)
            command = [fill(part, {**words, "instance": str(stock)}) for part in source.file.template.command]
            create(command, source, words)
            complete.write_text(str(stock))
    return stock


def _create(command: Sequence[str], source: BrokerSource, words: Mapping[str, str]) -> None:
    environment = {**inherited(), **({"JAVA_HOME": words["java_home"]} if source.file.java else {})}
    try:
        made = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_CREATE_S, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchError(f"{source.file.title}: no instance could be made: {error}") from error
    if made.returncode != 0:
        tail = (made.stdout + made.stderr).splitlines()[-40:]
        raise LaunchError(f"{source.file.title}: `{command[0]}` ended with {made.returncode}", log_tail=tail)


def _rewrite(file: pathlib.Path, old: str, new: str) -> None:
    content = file.read_bytes()
    if old.encode() in content:
        file.write_bytes(content.replace(old.encode(), new.encode()))  # the mode, with its x bit, stays


def edit_xml(
    source: BrokerSource, settings: EffectiveSettings, queues: Sequence[str], words: Mapping[str, str]
) -> dict[str, str]:
    """Apply edits, settings and queues to the instance's XML file; returns the deviations, element to reason.

    A user's own configuration replaces the file.
    """
    if source.own is not None:
        return source.own.install(source.file, settings, queues, words)
    rules = source.file.xml
    if rules is None:
        return {}
    path = pathlib.Path(words["instance"]) / rules.file
    try:
        made = XmlText(path.read_bytes())
    except (OSError, UsageError) as error:
        raise LaunchError(f"{path} cannot be read: {error}") from error
    for name, setting in explicit(source.file, settings).items():
        if setting.xml is not None:
            made = made.with_value(setting.xml, setting.text(settings.values[name]))
    for edit in rules.edits:
        if edit.text is not None:
            made = made.with_value(edit.path, fill(edit.text, words))
        if edit.content is not None:
            made = made.with_content(edit.path, fill(edit.content, words))
    path.write_bytes(made.with_queues(rules, queues, words).data)
    return {edit.path.rsplit("/", 1)[-1]: edit.why for edit in rules.edits}
