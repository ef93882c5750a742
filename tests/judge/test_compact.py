"""What is packed, and what voids a trial."""

import gc
import os

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from judge_histories import record, write
from judge_words import history, sent

from conformance import records
from conformance.errors import HistoryError
from conformance.history import Ended, Event, Op, Phase, parse_message
from conformance.judge.input import packing
from conformance.judge.input.packing import FILE, OP_CODE, PHASE_CODE, SCHEMA, SOURCES
from conformance.protocols.ties import CARRIES

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


def test_the_columns_of_a_process_and_its_trial(tmp_path):
    """A process without a number is the first of its role; a broker that names no flush interval has that of 100 ms."""
    events = history("kept 1, handed 1 consumer=3, killed")
    found = {}
    for name, flush_ms in (("a", 0), ("b", 7)):
        about = write(tmp_path / name, events, record(name, flush_ms=flush_ms))
        for row in pq.read_table(packing.compact(tmp_path / name, about).parquet).to_pylist():
            found[name, row["process"]] = (row["trial"], row["scenario"], row["role"], row["number"], row["flush_ns"])

    assert found == {
        (name, process): (name, "s", role, number, flush_ns)
        for name, flush_ns in (("a", 100_000_000), ("b", 7_000_000))
        for process, role, number in (("publisher-1", 0, 1), ("consumer-3", 1, 3), ("orchestrator", 3, 1))
    }


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
        void = "consumer-1.jsonl is gone: events.parquet was made of it. Put it back, or record the run again"
        assert (None, void) == (found.parquet, found.record.void)

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

    assert "its histories are of another run, r" == packing.compact(tmp_path, about, runs={"mine"}).record.void


@pytest.mark.parametrize(
    ("field", "was", "other"), [("scenario", "s", "u"), ("arm", "subject", "control"), ("seed", 1, 2)]
)
def test_a_header_that_contradicts_its_record(tmp_path, field, was, other):
    about = msgspec.structs.replace(write(tmp_path, HISTORY), **{field: other})
    void = f"consumer-1.jsonl: its {field} is {was}, and that of trial.json is {other}"

    assert void == packing.compact(tmp_path, about).record.void


def test_a_history_under_the_name_of_another_process(packed, again, tmp_path):
    packed()
    (tmp_path / SOURCES).unlink()
    (tmp_path / "publisher-1.jsonl").rename(tmp_path / "publisher-2.jsonl")

    assert "publisher-2.jsonl: it is publisher-1 of t" == again().record.void


@pytest.mark.parametrize("process", ["stranger-1", "publisher-12345", "publisher-1x", "a publisher"])
def test_a_process_of_an_unknown_role_voids_the_trial(packed, process):
    void = f"{process}: this judge does not know a process of that name"

    assert void == packed([*HISTORY, (process, {"op": Op.CONNECT, "phase": Phase.OK})]).record.void


def test_histories_of_two_runs_void_the_trial(packed, again, tmp_path):
    packed()
    path = tmp_path / "drain-1.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"run":"r"', b'"run":"s"', 1))

    assert "its histories are of 2 runs: r and s" == again().record.void


def test_a_number_that_does_not_fit_voids_the_trial(packed):
    void = packed(f"kept 1, of publisher-1 SEND INVOKE p1:2 count={1 << 63}").record.void

    assert void.startswith("publisher-1: a number does not fit its column: ")


def test_a_trial_without_an_event_is_void(packed):
    assert "no process recorded anything" == packed([]).record.void


def test_all_trials_of_a_run(tmp_path):
    """Each is packed for these runs, and each file is read by the caller's `checksum`."""
    trials = [(tmp_path / name, write(tmp_path / name, HISTORY, record(name))) for name in "ab"]
    asked = []

    def checksum(path):
        asked.append(path)
        return records.checksum(path)

    found = packing.compact_all(trials, {"r"}, checksum)
    assert [folder / FILE for folder, _ in trials] == [each.parquet for each in found]
    assert {path for folder, _ in trials for path in (*records.evidence(folder), folder / FILE)} == set(asked)

    found = packing.compact_all(trials, {"mine"}, checksum)
    assert ["its histories are of another run, r"] * 2 == [each.record.void for each in found]


def test_growing_numbers_are_stored_as_differences(packed):
    """And every other value in a dictionary, but for what has two values only."""
    group = pq.read_metadata(packed().parquet).row_group(0)
    columns = [group.column(at) for at in range(len(SCHEMA))]
    kinds = {
        "DELTA_BINARY_PACKED": {"sequence", "at_ns", "due_ns", "n"},
        "RLE_DICTIONARY": {field.name for field in SCHEMA if field.type != pa.bool_()},
    }
    kinds["RLE_DICTIONARY"] -= kinds["DELTA_BINARY_PACKED"]

    assert kinds == {kind: {each.path_in_schema for each in columns if kind in each.encodings} for kind in kinds}


