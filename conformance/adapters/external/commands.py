"""Run a user's commands to their end, or hold them until the event of a trigger.

A command that waits at its gate is a process already: what opens it writes one line into a pipe, and the shell there
becomes the command. So nothing but the start of one program lies between the event and the fault. A gate that is
closed unopened ends the shell, and the command never runs; so does the death of the process that holds it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping

from conformance.adapters.broker_log import launch_error, text_of
from conformance.adapters.file.launch_tables import COMMANDS, Command, External
from conformance.adapters.launch.process_tree import MARK
from conformance.errors import LaunchError
from conformance.ledger import RUN_VARIABLE, Ledger
from conformance.processes import open_pidfd

_GATE = 'read -r go || exit 0; : >"$0"; exec "$@" </dev/null'
Fill = Callable[[str, str], str]
"""Fills the placeholders of a text; the second is its field."""


def owner_environment(command: str, more: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command of the broker's owner.

    It does not carry the marks of the run: a broker that such a command starts belongs to its owner, and must outlive
    the run.
    """
    own = {key: text for key, text in os.environ.items() if key not in (RUN_VARIABLE, MARK)}
    return {**own, **more, "CONFORMANCE_COMMAND": command}


class RunningCommand:
    """A command that was started, or waits at its gate; its output is in `log`."""

    def __init__(
        self,
        name: str,
        rules: Command,
        process: subprocess.Popen[bytes],
        log: pathlib.Path,
        released: Callable[[], None],
    ) -> None:
        self.name, self.rules, self.process, self.log, self._released = name, rules, process, log, released
        self._held = contextlib.ExitStack()
        self.handle = self._held.enter_context(open_pidfd(process.pid))
        self.gate = -1
        self.opened = log.with_suffix(".opened")

    @property
    def was_opened(self) -> bool:
        return self.opened.exists()

    def close_gate(self) -> None:
        """Close this end of the gate; a second call does nothing."""
        if self.gate >= 0:
            os.close(self.gate)
            self.gate = -1

    def finish(self) -> None:
        """Wait for its end. If it is late it is killed; `LaunchError` with its output then, or if its status is not 0.

        An unopened gate ends with 0 at once.
        """
        self.close_gate()
        try:
            status = self.process.wait(self.rules.seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self.error(
                f"did not end within {self.rules.seconds:g} s (external.{self.name}.seconds) and was killed; a command "
                "that starts a broker must leave it behind, and not wait for it"
            ) from None
        finally:
            if self.handle >= 0:
                self._held.close()
                self.handle = -1
                self._released()
        if status:
            raise self.error(f"ended with status {status}")

    def check_failed(self) -> None:
        """Raise `LaunchError` if it has begun, and ended badly by now."""
        if self.was_opened and self.process.poll():
            raise self.error(f"ended with status {self.process.poll()}")

    def kill(self) -> None:
        """Send SIGKILL to it and to the processes of its session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def error(self, what: str) -> LaunchError:
        said = f"external.{self.name}: `{self.rules.command[0]}` {what}; its output is {self.log}"
        return launch_error(said, text_of(self.log), self.log)


class Commands:
    """The commands that the user's file gives for the broker.

    Args:
        rules: The table.
        folder: For their output, a file for each run of a command: `NUMBER-NAME.log`.
        here: Where they are run: the folder of the user's file.
        fill: See `Fill`.
        ledger: Records each process that is started.
    """

    def __init__(self, rules: External, folder: pathlib.Path, here: pathlib.Path, fill: Fill, ledger: Ledger) -> None:
        self.rules, self.folder, self.here = rules, folder, here
        self.environment: dict[str, str] = {"CONFORMANCE_RUN_ID": ledger.run_id}
        self._fill, self._ledger = fill, ledger
        self._runs = 0
        self._check()

    def has(self, name: str) -> bool:
        return self.rules.command(name) is not None

    def run(self, name: str, other: Command | None = None, *, filled: bool = False) -> None:
        """Run a command to its end; nothing if there is none. Raises `LaunchError`.

        `other` is a command that is not one of `COMMANDS`; its placeholders may be `filled` already.
        """
        rules = other or self.rules.command(name)
        if rules is None:
            return
        running = self._start(name, rules, filled=filled)
        try:
            running.finish()
        except BaseException:
            if running.process.poll() is None:
                running.kill()
            raise

    @contextlib.contextmanager
    def gated(self, name: str) -> Iterator[RunningCommand]:
        """The command at its gate: `RunningCommand.gate` is the end of a pipe, and a line written there starts it.

        A process with a copy of it can open the gate. Leaving the block closes this one. A command that has begun
        goes on until `finish`.
        """
        rules = self.rules.command(name)
        assert rules is not None  # a fault without its command is not planned
        theirs, ours = os.pipe()
        try:
            running = self._start(name, rules, stdin=theirs)
            running.gate = ours
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        try:
            yield running
        finally:
            running.close_gate()
            if not running.was_opened:
                running.finish()

    @property
    def logs(self) -> list[pathlib.Path]:
        return sorted(self.folder.glob("[0-9]*-*.log"))

    def _start(
        self, name: str, rules: Command, *, filled: bool = False, stdin: int = subprocess.DEVNULL
    ) -> RunningCommand:
        field = f"external.{name}"
        command = [part if filled else self._fill(part, field) for part in rules.command]
        self._runs += 1
        log = self.folder / f"{self._runs:03d}-{name.replace('.', '-')}.log"
        gate = ["/bin/sh", "-c", _GATE, str(log.with_suffix(".opened"))] if stdin != subprocess.DEVNULL else []
        ticket = self._ledger.intend("process", what=field, command=command)
        try:
            with log.open("wb") as stream:
                process = subprocess.Popen(
                    [*gate, *command],
                    env=owner_environment(name, self.environment),
                    cwd=self.here,
                    stdin=stdin,
                    stdout=stream,
                    stderr=stream,
                    start_new_session=True,
                )
        except OSError as error:
            self._ledger.released(ticket)
            raise LaunchError(f"{field}: {command[0]} cannot be started: {error.strerror}") from error
        self._ledger.made(ticket, pid=process.pid)
        return RunningCommand(name, rules, process, log, functools.partial(self._ledger.released, ticket))

    def _check(self) -> None:
        """Raise `LaunchError` if a program does not exist, before any command is run."""
        for name in COMMANDS:
            rules = self.rules.command(name)
            if rules is None:
                continue
            program = self._fill(rules.command[0], f"external.{name}")
            found = shutil.which(self.here / program if "/" in program else program)
            if found is None:
                raise LaunchError(
                    f"external.{name}: {program} is not a program that can be run here (searched from {self.here}); "
                    "give its path, or make it executable"
                )
