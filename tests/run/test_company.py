"""Trials that share a broker: what is done to it is done once, and each fault has one owner."""

import concurrent.futures
import dataclasses
import functools
import os
import threading

import pytest
from planned_trials import planned
from trial_histories import events_of

from conformance.clients.job import Tolerances
from conformance.errors import BrokerError, Interrupted, LaunchError
from conformance.history import OF_ANOTHER, Op, Phase, bare_header
from conformance.ledger import Ledger
from conformance.run.planning import COMPANY, companies, scenarios_sharing
from conformance.run.record import Recording
from conformance.run.trial import player
from conformance.run.trial.clients import ClientRunner
from conformance.run.trial.company import Company
from conformance.scenario import Scenario
from conformance.scenario.script import SETTLE, Consume, ConsumerCrash, Kill, Nth, Offer, Pause, Publish, Restart

WAIT_S = 60


@pytest.fixture
def threads():
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        yield pool


def test_one_acts_for_all_when_all_are_there(threads):
    company, acted = Company("a", "b", "c"), []
    waiting = [threads.submit(company.meet, lambda: acted.append("early") or "early") for _ in "ab"]
    found = company.meet(lambda: acted.append("last") or "last")

    assert [found] * 2 == [each.result(WAIT_S) for each in waiting]
    assert 1 == len(acted)


def test_an_error_is_that_of_all(threads):
    def fails():
        raise BrokerError("it is gone")

    company = Company("a", "b")
    waiting = threads.submit(company.meet, fails)
    with pytest.raises(BrokerError, match="it is gone"):
        company.meet(fails)
    with pytest.raises(BrokerError, match="it is gone"):
        waiting.result(WAIT_S)


def test_nothing_waits_for_one_that_has_left(threads):
    company = Company("a", "b", "c")
    waiting = [threads.submit(company.meet, lambda: "done") for _ in "ab"]
    company.leave("c")

    assert ["done", "done"] == [each.result(WAIT_S) for each in waiting]


def test_the_end_of_the_run_ends_every_wait(threads):
    company = Company("a", "b")
    waiting = threads.submit(company.meet, bool)
    company.end()

    with pytest.raises(Interrupted):
        waiting.result(WAIT_S)
    with pytest.raises(Interrupted):
        company.await_fired(1)


def test_each_owns_a_third_of_the_faults(threads):
    company, starts = Company("a", "b", "c"), threading.Barrier(3)

    def owners():
        starts.wait(WAIT_S)
        return [company.next_fault(2) for _ in range(9)]

    found = [each.result(WAIT_S) for each in [threads.submit(owners) for _ in "abc"]]

    assert found[0] == found[1] == found[2]
    assert list(range(1, 10)) == [number for number, _ in found[0]]
    assert [3, 3, 3] == [[owner for _, owner in found[0]].count(name) for name in "abc"]


KILLED = Publish(50_000, window=20, until=Kill(Nth("confirm", 40)))
ROUNDS = (KILLED, Restart()) * 3


def trial(name, *steps, settings=(), **changes):
    script = Scenario(name, "", "async_ack", steps, {}, settings=settings)
    return planned(f"{name}.subject.1", script=dataclasses.replace(script), **changes)


def test_only_trials_that_do_the_same_to_the_broker_share_it():
    shared = [trial(name, *ROUNDS, *SETTLE) for name in "abcd"]
    others = [
        trial("settles", *SETTLE),
        trial("crashes", Publish(5, window=5), Consume("auto", until=ConsumerCrash(Nth("process", 2))), *SETTLE),
        trial("pauses", Publish(9, window=9, until=Pause(Nth("confirm", 2))), *SETTLE),
        trial("offers", Offer(("a=1",)), *SETTLE),
        trial("asks", *ROUNDS, *SETTLE, settings=(("max_delivery_attempts", 2),)),
        trial("later", *ROUNDS, *SETTLE, index=2),
        trial("control", *ROUNDS, *SETTLE, arm="control"),
        trial("starts", Restart(clean=True), *ROUNDS, *SETTLE),
    ]
    found = [sorted(each.script.id for each in members) for members in companies([*shared, *others])]

    assert max(map(len, found)) == COMPANY
    weakened = [trial(name, *ROUNDS, *SETTLE, arm="control") for name in "ef"]

    assert [["e", "f"]] == [[each.script.id for each in members] for members in companies(weakened)]
    alone = [["asks"], ["control"], ["later"], ["offers"], ["pauses"], ["starts"]]
    assert sorted([["a", "b", "c"], ["d"], ["crashes", "settles"], *alone]) == sorted(found)


def test_a_trial_with_fewer_faults_than_a_company_has_members_is_alone():
    """Else it might fire none at its own trigger."""
    once = [trial(name, KILLED, Restart(), *SETTLE) for name in "abc"]

    assert [1, 1, 1] == [len(members) for members in companies(once)]


