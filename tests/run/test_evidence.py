"""What is kept of a trial: the journal without its zeros, and which bytes of the logs belong to it."""

import os
import pathlib
import subprocess
import tarfile

import pytest

from conformance import records
from conformance.adapters.interface import JournalFiles
from conformance.history import Ended, Op, Phase, Recorder, bare_header, close_history
from conformance.run.trial import evidence
from conformance.run.trial.evidence import EvidenceKeeper, Kept, copy_journal, undelivered_messages


class Broker:
    def __init__(self, folder):
        self.folder, self.epoch = folder, 1
        self.journal_files = JournalFiles(folder / "journal", ())
        self.facts = self.node = self
        self.nodes = (self,)

    @property
    def logs(self):
        return sorted(self.folder.glob("start-*.log"))


@pytest.fixture
def broker(tmp_path):
    folder = tmp_path / "run" / "brokers" / "01-any"
    (folder / "journal").mkdir(parents=True)
    (folder / "start-1.log").write_bytes(b"before\n")
    return Broker(folder)


@pytest.fixture
def place(tmp_path):
    (tmp_path / "run" / "trials" / "t").mkdir(parents=True)
    return tmp_path / "run" / "trials" / "t"


def unpacked(place, copy, to):
    to.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-xf", place / copy.file, "-C", to], check=True)
    for name, size in copy.sizes.items():
        if name not in copy.left_out:
            os.truncate(to / name, size)
    return {str(path.relative_to(to)): path.read_bytes() for path in to.rglob("*") if path.is_file()}


@pytest.mark.process
def test_a_copy_is_the_journal(broker, place, tmp_path):
    """Zeros at the end are not stored; zeros in the middle, and files of zeros, are not lost."""
    files = {
        "a.amq": b"x" * 70_000 + bytes(3_000_000),
        "b.amq": bytes(200_000),
        "c.amq": bytes(100_000) + b"\1" + bytes(5),
        "sub/d.amq": b"",
    }
    for name, data in files.items():
        (broker.journal_files.folder / name).parent.mkdir(exist_ok=True)
        (broker.journal_files.folder / name).write_bytes(data)
    copy = copy_journal(broker.journal_files.folder, place, 1)
    with tarfile.open(place / copy.file) as archive:
        stored = {member.name: member.size for member in archive}

    assert files == unpacked(place, copy, tmp_path / "out")
    assert {"a.amq": 70_000, "b.amq": 0, "c.amq": 100_001, "sub/d.amq": 0} == stored
    assert ({}, 3_370_006) == (copy.left_out, sum(copy.sizes.values()))


@pytest.mark.process
def test_the_newest_come_first(broker, place, monkeypatch, tmp_path):
    """A file that does not fit is named with its size; a later file that fits is copied."""
    monkeypatch.setattr(evidence, "COPY", 100)
    for age, (name, size) in enumerate([("new", 60), ("middle", 60), ("old", 30)]):
        (broker.journal_files.folder / name).write_bytes(b"x" * size)
        os.utime(broker.journal_files.folder / name, (1_000_000 - age, 1_000_000 - age))
    copy = copy_journal(broker.journal_files.folder, place, 1)

    assert {"middle"} == set(copy.left_out)
    assert {"new": b"x" * 60, "old": b"x" * 30} == unpacked(place, copy, tmp_path / "out")


def test_a_run_that_has_enough(broker, place, monkeypatch):
    (broker.journal_files.folder / "a").write_bytes(b"x")
    assert copy_journal(broker.journal_files.folder, place, 1).file == "journal-1.tar.gz"
    monkeypatch.setattr(evidence, "RUN", (place / "journal-1.tar.gz").stat().st_size)
    (place.parent / "next").mkdir()
    copy = copy_journal(broker.journal_files.folder, place.parent / "next", 1)

    assert ("", {"a": "the copies of this run have 0 MB"}) == (copy.file, copy.left_out)
    assert [] == list((place.parent / "next").iterdir())


def test_what_cannot_be_read_is_named(broker, place, monkeypatch):
    """A disk that fails must not fail the trial."""
    (broker.journal_files.folder / "good").write_bytes(b"x")
    (broker.journal_files.folder / "bad").write_bytes(b"y")
    real = pathlib.Path.open

    def opened(path, *words, **named):
        if path.name == "bad":
            raise OSError(5, "Input/output error")
        return real(path, *words, **named)

    monkeypatch.setattr(pathlib.Path, "open", opened)
    copy = copy_journal(broker.journal_files.folder, place, 1)

    assert {"bad": "cannot be read: Input/output error"} == copy.left_out
    assert copy.file


