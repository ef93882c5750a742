"""Make the plan and the folder of a broker: placeholders, stock instance, configuration, command line, environment."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence

from conformance import paths
from conformance.adapters import ports
from conformance.adapters.broker_log import launch_error
from conformance.adapters.config.editors import XmlText
from conformance.adapters.config.own_configuration import OwnConfig
from conformance.adapters.credentials import Access
from conformance.adapters.file.launch_tables import Alarm, Depth, Policies, TemplateFile
from conformance.adapters.file.model import BrokerFile
from conformance.adapters.file.placeholders import fill, fill_known, python_words
from conformance.adapters.file.settings import EffectiveSettings, explicit, show
from conformance.adapters.interface import READY_QUEUE, DepthProbe, Options, QueueClient
from conformance.adapters.launch.java import JavaFound
from conformance.errors import LaunchError, UsageError
from conformance.ledger import Ledger, child_environment
from conformance.locks import lock
from conformance.scenario.needs import COPIES

_CREATE_S = 120


@dataclasses.dataclass(frozen=True)
class BrokerSource:
    """What a broker is made from: its file, the folder of that file, its version, its unpacked distribution.

    `own` replaces the stock configuration. `debian`: `home` is the root of a Debian, in which the broker runs.
    """

    file: BrokerFile
    here: pathlib.Path
    version: str
    home: pathlib.Path
    own: OwnConfig | None = None
    debian: bool = False


@dataclasses.dataclass(frozen=True)
class BrokerSetup:
    """How one broker is set up; see `Adapter.prepare`. `folder` is absolute, and new or empty."""

    folder: pathlib.Path
    settings: EffectiveSettings
    queues: Sequence[str]
    ledger: Ledger
    liar: str | None = None
    options: Mapping[str, Options] = dataclasses.field(default_factory=dict)
    client: QueueClient | None = None


Create = Callable[[Sequence[str], BrokerSource, Mapping[str, str]], None]
"""Runs the product's own command that makes a stock instance."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """A broker that can be started: its source, the values of its placeholders, its command line, its folder.

    `inside` has the placeholders with another value in a container: its ports there, its Java. `options` are rules of
    single queues.
    """

    source: BrokerSource
    settings: EffectiveSettings
    queues: tuple[str, ...]
    folder: pathlib.Path
    words: dict[str, str]
    command: tuple[str, ...]
    deviations: dict[str, str]
    inside: Mapping[str, str] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Options] = dataclasses.field(default_factory=dict)

    @property
    def http_access(self) -> Access:
        """How to reach its own HTTP interface: what the file and the command line say."""
        return self.source.file.access.of("http", self.source.here)

    @property
    def own_words(self) -> dict[str, str]:
        """The placeholders for the broker and its commands; `words` are those for clients on this machine."""
        return {**self.words, **self.inside}

    @property
    def environment(self) -> dict[str, str]:
        """The variables of `start.environment`, for its process beside those of the suite."""
        wanted = self.source.file.start.environment
        return {name: fill(text, self.own_words, f"start.environment.{name}") for name, text in wanted.items()}

    @property
    def working_folder(self) -> pathlib.Path:
        """The working folder of the command: `start.folder`, relative to the broker's own, which is the default."""
        return self.folder / fill(self.source.file.start.folder, self.words, "start.folder")

    def named(self, queue: str) -> str:
        """Return the broker's name for a queue of the suite (`queues.hyphen`). The broker's own name stays as it is."""
        rules = self.source.file.queues
        return queue.replace("-", rules.hyphen) if rules else queue

    @property
    def pid_file(self) -> pathlib.Path | None:
        """The file of `start.pid_file`; `UsageError` if it is not in the broker's own folder."""
        wanted = self.source.file.start.pid_file
        if not wanted:
            return None
        path = pathlib.Path(os.path.normpath(self.folder / fill(wanted, self.words, "start.pid_file")))
        if not path.is_relative_to(self.folder):
            raise UsageError(f"start.pid_file: {path} is not in the broker's own folder: use {{instance}}")
        return path

    def depth_probe(self, queue: str, moved: Callable[[str], str] = str, topic: str = "") -> DepthProbe:
        """The request of `[depth]` for that queue; `moved` changes its address. `UsageError` if the file has none.

        With a `topic`, the request of `[subscription_depth]` for the durable subscription of that name.
        """
        file = self.source.file
        table, name = (file.subscription_depth, "subscription_depth") if topic else (file.depth, "depth")
        if table is None:
            raise UsageError(f"{file.name} has no [{name}], the table that says how the depth of a queue is asked for")
        return self.probe(table, queue, moved, topic)

    def alarm_probes(self, moved: Callable[[str], str] = str) -> dict[str, DepthProbe]:
        """The requests of `[alarms]` by the names of the alarms."""
        return {name: self.probe(table, "", moved) for name, table in self.source.file.alarms.items()}

    def probe(self, table: Depth, queue: str, moved: Callable[[str], str] = str, topic: str = "") -> DepthProbe:
        words = {**self.words, "queue": queue, "topic": topic}
        return DepthProbe(
            table.method,
            moved(fill(table.url, words)),
            table.field,
            fill(table.address, words),
            {name: fill(text, words) for name, text in table.properties.items()},
            fill(table.body, words) if isinstance(table, Policies | Alarm) else "",
            needs=table.needs,
            relayed=table.relayed,
            command=tuple(fill(part, words) for part in table.command),
            pattern=table.pattern,
        )


