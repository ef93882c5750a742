"""The course of a trial: what happened in each of fifty equal parts of its time."""

import pytest
from judge_histories import MS, close, record, write
from judge_words import of, pause

from conformance import claims, judge, scenario
from conformance.history import Op, Phase
from conformance.judge.input.packing import compact
from conformance.judge.plan import course

pytestmark = pytest.mark.spark

KILLED = [
    *of("publisher-1", Op.SEND, Phase.INVOKE, "p1:1"),  # at 1 ms, where the trial begins; a part is 2 ms
    *pause(9),
    *of("publisher-1", Op.SEND, Phase.OK, "p1:1"),
    *of("publisher-1", Op.SEND, Phase.INVOKE, "p1:2", due_ns=3 * MS),
    *pause(20),
    *of("publisher-1", Op.SEND, Phase.OK, "p1:2"),  # at 33 ms
    *of("publisher-1", Op.SEND, Phase.OK, None, first=3, last=5),
    *of("orchestrator", Op.FAULT, Phase.EFFECTIVE, fault="kill"),  # at 35 ms
    *of("orchestrator", Op.BROKER, Phase.OK, detail="kill"),
    *of("orchestrator", Op.BROKER, Phase.INVOKE, detail="start"),
    *pause(23),
    *of("orchestrator", Op.BROKER, Phase.OK, detail="start"),  # at 61 ms
    *pause(9),
    *of("drain-1", Op.DRAIN, Phase.OK, "p1:1"),  # at 71 ms
    *pause(29),
    *of("drain-1", Op.DRAIN, Phase.OK, "p1:1"),
]


@pytest.fixture
def drawn(session, tmp_path):
    """The course of one literal history."""

    def of_history(events):
        trial = compact(tmp_path / "t", write(tmp_path / "t", events))
        rows = course.courses(session.spark, [str(trial.parquet)]).collect()
        return course.from_rows(row.asDict() for row in rows)["t"]

    return of_history


def at(values):
    return {part: value for part, value in enumerate(values) if value}


def test_a_kill_and_a_start(drawn):
    """The second send counts from its intended time; a range of answers counts as many; a message comes only once."""
    found = drawn(KILLED)

    assert {0: 1, 1: 1} == at(found.sent)
    assert {5: 1, 16: 4} == at(found.confirmed)
    assert {35: 1} == at(found.delivered)
    assert ({5: 10.0, 16: 30.0}, at(found.median_ms)) == (at(found.longest_ms), at(found.longest_ms))
    assert list(range(17, 31)) == list(at(found.down))
    assert (1, (24.0,), 0.1) == (found.faults, found.starts_ms, found.seconds)


def test_a_pause_ends_and_the_next_begins_in_one_part(drawn):
    """The order of the two edges in a part decides whether the band goes on."""
    effective = of("orchestrator", Op.FAULT, Phase.EFFECTIVE, fault="pause")
    healed = of("orchestrator", Op.FAULT, Phase.HEALED, fault="pause")
    found = drawn([*effective, *pause(98), *healed, *effective, *pause(98), *healed])

    assert [1] * course.PARTS == list(found.down)
    assert 2 == found.faults


def test_a_trial_of_one_moment(drawn):
    """No time passes, and nothing is divided by it."""
    found = drawn(of("publisher-1", Op.SEND, Phase.INVOKE, "p1:1"))

    assert ({0: 1}, 0.0, 0) == (at(found.sent), found.seconds, found.faults)


def test_a_trial_without_messages_and_faults(session, tmp_path):
    """It has no course, and its folder is judged all the same: a client that only asks for sessions sends nothing."""
    write(
        tmp_path / "trials" / "t",
        of("asker-1", Op.ASK, Phase.OK, "p9:1", detail="a session"),
        record("t", "session-in-each-mode"),
    )
    close(tmp_path)
    catalogue = claims.load()

    assert () == judge.judge(tmp_path, catalogue, scenario.load(catalogue), session).courses
