"""The native launcher: run a broker as processes of this machine, on 127.0.0.1, as this user."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import shutil
import signal
import time
import uuid
from collections.abc import Callable, Mapping, Sequence

from conformance.adapters import ports
from conformance.adapters.broker_log import launch_error, text_of
from conformance.adapters.credentials import Access
from conformance.adapters.distribution import debian
from conformance.adapters.distribution.fetch import not_installed
from conformance.adapters.distribution.versions import version_differs
from conformance.adapters.file.placeholders import fill
from conformance.adapters.file.settings import EffectiveSettings, ignored_setting
from conformance.adapters.interface import READY_QUEUE, DepthProbe, JournalFiles
from conformance.adapters.launch import queue_declaration
from conformance.adapters.launch.java import archive_options, archive_path, find_java
from conformance.adapters.launch.one_node import PlannedBroker
from conformance.adapters.launch.plan import BrokerSetup, BrokerSource, Plan, make_plan
from conformance.adapters.launch.process_tree import MARK, Tree, name_of
from conformance.adapters.launch.readiness import LOGIN_S, Readiness, RefusedLogins, WrongProtocolError, not_served
from conformance.errors import BlockedError, ClientError, LaunchError, StartFailure, UsageError
from conformance.ledger import Ledger, child_environment
from conformance.locks import lock
from conformance.processes import open_pidfd, wait_ended

_TICK_S = 0.02


def prepare(
    source: BrokerSource,
    setup: BrokerSetup,
    archive: str = "",
    reserved: ports.Ports | None = None,
    peers: Mapping[str, str] | None = None,
) -> NativeBroker:
    """Make the broker's folder and reserve its ports, if they are not; nothing is started.

    `archive` is the JVM option of a class archive, `peers` are the placeholders of a node of several. Raises
    `UsageError` (no such liar or queue option), `LaunchError` (no Java, instance or port).
    """
    if not source.debian and (reason := not_installed(source.file)):
        raise LaunchError(reason)
    java = find_java(source.file.java.minimum) if source.file.java else None
    reserved = reserved or ports.Ports(source.file.ports)
    try:
        plan = make_plan(source, setup, reserved.by_name, java=java, archive=archive, peers=peers)
        if source.debian:
            inside = debian.entering(source.home, plan.folder, plan.working_folder)
            plan = dataclasses.replace(plan, command=(*inside, *plan.command))
        return NativeBroker(plan, setup, reserved)
    except BaseException:
        reserved.close()
        raise


class NativeBroker(PlannedBroker):
    """A broker of processes on this machine.

    If the file says `ready_message`, the `client` sends a message at the end of each start, unless a tracer started the
    broker.
    """

    def __init__(self, plan: Plan, setup: BrokerSetup, reserved: ports.Ports) -> None:
        super().__init__(plan, setup)
        self.data = pathlib.Path(plan.words["data_dir"])
        self.journal = pathlib.Path(fill(plan.source.file.journal.path, plan.words))
        self._ports = reserved
        self._readiness = Readiness(plan, reserved.by_name, lambda: ports.listening(self.processes()))
        self._declared = False
        self._mark = ""
        self._tree: Tree | None = None
        self._ticket = ""
        self._wrapped = False
        self._more: tuple[str, ...] = ()
        self._ready_s = self._login_s = 0.0

    # facts

    @property
    def journal_files(self) -> JournalFiles:
        return JournalFiles(self.journal, self.plan.source.file.journal.files)

    @property
    def log(self) -> pathlib.Path:
        return self.folder / f"start-{self.epoch}.log"

    @property
    def logs(self) -> list[pathlib.Path]:
        own = [fill(path, self.plan.words, "logs.paths") for path in self.plan.source.file.logs.paths]
        starts = [self.folder / f"start-{number}.log" for number in range(self.epoch + 1)]
        named = dict.fromkeys(map(pathlib.Path, [self.plan.words["log_file"], *own]))
        return [path for path in (*starts, *named) if path.is_file()]

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
        return self.plan.source.file.credentials(protocol, self.plan.source.here)

    def queue_of(self, queue: str) -> str:
        return self.plan.named(queue)

    def policy_probe(self, queue: str) -> DepthProbe | None:
        return None  # the suite has set the policies itself

    # lifecycle

    def start(self, wrap: Sequence[str] = (), *, more: Sequence[str] = (), ready_s: float = 0.0) -> float:
        self._check_not_running()
        try:
            return super().start(wrap, more=more, ready_s=ready_s)
        except BaseException:
            self.kill()
            raise

    def launch(self, wrap: Sequence[str] = (), *, more: Sequence[str] = ()) -> None:
        self._check_not_running()
        self._began = time.monotonic()
        self._release_ticket()
        self.epoch += 1
        self._wrapped = bool(wrap)
        self._more = tuple(more)
        self._mark = uuid.uuid4().hex
        self._readiness.begins()
        if self.plan.pid_file is not None:
            self.plan.pid_file.unlink(missing_ok=True)  # of a start that was killed: its number may be another's by now
        self._spawn(wrap)

    def _check_not_running(self) -> None:
        if self._tree is not None and not self.gone():
            raise LaunchError(f"{self._title} is running already (pid {self._tree.leader.pid})")

    def declare(self, queue: str) -> None:
        queue_declaration.declare(dataclasses.replace(self.plan, queues=(queue,)), self._beside)
        queue_declaration.make(self._client, self, [queue])

    def stop(self) -> None:
        tree = self._tree
        if tree is None or self.gone():
            self._release_ticket()
            return
        start = self.plan.source.file.start
        with contextlib.suppress(ProcessLookupError):
            os.kill(tree.main(wrapped=self._wrapped), signal.Signals[start.stop_signal])
        if not self.wait_gone(start.stop_s):
            left = _named(self.processes())
            self.kill()
            raise self._error(
                f"did not end within {start.stop_s:g} s of {start.stop_signal} (start.stop_s, start.stop_signal) and "
                f"was killed; what was left: {left}"
            )

    def close(self) -> None:
        try:
            self.kill()
        finally:
            self._ports.close()

    # processes

    def armed(self, *commands: str) -> contextlib.AbstractContextManager[list[int]]:
        """A handle of each process of the tree, for `stop` only of the main one, until the end of the `with`."""
        if self._tree is None:
            return contextlib.nullcontext([])
        return self._tree.main_handle(wrapped=self._wrapped) if commands == ("stop",) else self._tree.handles()

    def within_s(self, fault: str) -> float:
        return 0.0  # the kernel answers a signal

    def processes(self) -> list[int]:
        return self._tree.pids() if self._tree else []

    @property
    def was_ready(self) -> bool:
        """Read it from the log of the newest start; without a `ready_log`, ask its ports."""
        if self.plan.source.file.start.ready_log:
            return self._readiness.logged(self.log)
        return not self.unreached()

    def gone(self) -> bool:
        return not self.processes()

    def wait_gone(self, timeout_s: float) -> bool:
        left_behind = self.plan.source.file.start.left_behind
        ended = self._tree.wait_gone(timeout_s, left_behind) if self._tree else True
        if ended:
            self._release_ticket()
        return ended

    @property
    def exit_status(self) -> int | None:
        return self._tree.leader.poll() if self._tree else None

    def alive_check(self) -> None:
        if self._tree is None:
            raise LaunchError(f"{self._title} was not started")
        if not self._tree.serves() or self.gone():
            status = self.exit_status
            failure = StartFailure.SIGNALLED if status is None or status < 0 else StartFailure.ENDED
            raise self._left() or self._error(f"died by itself (status {status})", failure, of_broker=True)

    # inside

    @property
    def _title(self) -> str:
        return f"{self.plan.source.file.title} {self.plan.source.version}"

    def _spawn(self, wrap: Sequence[str]) -> None:
        start, folder = self.plan.source.file.start, self.plan.working_folder
        if not folder.is_dir():
            raise LaunchError(f"{self._title}: start.folder: {folder} is not a folder")
        command = [*wrap, *self.plan.command, *self._more]
        with self.log.open("wb") as log:
            try:
                leader, self._ticket = self._ledger.spawn(
                    self._title,
                    command,
                    env={**child_environment(), **self._environment},
                    cwd=folder,
                    stdout=log,
                    stderr=log,
                )
            except OSError as error:
                raise LaunchError(
                    f"{self._title}: start.command: {command[0]} cannot be started: {error.strerror}"
                ) from error
        self._tree = Tree(leader, mark=self._mark, pid_file=self.plan.pid_file, forks=start.leaves_its_parent)

    @property
    def _environment(self) -> dict[str, str]:
        return {**self.plan.environment, MARK: self._mark}

    def wait_ready(self, ready_s: float = 0.0) -> None:
        """Wait until every condition of the file is met; the process is watched, for it may end instead.

        The log is a file, not a pipe: a broker must not block, or die, because its harness stopped reading.
        """
        self._login_s = LOGIN_S if self.epoch == 1 and not ready_s else self._limit_s(ready_s)
        self.wait_until(self.missing, ready_s)
        source, said = self.plan.source, self._readiness.said_first(self.log)
        if reason := ignored_setting(source.file, self.plan.settings, said) or version_differs(
            source.file, source.version, said
        ):
            raise self._error(reason)

    def missing(self) -> str:
        """What is missing until clients can use it; empty if nothing is."""
        return self._readiness.lacks(self.log)

    def unreached(self) -> str:
        """What is missing until its ports answer; empty if they do."""
        return self._readiness.unreached()

    def has_logged(self, pattern: str) -> bool:
        """Whether the log of the newest start has the pattern."""
        return self._readiness.has(pattern, self.log)

    def wait_until(self, lacks: Callable[[], str], ready_s: float = 0.0, *, anew: bool = False) -> None:
        """Wait until nothing is missing: `ready_s` from its launch, or from now, or longer if its file says so.

        Raises `LaunchError` if it ends meanwhile.
        """
        self._ready_s = self._limit_s(ready_s)
        if anew:
            self._began = time.monotonic()
        self._wait(lacks)

    def serve(self) -> None:
        if self.declare_queues():
            self.wait_stored()
        self.prove()

    def wait_stored(self) -> None:
        """Wait until no declared queue would be lost by a kill."""
        self._wait(self._readiness.unstored)

    def prove(self) -> None:
        """Prove that a message passes through it."""
        self._prove(RefusedLogins(self._login_s))

    def _limit_s(self, ready_s: float) -> float:
        return max(self.plan.source.file.start.ready_s, ready_s)

    def _wait(self, lacks: Callable[[], str]) -> None:
        try:
            while missing := lacks():
                self._check_late(missing)
                self._tick()
        except WrongProtocolError as error:
            raise self._error(f"is not what the file says: {error}") from error

    def _check_late(self, missing: object, cause: ClientError | None = None) -> None:
        """Raise `LaunchError` if its time is over; a broker that announces an alarm is not late."""
        if self._late > self._ready_s:
            blocked = isinstance(cause, BlockedError)
            what = f"was not ready within {self._ready_s:g} s (start.ready_s): {missing}"
            raise self._error(what, None if blocked else StartFailure.LATE, of_broker=blocked) from cause

    def _tick(self) -> None:
        """Wait a moment on the process that serves; `LaunchError` if it has ended."""
        assert self._tree is not None  # the caller has spawned it
        tree = self._tree
        try:
            with open_pidfd(tree.main(wrapped=False) if tree.forks else tree.leader.pid) as handle:
                if not wait_ended([handle], _TICK_S):
                    return
        except ProcessLookupError:  # it has ended, and its status was read
            raise self._left() or self._ended() from None
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

    def declare_queues(self) -> bool:
        """Declare the queues once if they are durable: a second declaration would hide the loss of a queue.

        Return whether they were declared now.
        """
        if self._declared and queue_declaration.lasting(self.plan):
            return False
        try:
            queue_declaration.declare(self.plan, self._beside)
            queue_declaration.make(self._client, self, self.plan.queues)
        except LaunchError as error:
            raise self._error(f"took no queue: {error}") from error
        self._declared = True
        return True

    def _beside(self, command: Sequence[str], seconds: float) -> tuple[int, str]:
        log, folder = self.folder / "queues.log", self.plan.working_folder
        return queue_declaration.run_here(command, seconds, environment=self._environment, folder=folder, log=log)

    def _prove(self, refused: RefusedLogins) -> None:
        """Send and receive a message, and retry until the time is over: a recovering broker may refuse it.

        A refused login ends the first start soon. After a fault it has the whole time: the users may be stored, too.
        The queue of this message is the suite's own, and of no claim. A power loss may take it, as the last one that
        was declared, and it is declared again.
        """
        while self.plan.source.file.start.ready_message and self._client is not None and not self._wrapped:
            try:
                self._client.exchange(self, self.queue_of(READY_QUEUE))
            except ClientError as error:
                if refused.final(error):
                    raise self._error(not_served(error), of_broker=error.of_broker) from error
                self._check_late(f"start.ready_message: {error}", error)
                self._tick()
                with contextlib.suppress(LaunchError):
                    self.declare(READY_QUEUE)
            else:
                return

    def kill(self) -> None:
        """Kill all its processes; its ports stay its own."""
        if self._tree is not None and not self._tree.kill():
            raise self._error(f"cannot be killed: {self._tree.pids()} are left")
        self._release_ticket()

    def _release_ticket(self) -> None:
        if self._ticket:
            self._ledger.released(self._ticket)
            self._ticket = ""

    def _error(self, what: str, failure: StartFailure | None = None, *, of_broker: bool = False) -> LaunchError:
        """With what the newest log that is not empty says."""
        for path in [self.log, *(path for path in self.logs if not path.match("start-*.log"))]:
            said = self.plan.source.file.without_secrets(text_of(path), self.plan.source.here)
            if said:
                return launch_error(
                    f"{self._title} {what}; its log is {path}", said, path, failure, of_broker=of_broker
                )
        empty = f"{self._title} {what}; its log {self.log} is empty"
        return LaunchError(empty, log=str(self.log), failure=failure, of_broker=of_broker)


def _named(pids: Sequence[int]) -> str:
    return ", ".join(f"pid {pid} ({name_of(pid) or 'gone'})" for pid in pids) or "nothing"


def class_archive_option(source: BrokerSource, stock: EffectiveSettings, ledger: Ledger, *, makes: bool = True) -> str:
    """Return the JVM option of a class archive (AppCDS), which saves a third of a start; empty if there can be none.

    The archive is made first if it is missing, unless `makes` is false: one of several nodes has no peers here, and may
    wait for them. It fits one Java, one distribution and one command line, so its name
    has all three. A JVM with an archive that does not fit logs nothing and starts slowly.
    """
    if source.file.java is None or not source.file.java.archive:
        return ""
    java = find_java(source.file.java.minimum)
    fits = [str(source.home), *source.file.start.environment.values()]
    target = archive_path(f"{source.file.name}-{source.version}", java, *fits)
    if any(character.isspace() for character in str(target)):
        return ""  # start scripts split their JVM options at blanks
    failed = target.with_suffix(".failed")
    with lock(target):
        if makes and not target.exists() and not failed.exists():
            learn = [*archive_options(java), f"-XX:ArchiveClassesAtExit={target.with_suffix('.draft')}"]
            _make_class_archive(source, stock, ledger, target, " ".join(learn))
    return " ".join(archive_options(java, target)) if target.exists() else ""


def _make_class_archive(
    source: BrokerSource, stock: EffectiveSettings, ledger: Ledger, target: pathlib.Path, learn: str
) -> None:
    """Start and stop the broker once: a JVM writes the archive when it exits. A failure is remembered, and harmless.

    `learn` are the JVM options with which it writes the draft of `target`.
    """
    draft = target.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    folder = target.with_suffix(".run")  # the lock is ours: what lies there was left by a killed process
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with prepare(source, BrokerSetup(folder.absolute(), stock, ["archive"], ledger), learn) as broker:
            broker.start()
            broker.stop()
        draft.replace(target)
    except LaunchError:
        pass  # the trial's own broker will fail in the same way, and report it
    except OSError as error:  # this Java wrote none: do not try again
        target.with_suffix(".failed").write_text(f"{error}\n")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
