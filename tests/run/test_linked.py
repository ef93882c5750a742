"""A step over a link that only records: its frames show what happened to each message."""

import pyarrow.parquet as pq
import pytest
from trial_histories import drained, events_of, messages

from conformance.history import Ended, Op, Phase, read
from conformance.judge.input.packing import OP_CODE, compact
from conformance.protocols.ties import CARRIES
from conformance.scenario.script import SETTLE, Consume, ConsumerCrash, Drain, Kill, Nth, Publish, Restart

BOTH = pytest.mark.parametrize("protocol", ["amqp", "stomp"])


@pytest.fixture
def frames(play):
    """Play a trial; return its record, its folder, and its frames about a message by their meaning."""

    def of(*steps, **changes):
        record, folder = play(*steps, **changes)
        rows = pq.read_table(compact(folder, record).parquet).to_pylist()
        tied = [row for row in rows if row["op"] == OP_CODE[Op.FRAME] and row["carries"] is not None]
        return record, folder, {word: [r for r in tied if CARRIES[r["carries"]] == word] for word in CARRIES}

    return of


def numbers(events):
    return {int(message.partition(":")[2]) for message in events}


def of(rows):
    return {row["n"] for row in rows}


@BOTH
@pytest.mark.parametrize("liar", [None, "requeues-settled"])
def test_what_reached_a_consumer_that_was_killed_is_known(frames, protocol, liar):
    """More than the application was handed; settled and whole; and only the liar delivers any of it again."""
    step = Consume("no_ack", prefetch=50, linked=True, work_ms=5, until=ConsumerCrash(Nth("process", 60)))
    record, folder, seen = frames(Publish(200, window=100), step, Drain(), protocol=protocol, liar=liar)
    handed = numbers(messages(events_of(folder, "consumer-1"), Op.DELIVER, Phase.OK))
    there = of(row for row in seen["deliver"] if row["whole"] and row["settled"])

    assert ("", Ended.FINISHED) == (record.void, read(folder / "link-1.jsonl").footer.ended)
    assert handed < there
    assert bool(there & numbers(drained(folder))) == bool(liar)
    assert {"deliver"} == {word for word, rows in seen.items() if rows}
    assert {(1, "odd-subject-1")} == {(row["producer"], row["queue"]) for row in seen["deliver"]}


@BOTH
@pytest.mark.parametrize("liar", ["", "acknowledges-on-receipt"])
def test_an_acknowledgement_that_left_too_early_is_seen(frames, protocol, liar):
    step = Consume("auto", prefetch=50, stop=40, work_ms=5, linked=True)
    _, folder, seen = frames(Publish(60, window=60), step, protocol=protocol, session_liar=liar)
    events = events_of(folder, "consumer-1")
    ended = {event.message: event.at_ns for event in events if (event.op, event.phase) == (Op.PROCESS, Phase.OK)}
    early = [row["n"] for row in seen["acknowledge"] if row["at_ns"] < ended[f"p1:{row['n']}"]]

    assert numbers(ended) == of(seen["acknowledge"]) == set(range(1, 41))
    assert bool(early) == bool(liar)


@BOTH
@pytest.mark.parametrize("liar", ["", "acknowledges-prefetched"])
def test_one_acknowledge_records_all_that_it_covers(frames, protocol, liar):
    crash = ConsumerCrash(Nth("process", 30))
    step = Consume("client", prefetch=60, acknowledge=20, confirm=True, linked=True, until=crash)
    _, folder, seen = frames(Publish(60, window=60), step, protocol=protocol, session_liar=liar)
    asked = numbers(messages(events_of(folder, "consumer-1"), Op.ACK, Phase.INVOKE))

    assert asked == of(seen["acknowledge"])
    assert (set(range(1, 21)) < asked) if liar else (set(range(1, 21)) == asked)


@BOTH
@pytest.mark.parametrize("liar", ["", "acknowledges-in-every-mode"])
def test_a_session_that_acknowledges_nothing_has_no_such_frame(frames, protocol, liar):
    step = Consume("no_ack", prefetch=50, stop=40, linked=True)
    _, _, seen = frames(Publish(60, window=60), step, protocol=protocol, session_liar=liar)

    if liar:
        assert set(range(1, 40)) <= of(seen["acknowledge"])
    else:
        assert ([], 40) == (seen["acknowledge"], len(of(seen["deliver"]) & set(range(1, 41))))


@BOTH
def test_a_broker_is_killed_over_a_link_as_without(frames, protocol):
    kill = Kill(Nth("confirm", 40))
    record, folder, seen = frames(Publish(2_000, window=10, linked=True, until=kill), Restart(), protocol=protocol)
    events = events_of(folder, "publisher-1")
    confirmed = numbers(messages(events, Op.SEND, Phase.OK))

    assert "" == record.void
    assert confirmed <= of(seen["answer"]) <= of(seen["send"]) <= numbers(messages(events, Op.SEND, Phase.INVOKE))
    assert {1} == {row["epoch"] for row in seen["send"]}


def test_a_step_that_does_not_ask_for_a_link_has_none(play):
    _, folder = play(Publish(5, window=5), Consume("auto", stop=5))

    assert [] == list(folder.glob("link*"))


@BOTH
def test_a_slow_network_is_no_fault(play, protocol):
    """Each answer takes the longer round trip, also after a kill, and no history tells of it."""
    kill = Kill(Nth("confirm", 10))
    record, folder = play(Publish(50, window=1, until=kill), Restart(), *SETTLE, protocol=protocol, rtt_ms=20.0)
    events = events_of(folder, "publisher-1")
    sent = {event.message: event.at_ns for event in events if (event.op, event.phase) == (Op.SEND, Phase.INVOKE)}
    took = [event.at_ns - sent[event.message] for event in events if (event.op, event.phase) == (Op.SEND, Phase.OK)]

    assert ("", 10) == (record.void, len(took))
    assert min(took) >= 20_000_000
    assert set(range(1, 11)) <= numbers(drained(folder))
    assert not [*folder.glob("link-*")]
