"""A broker that ends, drops a connection or blocks its producers without a fault: who is to blame, and what is kept."""

import pathlib
import types

import pytest
from trial_histories import events_of

from conformance import claims, scenario
from conformance.adapters import DepthProbe
from conformance.clients import job as jobs
from conformance.clients.job import JobResult
from conformance.errors import (
    BlockedError,
    BrokerError,
    DroppedError,
    LaunchError,
    StartFailure,
)
from conformance.history import NOT_ALIVE, Op, Phase
from conformance.run.trial import clients, restart
from conformance.run.trial.clients import ClientRunner
from conformance.scenario.script import SETTLE, Kill, Nth, Publish, Restart

LIAR = scenario.load(claims.load())["every-trial"].decides["EXPECT-ALIVE-01"].control.name
BOTH = pytest.mark.parametrize("protocol", ["amqp", "stomp"])
NEVER = Kill(Nth("confirm", 5_000))


def own_ends(folder):
    return [
        event.detail
        for event in events_of(folder, "orchestrator")
        if (event.op, event.phase) == (Op.BROKER, Phase.FAIL) and event.detail.startswith(NOT_ALIVE)
    ]


@BOTH
@pytest.mark.parametrize("until", [None, NEVER], ids=["without a fault", "before its fault"])
def test_a_broker_that_ends_by_itself_is_in_the_history(play, protocol, until):
    """The trial is judged: nothing but the broker explains it."""
    steps = (Publish(300, window=50, until=until), *([Restart()] if until else []), *SETTLE)
    record, folder = play(*steps, protocol=protocol, liar=LIAR)

    assert ("", False) == (record.void, record.void_by_broker)
    (why,) = own_ends(folder)
    assert "died by itself (status 1)" in why
    assert "the 150. send ended the broker" in why


def test_an_honest_broker_stays_alive(play):
    record, folder = play(Publish(300, window=50), *SETTLE)

    assert ("", []) == (record.void, own_ends(folder))


@pytest.mark.parametrize("protocol", ["amqp", "stomp", "amqp091", "mqtt", "mqtt311"])
def test_a_broker_that_breaks_the_protocol_is_in_the_history(play, protocol):
    """It runs on, and its clients cannot. stomp.py passes over what is no frame: the raw client does not."""
    client = "raw" if protocol == "stomp" else "library"
    changes = {"protocol": protocol, "liar": "breaks-the-protocol"}
    record, folder = play(Publish(300, window=10), *SETTLE, client=client, **changes)

    assert ("", False) == (record.void, record.void_by_broker)
    (why,) = own_ends(folder)
    assert "the broker broke the protocol: " in why
    assert '"finished"' in (folder / "publisher-1.jsonl").read_text().splitlines()[-1]  # else it would be void


def test_a_connection_that_is_dropped_without_a_fault_is_in_the_history(play, monkeypatch):
    """The broker runs on."""
    lost = JobResult(ended="disconnected")
    monkeypatch.setattr(ClientRunner, "play", lambda *_: lost)
    record, folder = play(Publish(5, window=5), *SETTLE)

    assert "" == record.void
    assert [f"{NOT_ALIVE}: the broker closed the connection of a client although no fault was active"] == own_ends(
        folder
    )


def died(failure=StartFailure.SIGNALLED, tail=()):
    return LaunchError("broker died by itself", failure=failure, log_tail=tail, of_broker=True)


@pytest.mark.parametrize(
    ("status", "own"),
    [
        *[(1, True), (255, True), (-6, True), (-11, True), (134, True), (139, True)],
        *[(0, False), (-9, False), (137, False), (-15, False), (143, False), (124, False), (None, False)],
    ],
)
def test_an_end_is_of_the_broker_unless_another_may_have_ended_it(tmp_path, status, own):
    """A shell adds 128 to a signal. SIGKILL is of the kernel or of a person, and so is an end in order."""
    broker = types.SimpleNamespace(
        facts=types.SimpleNamespace(data=tmp_path), target=types.SimpleNamespace(exit_status=status)
    )

    assert own == bool(restart.own_end(broker, died(), oom=False))
    assert "" == restart.own_end(broker, died(), oom=True)
    assert "" == restart.own_end(broker, died(failure=None), oom=False)
    assert "" == restart.own_end(broker, died(tail=["write: No space left on device"]), oom=False)


