"""One trial on the bundled broker: what voids it, and what it leaves behind."""

import fnmatch
import functools

import pytest
from trial_histories import drained, events_of, messages, phases

from conformance import adapters, history, records
from conformance.adapters.launch import native
from conformance.clients.job import SILENCE_S, Tolerances
from conformance.history import Ended, Op, Phase
from conformance.records import TrialRecord
from conformance.run.trial import player
from conformance.scenario.script import (
    SETTLE,
    After,
    Ask,
    Consume,
    ConsumerCrash,
    Cut,
    Drain,
    Frame,
    HoldLink,
    Kill,
    Nth,
    Pause,
    Publish,
    Recovery,
    Restart,
    Stop,
)

ADAPTER = adapters.find("reference")
BOTH = pytest.mark.parametrize("protocol", ["amqp", "stomp"])


def of_transaction(folder, name):
    return messages(events_of(folder, "publisher-1"), Op.SEND, Phase.INVOKE, transaction=name)


NEVER = Nth("confirm", 5_000)
WAITS = "did not fire: 50 events of the 5000 that its trigger waits for"


@pytest.mark.parametrize(
    ("steps", "void"),
    [
        ((Publish(50, window=10, until=Kill(NEVER)), Restart(), *SETTLE), f"the kill {WAITS}"),
        ((Publish(50, window=10, until=Stop(NEVER)), Restart(), *SETTLE), f"the stop {WAITS}"),
        ((Publish(50, window=10, until=Pause(NEVER)), *SETTLE), f"the pause {WAITS}"),
        (
            (Publish(50, window=10), Consume("auto", stop=20, until=ConsumerCrash(Nth("process", 5_000))), *SETTLE),
            "the client was not killed: finished after 20*",
        ),
        (
            (Publish(5, window=1, until=Cut(Frame("send", 50))), *SETTLE),
            "the cut did not fire: 5 of the 50 send frames that its trigger waits for",
        ),
        (
            (Publish(20, window=10), Restart(clean=True, until=Kill(Recovery(100_000))), *SETTLE),
            "the kill did not fire: *",
        ),
        ((Publish(5, window=5), Consume("telepathic", stop=1)), "*telepathic*"),
    ],
    ids=["kill", "stop", "pause", "crash", "cut", "kill in recovery", "unknown mode"],
)
def test_a_fault_that_does_not_fire_voids_its_trial(play, steps, void):
    record, _ = play(*steps)

    assert fnmatch.fnmatchcase(record.void, void), record.void


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("changes", "drain"),
    [({}, Phase.OK), ({"liar": "skips-every-hundredth-delivery"}, Phase.INFO)],
    ids=["an empty queue", "a message withheld"],
)
@pytest.mark.parametrize("fault", [ConsumerCrash(Nth("process", 150)), Cut(Frame("acknowledge", 150))])
def test_a_queue_is_drained_if_a_consumer_waits_in_vain_for_its_fault(play, monkeypatch, changes, drain, fault):
    """No claim about the fault is decided, and the drain shows whether the broker has withheld a message.

    If it has not, the queue is drained once more after a clean restart: then nothing is left open of this trial.
    """
    monkeypatch.setattr(player, "Tolerances", functools.partial(Tolerances, liveness_s=2.0))
    record, folder = play(Publish(120, window=10), Consume("individual", until=fault), *SETTLE, **changes)
    ends = [
        event.phase
        for path in sorted(folder.glob("drain-*.jsonl"))
        for event in events_of(folder, path.stem)
        if event.op is Op.DRAIN and event.phase is not Phase.INVOKE
    ]

    assert ("", True) == (record.void, record.void_by_broker)
    assert ([Phase.OK] * 2 if drain is Phase.OK else [drain]) == ends


