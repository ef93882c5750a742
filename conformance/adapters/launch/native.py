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
from conformance.adapters.file.settings import EffectiveSettings, unheeded
from conformance.adapters.interface import JournalFiles, QueueClient
from conformance.adapters.launch import ports, queue_declaration
from conformance.adapters.launch.instance import make_plan
from conformance.adapters.launch.java import find_java
from conformance.adapters.launch.prepared import READY_QUEUE, BrokerSource, DepthProbe, Options, Plan, probe_of
from conformance.adapters.launch.process_tree import MARK, Tree, name_of, wait_ended_now
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
    client: QueueClient | None = None,
) -> NativeBroker:
    """Make the broker's folder (new or empty) and reserve its ports; nothing is started.

    `options` are rules of single queues, by queue. `archive` is the JVM option of a class archive. Raises `UsageError`
    (no such liar or queue option), `LaunchError` (no Java, instance or port).
    """
    if says := missing(source.file):
        raise LaunchError(says)
    java = find_java(source.file.java.minimum) if source.file.java else None
    reserved = ports.Ports(source.file.ports)
    try:
        plan = make_plan(
            source, folder, settings, queues, reserved.by_name, java=java, archive=archive, liar=liar, options=options
        )
        return NativeBroker(plan, reserved, ledger, client)
    except BaseException:
        reserved.close()
        raise


