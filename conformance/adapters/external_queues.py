"""The queues of a run at a broker that is somebody else's: declared under names of our own, and taken away again."""

from __future__ import annotations

import dataclasses
import pathlib
import urllib.parse
from collections.abc import Sequence

from conformance.adapters import declaring, web
from conformance.adapters.external_commands import Commands
from conformance.adapters.external_table import Command, External
from conformance.adapters.placeholders import fill
from conformance.adapters.planned import READY_QUEUE, Plan
from conformance.adapters.starting import Queues as Rules
from conformance.errors import LaunchError
from conformance.ledger import Ledger

PREFIX = "conformance"
_REMOVED = (200, 202, 204, 404)


class Queues:
    """Names of ours, `conformance-RUN-...`, for the queues of a plan; or the existing ones of its owner."""

    def __init__(self, plan: Plan, rules: External, commands: Commands, ledger: Ledger) -> None:
        self._rules, self._commands = rules, commands
        self._run = ledger.run_id.replace(".", "-")
        self._how = rules.declare or plan.source.file.queues
        self._names = {queue: self._made_up(queue) for queue in (*plan.queues, READY_QUEUE)}
        self._given: dict[str, str] = {}
        self._declared: list[str] = []
        file = plan.source.file.model_copy(update={"queues": self._how})
        self._plan = dataclasses.replace(plan, source=dataclasses.replace(plan.source, file=file))

    def name(self, queue: str) -> str:
        """What a queue of the plan is called at the broker; existing ones are given out in turn."""
        existing = self._rules.queues
        if not existing:
            return self._names.get(queue) or self._made_up(queue)
        if queue == READY_QUEUE:
            return existing[-1]
        return self._given.setdefault(queue, existing[len(self._given) % (len(existing) - 1)])

    def declare(self) -> None:
        """Declare each that is not there yet; `LaunchError` names the field, and what was answered."""
        if self._rules.queues or self._rules.creates_queues:
            return
        for name in self._names.values():
            if name not in self._declared:
                self._declared.append(name)  # before: what was declared half may be there
                declaring.declare(dataclasses.replace(self._plan, queues=(name,)), self._run_here)

    def remove(self) -> list[str]:
        """Remove each that may be there; a line for each that is left, with the reason. A second call does nothing."""
        if self._rules.queues:
            return []
        touched, self._declared = [*self._declared], []
        if self._rules.creates_queues:
            touched = [*self._names.values()] if self._how is None or self._how.remove else []
        if not touched:
            return []
        if self._how is None or not self._how.remove:
            why = "its owner's file does not say how a queue is removed (`remove`, beside how it is declared)"
            return [f"queue {name} is left: {why}" for name in touched]
        return [f"queue {name} is left: {why}" for name in touched if (why := self._removed(name, self._how))]

    def _made_up(self, queue: str) -> str:
        return f"{PREFIX}-{self._run}-{queue.removeprefix(f'{PREFIX}-')}"

    def _removed(self, name: str, how: Rules) -> str:
        """Why it could not be; empty where it is gone."""
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
            status, said = web.ask("DELETE", url, timeout_s=how.seconds)
        except OSError as error:
            return f"DELETE {web.shown(url)}: {error}"
        return "" if status in _REMOVED else f"DELETE {web.shown(url)} answered {status}: {said[:200]}"

    def _fill(self, text: str, name: str, field: str) -> str:
        return fill(text, {**self._plan.words, "queue": name}, field)

    def _run_here(self, command: Sequence[str], seconds: float) -> tuple[int, str]:
        """As `declaring.run_here`, and with the words that all commands of the owner get."""
        folder = self._commands.here
        log: pathlib.Path = self._plan.folder / "queues.log"
        return declaring.run_here(command, seconds, environment=self._commands.environment, folder=folder, log=log)