@pytest.mark.parametrize("protocol", ["amqp", "amqp091"])
@pytest.mark.parametrize(("liar", "intact"), [(None, True), ("forgets-priorities-at-a-start", False)])
def test_a_message_is_compared_by_its_priority(play, protocol, liar, intact):
    _, folder = play(Publish(10, window=5, priority=7), Restart(clean=True), Drain(), protocol=protocol, liar=liar)
    came = [event for event in events_of(folder, "drain-1") if event.op is Op.DRAIN and event.message]

    assert [intact] * 10 == [event.intact for event in came]


LAST, WILDCARD = (
    "does a new subscription get the last retained message",
    "does a wildcard get the last retained messages",
)


@pytest.mark.parametrize("protocol", ["mqtt", "mqtt311"])
@pytest.mark.parametrize(
    ("steps", "liar", "asked", "otherwise"),
    [
        ((Ask(LAST),), None, 110, 0),
        ((Ask(WILDCARD),), None, 110, 0),
        ((Ask(LAST),), "retains-the-first-message", 110, 10),
        ((Ask("are messages retained"), Restart(clean=True), Ask("are retained messages still there")), None, 80, 0),
        (
            (Ask("are messages retained"), Restart(clean=True), Ask("are retained messages still there")),
            "forgets-retained-messages",
            80,
            40,
        ),
    ],
)
def test_what_is_retained_is_looked_for(play, protocol, steps, liar, asked, otherwise):
    """Each PUBLISH with RETAIN and each topic is a question; what this sets it ends."""
    record, folder = play(*steps, protocol=protocol, liar=liar)
    answers = [
        event.phase
        for path in sorted(folder.glob("asker-*.jsonl"))
        for event in events_of(folder, path.stem)
        if event.op is Op.ASK and event.phase is not Phase.INVOKE
    ]

    assert ("", asked, otherwise) == (record.void, len(answers), answers.count(Phase.FAIL))


@pytest.mark.parametrize(("liar", "early"), [(None, 0), ("delivers-before-the-time", 10)])
def test_a_drain_waits_for_messages_with_a_delay(play, liar, early):
    """None comes before its time, and none is missing when the drain ends."""
    record, folder = play(Publish(10, window=5, delay_ms=1500), Drain(), liar=liar)
    sent = {event.message: event for event in events_of(folder, "publisher-1") if event.phase is Phase.INVOKE}
    came = [event for event in events_of(folder, "drain-1") if event.op is Op.DRAIN and event.message]
    before = [event for event in came if event.at_ns < sent[event.message].at_ns + 1_500_000_000 - 2_000_000]

    assert ("", 10, early) == (record.void, len(came), len(before))
    assert {1500} == {event.delay_ms for event in sent.values() if event.op is Op.SEND}


@pytest.mark.parametrize("node", ["", "another"])
def test_a_publisher_is_connected_to_the_node_of_its_step(play, monkeypatch, node):
    asked = []
    one = native.NativeBroker
    monkeypatch.setattr(one, "beside", property(lambda broker: asked.append(1) or broker.service))
    record, _ = play(Publish(5, window=5, node=node), *SETTLE)

    assert (record.void, len(asked)) == ("", 1 if node else 0)


def test_what_has_stayed_without_an_answer_is_not_sent_once_more(play, monkeypatch):
    """The next publisher goes on only in the session of the publisher that was cut."""
    monkeypatch.setattr(player, "Tolerances", functools.partial(Tolerances, liveness_s=2.0))
    cut = Publish(60, window=20, exactly_once=True, until=Cut(Frame("received", 30, at="before")))
    goes_on = Publish(1, window=20, resends=True, exactly_once=True)
    record, folder = play(cut, goes_on, cut, goes_on, Drain(), protocol="mqtt", liar="ignores-what-comes-again")
    sent = [messages(events_of(folder, f"publisher-{number}"), Op.SEND, Phase.INVOKE) for number in (2, 4)]

    assert "" == record.void
    assert [{"p1"}, {"p3"}] == [{message.partition(":")[0] for message in each} for each in sent]


