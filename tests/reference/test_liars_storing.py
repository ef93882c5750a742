"""Liars about the disk: what a kill right after the answer leaves, over both protocols, and what it can never see.

Where a broker is killed its window is stretched from 5 ms to a minute: the kill then meets it on the slowest machine.
That the window is 5 ms as it comes is a test of its own.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from proton import ConnectionException, Message

import conformance.errors
from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.core.queues import Subscription
from conformance.reference.core.sections import Parsed
from conformance.reference.core.settlement import SettlementEvent
from conformance.reference.disk import DISK_ERROR
from conformance.reference.honest import LATE_S
from conformance.reference.liars import LIARS, behaviour
from conformance.reference.settings import Settings
from conformance.reference.stomp.frames import SERVER, Decoder, encode
from conformance.reference.store import files as files_module
from conformance.reference.store.commit import Batch, GroupCommit, do_nothing
from conformance.reference.store.files import SegmentFiles
from conformance.reference.store.journal import Journal, Write, recover

DISK_POINTS = {"answered", "ignores_failed_syncs", "ignores_full_disk", "records_rollbacks"}
AT_THE_DISK = [name for name, lie in LIARS.items() if lie.needs == "standard" and lie.overrides.keys() & DISK_POINTS]
ROOT = Path(conformance.errors.__file__).parents[1]
PATIENCE = 20
START = """
import os, sys
from conformance.reference import command
from conformance.reference.store import commit, files
{before}
sys.exit(command.main(sys.argv[1:]))
"""
STRETCHED = "commit.LATE_S = 60"
FAILS = """
def fail(*_):
    raise OSError({number}, "injected")
files.{call} = fail
"""

SENDS, COMMITTED = 10, 5
HONEST = {"acknowledged": [], "committed": [1, 2, 3, 4, 5], "sent": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}
"""What is there after a kill, by queue: see `AmqpScript`."""

LOSES = {
    "confirms-before-storing": {"sent": []},
    "commits-before-storing": {"committed": []},
    "acknowledges-before-storing": {"acknowledged": [1, 2, 3, 4, 5]},
    "confirms-every-tenth-before-storing": {"sent": [1, 2, 3, 4, 5, 6, 7, 8, 9]},
    "confirms-before-sync": {},
    "commits-before-sync": {},
    "never-syncs-confirms": {},
    "never-syncs-commits": {},
    "rolls-back-before-sync": {},
    "confirms-after-failed-sync": {},
    "confirms-although-disk-full": {},
}
"""What differs; a kill leaves what is in the page cache, and meets neither a failing nor a full disk."""


class Started:
    """A broker of its own start-up code that has said that it is ready, and where."""

    queue = "q"

    def __init__(self, data, *words, before=""):
        ports = ["--amqp-port=0", "--stomp-port=0", "--http-port=0"]
        self.data = data
        self.process = subprocess.Popen(
            [sys.executable, "-c", START.format(before=before), *ports, f"--data={data}", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        word, *places = self.process.stdout.readline().split()
        assert word == "ready"
        self.places = dict(place.split("=") for place in places)
        self.amqp = self.places["amqp"]

    def end(self, number):
        """The signal, and until it is gone; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def close(self):
        self.process.kill()
        self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture
def start(tmp_path):
    """Starts brokers on one data directory, one after the other; each ends with the test."""
    started = []

    def one(*words, before="", data="data"):
        started.append(Started(tmp_path / data, *words, before=before))
        return started[-1]

    yield one
    for each in started:
        each.close()


class AmqpScript:
    """Three operations, each answered before the next is asked.

    Sends 1 to 5 are those of `acknowledged`, 6 to 10 go into the transaction, 11 to 20 are the last.
    """

    def __init__(self, running, peer):
        self.client = peer(running, "sent")

    def play(self):
        client = self.client
        client.publish(COMMITTED, "acknowledged")
        client.accept(delivery for _, delivery in client.receive(COMMITTED, "acknowledged").got)
        client.queue = "committed"
        control = client.control()
        identity = control.begin()
        control.send(identity, range(1, COMMITTED + 1))
        control.end(identity)
        client.publish(SENDS, "sent")


