"""Sessions through Apache Qpid JMS, in processes with a JVM, against the bundled broker."""

import contextlib
import dataclasses
import gc
import itertools
import json
import os
import socket
import sys
import time
import types
import urllib.request
import weakref

import msgspec
import pytest
from job_rig import make_job
from process_end import gone
from starts import starts_process
from stomp_peer import job

from conformance import adapters, history
from conformance.adapters import DepthProbe, vendor_clients
from conformance.clients.job import NEVER, Vendor
from conformance.clients.roles.modes import AckHeader
from conformance.clients.session import Disconnected
from conformance.clients.workers.pool import JvmPool
from conformance.errors import ClientError, FetchError
from conformance.history import Ended, Op, Phase, bare_header
from conformance.ledger import Ledger
from conformance.protocols.jms.sessions import jvm
from conformance.protocols.jms.sessions.questions import Application
from conformance.protocols.jms.sessions.session import JmsSession
from conformance.run.trial.jobs import vendor_of
from conformance.scenario.script import Ask, Consume, ConsumerCrash, Drain, Kill, Nth, Pause, Publish

CLIENT = vendor_clients.find("qpid-jms")
SEEN = vendor_clients.with_client(adapters.find("reference"), CLIENT)
PATIENCE = 30


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    """With the jars at hand, had once."""
    try:
        CLIENT.install()
    except FetchError as error:
        pytest.skip(str(error))
    with Ledger(tmp_path_factory.mktemp("ledger"), f"jms-{os.getpid()}") as found:
        yield found


@pytest.fixture(scope="module")
@starts_process
def pool(ledger):
    with contextlib.closing(JvmPool(ledger)) as found:
        yield found


@pytest.fixture(scope="module")
@starts_process
def broker(tmp_path_factory, ledger):
    """The bundled broker as this client shows it, with a queue for each test, and one that takes three messages."""
    queues = [f"q{n}" for n in range(50)]
    folder = tmp_path_factory.mktemp("broker") / "broker"
    options = {"limited": (("max_length", 3),)}
    with SEEN.prepare(folder, SEEN.effective(), [*queues, "limited"], ledger, options=options) as found:
        found.start()
        found.free = iter(queues)
        yield found


@pytest.fixture
def clients(tmp_path, broker, pool):
    with contextlib.closing(Clients(tmp_path, broker, pool, next(broker.free))) as found:
        yield found


class Clients:
    """Client processes on one queue, each with a history of its own."""

    def __init__(self, folder, broker, pool, queue):
        self.folder, self.broker, self.pool, self.queue = folder, broker, pool, queue
        self.working = {}
        self.count = 0

    def start(self, step, *, pool=None, pidfds=(), asynchronous=False, seen=SEEN, topic="", **fields):
        """The process that was given this job; with a `topic` the queue is a durable subscription of it."""
        self.count += 1
        host, port = self.broker.endpoint("jms")
        probe = self.broker.depth_probe(self.queue, topic)
        path = self.folder / f"{self.count}.jsonl"
        work = make_job(
            step,
            header=msgspec.structs.replace(bare_header(f"client-{self.count}"), trial="t"),
            history=str(path),
            protocol="jms",
            queue=self.queue,
            ack_confirm=SEEN.file.protocols["jms"].ack_confirm or NEVER,
            vendor=vendor_of(seen, "jms", seen.effective(), CLIENT.name, 100, asynchronous=asynchronous),
            depth=DepthProbe(probe.method, probe.url, probe.field),
            subscriber=topic,
            destination=topic or "{queue}",
            **{"host": host, "port": port, "liveness_s": PATIENCE, **fields},
        )
        child = (pool or self.pool).spawn(work, work.connection.vendor, path.with_suffix(".log"), pidfds)
        self.working[child] = path
        return child

    def finish(self, child):
        """Its result, and what it has recorded."""
        result = child.wait(PATIENCE)
        path = self.working.pop(child)
        child.close()
        history.close_history(path, Ended.FINISHED if result else Ended.KILLED_BY_FAULT)
        return result, history.read(path).events

    def play(self, step, **fields):
        """One job, done as it should be."""
        result, events = self.finish(self.start(step, **fields))
        assert result is None or not result.error, result.error
        return result, events

    def publish(self, count, window=1, *, batch=0, rollback_every=0, until=None, **fields):
        step = Publish(count, window, batch=batch, rollback_every=rollback_every, until=until)
        return self.play(step, **fields)[1]

    def drained(self, **fields):
        """What was left in the queue, in the order in which it came."""
        result, events = self.play(Drain(), **fields)
        assert ("finished", 0) == (result.ended, result.depth)
        return messages(events, Op.DRAIN, Phase.OK)

    def depth(self):
        with urllib.request.urlopen(self.broker.depth_probe(self.queue).url) as answer:
            return json.load(answer)["depth"]

    def close(self):
        for child in self.working:
            child.end()
            child.close()