@pytest.mark.parametrize(("event", "unreleased"), [("sent", 0), ("received", 1), ("released", 0)])
def test_a_broker_is_killed_between_two_packets(play, event, unreleased):
    """What was received and not released before the kill is released by the publisher that goes on, and there once."""
    kill = Publish(5_000, window=20, exactly_once=True, until=Kill(Nth(event, 40)))
    goes_on = Publish(1, window=20, resends=True, exactly_once=True)
    record, folder = play(kill, Restart(), goes_on, *SETTLE, protocol="mqtt")
    released = [each for each in events_of(folder, "publisher-2") if "PUBREL" in (each.detail or "")]
    answered = messages(events_of(folder, "publisher-1"), Op.SEND, Phase.OK)
    answered |= messages(events_of(folder, "publisher-2"), Op.SEND, Phase.OK)

    assert "" == record.void
    assert len(released) >= unreleased
    assert answered == drained(folder)


def test_every_history_is_closed_and_every_trial_described(play):
    crash = ConsumerCrash(Nth("process", 7))
    record, folder = play(Publish(20, window=10), Consume("auto", until=crash), *SETTLE)
    ended = {path.stem: history.read(path).footer.ended for path in folder.glob("*.jsonl")}

    assert ("", record) == (record.void, records.read(folder / "trial.json", TrialRecord))
    assert {
        "publisher-1": Ended.FINISHED,
        "consumer-1": Ended.KILLED_BY_FAULT,
        "drain-1": Ended.FINISHED,
        "drain-2": Ended.FINISHED,
        "orchestrator": Ended.FINISHED,
    } == ended


def test_the_fault_is_effective_before_the_broker_is_started_again(play):
    kill = Kill(Nth("confirm", 20))
    _, folder = play(Publish(5_000, window=10, until=kill), Restart(), *SETTLE)
    events = history.read(folder / "orchestrator.jsonl").events
    order = [(event.op, event.phase) for event in events]

    assert order.index((Op.FAULT, Phase.EFFECTIVE)) < order.index((Op.BROKER, Phase.INVOKE))
    assert sorted(events, key=lambda event: event.at_ns) == list(events)


def test_the_floor_is_a_part_of_the_time(play):
    record, _ = play(Publish(20, window=10), *SETTLE)

    assert 0 < record.floor_seconds < record.seconds


@BOTH
def test_a_stop_under_load(play, protocol):
    stop = Stop(Nth("confirm", 60))
    record, folder = play(Publish(5_000, window=20, until=stop), Restart(), *SETTLE, protocol=protocol)
    events = events_of(folder, "publisher-1")
    harness = [(e.op, e.phase, e.fault or e.detail) for e in events_of(folder, "orchestrator")]

    assert "" == record.void
    assert [Phase.ARMED, Phase.FIRED] == phases(events, Op.FAULT)
    assert [(Op.FAULT, Phase.EFFECTIVE, "stop"), (Op.BROKER, Phase.OK, "stop")] == harness[:2]
    assert messages(events, Op.SEND, Phase.OK) <= drained(folder)


@pytest.mark.parametrize("fault", [Stop, Kill])
def test_the_broker_is_armed_for_the_fault(play, monkeypatch, fault):
    def armed(broker, name):
        asked.append(name)
        return real(broker, name)

    asked, real = [], native.NativeBroker.armed
    monkeypatch.setattr(native.NativeBroker, "armed", armed)
    record, _ = play(Publish(5_000, window=10, until=fault(Nth("confirm", 20))))

    assert ("", [fault.name]) == (record.void, asked)


