"""The native launcher: a broker as processes of this machine, on 127.0.0.1, under this user."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Literal, Self

from conformance.adapters import configure, ports
from conformance.adapters.configure import Source
from conformance.adapters.java import JavaFound, find_java
from conformance.adapters.placeholders import fill, python_words
from conformance.adapters.settings import EffectiveSettings, explicit, show
from conformance.adapters.tree import Tree, wait_ended_now
from conformance.errors import LaunchError, UsageError
from conformance.ledger import Ledger

Options = tuple[tuple[str, bool | int], ...]
"""Names and values of a queue's own rules."""

_TAIL = 40
_TICK_MS = 20


@dataclasses.dataclass(frozen=True)
class DepthProbe:
    """How a client asks for the depth of one queue.

    `http`: GET `url`, the answer is JSON, its `field` the depth. `amqp-management`: a request to `address` with
    `properties` as application properties; the answer's body is a JSON array whose first item is the depth.
    """

    method: Literal["http", "amqp-management"]
    url: str = ""
    field: str = ""
    address: str = ""
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Plan:
    """A broker that is ready to be started: what it is, with what words its commands are filled, where it runs."""

    source: Source
    settings: EffectiveSettings
    queues: tuple[str, ...]
    folder: pathlib.Path
    words: dict[str, str]
    command: tuple[str, ...]
    java: JavaFound | None
    deviations: dict[str, str]


def prepare(
    source: Source,
    folder: pathlib.Path,
    settings: EffectiveSettings,
    queues: Sequence[str],
    ledger: Ledger,
    *,
    liar: str | None = None,
    archive: str = "",
    options: Mapping[str, Options] | None = None,
) -> Broker:
    """Make the broker's folder (which must not exist, or be empty) and reserve its ports; nothing is started.

    `options` are those of some of the queues, by name. `archive` is the JVM option of a class archive. Raises
    `UsageError` (this broker has no liars, or no such option of a queue), `LaunchError` (no Java, instance or port).
    """
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    java = find_java(source.file.java.minimum) if source.file.java else None
    reserved = ports.Ports(source.file.ports)
    try:
        words = _words(source, folder, reserved, java, archive)
        configure.make_instance(source, words)
        edits = configure.edit_xml(source, settings, queues, words)
        data = pathlib.Path(fill(source.file.data.path, words))
        data.mkdir(parents=True, exist_ok=True)
        show(folder, settings)
        command = start_command(source, settings, declared(source, queues, options or {}), words, liar)
        deviations = {**edits, **source.file.deviations}
        plan = Plan(source, settings, tuple(queues), folder, words, command, java, deviations)
        return Broker(plan, reserved, ledger)
    except BaseException:
        reserved.close()
        raise


def _words(
    source: Source, folder: pathlib.Path, reserved: ports.Ports, java: JavaFound | None, archive: str
) -> dict[str, str]:
    instance = folder / "instance"
    words = {
        "home": str(source.home),
        "here": str(source.here),
        "instance": str(instance),
        "archive": archive,
        "listen": ports.HOST,
        **python_words(),
        **{f"{name}_port": str(port) for name, port in reserved.by_name.items()},
    }
    if java:
        words |= {"java": str(java.path), "java_home": str(java.home)}
    return {**words, "data_dir": fill(source.file.data.path, words)}


def declared(source: Source, queues: Sequence[str], options: Mapping[str, Options]) -> list[str]:
    """What `{queue}` is filled with, for each queue; raises `UsageError` for an option that the broker has not."""
    found = []
    for queue in queues:
        chosen = options.get(queue, ())
        for name, _ in chosen:
            if name not in source.file.start.queue_options:
                raise UsageError.unknown(
                    f"option of a queue of {source.file.name}", name, source.file.start.queue_options
                )
        said = ",".join(f"{name}={str(value).lower()}" for name, value in chosen)
        found.append(f"{queue}:{said}" if said else queue)
    return found


def start_command(
    source: Source, settings: EffectiveSettings, queues: Sequence[str], words: Mapping[str, str], liar: str | None
) -> tuple[str, ...]:
    """The broker's command line; `UsageError` where it is to be a liar and has none."""
    start = source.file.start
    command = [fill(part, words) for part in start.command]
    for queue in queues:
        command += [fill(part, {**words, "queue": queue}) for part in start.each_queue]
    for name, setting in explicit(source.file, settings).items():
        value = {"name": name, "value": setting.text(settings.values[name])}
        command += [fill(part, {**words, **value}) for part in setting.argument]
    if liar is not None and not start.liar:
        raise UsageError(f"{source.file.name} has no liars: {liar!r} is one of the reference broker")
    if liar is not None:
        command += [fill(part, {**words, "liar": liar}) for part in start.liar]
    return tuple(command)