def test_the_log_of_a_trial(broker, place):
    kept = EvidenceKeeper(place, broker)
    kept.begin()
    with (broker.folder / "start-1.log").open("ab") as log:
        log.write(b"during\n")
    (broker.folder / "start-2.log").write_bytes(b"again\n")
    written = kept.end()
    parts = [(part.path, part.begin, part.end) for part in written.logs]

    assert [("start-1.log", 7, 14), ("start-2.log", 0, 6)] == parts
    assert ("01-any", written) == (written.broker, records.read(place / "evidence.json", Kept))


def test_a_log_that_was_rotated(broker, place):
    kept = EvidenceKeeper(place, broker)
    kept.begin()
    (broker.folder / "start-1.log").write_bytes(b"new\n")

    assert [(0, 4)] == [(part.begin, part.end) for part in kept.end().logs]


def test_one_copy_of_each_start(broker, place):
    """The first one is the journal as the fault left it."""
    kept = EvidenceKeeper(place, broker)
    for data in (b"first", b"second, longer"):
        (broker.journal_files.folder / "a").write_bytes(data)
        kept.before_restart()
    broker.epoch = 2
    kept.before_restart()

    assert [(1, 5), (2, 14)] == [(copy.epoch, copy.sizes["a"]) for copy in kept.end().journals]


def test_the_same_files_give_the_same_bytes(broker, place):
    (broker.journal_files.folder / "a").write_bytes(b"x" * 1000)
    copy_journal(broker.journal_files.folder, place, 1)
    first = (place / "journal-1.tar.gz").read_bytes()
    os.utime(broker.journal_files.folder / "a", (1, 1))
    copy_journal(broker.journal_files.folder, place, 1)

    assert first == (place / "journal-1.tar.gz").read_bytes()


def event(process, words):
    """One event of a process: `send ok p1:1 t1`, `nack invoke p1:2 - released`."""
    op, phase, *rest = words.split()
    message, transaction, detail = [None if word == "-" else word for word in (*rest, "-", "-", "-")[:3]]
    durable = True if (op, phase) == ("send", "invoke") else None
    return process, {
        "op": Op(op),
        "phase": Phase(phase),
        "message": message,
        "transaction": transaction,
        "detail": detail,
        "durable": durable,
    }


OWED = {
    "a confirmed message that no client received": ("p1:1", "publisher-1 send ok p1:1"),
    "a delivered message that no client settled": ("p1:1", "publisher-1 send ok p1:1, consumer-1 deliver ok p1:1"),
    "a released message": ("p1:1", "publisher-1 send ok p1:1, consumer-1 nack invoke p1:1 - released"),
    "a message of an answered commit": (
        "p1:2",
        "publisher-1 send invoke p1:2 t1, publisher-1 send ok p1:2 t1, publisher-1 commit ok - t1",
    ),
    "an acknowledgement in a transaction without a commit": (
        "p1:1",
        "publisher-1 send ok p1:1, consumer-1 ack invoke p1:1 t1",
    ),
    "a send without an answer": ("", "publisher-1 send info p1:1"),
    "a refused send": ("", "publisher-1 send fail p1:1, publisher-1 send ok p1:1"),
    "an open transaction": ("", "publisher-1 send invoke p1:2 t1, publisher-1 send ok p1:2 t1"),
    "a drained message": ("", "publisher-1 send ok p1:1, drain-1 drain ok p1:1"),
    "a message in the dead-letter queue": ("", "publisher-1 send ok p1:1, collector-1 drain info p1:1"),
    "an acknowledged message": ("", "publisher-1 send ok p1:1, consumer-1 ack invoke p1:1"),
    "a rejected message": ("", "publisher-1 send ok p1:1, consumer-1 nack invoke p1:1 - rejected"),
    "an acknowledgement whose commit was asked for": (
        "",
        "publisher-1 send ok p1:1, consumer-1 ack invoke p1:1 t1, consumer-1 commit invoke - t1",
    ),
}


@pytest.mark.parametrize("name", OWED)
def test_what_the_broker_still_owes(place, name):
    expected, words = OWED[name]
    by_process = {"publisher-1": [event("publisher-1", "send invoke p1:1")[1]]}
    for each in words.split(", "):
        process, fields = event(*each.split(" ", 1))
        by_process.setdefault(process, []).append(fields)
    for process, events in by_process.items():
        recorder = Recorder(place / f"{process}.jsonl", bare_header(process))
        for fields in events:
            recorder.record(**fields)
        recorder.close()
        close_history(place / f"{process}.jsonl", Ended.FINISHED)

    assert frozenset({expected} - {""}) == undelivered_messages(place)


def test_a_message_with_a_time_to_live_is_not_owed(place):
    recorder = Recorder(place / "publisher-1.jsonl", bare_header("publisher-1"))
    recorder.record(Op.SEND, Phase.INVOKE, message="p1:1", durable=True, count=500)
    recorder.record(Op.SEND, Phase.OK, message="p1:1")
    recorder.close()

    assert frozenset() == undelivered_messages(place)