def make_plan(
    source: BrokerSource,
    setup: BrokerSetup,
    numbers: Mapping[str, int],
    *,
    java: JavaFound | None = None,
    archive: str = "",
    inside: Mapping[str, str] | None = None,
    create: Create | None = None,
    peers: Mapping[str, str] | None = None,
) -> Plan:
    """Make the broker's folder, and return the plan by which it is started.

    Its queues are those of `setup`, and the one of the readiness probe if its file asks for that.

    Args:
        source: What the broker is made from.
        setup: How this one is set up.
        numbers: Its ports by name.
        java: The Java that runs it.
        archive: The JVM option of a class archive.
        inside: The placeholders with another value where the broker runs (a container).
        create: Runs the product's command that makes a stock instance.
        peers: The placeholders of a node of several: which it is, and the ports of the others.

    Raises:
        UsageError: The broker has no liars, or no such option of a queue.
        LaunchError: The instance cannot be made.
    """
    folder, settings = setup.folder, setup.settings
    folder.mkdir(parents=True, exist_ok=True)
    queues = [*setup.queues, *([READY_QUEUE] if source.file.start.ready_message else [])]
    words = {**words_of(source, folder, settings, numbers, java, archive), **(peers or {})}
    own = {**words, **(inside or {})}
    make_instance(source, own, create)
    edits = _edit_configuration(source, settings, queues, own, _copies_of(setup.options))
    pathlib.Path(words["data_dir"]).mkdir(parents=True, exist_ok=True)
    show(folder, settings)
    command = _start_command(source, settings, _declared(source, queues, setup.options), own, setup.liar)
    files = source.file.template.files if source.file.template else ()
    changed_files = {wanted.to or wanted.file: wanted.why for wanted in files if wanted.why}
    deviations = {**edits, **changed_files, **source.file.deviations}
    return Plan(source, settings, tuple(queues), folder, words, command, deviations, inside or {}, setup.options)


def words_of(
    source: BrokerSource,
    folder: pathlib.Path,
    settings: EffectiveSettings,
    numbers: Mapping[str, int],
    java: JavaFound | None = None,
    archive: str = "",
) -> dict[str, str]:
    words = {
        "home": str(source.home),
        "here": str(source.here),
        "instance": str(folder / "instance"),
        "log_file": str(folder / "broker.log"),
        "archive": archive,
        "listen": ports.HOST,
        **python_words(),
        **{f"{name}_port": str(port) for name, port in numbers.items()},
        **{f"setting.{name}": entry.text(settings.values[name]) for name, entry in source.file.settings.items()},
    }
    if java:
        words |= {"java": str(java.path), "java_home": str(java.home)}
    return {**words, "data_dir": fill(source.file.data.path, words, "data.path")}


def _declared(source: BrokerSource, queues: Sequence[str], options: Mapping[str, Options]) -> list[str]:
    """The value of `{queue}` in `each_queue`, for each queue; `UsageError` for an unknown option."""
    found, known = [], source.file.queue_options
    for queue in queues:
        chosen = options.get(queue, ())
        for name, _ in chosen:
            if name not in known:
                raise UsageError.unknown("queue option", name, known, of=source.file.name)
        ours = [each for each in chosen if each[0] in source.file.start.queue_options]
        text = ",".join(f"{name}={str(value).lower()}" for name, value in ours)
        found.append(f"{queue}:{text}" if text else queue)
    return found