@BOTH
def test_a_pause_ends_nothing(play, protocol):
    """Sends in flight are answered after the pause."""
    pause = Pause(Nth("confirm", 50), hold_s=1.5)
    record, folder = play(Publish(200, window=20, until=pause), *SETTLE, protocol=protocol)
    events = events_of(folder, "publisher-1")
    armed, fired, effective, healed = (event.at_ns for event in events if event.op is Op.FAULT)
    asked, answered = (
        {e.message: e.at_ns for e in events if (e.op, e.phase) == (Op.SEND, phase)}
        for phase in (Phase.INVOKE, Phase.OK)
    )
    in_flight = [message for message in asked if asked[message] < effective and answered[message] > healed]

    assert "" == record.void
    assert [Phase.ARMED, Phase.FIRED, Phase.EFFECTIVE, Phase.HEALED] == phases(events, Op.FAULT)
    assert armed < fired < effective < healed
    assert healed - effective >= 1.5e9
    assert (200, 200) == (len(answered), len(drained(folder)))
    assert 0 < len(in_flight) <= 20
    assert [] == [message for message in asked if effective < asked[message] and answered[message] < healed]
    assert record.floor_seconds > 1.5 + 2 * SILENCE_S


@BOTH
def test_a_pause_with_a_commit_outstanding(play, protocol):
    consume = Consume("transacted", acknowledge=5, stop=20, until=Pause(Nth("before_commit", 2), hold_s=0.3))
    record, folder = play(Publish(20, window=10), consume, *SETTLE, protocol=protocol)
    events = events_of(folder, "consumer-1")
    effective, healed = (e.at_ns for e in events if e.phase in (Phase.EFFECTIVE, Phase.HEALED))
    asked, answered = (e.at_ns for e in events if (e.op, e.transaction) == (Op.COMMIT, "t2"))

    assert ("", set()) == (record.void, drained(folder))
    assert effective < asked < healed < answered


@BOTH
@pytest.mark.parametrize(
    ("event", "ends"),
    [
        ("before_commit", []),
        ("commit_written", [Phase.INVOKE, None]),
        ("committed", [Phase.INVOKE, Phase.OK]),
    ],
)
def test_a_kill_around_a_commit(play, protocol, event, ends):
    """The request and the answer that are recorded, and the messages that are there later."""
    kill = Kill(Nth(event, 3))
    record, folder = play(Publish(100, window=10, batch=4, until=kill), Restart(), *SETTLE, protocol=protocol)
    events = events_of(folder, "publisher-1")
    asked = [e.phase for e in events if (e.op, e.transaction) == (Op.COMMIT, "t3")]
    found = drained(folder)
    kept = found & of_transaction(folder, "t3")

    assert ("", 4) == (record.void, len(of_transaction(folder, "t3")))
    assert [phase or asked[-1] for phase in ends] == asked
    assert of_transaction(folder, "t1") | of_transaction(folder, "t2") == found - kept
    assert len(kept) in {"before_commit": (0,), "commit_written": (0, 4), "committed": (4,)}[event]
    assert asked[-1:] != [Phase.FAIL]
    assert set() == of_transaction(folder, "t4")


@BOTH
def test_a_rollback_leaves_nothing(play, protocol):
    """A peek in between receives only committed messages."""
    publish = Publish(40, window=10, batch=10, rollback_every=2, peek=True)
    record, folder = play(publish, *SETTLE, protocol=protocol)
    events = events_of(folder, "publisher-1")
    committed = of_transaction(folder, "t1") | of_transaction(folder, "t3")
    commits = {e.transaction: e.at_ns for e in events if (e.op, e.phase) == (Op.COMMIT, Phase.INVOKE)}
    delivered = [e for e in events if (e.op, e.phase) == (Op.DELIVER, Phase.OK)]
    sent_in = {message: name for name in ("t1", "t2", "t3", "t4") for message in of_transaction(folder, name)}

    assert ("", set()) == (record.void, drained(folder))
    assert {"t1", "t3"} == set(commits)
    assert [Phase.INVOKE, Phase.OK] * 2 == phases(events, Op.ROLLBACK)
    assert committed == {event.message for event in delivered}
    assert all(event.at_ns > commits[sent_in[event.message]] for event in delivered)
    assert all(event.at_ns < commits["t3"] for event in delivered if sent_in[event.message] == "t1")