class StompScript:
    """The same over STOMP: everything asks for a receipt."""

    def __init__(self, running, _):
        host, port = running.places["stomp"].split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE)
        self.decoder = Decoder(SERVER)
        self.frames = []
        self.say("CONNECT", **{"accept-version": "1.2", "host": "h"})
        self.hear("CONNECTED")

    def say(self, command, body=b"", **headers):
        self.socket.sendall(encode(command, headers.items(), body))

    def hear(self, command):
        """The next frame, which is one of that command."""
        while not self.frames:
            data = self.socket.recv(65536)
            assert data
            self.frames += self.decoder.feed(data)
        frame = self.frames.pop(0)
        assert frame.command == command
        return frame

    def send(self, queue, count, **headers):
        for body in range(1, count + 1):
            self.say("SEND", str(body).encode(), destination=queue, persistent="true", receipt=str(body), **headers)
            self.hear("RECEIPT")

    def play(self):
        self.send("acknowledged", COMMITTED)
        self.say("SUBSCRIBE", destination="acknowledged", id="0", ack="client-individual")
        for _ in range(COMMITTED):
            self.say("ACK", id=self.hear("MESSAGE").headers["ack"], receipt="ack")
        # All were pushed before the first ACK was read.
        for _ in range(COMMITTED):
            self.hear("RECEIPT")
        self.say("BEGIN", transaction="t")
        self.send("committed", COMMITTED, transaction="t")
        self.say("COMMIT", transaction="t", receipt="commit")
        self.hear("RECEIPT")
        self.send("sent", SENDS)
        self.socket.close()


def left(running, peer):
    """The bodies in each queue, as a consumer gets them."""
    return {queue: [int(body) for body in texts(peer(running).drain(queue).bodies)] for queue in HONEST}


def texts(bodies):
    return [bytes(body).decode() if isinstance(body, bytes | memoryview) else body for body in bodies]


def test_every_liar_about_the_disk_has_a_case():
    """No liar without its line in the table."""
    assert set(LOSES) == set(AT_THE_DISK)


@pytest.mark.parametrize("script", [AmqpScript, StompScript])
@pytest.mark.parametrize("name", [None, *LOSES])
def test_a_kill_after_the_answer_sees_the_lie_and_nothing_else(start, peer, name, script):
    """All three operations are tried on every liar: one that lies of sends is honest of the two others."""
    liar = start(*([f"--liar={name}"] if name else []), before=STRETCHED)
    played = script(liar, peer)
    played.play()
    liar.end(signal.SIGKILL)

    assert left(start(), peer) == {**HONEST, **(LOSES[name] if name else {})}


@pytest.mark.parametrize("name", LOSES)
def test_an_orderly_stop_stores_all_that_was_answered(start, peer, name):
    """The lie is about when, and a liar that stops in order has stored what it owes."""
    liar = start(f"--liar={name}", before=STRETCHED)
    AmqpScript(liar, peer).play()

    assert liar.end(signal.SIGTERM) == 0
    assert left(start(), peer) == HONEST


@pytest.mark.parametrize("name", [None, "confirms-before-storing"])
def test_the_window_is_some_milliseconds(start, peer, name):
    """As it comes: the record is in the journal by itself, and of a liar not before the window is over."""
    liar = start(*([f"--liar={name}"] if name else []), "--queue=q")
    client = peer(liar)
    link = client.sender()
    marked = "a body that is looked for"
    began = time.monotonic()
    delivery = link.send(message(marked))
    client.wait(lambda: delivery.settled)
    at_once = stored(liar, marked)
    while not stored(liar, marked):
        assert time.monotonic() - began < PATIENCE
    took = time.monotonic() - began

    assert at_once if name is None else took >= LATE_S


def message(body):
    return Message(body=body, durable=True)


def stored(running, text):
    """Whether the journal has that text now."""
    return any(text.encode() in path.read_bytes() for path in running.data.glob("*.journal"))


