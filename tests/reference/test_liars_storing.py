"""Liars about the disk: what a kill right after the answer leaves, and what it can never see.

On bytes nothing that is postponed happens before the test says so. Where a process is killed, its window is stretched
from 5 ms to a minute: the kill then meets it on the slowest machine. One test tries the 5 ms.
"""

from __future__ import annotations

import errno
import signal
import time

import pytest
from proton import ConnectionException, Message

from conformance.reference.core.sections import Parsed
from conformance.reference.core.settlement import SettlementEvent
from conformance.reference.disk import DISK_ERROR
from conformance.reference.honest import LATE_S
from conformance.reference.liars import LIARS, behaviour
from conformance.reference.store import files as files_module
from conformance.reference.store.commit import Batch, do_nothing
from conformance.reference.store.files import SegmentFiles
from conformance.reference.store.journal import Write

from .conftest import Running
from .queue_rig import NULLS, Rig

DISK_POINTS = {"answered", "ignores_failed_syncs", "ignores_full_disk", "records_rollbacks"}
AT_THE_DISK = [name for name, lie in LIARS.items() if lie.needs == "standard" and lie.overrides.keys() & DISK_POINTS]
PATIENCE = 20
STRETCHED = "commit.LATE_S = 60"
FAILS = """
def fail(*_):
    raise OSError({number}, "injected")
files.{call} = fail
"""

HONEST = {
    "acknowledged": [],
    "committed": [1, 2, 3, 4, 5],
    "sent": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    "shared": [1, 2, 3, 4, 5],
}
"""What is there after a kill, by queue: see `play`."""
NOTHING = {queue: [] for queue in HONEST}

LOSES = {
    "confirms-before-storing": {"sent": [], "shared": []},
    "confirms-another-publisher-before-storing": {"shared": [1, 3, 5]},
    "commits-before-storing": {"committed": []},
    "acknowledges-before-storing": {"acknowledged": [1, 2, 3, 4, 5]},
    "confirms-every-tenth-before-storing": {"sent": [1, 2, 3, 4, 5, 6, 7, 8, 9]},
    "confirms-3-ms-before-storing": {"sent": [], "shared": []},
    "commits-10-ms-before-storing": {"committed": []},
    "acknowledges-100-ms-before-storing": {"acknowledged": [1, 2, 3, 4, 5]},
    "confirms-before-sync": {},
    "commits-before-sync": {},
    "never-syncs-confirms": {},
    "never-syncs-commits": {},
    "acknowledges-before-sync": {},
    "never-syncs-acknowledgements": {},
    "rolls-back-before-sync": {},
    "confirms-after-failed-sync": {},
    "confirms-although-disk-full": {},
}
"""What differs; a kill leaves what is in the page cache, and meets neither a failing nor a full disk."""


def play(rig):
    """Operations, each answered before the next: five acknowledgements, a commit of five sends, ten sends.

    Then two publishers send five in turn to one queue.
    """
    for body in range(1, 6):
        rig.send(bytes([body]), queue="acknowledged")
        rig.disk()
    link, got = rig.link(queue="acknowledged")
    for tag in list(got):
        rig.settle(link, tag)
        rig.disk()
    transaction = rig.broker.begin()
    for body in range(1, 6):
        rig.send(bytes([body]), transaction, queue="committed")
    rig.commits(transaction)
    rig.disk()
    for body in range(1, 11):
        rig.send(bytes([body]), queue="sent")
        rig.disk()
    for body in range(1, 6):
        rig.send(bytes([body]), queue="shared", sender=("one", "two")[body % 2 == 0])
        rig.disk()
    assert rig.answers == ["done"] * 26


def left(rig):
    """What an honest broker finds in each queue."""
    again = Rig(*HONEST, image=rig.image())
    return {queue: [body[0] for body in again.bodies(queue)] for queue in HONEST}


@pytest.mark.parametrize("name", [None, *dict.fromkeys([*AT_THE_DISK, *LOSES])])
def test_a_kill_after_the_answer_sees_the_lie_and_nothing_else(name):
    """A liar about sends is honest in the two other operations. An orderly stop stores all that was answered."""
    rig = Rig(*HONEST, behaviour=behaviour(name))
    play(rig)
    killed = left(rig)
    rig.disk()
    rig.store(rig.commit.take_last())

    assert killed == {**HONEST, **(LOSES[name] if name else {})}
    assert left(rig) == HONEST


@pytest.mark.parametrize(
    ("setting", "killed", "stopped"),
    [
        ("sync_non_transactional", {"sent": [], "shared": []}, {}),
        ("sync_transactional", {"committed": []}, {}),
        ("sync_acknowledgements", {"acknowledged": [1, 2, 3, 4, 5]}, {}),
        ("persistence", NOTHING, NOTHING),
    ],
)
def test_a_setting_gives_up_one_guarantee_and_nothing_else(setting, killed, stopped):
    """The same operations are answered; what an orderly stop flushes is kept."""
    rig = Rig(*HONEST, **{setting: False})
    play(rig)
    after_a_kill = left(rig)
    rig.store(rig.commit.take_last())

    assert (after_a_kill, left(rig)) == ({**HONEST, **killed}, {**HONEST, **stopped})


@pytest.mark.parametrize(
    ("setting", "back"),
    [("sync_non_transactional", [1]), ("sync_acknowledgements", [1]), ("sync_transactional", [])],
)
def test_a_weakened_acknowledgement_is_confirmed_and_forgotten(setting, back):
    """The message is stored by the honest broker, its removal is lost by the weak one."""
    rig = Rig(*HONEST)
    rig.send(b"\1", queue="acknowledged")
    rig.disk()
    weak, answers = rig.again(*HONEST, **{setting: False}), []
    link, _ = weak.link(queue="acknowledged")
    weak.broker.settle(link, 1, SettlementEvent.ACCEPTED, lambda: answers.append("done"))
    weak.disk()

    assert (answers, left(weak)["acknowledged"]) == (["done"], back)


