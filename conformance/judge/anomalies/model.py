"""One anomaly: a name, a sentence, two expressions over the row of a message, and its words in a reason."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping

from conformance.claims import Evidence

_COLUMNS: Mapping[Evidence, str] = {
    "absence": "settled|accounted",
    "return": "early_received_at|received_last_at|last_epoch|drained_in|carried_last_at|drained_early_at"
    "|redelivered > 0|handed >= 2|handed_last_at|overtaken|left_in_queue",
    "delay": "stuck_at|starved_at|late_after_restart",
    "answer": "overdue|answer_at|burst_answered_at|shut_with|resumed_at",
}
"""The columns that a check reads where it concludes from evidence of that kind."""


@dataclasses.dataclass(frozen=True)
class Anomaly:
    """One anomaly, or one witness of a permission.

    `of`, `happened`, `happens` and `control` are its words in a reason: "0 of 9 <of> <happened>", "the chance that one
    fault <happens>", "the control <control> in 3 of 3". `drained`: its absence counts only where the queue was drained
    to silence. `order` is the column whose order tells the prefix, the middle and the tail of a loss apart. `beside`
    names an anomaly that must be seen as well, in any trial, before this one is witnessed.

    `at_disk`: it is about the order of answers, writes and syncs, decides nothing where something of that cannot be
    seen, and needs no fault to be true: a broker that never syncs gives a held sync nothing to hold. `missed` counts
    the messages that it should have been decided on and was not, because what decides was not seen.

    `on_link`: frames decide it. The clients that it is about must go over a link (`Scenario.linked`); where none was
    recorded it applies to nothing, and no exposure of it is above zero.

    `repeated`: it compares two ways to do one thing, and is a violation only in `rules.REPEATS` trials. `figures` of an
    observation are words with a place for a number, and that number as an aggregate over the rows of one trial, the
    same in each of them.
    """

    name: str
    sentence: str
    applies: str
    offends: str
    of: str
    happened: str
    happens: str = ""
    control: str = "failed"
    drained: bool = True
    order: str = ""
    beside: str = ""
    at_disk: bool = False
    missed: str = ""
    on_link: bool = False
    repeated: bool = False
    figures: tuple[tuple[str, str], ...] = ()

    @property
    def true_without_fault(self) -> bool:
        """Whether one that was seen is true in a trial whose fault did not take effect."""
        return self.at_disk or self.name == "not_recovered"

    def rests_on(self, kinds: Iterable[Evidence]) -> bool:
        """Whether it can conclude something from evidence of one of these kinds."""
        return any(re.search(rf"\b({_COLUMNS[kind]})\b", f"{self.applies} {self.offends}") for kind in kinds)