def messages(events, op, phase):
    return [event.message for event in events if (event.op, event.phase) == (op, phase) and event.message]


def discharged(events):
    """The transactions that have ended, and how."""
    ends = (Op.COMMIT, Op.ROLLBACK)
    return [(event.op, event.transaction) for event in events if event.op in ends and event.phase is Phase.OK]


def names(first, last):
    return [f"p1:{number}" for number in range(first, last + 1)]


def until(done):
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# what is sent


def test_one_by_one_each_send_is_confirmed_before_the_next(clients):
    """The return of send() is the confirmation, and what was confirmed is there."""
    result, events = clients.play(Publish(50, window=1))
    sends = [(event.phase, event.message) for event in events if event.op is Op.SEND]

    assert 50 == result.count
    assert [(phase, name) for name in names(1, 50) for phase in (Phase.INVOKE, Phase.OK)] == sends
    assert names(1, 50) == clients.drained()


def test_within_a_window_a_listener_gets_each_answer(clients, broker):
    """As many as the window takes leave while a halted broker answers none, and each is answered once."""
    halted = Pause(Nth("sent", 1), hold_s=2)
    with broker.target.armed("kill") as pidfds:
        events = clients.publish(50, window=20, asynchronous=True, pidfds=pidfds, until=halted)
    steps = [{Phase.INVOKE: 1, Phase.OK: -1}[event.phase] for event in events if event.op is Op.SEND]

    assert 20 == max(itertools.accumulate(steps))
    assert names(1, 50) == messages(events, Op.SEND, Phase.INVOKE)
    assert sorted(names(1, 50)) == sorted(messages(events, Op.SEND, Phase.OK))
    assert names(1, 50) == messages(events, Op.CALL, Phase.OK)
    assert names(1, 50) == clients.drained()


def test_a_session_that_leaves_out_a_listener(clients):
    """One send has no answer, and no other."""
    result, events = clients.play(Publish(60, window=60), asynchronous=True, liar="leaves-out-a-listener", liveness_s=2)

    assert (59, True) == (result.count, result.waited_s >= 2)
    assert 1 == len(messages(events, Op.SEND, Phase.INFO))


def test_a_session_that_calls_a_listener_twice(clients):
    """The second call is about a send that waits for no answer; all others are answered once."""
    events = clients.publish(60, window=60, asynchronous=True, liar="tells-a-listener-twice")

    assert (60, 1) == tuple(len(messages(events, *what)) for what in ((Op.SEND, Phase.OK), (Op.CONFIRM, Phase.FAIL)))


@pytest.mark.parametrize(("liar", "refused"), [("", names(4, 6)), ("confirms-refused-sends", [])])
def test_a_listener_hears_of_refused_sends(tmp_path, broker, pool, liar, refused):
    """By onException. The liar hears of all sends by onCompletion, although its queue has three messages."""
    with contextlib.closing(Clients(tmp_path, broker, pool, "limited")) as clients:
        events = clients.publish(6, window=6, asynchronous=True, liar=liar, refused=True)

        assert refused == sorted(messages(events, Op.SEND, Phase.FAIL))
        assert set(names(1, 6)) - set(refused) == set(messages(events, Op.SEND, Phase.OK))
        assert names(1, 3) == clients.drained()


