"""What a trial does for the scenarios of windows and explicit acknowledgements, on the bundled broker."""

import dataclasses

import pytest
from trial_histories import drained, events_of, messages

from conformance import adapters
from conformance.adapters.launch import native
from conformance.clients.job import Job
from conformance.history import WAITS, Op, Phase
from conformance.run.trial import jobs
from conformance.scenario import Scenario
from conformance.scenario.script import SETTLE, Consume, Drain, Frame, HoldLink, Offer, Publish, Restart, Together

ADAPTER = adapters.find("reference")
SETTINGS = ADAPTER.effective()


def offers(folder):
    return [(e.detail, e.phase) for e in events_of(folder, "orchestrator") if (e.detail or "").startswith("offered ")]


def test_settings_are_offered_and_refused(play):
    record, folder = play(
        Publish(5, window=5), Offer(("ack_threshold=1", "journal_buffer_ms=7")), Publish(5, window=5), Drain()
    )
    first, second = (events_of(folder, f"publisher-{number}")[0].epoch for number in (1, 2))

    assert "" == record.void
    assert [("offered ack_threshold=1", Phase.FAIL), ("offered journal_buffer_ms=7", Phase.OK)] == offers(folder)
    assert (1, 4) == (first, second)  # two starts with a setting, and one with what was taken


def test_what_was_taken_is_in_force_until_the_next_restart(play, monkeypatch):
    """The trial after it gets the broker as it was."""
    seen = []
    start = native.NativeBroker.start

    def noted(self, wrap=(), *, more=(), ready_s=0.0):
        seen.append(tuple(more))
        return start(self, wrap, more=more, ready_s=ready_s)

    monkeypatch.setattr(native.NativeBroker, "start", noted)
    record, _ = play(Offer(("journal_buffer_ms=7", "nothing=1")), Restart(clean=True))
    taken = ("--set", "journal_buffer_ms=7")

    assert "" == record.void
    assert [(), taken, ("--set", "nothing=1"), taken, ()] == seen


def test_a_broker_that_dies_of_a_setting_voids_the_trial(play):
    """It knows the setting, and cannot start with it: that is not a refusal."""
    refusing = ADAPTER.file.model_copy(update={"start": ADAPTER.file.start.model_copy(update={"refused_status": 77})})
    adapter = dataclasses.replace(ADAPTER, file=refusing)
    record, _ = play(Offer(("nothing=1",)), adapter=adapter)

    assert "ended with status 4 before it was ready" in record.void


def test_the_words_of_an_offer():
    assert ["--set", "a=b=1"] == jobs.offer_words(ADAPTER, "a=b=1")


def test_a_queue_has_its_options(play):
    script = Scenario("odd", "", "async_ack", (Publish(80, window=20), *SETTLE), {}, queue=(("max_length", 40),))
    record, folder = play(script=script)
    answers = [e.phase for e in events_of(folder, "publisher-1") if e.op is Op.SEND and e.phase is not Phase.INVOKE]

    assert ("", 40, 40) == (record.void, answers.count(Phase.OK), answers.count(Phase.FAIL))


@pytest.mark.parametrize(("protocol", "cut"), [("amqp", False), ("stomp", True)])
def test_a_full_queue_may_cost_a_publisher_its_connection(play, protocol, cut, monkeypatch):
    """An ERROR of STOMP need not name the send that it refuses: what had no answer yet is unknown."""
    made = []
    monkeypatch.setattr(jobs, "Job", lambda **fields: made.append(Job(**fields)) or made[-1])
    script = Scenario("odd", "", "async_ack", (Publish(80, window=20), *SETTLE), {}, queue=(("max_length", 40),))
    record, _ = play(script=script, protocol=protocol)

    assert ("", cut) == (record.void, made[0].tolerances.cut_off)


def test_a_queue_that_was_not_declared_is_made_by_its_publisher(play):
    script = Scenario("odd", "", "async_ack", (Publish(8, window=2), *SETTLE), {}, queue=(("undeclared", True),))
    record, folder = play(script=script)

    assert ("", 8) == (record.void, len(drained(folder, 1)))