def test_a_full_disk_explains_the_end_of_a_broker(tmp_path, monkeypatch):
    broker = types.SimpleNamespace(
        facts=types.SimpleNamespace(data=tmp_path), target=types.SimpleNamespace(exit_status=1)
    )
    monkeypatch.setattr(restart.shutil, "disk_usage", lambda _: types.SimpleNamespace(free=0))

    assert "" == restart.own_end(broker, died(StartFailure.ENDED), oom=False)
    assert "" == restart.own_end(broker, DroppedError("closed"), oom=False)


def test_an_error_with_which_the_broker_refuses_to_go_on_is_not_its_own_end(tmp_path):
    """Its reason may be what the suite asked."""
    broker = types.SimpleNamespace(facts=types.SimpleNamespace(data=tmp_path))

    assert "no frame" == restart.own_end(broker, DroppedError("no frame"), oom=False)
    assert "" == restart.own_end(broker, BrokerError("closed with an error"), oom=False)


def test_the_kernel_counts_the_processes_that_it_ends_for_memory(monkeypatch):
    monkeypatch.setattr(pathlib.Path, "read_text", lambda _: "nr_free_pages 7\noom_kill 3\noom_kill_x 9\n")

    assert 3 == restart.oom_kills()


def with_alarms(**answers):
    """A broker whose management answers so, each alarm by a command of its own."""
    probes = {
        name: DepthProbe("command", command=("echo", said), pattern='"resource":"memory"')
        for name, said in answers.items()
    }
    return types.SimpleNamespace(service=types.SimpleNamespace(alarm_probes=lambda: probes))


ON, OFF = '{"resource":"memory"}', '{"status":"ok"}'


@pytest.mark.process
@pytest.mark.parametrize(
    ("answers", "alarms"),
    [({}, ""), ({"memory": OFF}, ""), ({"memory": ON, "disk": OFF}, "an alarm (memory)")],
)
def test_the_alarms_that_a_broker_announces(answers, alarms):
    assert alarms == clients.announced_alarms(with_alarms(**answers))


@pytest.mark.process
def test_a_management_that_gives_no_answer_announces_nothing():
    probe = DepthProbe("command", command=("no-such-command-of-mine",), pattern="memory")
    broker = types.SimpleNamespace(service=types.SimpleNamespace(alarm_probes=lambda: {"memory": probe}))

    assert "" == clients.announced_alarms(broker)


@pytest.mark.process
@pytest.mark.parametrize(
    ("ended", "said", "words"),
    [
        (jobs.UNANSWERED, ON, "the broker did not answer a publisher for 30 s, and announces an alarm (memory), which"),
        (jobs.NO_CREDIT, ON, "the broker gave a publisher no credit for 30 s, and announces an alarm (memory), which"),
        (jobs.NO_CREDIT, OFF, r"no credit for 30 s. If its management can tell why, say so in \[alarms\] of its file"),
    ],
)
def test_a_publisher_that_is_blocked_voids_its_trial(ended, said, words):
    """Smallest counter-example to judging it: RabbitMQ has an alarm on, and every send is left without an answer."""
    runner = types.SimpleNamespace(broker=with_alarms(memory=said))

    with pytest.raises(BlockedError, match=words.replace("(memory)", r"\(memory\)")) as raised:
        ClientRunner._check_blocked(runner, JobResult(ended=ended, waited_s=30.2))
    assert raised.value.of_broker


@pytest.mark.process
def test_a_send_without_an_answer_is_judged_where_no_alarm_is_on():
    """So it is where a broker with its alarm off leaves a send without an answer."""
    runner = types.SimpleNamespace(broker=with_alarms(memory=OFF))

    ClientRunner._check_blocked(runner, JobResult(ended=jobs.UNANSWERED, waited_s=30.2))
    ClientRunner._check_blocked(runner, JobResult())