def test_a_producer_that_sends_with_the_next_call(clients):
    """Each call returns, and what the last one was given is not there."""
    events = clients.publish(5, liar="sends-with-the-next-call")

    assert names(1, 5) == messages(events, Op.SEND, Phase.OK)
    assert names(1, 4) == clients.drained()


def test_a_transaction_is_filled_within_the_window(clients):
    """One after the other, where no more than one may be unanswered."""
    events = clients.publish(6, window=1, batch=3)
    sends = [event.phase for event in events if event.op is Op.SEND]

    assert [Phase.INVOKE, Phase.OK] * 6 == sends


# what it is asked


@pytest.mark.parametrize(
    ("question", "liar", "found"),
    [
        ("has it a session in each mode of the standard", "", [Phase.OK] * 3),
        ("has it a session in each mode of the standard", "refuses-a-mode", [Phase.OK, Phase.OK, Phase.FAIL]),
        ("does a session keep its mode", "", [Phase.OK] * 4),
        ("does a session keep its mode", "reports-another-mode", [Phase.FAIL] * 4),
        ("does acknowledge() do nothing in a mode without it", "", [Phase.OK] * 3),
        (
            "does acknowledge() do nothing in a mode without it",
            "commits-where-it-acknowledges",
            [Phase.OK, Phase.OK, Phase.FAIL],
        ),
        ("is there PRE_ACKNOWLEDGE", "", [Phase.FAIL]),  # Qpid JMS for AMQP 1.0 has neither that nor core
        ("is there SendAcknowledgementHandler", "", [Phase.FAIL]),
    ],
)
def test_a_question_is_answered_by_the_client(clients, question, liar, found):
    """Each part of an answer is an event; a client that lies about it is seen to."""
    clients.publish(20)
    _, events = clients.play(Ask(question), liar=liar)

    assert found == [event.phase for event in events if event.op is Op.ASK and event.phase is not Phase.INVOKE]


def test_a_broker_without_transactions_is_asked_for_none(clients):
    """It may never answer (RabbitMQ 3.10.8), and would keep the question from its end."""
    can = SEEN.capabilities("jms") - {"transactions"}
    jms = SEEN.file.protocols["jms"].model_copy(update={"capabilities": can})
    file = SEEN.file.model_copy(update={"capabilities": can, "protocols": {**SEEN.file.protocols, "jms": jms}})
    clients.publish(20)
    _, events = clients.play(Ask("does a session keep its mode"), seen=dataclasses.replace(SEEN, file=file))

    asked = [event.phase for event in events if event.op is Op.ASK and event.phase is not Phase.INVOKE]
    assert [Phase.OK] * 3 == asked


@pytest.mark.parametrize("lost", [True, False])
def test_an_exception_about_the_connection_is_no_answer(monkeypatch, lost):
    """A claim speaks of a healthy connection; any other exception is the client's answer."""
    monkeypatch.setattr(jvm, "text", str)
    machine = types.SimpleNamespace(JException=RuntimeError)
    asks = Application(None, None, None, None, machine, lambda error: lost)

    if lost:
        with pytest.raises(ClientError, match=r"createSession\(auto\): the connection was lost: gone"):
            asks.refused("createSession(auto)", RuntimeError("gone"))
    else:
        assert ("createSession(auto)", False, "gone") == asks.refused("createSession(auto)", RuntimeError("gone"))


def test_a_question_that_cannot_be_put_is_no_answer(clients):
    """Without a message the question has no answer, and is no violation."""
    errs = clients.start(Ask("does a session keep its mode"), connect_s=60)
    result, events = clients.finish(errs)

    assert "no message came" in result.error
    assert [] == [event for event in events if event.op is Op.ASK]


