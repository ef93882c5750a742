"""What a run adds to its trials before it answers."""

import dataclasses
import types

import msgspec
import pytest
from judge_evidence import facts, rule
from judge_histories import RUN

from conformance import campaign
from conformance.campaign import open_run, repeats
from conformance.judge.rows import Judgement, Verdict

KILLED = "broker-killed-while-publishing"


def running(folder, monkeypatch, found):
    """A run whose verdicts for each number of trials are given by `found`; and the trials that it records."""
    prepared = campaign.prepare(campaign.Options(adapter="reference", claims=("SOLCD-ACK-01",), seed=3))
    recorded = [trial.index for trial in prepared.trials if (trial.script.id, trial.arm) == (KILLED, "subject")]
    blank = rule("SOLCD-ACK-01", KILLED, [facts()] * 3, [facts(offends={"lost": 1}, tail=True)] * 3)

    def judged(*_):
        verdict, offended = found(len(recorded))
        row = msgspec.structs.replace(blank, verdict=verdict, offended=offended, trials=len(recorded))
        return Judgement(run=RUN, rows=(row,), self_checks=(), trials=())

    monkeypatch.setattr(open_run, "judge_folder", judged)
    recording = types.SimpleNamespace(
        record=lambda trials: recorded.extend(trial.index for trial in trials), deviations={}, floor_seconds=0.0
    )
    whole = dataclasses.replace(prepared, folder=folder)
    written = types.SimpleNamespace(run=RUN, plan=lambda _: None, close=lambda **_: RUN)
    return campaign.OpenRun(whole, written, recording, None, campaign.Watcher()), recorded


@pytest.mark.parametrize(
    ("found", "verdict", "trials"),
    [
        (lambda n: (Verdict.INCONCLUSIVE, 2) if n < 5 else (Verdict.VIOLATED, 4), Verdict.VIOLATED, 5),
        (lambda _: (Verdict.INCONCLUSIVE, 2), Verdict.INCONCLUSIVE, 3 + repeats.MOST_REPEATS),
        (lambda _: (Verdict.INCONCLUSIVE, 0), Verdict.INCONCLUSIVE, 3),
        (lambda n: (Verdict.VIOLATED, n - 2), Verdict.VIOLATED, 3 + repeats.REPEATS),
        (lambda n: (Verdict.VIOLATED, n), Verdict.VIOLATED, 3),
    ],
    ids=["stuck in two of three, then in four of five", "stuck in two", "never seen", "a violation", "in all"],
)
def test_repeats(tmp_path, monkeypatch, found, verdict, trials):
    run, recorded = running(tmp_path, monkeypatch, found)

    answer = run.judge()

    assert [verdict] == [row.verdict for row in answer.rows]
    assert list(range(1, trials + 1)) == recorded
