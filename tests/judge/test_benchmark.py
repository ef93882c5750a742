"""Synthetic histories with known truth, and the benchmark that compares the judge with other engines on them."""

import itertools
import json
import operator

import pyarrow.parquet as pq
import pytest
from judge_histories import offending

import benchmarks
from benchmarks import __main__ as command
from benchmarks import engines, histories, judging
from benchmarks.histories import CHECKS, Synthetic
from conformance.errors import JudgeError
from conformance.judge.input.packing import SCHEMA, compact

pytestmark = pytest.mark.spark

ABOUT = Synthetic(messages=3_000, trials=6, loss=0.02, duplicates=0.02, reorder=0.02, skew=0.5)

ENGINES = ["duckdb", "polars", "spark_plain", "spark_bucketed"]


@pytest.fixture(scope="module")
def trials(session, tmp_path_factory):
    return histories.write(session.spark, ABOUT, tmp_path_factory.mktemp("synthetic"))


def test_the_judge_finds_the_truth_to_the_message(session, trials):
    """Losses, duplicates before and after the acknowledgement, and messages that were overtaken."""
    rows = histories.messages(session.spark, ABOUT).collect()
    truth = {
        (check, row["trial"], row["producer"], row["n"]) for row in rows for check in CHECKS if row[f"offends_{check}"]
    }

    assert truth == set(offending(session.spark, trials, CHECKS))
    assert all(sum(check == each[0] for each in truth) > 20 for check in CHECKS)


def test_every_engine_counts_the_truth(session, trials):
    truth = histories.truth(session.spark, ABOUT)
    paths = [trial.parquet for trial in trials]

    assert truth == engines.spark_counts(session.spark, trials)
    assert truth == engines.duckdb_counts(paths)
    assert truth == engines.polars_counts(paths)


def test_other_engines_count_whole_trials_of_so_many_events_at_a_time(trials, monkeypatch):
    """The first trial has more than half of the events; the other five have a tenth or less each."""
    monkeypatch.setattr(judging, "AT_ONCE", 4_000)
    parts = []

    def count(paths):
        parts.append([*paths])
        return {(path.parent.name, "lost"): (1, 0) for path in paths}

    found = judging._in_parts(count, trials)
    assert [trial.parquet for trial in trials] == list(itertools.chain.from_iterable(parts))
    assert [1, 2, 3] == [len(part) for part in parts]
    assert len(found) == len({path.parent for part in parts for path in part})


def test_the_first_trial_has_the_skew(trials):
    """A half of the messages, and a sixth of the other half."""
    first, *others = [trial.events for trial in trials]

    assert 0.56 < first / (first + sum(others)) < 0.6
    assert max(others) < 1.1 * min(others)


def test_packing_makes_the_same_parquet_of_the_json_lines(trials, tmp_path):
    """So the layout is the one that the judge reads."""
    histories.write_lines(trials[1], tmp_path / "t")
    packed = compact(tmp_path / "t", trials[1].record)
    synthetic = pq.ParquetFile(trials[1].parquet).read().cast(SCHEMA)

    def ordered(table):
        return sorted(table.to_pylist(), key=operator.itemgetter("process", "sequence"))

    assert ordered(pq.ParquetFile(packed.parquet).read()) == ordered(synthetic)


def test_the_command_writes_its_figures(session, tmp_path):
    """`just bench judge --events N --json FILE`."""
    target = tmp_path / "bench.json"
    lines = list(benchmarks.run("judge", ["--events", "4000", "--trials", "6", "--rounds", "1", "--json", str(target)]))
    found = json.loads(target.read_text())

    assert {*(f"{name}_s" for name in ENGINES), "pack_s", "spark_jvm_peak_mb", "pack_mb"} <= found.keys()
    assert ["truth", *ENGINES] == list(found["counts"])
    assert all(found["counts"]["truth"] == counts for counts in found["counts"].values())
    assert 3_700 < found["events"] < 4_100
    assert 606 == found["messages"]
    assert lines[0].startswith(f"judge: {found['events']:,} events of 606 messages in 6 trials")
    assert ["truth", *ENGINES] == [line.split()[0] for line in lines[2:7]]


def test_one_trial_is_not_read_in_buckets(session):
    lines = list(benchmarks.run("judge", ["--events", "1000", "--trials", "1", "--rounds", "1"]))

    assert ["truth", *ENGINES[:3]] == [line.split()[0] for line in lines[2:6]]
    assert lines[6].startswith("judge: spark_bucketed is left out: one trial has more than half of a core's share")


def test_an_engine_that_counts_something_else_is_an_error(trials):
    truth = {("t00000", "lost"): (5, 1)}

    with pytest.raises(JudgeError, match=r"wrong counts \(5, 2\) of \('t00000', 'lost'\), not \(5, 1\)"):
        judging._raced({"wrong": lambda _: {("t00000", "lost"): (5, 2)}}, trials, truth, 1)


@pytest.mark.parametrize(
    "words", [["--events"], ["--events", "0"], ["--events", "many"], ["--kills", "3"], ["--json", "x"], ["--json"]]
)
def test_a_wrong_option_is_a_usage_error(words, capsys):
    assert command.main(["judge", *words]) == 4
    assert capsys.readouterr().err.startswith("benchmarks: judge ")