class Bytes:
    """A broker on bytes, with the clock in the hand of the test: what is postponed waits for `late`."""

    def __init__(self, name, **settings):
        self.files = {}
        recovered = recover({})
        self.commit = GroupCommit(Journal(recovered, 8192))
        self.broker = ReferenceBroker(Settings(**settings), behaviour(name), self.commit, recovered)
        self.queue = self.broker.queue("q")
        self.syncs = []
        self.postponed = []
        self.disk()

    def disk(self):
        """Everything that waits is written, in batches."""
        while self.commit.has_waiting:
            batch = self.commit.take()
            for write in batch.writes:
                file = self.files.setdefault(write.segment, bytearray(write.create))
                file[write.offset : write.offset + len(write.data)] = write.data
            self.syncs.append(batch.sync)
            self.commit.finished()
        self.postponed += [call for _, call in self.commit.postponed()]

    def late(self):
        """The window is over for what was postponed first."""
        self.postponed.pop(0)()

    def publish(self, body, transaction=None, done=do_nothing):
        self.broker.publish(self.queue, Parsed(True, b"", bytes([body])), done, transaction)

    def take_all(self):
        """A consumer, and the bodies it has by tag."""
        got = {}
        link = Subscription(self.queue, False, lambda: 100, lambda tag, m: got.update({tag: m.bare[0]}))
        self.broker.subscribe(link)
        self.broker.dispatch()
        return link, got

    def content(self):
        """What a kill would leave."""
        image = {number: bytes(data) for number, data in self.files.items()}
        return [stored.bare[0] for stored in recover(image).messages.values()]


@pytest.mark.parametrize(("name", "kept"), [("confirms-before-storing", [[], [1], [1, 2]]), (None, [[1, 2]] * 3)])
def test_each_record_is_late_by_itself(name, kept):
    """Two sends, two ends of the window: the first does not take the second with it."""
    rig, seen = Bytes(name), []
    for body in (1, 2):
        rig.publish(body)
        rig.disk()
    seen.append(rig.content())
    for _ in range(2):
        if rig.postponed:
            rig.late()
        rig.disk()
        seen.append(rig.content())

    assert (seen, rig.postponed) == (kept, [])


def test_what_was_confirmed_too_early_is_stored_before_its_removal():
    """Written after it, the message would come back, and that would be a second lie."""
    rig = Bytes("confirms-before-storing")
    rig.publish(1)
    rig.disk()
    link, got = rig.take_all()
    rig.broker.settle(link, 1, SettlementEvent.ACCEPTED, do_nothing)
    rig.late()  # due while the removal waits
    rig.disk()

    assert (got, rig.content()) == ({1: 1}, [])


def test_what_was_confirmed_too_early_goes_out_with_its_removal():
    """The removal is stored in the window: it takes the message along, and at the end of the window nothing is left."""
    rig = Bytes("confirms-before-storing")
    rig.publish(1)
    rig.disk()
    link, _ = rig.take_all()
    rig.broker.settle(link, 1, SettlementEvent.ACCEPTED, do_nothing)
    rig.disk()
    rig.late()
    rig.disk()

    assert rig.content() == []


def test_an_early_answer_waits_its_turn():
    """Between honest answers the tenth comes as the tenth: only the journal is behind."""
    rig, done = Bytes("confirms-every-tenth-before-storing"), []
    for body in range(1, 12):
        rig.broker.next_send()
        rig.publish(body, done=lambda body=body: done.append(body))
    rig.disk()

    assert done == list(range(1, 12))
    assert rig.content() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 11]


@pytest.mark.parametrize("name", ["confirms-before-sync", None])
def test_a_sync_comes_after_the_answer(name):
    """Written, answered, synced: a kill between finds it in the page cache, a loss of power does not."""
    rig, synced_before = Bytes(name), []
    rig.syncs.clear()
    rig.publish(1, done=lambda: synced_before.append(any(rig.syncs)))
    batch = rig.commit.take()
    rig.syncs.append(batch.sync)
    rig.commit.finished()
    rig.disk()
    if name:
        rig.late()
        rig.disk()

    assert (synced_before, rig.syncs) == (([False], [False, True]) if name else ([True], [True]))