def _start_command(
    source: BrokerSource, settings: EffectiveSettings, queues: Sequence[str], words: Mapping[str, str], liar: str | None
) -> tuple[str, ...]:
    start = source.file.start
    command = [fill(part, words, "start.command") for part in start.command]
    for queue in queues:
        command += [fill(part, {**words, "queue": queue}, "start.each_queue") for part in start.each_queue]
    for name, setting in explicit(source.file, settings).items():
        value = {"name": name, "value": setting.text(settings.values[name])}
        command += [fill(part, {**words, **value}, f"settings.{name}.argument") for part in setting.argument]
    if liar is not None and not start.liar:
        raise UsageError(f"{source.file.name} has no liars: {liar!r} is one of the reference broker")
    if liar is not None:
        command += [fill(part, {**words, "liar": liar}, "start.liar") for part in start.liar]
    return tuple(command)


def make_instance(source: BrokerSource, words: Mapping[str, str], create: Create | None = None) -> None:
    """Make `{instance}`: a copy of the stock instance, or a new folder if the broker has none; then add its files.

    Raises `LaunchError` if the command of the product fails, or if a file of the template cannot be copied.
    """
    instance = pathlib.Path(words["instance"])
    template = source.file.template
    if template is None or not template.command:
        instance.mkdir(parents=True, exist_ok=True)
    else:
        stock = _stock_instance(source, template.command, words, create or _create)
        shutil.copytree(stock, instance)
        for folder in template.paths_in:
            for file in (instance / folder).rglob("*"):
                if file.is_file():
                    _replace_in(file, str(stock), str(instance))
    for wanted in template.files if template else ():
        if _applies(wanted, source.file, words):
            _copy(source.here / wanted.file, instance / (wanted.to or wanted.file), words)


def _applies(wanted: TemplateFile, file: BrokerFile, words: Mapping[str, str]) -> bool:
    return all(file.settings[name].text(value) == words[f"setting.{name}"] for name, value in wanted.when.items())


def _copy(source: pathlib.Path, target: pathlib.Path, words: Mapping[str, str]) -> None:
    try:
        text = source.read_text(encoding="utf-8", errors="surrogateescape")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(fill_known(text, words), encoding="utf-8", errors="surrogateescape")
        shutil.copymode(source, target)
    except OSError as error:
        raise LaunchError(f"template.files: {source} cannot be copied to {target}: {error.strerror}") from error


def _stock_instance(
    source: BrokerSource, wanted: Sequence[str], words: Mapping[str, str], create: Create
) -> pathlib.Path:
    """The instance that the product's own command makes; made once, since that costs a JVM start (1 s).

    It holds absolute paths (of itself and of the distribution), so both are part of its key: a cache that was moved
    makes a new one.
    """
    digest = hashlib.sha256("\0".join([str(source.home), *wanted]).encode()).hexdigest()[:12]
    stock = paths.cache() / "instances" / f"{source.file.name}-{source.version}-{digest}"
    complete = stock.with_name(stock.name + ".complete")
    with lock(stock):
        if not (complete.exists() and complete.read_text() == str(stock)):
            shutil.rmtree(stock, ignore_errors=True)
            create([fill(part, {**words, "instance": str(stock)}) for part in wanted], source, words)
            complete.write_text(str(stock))
    return stock


def _create(command: Sequence[str], source: BrokerSource, words: Mapping[str, str]) -> None:
    template = source.file.template
    environment = {**child_environment(), **({"JAVA_HOME": words["java_home"]} if source.file.java else {})}
    environment |= template.environment if template else {}
    try:
        made = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_CREATE_S, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchError(f"{source.file.title}: no instance could be made: {error}") from error
    if made.returncode != 0:
        what = f"{source.file.title}: `{command[0]}` ended with {made.returncode}"
        raise launch_error(what, made.stdout + made.stderr)


def _replace_in(file: pathlib.Path, old: str, new: str) -> None:
    content = file.read_bytes()
    if old.encode() in content:
        file.write_bytes(content.replace(old.encode(), new.encode()))  # the mode, with its x bit, stays


def _copies_of(options: Mapping[str, Options]) -> dict[str, str]:
    """Return the queues that get what is sent to another name, with that name."""
    found = {queue: dict(chosen).get(COPIES) for queue, chosen in options.items()}
    return {queue: str(address) for queue, address in found.items() if address}


def _edit_configuration(
    source: BrokerSource,
    settings: EffectiveSettings,
    queues: Sequence[str],
    words: Mapping[str, str],
    copies: Mapping[str, str],
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
    path.write_bytes(made.with_queues(rules, queues, words, copies).data)
    return {edit.path.rsplit("/", 1)[-1]: edit.why for edit in rules.edits}