@BOTH
def test_a_client_that_dies_before_its_commit(play, protocol):
    """The broker runs on: its uncommitted messages are not there."""
    crash = ConsumerCrash(Nth("before_commit", 3))
    record, folder = play(Publish(100, window=10, batch=4, until=crash), *SETTLE, protocol=protocol)
    publisher = history.read(folder / "publisher-1.jsonl")

    assert ("", Ended.KILLED_BY_FAULT) == (record.void, publisher.footer.ended)
    assert Phase.FIRED == publisher.events[-1].phase
    assert of_transaction(folder, "t1") | of_transaction(folder, "t2") == drained(folder)
    assert 4 == len(of_transaction(folder, "t3"))


@BOTH
def test_a_consumer_that_dies_before_its_commit(play, protocol):
    crash = ConsumerCrash(Nth("before_commit", 2))
    steps = Publish(30, window=10), Consume("transacted", acknowledge=5, until=crash), *SETTLE
    record, folder = play(*steps, protocol=protocol)
    events = events_of(folder, "consumer-1")
    first, second = (messages(events, Op.ACK, Phase.INVOKE, transaction=name) for name in ("t1", "t2"))

    assert ("", 5, 5) == (record.void, len(first), len(second))
    assert (set(), second) == (first & drained(folder), second & drained(folder))


@BOTH
def test_deliveries_given_back(play, protocol):
    outcomes = ("released", "failed")
    consume = Consume("individual", refuse=outcomes, refuse_every=2, until_silent=True)
    record, folder = play(Publish(20, window=10), consume, *SETTLE, protocol=protocol)
    events = events_of(folder, "consumer-1")
    refused = [e for e in events if (e.op, e.phase) == (Op.NACK, Phase.INVOKE)]
    taken = messages(events, Op.ACK, Phase.OK)

    assert ("", 10, set(outcomes)) == (record.void, len(refused), {event.detail for event in refused})
    assert 10 == len({event.message for event in refused})
    assert taken >= messages(events, Op.DELIVER, Phase.OK) - {event.message for event in refused}
    if protocol == "amqp":
        assert (20, set()) == (len(taken), drained(folder))


def test_the_raw_client_asks_for_no_answer(play):
    record, folder = play(Publish(20, window=5, unasked_every=2), *SETTLE, client="raw", protocol="stomp")
    events = events_of(folder, "publisher-1")

    assert ("", 10) == (record.void, len(messages(events, Op.SEND, Phase.OK)))
    assert 10 == len(messages(events, Op.SEND, Phase.INVOKE, detail="no answer asked for"))
    assert 20 == len(drained(folder))


def test_what_only_the_raw_client_can_do_voids_a_trial_of_a_library(play):
    record, _ = play(Publish(20, window=5, unasked_every=2), *SETTLE, protocol="stomp")

    assert record.void.endswith("a send without an answer needs the raw client")


@BOTH
def test_a_kill_between_a_send_and_its_answer(play, protocol):
    record, folder = play(Publish(500, window=1, until=Kill(Nth("sent", 20))), Restart(), *SETTLE, protocol=protocol)
    events = events_of(folder, "publisher-1")

    assert ("", 20) == (record.void, len(messages(events, Op.SEND, Phase.INVOKE)))
    assert {"p1:20"} >= messages(events, Op.SEND, Phase.INFO)
    assert messages(events, Op.SEND, Phase.OK) <= drained(folder)


