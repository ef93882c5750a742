"""The judge from a folder to rows: what a user of the package calls."""

import pytest
from judge_evidence import SCENARIOS
from judge_histories import CLEAN, LOSSY, RUN, close, record, write
from judge_tampering import recorded

from benchmarks import judging
from conformance import claims, judge, scenario
from conformance.campaign import repeats
from conformance.judge.plan import relations
from conformance.judge.verdict import Remembered

pytestmark = pytest.mark.spark
KILL = "broker-killed-while-publishing"


@pytest.fixture
def rows(session, tmp_path):
    """Write trials of one scenario, judge the folder; returns the judgement."""
    catalogue = claims.load()

    def judged(subject, control, run=RUN, prepare=lambda _: None):
        for arm, histories in (("subject", subject), ("control", control)):
            label = scenario.SYNC_OFF.label if arm == "control" else ""
            for index, history in enumerate(histories, 1):
                about = record(f"{arm}.{index}", KILL, arm, label, index)
                write(tmp_path / "trials" / about.trial, history, about)
        prepare(tmp_path / "trials")
        close(tmp_path, run)
        return judge.judge(tmp_path, catalogue, SCENARIOS, session)

    return judged


@pytest.fixture
def again(session, tmp_path):
    """Judge the folder as it is now."""

    def judged():
        catalogue = claims.load()
        return judge.judge(tmp_path, catalogue, SCENARIOS, session)

    return judged


def row(judgement, claim="SOLCD-ACK-01"):
    return next(r for r in judgement.rows if (r.claim, r.scenario) == (claim, KILL))


def test_holds(rows):
    """Three clean kills; all three messages were confirmed within the 100 ms before each of them."""
    found = rows([CLEAN] * 3, [LOSSY] * 3)

    assert "HOLDS" == row(found).verdict, row(found).reason
    assert (0, 9, 3) == (row(found).offences, row(found).exposure.total, row(found).exposure.minimum)
    assert [] == repeats.needs_repeats(found)
    assert "EMS-AUTO-03" in {r.claim for r in found.self_checks}
    assert set(claims.load().claims) == {r.claim for r in found.rows + found.self_checks}


class Counted:
    """A session that counts how often it was asked for its Spark."""

    def __init__(self, session):
        self._session = session
        self.asked = 0

    @property
    def spark(self):
        self.asked += 1
        return self._session.spark


def test_a_growing_run_judges_what_was_added(session, tmp_path):
    """The rows are those of a run that is judged once; Spark is asked thrice, how to run, for facts and for courses, about what grew."""
    catalogue = claims.load()
    remembered, counted = Remembered(), Counted(session)

    def judged(counted, remembered=None):
        return judge.judge(tmp_path, catalogue, SCENARIOS, counted, remembered=remembered)

    def add(trial, script, arm="subject", label=""):
        about = record(trial, script, arm, label, int(trial[-1]))
        write(tmp_path / "trials" / trial, LOSSY if arm == "control" else CLEAN, about)
        close(tmp_path)

    add("subject.1", KILL)
    add("control.1", KILL, "control", scenario.SYNC_OFF.label)
    first = judged(counted, remembered)
    assert (3, first) == (counted.asked, judged(counted, remembered))
    assert 3 == counted.asked

    add("other.1", "broker-killed-while-sending-one-by-one")
    assert (judged(session), 6) == (judged(counted, remembered), counted.asked)

    add("subject.2", KILL)
    grown = judged(counted, remembered)
    assert (2, 9) == (row(grown).trials, counted.asked)
    assert judged(session) == grown


def test_nothing_recorded_asks_for_no_spark(tmp_path):
    catalogue = claims.load()
    close(tmp_path)
    counted = Counted(None)

    found = judge.judge(tmp_path, catalogue, SCENARIOS, counted)

    assert ((), 0, 5) == (found.trials, counted.asked, judge.exit_code(found))
    assert {"NOT_TRIED", "NOT_APPLICABLE"} == {str(r.verdict) for r in found.rows + found.self_checks}


def test_violated_with_its_timeline(rows, again):
    """All that happened to the first lost message, by the clock of the trial, and the drains that looked for it.

    Judging twice gives the same.
    """
    judged = rows([LOSSY] * 3, [])
    found = row(judged)
    first = found.witnesses[0]
    *told, one, other = [(event["at_ms"], event["process"], event["op"], event["phase"]) for event in first.timeline]

    assert ("VIOLATED", 3, 6, "p1:2") == (found.verdict, found.offended, found.offences, first.message)
    assert "the last confirmed messages in 3 kills" in found.reason
    assert [
        (1.0, "publisher-1", "send", "invoke"),
        (4.0, "publisher-1", "send", "ok"),
        (6.0, "publisher-1", "fault", "fired"),
        (7.0, "orchestrator", "fault", "effective"),
    ] == told
    assert [("drain-1", "drain", "ok"), ("drain-2", "drain", "ok")] == [one[1:], other[1:]]
    assert all(not witness.timeline for witness in found.witnesses[1:])
    assert judged == again()


