"""The reader in blocks and the exact reader take the same files, and read the same from them."""

import pathlib
import tempfile

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from judge_cases import TABLES
from judge_histories import write
from judge_words import history as words

from conformance import history
from conformance.errors import HistoryError
from conformance.history import Ended, Event, Op, Phase, Recorder, bare_header
from conformance.judge.input import blocks, packing

SMALL = 300
"""Bytes of a block here, so that a file of some lines has several."""


def exact(path):
    """Return what the exact reader says of a file: all of it, or None if it refuses it."""
    try:
        found = history.read(path)
    except HistoryError:
        return None
    return found.header, found.events, found.footer


def in_blocks(path):
    try:
        found = list(blocks.read(path))
    except HistoryError:
        return None
    events = [event for block in found for event in block.events]
    columns = [row for block in found for row in zip(*block.columns, strict=True)]
    assert [msgspec.structs.astuple(event) for event in events] == columns
    assert [None] * (len(found) - 1) == [block.footer for block in found[:-1]]
    return found[0].header, tuple(events), found[-1].footer


@pytest.fixture(autouse=True, params=[SMALL, blocks.SIZE])
def size(request, monkeypatch):
    monkeypatch.setattr(blocks, "SIZE", request.param)


EVENTS = [
    {"op": Op.CONNECT, "phase": Phase.OK, "queue": "q", "count": 100},
    {"op": Op.SEND, "phase": Phase.INVOKE, "queue": "q", "message": "p1:1", "durable": True, "due_ns": 7},
    {"op": Op.DELIVER, "phase": Phase.OK, "epoch": 1, "message": "ID:x", "delivery": "1", "link": "l", "intact": True},
    {"op": Op.BROKER, "phase": Phase.FAIL, "epoch": 2, "detail": 'a "quoted" \\ text\n\u00e9 \U0001f600 null'},
]


def written(path, events=EVENTS, ended=Ended.FINISHED):
    recorder = Recorder(path, bare_header("p"))
    for sequence, fields in enumerate(events):
        recorder.append(Event(sequence=sequence, at_ns=1_000 + sequence, **fields))
    recorder.close()
    history.close_history(path, ended)
    return path


@pytest.fixture
def path(tmp_path):
    return written(tmp_path / "p.jsonl")


def line(number, text):
    """Replace this line, without its end, in a file."""
    return lambda body: b"\n".join([*body.split(b"\n")[:number], text, *body.split(b"\n")[number + 1 :]])


def edit(old, new):
    def changed(body):
        assert old in body
        return body.replace(old, new, 1)

    return changed