def test_sends_of_a_transaction_are_there_when_it_is_committed(clients):
    """Every second is rolled back, and nothing of it arrives."""
    events = clients.publish(8, batch=2, rollback_every=2)

    assert [(Op.COMMIT, "t1"), (Op.ROLLBACK, "t2"), (Op.COMMIT, "t3"), (Op.ROLLBACK, "t4")] == discharged(events)
    assert ["p1:1", "p1:2", "p1:5", "p1:6"] == clients.drained()


def test_a_broker_that_dies_under_a_publisher_leaves_sends_unknown(clients, broker):
    """What had been confirmed is there after its restart; what was not answered is neither ok nor fail."""
    with broker.target.armed("kill") as pidfds:
        result, events = clients.play(Publish(9_000, window=1, until=Kill(Nth("confirm", 20))), pidfds=pidfds)
    assert broker.wait_gone(PATIENCE)
    broker.start()
    confirmed = messages(events, Op.SEND, Phase.OK)
    unknown = messages(events, Op.SEND, Phase.INFO)

    assert ("disconnected", True) == (result.ended, result.fired)
    assert len(confirmed) >= 20
    assert messages(events, Op.SEND, Phase.INVOKE) == confirmed + unknown
    assert [] == messages(events, Op.SEND, Phase.FAIL)
    assert set(confirmed) <= set(clients.drained()) <= {*confirmed, *unknown}


# what is received


@pytest.mark.parametrize(
    ("mode", "fields", "left"),
    [
        ("client", {"acknowledge": 2}, [7, 8, 9]),
        ("individual", {"acknowledge": 2}, [1, 3, 5, 7, 8, 9]),
        ("auto", {}, [8, 9]),
        ("dups_ok", {}, [8, 9]),
        ("transacted", {"acknowledge": 2}, [7, 8, 9]),
    ],
)
def test_unacknowledged_messages_stay_in_the_queue(clients, mode, fields, left):
    """Seven of nine are taken, each in its mode, and the connection is closed in order."""
    clients.publish(9, window=9, asynchronous=True)
    result, events = clients.play(Consume(mode, stop=7, **fields))

    assert ("finished", 7) == (result.ended, result.count)
    assert names(1, 7) == messages(events, Op.DELIVER, Phase.OK)
    assert all(event.intact for event in events if event.op is Op.DELIVER)
    assert [f"p1:{number}" for number in left] == sorted(clients.drained())


def test_a_durable_subscription_has_what_was_sent_while_its_client_was_away(clients):
    assert [] == clients.drained(topic="news")
    clients.publish(3, topic="news")

    assert names(1, 3) == clients.drained(topic="news")
    assert [] == clients.drained(topic="news")


def test_rolled_back_messages_are_delivered_again(clients):
    """To the same consumer, marked as such, or to the next one; what was committed does not."""
    clients.publish(6, window=6, asynchronous=True)
    _, events = clients.play(Consume("transacted", acknowledge=2, rollback_every=2, stop=8))

    assert [(Op.COMMIT, "t1"), (Op.ROLLBACK, "t2"), (Op.COMMIT, "t3"), (Op.ROLLBACK, "t4")] == discharged(events)
    assert [
        *((name, False) for name in names(1, 4)),
        *((name, True) for name in names(3, 4)),
        *((name, False) for name in names(5, 6)),
    ] == [(event.message, event.redelivered) for event in events if event.op is Op.DELIVER]
    assert names(5, 6) == sorted(clients.drained())


# sessions that are wrong in one way


@pytest.mark.parametrize(
    ("mode", "acknowledge", "liar", "asked", "left"),
    [
        ("auto", 1, "forgets-acknowledgements", [1, 2, 3], [1, 2, 3]),
        ("client", 1, "forgets-acknowledgements", [1, 2, 3], [1, 2, 3]),
        ("individual", 1, "forgets-acknowledgements", [1, 2, 3], [1, 2, 3]),
        ("client", 100, "acknowledges-unasked", [], []),
        ("client", 100, "", [], [1, 2, 3]),
    ],
)
def test_a_session_that_does_not_do_what_it_is_asked_to(clients, mode, acknowledge, liar, asked, left):
    """One liar never acknowledges; one acknowledges although its application never asks for it."""
    clients.publish(3, window=3, asynchronous=True)
    _, events = clients.play(Consume(mode, acknowledge=acknowledge, stop=3), liar=liar)

    assert [f"p1:{number}" for number in asked] == messages(events, Op.ACK, Phase.INVOKE)
    assert [f"p1:{number}" for number in left] == sorted(clients.drained())


