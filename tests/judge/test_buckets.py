"""In buckets the judge counts the same as without, and moves no event. A file in the wrong bucket is noticed."""

import contextlib
import tempfile
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks import engines, histories
from benchmarks.histories import CHECKS, Synthetic
from conformance.errors import JudgeError
from conformance.judge.input import buckets
from conformance.judge.input.packing import Compacted
from conformance.judge.plan import relations
from conformance.judge.spark import CORES_HERE, size_plans
from conformance.judge.verdict import collect, collect_courses

pytestmark = pytest.mark.spark
ABOUT = Synthetic(messages=2_000, trials=8, loss=0.02, duplicates=0.02, reorder=0.02)
USED = [(check, "received") for check in CHECKS]


@pytest.fixture(scope="module")
def trials(session, tmp_path_factory):
    return histories.write(session.spark, ABOUT, tmp_path_factory.mktemp("synthetic"))


@pytest.fixture
def truth(session):
    return histories.truth(session.spark, ABOUT)


def left():
    """Temporary folders with links, of any process."""
    return set(Path(tempfile.gettempdir()).glob("conformance-buckets-*"))


def swapped(trials, folder):
    """The same events, but each file has one half of its trial and the other half of the next one."""
    tables = [pq.read_table(trial.parquet, partitioning=None) for trial in trials]
    even = [pc.equal(pc.bit_wise_and(table["sequence"], 1), 0) for table in tables]
    made = []
    for place, trial in enumerate(trials):
        path = folder / f"{trial.record.trial}.parquet"
        after = (place + 1) % len(trials)
        with pq.ParquetWriter(path, tables[0].schema) as writer:
            writer.write_table(tables[place].filter(even[place]))
            writer.write_table(tables[after].filter(pc.invert(even[after])))
        made.append(Compacted(trial.record, path))
    return made


def test_the_same_counts(session, trials, truth):
    assert truth == engines.spark_counts(session.spark, trials, in_buckets=True)


def test_the_same_courses(session, trials, monkeypatch):
    plain = collect_courses(session.spark, trials)
    monkeypatch.setattr(buckets.bucketed.__wrapped__, "__defaults__", (0,))

    assert plain == collect_courses(session.spark, trials)


def test_no_event_moves(session, trials, capsys):
    """The only exchange is that of the facts of a trial: some rows of each process."""
    size_plans(session.spark, 1_000_000)
    found = []
    with buckets.bucketed(session.spark, trials, collect, 0) as events:
        for frame in (events, session.spark.read.parquet(*(str(trial.parquet) for trial in trials))):
            relations.counted(relations.messages_of(frame, USED, few=False), USED).explain()
            plan = capsys.readouterr().out
            found.append((plan.count("Exchange hashpartitioning"), plan.count("hashpartitioning(trial")))
    size_plans(session.spark, 10)

    assert found[0][0] == 0 < found[1][0]


def test_a_file_in_the_wrong_bucket_is_noticed(session, trials, truth, tmp_path, monkeypatch):
    """Its footer names two trials. Without that look messages would count as lost that are in another bucket."""
    mixed = swapped(trials, tmp_path)

    assert truth == engines.spark_counts(session.spark, mixed, in_buckets=True)
    monkeypatch.setattr(buckets, "has_only", lambda *_: True)
    believed = engines.spark_counts(session.spark, mixed, in_buckets=True)
    lost, true = (sum(each[1] for key, each in counts.items() if "lost" in key) for counts in (believed, truth))
    assert lost > 2 * true > 0


@pytest.mark.parametrize("why", ["few events", "a large trial", "tasks elsewhere"])
def test_without_buckets(session, trials, why):
    chosen = trials[:1] if why == "a large trial" else trials
    least = 10**9 if why == "few events" else 0
    before = session.spark.conf.get(CORES_HERE)
    session.spark.conf.set(CORES_HERE, "0" if why == "tasks elsewhere" else before)
    try:
        with buckets.bucketed(session.spark, chosen, collect, least) as events:
            assert events is None
    finally:
        session.spark.conf.set(CORES_HERE, before)


def test_nothing_is_left(session, trials):
    """Neither links nor a table, also after an error."""
    before = left()
    with contextlib.suppress(JudgeError), buckets.bucketed(session.spark, trials, collect, 0) as events:
        assert left() - before
        events.count()
        raise JudgeError("of a plan")

    assert before == left()
    assert [] == session.spark.catalog.listTables()