LITERALS = {
    "as it was": (lambda body: body, True),
    "no last newline": (lambda body: body[:-1], True),
    "a carriage return": (lambda body: body.replace(b"\n", b"\r\n"), True),
    "a lone carriage return": (edit(b'}\n{"record":"event"', b'}\r{"record":"event"'), False),
    "spaces behind": (edit(b"}\n", b"} \t\n"), True),
    "spaces before": (edit(b'\n{"record":"event"', b'\n  {"record":"event"'), True),
    "spaces within": (edit(b'"op":"connect"', b'"op" : "connect"'), True),
    "an empty line": (edit(b"}\n", b"}\n\n"), False),
    "a line of spaces": (edit(b"}\n", b"}\n  \n"), False),
    "an empty line at the end": (lambda body: body + b"\n", False),
    "an empty line at the start": (lambda body: b"\n" + body, False),
    "two records in a line": (edit(b'}\n{"record":"event"', b'}{"record":"event"'), False),
    "two records in a line, and an empty line": (edit(b'}\n{"record":"event"', b'} {"record":"event"'), False),
    "a record over two lines": (edit(b'"op":"connect"', b'\n"op":"connect"'), False),
    "two records in a line, and one over two": (
        lambda body: edit(b'"op":"send"', b'\n"op":"send"')(edit(b'}\n{"record":"event"', b'}{"record":"event"')(body)),
        False,
    ),
    "a byte-order mark": (lambda body: b"\xef\xbb\xbf" + body, False),
    "a byte-order mark in an event": (edit(b'\n{"record":"event"', b'\n\xef\xbb\xbf{"record":"event"'), False),
    "a key twice": (edit(b'"op":"connect"', b'"op":"send","op":"connect"'), True),
    "a sequence twice": (edit(b'"sequence":1', b'"sequence":9,"sequence":1'), True),
    "an unknown key": (edit(b'"op":"connect"', b'"later":[{"a":1e9}],"op":"connect"'), True),
    "an escaped key": (edit(b'"op":"connect"', b'"\\u006fp":"connect"'), True),
    "another order": (edit(b'"op":"connect","phase":"ok"', b'"phase":"ok","op":"connect"'), True),
    "the tag at the end": (edit(b'"record":"event",', b""), False),
    "null for what may be missing": (edit(b'"count":100', b'"count":null'), True),
    "null for a number": (edit(b'"op":"connect"', b'"epoch":null,"op":"connect"'), False),
    "null for an operation": (edit(b'"op":"connect"', b'"op":null'), False),
    "a missing key": (edit(b'"op":"connect",', b""), False),
    "a float": (edit(b'"count":100', b'"count":1.5'), False),
    "a whole float": (edit(b'"count":100', b'"count":100.0'), False),
    "an exponent": (edit(b'"count":100', b'"count":1e2'), False),
    "a leading zero": (edit(b'"count":100', b'"count":0100'), False),
    "a plus": (edit(b'"count":100', b'"count":+100'), False),
    "a minus": (edit(b'"count":100', b'"count":-100'), True),
    "minus zero": (edit(b'"count":100', b'"count":-0'), True),
    "NaN": (edit(b'"count":100', b'"count":NaN'), False),
    "infinity": (edit(b'"count":100', b'"count":Infinity'), False),
    "a number in a text": (edit(b'"count":100', b'"count":"100"'), False),
    "a huge number": (edit(b'"count":100', b'"count":' + b"9" * 400), True),
    "a number of 64 bits": (edit(b'"count":100', b'"count":18446744073709551615'), True),
    "a boolean for a number": (edit(b'"count":100', b'"count":true'), False),
    "a number for a boolean": (edit(b'"durable":true', b'"durable":1'), False),
    "a number for a text": (edit(b'"queue":"q"', b'"queue":1'), False),
    "a list": (edit(b'"queue":"q"', b'"queue":["q"]'), False),
    "an object": (edit(b'"queue":"q"', b'"queue":{"q":1}'), False),
    "an unknown operation": (edit(b'"op":"send"', b'"op":"sent"'), False),
    "an operation in capitals": (edit(b'"op":"send"', b'"op":"SEND"'), False),
    "an unknown record": (edit(b'"record":"event"', b'"record":"other"'), False),
    "no object": (line(2, b"[]"), False),
    "brackets without end": (line(2, b"[" * 100_000), False),
    "bytes that are no UTF-8": (edit(b'"queue":"q"', b'"queue":"\xff"'), False),
    "half a surrogate": (edit(b'"queue":"q"', b'"queue":"\\ud800"'), False),
    "the other half of a surrogate": (edit(b'"queue":"q"', b'"queue":"\\udc00"'), False),
    "a NUL": (edit(b'"queue":"q"', b'"queue":"\\u0000"'), True),
    "a control character": (edit(b'"queue":"q"', b'"queue":"\x01"'), False),
    "a single quote": (edit(b'"queue":"q"', b"'queue':\"q\""), False),
    "a comma too many": (edit(b'"count":100', b'"count":100,'), False),
    "a comment": (edit(b'"op":"connect"', b'/* */"op":"connect"'), False),
    "a sequence too high": (edit(b'"sequence":1', b'"sequence":2'), False),
    "the clock backwards": (edit(b'"at_ns":1002', b'"at_ns":999'), False),
    "the clock backwards later": (edit(b'"at_ns":1003', b'"at_ns":1001'), False),
    "the clock stands": (edit(b'"at_ns":1002', b'"at_ns":1001'), True),
    "a time before zero": (edit(b'"at_ns":1000', b'"at_ns":-1000'), True),
    "a footer too early": (lambda body: edit(b'\n{"record":"event"', b"\n" + body.split(b"\n")[-2] + b'\n{"record":"event"')(body), False),
    "a second footer": (lambda body: body + body.split(b"\n")[-2] + b"\n", False),
    "a line after the footer": (lambda body: body + body.split(b"\n")[1] + b"\n", False),
    "a second header": (lambda body: body.split(b"\n")[0] + b"\n" + body, False),
    "another count": (edit(b'"events":4', b'"events":5'), False),
    "another schema": (edit(b'"schema":1', b'"schema":2'), False),
    "no footer": (lambda body: b"\n".join(body.split(b"\n")[:-2]) + b"\n", False),
    "no header": (lambda body: body.split(b"\n", 1)[1], False),
    "a torn line": (lambda body: body[:-20], False),
    "only a header": (lambda body: body.split(b"\n")[0] + b"\n", False),
    "empty": (lambda _: b"", False),
    "one newline": (lambda _: b"\n", False),
}  # fmt: skip


@pytest.mark.parametrize("name", LITERALS)
def test_both_readers_agree(path, name):
    """`valid` is what a file like that is: without it, two readers that refuse all would agree."""
    change, valid = LITERALS[name]
    path.write_bytes(change(path.read_bytes()))
    found = exact(path)

    assert found == in_blocks(path)
    assert valid == (found is not None)


def test_each_block_ends_with_a_line(path, monkeypatch):
    monkeypatch.setattr(blocks, "SIZE", 1)

    assert [1, 1, 1, 1, 0] == [len(block.events) for block in blocks.read(path)]


@pytest.mark.parametrize(
    ("name", "words"), [("a line after the footer", "p.jsonl is not a valid history"), ("a float", "p.jsonl: Expected `int")]
)  # fmt: skip
def test_an_invalid_block_names_its_file(path, monkeypatch, name, words):
    monkeypatch.setattr(blocks, "SIZE", 1)
    change, _ = LITERALS[name]
    path.write_bytes(change(path.read_bytes()))

    with pytest.raises(HistoryError, match=words):
        list(blocks.read(path))