@pytest.mark.parametrize(("liar", "early"), [("", False), ("returns-before-commit", True)])
@pytest.mark.parametrize(("op", "rollback_every"), [(Op.COMMIT, 0), (Op.ROLLBACK, 1)])
def test_a_commit_that_returns_before_it_has_begun(clients, broker, op, rollback_every, liar, early):
    """A halted broker cannot have done what it says; any other waits until the broker goes on."""
    with broker.target.armed("kill") as pidfds:
        _, events = clients.play(
            Publish(
                2, window=1, batch=2, rollback_every=rollback_every, until=Pause(Nth("before_commit", 1), hold_s=0.5)
            ),
            pidfds=pidfds,
            liar=liar,
        )
    order = [(event.op, event.phase) for event in events]

    assert early == (order.index((op, Phase.OK)) < order.index((Op.FAULT, Phase.HEALED)))
    assert ([] if op is Op.ROLLBACK else names(1, 2)) == clients.drained()


def test_a_listener_that_returns_before_the_processing(clients):
    """The message is gone while it is still processed."""
    clients.publish(1)
    child = clients.start(Consume("auto", stop=1, work_ms=600_000), liar="returns-before-processing")
    until(lambda: clients.depth() == 0)
    child.end()
    _, events = clients.finish(child)

    assert (["p1:1"], []) == (messages(events, Op.PROCESS, Phase.INVOKE), messages(events, Op.PROCESS, Phase.OK))


# processes, and how they end


def test_a_process_that_has_crashed_is_not_used_again(clients):
    """It was killed in the middle of a processing: its listener had not returned, and the message comes again."""
    clients.publish(5, window=5, asynchronous=True)
    crashes = clients.start(Consume("auto", until=ConsumerCrash(Nth("process", 3))))
    result, events = clients.finish(crashes)
    follows = clients.start(Drain())
    _, drained = clients.finish(follows)

    assert (None, (Op.FAULT, Phase.FIRED)) == (result, (events[-1].op, events[-1].phase))
    assert crashes.pid != follows.pid
    assert names(1, 2) == messages(events, Op.ACK, Phase.INVOKE)
    # An acknowledged message may be delivered again: its process was killed before the frame may have left.
    assert names(3, 5) == [name for name in sorted(messages(drained, Op.DRAIN, Phase.OK)) if name not in names(1, 2)]