class Broker:
    """One broker: started, stopped, killed by others, started again on the same ports and data.

    `epoch` counts the starts, `start_seconds` has the time of each from spawn to ready. `settings`, `deviations` and
    `java` are for the report. `data` and `journal` are folders that faults look at, `journal_files` the names in it.
    """

    def __init__(self, plan: Plan, reserved: ports.Ports, ledger: Ledger) -> None:
        self.plan = plan
        self.settings = plan.settings
        self.deviations = plan.deviations
        self.java = plan.java
        self.folder = plan.folder
        self.data = pathlib.Path(fill(plan.source.file.data.path, plan.words))
        self.journal = pathlib.Path(fill(plan.source.file.journal.path, plan.words))
        self.journal_files = plan.source.file.journal.files
        self.epoch = 0
        self.start_seconds: list[float] = []
        self._ports = reserved
        self._ledger = ledger
        self._tree: Tree | None = None
        self._ticket = ""
        self._wrapped = False
        self._more: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def endpoint(self, protocol: str) -> tuple[str, int]:
        """Host and port of `protocol`; `UsageError` where the broker does not speak it."""
        protocols = self.plan.source.file.protocols
        if protocol not in protocols:
            raise UsageError.unknown(f"protocol of {self.plan.source.file.name}", protocol, protocols)
        return ports.HOST, self._ports[protocols[protocol].port]

    @property
    def contained(self) -> bool:
        """Whether it runs in a container: then its pids in there are others, and its tracer is the container's."""
        return False

    @property
    def http_port(self) -> int | None:
        """The port named `http`, where the broker has one."""
        return self._ports.by_name.get("http")

    @property
    def log(self) -> pathlib.Path:
        """Standard output and error of the newest start."""
        return self.folder / f"start-{self.epoch}.log"

    @property
    def logs(self) -> list[pathlib.Path]:
        """Every log file there is."""
        own = [pathlib.Path(fill(path, self.plan.words)) for path in self.plan.source.file.logs.paths]
        return [path for path in [*sorted(self.folder.glob("start-*.log")), *own] if path.is_file()]

    def start(self, wrap: Sequence[str] = (), *, more: Sequence[str] = ()) -> None:
        """Start it and wait until it is ready.

        `wrap` is put before its command (a tracer), `more` after it, for this start only. Raises `LaunchError` with the
        last 40 lines of its log and the log's path where it ends, or is not ready in time; nothing of it is left then.
        """
        self._refuse_twice()
        began = time.monotonic()
        try:
            self.launch(wrap, more=more)
            self._wait_ready(began)
        except BaseException:
            self._kill()
            raise
        self.start_seconds.append(time.monotonic() - began)

    def launch(self, wrap: Sequence[str] = (), *, more: Sequence[str] = ()) -> None:
        """Start it and do not wait: for who wants to hurt it before it is ready. Raises `LaunchError`."""
        self._refuse_twice()
        self._reaped()
        self.epoch += 1
        self._wrapped = bool(wrap)
        self._more = tuple(more)
        self._spawn(wrap)

    def _refuse_twice(self) -> None:
        if self._tree is not None and not self.gone():
            raise LaunchError(f"{self._title} is running already (pid {self._tree.leader.pid})")

    @property
    def was_ready(self) -> bool:
        """Whether the log of the newest start says that it was ready."""
        ready = self.plan.source.file.start.ready_log.encode()
        return self.log.is_file() and re.search(ready, self.log.read_bytes(), re.MULTILINE) is not None

    def stop(self) -> None:
        """Stop it cleanly and wait for its end; `LaunchError` where it does not end in time (it is killed then)."""
        tree = self._tree
        if tree is None or self.gone():
            self._reaped()
            return
        name = self.plan.source.file.start.stop_signal
        with contextlib.suppress(ProcessLookupError):
            os.kill(tree.main(wrapped=self._wrapped), signal.Signals[name])
        if not self.wait_gone(self.plan.source.file.start.stop_s):
            self._kill()
            raise self._error(f"did not end within {self.plan.source.file.start.stop_s:g} s of {name}")

    def processes(self) -> list[int]:
        """The pids of its whole tree, the leader first; empty where it is gone."""
        return self._tree.pids() if self._tree else []

    def pidfds(self, *, main_only: bool = False) -> contextlib.AbstractContextManager[list[int]]:
        """A pidfd for each process of the tree, closed at the end of the `with`; to be passed to a fault's owner.

        `main_only`: of the one process that a clean stop is asked of.
        """
        if self._tree is None:
            return contextlib.nullcontext([])
        return self._tree.main_pidfd(wrapped=self._wrapped) if main_only else self._tree.pidfds()

    def gone(self) -> bool:
        """Whether no process of it is left."""
        return not self.processes()

    def wait_gone(self, timeout_s: float) -> bool:
        """Wait on its pidfds until all of it is gone, and reap it; False where it is not gone after `timeout_s`."""
        ended = self._tree.wait_gone(timeout_s) if self._tree else True
        if ended:
            self._reaped()
        return ended

    @property
    def exit_status(self) -> int | None:
        """Of the newest start: None while it runs, negative where a signal ended it."""
        return self._tree.leader.poll() if self._tree else None

    def alive_check(self) -> None:
        """Raise `LaunchError` with the end of its log where it is not running although nobody here ended it."""
        if self._tree is None:
            raise LaunchError(f"{self._title} was not started")
        if self._tree.leader.poll() is not None or self.gone():
            raise self._error(f"died by itself (status {self.exit_status})")

    def depth_probe(self, queue: str) -> DepthProbe:
        """How to ask this broker for the depth of `queue`."""
        depth = self.plan.source.file.depth
        words = {**self.plan.words, "queue": queue}
        return DepthProbe(
            depth.method,
            fill(depth.url, words),
            depth.field,
            fill(depth.address, words),
            {name: fill(text, words) for name, text in depth.properties.items()},
        )

    def close(self) -> None:
        """SIGKILL whatever is left of it, and give its ports back; a second call does nothing."""
        try:
            self._kill()
        finally:
            self._ports.close()

    @property
    def _title(self) -> str:
        return f"{self.plan.source.file.title} {self.plan.source.version}"

    def _spawn(self, wrap: Sequence[str]) -> None:
        wanted = self.plan.source.file.start.environment
        environment = {name: fill(text, self.plan.words) for name, text in wanted.items()}
        command = [*wrap, *self.plan.command, *self._more]
        with self.log.open("wb") as log:
            try:
                leader, self._ticket = self._ledger.spawn(
                    self._title,
                    command,
                    env={**os.environ, **environment},
                    cwd=self.folder,
                    stdout=log,
                    stderr=log,
                )
            except OSError as error:
                raise LaunchError(f"{self._title}: {command[0]} cannot be started: {error.strerror}") from error
        self._tree = Tree(leader)

    def _wait_ready(self, began: float) -> None:
        """Until the log says so and the port answers; the pidfd tells at once when it ends instead.

        The log is a file, not a pipe: a broker must not block, or die, because its harness stopped reading.
        """
        assert self._tree is not None  # the caller has spawned it
        start = self.plan.source.file.start
        try:
            descriptor = os.pidfd_open(self._tree.leader.pid)
        except ProcessLookupError:
            raise self._error("ended at once") from None
        try:
            while time.monotonic() - began < start.ready_s:
                if wait_ended_now(descriptor, _TICK_MS):
                    raise self._error(f"ended with status {self._tree.leader.wait()} before it was ready")
                if self._is_ready():
                    return
        finally:
            os.close(descriptor)
        raise self._error(f"was not ready within {start.ready_s:g} s")

    def _is_ready(self) -> bool:
        return self.was_ready and _answers(self._ports[self.plan.source.file.start.ready_port])

    def _kill(self) -> None:
        if self._tree is not None and not self._tree.kill():
            raise self._error(f"cannot be killed: {self._tree.pids()} are left")
        self._reaped()

    def _reaped(self) -> None:
        if self._ticket:
            self._ledger.released(self._ticket)
            self._ticket = ""

    def _error(self, what: str) -> LaunchError:
        """With the end of the newest log that says anything."""
        tail = self.log.read_text(errors="replace").splitlines()[-_TAIL:] if self.log.is_file() else []
        return LaunchError(f"{self._title} {what}; its log is {self.log}", log_tail=tail, log=str(self.log))


def _answers(port: int) -> bool:
    try:
        with socket.create_connection((ports.HOST, port), timeout=1):
            return True
    except OSError:
        return False
