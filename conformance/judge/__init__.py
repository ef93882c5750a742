"""One decider: from the histories of a run to verdicts, on PySpark.

    starting = judge.start_in_background()
    judgement = judge.judge(folder, catalogue, scenarios, starting)

Read in this order: `anomalies` (what can go wrong with a message), `input` (a checked folder, frames tied to messages,
histories packed into Parquet), `plan` (the one plan, and what it brings home), `tally` and `rules` (what a verdict
needs), `verdict`. Importing this package imports no Spark: that happens in the thread that
`start_in_background` starts.
"""

from conformance.judge.exits import REPEATS, exit_code, needs_repeats
from conformance.judge.spark.session import JudgeSession, StartingSession, start_in_background, start_when_asked
from conformance.judge.verdict import judge

__all__ = [
    "REPEATS",
    "JudgeSession",
    "StartingSession",
    "exit_code",
    "judge",
    "needs_repeats",
    "start_in_background",
    "start_when_asked",
]
