"""Which broker instances a run starts, keeps and ends."""

import dataclasses
import os
import types

import pytest

from conformance import adapters
from conformance.ledger import Ledger
from conformance.run import broker_pool as stand_of
from conformance.run.broker_pool import BrokerPool
from conformance.run.planning import Planned
from conformance.scenario import Scenario
from conformance.scenario.script import Drain, Nth, PowerLoss, Publish

ADAPTER = adapters.find("reference")
SCRIPT = Scenario("odd", "", "async_ack", (Drain(),), {})


def planned(index, **changes):
    trial = Planned(f"odd.{index}", SCRIPT, "subject", "", index, 1, ADAPTER, ADAPTER.effective(), "amqp")
    return dataclasses.replace(trial, **changes)


class Broker:
    """One that only counts."""

    def __init__(self, folder, queues):
        self.facts = types.SimpleNamespace(folder=folder, data=folder / "data")
        self.queues, self.closed = queues, False

    def start(self, wrap=(), *, more=(), ready_s=0.0):
        return 1.5

    def close(self):
        self.closed = True


@pytest.fixture
def stands(tmp_path, monkeypatch):
    """What keeps the brokers of a run that expects these trials, and every broker that it made."""
    made = []

    def prepare(adapter, folder, settings, queues, ledger, liar, *, offline, options, client):
        made.append(Broker(folder, set(queues)))
        return made[-1]

    monkeypatch.setattr(adapters.FileAdapter, "prepare", prepare)
    with Ledger(tmp_path, f"odd-{os.getpid()}") as ledger:
        yield lambda expected: (BrokerPool(tmp_path, ledger, expected, offline=True), made)


def test_a_broker_is_kept_for_the_rest_of_its_instance(stands):
    """With the queues of all that is expected; it is started once, and ended when nothing more can come."""
    first, second = planned(1), planned(2)
    keeper, made = stands([first, second])
    running, took = keeper.acquire([first])
    keeper.release(first.instance, running)
    kept = made[0].closed
    again, no_time = keeper.acquire([second])
    keeper.release(second.instance, again)

    assert (running, 1, {"odd-1", "odd-2"}, 1.5, 0.0) == (again, len(made), made[0].queues, took, no_time)
    assert (False, True) == (kept, made[0].closed)


def test_a_broker_without_the_queue_is_not_used(stands):
    """A trial that nobody expected, such as a repeat, gets a broker of its own."""
    keeper, made = stands([planned(1), planned(2)])
    running, _ = keeper.acquire([planned(1)])
    keeper.release(planned(1).instance, running)
    other, _ = keeper.acquire([planned(9)])

    assert (2, True, {"odd-2", "odd-9"}) == (len(made), made[0].closed, made[1].queues)
    assert other is not running


def test_only_a_few_are_kept(stands):
    """The one that has waited the longest ends first; the rest end with the run."""
    several = [[planned(n, liar=f"l{n}"), planned(n + 10, liar=f"l{n}")] for n in range(stand_of.KEPT + 1)]
    keeper, made = stands([trial for pair in several for trial in pair])
    for first, _ in several:
        running, _ = keeper.acquire([first])
        keeper.release(first.instance, running)
    waiting = [broker.closed for broker in made]
    keeper.close()

    assert [True, *[False] * stand_of.KEPT] == waiting
    assert all(broker.closed for broker in made)


def test_a_power_loss_has_a_broker_of_its_own(stands, monkeypatch):
    """With a disk below its data, which goes with it; other trials of the same settings share none of it."""
    disks = []

    class Disk:
        @classmethod
        def make(cls, ledger, image, mountpoint):
            disks.append((image.name, mountpoint.name))
            return cls()

        def settle(self):
            disks.append("settled")

        def release(self):
            disks.append("released")

    monkeypatch.setattr(stand_of, "LossyDisk", Disk)
    loses = dataclasses.replace(SCRIPT, steps=(Publish(1, window=1, until=PowerLoss(Nth("confirm", 1))),))
    lost, plain = planned(1, script=loses), planned(2)
    keeper, made = stands([])
    running, _ = keeper.acquire([lost])
    keeper.release(lost.instance, running)

    assert lost.instance != plain.instance
    assert [("disk.img", "data"), "settled", "released"] == disks
    assert made[0].closed