def test_no_broker_is_an_error_of_ours(clients):
    """With the address that did not answer; the process is not used again."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    errs = clients.start(Publish(1, window=1), port=port)
    result, _ = clients.finish(errs)

    assert f"client-1: no connection to 127.0.0.1:{port} by qpid-jms: " in result.error
    assert gone(errs.pid, PATIENCE)


def test_processes_are_used_again_and_end_with_their_pool(clients, tmp_path):
    """Two jobs at the same time have two; at its end an idle one goes at once, one that works with its job."""
    with Ledger(tmp_path / "run", "jms-pool") as ledger:
        pool = JvmPool(ledger)
        works = clients.start(Consume("client", acknowledge=1, stop=2), pool=pool)
        first = clients.start(Publish(1, window=1), pool=pool)
        assert 1 == clients.finish(first)[0].count
        second = clients.start(Publish(1, window=1), pool=pool)
        assert 1 == clients.finish(second)[0].count
        pool.close()
        assert gone(second.pid, PATIENCE)
        result, _ = clients.finish(works)
        assert gone(works.pid, PATIENCE)
    records = [json.loads(line) for line in (tmp_path / "run" / "resources.jsonl").read_text().splitlines()]

    assert works.pid != first.pid == second.pid
    assert ("finished", 2) == (result.ended, result.count)
    assert {"released"} == set({record["ticket"]: record["state"] for record in records}.values())


LIVING = weakref.WeakSet()


class Java:
    """A simulated object of a JVM: every call of it returns another."""

    def __init__(self, *words):
        LIVING.add(self)

    def __getattr__(self, name):
        return Java

    def __int__(self):
        return 0


@pytest.fixture
def simulated(monkeypatch):
    """Opens sessions on a simulated JVM."""
    machine = types.SimpleNamespace(
        JException=RuntimeError,
        JProxy=lambda interface, inst: None if interface.endswith("ExceptionListener") else "listener",
        JClass=lambda name: Java,
        JArray=lambda kind: bytes,
        JByte=None,
    )
    monkeypatch.setattr(jvm, "start", lambda *about: machine)
    monkeypatch.setattr(jvm, "chain", lambda error: [])
    monkeypatch.setattr(jvm, "text", str)

    def session(step, url="", subscriber="", **vendor):
        client = Vendor(name="x", api="jms", factory="x", url=url, jars=(), modes={"client": 2, "auto": 1}, **vendor)
        topic = {"subscriber": subscriber, "destination": f"topic/{subscriber}"} if subscriber else {}
        return JmsSession(job(0, "jms", step=step, vendor=client, **topic), lambda: None)

    return session


def test_a_closed_session_keeps_no_java_object(simulated):
    """A JVM holds its listeners, and no collector sees that circle whole: a process that is used again would fill up."""
    session = simulated(Consume("client"))
    session.attach_receiver("q", 1, AckHeader.CUMULATIVE)
    session.fetch()
    session.pump(PATIENCE)
    assert (1, True) == (len(session.incoming), bool(LIVING))
    session.close()
    gc.collect()

    assert [] == list(LIVING)


def test_a_factory_without_an_address_gets_each_parameter_by_its_setter(simulated, monkeypatch):
    said = []
    monkeypatch.setattr(Java, "setProperty", lambda made, *pair: said.append(pair), raising=False)
    simulated(Consume("client"), url="list=tcp://{host}:{port}/jms?a=b&limit=10", setter="setProperty").close()

    assert [("list", "tcp://127.0.0.1:0/jms?a=b"), ("limit", "10")] == said


@pytest.mark.parametrize(
    ("step", "attach", "calls"),
    [
        (
            Consume("client"),
            lambda session, queue: session.attach_receiver(queue, 1, AckHeader.CUMULATIVE),
            [
                ("setClientID", "c"),
                ("start",),
                ("createTopic", "topic/c"),
                ("createDurableSubscriber", "topic/c", "c-2"),
            ],
        ),
        (
            Publish(1, window=1),
            JmsSession.attach_sender,
            [("start",), ("createTopic", "topic/c"), ("createProducer", "topic/c")],
        ),
    ],
)
def test_a_subscriber_has_a_client_id_and_a_name(simulated, monkeypatch, step, attach, calls):
    """The id comes before anything else (JMS 2.0, 6.1.2). The publisher beside it has none: an id has one connection."""
    said = []

    def noted(name):
        return lambda made, *words: said.append((name, *words)) or (words[0] if name == "createTopic" else Java())

    for name in ("setClientID", "start", "createTopic", "createQueue", "createProducer", "createDurableSubscriber"):
        monkeypatch.setattr(Java, name, noted(name), raising=False)
    session = simulated(step, subscriber="c")
    attach(session, "c-2")
    session.close()

    assert calls == said


def test_an_asynchronous_send_that_throws_has_returned(simulated, monkeypatch):
    """The next one may be called; counter-example: a publisher that waits for ever for the return of a call."""

    def throws(*about):
        raise RuntimeError("no more")

    monkeypatch.setattr(Java, "send", throws, raising=False)
    session = simulated(Publish(1, window=1), asynchronous=True)
    session._session, session._producer = Java(), Java()
    session.send("p1:1", b"", durable=True)
    until(lambda: session.pump(0) or session.outcomes)
    session.close()

    assert ["p1:1"] == list(session.returned)
    assert [("p1:1", Phase.FAIL, "no more")] == [(o.message, o.phase, o.detail) for o in session.outcomes]


def test_what_a_client_throws_that_goes_on_at_another_node_leaves_the_send_open(simulated, monkeypatch):
    """The answer may have been lost with the first node. It reports that it has gone on, and is still connected."""

    def throws(*about):
        raise RuntimeError("lost")

    monkeypatch.setattr(Java, "send", throws, raising=False)
    session = simulated(Publish(1, window=1), url="f:([x://{host}:{port}])")
    session._session, session._producer = Java(), Java()
    monkeypatch.setattr(session._lost, "wait", lambda seconds: session._lost.is_set())
    session.onException(types.SimpleNamespace(getErrorCode=lambda: "FAILOVER"))
    session.send("p1:1", b"", durable=True)
    until(lambda: session.pump(0) or session.outcomes)
    with pytest.raises(Disconnected):
        session.onException(types.SimpleNamespace(getErrorCode=lambda: "DISCONNECT")) or session.pump(0)
    session.close()

    assert [("p1:1", Phase.INFO, "lost")] == [(o.message, o.phase, o.detail) for o in session.outcomes]


def test_an_address_of_several_nodes():
    about = {"name": "x", "api": "jms", "factory": "x", "jars": (), "modes": {}}
    several = Vendor(url="f:([x://{host}:{port}])?a=b", **about)
    one = Vendor(url="x://{host}:{port}?a=b", **about)

    assert several.address([("h", 1), ("i", 2)]) == "f:(x://h:1,x://i:2)?a=b"
    assert one.address([("h", 1), ("i", 2)]) == "x://h:1?a=b"
    assert (several.goes_on, one.goes_on) == (True, False)


# what is missing


def test_a_missing_jar_is_an_error():
    """The error says how to fetch it again."""
    with pytest.raises(ClientError, match=r"^/gone/client\.jar is gone: `conformance run` fetches it again$"):
        jvm.start(["/gone/client.jar"], CLIENT.java)


def test_a_machine_without_jpype_is_an_error(monkeypatch):
    """The error says how to install it."""
    monkeypatch.setitem(sys.modules, "jpype", None)

    with pytest.raises(ClientError, match=r"JPype: pip install 'ack-conformance\[jms\]'$"):
        jvm.start([], CLIENT.java)


def test_a_jvm_with_other_jars_is_an_error(monkeypatch):
    """A running JVM cannot load more jars; jars that it has already are accepted."""
    system = types.SimpleNamespace(getProperty={"java.class.path": "/a.jar:/b.jar"}.get)
    java = types.SimpleNamespace(lang=types.SimpleNamespace(System=system))
    runs = types.SimpleNamespace(isJVMStarted=lambda: True, java=java)
    monkeypatch.setitem(sys.modules, "jpype", runs)

    assert runs is jvm.start(["/b.jar"], CLIENT.java)
    with pytest.raises(ClientError, match=r"the JVM of this process has other jars: /c\.jar$"):
        jvm.start(["/b.jar", "/c.jar"], CLIENT.java)


def test_properties_of_each_type_arrive_as_they_were_sent(clients):
    """A consumer that expects other properties than the publisher gave sees that each message is altered."""
    plain, typed = Publish(4, window=1), Publish(4, window=1, headers=True)
    clients.play(typed, publishers=(typed,))
    clients.play(plain, publishers=(typed, plain), producer=2)
    _, events = clients.play(Consume("client", stop=8), publishers=(typed, typed))

    came = {event.message: event.intact for event in events if event.op is Op.DELIVER}
    assert {f"p{p}:{n}": p == 1 for p in (1, 2) for n in (1, 2, 3, 4)} == came
