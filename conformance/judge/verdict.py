"""stub"""

from __future__ import annotations
from collections.abc import Sequence
from typing import Any
from conformance.judge import facts, relations
from conformance.judge.compact import Compacted


def collect_facts(spark: Any, trials: Sequence[Compacted]) -> dict[str, facts.TrialFacts]:
    paths = [str(trial.parquet) for trial in trials if trial.parquet]
    if not paths:
        return {}
    return facts.from_rows(row.asDict() for row in relations.summary(spark, paths, len(paths)).collect())
