"""The course of a trial: what happened in each of fifty equal parts of its time."""

import pytest
from judge_histories import MS, close, record, write
from judge_words import of, pause

from conformance import claims, judge, scenario
from conformance.history import Op, Phase
from conformance.judge.input.packing import compact
from conformance.judge.plan import course
from conformance.judge.rows import Histogram, bucket_end_ms

pytestmark = pytest.mark.spark

EFFECTIVE = of("orchestrator", Op.FAULT, Phase.EFFECTIVE, fault="pause")
HEALED = of("orchestrator", Op.FAULT, Phase.HEALED, fault="pause")
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


def sends(count, first_ms, every_ms):
    """Paced sends: due at equal intervals, and all sent at once, as after a broker that stood still."""
    return [
        event
        for n in range(1, count + 1)
        for event in of("publisher-1", Op.SEND, Phase.INVOKE, f"p1:{n}", due_ns=(first_ms + every_ms * (n - 1)) * MS)
    ]


HISTORIES = {
    "a kill and a start": KILLED,
    # Ten messages were due while the broker stood still.
    "stood still": [
        *pause(100),
        *sends(10, 1, 10),
        *[event for n in range(1, 11) for event in of("publisher-1", Op.SEND, Phase.OK, f"p1:{n}")],
    ],
    "attached": [
        *of("publisher-1", Op.SEND, Phase.INVOKE, "p1:1"),  # at 1 ms
        *of("consumer-2", Op.CONNECT, Phase.OK),
        *of("consumer-1", Op.CONNECT, Phase.OK),  # at 3 ms
        *of("consumer-1", Op.DELIVER, Phase.OK, "p1:1"),
        *of("publisher-1", Op.SEND, Phase.INVOKE, "p1:2"),
        *pause(7),
        *of("consumer-1", Op.DELIVER, Phase.OK, "p1:2"),  # at 13 ms, 8 ms after its send
        *of("consumer-2", Op.DELIVER, Phase.OK, "p1:2"),
        *of("publisher-1", Op.SEND, Phase.INVOKE, "p1:3"),
        *of("drain-1", Op.DRAIN, Phase.OK, "p1:3"),
    ],
    "without a connect": [
        *of("publisher-1", Op.SEND, Phase.INVOKE, "p1:1"),
        *pause(1),
        *of("consumer-1", Op.DELIVER, Phase.OK, "p1:1"),
    ],
    "never sent": [
        *of("publisher-1", Op.SEND, Phase.INVOKE, "p1:1"),
        *of("consumer-1", Op.DELIVER, Phase.OK, "p1:2"),
    ],
    "a commit": [
        *of("publisher-1", Op.SEND, Phase.INVOKE, "p1:1", transaction="t1"),
        *of("publisher-1", Op.SEND, Phase.OK, "p1:1", transaction="t1"),
        *pause(9),
        *of("publisher-1", Op.COMMIT, Phase.INVOKE, transaction="t1"),
        *of("publisher-1", Op.COMMIT, Phase.OK, transaction="t1"),
    ],
    "two pauses": [*EFFECTIVE, *pause(98), *HEALED, *EFFECTIVE, *pause(98), *HEALED],
    "one moment": of("publisher-1", Op.SEND, Phase.INVOKE, "p1:1"),
}


@pytest.fixture(scope="module")
def drawn(session, tmp_path_factory):
    """The course of each history, by its name."""
    folder = tmp_path_factory.mktemp("courses")
    trials = [
        compact(folder / str(place), write(folder / str(place), events, record(name)))
        for place, (name, events) in enumerate(HISTORIES.items())
    ]
    rows = course.courses(session.spark, [str(trial.parquet) for trial in trials]).collect()
    return course.from_rows(row.asDict() for row in rows)


def times(found):
    """By kind and whether paced: the messages, their seconds, and the counts by the end of their bucket in ms."""
    return {
        (one.of, one.paced): (
            one.messages,
            one.seconds,
            {round(bucket_end_ms(at), 1): n for at, n in one.counts.items()},
        )
        for one in found.times
    }


