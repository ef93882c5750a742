"""What is packed, and what voids a trial."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import msgspec
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from judge_histories import record, write
from judge_words import history, sent

from conformance import records
from conformance.errors import HistoryError
from conformance.history import Ended, Event, Op, Phase, parse_message
from conformance.judge.input import packing
from conformance.judge.input.link_frames import CARRIES
from conformance.judge.input.packing import FILE, OP_CODE, PHASE_CODE, SCHEMA, SOURCES

HISTORY = history("kept 1 2, took 1, killed consumer-1, settled 2")
PHASES = {code: phase for phase, code in PHASE_CODE.items()}


@pytest.fixture
def packed(tmp_path):
    """Write a history and pack it; returns the compacted trial."""

    def of(events=HISTORY, about=None, ended=None):
        return packing.compact(tmp_path, write(tmp_path, events, about, ended))

    return of


@pytest.fixture
def rows(packed):
    """The rows of a packed history, of these operations if there are any."""

    def of(events=HISTORY, *ops):
        found = pq.read_table(packed(events).parquet).to_pylist()
        return [row for row in found if not ops or row["op"] in [OP_CODE[op] for op in ops]]

    return of


@pytest.fixture
def again(tmp_path):
    """Pack the histories that lie there now."""
    return lambda about=None: packing.compact(tmp_path, about or record())


def test_every_event_is_packed(packed):
    table = pq.read_table(packed().parquet)
    rows = [row for row in table.to_pylist() if row["process"] == "publisher-1"]

    assert (len(HISTORY), SCHEMA) == (table.num_rows, table.schema)
    assert [(1, 1), (1, 2), (1, 1), (1, 2)] == [(row["producer"], row["n"]) for row in rows]
    assert {OP_CODE[Op.SEND]} == {row["op"] for row in rows}


@pytest.mark.parametrize("text", ["p1:1", "p12:345", "p1:", "1:1", "p1:1x", " p1:1", "ID:foreign", "p1:1\n", None])
def test_ids_are_parsed_as_the_history_does(text):
    """The vectorised parser agrees with `history.parse_message`, and keeps ids that it cannot parse."""
    found = packing._ids(pa.array([text], pa.string()))
    number = (found["producer"][0].as_py(), found["n"][0].as_py())

    assert (parse_message(text) or (None, None)) == number
    assert (text if parse_message(text) is None else None) == found["foreign_id"][0].as_py()


def test_a_number_too_large_for_its_column_is_foreign(rows):
    assert "p1:" + "9" * 19 in [row["foreign_id"] for row in rows("kept 1, handed p1:" + "9" * 19)]


def test_links_of_two_processes_are_two_links(rows):
    links = {(row["process"], row["link"]) for row in rows() if row["process"] in ("consumer-1", "drain-1")}

    assert (2, 2) == (len(links), len({link for _, link in links}))


def test_packed_once(packed, again, tmp_path):
    """The file times do not matter."""
    first = packed()
    made = first.parquet.stat().st_mtime_ns
    os.utime(tmp_path / "drain-1.jsonl", ns=(made + 1, made + 1))

    assert made == packing.compact(tmp_path, first.record).parquet.stat().st_mtime_ns


def test_an_edited_history_is_packed_again(packed, tmp_path):
    first = packed()
    path = tmp_path / "drain-1.jsonl"
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b'"p1:2"', b'"p1:1"'))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    rows = pq.read_table(packing.compact(tmp_path, first.record).parquet).to_pylist()

    assert before.st_size == path.stat().st_size
    assert {1} == {row["n"] for row in rows if row["process"] == "drain-1" and row["n"]}


def test_a_history_that_is_gone_is_missed(packed, tmp_path):
    """The packed file was made of it, so the rest is not judged as if it were all. Put back, it is."""
    first = packed()
    (tmp_path / "consumer-1.jsonl").rename(tmp_path / "aside")
    for _ in range(2):
        found = packing.compact(tmp_path, first.record)
        assert (None, True) == (found.parquet, "consumer-1.jsonl is gone" in found.record.void)

    (tmp_path / "aside").rename(tmp_path / "consumer-1.jsonl")
    assert len(HISTORY) == pq.read_table(packing.compact(tmp_path, first.record).parquet).num_rows


@pytest.mark.parametrize("change", [lambda data: data[:4] + bytes(200) + data[204:], lambda _: b"PAR1"])
def test_a_corrupt_file_is_made_again(packed, again, change):
    first = packed()
    data = first.parquet.read_bytes()
    first.parquet.write_bytes(change(data))

    assert data == again(first.record).parquet.read_bytes()


def test_swapped_trials_are_void(tmp_path):
    """Each packed file moved along with its histories."""
    for name in ("a", "b"):
        packing.compact(tmp_path / name, write(tmp_path / name, HISTORY, record(name)))
    for path in [*(tmp_path / "a").glob("*.jsonl"), tmp_path / "a" / FILE, tmp_path / "a" / packing.SOURCES]:
        (tmp_path / "b" / path.name).rename(tmp_path / "c")
        path.rename(tmp_path / "b" / path.name)
        (tmp_path / "c").rename(path)

    for name in ("a", "b"):
        assert " of " in packing.compact(tmp_path / name, record(name)).record.void


@pytest.mark.parametrize("twice", [False, True])
def test_histories_of_another_run_are_void(tmp_path, twice):
    about = write(tmp_path, HISTORY)
    if twice:
        assert packing.compact(tmp_path, about, runs={"r"}).parquet

    assert "of another run, r" in packing.compact(tmp_path, about, runs={"mine"}).record.void


@pytest.mark.parametrize("field", ["scenario", "arm", "seed"])
def test_a_header_that_contradicts_its_record(tmp_path, field):
    other = {"scenario": "other", "arm": "control", "seed": 2}
    about = msgspec.structs.replace(write(tmp_path, HISTORY), **{field: other[field]})

    assert f"its {field} is" in packing.compact(tmp_path, about).record.void


def test_a_clock_that_runs_backwards_is_refused(packed, tmp_path):
    """The order of events decides which message is late, and which was confirmed before a fault."""
    about = write(tmp_path, HISTORY)
    path = tmp_path / "publisher-1.jsonl"
    first = path.read_text().splitlines()[1]
    early = first.replace('"at_ns":1000000', '"at_ns":9000000')
    path.write_text(path.read_text().replace(first, early))

    assert first != early
    assert "publisher-1.jsonl: the clock runs backwards" in packing.compact(tmp_path, about).record.void


def test_a_file_of_the_format_before_is_made_anew(packed):
    """Its columns are the same, and it is newer than every history."""
    first = packed("put t1 1, committed t1")
    rows = pq.read_table(first.parquet)
    pq.write_table(rows.slice(0, 1).replace_schema_metadata({"conformance": "1"}), first.parquet)
    again = packing.compact(first.parquet.parent, first.record)

    assert {b"conformance": packing.FORMAT.encode()} == pq.read_schema(again.parquet).metadata
    assert rows.num_rows == pq.read_table(again.parquet).num_rows


ALL = [(phase, n) for phase in (Phase.INVOKE, Phase.OK) for n in (None, 1, 2)]
ASKED = [(Phase.INVOKE, None)]


@pytest.mark.parametrize(
    ("events", "process", "expected"),
    [
        # The request and its answer, each once without a message and once for each member of that transaction.
        ("put t1 1 2, put t2 3, committed t1", "publisher-1", ALL),
        ("kept 1 2, acked_in t1 1 2, rolled_back t1 by=consumer-1", "consumer-1", ALL),
        # Each process counts its own from 1: the consumer's t1 covers nothing that the publisher sent in its t1.
        ("put t1 1, acked_in t1 2, committed t1 None by=consumer-1", "consumer-1", [*ASKED, (Phase.INVOKE, 2)]),
        # A member has one row, however often it was handed over.
        ("handed 1, ack_sent 1 tx=t1, handed 1, ack_sent 1 tx=t1, committed t1 None by=consumer-1", "consumer-1",
         [*ASKED, (Phase.INVOKE, 1)]),
        # Only an operation that was asked for before is a member.
        ("confirmed 1 tx=t1, committed t1 None, sent 2 tx=t1", "publisher-1", ASKED),
    ],
)  # fmt: skip
def test_a_discharge_has_a_row_for_each_member(rows, events, process, expected):
    found = rows(events, Op.COMMIT, Op.ROLLBACK)

    assert [(process, phase, n) for phase, n in expected] == [
        (row["process"], PHASES[row["phase"]], row["n"]) for row in found
    ]


def test_members_of_a_transaction_have_its_events(rows):
    one, copy = rows("put t7 1, committed t7 None", Op.COMMIT)

    assert {**one, "producer": 1, "n": 1} == copy
    assert (7, None) == (copy["txn"], copy["foreign_id"])


def test_a_commit_is_in_the_queue_of_each_member(rows):
    sends = "of publisher-1 SEND INVOKE p1:1 transaction=t1, of publisher-1 SEND INVOKE p1:2 transaction=t1 queue=r"
    found = rows(f"{sends}, committed t1 None", Op.COMMIT)

    assert [(1, "q"), (2, "r")] == [(row["n"], row["queue"]) for row in found if row["n"]]


SECOND = (
    "of publisher-2 SEND INVOKE p2:9 transaction=t1 durable=True epoch=2, of publisher-2 COMMIT INVOKE transaction=t1 "
    "epoch=2"
)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        # Another process saw the sync of the commit; the sync of a send stays one row.
        ("put t1 1 2, wrote 1, committed t1, wrote t1, synced t1, put t2 3, committed t2",
         [(Phase.INVOKE, 1, None), *[(phase, n, 1) for phase, n in ALL]]),
        # The file of the disk comes before that of the publisher; the members are known all the same.
        ("wrote t1, put t1 1, committed t1", [(Phase.INVOKE, None, 1), (Phase.INVOKE, 1, 1)]),
        # A second publisher counts from 1 again: its t1, in the next run of the broker, is another.
        (f"put t1 1, committed t1, {SECOND}, wrote t1 disk=2 epoch=2", [(Phase.INVOKE, None, 1), (Phase.INVOKE, 9, 1)]),
    ],
)  # fmt: skip
def test_the_sync_of_a_commit_has_a_row_for_each_member(rows, events, expected):
    assert expected == [(PHASES[row["phase"]], row["n"], row["txn"]) for row in rows(events, Op.SYNC)]


def test_a_sync_is_in_the_queue_of_its_message(rows):
    """A journal names no queue, and the judge counts by queue; a message that was not sent has none."""
    found = rows("put t1 1, committed t1, wrote t1, sent 2, wrote 2 3", Op.SYNC)

    assert [(None, None), (1, "q"), (2, "q"), (3, None)] == [(row["n"], row["queue"]) for row in found]


@pytest.mark.parametrize(
    ("events", "void"),
    [
        ("put t1 1, acked_in t1 2, committed t1, committed t1 by=consumer-1, wrote t1",
         "transaction t1 is of consumer-1 and publisher-1: it is unknown which one was synced"),
        ("put t1 1, committed t1, of disk-1 SYNC OK p1:1 transaction=t1",
         "a sync names both p1:1 and transaction t1"),
    ],
)  # fmt: skip
def test_an_ambiguous_sync_voids_the_trial(packed, events, void):
    found = packed(events)

    assert (None, void) == (found.parquet, found.record.void)


@pytest.mark.parametrize(("events", "after"), [("kept 1, killed", True), ("kept 1", False)], ids=["effective", "not"])
def test_a_void_trial_says_whether_its_fault_took_effect(packed, again, tmp_path, events, after):
    """Read from its histories, although one of them is torn; the field is false for a valid trial."""
    assert not packed(events).record.void_after_fault
    path = tmp_path / "publisher-1.jsonl"
    path.write_bytes(path.read_bytes()[:-20])

    found = again().record

    assert (True, after) == (bool(found.void), found.void_after_fault)


def test_frames_are_carried(rows):
    frames = rows("kept 1, framed flow, framed flow to=to_client", Op.FRAME)

    assert [(5, 1, 300, "flow")] * 2 == [(r["role"], r["number"], r["count"], r["detail"]) for r in frames]
    assert 2 == len({row["link"] for row in frames})


def test_a_frame_has_a_row_for_each_of_its_messages(rows):
    """In the queue of each, at the time of the frame; a message that was not sent has no known queue."""
    found = rows("kept 1 2, transferred 1 2, settled_on_link 3, disposed 1 2, reached 3")
    by = {word: [row for row in found if row["carries"] == code] for code, word in enumerate(CARRIES)}

    assert [(1, "q"), (2, "q"), (3, None)] == [(row["n"], row["queue"]) for row in by["deliver"]]
    assert [(1, 8), (2, 8)] == [(row["n"], row["at_ns"] // 1_000_000) for row in by["acknowledge"]]
    assert [(False, True), (False, True), (True, True)] == [(row["settled"], row["whole"]) for row in by["deliver"]]


def test_a_link_of_no_protocol_voids_the_trial(packed, again, tmp_path):
    packed("kept 1, transferred 1")
    path = tmp_path / "link-1.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"protocol":"amqp"', b'"protocol":"mqtt"', 1))

    assert "a link that carries 'mqtt'" in again().record.void


def test_a_transaction_on_the_wire_has_the_name_of_the_broker(rows):
    """On the link it does not void the trial; anywhere else it does."""
    (frame,) = rows("kept 1, framed flow transaction=00x1", Op.FRAME)

    assert frame["txn"] is None


@pytest.mark.parametrize("name", ["", "t", "T1", "1", "t1x", "t-1", "t1\n", "t1234567890"])
def test_a_transaction_that_is_not_ours_voids_the_trial(packed, name):
    with pytest.raises(HistoryError, match="is not one of this suite"):
        packing._number(Event(0, 1, Op.COMMIT, Phase.OK, transaction=name))

    assert (
        f"transaction {name!r} is not one of this suite" == packed([*history("kept 1"), *sent(1, tx=name)]).record.void
    )


@pytest.mark.parametrize("ended", [Ended.DIED, Ended.INTERRUPTED])
def test_a_process_that_died_voids_the_trial(packed, ended):
    found = packed(ended={"drain-1": ended})

    assert (None, f"drain-1.jsonl: the process {ended}") == (found.parquet, found.record.void)


def test_a_process_killed_by_the_fault_does_not(packed):
    assert "" == packed(ended={"consumer-1": Ended.KILLED_BY_FAULT}).record.void


def test_a_missing_footer_voids_the_trial(packed, again, tmp_path):
    packed()
    path = tmp_path / "drain-2.jsonl"
    path.write_bytes(b"\n".join(path.read_bytes().splitlines()[:-1]) + b"\n")

    assert "no footer" in again().record.void
    assert not (tmp_path / FILE).exists()


def test_a_void_record_is_believed(packed):
    found = packed(about=record(void="the broker did not start"))

    assert (None, "the broker did not start") == (found.parquet, found.record.void)


def test_a_history_of_another_trial_voids_this_one(packed, again):
    packed().parquet.unlink()

    assert "of t" in again(msgspec.structs.replace(record(), trial="other")).record.void


def test_without_the_orchestrator_nothing_is_believed(packed, again, tmp_path):
    packed()
    (tmp_path / FILE).unlink()
    (tmp_path / "orchestrator.jsonl").unlink()

    assert "orchestrator" in again().record.void


@pytest.fixture
def several(tmp_path):
    """Write five trials, the third of which is torn, in a folder of this name."""

    def of(name):
        places = [tmp_path / name / trial for trial in "abcde"]
        trials = [(place, write(place, HISTORY, record(place.name))) for place in places]
        path = places[2] / "drain-1.jsonl"
        path.write_bytes(path.read_bytes()[:-20])
        return trials

    return of


@pytest.fixture
def started(monkeypatch):
    """Let two processes pack the smallest histories, and return those that were started, after `ended` of each."""
    monkeypatch.setattr(packing, "MUCH", 0)
    monkeypatch.setattr(packing.processes, "cores", lambda: 2)
    found = []

    class Started(subprocess.Popen):
        ended = staticmethod(lambda process: None)

        def __init__(self, *words, **options):
            super().__init__(*words, **options)
            found.append(self)
            self.ended(self)

    monkeypatch.setattr(packing.subprocess, "Popen", Started)
    return found


@pytest.fixture
def packed_here(monkeypatch):
    """The trials that this process has packed."""
    found, pack = [], packing._pack
    monkeypatch.setattr(packing, "_pack", lambda folder, *words: (found.append(folder.name), pack(folder, *words))[1])
    return found


def outcome(found):
    """What a call of `compact_all` returned and wrote, without the folder."""
    written = [each.parquet.with_name(name) for each in found if each.parquet for name in (FILE, SOURCES)]
    return [each.record for each in found], [path.read_bytes() for path in written]


def test_several_processes_pack_as_one_does(several, started, packed_here):
    """They pack everything but a void trial, of which this process gives the reason. Packed trials start none."""
    trials = several("side by side")
    found = packing.compact_all(trials)
    one = [packing.compact(*trial) for trial in several("one by one")]

    assert outcome(one) == outcome(found)
    assert ["", "", "drain-1", "", ""] == [each.record.void[:7] for each in found]
    assert [0, 0] == [process.returncode for process in started]
    assert ["c", *"abcde"] == packed_here

    packing.compact_all([*trials[:2], *trials[3:]])
    assert 2 == len(started)


def test_what_a_killed_process_left_is_packed_here(several, started, packed_here, monkeypatch):
    monkeypatch.setattr(packing.subprocess.Popen, "ended", staticmethod(subprocess.Popen.kill))
    found = packing.compact_all(several("side by side"))

    assert [-signal.SIGKILL] * 2 == [process.returncode for process in started]
    assert [*"abcde"] == packed_here
    assert outcome([packing.compact(*trial) for trial in several("one by one")]) == outcome(found)


def test_an_error_of_another_process_is_raised_here(several, started, packed_here):
    """A folder that nothing can be written to, also by root: the name of the packed file is taken."""
    trials = several("trials")
    (trials[0][0] / FILE).mkdir()

    with pytest.raises(IsADirectoryError):
        packing.compact_all(trials)
    assert (2, ["a"]) == (len(started), packed_here)


def test_without_processes_all_is_packed_here(several, started, packed_here, monkeypatch):
    def refused(*_words, **_options):
        raise BlockingIOError

    monkeypatch.setattr(packing.subprocess, "Popen", refused)
    assert 5 == len(packing.compact_all(several("trials")))
    assert [*"abcde"] == packed_here


@pytest.mark.parametrize(
    ("name", "value"),
    [("MUCH", packing.MUCH), ("processes.cores", lambda: 1)],
    ids=["little", "one core"],
)
def test_a_little_or_one_core_starts_no_process(several, started, monkeypatch, name, value):
    monkeypatch.setattr(f"conformance.judge.input.packing.{name}", value)
    packing.compact_all(several("trials"))

    assert [] == started


PACKS = """
import pathlib, sys
from conformance import records
from conformance.judge.input import packing
packing.MUCH, packing.processes.cores = 0, lambda: 2
packing.compact_all([(path, records.read(path / "trial.json", records.TrialRecord)) for path in map(pathlib.Path, sys.argv[1:])])
"""


def read_by(process, pipe):
    """Return the open end of a pipe as soon as a child of the process reads the other one."""
    until = time.monotonic() + 60
    while True:
        with contextlib.suppress(OSError):  # nothing reads it yet
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_the_one_that_started_it(tmp_path, number):
    """Each is kept in the middle of a trial, by a history that is a pipe."""
    places = [tmp_path / "a", tmp_path / "b"]
    for place in places:
        records.save(write(place, HISTORY, record(place.name)), place / "trial.json")
        os.mkfifo(place / "publisher-9.jsonl")
    packs = subprocess.Popen([sys.executable, "-c", PACKS, *places], stderr=subprocess.PIPE, start_new_session=True)
    with packs, contextlib.ExitStack() as pipes:
        for place in places:
            pipes.callback(os.close, read_by(packs, place / "publisher-9.jsonl"))
        workers, parts = psutil.Process(packs.pid).children(), list(tmp_path.rglob("*.part"))
        os.killpg(packs.pid, number)
        errors = packs.stderr.read().decode()
        left = psutil.wait_procs(workers, timeout=10)[1]

    assert (2, [], 2, -number) == (len(workers), left, len(parts), packs.returncode)
    if number == signal.SIGINT:
        assert [1, 1] == [errors.count(word) for word in ("Traceback", "KeyboardInterrupt")]
        assert [] == list(tmp_path.rglob("*.part"))
