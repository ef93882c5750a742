"""Declare the queues of a run at an external broker, under names of this suite, and remove them again."""

from __future__ import annotations

import dataclasses
import pathlib
import time
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from conformance.adapters.credentials import Access
from conformance.adapters.external import leftovers
from conformance.adapters.external.commands import Commands
from conformance.adapters.external.leftovers import PREFIX, Removal
from conformance.adapters.file.external_table import Command, External
from conformance.adapters.file.placeholders import fill
from conformance.adapters.file.start_table import Remove
from conformance.adapters.launch import queue_declaration
from conformance.adapters.launch.prepared import READY_QUEUE, Plan
from conformance.errors import ClientError, LaunchError
from conformance.ledger import Ledger

__all__ = ["PREFIX", "Existing", "RunQueues"]

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
        place: Where its AMQP answers, with the login; None without an address for it.
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
        place: Callable[[], tuple[str, int, Access] | None],
        moved: Callable[[str], str],
    ) -> None:
        self._rules, self._commands, self._ledger = rules, commands, ledger
        self._drain, self._place, self._at_its_host = drain, place, moved
        self._run = ledger.run_id.replace(".", "-")
        self._how = rules.declare or plan.source.file.queues
        self._used: set[str] = set()
        self._names = {queue: self._made_up(queue) for queue in (*plan.queues, READY_QUEUE)}
        self._tickets: dict[str, str] = {}
        file = plan.source.file.model_copy(update={"queues": self._how})
        self._plan = dataclasses.replace(plan, source=dataclasses.replace(plan.source, file=file))

    def name(self, queue: str) -> str:
        """What a queue of the plan is called at the broker, which a client is about to use."""
        found = self._names.get(queue) or self._made_up(queue)
        self._used.add(found)
        return found

    def declare(self) -> None:
        """Declare each that is not there yet; `LaunchError` names the field, and what was answered."""
        if self._rules.queues:
            return
        if not self._tickets:
            leftovers.write(self._left, {name: self._removal(name) for name in self._names.values()})
        for name in self._names.values():
            if name not in self._tickets:  # it is in the ledger before: what was declared half may be there
                self._tickets[name] = self._ledger.intend(leftovers.KIND, name=name, how=str(self._left))
                if not self._rules.creates_queues:
                    alone = dataclasses.replace(self._plan, queues=(name,))
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

    @property
    def _prefix(self) -> str:
        return f"{PREFIX}-{self._run}-"

    def _made_up(self, queue: str) -> str:
        return f"{self._prefix}{queue.removeprefix(f'{PREFIX}-')}"

    @property
    def _left(self) -> pathlib.Path:
        return self._plan.folder / "remove-queues.json"

    def _removal(self, name: str) -> Removal:
        """How this queue is removed, here or by the next run where this one is killed."""
        declared = self._how.remove if self._how else ""
        seconds = self._how.seconds if self._how else 30.0
        found = Removal(run=self._ledger.run_id, here=str(self._commands.here.absolute()))
        if isinstance(declared, tuple) and declared:
            command = tuple(self._fill(part, name, "remove") for part in declared)
            return msgspec.structs.replace(found, command=command, seconds=seconds)
        how = Remove(url=str(declared), seconds=seconds) if declared else self._rules.remove
        if how is None or not name.startswith(self._prefix):
            return found
        if how.address:
            return self._over_amqp(found, how, name)
        if "{http_port}" in how.url and "http_port" not in self._plan.words:
            return found  # no address of the management was given
        url = self._moved(how.url)(self._fill(how.url, urllib.parse.quote(name, safe=""), "remove"))
        return self._request(msgspec.structs.replace(found, url=url, access=self._plan.http_access), how, name)

    def _over_amqp(self, found: Removal, how: Remove, name: str) -> Removal:
        place = self._place()
        if place is None:
            return found
        host, port, access = place
        address = self._fill(how.address, name, "remove")
        return self._request(
            msgspec.structs.replace(found, address=address, host=host, port=port, access=access), how, name
        )

    def _request(self, found: Removal, how: Remove, name: str) -> Removal:
        return msgspec.structs.replace(
            found,
            verb=how.verb,
            headers={key: self._fill(text, name, "remove") for key, text in how.headers.items()},
            properties={key: self._fill(text, name, "remove") for key, text in how.properties.items()},
            body=self._fill(how.body, name, "remove"),
            status=how.status,
            field=how.field,
            value=how.value,
            absent=how.absent,
            seconds=how.seconds,
        )

    def _removed(self, name: str) -> str:
        """Remove this queue. Return why it is still there, empty if it is gone."""
        how = self._removal(name)
        if how.url or how.address:
            return leftovers.removed(how)
        if not how.command:
            return self._no_way
        try:
            wanted = Command(command=how.command, seconds=how.seconds)
            self._commands.run_for("remove", wanted, lambda text, _: text)
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
        """As `queue_declaration.run_here`, and with the words that all commands of the owner get."""
        folder = self._commands.here
        log: pathlib.Path = self._plan.folder / "queues.log"
        return queue_declaration.run_here(
            command, seconds, environment=self._commands.environment, folder=folder, log=log
        )
