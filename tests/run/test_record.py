"""The only loop: lanes beside each other, one broker after the other in each, and what a trial may cost the next."""

import os
import threading
import time
import types

import msgspec
import pytest
from planned_trials import REFERENCE, planned

from conformance import history, records
from conformance.errors import HistoryError, Interrupted, LaunchError
from conformance.history import bare_header
from conformance.ledger import Ledger
from conformance.records import TrialRecord
from conformance.run import record as recording
from conformance.run.record import Recording
from conformance.run.trial import describe

BESIDE_S = 20.0


class FakeAdapter:
    """Its brokers start in a second, where they start at all; it remembers each."""

    name, version, spec, launcher = "fake", "1", "fake@1", "native"
    file = types.SimpleNamespace(protocols={"amqp": None})

    def __init__(self):
        self.made = []
        self.broken = None

    def prepare(self, folder, settings, queues, ledger, liar, *, offline, options, client):
        broker = types.SimpleNamespace(name=folder.name, queues=queues, closed=False)
        broker.facts = types.SimpleNamespace(deviations={"of": liar or "the subject"})

        def start(wrap=(), *, more=(), ready_s=0.0):
            if liar and liar == self.broken:
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
    def make(identity, **changes):
        arm = "control" if "liar" in changes else "subject"
        return planned(identity, arm=arm, adapter=fake, protocol="stomp", **changes)

    return make


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Record these trials with a player that only does `during`; returns what was found, and the recording."""
    monkeypatch.setattr(recording, "WorkerPool", lambda ledger: types.SimpleNamespace())

    def run(*trials, during=lambda planned: None, floors=None, void=(), again=()):
        headers = {}

        class Player:
            broker_is_lost = False

            def __init__(self, planned, broker, worker_pool, folder, header, abort):
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
            made = Recording(tmp_path, bare_header(""), ledger, seen.append)
            run.made_abort = lambda: made._abort.requested
            found = [*made.record(trials), *(made.record(again) if again else ())]
        return types.SimpleNamespace(voids={each.trial: each.void for each in found}, made=made, headers=headers)

    seen = []
    run.seen = seen
    return run


def test_lanes_run_beside_each_other(play, trial):
    """Three trials wait for each other: one after the other they would not meet."""
    meeting = threading.Barrier(3)
    trials = trial("a"), trial("b", liar="x"), trial("c", liar="y", waits_for_liveness=True)
    found = play(*trials, during=lambda _: meeting.wait(BESIDE_S))

    assert {"a": "", "b": "", "c": ""} == found.voids


def test_in_a_lane_trials_follow_each_other(play, trial):
    lanes = {"": threading.Lock(), "liars": threading.Lock()}

    def alone(planned):
        assert lanes[planned.parallel_group].acquire(blocking=False)
        order.append(planned.id)
        lanes[planned.parallel_group].release()

    order = []
    play(trial("a"), trial("b"), trial("c"), trial("d", liar="x"), trial("e", liar="y"), during=alone)

    assert ["a", "b", "c"] == [name for name in order if name in "abc"]
    assert ["d", "e"] == [name for name in order if name in "de"]


def test_one_broker_for_trials_of_one_instance(play, trial, fake):
    play(trial("a.1"), trial("a.2"), trial("l.1", liar="x"))
    brokers = {broker.queues[0]: broker for broker in fake.made}

    assert {"a-1": ["a-1", "a-2"], "l-1": ["l-1"]} == {name: broker.queues for name, broker in brokers.items()}
    assert ("fake", "fake-x") == (brokers["a-1"].name[3:], brokers["l-1"].name[3:])
    assert all(broker.closed for broker in fake.made)


def test_the_floor_is_that_of_the_longest_lane(play, trial):
    """Each start takes a second. Starts and waits of the other groups run in parallel."""
    floors = {"a": 2.0, "b": 2.0, "c": 4.0, "d": 3.0, "e": 7.5}
    liars = trial("c", liar="x"), trial("d", liar="y")
    found = play(trial("a"), trial("b"), *liars, trial("e", liar="z", waits_for_liveness=True), floors=floors)

    assert (1.0 + 4.0) + (1.0 + 3.0) == found.made.floor_seconds


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


def test_an_error_of_ours_ends_the_other_lanes(play, trial, fake):
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
            play(trial("a"), trial("b", liar="x"), trial("c", liar="x"), during=during)

    assert (True, False) == (aborted.is_set(), "c" in played)
    assert all(broker.closed for broker in fake.made)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Interrupted("elsewhere")])
def test_a_user_who_stops_it(play, trial, fake, error):
    def during(planned):
        raise error

    with pytest.raises(Interrupted, match="stopped by the user"):
        play(trial("a"), trial("b"), during=during)
    assert [True] == [broker.closed for broker in fake.made]


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


def test_an_error_beside_ends_the_main_lane(play, trial):
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
