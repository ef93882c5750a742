"""Damage the data of a broker at rest, and find what the broker then reports of it.

A report is a line of its log that no run of this broker wrote before, and that names an error, is a warning, or has one
of the words in `_SAYS`. In a log without levels every such line counts: to overlook a report would be a false
accusation. Names of queues say nothing.
"""

from __future__ import annotations

import pathlib
import re
import shutil
from collections.abc import Callable

from conformance.adapters import Broker
from conformance.adapters.broker_log import has_level, reasons_in, text_of
from conformance.errors import FaultError
from conformance.faults.disk.corruption import corrupt
from conformance.history import REPORTED, Op, Phase
from conformance.run.planning import Planned
from conformance.run.trial.evidence import logs_of, undelivered_messages
from conformance.run.trial.restart import copy_data
from conformance.scenario.script import Corrupt, CorruptReplica, Restart

_SAYS = re.compile(
    r"\b(warn(ing)?|corrupt\w*|damage\w*|checksum|crc\w*|invalid|inconsisten\w*|truncat\w*|torn|missing|skip\w*"
    r"|repair\w*|unreadable|malformed)\b",
    re.IGNORECASE,
)


class Damaged:
    """What one trial does to the data of its broker, and what the broker says of it."""

    def __init__(self, broker: Broker, folder: pathlib.Path, planned: Planned) -> None:
        self._broker, self._folder, self._planned = broker, folder, planned
        self._older = broker.node.facts.folder.parent / f"{broker.node.facts.folder.name}-older"
        self._queue = re.compile(planned.script.id.replace("-", "[-_]"))
        self._known: set[str] | None = None

    @property
    def done(self) -> bool:
        """Whether the data were changed."""
        return self._known is not None

    @property
    def _keeps(self) -> bool:
        """Whether a file of the data becomes what it is now."""
        return not self.done and Corrupt("older_file") in self._planned.script.faults

    def before_start(self, step: Restart, note: Callable[..., None]) -> None:
        """Change the data of a broker that is down, or keep them as they are before a later step changes them.

        Raises `FaultError` if they have no place for this change, or cannot be kept.
        """
        served = self._broker.node
        beside = (node for node in self._broker.nodes if node is not served)
        facts = (next(beside) if isinstance(step.under, CorruptReplica) else served).facts
        if isinstance(step.under, Corrupt):
            note(Op.FAULT, Phase.ARMED, fault=step.under.name)
            self._known = {_without_numbers(line) for line in self._lines()}
            owed, seed = undelivered_messages(self._folder), f"{self._planned.id}:{self._planned.seed}"
            changed = corrupt(step.under, facts.data, owed, seed, older=self._older, spared=facts.logs)
            if isinstance(step.under, CorruptReplica):  # the later kill is the unit: it makes the replica serve, or not
                note(Op.FAULT, Phase.EFFECTIVE, fault=step.under.name, detail=f"{changed} of {facts.folder.name}")
                return
            note(Op.FAULT, Phase.FIRED, fault=step.under.name, detail=changed)
            note(Op.FAULT, Phase.EFFECTIVE, fault=step.under.name)
        elif self._keeps and (why := copy_data(facts.data, self._older)):
            raise FaultError(f"its data cannot be kept as they are now: {why}")

    def report(self, note: Callable[..., None]) -> None:
        """Note the first line in which the broker reports the damage, if there is one."""
        if self._known is None:
            return
        lines = self._lines()
        new = [line for line in lines if _without_numbers(line) not in self._known]
        reports = {*reasons_in("\n".join(new)), *(line for line in new if _SAYS.search(self._queue.sub("", line)))}
        levels = any(map(has_level, lines))
        if said := next((line for line in new if line in reports or not levels), ""):
            note(Op.BROKER, Phase.INFO, detail=f"{REPORTED}: {said[:300]}")

    def end(self) -> None:
        shutil.rmtree(self._older, ignore_errors=True)

    def _lines(self) -> list[str]:
        texts = map(text_of, logs_of(self._broker))
        return [line.strip() for text in texts for line in text.splitlines() if line.strip()]


def _without_numbers(line: str) -> str:
    return re.sub(r"[0-9a-f]*\d[0-9a-f]*", "#", line)
