"""The native launcher: run a broker as processes of this machine, on 127.0.0.1, as this user."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from conformance.adapters.credentials import Access
from conformance.adapters.distribution.installed import another, missing
from conformance.adapters.file.placeholders import fill
from conformance.adapters.file.settings import EffectiveSettings, show, unheeded
from conformance.adapters.launch import instance, ports, queue_declaration
from conformance.adapters.launch.java import find_java
from conformance.adapters.launch.prepared import (
    READY_QUEUE,
    BrokerSource,
    DepthProbe,
    Options,
    Plan,
    declared,
    probe_of,
    start_command,
    words_of,
)
from conformance.adapters.launch.process_tree import MARK, LocalProcessMixin, Tree, name_of, wait_ended_now
from conformance.adapters.launch.readiness import Readiness, WrongProtocolError
from conformance.errors import ClientError, LaunchError, StartFailure, UsageError
from conformance.ledger import Ledger, inherited

_TAIL = 40
_TICK_MS = 20


def prepare(
    source: BrokerSource,
    folder: pathlib.Path,
    settings: EffectiveSettings,
    queues: Sequence[str],
    ledger: Ledger,
    *,
    liar: str | None = None,
    archive: str = "",
    options: Mapping[str, Options] | None = None,
) -> NativeBroker:
    """Make the broker's folder (which must not exist, or be empty) and reserve its ports; nothing is started.

    `options` are those of some of the queues, by name. `archive` is the JVM option of a class archive. Raises
    `UsageError` (this broker has no liars, or no such option of a queue), `LaunchError` (no Java, instance or port).
    """
    if says := missing(source.file):
        raise LaunchError(says)
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    java = find_java(source.file.java.minimum) if source.file.java else None
    if source.file.start.ready_message:
        queues = [*queues, READY_QUEUE]
    reserved = ports.Ports(source.file.ports)
    try:
        words = words_of(source, folder, settings, reserved.by_name, java, archive)
        instance.make_instance(source, words)
        edits = instance.edit_xml(source, settings, queues, words)
        data = pathlib.Path(words["data_dir"])
        data.mkdir(parents=True, exist_ok=True)
        show(folder, settings)
        command = start_command(source, settings, declared(source, queues, options or {}), words, liar)
        files = source.file.template.files if source.file.template else ()
        deviations = {**edits, **instance.template_deviations(files), **source.file.deviations}
        plan = Plan(source, settings, tuple(queues), folder, words, command, java, deviations, options=options or {})
        return NativeBroker(plan, reserved, ledger)
    except BaseException:
        reserved.close()
        raise


class NativeBroker(LocalProcessMixin):
    """One broker: started, stopped, killed by others, started again on the same ports and data.

    `epoch` counts the starts, `start_seconds` has the time of each from spawn to ready. `settings`, `deviations` and
    `java` are for the report. `data` and `journal` are folders that faults look at, `journal_files` the names in it.
    `prove_ready` sends a message through it and has it back, or raises `ClientError`; it is asked at the end of each
    start that no tracer is part of, where the file says `ready_message`.
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
        self.prove_ready: Callable[[], None] | None = None
        self._ports = reserved
        self._ledger = ledger
        self._readiness = Readiness(plan, reserved.by_name, lambda: ports.listening(self.processes()))
        self._declared = False
        self._mark = ""
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
            raise UsageError.unknown("protocol", protocol, protocols, of=self.plan.source.file.name)
        return ports.HOST, self._ports[protocols[protocol].port]

    def access(self, protocol: str) -> Access:
        """How a client of `protocol` comes in, as the file and who typed say."""
        return self.plan.source.file.credentials(protocol, self.plan.source.here)

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
        own = [fill(path, self.plan.words, "logs.paths") for path in self.plan.source.file.logs.paths]
        named = [self.plan.words[word] for word in ("log_file",) if word in self.plan.words]
        every = [*sorted(self.folder.glob("start-*.log")), *dict.fromkeys(map(pathlib.Path, [*named, *own]))]
        return [path for path in every if path.is_file()]

    def start(self, wrap: Sequence[str] = (), *, more: Sequence[str] = ()) -> None:
        """Start it and wait until it is ready; the first time its queues are declared then.

        `wrap` is put before its command (a tracer), `more` after it, for this start only. Raises `LaunchError` with the
        last 40 lines of its log and the log's path where it ends, or is not ready in time; nothing of it is left then.
        """
        self._refuse_twice()
        began = time.monotonic()
        try:
            self.launch(wrap, more=more)
            self._wait_ready(began)
            self._declare()
            self._wait(began, self._readiness.unstored)
            self._prove(began)
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
        self._mark = uuid.uuid4().hex
        self._readiness.begins()
        self._spawn(wrap)

    def _refuse_twice(self) -> None:
        if self._tree is not None and not self.gone():
            raise LaunchError(f"{self._title} is running already (pid {self._tree.leader.pid})")

    @property
    def was_ready(self) -> bool:
        """Whether the log of the newest start says that it was ready; without a pattern, whether its ports answer."""
        if self.plan.source.file.start.ready_log:
            return self._readiness.logged(self.log)
        return not self._readiness.unreached()

    def stop(self) -> None:
        """Stop it cleanly and wait for its end; `LaunchError` where it does not end in time (it is killed then)."""
        tree = self._tree
        if tree is None or self.gone():
            self._reaped()
            return
        start = self.plan.source.file.start
        with contextlib.suppress(ProcessLookupError):
            os.kill(tree.main(wrapped=self._wrapped), signal.Signals[start.stop_signal])
        if not self.wait_gone(start.stop_s):
            left = _named(self.processes())
            self._kill()
            raise self._error(
                f"did not end within {start.stop_s:g} s of {start.stop_signal} (start.stop_s, start.stop_signal) and "
                f"was killed; what was left: {left}"
            )

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
        left_behind = self.plan.source.file.start.left_behind
        ended = self._tree.wait_gone(timeout_s, left_behind) if self._tree else True
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
        if not self._tree.serves() or self.gone():
            status = self.exit_status
            failure = StartFailure.SIGNALLED if status is None or status < 0 else StartFailure.ENDED
            raise self._left() or self._error(f"died by itself (status {status})", failure)

    def depth_probe(self, queue: str) -> DepthProbe:
        """How to ask this broker for the depth of `queue`."""
        return probe_of(self.plan.source.file, {**self.plan.words, "queue": queue})

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
        start, pid_file, folder = self.plan.source.file.start, self.plan.pid_file, self.plan.working_folder
        if pid_file is not None:
            pid_file.unlink(missing_ok=True)  # of a start that was killed: its number may be another's by now
        if not folder.is_dir():
            raise LaunchError(f"{self._title}: start.folder: {folder} is no folder")
        command = [*wrap, *self.plan.command, *self._more]
        with self.log.open("wb") as log:
            try:
                leader, self._ticket = self._ledger.spawn(
                    self._title,
                    command,
                    env={**inherited(), **self._environment},
                    cwd=folder,
                    stdout=log,
                    stderr=log,
                )
            except OSError as error:
                raise LaunchError(
                    f"{self._title}: start.command: {command[0]} cannot be started: {error.strerror}"
                ) from error
        self._tree = Tree(leader, mark=self._mark, pid_file=pid_file, forks=start.leaves_its_parent)

    @property
    def _environment(self) -> dict[str, str]:
        return {**self.plan.environment, MARK: self._mark}

    def _wait_ready(self, began: float) -> None:
        """Until everything that the file asks for has come true; the pidfd tells at once when it ends instead.

        The log is a file, not a pipe: a broker must not block, or die, because its harness stopped reading.
        """
        self._wait(began, lambda: self._readiness.lacks(self.log))
        source, said = self.plan.source, self.log.read_text(errors="replace")
        if says := unheeded(source.file, self.settings, said) or another(source.file, source.version, said):
            raise self._error(says)

    @property
    def _ready_s(self) -> float:
        return max(self.plan.source.file.start.ready_s, self.patience_s)

    def _wait(self, began: float, lacks: Callable[[], str]) -> None:
        ready_s = self._ready_s
        try:
            while missing := lacks():
                if time.monotonic() - began > ready_s:
                    raise self._error(
                        f"was not ready within {ready_s:g} s (start.ready_s): {missing}", StartFailure.LATE
                    )
                self._tick()
        except WrongProtocolError as error:
            raise self._error(f"is not what the file says: {error}") from error

    def _tick(self) -> None:
        """Wait a moment on the process that serves; `LaunchError` where it has ended."""
        assert self._tree is not None  # the caller has spawned it
        tree = self._tree
        try:
            descriptor = os.pidfd_open(tree.main(wrapped=False) if tree.forks else tree.leader.pid)
        except ProcessLookupError:  # it has ended, and somebody has looked at it since
            raise self._left() or self._ended() from None
        try:
            if not wait_ended_now(descriptor, _TICK_MS):
                return
        finally:
            os.close(descriptor)
        if tree.forks and not tree.leader.poll() and self.processes():
            return  # the parent has left, or is about to
        raise self._left() or self._ended()

    def _ended(self) -> LaunchError:
        assert self._tree is not None  # likewise
        status = self._tree.leader.wait()
        failure = StartFailure.SIGNALLED if status < 0 else StartFailure.ENDED
        return self._error(f"ended with status {status} before it was ready (start.command)", failure)

    def _left(self) -> LaunchError | None:
        """What is wrong where the process that was started has ended, others go on, and the file does not say so."""
        tree = self._tree
        left = self.processes()
        if tree is None or tree.forks or tree.leader.poll() is None or not left:
            return None
        return self._error(
            f"left its parent: `{self.plan.command[0]}` ended with status {tree.leader.poll()}, and {_named(left)} "
            "goes on. Let start.command stay in the foreground, or say start.pid_file (or start.forks = true)"
        )

    def _declare(self) -> None:
        """Durable queues are there after a restart, and a second declaration would hide it where they are not."""
        if self._declared and queue_declaration.lasting(self.plan):
            return
        try:
            queue_declaration.declare(self.plan, self._beside)
        except LaunchError as error:
            raise self._error(f"took no queue: {error}") from error
        self._declared = True

    def _beside(self, command: Sequence[str], seconds: float) -> tuple[int, str]:
        log, folder = self.folder / "queues.log", self.plan.working_folder
        return queue_declaration.run_here(command, seconds, environment=self._environment, folder=folder, log=log)

    def _prove(self, began: float) -> None:
        """A message in and out again; a broker whose recovery still goes on may refuse it for a while."""
        start = self.plan.source.file.start
        while start.ready_message and self.prove_ready is not None and not self._wrapped:
            try:
                self.prove_ready()
            except ClientError as error:
                if time.monotonic() - began > self._ready_s:
                    raise self._error(
                        f"was not ready within {self._ready_s:g} s (start.ready_s): start.ready_message: {error}",
                        StartFailure.LATE,
                    ) from error
                self._tick()
            else:
                return

    def _kill(self) -> None:
        if self._tree is not None and not self._tree.kill():
            raise self._error(f"cannot be killed: {self._tree.pids()} are left")
        self._reaped()

    def _reaped(self) -> None:
        if self._ticket:
            self._ledger.released(self._ticket)
            self._ticket = ""

    def _error(self, what: str, failure: StartFailure | None = None) -> LaunchError:
        """With the end of the newest log that says anything."""
        for path in [self.log, *(path for path in self.logs if not path.match("start-*.log"))]:
            said = path.read_text(errors="replace").splitlines()[-_TAIL:] if path.is_file() else []
            if tail := self.plan.source.file.without_secrets("\n".join(said), self.plan.source.here).splitlines():
                what = f"{self._title} {what}; its log is {path}"
                return LaunchError(what, log_tail=tail, log=str(path), failure=failure)
        return LaunchError(f"{self._title} {what}; its log {self.log} is empty", log=str(self.log), failure=failure)


def _named(pids: Sequence[int]) -> str:
    """Pids with the names of their programs, for people."""
    return ", ".join(f"pid {pid} ({name_of(pid) or 'gone'})" for pid in pids) or "nothing"
