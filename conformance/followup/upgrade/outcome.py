"""Compare an upgrade with the old version: regressions, and data on which the new version does not start."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Sequence

import msgspec

from conformance.errors import ExitCode
from conformance.followup.upgrade.broker import FailedUpgradeStart, UpgradeRecord
from conformance.judge.rows import Judgement, Verdict
from conformance.report.expectations import ExpectationOutcome, Expected
from conformance.report.expected import Expectations, Item, Standing

_MEANS = "the new version did not start on data on which the old one does"


@dataclasses.dataclass(frozen=True)
class UpgradeExpected(Expected):
    """The expectations of a run with a baseline; also, a new version that does not start on old data is a regression.

    Its trials are void and decide no claim, but the failed start itself counts. It does not count if the old version
    also did not start again in the same trial.
    """

    record: UpgradeRecord | None = None

    def of(self, judgement: Judgement) -> ExpectationOutcome:
        """Compare the judged rows and the failed starts with the expectations."""
        plain = super().of(judgement)
        found = self._new(self.record.refusals if self.record else ())
        if not found:
            return plain
        items = (*self._items(found, judgement), *plain.expectations.items)
        code = plain.exit_code
        if code is ExitCode.INTERRUPTED or _other_errors(judgement, {refusal.trial for refusal in found}):
            return dataclasses.replace(plain, expectations=_with(plain.expectations, items))
        code = ExitCode.VIOLATED
        return dataclasses.replace(plain, expectations=Expectations(exit_code=int(code), means=_MEANS, items=items))

    def _new(self, refusals: Sequence[FailedUpgradeStart]) -> list[FailedUpgradeStart]:
        """Leave out trials that were also void for the old version alone."""
        trials = self.baseline.trials if self.baseline else ()
        void = {trial.trial for trial in trials if trial.void}
        return [refusal for refusal in refusals if refusal.trial not in void]

    def _items(self, found: Sequence[FailedUpgradeStart], judgement: Judgement) -> Iterator[Item]:
        """Yield one item for each scenario and arm."""
        assert self.record is not None  # something was found in it
        known = {trial.trial: trial for trial in judgement.trials}
        groups: dict[tuple[str, str], list[FailedUpgradeStart]] = collections.defaultdict(list)
        for refusal in found:
            trial = known[refusal.trial]
            groups[trial.scenario, trial.control].append(refusal)
        for (scenario, control), refusals in groups.items():
            told = [t for t in judgement.trials if (t.scenario, t.control) == (scenario, control)]
            under = f" under {control}" if control else ""
            yield Item(
                standing=Standing.REGRESSION,
                claim=f"The start of {self.record.new} on the data of {self.record.old}",
                scenario=scenario,
                text=f"it did not start in {len(refusals)} of {len(told)} trials{under}: {refusals[0].says}",
            )


def _with(expectations: Expectations, items: tuple[Item, ...]) -> Expectations:
    return msgspec.structs.replace(expectations, items=items)


def _other_errors(judgement: Judgement, refused: set[str]) -> bool:
    """Whether the suite failed in another way than by the trials that the new version made void."""
    if not judgement.run.finished or any(trial.void and trial.trial not in refused for trial in judgement.trials):
        return True
    scenarios = {trial.scenario for trial in judgement.trials if trial.trial in refused}
    rows = judgement.rows + judgement.self_checks
    return any(row.verdict is Verdict.HARNESS_ERROR and row.scenario not in scenarios for row in rows)
