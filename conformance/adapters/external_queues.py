"""The queues of a run at a broker that is somebody else's: declared under names of our own, and taken away again."""

from __future__ import annotations

import dataclasses
import pathlib
import urllib.parse
from collections.abc import Callable, Sequence

import msgspec

from conformance.adapters import declaring, external_left, web
from conformance.adapters.external_commands import Commands
from conformance.adapters.external_left import GONE, PREFIX, Removal
from conformance.adapters.external_table import Command, External
from conformance.adapters.placeholders import fill
from conformance.adapters.planned import READY_QUEUE, Plan
from conformance.adapters.starting import Queues as Rules
from conformance.errors import ClientError, LaunchError
from conformance.ledger import Ledger

__all__ = ["PREFIX", "Existing", "Queues"]


class Existing:
    """Queues of an owner whose users may make none: given out in turn, and each only while it is empty.

    What is in one when a trial begins would be taken for a message of that trial: so one that holds something, be it
    what a void trial has left, is passed over, or emptied where the owner says so (`drain_queues`). `passed_over` has
    what those held.

    Args:
        rules: What the owner says.
        depth: How many messages a queue holds, by the broker's own word; raises `ClientError`.
        drain: Takes whatever a queue holds; raises `ClientError`.
    """

    def __init__(self, rules: External, depth: Callable[[str], int], drain: Callable[[str], None]) -> None:
        self._names, self._may_drain = rules.queues, rules.drain_queues
        self._depth, self._drain = depth, drain
        self._given: dict[str, str] = {}
        self._turn = 0
        self.passed_over: dict[str, int] = {}

    def name(self, queue: str) -> str:
        """The one for a queue of the plan, the same whenever it is asked for; `LaunchError` where none is empty."""
        if queue == READY_QUEUE:
            return self._names[-1]
        if queue not in self._given:
            self._given[queue] = self._next()
        return self._given[queue]

    def check(self) -> None:
        """Raise `LaunchError` where nothing could be tried: the last holds something, or all others do."""
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
        """How many it holds, once it was emptied where that is allowed: a depth may be told late, so it always is."""
        try:
            if self._may_drain:
                self._drain(name)
            return self._depth(name)
        except ClientError as error:
            raise LaunchError(f"external.queues: {name}: {error}") from error


def _refused(held: dict[str, int]) -> LaunchError:
    told = ", ".join(f"{name} holds {depth} messages" for name, depth in held.items())
    return LaunchError(
        f"external.queues: {told}, and must be empty: they were left alone. Empty it, name another, or let the suite "
        "do it (external.drain_queues = true)"
    )


class Queues:
    """Names of ours, `conformance-RUN-...`, for the queues of a plan; none of them where there are existing ones.

    Each is in the ledger from before it is declared until it was removed.
    """

    def __init__(self, plan: Plan, rules: External, commands: Commands, ledger: Ledger) -> None:
        self._rules, self._commands, self._ledger = rules, commands, ledger
        self._run = ledger.run_id.replace(".", "-")
        self._how = rules.declare or plan.source.file.queues
        self._names = {queue: self._made_up(queue) for queue in (*plan.queues, READY_QUEUE)}
        self._tickets: dict[str, str] = {}
        file = plan.source.file.model_copy(update={"queues": self._how})
        self._plan = dataclasses.replace(plan, source=dataclasses.replace(plan.source, file=file))

    def name(self, queue: str) -> str:
        """What a queue of the plan is called at the broker."""
        return self._names.get(queue) or self._made_up(queue)

    def declare(self) -> None:
        """Declare each that is not there yet; `LaunchError` names the field, and what was answered."""
        if self._rules.queues:
            return
        if not self._tickets:
            external_left.write(self._left, {name: self._removal(name) for name in self._names.values()})
        for name in self._names.values():
            if name not in self._tickets:  # it is in the ledger before: what was declared half may be there
                self._tickets[name] = self._ledger.intend(external_left.KIND, name=name, how=str(self._left))
                if not self._rules.creates_queues:
                    declaring.declare(dataclasses.replace(self._plan, queues=(name,)), self._run_here)

    def remove(self) -> list[str]:
        """Remove each that may be there; a line for each that is left, with the reason. A second call does nothing."""
        tickets, self._tickets = self._tickets, {}
        left = []
        for name, ticket in tickets.items():
            if why := self._removed(name):
                left.append(f"queue {name} is left: {why}")
            else:
                self._ledger.released(ticket)
        return left

    def _made_up(self, queue: str) -> str:
        return f"{PREFIX}-{self._run}-{queue.removeprefix(f'{PREFIX}-')}"

    @property
    def _left(self) -> pathlib.Path:
        return self._plan.folder / "remove-queues.json"

    def _removal(self, name: str) -> Removal:
        """How the next run removes it, where this one is killed."""
        how = self._how
        found = Removal(run=self._ledger.run_id, here=str(self._commands.here.absolute()))
        if how is None or not how.remove:
            return found
        if isinstance(how.remove, str):
            url = self._fill(how.remove, urllib.parse.quote(name, safe=""), "remove")
            return msgspec.structs.replace(found, url=url, seconds=how.seconds, tls=self._plan.tls)
        command = tuple(self._fill(part, name, "remove") for part in how.remove)
        return msgspec.structs.replace(found, command=command, seconds=how.seconds)

    def _removed(self, name: str) -> str:
        """Why it could not be; empty where it is gone."""
        how = self._how
        if how is None or not how.remove:
            return "its owner's file does not say how a queue is removed (`remove`, beside how it is declared)"
        try:
            if isinstance(how.remove, str):
                return self._deleted(name, how, how.remove)
            wanted = Command(command=how.remove, seconds=how.seconds)
            self._commands.run_for("remove", wanted, lambda text, field: self._fill(text, name, field))
        except LaunchError as error:
            return str(error)
        return ""

    def _deleted(self, name: str, how: Rules, address: str) -> str:
        url = self._fill(address, urllib.parse.quote(name, safe=""), "remove")
        try:
            status, said = web.ask("DELETE", url, timeout_s=how.seconds, tls=self._plan.tls)
        except OSError as error:
            return f"DELETE {web.shown(url)}: {error}"
        return "" if status in GONE else f"DELETE {web.shown(url)} answered {status}: {said[:200]}"

    def _fill(self, text: str, name: str, field: str) -> str:
        return fill(text, {**self._plan.words, "queue": name}, field)

    def _run_here(self, command: Sequence[str], seconds: float) -> tuple[int, str]:
        """As `declaring.run_here`, and with the words that all commands of the owner get."""
        folder = self._commands.here
        log: pathlib.Path = self._plan.folder / "queues.log"
        return declaring.run_here(command, seconds, environment=self._commands.environment, folder=folder, log=log)