class NativeBroker:
    """A broker of processes on this machine. It is its own `facts`, `service` and `target`; see `interface.Broker`.

    If the file says `ready_message`, the `client` sends a message at the end of each start, unless a tracer started the
    broker.
    """

    by_command = False
    no_copy = ""

    def __init__(self, plan: Plan, reserved: ports.Ports, ledger: Ledger, client: QueueClient | None = None) -> None:
        self.plan = plan
        self.deviations = plan.deviations
        self.folder = plan.folder
        self.data = pathlib.Path(fill(plan.source.file.data.path, plan.words))
        self.journal = pathlib.Path(fill(plan.source.file.journal.path, plan.words))
        self.epoch = 0
        self._ports = reserved
        self._ledger = ledger
        self._client = client
        self._readiness = Readiness(plan, reserved.by_name, lambda: ports.listening(self.processes()))
        self._declared = False
        self._mark = ""
        self._tree: Tree | None = None
        self._ticket = ""
        self._wrapped = False
        self._more: tuple[str, ...] = ()
        self._ready_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def facts(self) -> Self:
        """The broker itself."""
        return self

    service = target = facts

    # facts

    @property
    def journal_files(self) -> JournalFiles:
        """The files in which it stores messages."""
        return JournalFiles(self.journal, self.plan.source.file.journal.files)

    @property
    def log(self) -> pathlib.Path:
        """Standard output and error of the newest start."""
        return self.folder / f"start-{self.epoch}.log"

    @property
    def logs(self) -> list[pathlib.Path]:
        """Every log file that exists."""
        own = [fill(path, self.plan.words, "logs.paths") for path in self.plan.source.file.logs.paths]
        named = [self.plan.words[word] for word in ("log_file",) if word in self.plan.words]
        every = [*sorted(self.folder.glob("start-*.log")), *dict.fromkeys(map(pathlib.Path, [*named, *own]))]
        return [path for path in every if path.is_file()]

    # service

    def endpoint(self, protocol: str) -> tuple[str, int]:
        """Host and port of `protocol`, or of the port named `http`; `UsageError` if the broker does not speak it."""
        protocols = self.plan.source.file.protocols
        if protocol in protocols:
            return ports.HOST, self._ports[protocols[protocol].port]
        if protocol in self._ports.by_name:
            return ports.HOST, self._ports[protocol]
        raise UsageError.unknown("protocol", protocol, protocols, of=self.plan.source.file.name)

    def access(self, protocol: str) -> Access:
        """TLS and login for `protocol`, from the broker's file and the command line."""
        return self.plan.source.file.credentials(protocol, self.plan.source.here)

    def queue_of(self, queue: str) -> str:
        """The queue's own name."""
        return queue

    def depth_probe(self, queue: str) -> DepthProbe:
        """How to ask this broker for the depth of `queue`."""
        return probe_of(self.plan.source.file, {**self.plan.words, "queue": queue})

    def policy_probe(self, queue: str) -> DepthProbe | None:
        """None: the suite has set the policies itself."""
        return None

    # lifecycle

    def start(self, wrap: Sequence[str] = (), *, more: Sequence[str] = (), ready_s: float = 0.0) -> float:
        """Start it and wait until it is ready; the first start declares its queues. Return the seconds that it took.

        `wrap` stands before its command (a tracer), `more` after it, for this start only. It has `ready_s` to become
        ready, or longer if its file says so. If it ends, or is late, the `LaunchError` has the last 40 lines of its log
        and the log's path; nothing of the broker is left then.
        """
        self._refuse_twice()
        began = time.monotonic()
        self._ready_s = self._limit_s(ready_s)
        try:
            self.launch(wrap, more=more)
            self._wait_ready(began)
            self._declare()
            self._wait(began, self._readiness.unstored)
            self._prove(began)
        except BaseException:
            self._kill()
            raise
        return time.monotonic() - began

    def launch(self, wrap: Sequence[str] = (), *, more: Sequence[str] = ()) -> None:
        """Start it and do not wait, for a fault before it is ready. Raises `LaunchError`."""
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

    def stop(self) -> None:
        """Stop it cleanly and wait for its end; `LaunchError` if it does not end in time (it is killed then)."""
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

    def close(self) -> None:
        """SIGKILL what is left of it, and give its ports back; a second call does nothing."""
        try:
            self._kill()
        finally:
            self._ports.close()

    # processes

    def armed(self, fault: str) -> contextlib.AbstractContextManager[list[int]]:
        """A pidfd for each process of the tree, for `stop` only of the main one, until the end of the `with`."""
        if self._tree is None:
            return contextlib.nullcontext([])
        return self._tree.main_pidfd(wrapped=self._wrapped) if fault == "stop" else self._tree.pidfds()

    def within_s(self, fault: str) -> float:
        """0: the kernel answers a signal."""
        return 0.0

    def processes(self) -> list[int]:
        """The pids of its whole tree, the leader first; empty if it has ended."""
        return self._tree.pids() if self._tree else []

    @property
    def was_ready(self) -> bool:
        """Whether the log of the newest start says that it was ready; without a pattern, whether its ports answer."""
        if self.plan.source.file.start.ready_log:
            return self._readiness.logged(self.log)
        return not self._readiness.unreached()

    def gone(self) -> bool:
        """Whether no process of it is left."""
        return not self.processes()

    def wait_gone(self, timeout_s: float) -> bool:
        """Wait on its pidfds until all of it is gone, and reap it; False if it is not gone after `timeout_s`."""
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
        """Raise `LaunchError` with the end of its log if it is not running and this suite did not end it."""
        if self._tree is None:
            raise LaunchError(f"{self._title} was not started")
        if not self._tree.serves() or self.gone():
            status = self.exit_status
            failure = StartFailure.SIGNALLED if status is None or status < 0 else StartFailure.ENDED
            raise self._left() or self._error(f"died by itself (status {status})", failure)

    # inside

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
        """Wait until every condition of the file is met; the pidfd shows at once if the broker ends instead.

        The log is a file, not a pipe: a broker must not block, or die, because its harness stopped reading.
        """
        self._wait(began, lambda: self._readiness.lacks(self.log))
        source, said = self.plan.source, self.log.read_text(errors="replace")
        if says := unheeded(source.file, self.plan.settings, said) or another(source.file, source.version, said):
            raise self._error(says)

    def _limit_s(self, ready_s: float) -> float:
        return max(self.plan.source.file.start.ready_s, ready_s)

    def _wait(self, began: float, lacks: Callable[[], str]) -> None:
        try:
            while missing := lacks():
                self._check_late(began, missing)
                self._tick()
        except WrongProtocolError as error:
            raise self._error(f"is not what the file says: {error}") from error

    def _check_late(self, began: float, missing: object) -> None:
        if time.monotonic() - began > self._ready_s:
            what = f"was not ready within {self._ready_s:g} s (start.ready_s): {missing}"
            raise self._error(what, StartFailure.LATE)

    def _tick(self) -> None:
        """Wait a moment on the process that serves; `LaunchError` if it has ended."""
        assert self._tree is not None  # the caller has spawned it
        tree = self._tree
        try:
            descriptor = os.pidfd_open(tree.main(wrapped=False) if tree.forks else tree.leader.pid)
        except ProcessLookupError:  # it has ended, and its status was read
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
        assert self._tree is not None  # the caller has spawned it
        status = self._tree.leader.wait()
        failure = StartFailure.SIGNALLED if status < 0 else StartFailure.ENDED
        return self._error(f"ended with status {status} before it was ready (start.command)", failure)

    def _left(self) -> LaunchError | None:
        """An error if the started process has ended, others go on, and the file does not say that it forks."""
        tree = self._tree
        left = self.processes()
        if tree is None or tree.forks or tree.leader.poll() is None or not left:
            return None
        return self._error(
            f"left its parent: `{self.plan.command[0]}` ended with status {tree.leader.poll()}, and {_named(left)} "
            "goes on. Let start.command stay in the foreground, or say start.pid_file (or start.forks = true)"
        )

    def _declare(self) -> None:
        """Declare the queues once if they are durable: a second declaration would hide the loss of a queue."""
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
        """Send a message and receive it, again and again until the time is over: a recovering broker may refuse it."""
        while self.plan.source.file.start.ready_message and self._client is not None and not self._wrapped:
            try:
                self._client.exchange(self, READY_QUEUE)
            except ClientError as error:
                self._check_late(began, f"start.ready_message: {error}")
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
