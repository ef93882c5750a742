"""Declare the queues of a run at an external broker, under names of this suite, and remove them again.

Each queue is in the ledger before it is declared, so that a later run removes what a killed run left. How it is removed
is in a file that only its owner can read: an address may have a password in it. The broker may be down, because the
killed run had just killed it: then a later run tries again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import subprocess
import time
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from conformance.adapters import web
from conformance.adapters.credentials import OPEN, Access, write_private
from conformance.adapters.external.commands import Commands, owner_environment
from conformance.adapters.file.launch_tables import Command, External, Remove
from conformance.adapters.file.placeholders import fill
from conformance.adapters.file.table import Table
from conformance.adapters.interface import READY_QUEUE
from conformance.adapters.launch import queue_declaration
from conformance.adapters.launch.plan import Plan
from conformance.errors import ClientError, LaunchError, UsageError
from conformance.ledger import Ledger, StillThereError

KIND = "queue"
PREFIX = "conformance"
"""Every queue that a run declares at an external broker begins with it; no other queue is ever removed."""

_TRIES = 5


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """How one queue is removed: by a `request` with its texts filled, or by a `command`; with neither it stays.

    A request to an address goes to the AMQP of `host` and `port`. `access` names the login, and holds no secret. The
    command is run in `here`, for `seconds` at most. `hyphen` is that of the table `[queues]`.
    """

    request: Remove | None = None
    host: str = ""
    port: int = 0
    access: Access = OPEN
    command: tuple[str, ...] = ()
    here: str = ""
    seconds: float = 30.0
    run: str = ""
    hyphen: str = "-"


OverAmqp = Callable[[Remove, str, int, Access], str]
"""Asks the AMQP of a host and port; returns why the queue is still there, empty if it is gone.