def test_scenarios_of_a_company_are_known_by_each_of_them():
    """A front that records one scenario after the other records these together."""
    trials = [trial(name, *ROUNDS, *SETTLE) for name in "abc"] + [trial("d", Restart(clean=True), *SETTLE)]
    later = [dataclasses.replace(each, id=f"{each.script.id}.subject.2", index=2) for each in trials]

    assert {"abc"} == {"".join(sorted(scenarios_sharing([*trials, *later], name))) for name in "abc"}
    assert ("d",) == scenarios_sharing(trials, "d")
    assert ("not planned",) == scenarios_sharing(trials, "not planned")


@pytest.fixture
def record(tmp_path):
    def run(*trials):
        with Ledger(tmp_path, f"company-{os.getpid()}") as ledger:
            made = Recording(tmp_path, bare_header(""), ledger, expected=trials)
            try:
                found = made.record(trials)
            finally:
                made.close()
        return {each.scenario: each for each in found}, tmp_path / "trials"

    return run


def fired(folder):
    """The faults that fired in a trial, by time: when, and whether at its own trigger."""
    events = [each for path in folder.glob("*.jsonl") for each in events_of(folder, path.stem)]
    found = [each for each in events if (each.op, each.phase) == (Op.FAULT, Phase.FIRED)]
    return sorted((each.at_ns, each.detail != OF_ANOTHER) for each in found)


@pytest.mark.process
def test_each_kill_is_fired_by_one_and_met_by_all(record):
    consumes = (Publish(400, window=50), Consume("individual", until=Kill(Nth("ack", 20))), Restart())
    found, folder = record(
        trial("a", *ROUNDS, *SETTLE), trial("b", *ROUNDS, *SETTLE), trial("c", *consumes * 3, *SETTLE)
    )
    kills = {name: fired(folder / f"{name}.subject.1") for name in "abc"}
    starts = {
        name: (folder / f"{name}.subject.1" / "orchestrator.jsonl").read_text().count('"start"') for name in "abc"
    }

    assert {"": 3} == {void: [each.void for each in found.values()].count(void) for void in {found["a"].void}}
    assert [3, 3, 3] == [len(each) for each in kills.values()]
    assert [1, 1, 1] == [sum(own for _, own in each) for each in kills.values()]
    for met in zip(*kills.values(), strict=True):
        assert 1 == sum(own for _, own in met)
        assert max(at for at, _ in met) - min(at for at, _ in met) < 1e9
    assert {"a": 6, "b": 6, "c": 6} == starts
    assert 1 == len(list((folder.parent / "brokers").glob("[0-9]*")))


@pytest.fixture
def failing(monkeypatch):
    """A client of trial `a` cannot say that its connection is gone, and takes the broker for dead."""
    finish = ClientRunner.finish

    def fails(self, running):
        witnesses = self.folder.name.startswith("a.") and not any(job.fault for job in running.values())
        found = finish(self, running)
        if witnesses and any(each.ended == "disconnected" for each in found):
            raise LaunchError("died by itself (status -9)", of_broker=True)
        return found

    monkeypatch.setattr(ClientRunner, "finish", fails)


@pytest.mark.process
@pytest.mark.parametrize("at", [20, 5_000])
def test_a_client_that_fails_at_the_fault_of_another_is_no_doubt_about_the_broker(record, failing, at):
    """Whether the owner fires its fault, or has to end the broker for the others."""
    owns = (Publish(50, window=10, until=Kill(Nth("confirm", at))), Restart())
    found, _ = record(trial("a", *ROUNDS, *SETTLE), trial("b", *owns * 3, *SETTLE))

    assert found["a"].void
    assert [False] * 2 == [each.void_by_broker for each in found.values()]


@pytest.mark.process
def test_a_fault_that_its_owner_does_not_fire_voids_the_others_too(record):
    """And says so; the broker is not to blame."""
    never = Publish(50, window=10, until=Kill(Nth("confirm", 5_000)))
    found, _ = record(
        trial("a", *ROUNDS, *SETTLE), trial("b", *ROUNDS, *SETTLE), trial("c", *(never, Restart()) * 3, *SETTLE)
    )

    assert "the kill did not fire: 50 events of the 5000 that its trigger waits for" == found["c"].void
    assert "the kill of another trial of its company did not fire" in {found["a"].void, found["b"].void}
    assert [False] * 3 == [each.void_by_broker for each in found.values()]


@pytest.mark.process
def test_what_an_owner_waits_for_in_vain_is_drained_before_the_others_lose_their_broker(record, monkeypatch):
    """Smallest counter-example to its end first: the drain is the client of a broker that died by itself."""
    monkeypatch.setattr(player, "Tolerances", functools.partial(Tolerances, liveness_s=2.0))
    waits = (Publish(20, window=10), Consume("individual", until=Kill(Nth("process", 150))), Restart())
    found, _ = record(trial("a", *ROUNDS, *SETTLE), trial("b", *waits * 3, *SETTLE))

    assert ("", True) == (found["b"].void, found["b"].void_by_broker)
    assert "the kill of another trial of its company did not fire" == found["a"].void
