"""Clients of one trial: in parallel on the bundled broker, and how long they may take."""

import pathlib
import socket
import subprocess
import sys
import types

import msgspec
import pytest
from starts import starts_process
from trial_histories import drained, events_of, messages, phases

from conformance import claims, limits, scenario
from conformance.clients.workers.pool import Child
from conformance.errors import ClientError
from conformance.history import Ended, Op, Phase, bare_header, read
from conformance.run.trial.clients import Abort, ClientRunner
from conformance.scenario.script import (
    SETTLE,
    After,
    Consume,
    ConsumerCrash,
    Kill,
    Nth,
    Pause,
    Publish,
    Restart,
    Stop,
    Together,
)

DIES = Consume("auto", until=ConsumerCrash(After(0)))
TAKES = Consume("client", prefetch=5, acknowledge=5, confirm=True, stop=20)
BOTH = pytest.mark.parametrize("protocol", ["amqp", "stomp"])
TWO = scenario.load(claims.load())["two-consumers-of-one-queue"]
LIAR = TWO.decides["AMQP-ACQ-01"].control.name


def descriptors():
    return len(list(pathlib.Path("/proc/self/fd").iterdir()))


def handed(folder, number):
    return messages(events_of(folder, f"consumer-{number}"), Op.DELIVER, Phase.OK)


@BOTH
def test_two_consumers_share_what_is_sent_while_both_are_attached(play, protocol):
    record, folder = play(Together((TAKES, TAKES, Publish(60, window=10, every_ms=2))), *SETTLE, protocol=protocol)
    began = [events_of(folder, f"consumer-{number}")[0].at_ns for number in (1, 2)]

    assert "" == record.void
    assert (20, 20, set()) == (len(handed(folder, 1)), len(handed(folder, 2)), handed(folder, 1) & handed(folder, 2))
    assert max(began) < min(e.at_ns for e in events_of(folder, "publisher-1") if e.op is Op.SEND)


@BOTH
def test_the_liar_gives_messages_to_both(play, protocol):
    record, folder = play(*TWO.steps, protocol=protocol, liar=LIAR)

    assert "" == record.void
    assert handed(folder, 1) & handed(folder, 2)


def test_two_publishers_have_numbers_of_their_own(play):
    record, folder = play(
        Together((Publish(5, window=5), Publish(5, window=5), msgspec.structs.replace(TAKES, stop=10)))
    )
    sent = [messages(events_of(folder, f"publisher-{number}"), Op.SEND, Phase.OK) for number in (1, 2)]

    assert ("", sent[0] | sent[1]) == (record.void, handed(folder, 1))
    assert 10 == len(sent[0] | sent[1])


def test_where_one_fails_the_others_are_ended(play):
    """At once, although the first waits for messages; every history is closed, and no descriptor leaks."""
    before = descriptors()
    record, folder = play(Together((DIES, TAKES, Publish(500, window=1, every_ms=50))))
    ended = {path.stem: read(path).footer.ended for path in folder.glob("*.jsonl") if path.stem != "orchestrator"}

    assert "consumer-2 died" in record.void
    assert {"consumer-1": Ended.INTERRUPTED, "consumer-2": Ended.DIED, "publisher-1": Ended.INTERRUPTED} == ended
    assert record.seconds < 20
    assert before == descriptors()


@pytest.fixture
@starts_process
def client_runner(tmp_path):
    return ClientRunner(None, None, tmp_path, bare_header("p"), Abort())


def test_the_clients_of_a_trial_share_its_time(client_runner, tmp_path, monkeypatch):
    given = []

    class Given:
        log = tmp_path / "log"
        wait = staticmethod(given.append)

        def close(self):
            """Nothing is open."""

    child = Given()
    client_runner._wait(child)
    monkeypatch.setattr(client_runner, "_ends", client_runner._ends - limits.TRIAL_S + 100)
    client_runner._wait(child)
    monkeypatch.setattr(client_runner, "_ends", client_runner._ends - 1000)
    client_runner._wait(child)

    assert (600, 1) == (given[0], given[2])
    assert 90 < given[1] <= 100


@pytest.mark.process
def test_a_client_that_gives_no_result_is_ended(tmp_path):
    ours, theirs = socket.socketpair()
    code = "import socket, sys; socket.socket(fileno=int(sys.argv[1])).recv(1)"
    with theirs:
        process = subprocess.Popen([sys.executable, "-c", code, str(theirs.fileno())], pass_fds=[theirs.fileno()])
    job = types.SimpleNamespace(header=bare_header("drain-1"))
    child = Child(job, process.pid, ours, tmp_path / "log")

    with pytest.raises(
        ClientError, match=r"drain-1 gave no result within .* a client has 600 s, the clients of a trial"
    ):
        child.wait(0.2)
    child.close()

    assert process.wait(20) is not None


HOLDS_OPEN = Consume("individual", prefetch=10, acknowledge=2, confirm=True)
"""Attached to the end, with deliveries that it has not acknowledged."""

KILLS = Publish(50_000, window=20, until=Kill(Nth("confirm", 60)))