Clients import this package, so it is given one.
"""


def prefix_of(run: str, hyphen: str) -> str:
    """Return how the names of the queues of this run begin; `hyphen` stands for each hyphen in them.

    >>> prefix_of("20261128-openmq-1.5", "_")
    'conformance_20261128_openmq_1_5_'
    """
    return f"{PREFIX}-{run.replace('.', '-')}-".replace("-", hyphen)


def write_removals(path: pathlib.Path, how: Mapping[str, Removal]) -> None:
    """Write down how each queue is removed, in a file that only this user can read."""
    write_private(path, msgspec.json.encode(dict(how), enc_hook=Remove.model_dump))


def _read_table(table: type[Table], data: object) -> Table:
    return table.model_validate(data)


def release(record: Mapping[str, Any], over_amqp: OverAmqp) -> str:
    """Remove a queue that a killed run left, and return a line about it. See `ledger.Release`.

    If the folder of that run is gone, nothing says how the queue is removed: then it is forgotten.
    """
    name, path = str(record.get("name", "")), pathlib.Path(str(record.get("how", "")))
    if not name.startswith(PREFIX):
        return ""
    try:
        how = msgspec.json.decode(path.read_bytes(), type=dict[str, Removal], dec_hook=_read_table)[name]
    except (OSError, KeyError, msgspec.MsgspecError):
        return ""
    if not name.startswith(prefix_of(how.run, how.hyphen) if how.run else f"{PREFIX}{how.hyphen}"):
        return ""  # a name of another run, or of none
    if not (how.request or how.command):
        return f"queue {name} is left: its owner's file does not say how one is removed"
    why = remove_queue(how, over_amqp)
    if not why:
        return f"removed queue {name}"
    tries = _count(path.with_name(f"{name}.tries"))
    if tries >= _TRIES:
        return f"queue {name} is left, after {tries} tries: {why}"
    raise StillThereError(f"queue {name} is left: {why}; the next run tries again")


def remove_queue(how: Removal, over_amqp: OverAmqp) -> str:
    """Remove one queue. Return why it is still there, empty if it is gone."""
    request = how.request
    try:
        if request is not None and request.url:
            return _asked(request, how.access)
        if request is not None:
            return over_amqp(request, how.host, how.port, how.access)
        done = subprocess.run(
            how.command,
            cwd=how.here,
            env=owner_environment("remove", {"CONFORMANCE_RUN_ID": how.run}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=how.seconds,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return f"{how.command[0]} did not end within {how.seconds:g} s"
    except (OSError, UsageError) as error:
        return f"{web.without_login(request.url or request.address) if request else how.command[0]}: {error}"
    tail = " ".join((done.stdout + done.stderr).decode(errors="replace").split())[-200:]
    return f"{how.command[0]} ended with {done.returncode}: {tail}" if done.returncode else ""


def _asked(how: Remove, access: Access) -> str:
    asked = f"{how.verb} {web.without_login(how.url)}"
    status, said = web.ask(how.verb, how.url, how.body, timeout_s=how.seconds, access=access, headers=how.headers)
    text = " ".join(said.split())[:200]
    if how.absent and how.absent in said:
        return ""
    if status not in how.status:
        return f"{asked} answered {status}: {text}"
    try:
        wrong = bool(how.field) and web.field_of(said, how.field) != how.value
    except ValueError:
        wrong = True
    return f"{asked} answered without {how.field} {how.value}: {text}" if wrong else ""


def _count(path: pathlib.Path) -> int:
    """Count one more try, and return the number of tries."""
    try:
        tries = int(json.loads(path.read_text())) + 1
    except (OSError, ValueError):
        tries = 1
    path.write_text(json.dumps(tries))
    return tries


_REMOVE_S = 60.0
"""For all removals of one broker, and for emptying what is left: a run must end."""


class Existing:
    """Existing queues of an owner, used in turn, for brokers whose users may not declare any.

    A message in a queue when a trial begins would be taken for one of that trial. So a queue that holds messages is
    passed over, or emptied if the owner allows it (`drain_queues`). `passed_over` has the number of messages of each.

    Args:
        rules: What the owner says.
        depth: Asks the broker how many messages a queue holds; raises `ClientError`.
        drain: Receives every message of a queue; raises `ClientError`.
    """

    def __init__(self, rules: External, depth: Callable[[str], int], drain: Callable[[str], None]) -> None:
        self._names, self._may_drain = rules.queues, rules.drain_queues
        self._depth, self._drain = depth, drain
        self._given: dict[str, str] = {}
        self._turn = 0
        self.passed_over: dict[str, int] = {}

    def name(self, queue: str) -> str:
        """The queue for one of the plan, always the same; `LaunchError` if none is empty."""
        if queue == READY_QUEUE:
            return self._names[-1]
        if queue not in self._given:
            self._given[queue] = self._next()
        return self._given[queue]

    def check(self) -> None:
        """Raise `LaunchError` if no trial is possible: the last holds messages, or all others do."""
        if held := self._held(self._names[-1]):
            raise _refused({self._names[-1]: held})
        found = {name: self._held(name) for name in self._names[:-1]}
        self.passed_over |= {name: held for name, held in found.items() if held}
        if all(found.values()):
            raise _refused(found)

    def _next(self) -> str:
        others, found = self._names[:-1], {}
        for _ in others:
            name = others[self._turn % len(others)]
            self._turn += 1
            found[name] = self._held(name)
            if not found[name]:
                return name
            self.passed_over[name] = found[name]
        raise _refused(found)

    def _held(self, name: str) -> int:
        """The number of its messages. If that is allowed it is emptied first, always: a depth may be late."""
        try:
            if self._may_drain:
                self._drain(name)
            return self._depth(name)
        except ClientError as error:
            raise LaunchError(f"external.queues: {name}: {error}") from error


def _refused(held: dict[str, int]) -> LaunchError:
    found = ", ".join(f"{name} holds {depth} messages" for name, depth in held.items())
    return LaunchError(
        f"external.queues: {found}, and must be empty: they were left alone. Empty it, name another, or let the suite "
        "do it (external.drain_queues = true)"
    )


def _summary(left: Mapping[str, str], content: str, prefix: str) -> Iterable[str]:
    """One line for all queues that are left; none if all are gone."""
    if not left:
        return
    reasons = next(iter(left.values()))  # of the first: each names its own queue
    count = "1 queue of this run is" if len(left) == 1 else f"{len(left)} queues of this run are"
    yield f"{count} left, {content}: {reasons}. Remove by hand what begins with {prefix}"


class RunQueues:
    """Queues with names of the suite, `conformance-RUN-...`, for those of a plan; none if there are existing ones.

    Each is in the ledger from before it is declared until it was removed. No name without that prefix and the run's id
    is ever removed or emptied.

    Args:
        plan: The broker.
        rules: What its owner and its product say.
        commands: Runs commands of the owner.
        ledger: Of the run.
        drain: Receives every message of a queue; raises `ClientError`.
        over_amqp: Asks to remove a queue.
        amqp: Host, port and login of its AMQP; None if its owner gave no address for it.
        moved: Turns an HTTP address of the product's file into the one of this broker.
    """

    def __init__(
        self,
        plan: Plan,
        rules: External,
        commands: Commands,
        ledger: Ledger,
        *,
        drain: Callable[[str], None],
        over_amqp: OverAmqp,
        amqp: Callable[[], tuple[str, int, Access] | None],
        moved: Callable[[str], str],
    ) -> None:
        self._rules, self._commands, self._ledger = rules, commands, ledger
        self._drain, self._over_amqp, self._amqp, self._at_its_host = drain, over_amqp, amqp, moved
        self._how = rules.declare or plan.source.file.queues
        self._hyphen = self._how.hyphen if self._how else "-"
        self._prefix = prefix_of(ledger.run_id, self._hyphen)
        self._used: set[str] = set()
        self._names = {queue: self._made_up(queue) for queue in (*plan.queues, READY_QUEUE)}
        self._tickets: dict[str, str] = {}
        file = plan.source.file.model_copy(update={"queues": self._how})
        self._plan = dataclasses.replace(plan, source=dataclasses.replace(plan.source, file=file))

    def name(self, queue: str) -> str:
        """The name at the broker of a queue of the plan, which a client is about to use."""
        found = self._names.get(queue) or self._made_up(queue)
        self._used.add(found)
        return found

    def declare(self) -> None:
        """Declare those that are not declared yet; all of them if a restart of the broker does not keep queues."""
        if self._rules.queues:
            return
        if not self._tickets:
            write_removals(self._left, {name: self._removal(name) for name in self._names.values()})
        for queue, name in self._names.items():
            new = name not in self._tickets
            if new:  # it is in the ledger before: what was declared half may be there
                self._tickets[name] = self._ledger.intend(KIND, name=name, how=str(self._left))
            if new or not queue_declaration.lasting(self._plan):
                self.declare_one(queue)

    def declare_again(self) -> None:
        """Declare all again, as far as the broker takes a queue that it has."""
        for queue in self._names:
            with contextlib.suppress(LaunchError):
                self.declare_one(queue)

    def declare_one(self, queue: str) -> None:
        """Declare a queue of the plan; `LaunchError` if the broker refuses it."""
        if not self._rules.creates_queues:
            alone = dataclasses.replace(self._plan, queues=(self._names[queue],))
            queue_declaration.declare(alone, self._run_here, self._moved(self._how.url if self._how else ""))

    def remove(self) -> list[str]:
        """Remove each that may be there, or empty it; a second call does nothing.

        Return nothing, or a line that says how many are left and why, and then a line for each with its name.
        """
        tickets, self._tickets = self._tickets, {}
        deadline = time.monotonic() + _REMOVE_S
        left: dict[str, str] = {}
        for name, ticket in tickets.items():
            late = time.monotonic() > deadline
            if self._rules.creates_queues and name not in self._used:
                self._ledger.released(ticket)  # no client named it, so it was never made
            elif why := "others took too long to remove" if late else self._removed(name):
                left[name] = why
            else:
                self._ledger.released(ticket)
        return [*_summary(left, self._emptied(left, deadline), self._prefix), *left]

    def _emptied(self, names: Iterable[str], deadline: float) -> str:
        """What is in the queues that are left; a broker that fails once, or takes too long, is left alone."""
        for name in names:
            if not name.startswith(self._prefix) or time.monotonic() > deadline:
                return "not all of them are empty"
            try:
                self._drain(name)
            except ClientError as error:
                return f"not all of them are empty: {error}"
        return "empty"

    def _made_up(self, queue: str) -> str:
        return self._prefix + queue.removeprefix(f"{PREFIX}-").replace("-", self._hyphen)

    @property
    def _left(self) -> pathlib.Path:
        return self._plan.folder / "remove-queues.json"

    def _removal(self, name: str) -> Removal:
        """How this queue is removed, here or by the next run where this one is killed."""
        declared = self._how.remove if self._how else ""
        seconds = self._how.seconds if self._how else 30.0
        here = str(self._commands.here.absolute())
        found = Removal(run=self._ledger.run_id, hyphen=self._hyphen, here=here, seconds=seconds)
        if isinstance(declared, tuple) and declared:
            command = tuple(self._fill(part, name, "remove") for part in declared)
            return msgspec.structs.replace(found, command=command)
        how = Remove(url=str(declared), seconds=seconds) if declared else self._rules.remove
        if how is None or not name.startswith(self._prefix):
            return found
        texts: dict[str, Any] = {
            "headers": {key: self._fill(text, name, "remove") for key, text in how.headers.items()},
            "properties": {key: self._fill(text, name, "remove") for key, text in how.properties.items()},
            "body": self._fill(how.body, name, "remove"),
        }
        if how.address and (amqp := self._amqp()):
            host, port, access = amqp
            request = how.model_copy(update={**texts, "address": self._fill(how.address, name, "remove")})
            return msgspec.structs.replace(found, request=request, host=host, port=port, access=access)
        if how.address or ("{http_port}" in how.url and "http_port" not in self._plan.words):
            return found  # its owner gave no address for AMQP, or of the management
        url = self._moved(how.url)(self._fill(how.url, urllib.parse.quote(name, safe=""), "remove"))
        request = how.model_copy(update={**texts, "url": url})
        return msgspec.structs.replace(found, request=request, access=self._plan.http_access)

    def _removed(self, name: str) -> str:
        """Remove this queue. Return why it is still there, empty if it is gone."""
        how = self._removal(name)
        if how.request is not None:
            return remove_queue(how, self._over_amqp)
        if not how.command:
            return self._no_way
        try:
            self._commands.run("remove", Command(command=how.command, seconds=how.seconds), filled=True)
        except LaunchError as error:
            return str(error)
        return ""

    @property
    def _no_way(self) -> str:
        if self._rules.remove is not None:
            what = "http://HOST:PORT" if self._rules.remove.url else "amqp://HOST:PORT"
            return f"the address by which it is removed is missing: give {what} as well"
        return "its owner's file does not say how a queue is removed (`remove`, beside how it is declared)"

    def _moved(self, template: str) -> Callable[[str], str]:
        """How an address is moved to the host of the management: only if it is given by its port."""
        return self._at_its_host if "{http_port}" in template else str

    def _fill(self, text: str, name: str, field: str) -> str:
        return fill(text, {**self._plan.words, "queue": name}, field)

    def _run_here(self, command: Sequence[str], seconds: float) -> tuple[int, str]:
        environment, log = self._commands.environment, self._plan.folder / "queues.log"
        return queue_declaration.run_here(
            command, seconds, environment=environment, folder=self._commands.here, log=log
        )
