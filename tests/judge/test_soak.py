"""A soak is judged segment by segment: a message may stay open for as long as it takes, and nothing late is dropped."""

import dataclasses
import itertools

import msgspec
import pyarrow.parquet as pq
import pytest
from judge_evidence import CATALOGUE
from judge_histories import MS, write
from judge_words import history, pause

from conformance.errors import HistoryError
from conformance.judge.input import packing
from conformance.judge.rows import Verdict
from conformance.judge.soak import carry, plan, ruling

CASES = {
    "delivered in the next segment": ("kept 1 2, took 1", "took 2"),
    "delivered four segments later": ("kept 1", "", "", "", "took 1"),
    "lost across an edge": ("kept 1 2, took 1", "kept 3, took 3"),
    "lost after a delivery without acknowledgement": ("kept 1", "handed 1"),
    "delivered again without acknowledgement": ("kept 1, handed 1", "took 1"),
    "delivered again after an acknowledgement without an answer": ("kept 1, handed 1, ack_sent 1", "", "took 1"),
    "acknowledged before its confirm": ("sent 1, took 1", "", "confirmed 1"),
    "sent without an answer, and delivered later": ("sent 1, no_answer 1", "", "took 1"),
    "sent without an answer, and gone": ("sent 1, no_answer 1",),
    "a duplicate of an old message": ("kept 1 2 3, took 1 2 3", "", "handed 2"),
    "a duplicate of an old message, three times": ("kept 1, took 1", "", "took 1", "took 1", "handed 1"),
    "a duplicate in its segment": ("kept 1, took 1, handed 1",),
    "a duplicate across an edge": ("kept 1, took 1", "took 1"),
    "altered": ("kept 1", "handed 1 intact=False, acked 1"),
    "altered, and delivered again": ("kept 1, handed 1 intact=False, acked 1", "handed 1"),
    "never sent": ("", "took 1"),
    "brought by the last drain": ("kept 1", "", "", "", "", "came 1"),
}
"""By name, what happens to the messages of one publisher in each segment."""

OFFENCES = {
    "lost": (2, ["lost across an edge", "lost after a delivery without acknowledgement"]),
    "duplicated": (5, [name for name in CASES if "a duplicate" in name] + ["altered, and delivered again"]),
    "altered": (2, [name for name in CASES if name.startswith("altered")]),
    "phantom": (1, ["never sent"]),
}
EDGES = 6