@BOTH
@pytest.mark.parametrize("ends", [Kill(Nth("confirm", 60)), Stop(Nth("confirm", 60))])
def test_a_fault_of_one_client_ends_the_connections_of_all(play, protocol, ends):
    """The others begin before it. What they had sent or acknowledged without an answer is unknown."""
    fires = msgspec.structs.replace(KILLS, until=ends)
    steps = Together((fires, HOLDS_OPEN, HOLDS_OPEN, Publish(50_000, window=200)))
    record, folder = play(steps, Restart(), *SETTLE, protocol=protocol)
    fired = [e for e in events_of(folder, "publisher-2") if e.op is Op.FAULT and e.phase is Phase.FIRED]
    others = ["consumer-1", "consumer-2", "publisher-1"]

    assert ("", 1) == (record.void, len(fired))
    assert all(read(folder / f"{name}.jsonl").footer.ended is Ended.FINISHED for name in others)
    asked, ok, failed, unknown = (
        messages(events_of(folder, "publisher-1"), Op.SEND, phase)
        for phase in (Phase.INVOKE, Phase.OK, Phase.FAIL, Phase.INFO)
    )
    assert unknown == asked - ok - failed
    assert handed(folder, 1)
    assert handed(folder, 2)


def test_a_pause_beside_other_clients_ends_none_of_them(play):
    pauses = Publish(200, window=20, until=Pause(Nth("confirm", 60), hold_s=0.2))
    record, folder = play(Together((pauses, TAKES, Publish(50, window=5))), *SETTLE)

    assert "" == record.void
    assert (50, 200) == tuple(len(messages(events_of(folder, f"publisher-{n}"), Op.SEND, Phase.OK)) for n in (1, 2))


def test_a_connection_that_is_lost_before_the_fault_voids_the_trial(play, monkeypatch):
    """The broker closed it while nothing was wrong: a restart after the fault would hide that."""
    together = ClientRunner.play_together

    def earlier(*arguments):
        first, *rest = together(*arguments)
        return [msgspec.structs.replace(first, lost_ns=rest[-1].fired_ns - 1), *rest]

    monkeypatch.setattr(ClientRunner, "play_together", earlier)
    record, _ = play(Together((KILLS, HOLDS_OPEN)), Restart(), *SETTLE)

    assert "the broker closed the connection of a client before the fault of another" == record.void


DIED = Publish(50_000, window=20, until=Kill(Nth("confirm", 60)))
EARLY = Publish(30, window=5)


@BOTH
def test_publishers_beside_a_restart_begin_before_the_broker_and_publish(play, protocol):
    """They connect as soon as it answers, in the epoch of the new start, and all that they send is drained."""
    record, folder = play(DIED, Restart(beside=(EARLY, EARLY)), *SETTLE, protocol=protocol)
    sent = [messages(events_of(folder, f"publisher-{number}"), Op.SEND, Phase.OK) for number in (2, 3)]

    assert ("", 30, 30) == (record.void, *map(len, sent))
    assert sent[0] | sent[1] <= drained(folder)
    assert {2} == {event.epoch for event in events_of(folder, "publisher-2")}


def test_clients_beside_a_restart_that_fails_end_with_it(play):
    """They never reached the broker: what is judged is that it did not recover."""
    liar = "refuses-to-start-with-messages"
    record, folder = play(DIED, Restart(beside=(EARLY,)), *SETTLE, liar=liar)

    assert "" == record.void
    assert Phase.FAIL in phases(events_of(folder, "orchestrator"), Op.BROKER)
    assert (0, Ended.FINISHED) == (
        len(events_of(folder, "publisher-2")),
        read(folder / "publisher-2.jsonl").footer.ended,
    )


@BOTH
def test_messages_without_a_body_and_large_ones_are_drained_as_they_were_sent(play, protocol):
    """Which publishers send no body is known to every client, whenever it begins."""
    fires = Publish(5_000, window=2, size=0, until=Kill(Nth("confirm", 9)))
    together = Together((Consume("client", prefetch=4, acknowledge=99), fires, Publish(9, window=1, size=200_000)))
    record, folder = play(Publish(5, window=5, size=0), together, Restart(), *SETTLE, protocol=protocol)
    events = [*events_of(folder, "consumer-1"), *events_of(folder, "drain-1")]
    came = {e.message: e.intact for e in events if e.op in (Op.DELIVER, Op.DRAIN) and e.phase is Phase.OK and e.message}

    assert ("", {True}) == (record.void, set(came.values()))
    assert {"p1:1", "p3:1"} <= came.keys()
    assert messages(events_of(folder, "publisher-2"), Op.SEND, Phase.OK) <= came.keys()


@pytest.mark.parametrize("liar", ["keeps-early-sends-in-memory", "forgets-at-the-second-start"])
def test_publishers_that_return_find_a_broker_that_loses(play, impatient, liar):
    """Each of these defects needs a second start: what was sent between the two, or what both have found."""
    steps = scenario.load(claims.load())["broker-killed-again-after-publishers-returned"].drawn(7).steps
    record, folder = play(*steps, liar=liar)
    names = [path.stem for path in folder.glob("publisher-*.jsonl")]
    confirmed = set().union(*(messages(events_of(folder, name), Op.SEND, Phase.OK) for name in names))

    assert ("", 4) == (record.void, len(names))
    assert confirmed - drained(folder)