def test_a_row_group_has_at_least_so_many_rows(packed, tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "ROWS", 4)
    table = pq.read_table(packed().parquet).slice(0, 10).combine_chunks()
    packing._write(table.to_batches(max_chunksize=2), tmp_path / "part")
    found = pq.read_metadata(tmp_path / "part")

    assert [4, 4, 2] == [found.row_group(at).num_rows for at in range(found.num_row_groups)]


def test_a_clock_that_runs_backwards_is_refused(packed, tmp_path):
    """The order of events decides which message is late, and which was confirmed before a fault."""
    about = write(tmp_path, HISTORY)
    path = tmp_path / "publisher-1.jsonl"
    first = path.read_text().splitlines()[1]
    early = first.replace('"at_ns":1000000', '"at_ns":9000000')
    path.write_text(path.read_text().replace(first, early))

    assert first != early
    assert "publisher-1.jsonl: the clock runs backwards" in packing.compact(tmp_path, about).record.void


def test_a_file_of_the_format_before_is_made_anew(packed, tmp_path):
    """Its columns are the same, and it is as the version before made and recorded it."""
    first = packed("put t1 1, committed t1")
    rows = pq.read_table(first.parquet)
    pq.write_table(rows.slice(0, 1).replace_schema_metadata({"conformance": "1"}), first.parquet)
    made = records.read(tmp_path / SOURCES, packing.Packed)
    made = msgspec.structs.replace(made, parquet=records.checksum(first.parquet))
    records.save(made, tmp_path / SOURCES)
    again = packing.compact(tmp_path, first.record)

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
        # No process asked for a commit of that name.
        ("put t1 1, wrote t1", [(Phase.INVOKE, None, 1)]),
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


def test_a_fault_is_read_from_histories_alone(tmp_path):
    """Not from a folder or a link of such a name."""
    write(tmp_path / "other", "kept 1, killed")
    about = write(tmp_path / "t", "kept 1", record(void="the disk was full"))
    (tmp_path / "t" / "folder.jsonl").mkdir()
    (tmp_path / "t" / "link.jsonl").symlink_to(tmp_path / "other" / "orchestrator.jsonl")

    assert not packing.compact(tmp_path / "t", about).record.void_after_fault


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
    path.write_bytes(path.read_bytes().replace(b'"protocol":"amqp"', b'"protocol":"ftp"', 1))

    assert "a link that carries 'ftp'" in again().record.void


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
@pytest.mark.parametrize("process", ["drain-1", "link-1"])
def test_a_process_that_died_voids_the_trial(packed, process, ended):
    found = packed("kept 1, framed flow, settled 1", ended={process: ended})

    assert (None, f"{process}.jsonl: the process {ended}") == (found.parquet, found.record.void)


def test_a_process_that_died_says_how(packed, again, tmp_path):
    packed(ended={"drain-1": Ended.DIED})
    path = tmp_path / "drain-1.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"detail":""', b'"detail":"by signal 9"'))

    assert "drain-1.jsonl: the process died: by signal 9" == again().record.void


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
    (tmp_path / SOURCES).unlink()
    (tmp_path / "orchestrator.jsonl").unlink()

    assert "the history of the orchestrator is missing" == again().record.void


def test_a_period_ends_with_a_fault(rows):
    """An answer is in the period of its request, whenever it is read; a drain is in that of its time."""
    found = rows("kept 1, sent 2, sent 3, killed, confirmed 2, sent 4, killed, no_answer 3, came 1")
    sends = [row for row in found if row["op"] == OP_CODE[Op.SEND]]
    periods = {n: [row["period"] for row in sends if row["n"] == n] for n in (1, 2, 3, 4)}

    assert {1: [0, 0], 2: [0, 0], 3: [0, 0], 4: [1]} == periods
    assert [2] == [row["period"] for row in found if row["op"] == OP_CODE[Op.DRAIN]]
    assert [0, 1] == sorted(row["period"] for row in found if row["phase"] == PHASE_CODE[Phase.FIRED])


def test_without_a_fault_all_is_one_period(rows):
    assert {0} == {row["period"] for row in rows("kept 1, took 1, settled")}


@pytest.mark.parametrize("collecting", [True, False])
def test_the_garbage_collector_is_as_it_was(tmp_path, collecting):
    """It is off while trials are packed."""
    trials = [(tmp_path / name, write(tmp_path / name, HISTORY, record(name))) for name in "ab"]
    seen = []

    def checksum(path):
        seen.append(gc.isenabled())
        return records.checksum(path)

    try:
        if not collecting:
            gc.disable()
        packing.compact_all(trials, (), checksum)
        assert collecting == gc.isenabled()
    finally:
        gc.enable()
    assert {False} == set(seen)