def test_a_pause_that_ends_in_a_kill(play):
    pause = Pause(Nth("confirm", 50), hold_s=0.2, then_kill=True)
    record, folder = play(Publish(50_000, window=20, until=pause), Restart(), *SETTLE)
    events = events_of(folder, "publisher-1")
    harness = [(e.phase, e.fault) for e in events_of(folder, "orchestrator") if e.op is Op.FAULT]

    assert "" == record.void
    assert [(Phase.EFFECTIVE, "kill")] == harness
    assert [("pause", Phase.ARMED), ("pause", Phase.FIRED), ("pause", Phase.EFFECTIVE), ("kill", Phase.FIRED)] == [
        (e.fault, e.phase) for e in events if e.op is Op.FAULT
    ]
    assert messages(events, Op.SEND, Phase.OK) <= drained(folder)


def test_a_second_kill_without_use(play):
    """So long after the restart was ready; no client has used the broker in between."""
    kill = Kill(Nth("confirm", 60))
    record, folder = play(Publish(5_000, window=10, until=kill), Restart(until=Kill(After(20))), *SETTLE)
    faults = [event.detail for event in events_of(folder, "orchestrator") if event.op is Op.FAULT]

    assert "" == record.void
    assert "20 ms after it was ready, without use" in faults
    assert messages(events_of(folder, "publisher-1"), Op.SEND, Phase.OK) <= drained(folder)


def test_a_second_kill_in_recovery(play):
    """With 2,000 messages: the recovery of 60 was over before a busy machine had sent the signal."""
    kill = Kill(Nth("confirm", 2_000))
    record, folder = play(Publish(5_000, window=50, until=kill), Restart(until=Kill(Recovery(2))), *SETTLE)
    faults = [(e.phase, e.epoch) for e in events_of(folder, "orchestrator") if e.op is Op.FAULT]

    assert "" == record.void
    assert [(Phase.EFFECTIVE, 1), (Phase.ARMED, 1), (Phase.FIRED, 2), (Phase.EFFECTIVE, 2)] == faults
    assert messages(events_of(folder, "publisher-1"), Op.SEND, Phase.OK) <= drained(folder)


@BOTH
def test_a_connection_that_is_cut_in_the_last_frame_of_a_message(play, protocol):
    """Over AMQP the frames before it have passed; the broker has nothing of the message."""
    cut = Cut(Frame("send", 3, at="middle", last=True))
    record, folder = play(Publish(20, window=1, size=600_000, until=cut), *SETTLE, protocol=protocol)
    held = [e for e in events_of(folder, "link-1") if e.op is Op.FRAME and e.phase is Phase.FAIL]
    passed = [e for e in events_of(folder, "link-1") if e.op is Op.FRAME and "more" in e.detail.split()]

    assert ("", ["p1:3"], {"p1:1", "p1:2"}) == (record.void, [e.message for e in held], drained(folder))
    assert protocol == "stomp" or (6, {"p1:1", "p1:2", "p1:3"}) == (len(passed), {e.message for e in passed})


@BOTH
def test_a_connection_that_is_cut(play, protocol):
    """Half of a send has passed: its outcome is unknown, and the broker does not have it."""
    cut = Cut(Frame("send", 7, at="middle"))
    record, folder = play(Publish(50, window=1, until=cut), *SETTLE, protocol=protocol)
    events = events_of(folder, "publisher-1")

    assert ("", {"p1:7"}) == (record.void, messages(events, Op.SEND, Phase.INFO))
    assert {f"p1:{n}" for n in range(1, 7)} == drained(folder)


def test_a_link_that_is_held(play):
    hold = HoldLink(Frame("answer", 3, at="before"), hold_s=0.4)
    record, folder = play(Publish(10, window=1, until=hold), *SETTLE)
    events = events_of(folder, "publisher-1")
    asked, answered = (
        {e.message: e.at_ns for e in events if (e.op, e.phase) == (Op.SEND, phase)}
        for phase in (Phase.INVOKE, Phase.OK)
    )

    assert ("", 10) == (record.void, len(drained(folder)))
    assert [n for n in range(1, 11) if answered[f"p1:{n}"] - asked[f"p1:{n}"] > 0.35e9] == [3]