@pytest.mark.full
def test_two_processes_write_the_same_bytes(conformance, tmp_path):
    """With other hashes of strings, another number of tasks, and in another folder."""
    written = []
    for hashes, tasks in (("1", 1), ("2", 3)):
        place = tmp_path / hashes
        recorded(place / "run", [LOSSY, CLEAN, LOSSY, LOSSY])
        done = conformance(
            *("judge", "run", "--spark-master", f"local[{tasks}]"), cwd=place, env={"PYTHONHASHSEED": hashes}
        )
        assert 1 == done.returncode, done.stderr
        written.append({path.relative_to(place): path.read_bytes() for path in place.rglob("*") if path.is_file()})

    one, other = written
    assert {"report.html", "report.json", "junit.xml", "ctrf.json", "events.parquet"} <= {path.name for path in one}
    assert one.keys() == other.keys()
    assert [] == [path for path in one if one[path] != other[path]]


def test_a_torn_history_voids_its_trial(rows):
    """Its fault had taken effect, so the others do not give HOLDS."""

    def tear(trials):
        path = trials / "subject.1" / "drain-1.jsonl"
        path.write_bytes(path.read_bytes()[:-20])

    found = rows([CLEAN] * 4, [LOSSY] * 3, prepare=tear)
    void = [trial.trial for trial in found.trials if trial.void]

    assert (["subject.1"], "INCONCLUSIVE", 3, 1) == (void, row(found).verdict, row(found).trials, row(found).void)
    assert row(found).reason.startswith("1 trial was void after its fault took effect")


def test_one_partition_or_many(session, tmp_path, monkeypatch):
    from conformance.judge.input.packing import compact
    from conformance.judge.verdict import collect_facts

    histories = [CLEAN, LOSSY, "kept 1, killed, silent 1"]
    trials = [
        compact(
            tmp_path / str(n), write(tmp_path / str(n), history, record(f"t{n}", f"s{n % 2}", "control", "sync=false"))
        )
        for n, history in enumerate(histories * 3)
    ]
    few, many = 100, 0
    monkeypatch.setattr(relations, "FEW", few)
    together = collect_facts(session.spark, trials)
    monkeypatch.setattr(relations, "FEW", many)

    assert together == collect_facts(session.spark, trials)


@pytest.mark.parametrize(
    ("used", "sorts"),
    [
        (relations.EVERY, 11),
        ([("lost", "confirmed_in_window")], 3),
        ([("confirmed_before_sync", "sync_held")], 4),
        ([("waited_for_timer", "third_sent"), ("answered_late", "less_sent")], 5),
        ([("immediate_waited", "asked_immediately")], 5),
        ([("out_of_order_refused", "acknowledged_out_of_order")], 4),
    ],
)
def test_the_plan_is_linear(session, tmp_path, used, sorts):
    """One scan, no join, no union; a sort serves every window above it, and the plan has no unused column.

    Each trial is sorted by the run of the broker, by queue and by what a queue owes, for the fates of its messages; and
    only all checks together by what an answer covers, and by the order of deliveries.
    """
    assert (1, sorts, 0, 0, 0) == operators(session, tmp_path, used)


def operators(session, folder, used):
    """Count the scans, sorts, joins, unions and exchanges in the plan of these checks for one trial."""
    from conformance.judge.input.packing import compact

    packed = compact(folder, write(folder, CLEAN, record()))
    frame = relations.summary(session.spark, [str(packed.parquet)], 1, used)
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return tuple(plan.count(word) for word in ("FileScan", "Sort [", "Join", "Union", "Exchange"))


def test_many_events_are_not_sorted(session, tmp_path, monkeypatch):
    """The facts of a trial come from a scan of their own, and their few rows are sent to every task.

    Sorted are these, and the messages for their fates: what a queue owes has an order.
    """
    monkeypatch.setattr(relations, "FEW", 0)
    session.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")  # as for many events
    try:
        scans, sorts, joins, *_ = operators(session, tmp_path, [("phantom", "received")])
    finally:
        session.spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")

    assert (2, 3, 1) == (scans, sorts, joins)


def test_bench_measures(session, monkeypatch):
    monkeypatch.setattr(judging, "TRIALS", 2)
    monkeypatch.setattr(judging, "WARM", 1)
    found = judging.bench(judging.SCENARIO)

    assert 6 == len(found)
    assert all(seconds > 0 for seconds in found.values())


def test_a_session_beside_another_is_a_guest(session):
    """PySpark allows one JVM in a process: the judge opens one more session in it, and stopping that ends no other."""
    with judge.JudgeSession.start() as guest:
        assert guest.spark is not session.spark
        assert 3 == guest.spark.range(3).count()

    assert 3 == session.spark.range(3).count()
