"""Client processes against the bundled broker: what they do, and how they end."""

import json
import os
import select
import signal
import socket
import urllib.request

import msgspec
import pytest
from job_rig import make_job
from process_end import gone
from starts import starts_process

from conformance import adapters, history
from conformance.adapters import DepthProbe
from conformance.clients.workers import pool
from conformance.clients.workers.pool import Child, WorkerPool
from conformance.errors import ClientError
from conformance.history import Ended, Op, Phase, bare_header
from conformance.ledger import Ledger
from conformance.run.trial.clients import Abort
from conformance.scenario.script import Consume, ConsumerCrash, Drain, Kill, Nth, Publish


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path, f"workers-{os.getpid()}") as found:
        yield found


@pytest.fixture
@starts_process
def worker_pool(ledger):
    found = WorkerPool(ledger)
    yield found
    found.close()


@pytest.fixture
def broker(tmp_path, ledger):
    adapter = adapters.find("reference")
    with adapter.prepare(tmp_path / "broker", adapter.effective(), ["q"], ledger) as found:
        found.start()
        yield found


@pytest.fixture
def client(tmp_path, worker_pool, broker):
    """Start one; returns the child and the path of its history."""

    def start(step, process, pidfds=(), **fields):
        host, port = broker.endpoint("amqp")
        probe = broker.depth_probe("q")
        path = tmp_path / f"{process}.jsonl"
        job = make_job(
            step,
            header=msgspec.structs.replace(bare_header(process), trial="t"),
            history=str(path),
            host=host,
            port=port,
            ack_confirm="disposition",
            depth=DepthProbe(probe.method, probe.url, probe.field),
            **fields,
        )
        return worker_pool.spawn(job, tmp_path / f"{process}.log", pidfds), path

    return start


def finish(started):
    child, path = started
    result = child.wait(60)
    child.close()
    history.close_history(path, Ended.FINISHED if result else Ended.KILLED_BY_FAULT)
    return result, history.read(path).events


def messages(events, op, phase):
    return [event.message for event in events if (event.op, event.phase) == (op, phase) and event.message]


def test_what_was_published_is_drained(client):
    """Each once, whole, in order, and the broker's own depth is 0 then."""
    result, sent = finish(client(Publish(200, window=50), "publisher-1"))
    drained, got = finish(client(Drain(), "drain-1"))

    assert (200, 200, 0) == (result.count, drained.count, drained.depth)
    assert messages(sent, Op.SEND, Phase.OK) == messages(got, Op.DRAIN, Phase.OK)
    assert all(event.intact for event in got if event.op is Op.DRAIN and event.message)


def test_confirmed_acknowledgements_are_answered(client):
    """In mode individual, one by one."""
    finish(client(Publish(20, window=20), "publisher-1"))
    _, events = finish(client(Consume("individual", stop=20), "consumer-1"))

    assert messages(events, Op.ACK, Phase.INVOKE) == messages(events, Op.ACK, Phase.OK)
    assert 20 == len(messages(events, Op.ACK, Phase.OK))


def test_consumer_dies_in_the_middle_of_its_processing(client):
    """The last thing that its history holds is the fault; what it had not acknowledged comes back."""
    finish(client(Publish(20, window=20), "publisher-1"))
    result, events = finish(client(Consume("auto", until=ConsumerCrash(Nth("process", 7))), "consumer-1"))
    drained, _ = finish(client(Drain(), "drain-1"))

    assert (None, (Op.FAULT, Phase.FIRED)) == (result, (events[-1].op, events[-1].phase))
    assert (Op.PROCESS, Phase.INVOKE) == (events[-2].op, events[-2].phase)
    assert 14 == drained.count