def at(values):
    return {part: value for part, value in enumerate(values) if value}


def test_a_kill_and_a_start(drawn):
    """The second send counts from its intended time; a range of answers counts as many; a message comes only once."""
    found = drawn["a kill and a start"]

    assert {0: 1, 1: 1} == at(found.sent)
    assert {5: 1, 16: 4} == at(found.confirmed)
    assert {35: 1} == at(found.delivered)
    assert ({5: 10.0, 16: 30.0}, at(found.median_ms)) == (at(found.longest_ms), at(found.longest_ms))
    assert list(range(17, 31)) == list(at(found.down))
    assert (1, (24.0,), 0.1) == (found.faults, found.starts_ms, found.seconds)


def test_times_count_from_the_intended_send(drawn):
    """10 ms from a send without an intended time; 30 ms from one that was due 9 ms before it was sent."""
    found = drawn["a kill and a start"]

    assert (Histogram(of="answer", paced=False, messages=1, seconds=0.01, longest_ms=10.0, counts={323: 1})) == (
        found.times[0]
    )
    assert {("answer", False): (1, 0.01, {10.5: 1}), ("answer", True): (1, 0.03, {30.4: 1})} == times(found)


def test_a_broker_that_stood_still_is_slow_for_every_message_that_was_due(drawn):
    """No omission is coordinated: ten messages were due meanwhile, and ten have waited: 29 to 110 ms.

    From the send it would be 10 ms for each of them.
    """
    (one,) = drawn["stood still"].times

    assert (10, True, 110.0) == (one.messages, one.paced, one.longest_ms)
    assert (65.0, 113.2) == (round(one.quantile_ms(0.5), 1), round(bucket_end_ms(max(one.counts)), 1))


def test_a_delivery_counts_if_its_consumer_was_attached(drawn):
    """The first message waits for no consumer, so its wait says nothing of the broker; a drain is no consumer."""
    found = drawn["attached"]

    assert {("delivery", False): (2, 0.01, {8.1: 1})} == times(found)


def test_a_delivery_to_a_consumer_without_a_connect_counts_from_its_send(drawn):
    """A consumer whose CONNECT is not in its history had no known time at which it was attached."""
    found = drawn["without a connect"]

    assert {("delivery", False): (1, 0.002, {2.0: 1})} == times(found)


def test_a_delivery_of_what_was_never_sent_has_no_time(drawn):
    found = drawn["never sent"]

    assert ({}, 1) == (times(found), sum(found.delivered))


def test_a_commit_confirms_what_was_sent_in_it(drawn):
    """The answer to a send in a transaction is provisional: 2 ms after the send, and 12 ms before the commit."""
    found = drawn["a commit"]

    assert {("answer", False): (1, 0.012, {12.1: 1})} == times(found)


def test_buckets_of_times_beside_powers_of_two(session):
    """Spark counts bits as Python does. No time is above the end of its bucket, or in the one before."""
    values = [2**exponent + more for exponent in range(4, 62) for more in (-1, 0, 1)]
    rows = session.spark.sql(
        f"SELECT took, {course._BUCKET} AS bucket FROM VALUES {', '.join(f'({v}L)' for v in values)} AS t(took)"
    ).collect()

    for row in rows:
        follow = max(row.took.bit_length() - 5, 0)
        assert 16 * follow + (row.took >> follow) == row.bucket
        end = round(bucket_end_ms(row.bucket) * 1e6)
        assert row.took > 2**50 or round(bucket_end_ms(row.bucket - 1) * 1e6) < row.took <= end


def test_a_pause_ends_and_the_next_begins_in_one_part(drawn):
    """The order of the two edges in a part decides whether the band goes on."""
    found = drawn["two pauses"]

    assert [1] * course.PARTS == list(found.down)
    assert 2 == found.faults


def test_a_trial_of_one_moment(drawn):
    """No time passes, and nothing is divided by it."""
    found = drawn["one moment"]

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
