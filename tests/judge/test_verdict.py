"""What the judge asks of Spark, what it does with the answer, and what it remembers. Here Spark is never started."""

import collections
import dataclasses
import threading
import types

import msgspec
import pytest
from judge_evidence import CATALOGUE, SCENARIOS, facts
from judge_histories import CLEAN, LOSSY, close, record, write
from judge_tampering import KILL, recorded

from conformance import judge, records
from conformance.errors import CatalogueError, JudgeError
from conformance.judge import rules, verdict
from conformance.judge.input.packing import FILE, Compacted
from conformance.judge.plan import relations, timeline
from conformance.judge.rows import Course, Verdict, VerdictRow, Witness
from conformance.judge.verdict import Remembered

OTHER = "broker-killed-while-sending-one-by-one"
LOST = "SOLCD-ACK-01"


class Asked:
    """A session whose Spark is a word, and what is asked of it."""

    def __init__(self):
        self.facts, self.courses, self.sizes, self.sessions = [], [], [], 0

    @property
    def spark(self):
        self.sessions += 1
        return "spark"

    def collect_facts(self, spark, trials, used):
        self.facts.append((spark, names(trials), set(used)))
        lossy = facts(offends={"lost": 2}, tail=True)
        return {name: lossy if name.startswith("control") else facts() for name in names(trials)}

    def collect_courses(self, spark, trials):
        self.courses.append((spark, names(trials)))
        return {name: None if name == "subject.3" else course(name) for name in names(trials)}

    def size_plans(self, spark, events):
        self.sizes.append((spark, events))


def names(trials):
    return [trial.record.trial for trial in trials]


def course(trial):
    empty = dict.fromkeys(("sent", "confirmed", "delivered", "median_ms", "longest_ms", "down", "starts_ms"), ())
    return Course(trial=trial, seconds=1.0, faults=1, **empty)


def used(*scenarios):
    """The checks of these scenarios, and those of every trial."""
    return set(rules.names_used(item for item in SCENARIOS.values() if item.id in scenarios or item.standing))


@pytest.fixture
def session(monkeypatch):
    asked = Asked()
    for name in ("collect_facts", "collect_courses", "size_plans"):
        monkeypatch.setattr(verdict, name, getattr(asked, name))
    return asked


@pytest.fixture
def run(tmp_path):
    return recorded(tmp_path / "run", [CLEAN] * 3)


def judged(run, session, **words):
    return judge.judge(run, CATALOGUE, SCENARIOS, session, **words)


def row(judgement, claim=LOST, scenario=KILL):
    return next(row for row in judgement.rows if (row.claim, row.scenario) == (claim, scenario))


TRIALS = [f"{arm}.{number}" for arm in ("control", "subject") for number in (1, 2, 3)]


def test_a_run_is_judged_by_the_facts_of_its_trials(run, session):
    found = judged(run, session)

    assert (Verdict.HOLDS, 3, 3) == (row(found).verdict, row(found).trials, row(found).control.failed)
    assert [("spark", TRIALS, used(KILL))] == session.facts
    assert [("spark", TRIALS)] == session.courses
    events = sum(path.read_bytes().count(b"\n") - 2 for path in run.glob("trials/*/*.jsonl"))
    assert [("spark", events)] == session.sizes
    assert (TRIALS, "r") == ([trial.trial for trial in found.trials], found.run.run)
    assert [trial for trial in TRIALS if trial != "subject.3"] == [each.trial for each in found.courses]
    assert [set(), {"session"}] == [
        {row.subject for row in rows} & {"session"} for rows in (found.rows, found.self_checks)
    ]
    assert {"session"} == {row.subject for row in found.self_checks}