def test_a_file_without_events_is_valid(tmp_path):
    path = written(tmp_path / "p.jsonl", [])

    assert exact(path) == in_blocks(path)
    assert 0 == exact(path)[2].events


def test_a_torn_line_of_a_killed_process(tmp_path):
    path = tmp_path / "p.jsonl"
    recorder = Recorder(path, bare_header("p"))
    recorder.append(Event(0, 1, Op.SEND, Phase.INVOKE))
    recorder.close()
    with path.open("ab") as stream:
        stream.write(b'{"record":"event","sequ')
    history.close_history(path, Ended.KILLED_BY_FAULT)

    assert exact(path) == in_blocks(path)
    assert 1 == len(exact(path)[1])


def fields():
    text = st.none() | st.text(max_size=8)
    number = st.none() | st.integers(-(1 << 63), (1 << 64) - 1)
    flag = st.none() | st.booleans()
    return st.fixed_dictionaries(
        {"op": st.sampled_from(Op), "phase": st.sampled_from(Phase)},
        optional={
            "epoch": st.integers(0, 9),
            "message": st.none() | st.from_regex(r"p[0-9]{1,3}:[0-9]{1,3}", fullmatch=True) | st.text(max_size=4),
            **dict.fromkeys(("queue", "delivery", "transaction", "link", "fault", "detail"), text),
            **dict.fromkeys(("count", "first", "last", "due_ns", "connection"), number),
            **dict.fromkeys(("durable", "redelivered", "first_acquirer", "intact"), flag),
        },
    )


@st.composite
def mutations(draw):
    """Return a change of a file: some bytes are removed, repeated or replaced, or two lines change places."""
    kind = draw(st.sampled_from(("nothing", "bytes", "lines")))
    where, length = draw(st.floats(0, 1)), draw(st.integers(0, 30))
    new = draw(st.sampled_from((b"", b"\n", b" ", b"0", b"-", b'"', b"}", b"{", b",", b":", b"null", b"\xff", b"\r")))

    def changed(body):
        at = int(where * len(body))
        if kind == "bytes":
            return body[:at] + new + body[at + length :]
        if kind == "lines":
            found = body.splitlines(keepends=True)
            at = int(where * len(found))
            return b"".join([*found[:at], *found[at + 1 : at + 2], *found[at : at + 1 + length % 2], *found[at + 2 :]])
        return body

    return changed


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(events=st.lists(fields(), max_size=6), change=mutations())
def test_any_file_is_read_alike(events, change):
    with tempfile.TemporaryDirectory() as folder:
        path = written(pathlib.Path(folder) / "p.jsonl", events)
        path.write_bytes(change(path.read_bytes()))

        assert exact(path) == in_blocks(path)


def test_the_exact_reader_names_what_is_wrong(tmp_path):
    """With its file and line, and the first file goes first, although a later one cannot be packed."""
    about = write(tmp_path, words("kept 1 2, took 1, settled 2"))
    (tmp_path / "publisher-1.jsonl").rename(tmp_path / "strange-1.jsonl")
    path = tmp_path / "drain-1.jsonl"
    path.write_bytes(edit(b'"op":"drain"', b'"op":"rain"')(path.read_bytes()))
    with pytest.raises(HistoryError) as error:
        history.read(path)

    assert "drain-1.jsonl: line 2 is not a record" in str(error.value)
    assert str(error.value) == packing.compact(tmp_path, about).record.void


def test_nothing_is_left_of_a_trial_that_is_void(tmp_path):
    about = write(tmp_path, words("kept 1 2, took 1, settled 2"))
    path = tmp_path / "publisher-1.jsonl"
    path.write_bytes(path.read_bytes()[:-20])

    assert packing.compact(tmp_path, about).record.void
    assert [] == [path.name for path in tmp_path.iterdir() if path.suffix not in (".json", ".jsonl")]


@pytest.mark.parametrize("table", TABLES)
def test_every_literal_history_is_read_alike(tmp_path, table):
    histories = [part for cases in table.values() for case in cases.values() for part in case if isinstance(part, list)]
    assert histories
    for number, events in enumerate(histories):
        write(tmp_path / str(number), events)
        for path in (tmp_path / str(number)).glob("*.jsonl"):
            assert exact(path) == in_blocks(path) is not None


def test_blocks_make_no_difference(tmp_path, monkeypatch):
    """A transaction, its sync and the frames of a link: in one block or many, in one row group or many."""
    events = words("put t1 1 2 3, wrote 1, committed t1, wrote t1, acked_in t2 1 2, transferred 1 2, disposed 1 2")
    found = []
    for name, (size, rows) in {"one": (1 << 20, 1 << 20), "many": (100, 2)}.items():
        monkeypatch.setattr(blocks, "SIZE", size)
        monkeypatch.setattr(packing, "ROWS", rows)
        trial = packing.compact(tmp_path / name, write(tmp_path / name, events))
        assert (name == "many") == (pq.read_metadata(trial.parquet).num_row_groups > 2)
        found.append(pq.read_table(trial.parquet).to_pylist())

    assert found[0] == found[1]
