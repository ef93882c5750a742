"""Which broker instances a run starts, keeps and ends."""

import dataclasses
import os
import types

import pytest
from planned_trials import SCRIPT, planned

from conformance import adapters
from conformance.errors import LaunchError
from conformance.ledger import Ledger
from conformance.run import broker_pool
from conformance.run.broker_pool import BrokerPool
from conformance.scenario.script import Nth, PowerLoss, Publish


def trial(index, **changes):
    return planned(f"odd.{index}", index=index, **changes)


class Broker:
    """One that only counts."""

    def __init__(self, folder, queues):
        self.facts = types.SimpleNamespace(folder=folder, data=folder / "data")
        self.node = self
        self.queues, self.closed = queues, False

    def start(self, wrap=(), *, more=(), ready_s=0.0):
        return 1.5

    def close(self):
        self.closed = True


@pytest.fixture
def pool(tmp_path, monkeypatch):
    made = []

    def prepare(adapter, folder, settings, queues, ledger, liar, *, offline, options, client):
        assert not any(options.values())  # no script of these tests asks for one
        made.append(Broker(folder, set(queues)))
        return made[-1]

    monkeypatch.setattr(adapters.FileAdapter, "prepare", prepare)
    with Ledger(tmp_path, f"odd-{os.getpid()}") as ledger:
        yield lambda expected: (BrokerPool(tmp_path, ledger, expected, offline=True), made)


def play(brokers, planned):
    """Use a broker for one trial; returns it and the seconds of its start."""
    running, took = brokers.acquire(planned)
    brokers.begin(planned)
    brokers.release(planned.instance, running)
    return running, took


def test_a_broker_is_kept_for_the_rest_of_its_instance(pool):
    first, second = trial(1), trial(2)
    brokers, made = pool([first, second])
    running, took = play(brokers, first)
    kept = made[0].closed
    again, no_time = play(brokers, second)

    assert (running, 1, {"odd-1", "odd-2"}, 1.5, 0.0) == (again, len(made), made[0].queues, took, no_time)
    assert (False, True) == (kept, made[0].closed)


@pytest.mark.parametrize(("name", "at_the_start"), [("rabbitmq", set()), ("reference", {"odd-1"})])
def test_a_queue_is_declared_at_the_start_where_it_cannot_be_later(pool, name, at_the_start):
    """The bundled broker, as a control of another: over AMQP 0-9-1 no send makes the queue."""
    script = dataclasses.replace(SCRIPT, queue=(("fresh", True),))
    brokers, made = pool([trial(1, script=script, adapter=adapters.find(name))])
    brokers.acquire(trial(1, script=script, adapter=adapters.find(name)))

    assert at_the_start == made[0].queues


def test_a_broker_without_the_queue_is_not_used(pool):
    """A trial that was not expected, such as a repeat, gets its own broker."""
    brokers, made = pool([trial(1), trial(2)])
    running, _ = play(brokers, trial(1))
    brokers.expect([trial(9)])
    other, _ = brokers.acquire(trial(9))

    assert (2, True, {"odd-2", "odd-9"}) == (len(made), made[0].closed, made[1].queues)
    assert other is not running


def test_two_brokers_of_one_instance(pool):
    """Two workers have one each; both are kept for later trials, whose queues they have."""
    trials = [trial(number) for number in range(1, 5)]
    brokers, made = pool(trials)
    for each in trials[:2]:
        brokers.acquire(each)
        brokers.begin(each)
    for broker in made:
        brokers.release(trials[0].instance, broker_pool.RunningBroker(broker, None, None, None, queues=broker.queues))
    later = [brokers.acquire(each)[1] for each in trials[2:]]

    assert [{"odd-1", "odd-2", "odd-3", "odd-4"}, {"odd-2", "odd-3", "odd-4"}] == [each.queues for each in made]
    assert [0.0, 0.0] == later


def test_only_a_few_are_kept(pool):
    """The longest unused one ends first; the rest end with the run."""
    several = [[trial(n, liar=f"l{n}"), trial(n + 10, liar=f"l{n}")] for n in range(broker_pool.KEPT + 1)]
    brokers, made = pool([trial for pair in several for trial in pair])
    for first, _ in several:
        play(brokers, first)
    waiting = [broker.closed for broker in made]
    brokers.close()

    assert [True, *[False] * broker_pool.KEPT] == waiting
    assert all(broker.closed for broker in made)


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_a_power_loss_has_a_broker_of_its_own(pool, monkeypatch, kind):
    disks = []

    class Disk:
        @classmethod
        def make(cls, ledger, image, mountpoint, *, filesystem):
            disks.append((image.name, mountpoint.name, filesystem))
            return cls()

        def settle(self):
            disks.append("settled")

        def release(self):
            disks.append("released")

    monkeypatch.setattr(broker_pool, "LossyDisk", Disk)
    fault = PowerLoss(Nth("confirm", 1), filesystem=kind)
    loses = dataclasses.replace(SCRIPT, steps=(Publish(1, window=1, until=fault),))
    lost, plain = trial(1, script=loses), trial(2)
    brokers, made = pool([lost])
    play(brokers, lost)

    assert lost.instance != plain.instance
    assert [("disk.img", "data", kind), "settled", "released"] == disks
    assert made[0].closed


def test_a_kept_broker_knows_the_options_of_later_trials(tmp_path, monkeypatch):
    """A run that records scenario by scenario declares every queue at the first start."""
    declared = []

    def prepare(self, *_, options, **__):
        declared.append(options)
        raise LaunchError("enough was seen")

    monkeypatch.setattr(adapters.FileAdapter, "prepare", prepare)
    one, two = (
        trial(n, script=dataclasses.replace(SCRIPT, queue=queue)) for n, queue in ((1, ()), (2, (("durable", False),)))
    )
    with pytest.raises(LaunchError):
        BrokerPool(tmp_path, None, [one, two], offline=True).acquire(one)

    assert [{"odd-1": (), "odd-2": (("durable", False),)}] == declared