def test_a_violated_row_has_the_events_of_its_message(run, session, monkeypatch):
    """Those of the packed file of its trial, counted from when the trial began."""
    lost = facts(offends={"lost": 1}, trial_started_at=10**6)
    monkeypatch.setattr(verdict, "collect_facts", lambda _spark, trials, _used: dict.fromkeys(names(trials), lost))
    asked = []

    def timeline(*words):
        asked.append(words)
        return plan_of(event("subject.1", at_ns=3 * 10**6))

    monkeypatch.setattr(relations, "timeline", timeline)
    found = row(judged(run, session))
    assert (Verdict.VIOLATED, (shown(2.0),)) == (found.verdict, found.witnesses[0].timeline)
    assert [("spark", [str(run / "trials" / "subject.1" / FILE)], [("subject.1", 1, 7)])] == asked


def test_a_void_trial_asks_nothing_of_spark(run, session):
    path = run / "trials" / "subject.2" / "drain-1.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    found = judged(run, session)
    left = [trial for trial in TRIALS if trial != "subject.2"]

    assert (left, left) == (session.facts[0][1], session.courses[0][1])
    assert ["subject.2"] == [trial.trial for trial in found.trials if trial.void]
    assert ["control.1", "control.2", "control.3", "subject.1"] == [each.trial for each in found.courses]


def test_without_a_valid_trial_spark_is_not_started(tmp_path, session):
    close(tmp_path)

    assert (0, ()) == (session.sessions, judged(tmp_path, session).trials)
    assert ([], [], []) == (session.facts, session.courses, session.sizes)


def test_a_trial_of_another_run_is_void(run, session):
    """Whose checksums are not known yet."""
    write(run / "other", CLEAN, record("subject.1", KILL), run="other")
    for path in (run / "other").glob("*.jsonl"):
        path.rename(run / "trials" / "subject.1" / path.name)
    whole = records.read(run / "run.json", records.RunFile)
    records.save(msgspec.structs.replace(whole, finished=False, checksums={}), run / "run.json")

    found = judged(run, session)
    assert {"subject.1": "its histories are of another run, other"} == {
        trial.trial: trial.void for trial in found.trials if trial.void
    }


def test_a_claim_that_nothing_tries_has_its_reason(run, session):
    reasons = {
        row.claim: row.reason for row in judged(run, session, untried={LOST: "never", "SOLCD-ACK-02": "too new"}).rows
    }

    assert "too new" == reasons["SOLCD-ACK-02"]
    assert "never" not in row(judged(run, session)).reason


def test_an_unknown_anomaly_is_refused(run, session):
    check = next(iter(SCENARIOS[KILL].decides.values()))
    wrong = dataclasses.replace(SCENARIOS[KILL], decides={LOST: dataclasses.replace(check, anomaly="nothing")})
    with pytest.raises(CatalogueError, match="'nothing'"):
        judge.judge(run, CATALOGUE, {KILL: wrong}, session)


def test_a_growing_run_asks_for_what_was_added(run, session):
    remembered = Remembered()
    first = judged(run, session, remembered=remembered)
    asked = (session.facts, session.courses, session.sizes)
    for each in asked:
        each.clear()
    assert first == judged(run, session, remembered=remembered)
    assert ([], [], []) == asked

    write(run / "trials" / "new.1", CLEAN, record("new.1", OTHER))
    close(run)
    grown = judged(run, session, remembered=remembered)
    assert ([("spark", ["new.1"], used(OTHER))], [("spark", ["new.1"])], [("spark", 15)]) == asked
    assert (Verdict.HOLDS, 1) == (row(grown).verdict, row(grown, scenario=OTHER).trials)
    assert ["control.1", "control.2", "control.3", "new.1", "subject.1", "subject.2"] == [
        each.trial for each in grown.courses
    ]
    assert grown == judged(run, session, remembered=remembered)

    write(run / "trials" / "subject.4", CLEAN, record("subject.4", KILL, index=4))
    close(run)
    more = judged(run, session, remembered=remembered)
    assert (["new.1"], ["subject.4"]) == tuple(names for _, names, _ in session.facts)
    assert (4, 3) == (row(more).trials, row(more).control.failed)