@pytest.mark.parametrize(
    ("name", "end", "found"),
    [
        (None, signal.SIGKILL, [1, 2, 3]),
        ("confirms-before-storing", signal.SIGKILL, []),
        ("confirms-before-storing", signal.SIGTERM, [1, 2, 3]),
    ],
)
def test_a_process_is_killed_or_stopped(start, peer, name, end, found):
    """The same through a socket, a disk and a signal."""
    liar = start(*([f"--liar={name}"] if name else []), before=STRETCHED)
    peer(liar).publish(3)
    liar.stop(end)

    assert peer(start()).drain().bodies == found


@pytest.mark.parametrize("name", [None, "confirms-before-storing"])
def test_the_window_is_some_milliseconds(start, peer, name):
    """As it comes: the record is in the journal by itself, and of a liar not before the window is over."""
    liar = start(*([f"--liar={name}"] if name else []))
    client = peer(liar)
    link = client.sender()
    marked = "a body that is looked for"
    began = time.monotonic()
    delivery = link.send(Message(body=marked, durable=True))
    client.wait(lambda: delivery.settled)
    at_once = stored(liar, marked)
    while not stored(liar, marked):
        assert time.monotonic() - began < PATIENCE
    took = time.monotonic() - began

    assert at_once if name is None else took >= LATE_S


def stored(running, text):
    """Whether the journal has that text now."""
    return any(text.encode() in path.read_bytes() for path in running.data.glob("*.journal"))


def publish(rig, body, transaction=None, done=do_nothing):
    rig.broker.publish(rig.queue, Parsed(True, NULLS, bytes([body])), done, transaction)


def content(rig):
    """The bodies that a kill would leave."""
    return [body[0] for _, body, _ in rig.on_disk()]


@pytest.mark.parametrize(("name", "kept"), [("confirms-before-storing", [[], [1], [1, 2]]), (None, [[1, 2]] * 3)])
def test_each_record_is_late_by_itself(name, kept):
    """Two sends, two ends of the window: the first does not take the second with it."""
    rig, seen = Rig(behaviour=behaviour(name)), []
    for body in (1, 2):
        rig.send(bytes([body]))
        rig.disk()
    seen.append(content(rig))
    for _ in range(2):
        if rig.postponed:
            rig.late()
        rig.disk()
        seen.append(content(rig))

    assert (seen, rig.postponed) == (kept, [])


@pytest.mark.parametrize("due", ["while the removal waits", "after the removal"])
def test_what_was_confirmed_too_early_is_stored_before_its_removal(due):
    """Written after it, the message would come back, and that would be a second lie."""
    rig = Rig(behaviour=behaviour("confirms-before-storing"))
    rig.send(b"1")
    rig.disk()
    link, got = rig.link()
    rig.settle(link, 1)
    if due == "after the removal":
        rig.disk()
    rig.late()
    rig.disk()

    assert (len(got), rig.on_disk()) == (1, [])


def test_an_early_answer_waits_its_turn():
    """Between honest answers the tenth comes as the tenth: only the journal is behind."""
    rig, done = Rig(behaviour=behaviour("confirms-every-tenth-before-storing")), []
    for body in range(1, 12):
        rig.broker.next_send()
        publish(rig, body, done=lambda body=body: done.append(body))
    rig.disk()

    assert done == list(range(1, 12))
    assert content(rig) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 11]


@pytest.mark.parametrize("name", ["confirms-before-sync", None])
def test_a_sync_comes_after_the_answer(name):
    """Written, answered, synced: a kill between finds it in the page cache, a loss of power does not."""
    rig, synced_before = Rig(behaviour=behaviour(name)), []
    publish(rig, 1, done=lambda: synced_before.append(any(rig.syncs)))
    rig.disk()
    if name:
        rig.late()
        rig.disk()

    assert (synced_before, rig.syncs) == (([False], [False, True]) if name else ([True], [True]))


def test_the_honest_answer_beside_it_waits_for_its_sync():
    """A commit among sends that are answered before their sync: it is stored by itself, and in its turn."""
    rig, order = Rig(behaviour=behaviour("confirms-before-sync")), []
    transaction = rig.broker.begin()
    publish(rig, 1, transaction)
    publish(rig, 2, done=lambda: order.append("send"))
    rig.broker.commit(transaction, lambda: order.append("commit"))
    publish(rig, 3, done=lambda: order.append("send"))
    rig.disk()

    assert (order, rig.syncs) == (["send", "commit", "send"], [False, True, False])


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "call", "number"),
    [
        ("confirms-after-failed-sync", "_fdatasync", errno.EIO),
        ("confirms-although-disk-full", "_write_all", errno.ENOSPC),
    ],
)
def test_it_goes_on_where_the_honest_broker_stops(tmp_path, peer, name, call, number):
    """From the first sync, or write, on each fails: the liar confirms ten sends, the honest broker ends itself."""
    before = FAILS.format(number=int(number), call=call)
    with Running(tmp_path / "liar", f"--liar={name}", before=before, declares=False) as liar:
        peer(liar, "q").publish(10)
    with Running(tmp_path / "honest", before=before, declares=False) as honest:
        with pytest.raises(ConnectionException):
            peer(honest, "q").publish(10)

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
        running = start(*([f"--liar={name}"] if name else []), before=before, data=data)
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
