"""Histories: what is written is read back, and what is torn is refused."""

import pytest

from conformance import history
from conformance.errors import HistoryError
from conformance.history import Ended, Op, Phase, Recorder, bare_header


@pytest.fixture
def path(tmp_path):
    return tmp_path / "p.jsonl"


def write(path, events=3, **options):
    recorder = Recorder(path, bare_header("p"), **options)
    for number in range(events):
        recorder.record(Op.SEND, Phase.INVOKE, queue="q", message=f"p1:{number}")
    return recorder


def test_what_was_written_is_read(path):
    write(path).close()
    history.close_history(path, Ended.FINISHED)

    assert ["p1:0", "p1:1", "p1:2"] == [event.message for event in history.read(path).events]


def test_nothing_is_lost_over_the_buffer(path):
    write(path, 5_000).close()
    history.close_history(path, Ended.FINISHED)

    assert 5_000 == len(history.read(path).events)


def test_write_through_is_in_the_kernel_at_once(path):
    write(path, 2, write_through=True)

    assert 3 == path.read_bytes().count(b"\n")


def test_no_footer_is_refused(path):
    write(path).close()

    with pytest.raises(HistoryError, match="no footer"):
        history.read(path)


def test_torn_line_of_a_killed_process_is_cut(path):
    write(path).close()
    with path.open("ab") as stream:
        stream.write(b'{"record":"event","sequ')
    history.close_history(path, Ended.KILLED_BY_FAULT)

    assert 3 == len(history.read(path).events)


def test_torn_line_of_any_other_process_is_refused(path):
    write(path).close()
    with path.open("ab") as stream:
        stream.write(b'{"record":"event","sequ')
    history.close_history(path, Ended.DIED)

    with pytest.raises(HistoryError, match="line 5 is not a record"):
        history.read(path)


@pytest.mark.parametrize(("line", "why"), [(2, "the footer counts 3"), (1, "no header")])
def test_missing_line_is_refused(path, line, why):
    write(path).close()
    history.close_history(path, Ended.FINISHED)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(text for number, text in enumerate(lines, 1) if number != line))

    with pytest.raises(HistoryError, match=why):
        history.read(path)


def test_repeated_sequence_is_refused(path):
    write(path).close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], lines[2]]))
    history.close_history(path, Ended.FINISHED)

    with pytest.raises(HistoryError, match="event 2 carries sequence 1"):
        history.read(path)


def test_corrupt_body_is_seen():
    body = bytearray(history.make_body("p1:1", 200))
    body[150] ^= 1

    assert not history.is_intact("p1:1", bytes(body))


def test_a_message_without_a_body():
    """No body is right only where none was sent."""
    assert b"" == history.make_body("p1:1", 0, "trial")
    assert history.is_intact("p1:1", b"", empty=True)
    assert not history.is_intact("p1:1", b"")
    assert not history.is_intact("p1:1", b"x", empty=True)


def test_a_process_that_was_killed_before_it_began_its_file(tmp_path):
    """It has none, and gets none: a footer alone would be no history."""
    assert 0 == history.close_history(tmp_path / "publisher-1.jsonl", Ended.DIED).events
    assert [] == list(tmp_path.iterdir())


def test_a_process_may_have_several_histories(path):
    """The others are flushed and closed with the first."""
    recorder, other = write(path, 1), path.with_name("p2.jsonl")
    recorder.beside(other, bare_header("p2"))
    recorder.histories[1].record(Op.SEND, Phase.INVOKE, queue="r", message="p1:9")
    recorder.flush()

    assert (2, 2) == (path.read_bytes().count(b"\n"), other.read_bytes().count(b"\n"))
    recorder.close()
