"""The only loop: workers beside each other, one broker after the other in each, and what a trial may cost the next."""

import dataclasses
import itertools
import os
import threading
import time
import types

import msgspec
import pytest
from planned_trials import REFERENCE, SCRIPT, planned

from conformance import adapters, history, records
from conformance.errors import HistoryError, Interrupted, LaunchError
from conformance.history import bare_header
from conformance.ledger import Ledger
from conformance.records import TrialRecord
from conformance.run import record as recording
from conformance.run.record import Recording, TrialQueue
from conformance.run.trial.described import describe
from conformance.scenario.script import Consume, Restart

BESIDE_S = 20.0
TIMED = dataclasses.replace(SCRIPT, timing=True)


class FakeAdapter:
    """Its brokers start in a second, where they start at all; it remembers each. At most `most` run at once."""

    name, version, spec, launcher = "fake", "1", "fake@1", adapters.find("reference").launcher
    file = types.SimpleNamespace(protocols={"amqp": None}, java=False)

    def __init__(self):
        self.made = []
        self.broken = None
        self.most = 10
        self.refused = threading.Event()

    def prepare(self, folder, settings, queues, ledger, liar, *, offline, options, client):
        broker = types.SimpleNamespace(name=folder.name, queues=queues, closed=False)
        broker.facts = types.SimpleNamespace(deviations={"of": liar or "the subject"})
        broker.node = broker

        def start(wrap=(), *, more=(), ready_s=0.0):
            if (liar and liar == self.broken) or sum(not each.closed for each in self.made) > self.most:
                self.refused.set()
                raise LaunchError("it does not start", log_tail=["out of luck"])
            return 1.0

        broker.start, broker.close = start, lambda: setattr(broker, "closed", True)
        self.made.append(broker)
        return broker


@pytest.fixture
def fake():
    return FakeAdapter()