def test_acknowledgements_go_backwards(play):
    record, folder = play(
        Publish(40, window=20), Consume("individual", prefetch=40, acknowledge=2, backwards=10, stop=20), Drain()
    )
    asked = [e.message for e in events_of(folder, "consumer-1") if (e.op, e.phase) == (Op.ACK, Phase.INVOKE)]

    assert "" == record.void
    assert [f"p1:{n}" for n in (10, 8, 6, 4, 2, 20, 18, 16, 14, 12)] == asked


def test_a_held_answer_fills_the_window(play):
    hold = HoldLink(Frame("answer", 1, at="before"), hold_s=0.2)
    record, folder = play(Publish(90, window=30, tells_waits=True, until=hold), Drain())
    waits = [(e.message, e.count) for e in events_of(folder, "publisher-1") if e.detail == WAITS]

    assert ("", ("p1:31", 30)) == (record.void, waits[0])
    assert {30} == {count for _, count in waits}


@pytest.mark.parametrize("protocol", ["amqp", "stomp"])
def test_receivers_of_one_session_have_a_history_each(play, protocol):
    """Each in its queue; the first one ends after twenty deliveries, and gives back what it holds."""
    takes = Consume("individual", 50, acknowledge=2, backwards=10, receivers=2, queues=2, ends=20, stop=30)
    together = Together((takes, Publish(60, window=10, queues=2, every_ms=2)))
    record, folder = play(together, *SETTLE, protocol=protocol)
    first, second = (events_of(folder, f"consumer-{number}") for number in (1, 2))
    given_back = messages(first, Op.NACK, Phase.INVOKE, detail="its receiver ended")
    handed = messages(first, Op.DELIVER, Phase.OK), messages(second, Op.DELIVER, Phase.OK)

    assert "" == record.void
    assert all(int(name.partition(":")[2]) % 2 for name in handed[0])
    assert not any(int(name.partition(":")[2]) % 2 for name in handed[1])
    assert given_back == handed[0] - messages(first, Op.ACK, Phase.OK)
    assert given_back
    assert 30 == len(handed[0] | handed[1])


@pytest.mark.parametrize("protocol", ["amqp", "stomp"])
def test_copies_are_in_every_queue(play, protocol):
    """A drain finds what no receiver has acknowledged, in each of them."""
    takes = Consume("individual", 50, acknowledge=2, backwards=10, receivers=2, queues=2, stop=20)
    queue = (("copies_of", True),)
    record, folder = play(Publish(20, window=10, queues=2), takes, *SETTLE, protocol=protocol, queue=queue)
    first, second = (messages(events_of(folder, f"consumer-{n}"), Op.ACK, Phase.OK) for n in (1, 2))
    drained = [(e.message, e.queue[-2:]) for e in events_of(folder, "drain-1") if e.op is Op.DRAIN and e.message]

    assert ("", 10) == (record.void, len(first) + len(second))
    assert 30 == len(set(drained)) == len(drained)
    assert {f"p1:{n}" for n in range(1, 21)} - second == {message for message, queue in drained if queue == "-2"}


@pytest.mark.parametrize("protocol", ["amqp", "stomp"])
def test_durable_subscriptions_are_found_again(play, protocol):
    """Two of one client: what is sent while it is away comes to each, and what it acknowledged before does not."""
    first = Together((Consume("individual", 50, receivers=2, queues=2, stop=20), Publish(20, window=10, queues=2)))
    back = Consume("individual", 50, receivers=2, queues=2, until_silent=True)
    steps = (first, Publish(30, window=10, queues=2), Restart(clean=True), back, *SETTLE)
    record, folder = play(*steps, protocol=protocol, queue=(("subscribed", True),))
    subscriptions = zip(("consumer-1", "consumer-2"), ("consumer-3", "consumer-4"), strict=True)
    acknowledged = [[messages(events_of(folder, name), Op.ACK, Phase.OK) for name in names] for names in subscriptions]
    sent = {f"p{producer}:{n}" for producer, count in ((1, 20), (2, 30)) for n in range(1, count + 1)}

    assert ("", 20) == (record.void, sum(len(before) for before, _ in acknowledged))
    for before, after in acknowledged:
        assert sent == before | after
        assert set() == before & after
    assert not [e for e in events_of(folder, "drain-1") if e.op is Op.DRAIN and e.message]
