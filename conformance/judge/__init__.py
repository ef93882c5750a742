"""Decide the verdicts of a run from its histories, on PySpark.

    starting = judge.start_in_background()
    judgement = judge.judge(folder, catalogue, scenarios, starting)

Read in this order: `anomalies` (what can go wrong with a message), `input` (a checked folder, frames tied to messages,
histories packed into Parquet), `plan` (the one Spark plan and its result), `tally`, `rules` and `reasons` (rows from
counts), `verdict`. Importing this package imports no Spark: the thread of `start_in_background` does.
"""

from conformance.judge.exits import exit_code
from conformance.judge.spark import JudgeSession, StartingSession, start_in_background
from conformance.judge.verdict import judge

__all__ = [
    "JudgeSession",
    "StartingSession",
    "exit_code",
    "judge",
    "start_in_background",
]