def segments(cases, edges=EDGES, end="silent 1, silent 2"):
    """Return the events of each segment; every case has a publisher of its own, every segment its own processes."""
    found, clock = [], 0
    for edge in range(edges):
        events = pause(clock // MS)
        for producer, words in enumerate(cases.values(), 1):
            each = words[edge] if edge < len(words) else ""
            events += [_placed(event, producer, edge + 1) for event in history(each)]
        events += history(end if edge == edges - 1 else f"killed publisher-{edge + 1}")
        clock += (len(events) + 1) * MS
        found.append(events)
    return found


def _placed(event, producer, segment):
    process, fields = event
    role = process.partition("-")[0]
    message = fields["message"].replace("p1:", f"p{producer}:")
    return (process if role == "drain" else f"{role}-{segment}"), {**fields, "message": message}


def packed(folder, events):
    about = write(folder, events)
    done = packing.compact(folder, about)
    assert not done.record.void
    return done.parquet


def judged(session, tmp_path, soak, *, answered=True):
    """Judge each segment as it closes, and then all at once."""
    counts, before, paths = [], None, []
    for number, events in enumerate(soak, 1):
        folder = tmp_path / f"{number}"
        paths.append(packed(folder, events))
        counts.append(plan.segment(session.spark, paths[-1], folder, before, answered=answered))
        before = folder
    return counts, plan.whole(session.spark, paths, answered=answered)


@pytest.mark.spark
def test_nothing_late_is_dropped(session, tmp_path, monkeypatch):
    """Every offence is seen once, where it happens, and the whole has the same; in one shard and in several."""
    counts, whole = judged(session, tmp_path, segments(CASES))
    last = counts[-1]
    numbers = {name: number for number, name in enumerate(CASES, 1)}

    for word, (count, names) in OFFENCES.items():
        assert (word, count, count) == (word, getattr(last, word), getattr(whole, word))
        assert numbers[min(names, key=numbers.get)] == int(last.witnesses[word].partition(":")[0].removeprefix("p"))
    assert [0, 0, 0, 0, 0, 2] == [each.lost for each in counts]
    assert [1, 3, 5, 5, 5, 5] == [each.duplicated for each in counts]
    assert whole.messages == last.messages
    assert (True, True) == (last.settled, whole.settled)
    assert sum(each.confirmed for each in counts) == whole.confirmed

    monkeypatch.setattr(plan, "SHARD", 20)
    paths = [tmp_path / f"{number}" / packing.FILE for number in range(1, EDGES + 1)]
    assert whole == plan.whole(session.spark, paths, answered=True)


@pytest.mark.spark
def test_only_what_is_open_is_carried(session, tmp_path):
    """Final messages are one range; a broker that answers no acknowledgement may deliver them again."""
    numbers = " ".join(map(str, range(1, 301)))
    soak = segments({"final": (f"kept {numbers}, handed {numbers}, ack_sent {numbers}", "took 7")}, edges=3)
    counts, whole = judged(session, tmp_path, soak, answered=False)

    assert [0, 0, 0] == [each.open for each in counts]
    assert [{"producer": 1, "low": 1, "high": 300}] == pq.read_table(tmp_path / "1" / "final").to_pylist()
    assert (300, 0, 0) == (whole.messages, whole.duplicated, counts[-1].duplicated)
    assert [300, 300, 300] == [each.messages for each in counts]


@pytest.mark.spark
def test_a_queue_that_was_not_drained_shows_no_loss(session, tmp_path):
    counts, whole = judged(session, tmp_path, segments({"one": ("kept 1",)}, edges=2, end="silent 1"))

    assert [(0, False), (0, False)] == [(each.lost, each.settled) for each in (counts[-1], whole)]
    assert 1 == counts[-1].overdue


@pytest.mark.spark
def test_a_broker_that_ended_by_itself_is_seen_in_the_whole(session, tmp_path):
    """Counter-example: it died in the first of two segments, and the soak held."""
    soak = segments({"one": ("kept 1", "took 1")}, edges=2)
    soak[0] += history('of orchestrator BROKER FAIL detail="not alive: status -11"')
    counts, whole = judged(session, tmp_path, soak)

    assert "not alive: status -11" == whole.not_alive == counts[0].not_alive


@pytest.mark.spark
def test_carried_files_are_those_that_were_written(session, tmp_path):
    judged(session, tmp_path, segments({"one": ("kept 1",)}, edges=1))
    found = next((tmp_path / "1" / "open").glob("*.parquet"))
    found.write_bytes(found.read_bytes()[:-1])

    with pytest.raises(HistoryError, match="was changed since it was written"):
        carry.Carry(tmp_path / "1").check()


FINE = plan.SoakCounts(
    messages=9, confirmed=9, exposed=3, lost=0, duplicated=0, altered=0, phantom=0, open=0, overdue=0, settled=True
)
SEEN = tuple(
    ruling.ControlSoak(liar=liar, word=word, offences=2) for liar, word in (("a", "lost"), ("b", "duplicated"))
)
HELD = ruling.SoakEvidence(
    counts=FINE,
    whole=FINE,
    confirmed=9,
    faults={"kill": 3},
    void=[],
    controls=SEEN,
    settings={"persistence": True, "sync_non_transactional": True, "sync_acknowledgements": True},
    absent=(),
)


def counts(**changes):
    found = msgspec.structs.replace(FINE, **changes)
    offended = [word for word in plan.OFFENCES if getattr(found, word)]
    return {"counts": msgspec.structs.replace(found, witnesses=dict.fromkeys(offended, "p1:7")), "whole": found}


FULL = {**HELD.settings, "full_queue_policy": "discard"}
WEAK = {"persistence": False, "sync_acknowledgements": False}
GONE = "1 confirmed and unacknowledged messages are gone, such as p1:7"
AGAIN = "1,234 messages were delivered again without a reason, such as p1:7"
NOTHING = (
    "None of 9 confirmed messages was lost, duplicated or altered. A fault offends with a chance of at most 63 % "
    "(95 % confidence). A kill cannot show a missing sync: this is about the death of processes."
)
NO_PROMISE = "This configuration does not promise it: "
NO_CONTROL = "No control was seen to fail: "


@pytest.mark.parametrize(
    ("changes", "verdict", "reason"),
    [
        (
            {},
            Verdict.HOLDS,
            NOTHING,
        ),
        (counts(lost=1), Verdict.VIOLATED, f"{GONE}."),
        (counts(lost=1, duplicated=1234), Verdict.VIOLATED, f"{GONE}; {AGAIN}."),
        (counts(phantom=1), Verdict.VIOLATED, "1 messages arrived that no client sent, such as p1:7."),
        (counts(not_recovered="status 1"), Verdict.VIOLATED, "The broker did not start again: status 1."),
        (
            counts(settled=False),
            Verdict.INCONCLUSIVE,
            "The queue was not drained to silence at the end, so nothing is known of the messages that are missing.",
        ),
        (
            counts(not_alive="status 1"),
            Verdict.INCONCLUSIVE,
            "The broker ended, or dropped a connection, by itself: status 1.",
        ),
        (counts(not_ready="slow", settled=False), Verdict.INCONCLUSIVE, "The broker did not start again: slow."),
        (
            {"faults": {"kill": 1, "stop": 1}},
            Verdict.INCONCLUSIVE,
            "HOLDS needs 3 faults with a message at risk, and 2 took effect.",
        ),
        ({"void": ["no client"]}, Verdict.INCONCLUSIVE, "1 segment was void: no client."),
        ({"void": ["no client", "no disk"]}, Verdict.INCONCLUSIVE, "2 segments were void: no client."),
        ({"controls": ()}, Verdict.INCONCLUSIVE, f"{NO_CONTROL}none was run."),
        (
            {"controls": (SEEN[0], msgspec.structs.replace(SEEN[1], offences=0))},
            Verdict.INCONCLUSIVE,
            f"{NO_CONTROL}liar b lost and repeated nothing.",
        ),
        (
            {"controls": (msgspec.structs.replace(SEEN[0], offences=0, void="It ended."),)},
            Verdict.INCONCLUSIVE,
            f"{NO_CONTROL}liar a lost and repeated nothing. It ended.",
        ),
        (
            {"whole": msgspec.structs.replace(FINE, lost=1), "confirmed": 8},
            Verdict.HARNESS_ERROR,
            "The segments and the whole disagree: lost: 0 by segments, 1 at once; confirmed: 8 by segments, 9 at once.",
        ),
        (
            {**counts(lost=1, duplicated=1234), "settings": WEAK},
            Verdict.NOT_APPLICABLE,
            f"{NO_PROMISE}persistence is false, the claim needs true. Seen: {GONE}; {AGAIN}.",
        ),
        (
            {**counts(lost=1, altered=1), "settings": WEAK},
            Verdict.VIOLATED,
            "1 messages arrived altered, such as p1:7.",
        ),
        ({**counts(lost=1, duplicated=1234), "settings": FULL}, Verdict.VIOLATED, f"{AGAIN}."),
    ],
)
def test_verdict(changes, verdict, reason):
    """What was seen comes first, then what is missing; HOLDS needs all of it."""
    assert (verdict, reason) == ruling.rule(dataclasses.replace(HELD, **changes), CATALOGUE)


def test_one_promise_is_enough():
    free = msgspec.structs.replace(CATALOGUE.claims["STOMP-ACK-05"], when={})
    catalogue = msgspec.structs.replace(CATALOGUE, claims={**CATALOGUE.claims, "STOMP-ACK-05": free})
    weak = dataclasses.replace(HELD, settings=WEAK, **counts(duplicated=1234))

    assert (Verdict.NOT_APPLICABLE, Verdict.VIOLATED) == tuple(
        ruling.rule(weak, each)[0] for each in (CATALOGUE, catalogue)
    )


def test_a_policy_of_the_queue_explains_a_loss():
    found, reason = ruling.rule(dataclasses.replace(HELD, settings=FULL, **counts(lost=1)), CATALOGUE)

    assert Verdict.NOT_APPLICABLE is found
    assert reason.startswith(f"{NO_PROMISE}full_queue_policy is discard: a message")
    assert reason.endswith(f". Seen: {GONE}.")


def test_the_strength_of_a_verdict():
    assert ["12 kills", "2 kills, 1 stop"] == [ruling.strength(each) for each in ({"kill": 12}, {"kill": 2, "stop": 1})]


def test_the_cases_use_every_offence():
    assert set(plan.OFFENCES) == set(OFFENCES)
    assert set(itertools.chain(*(names for _, names in OFFENCES.values()))) <= set(CASES)