def test_changed_events_are_judged_again(run, session):
    """A trial that was judged while the run went on, and whose history is another one at its end."""
    remembered = Remembered()
    judged(run, session, remembered=remembered)
    write(run / "changed", LOSSY, record("subject.2", KILL, index=2))
    for path in (run / "changed").glob("*.jsonl"):
        path.rename(run / "trials" / "subject.2" / path.name)
    close(run)
    session.facts.clear()
    judged(run, session, remembered=remembered)

    assert [["subject.2"]] == [names for _, names, _ in session.facts]


def test_no_file_is_read_again(run, session, monkeypatch):
    """Two parts of the judge ask for the checksum of each history, and of each packed file."""
    checksum, remembered, asked, read = records.checksum, Remembered(), [], []
    monkeypatch.setattr(records, "checksum", lambda path: (read.append(path), checksum(path))[1])
    remembered.checksum = lambda path: (asked.append(path), Remembered.checksum(remembered, path))[1]
    places = sorted((run / "trials").iterdir())
    expected = dict.fromkeys((path for place in places for path in records.evidence(place)), 2)
    expected |= {place / FILE: 2 for place in places}

    for times in (1, 0):
        judged(run, session, remembered=remembered)
        assert (expected, len(expected) * times) == (collections.Counter(asked), len(read))
        asked.clear()
        read.clear()


def test_scenarios_of_different_columns_have_plans_of_their_own(run, session, monkeypatch):
    """If a plan costs nothing. Each scenario is judged by its own checks."""
    monkeypatch.setattr("conformance.judge.plan.groups.PLAN_COST", -(10**9))
    write(run / "trials" / "new.1", CLEAN, record("new.1", OTHER))
    close(run)
    found = judged(run, session)

    assert [("spark", TRIALS, used(KILL)), ("spark", ["new.1"], used(OTHER))] == session.facts
    assert (3, 1) == (row(found).trials, row(found, scenario=OTHER).trials)


def test_a_changed_file_is_read_again(tmp_path):
    path, remembered = tmp_path / "file", Remembered()
    path.write_text("a")
    first = remembered.checksum(path)
    path.write_text("b")

    assert [records.checksum(path)] * 2 == [remembered.checksum(path), remembered.checksum(path)]
    assert first != remembered.checksum(path)


def test_both_jobs_run_at_once():
    begun, other = threading.Event(), threading.Event()

    def job():
        begun.set()
        return "facts" if other.wait(10) else "alone"

    assert "facts" == verdict.beside(job, lambda: begun.wait(10) and other.set())


def test_an_error_of_the_other_job_is_raised():
    with pytest.raises(JudgeError, match="of courses"):
        verdict.beside(lambda: "facts", lambda: (_ for _ in ()).throw(JudgeError("of courses")))


def test_an_error_does_not_wait_for_the_other_job():
    released, ended = threading.Event(), threading.Event()

    def other():
        released.wait(5)
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        verdict.beside(lambda: (_ for _ in ()).throw(KeyboardInterrupt), other)
    assert not ended.is_set()
    released.set()
    assert ended.wait(10)


def plan_of(*rows):
    return types.SimpleNamespace(collect=lambda: [types.SimpleNamespace(asDict=lambda row=row: row) for row in rows])


def test_rows_come_as_dictionaries():
    assert [{"a": 1}, {"a": 2}] == verdict.collect(lambda: plan_of({"a": 1}, {"a": 2}))


def test_an_error_of_spark_names_its_cause():
    def died():
        raise ConnectionError("the JVM has ended")

    with pytest.raises(JudgeError) as error:
        verdict.collect(died)
    assert str(error.value).startswith("Spark could not judge: ")
    assert "the JVM has ended" in str(error.value)
    assert str(error.value).endswith("; `conformance judge RUN` judges the recording again")