def test_broker_is_killed_by_the_client_that_owns_the_trigger(client, broker):
    """Sends in flight are unknown, answers already read are confirmed, and the tree is gone."""
    with broker.target.armed("kill") as pidfds:
        started = client(Publish(9_000, window=10, until=Kill(Nth("confirm", 30))), "publisher-1", pidfds)
        result, events = finish(started)

    assert (True, "disconnected", True) == (result.fired, result.ended, broker.wait_gone(10))
    assert len(messages(events, Op.SEND, Phase.OK)) >= 30
    assert set(messages(events, Op.SEND, Phase.INVOKE)) == set(messages(events, Op.SEND, Phase.OK)) | set(
        messages(events, Op.SEND, Phase.INFO)
    )


def test_invoke_is_in_the_kernel_before_the_message_leaves(client, broker):
    """When the broker counts a message, the history on disk already names it, although its writer is stopped."""
    child, path = client(Publish(100_000, window=1), "publisher-1")
    url = broker.depth_probe("q").url
    while not json.load(urllib.request.urlopen(url))["depth"]:
        pass
    os.kill(child.pid, signal.SIGSTOP)
    stored = json.load(urllib.request.urlopen(url))["depth"]
    invoked = path.read_bytes().count(b'"phase":"invoke"')
    os.kill(child.pid, signal.SIGCONT)
    child.end()

    assert invoked >= stored > 0


def test_no_broker_is_an_error_of_ours(client, broker):
    """It names the process and the address."""
    broker.stop()
    child, _ = client(Publish(1, window=1), "publisher-1", connect_s=2.0)

    assert "publisher-1: no connection to 127.0.0.1" in child.wait(30).error


def test_client_ends_when_the_harness_hangs_up(client):
    """No client outlives it."""
    child, _ = client(Consume("auto"), "consumer-1")
    child.end()

    assert gone(child.pid)


def test_a_dead_parent_of_the_clients_is_an_error(client, worker_pool):
    """Instead of a run that waits for ever."""
    os.kill(worker_pool.process.pid, signal.SIGKILL)
    worker_pool.process.wait()

    with pytest.raises(ClientError, match=rf"\(pid {worker_pool.process.pid}\) was killed, .* run it again"):
        client(Drain(), "drain-1")


@pytest.mark.parametrize(("written", "unread"), [(b"", b""), (b'{"ended":"fin', b""), (b"", b"x")])
def test_a_client_that_is_killed_has_no_result(tmp_path, written, unread):
    """Before it answers, in the middle of it, or with something that it never read: no error of ours."""
    ours, theirs = socket.socketpair()
    child = Child(None, os.getpid(), ours, tmp_path / "log")
    ours.sendall(unread)
    theirs.sendall(written)
    theirs.close()

    assert None is child.wait(10)
    ours.close()


@pytest.fixture
def interrupted(monkeypatch, client):
    """Start a client that would consume for ever; the interrupt comes before the pool knows its pid."""
    send = pool.socket.send_fds

    def sent(*words):
        send(*words)
        raise KeyboardInterrupt

    def start():
        monkeypatch.setattr(pool.socket, "send_fds", sent)
        with pytest.raises(KeyboardInterrupt) as caught:
            client(Consume("auto", stop=1000), "consumer-1")
        monkeypatch.setattr(pool.socket, "send_fds", send)
        return caught  # its frames keep their sockets, as in a report of the error

    return start


def test_a_client_whose_start_is_interrupted_ends(interrupted, worker_pool):
    """Ctrl-C comes between the job and the pid of its process."""
    caught = interrupted()

    assert gone(int(worker_pool._parent.control.recv(64))), caught


def test_the_parent_of_the_clients_ignores_an_interrupt(interrupted, worker_pool, capfd):
    """Its answer was never read, which it sees as a reset."""
    interrupted()
    select.select([worker_pool._parent.control], [], [])  # it has answered
    worker_pool.close()

    assert ("", "", 0) == (*capfd.readouterr(), worker_pool.process.returncode)


def test_a_client_that_starts_while_all_are_ended_ends_with_them():
    class Started:
        ended = False

        def end(self):
            self.ended = True

    early, late = Started(), Started()
    abort = Abort()
    abort.watch(early)
    before = early.ended
    abort.now()
    abort.watch(late)

    assert (False, True, True) == (before, early.ended, late.ended)
