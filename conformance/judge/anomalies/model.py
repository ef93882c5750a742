"""An anomaly: a name, a sentence, and two SQL expressions over the row of one message."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping

from conformance.claims import Evidence
from conformance.judge.anomalies import fates

_COLUMNS: Mapping[Evidence, str] = {
    "absence": "settled|settled_anywhere|accounted",
    "return": "early_received_at|received_last_at|last_epoch|drained_in|carried_last_at|drained_early_at"
    "|drained_last_at|redelivered > 0|handed >= 2|handed_last_at|overtaken|left_in_queue",
    "delay": "stuck_at|starved_at|late_after_restart",
    "answer": "overdue|answer_at|burst_answered_at|shut_with|resumed_at",
}
"""By kind of evidence, the columns that a check reads when it concludes from it."""


REPEATS = 3
"""A late or missing message is a violation only if this many trials show it."""


@dataclasses.dataclass(frozen=True)
class Anomaly:
    """One anomaly, or one witness of a permission.

    `applies` selects the messages that can show it, `offends` those that do. `words` follow a figure: "0 of 9 <words>".
    `drained`: its absence counts only if the queue was drained to silence. `order` is the column that splits a loss
    into prefix, middle and tail. `beside` names an anomaly that any trial must show as well before this permission is
    witnessed.

    `at_disk`: it is about the order of answers, writes and syncs. It decides nothing if the tracer could not see them
    all. `missed` selects the messages that it should have decided, and could not, because their write was not seen.
    `true_without_fault`: an offence counts although the fault of its trial did not take effect, as a broker that never
    syncs gives a held sync nothing to hold.

    `on_link`: frames decide it. Its clients must use a link (`Scenario.linked`); without a recorded frame it applies to
    nothing, and its exposures are zero.

    `trials` is the least number of them that must show it; `REPEATS` for one that compares two ways to do one thing.
    `figures` of an observation or expectation are format strings, each with an aggregate over the rows of one trial.
    """

    name: str
    sentence: str
    applies: str
    offends: str
    words: str
    drained: bool = True
    order: str = ""
    beside: str = ""
    at_disk: bool = False
    missed: str = ""
    on_link: bool = False
    trials: int = 1
    true_without_fault: bool = False
    figures: tuple[tuple[str, str], ...] = ()

    def rests_on(self, kinds: Iterable[Evidence]) -> bool:
        return bool(fates.EVIDENCE.get(self.name, frozenset()) & set(kinds)) or any(
            re.search(rf"\b({_COLUMNS[kind]})\b", f"{self.applies} {self.offends}")
            for kind in kinds
            if kind in _COLUMNS
        )


UndrainedAnomaly = functools.partial(Anomaly, drained=False)
"""Its evidence is an event: it needs no drained queue."""

LinkAnomaly = functools.partial(UndrainedAnomaly, on_link=True)
DiskAnomaly = functools.partial(UndrainedAnomaly, at_disk=True, true_without_fault=True)
