"""Triggers and the signals that they send: to a process of several threads, by pidfd."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
from starts import starts_process

from conformance import history
from conformance.clients import trigger as armed_of
from conformance.clients.trigger import ArmedFault
from conformance.errors import ClientError
from conformance.history import Ended, Phase, Recorder, bare_header
from conformance.scenario.script import After, All, FileRemoved, Kill, Nth, Pause, PowerLoss, Stop

THREADS = (
    "import threading,time;[threading.Thread(target=time.sleep,args=(60,),daemon=True).start() for _ in range(4)];"
)


@pytest.fixture
@starts_process
def victim():
    """Five threads, and a pidfd."""
    process = subprocess.Popen(
        [sys.executable, "-c", THREADS + "print('up', flush=True); time.sleep(60)"], stdout=subprocess.PIPE
    )
    process.stdout.readline()
    descriptor = os.pidfd_open(process.pid)
    yield process, descriptor
    os.close(descriptor)
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.fixture
def armed(tmp_path, victim):
    """Arms a trigger on the victim; returns it with a function that reads its history."""

    def arm(fault, *disk, **fields):
        path = tmp_path / "h.jsonl"
        recorder = Recorder(path, bare_header("p"))

        def events():
            recorder.close()
            history.close_history(path, Ended.FINISHED)
            return history.read(path).events

        return ArmedFault(fault, recorder, [*disk, victim[1]], 1, **fields), events

    return arm


def faults(events):
    return [(event.phase, event.fault) for event in events]


def states(pid):
    return {path.read_text().rpartition(")")[2].split()[0] for path in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")}


def test_a_pause_stops_every_thread_and_ends(armed, victim):
    """Effective only when all are in state T; afterwards none is."""
    trial, events = armed(Pause(Nth("confirm", 2), hold_s=0.05))
    trial.count("confirm")
    trial.fire_if_due()
    before = states(victim[0].pid)
    trial.count("confirm")
    trial.fire_if_due()
    halted, left = states(victim[0].pid), trial.left_s(10)
    while trial.paused:
        trial.heal_if_due()
    deadline = time.monotonic() + 5
    while "T" in states(victim[0].pid) and time.monotonic() < deadline:
        os.sched_yield()

    assert "T" not in before
    assert {"T"} == halted
    assert left <= 0.05
    assert "T" not in states(victim[0].pid)
    assert [Phase.ARMED, Phase.FIRED, Phase.EFFECTIVE, Phase.HEALED] == [event.phase for event in events()]


def test_an_answer_in_a_pause_voids_the_trial(armed):
    """What was asked after it cannot be answered before its end; what was asked before can."""
    trial, _ = armed(Pause(Nth("confirm", 1), hold_s=5))
    early = time.monotonic_ns()
    trial.count("confirm")
    trial.fire_if_due()
    trial.check_answer(early)
    with pytest.raises(ClientError, match="the pause did not take effect"):
        trial.check_answer(time.monotonic_ns())
    trial.heal_if_due(now=True)
    trial.check_answer(time.monotonic_ns())


def test_a_kill_may_come_some_time_after_its_event(armed, victim):
    """So that the broker has read what has just left, and processes it."""
    trial, events = armed(Kill(Nth("commit_written", 1), delay_us=20_000))
    trial.count("commit_written")
    trial.fire_if_due()
    fired = events()[-1]

    assert -signal.SIGKILL == victim[0].wait()
    assert Phase.FIRED is fired.phase
    assert int(fired.detail.partition(" us after its event")[0]) >= 20_000


def test_a_kill_may_come_within_an_answer(armed, victim):
    """The delay is measured in the trial: half of the 40 ms that the median commit took. Other answers do not count."""
    trial, events = armed(Kill(Nth("commit_written", 1), delay_percent=50))
    for ms in (1, 40, 9_000):
        trial.answered("commit_written", time.monotonic_ns() - ms * 1_000_000)
        trial.answered("sent", time.monotonic_ns())
    trial.count("commit_written")
    trial.fire_if_due()

    assert 20_000 <= int(events()[-1].detail.partition(" us after its event")[0]) < 1_000_000


def test_a_kill_may_come_when_a_file_is_removed(armed, victim, tmp_path):
    """Also in a folder below. What happened before the client began is no event, nor is another name."""
    (tmp_path / "journal" / "pages").mkdir(parents=True)
    files = [tmp_path / "journal" / "1", tmp_path / "journal" / "2", tmp_path / "journal" / "pages" / "3"]
    for file in files:
        file.touch()
    files[0].unlink()
    trial, events = armed(Kill(FileRemoved(2)), journal=str(tmp_path / "journal"))
    files[1].write_bytes(b"x")
    files[1].rename(tmp_path / "journal" / "4").unlink()
    trial.tick()
    before = (trial.fired, trial.seen, trial.left_s(10))
    files[2].unlink()
    trial.tick()

    assert before == (False, 1, 0.001)
    assert (trial.fired, trial.seen, victim[0].wait()) == (True, 2, -signal.SIGKILL)
    assert trial.left_s(10) == 10
    assert [event.count for event in events() if event.phase is Phase.ARMED] == [2]


@pytest.mark.parametrize(("fault", "number"), [(Kill, signal.SIGKILL), (Stop, signal.SIGTERM)])
def test_the_signal_of_each_fault(armed, victim, fault, number):
    """Sent once, at the k-th event."""
    trial, events = armed(fault(Nth("ack", 1)))
    trial.count("ack")
    trial.fire_if_due()
    trial.fire_if_due()

    assert -number == victim[0].wait(10)
    assert trial.broker_is_ending
    assert [(Phase.ARMED, fault.name), (Phase.FIRED, fault.name)] == faults(events())


def test_other_events_do_not_count(armed, victim):
    """A trigger at the first commit is not fired by an acknowledgement."""
    trial, _ = armed(Kill(Nth("committed", 1)))
    trial.count("ack")
    trial.fire_if_due()

    assert (False, None) == (trial.fired, victim[0].poll())


def test_every_part_of_a_trigger_has_to_come_to_pass(armed, victim):
    """Three confirms and a processing: any order, and none of them twice for another."""
    trial, _ = armed(Kill(All((Nth("confirm", 3), Nth("process", 1)))))
    for event in ("confirm", "confirm", "confirm", "confirm"):
        trial.count(event)
        trial.fire_if_due()
    early = trial.fired, trial.seen
    trial.count("process")
    trial.fire_if_due()

    assert ((False, 0), True, -signal.SIGKILL) == (early, trial.fired, victim[0].wait(10))


def test_a_trigger_at_a_time_fires_by_itself(armed, victim):
    """The client only has to come by; until then it may wait no longer than to that moment."""
    trial, _ = armed(Kill(After(40)))
    began = time.monotonic()
    trial.tick()
    early, left = trial.fired, trial.left_s(10)
    while not trial.fired:
        trial.tick()

    assert (False, True) == (early, left <= 0.04)
    assert time.monotonic() - began >= 0.035
    assert -signal.SIGKILL == victim[0].wait(10)


def test_a_pause_may_end_in_a_kill(armed, victim):
    """What was halted never goes on; only then is the fault done, and the broker ending."""
    trial, events = armed(Pause(Nth("confirm", 1), hold_s=0.05, then_kill=True))
    trial.count("confirm")
    trial.fire_if_due()
    halted = trial.paused, trial.done, trial.broker_is_ending
    while trial.paused:
        trial.tick()

    assert ((True, False, False), True, True) == (halted, trial.done, trial.broker_is_ending)
    assert -signal.SIGKILL == victim[0].wait(10)
    paused = [(phase, "pause") for phase in (Phase.ARMED, Phase.FIRED, Phase.EFFECTIVE)]
    assert [*paused, (Phase.FIRED, "kill")] == faults(events())


def test_a_client_that_ends_early_kills_no_process(armed, victim):
    """It heals what it halted: the broker goes on, and the fault is not done."""
    trial, _ = armed(Pause(Nth("confirm", 1), hold_s=9, then_kill=True))
    trial.count("confirm")
    trial.fire_if_due()
    trial.heal_if_due(now=True)

    assert (False, False, None) == (trial.done, trial.broker_is_ending, victim[0].poll())


@pytest.mark.parametrize(("torn", "seed"), [(True, 7), (False, None)])
def test_after_a_power_loss_every_answer_is_unknown(armed, victim, monkeypatch, torn, seed):
    """The disk goes first, then the processes; the history has the loss before it happens."""
    order = []
    monkeypatch.setattr(armed_of.loss, "lose", lambda disk, torn: order.append((disk, torn)) or "gone")
    trial, events = armed(PowerLoss(Nth("confirm", 1), torn), 99, seed=7)
    before = trial.phase_now(Phase.OK)
    trial.count("confirm")
    trial.fire_if_due()

    assert ([(99, seed)], -signal.SIGKILL) == (order, victim[0].wait(10))
    assert (Phase.OK, Phase.INFO, True) == (before, trial.phase_now(Phase.OK), trial.broker_is_ending)
    assert [Phase.ARMED, Phase.FIRED, Phase.INFO] == [event.phase for event in events()]


def test_the_time_from_the_event_to_the_signal_is_recorded(armed):
    """In microseconds, in the event that says that it was fired."""
    trial, events = armed(Kill(Nth("confirm", 1)))
    trial.count("confirm")
    trial.ready()
    trial.fire_if_due()
    pattern = r"\d+ us after its event, \d+ us after its sends had left, \d+ us for the signals"

    assert re.fullmatch(pattern, events()[-1].detail)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may be scheduled before others (CAP_SYS_NICE, sched(7))")
def test_no_other_process_gets_the_core_between_event_and_signal(armed, monkeypatch):
    """Before the event, and from the signal on, it is one process among others."""
    policies = []
    monkeypatch.setattr(armed_of, "send_all", lambda *_: policies.append(os.sched_getscheduler(0)))
    trial, _ = armed(Kill(Nth("confirm", 2)))
    for _ in range(2):
        policies.append(os.sched_getscheduler(0))
        trial.count("confirm")
    trial.fire_if_due()
    policies.append(os.sched_getscheduler(0))

    assert [os.SCHED_OTHER, os.SCHED_OTHER, os.SCHED_FIFO, os.SCHED_OTHER] == policies