@pytest.fixture
def trial(fake):
    """A trial that shares its broker with no other: each has an index of its own."""
    indices = itertools.count(1)

    def make(identity, **changes):
        arm = "control" if "liar" in changes else "subject"
        return planned(
            identity, **{"arm": arm, "adapter": fake, "protocol": "stomp", "index": next(indices), **changes}
        )

    return make


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Record these trials with a player that only does `during`; returns what was found, and the recording."""
    monkeypatch.setattr(recording, "WorkerPool", lambda ledger: types.SimpleNamespace())

    def run(*trials, during=lambda planned: None, floors=None, void=(), again=(), jobs=1):
        headers = {}

        class Player:
            broker_is_lost = False
            damaged = types.SimpleNamespace(done=False)

            def __init__(self, planned, broker, worker_pool, folder, header, abort, company):
                self.planned = planned
                headers[planned.id] = header

            def play(self):
                during(self.planned)
                return msgspec.structs.replace(
                    describe(self.planned),
                    floor_seconds=(floors or {}).get(self.planned.id, 0.0),
                    void="it went wrong" if self.planned.id in void else "",
                )

        monkeypatch.setattr(recording, "TrialPlayer", Player)
        with Ledger(tmp_path, f"record-{os.getpid()}") as ledger:
            made = Recording(tmp_path, bare_header(""), ledger, seen.append, jobs=jobs)
            run.made_abort = lambda: made._abort.requested
            run.is_quiet = made.quiet.locked
            found = [*made.record(trials), *(made.record(again) if again else ())]
        return types.SimpleNamespace(voids={each.trial: each.void for each in found}, made=made, headers=headers)

    seen = []
    run.seen = seen
    return run


def test_groups_run_beside_each_other(play, trial):
    """Three trials wait for each other: one after the other they would not meet."""
    meeting = threading.Barrier(3)
    trials = trial("a"), trial("b", liar="x"), trial("c", liar="y", waits_for_liveness=True)
    found = play(*trials, during=lambda _: meeting.wait(BESIDE_S))

    assert {"a": "", "b": "", "c": ""} == found.voids


@pytest.mark.parametrize("jobs", [1, 2])
def test_as_many_brokers_on_trial_as_jobs(play, trial, jobs):
    """They wait for each other, so they do run side by side; the liars beside them do not count."""
    meeting, running, most = threading.Barrier(jobs), set(), []

    def during(planned):
        if planned.liar:
            return
        running.add(planned.id)
        most.append(len(running))
        meeting.wait(BESIDE_S)
        running.discard(planned.id)

    subjects = [trial(name) for name in "abcd"]
    found = play(*subjects, trial("e", liar="x"), during=during, jobs=jobs)

    assert jobs == max(most)
    assert dict.fromkeys("abcde", "") == found.voids


def test_one_job_plays_in_the_order_of_the_plan(play, trial):
    order = []
    play(*(trial(name) for name in "abc"), during=lambda planned: order.append(planned.id))

    assert ["a", "b", "c"] == order


def test_what_measures_time_runs_alone(play, trial):
    """After all others, which meet: two of the broker on trial, a liar, and one that waits for the liveness bound."""
    meeting, running, beside = threading.Barrier(4), [], {}

    def during(planned):
        running.append(planned.id)
        if not planned.alone:
            meeting.wait(BESIDE_S)
        beside[planned.id] = [*running]
        running.remove(planned.id)

    timed = trial("t.1", script=TIMED), trial("t.2", script=TIMED), trial("t.3", script=TIMED, liar="z")
    others = trial("a"), trial("b"), trial("c", liar="x"), trial("d", liar="y", waits_for_liveness=True)
    play(*timed, *others, during=during, jobs=2)

    assert {"t.1": ["t.1"], "t.2": ["t.2"], "t.3": ["t.3"]} == {name: beside[name] for name in ("t.1", "t.2", "t.3")}
    assert set("abcd") == {*list(beside)[:4]}


def test_the_recording_is_quiet_while_a_trial_measures_time(play, trial):
    """So the judge of what is recorded, which uses the cores, waits."""
    held = {}
    trials = trial("a"), trial("b", liar="x"), trial("t", script=TIMED), trial("u", script=TIMED, liar="x")
    found = play(*trials, during=lambda planned: held.update({planned.id: play.is_quiet()}))

    assert {"a": False, "b": False, "t": True, "u": True} == held
    assert not found.made.quiet.locked()


def test_a_second_broker_that_does_not_start_voids_nothing(play, trial, fake):
    """For lack of memory, as an example: the first plays on alone."""
    fake.most = 1
    found = play(*(trial(name) for name in "abc"), during=lambda _: fake.refused.wait(BESIDE_S), jobs=2)

    assert dict.fromkeys("abc", "") == found.voids
    assert 2 == len(fake.made)


def taken(queue, held=()):
    """What a worker gets that stays with its broker to the end."""
    while (found := queue.take(held)) is not None:
        yield from (each.id for each in found)
        held = found[0].instance


def longer(identity, restarts, **changes):
    steps = (*[Restart()] * restarts, Consume("auto"))
    return planned(identity, script=dataclasses.replace(SCRIPT, steps=steps), **changes)


def test_the_longest_trial_comes_first():
    """First of the instance that has most to do, then of the other; equal ones keep the order of the plan."""
    trials = longer("a", 1), longer("x", 5, liar="x"), longer("b", 3), longer("c", 3), longer("y", 0, liar="x")

    assert ["b", "c", "a", "x", "y"] == list(taken(TrialQueue(trials)))


def test_a_second_worker_goes_to_an_instance_without_one():
    """It helps the first when no other instance is left."""
    queue = TrialQueue([*(longer(name, 2) for name in "abcd"), longer("x", 1, liar="x")])
    (first,), (second,) = queue.take(), queue.take()
    (third,) = queue.take(second.instance)
    rest = [trial.id for trial in (*queue.take(first.instance), *queue.take(third.instance))]

    assert ["a", "x", "b", "c", "d"] == [first.id, second.id, third.id, *rest]
    assert queue.take(first.instance) is None


def test_no_broker_is_started_for_less_than_its_start():
    """The last short trial is left to the worker that has a broker for it."""
    queue = TrialQueue([longer("a", 2), longer("b", 0)])
    (first,) = queue.take()

    assert queue.take() is None
    assert ["b"] == list(taken(queue, first.instance))


def test_what_cannot_start_goes_back_to_another_worker():
    """And no other worker tries again."""
    queue = TrialQueue([longer(name, 2) for name in "abc"])
    first, second = queue.take(), queue.take()
    given = queue.give_back(second), queue.take()

    assert (True, None) == given
    assert ["b", "c"] == list(taken(queue, first[0].instance))
    assert not queue.give_back(first)


def test_one_broker_for_trials_of_one_instance(play, trial, fake):
    play(trial("a.1"), trial("a.2"), trial("l.1", liar="x"))
    brokers = {broker.queues[0]: broker for broker in fake.made}

    assert {"a-1": ["a-1", "a-2"], "l-1": ["l-1"]} == {name: broker.queues for name, broker in brokers.items()}
    assert ("fake", "fake-x") == (brokers["a-1"].name[3:], brokers["l-1"].name[3:])
    assert all(broker.closed for broker in fake.made)


def test_the_floor_is_that_of_the_longest_worker(play, trial):
    """Each start takes a second. What runs alone is added to what runs in parallel."""
    floors = {"a": 2.0, "b": 2.0, "c": 4.0, "d": 7.5, "t": 3.0}
    beside = trial("c", liar="x"), trial("d", liar="z", waits_for_liveness=True)
    found = play(trial("a"), trial("b"), *beside, trial("t", liar="y", script=TIMED), floors=floors)

    assert (1.0 + 7.5) + (1.0 + 3.0) == found.made.floor_seconds


def test_the_floor_grows_with_what_is_added(play, trial):
    found = play(trial("a"), floors={"a": 2.0, "b": 3.0}, again=[trial("b")])

    assert 3.0 + 4.0 == found.made.floor_seconds


def test_a_void_trial_costs_its_broker(play, trial, fake):
    found = play(trial("a"), trial("b"), trial("c"), void=["b"])

    assert {"a": "", "b": "it went wrong", "c": ""} == found.voids
    assert [["a", "b", "c"], ["c"]] == [broker.queues for broker in fake.made]
    assert [True, True] == [broker.closed for broker in fake.made]


def test_a_broker_that_does_not_start_voids_its_own_trials_only(play, trial, fake, tmp_path):
    """Each has its record with the end of the log; the other groups go on."""
    fake.broken = "x"
    found = play(trial("a"), trial("b", liar="x"), trial("c", liar="x"), trial("d", liar="y"))
    written = records.read(tmp_path / "trials" / "c" / "trial.json", TrialRecord)

    assert {"a": "", "b": "it does not start", "c": "it does not start", "d": ""} == found.voids
    assert ("it does not start", ("out of luck",)) == (written.void, written.void_log)
    assert all(broker.closed for broker in fake.made)
    assert (4, 4) == (max(at.done for at in play.seen), len([at for at in play.seen if at.record]))


def test_what_a_trial_is_stands_in_its_header(play, trial):
    header = play(trial("a"), trial("b", liar="x")).headers["b"]

    assert ("odd", "b", "control", "fake", "stomp") == (
        header.scenario,
        header.trial,
        header.arm,
        header.adapter,
        header.protocol,
    )
    assert REFERENCE.effective().values == header.settings


def test_deviations_are_those_of_the_broker_on_trial(play, trial):
    assert {"of": "the subject"} == play(trial("a")).made.deviations
    assert {} == play(trial("b", liar="x")).made.deviations


def test_an_error_of_ours_ends_the_other_workers(play, trial, fake):
    aborted = threading.Event()
    played = []

    def during(planned):
        played.append(planned.id)
        if planned.id == "a":
            raise HistoryError("the disk is gone")
        aborted.wait(BESIDE_S)

    def abort(self):
        now(self)
        aborted.set()

    now = recording.Abort.now
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording.Abort, "now", abort)
        with pytest.raises(HistoryError, match="the disk is gone"):
            play(trial("a"), trial("b", liar="x"), trial("t", script=TIMED), during=during, jobs=2)

    assert (True, False) == (aborted.is_set(), "t" in played)
    assert all(broker.closed for broker in fake.made)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Interrupted("elsewhere")])
def test_a_user_who_stops_it(play, trial, fake, error):
    def during(planned):
        raise error

    with pytest.raises(Interrupted, match="stopped by the user"):
        play(trial("a"), trial("b"), during=during)
    assert [True] == [broker.closed for broker in fake.made]


@pytest.mark.process
def test_liars_beside_the_bundled_broker(tmp_path):
    honest, liar = planned("tiny.subject.1"), planned("tiny.liar.1", arm="control", liar="counts-from-one")
    with Ledger(tmp_path, f"record-{os.getpid()}") as ledger:
        made = Recording(tmp_path, bare_header(""), ledger)
        try:
            found = {each.trial: each for each in made.record([honest, liar])}
        finally:
            made.close()
    counted = {
        name: [
            event.count for event in history.read(tmp_path / "trials" / name / "drain-1.jsonl").events if event.message
        ]
        for name in found
    }

    assert ["", ""] == [each.void for each in found.values()]
    assert {"tiny.subject.1": [0] * 5, "tiny.liar.1": [1] * 5} == counted
    assert max(each.floor_seconds for each in found.values()) < made.floor_seconds


def test_an_error_beside_ends_the_first_worker(play, trial):
    failed, played = threading.Event(), []

    def during(planned):
        if planned.liar:
            raise HistoryError("the disk of the harness is full")
        played.append(planned.id)
        deadline = time.monotonic() + BESIDE_S
        while not play.made_abort() and time.monotonic() < deadline:
            failed.wait(0.01)

    with pytest.raises(HistoryError, match="the disk of the harness is full"):
        play(trial("a"), trial("b"), trial("c", liar="x"), during=during)

    assert "b" not in played