def event(trial="t", key=(1, 7), at_ns=0, **fields):
    """A row of `relations.timeline`."""
    about = {"process": "publisher-1", "op": 1, "phase": 0, "epoch": 1, "fault": None, "detail": None, "count": None}
    return {"trial": trial, "producer": key[0], "n": key[1], "at_ns": at_ns, **about, **fields}


def violated(*messages, says=Verdict.VIOLATED, trial="t"):
    fields = dict.fromkeys(VerdictRow.__struct_fields__, "")
    witnesses = tuple(Witness(trial=trial, queue="q", message=message) for message in messages)
    return VerdictRow(**{**fields, "verdict": says, "witnesses": witnesses})


@pytest.fixture
def timelines(monkeypatch, session, tmp_path):
    """Add the timelines to rows, from these events; returns the timelines of each row, and what Spark was asked."""
    asked = []

    def of(rows, *events):
        def timeline(spark, paths, wanted):
            asked.append((spark, paths, sorted(wanted)))
            return plan_of(*events)

        monkeypatch.setattr(relations, "timeline", timeline)
        trials = [Compacted(record(name), tmp_path / name) for name in ("t", "u", "v")]
        trials.append(Compacted(record("void", void="torn"), None))
        known = {name: facts(trial_started_at=started) for name, started in (("t", 0), ("u", 10**15), ("v", 0))}
        found = verdict._with_timelines(session, iter(rows), trials, known)
        return [[witness.timeline for witness in row.witnesses] for row in found], asked

    of.folder = tmp_path
    return of


def test_a_timeline_has_the_events_of_its_message_and_its_trial(timelines):
    """That of the first counterexample: faults of the trial are in it, other messages and trials are not."""
    rows = [violated("p1:7", "p1:8"), violated("p2:7", trial="u"), violated("p1:9", says=Verdict.HOLDS, trial="v")]
    rows.append(violated("p1:7", says=Verdict.WITNESSED))
    found, asked = timelines(
        rows,
        event(at_ns=1_234_567_891_000, detail="a detail", count=0),
        event(key=(1, 8), at_ns=2),
        event(key=(2, 7), at_ns=3),
        event(key=(None, None), at_ns=4_000_000, op=14, phase=6, fault="kill", process="orchestrator", epoch=2),
        event("u", (2, 7), at_ns=10**15 + 5_123_456, op=3, phase=1, fault="kill", detail="x", count=3),
        event("u", (1, 7), at_ns=6),
    )

    assert [
        [
            (
                shown(1234567.891, detail="a detail, count 0"),
                shown(4.0, process="orchestrator", op="fault", phase="effective", epoch=2, detail="kill"),
            ),
            (),
        ],
        [(shown(5.123, op="deliver", phase="ok", detail="kill, x, count 3"),)],
        [()],
        [()],
    ] == found
    paths = [str(timelines.folder / name) for name in ("t", "u")]
    assert [("spark", paths, [("t", 1, 7), ("u", 2, 7)])] == asked


def shown(at_ms, **fields):
    return {
        "at_ms": at_ms, "process": "publisher-1", "op": "send", "phase": "invoke", "epoch": 1, "detail": "", **fields
    }  # fmt: skip


def test_a_timeline_is_bounded(timelines, monkeypatch):
    monkeypatch.setattr(timeline, "MOST", 3)
    ((found,),), _ = timelines([violated("p1:7")], *(event(at_ns=number * 10**6) for number in range(5)))

    assert [0.0, 1.0, 4.0] == [each["at_ms"] for each in found]


@pytest.mark.parametrize(
    "rows", [[], [violated()], [violated("p1:7", says=Verdict.WITNESSED)]], ids=["none", "no message", "not violated"]
)
def test_without_a_counterexample_no_timeline_is_asked_for(timelines, session, rows):
    found, asked = timelines(rows)

    assert ([[()] * len(row.witnesses) for row in rows], [], 0) == (found, asked, session.sessions)
