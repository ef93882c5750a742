"""In buckets the judge counts the same as without, and moves no event. A file in the wrong bucket is noticed."""

import contextlib
import tempfile
import types

import pyarrow as pa
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

ABOUT = Synthetic(messages=2_000, trials=8, loss=0.02, duplicates=0.02, reorder=0.02)
USED = [(check, "received") for check in CHECKS]


@pytest.fixture(scope="module")
def trials(session, tmp_path_factory):
    return histories.write(session.spark, ABOUT, tmp_path_factory.mktemp("synthetic"))


@pytest.fixture
def truth(session):
    return histories.truth(session.spark, ABOUT)


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


@pytest.mark.spark
def test_the_same_counts(session, trials, truth):
    assert truth == engines.spark_counts(session.spark, trials, in_buckets=True)


@pytest.mark.spark
def test_the_same_courses(session, trials, monkeypatch):
    plain = collect_courses(session.spark, trials)
    monkeypatch.setattr(buckets.fill_buckets.__wrapped__, "__defaults__", (0,))

    assert plain == collect_courses(session.spark, trials)


@pytest.mark.spark
def test_no_event_moves(session, trials, capsys):
    """The only exchange is that of the facts of a trial: some rows of each process."""
    size_plans(session.spark, 1_000_000)
    found = []
    with buckets.fill_buckets(session.spark, trials, collect, 0) as events:
        for frame in (events, session.spark.read.parquet(*(str(trial.parquet) for trial in trials))):
            relations.count_anomalies(relations.messages_of(frame, USED, few=False), USED).explain()
            plan = capsys.readouterr().out
            found.append((plan.count("Exchange hashpartitioning"), plan.count("hashpartitioning(trial")))
    size_plans(session.spark, 10)

    assert found[0][0] == 0 < found[1][0]


@pytest.mark.spark
def test_a_file_in_the_wrong_bucket_is_noticed(session, trials, truth, tmp_path, monkeypatch):
    """Its footer names two trials. Without that look messages would count as lost that are in another bucket."""
    mixed = swapped(trials, tmp_path)

    assert truth == engines.spark_counts(session.spark, mixed, in_buckets=True)
    monkeypatch.setattr(buckets, "has_only", lambda *_: True)
    believed = engines.spark_counts(session.spark, mixed, in_buckets=True)
    lost, true = (sum(each[1] for key, each in counts.items() if "lost" in key) for counts in (believed, truth))
    assert lost > 2 * true > 0


@pytest.mark.spark
@pytest.mark.parametrize("why", ["few events", "a large trial", "tasks elsewhere"])
def test_without_buckets(session, trials, why):
    chosen = trials[:1] if why == "a large trial" else trials
    least = 10**9 if why == "few events" else 0
    before = session.spark.conf.get(CORES_HERE)
    session.spark.conf.set(CORES_HERE, "0" if why == "tasks elsewhere" else before)
    try:
        with buckets.fill_buckets(session.spark, chosen, collect, least) as events:
            assert events is None
    finally:
        session.spark.conf.set(CORES_HERE, before)


@pytest.mark.spark
def test_nothing_is_left(session, trials, tmp_path, monkeypatch):
    """Neither links nor a table, also after an error. Other processes keep theirs in the machine's own folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with contextlib.suppress(JudgeError), buckets.fill_buckets(session.spark, trials, collect, 0) as events:
        assert list(tmp_path.iterdir())
        events.count()
        raise JudgeError("of a plan")

    assert not list(tmp_path.iterdir())
    assert [] == session.spark.catalog.listTables()


@pytest.mark.parametrize(
    ("trials", "cores", "one_bucket_each"),
    [
        ([2, 2, 2, 2], 2, True),
        ([3, 2, 2, 2], 2, False),
        ([3, 4, 2, 7], 1, True),
        ([1] * 6, 3, True),
        ([1] * 5, 3, False),
        ([1, 1], 0, False),
        ([0, 0], 1, False),
        ([], 1, False),
    ],
)
def test_no_trial_has_more_than_half_of_a_cores_share(trials, cores, one_bucket_each):
    assert one_bucket_each == buckets.fits_cores([types.SimpleNamespace(events=events) for events in trials], cores)


@pytest.mark.parametrize(
    ("names", "options", "only"),
    [
        (["t"] * 4, {}, True),
        (["t"] * 4, {"row_group_size": 2}, True),
        (["t", "t", "u", "t"], {"row_group_size": 2}, False),
        (["t", "t", "t", "u"], {}, False),
        (["a", "t", "t", "t"], {}, False),
        (["u"] * 4, {}, False),
        (["t", "t", "t", None], {}, False),
        (["t"] * 4, {"write_statistics": False}, False),
    ],
)
def test_a_footer_says_whether_a_file_has_one_trial_alone(tmp_path, names, options, only):
    pq.write_table(pa.table({"trial": pa.array(names, pa.string()), "n": [1, 2, 3, 4]}), tmp_path / "t", **options)

    assert only == buckets.has_only("t", tmp_path / "t")