def test_the_honest_answer_beside_it_waits_for_its_sync():
    """A commit among sends that are answered before their sync: it is stored by itself, and in its turn."""
    rig, order = Bytes("confirms-before-sync"), []
    rig.syncs.clear()
    transaction = rig.broker.begin()
    rig.publish(1, transaction)
    rig.publish(2, done=lambda: order.append("send"))
    rig.broker.commit(transaction, lambda: order.append("commit"))
    rig.publish(3, done=lambda: order.append("send"))
    rig.disk()

    assert (order, rig.syncs) == (["send", "commit", "send"], [False, True, False])


@pytest.mark.parametrize(
    ("name", "call", "number"),
    [
        ("confirms-after-failed-sync", "_fdatasync", errno.EIO),
        ("confirms-although-disk-full", "_write_all", errno.ENOSPC),
    ],
)
def test_it_goes_on_where_the_honest_broker_stops(start, peer, name, call, number):
    """From the first sync, or write, on each fails: the liar confirms ten sends, the honest broker ends itself."""
    before = FAILS.format(number=int(number), call=call)
    peer(start(f"--liar={name}", before=before), "q").publish(SENDS)
    honest = start(before=before, data="honest")
    with pytest.raises(ConnectionException):
        peer(honest, "q").publish(SENDS)

    assert honest.process.wait(PATIENCE) == DISK_ERROR


NOTED = """
real = files._fdatasync
def noting(descriptor):
    real(descriptor)
    with open({path!r}, "a") as notes:
        notes.write("synced.")
files._fdatasync = noting
{then}
"""


@pytest.mark.parametrize("name", [None, "confirms-before-sync"])
def test_the_sync_that_is_late_comes(start, peer, tmp_path, name):
    """A sync of its own, with nothing left to write; as long as it is not due there is none, and the answer is there."""
    notes = tmp_path / "notes"
    for then, data in ((STRETCHED, "stretched"), ("", "stock")):
        notes.write_text("")
        before = NOTED.format(path=str(notes), then=then)
        running = start("--queue=q", *([f"--liar={name}"] if name else []), before=before, data=data)
        notes.write_text("")
        peer(running, "q").publish(1)
        if name is None or then:
            assert bool(notes.read_text()) is (name is None)
    began = time.monotonic()
    while not notes.read_text():
        assert time.monotonic() - began < PATIENCE


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Stores a batch, and one more on a disk whose sync fails (EIO), or else its writes; which calls failed."""

    def one(name, number, call=""):
        files = SegmentFiles(tmp_path / "data", behaviour(name))
        files.store(Batch([Write(1, 0, b"head", create=64)], True, [], [], 1))
        failed = []

        def fail(*_):
            failed.append(number)
            raise OSError(number, "injected")

        monkeypatch.setattr(files_module, call or ("_fdatasync" if number == errno.EIO else "_write_all"), fail)
        try:
            files.store(Batch([Write(1, 4, b"more")], True, [], [], 2))
        finally:
            files.close()
        return failed

    return one


@pytest.mark.parametrize(
    ("name", "number"), [("confirms-after-failed-sync", errno.EIO), ("confirms-although-disk-full", errno.ENOSPC)]
)
def test_a_failure_of_the_disk_that_is_ignored(store, name, number):
    """The call fails, and the batch counts as stored."""
    assert store(name, number) == [number]


@pytest.mark.parametrize("name", [None, *(name for name in AT_THE_DISK if name != "confirms-after-failed-sync")])
def test_a_failed_sync_stops_the_others(store, name):
    """The honest broker, and every other liar."""
    with pytest.raises(OSError, match="injected"):
        store(name, errno.EIO)


@pytest.mark.parametrize("name", [None, *(name for name in AT_THE_DISK if name != "confirms-although-disk-full")])
def test_a_full_disk_stops_the_others(store, name):
    """The honest broker, and every other liar."""
    with pytest.raises(OSError, match="injected"):
        store(name, errno.ENOSPC)


def test_a_write_that_fails_for_another_reason_stops_it_too(store):
    """Only the space that is missing is ignored."""
    with pytest.raises(OSError, match="injected"):
        store("confirms-although-disk-full", errno.EIO, "_write_all")
