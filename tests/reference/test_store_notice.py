"""What a start says of the journal's end, and what many queues cost it."""

from __future__ import annotations

import pytest

from conformance.reference.liars import behaviour
from conformance.reference.settings import MAX_NAME, Settings
from conformance.reference.store.journal import SEGMENT_BYTES, Journal
from conformance.reference.store.records import Closed, QueueDeclared
from conformance.reference.store.recovery import CorruptJournal, recover

from .store_rig import Disk, stored


@pytest.fixture
def stopped(start, peer, tmp_path):
    """A data directory of a broker that was stopped cleanly, or killed."""

    def one(*, cleanly=True):
        broker = start()
        peer(broker).publish(3)
        if cleanly:
            assert broker.stop() == 0
        else:
            broker.kill()
        return sorted((tmp_path / "data").glob("*.journal"))

    return one


def _said(broker):
    """Its standard error, once it has ended."""
    broker.kill()
    return broker.errors.read_text()


def test_a_clean_stop_has_no_notice(start, stopped):
    """Nothing is missing, and nothing is said; a new directory has nothing to say either."""
    stopped()

    assert "" == _said(start())
    assert "" == _said(start(data="new"))


HARMS = ["zeroed", "cut", "garbled", "missing"]


def _harm(journal, harm):
    """Take the last record of a journal away, or the whole file."""
    data = journal.read_bytes()
    last = len(data.rstrip(b"\0"))
    if harm == "missing":
        journal.unlink()
    elif harm == "cut":
        journal.write_bytes(data[: last - 30])
    else:
        journal.write_bytes(data[: last - 30] + (bytes(30) if harm == "zeroed" else b"x" * 30) + data[last:])


@pytest.mark.parametrize("harm", HARMS)
def test_a_tail_that_is_not_there_after_a_kill_is_said(start, stopped, harm):
    """The broker goes on with what is left, and its user knows that something may be missing."""
    (journal,) = stopped(cleanly=False)
    _harm(journal, harm)
    said = _said(start())

    assert 1 == said.count("\n")
    assert ("has no journal" if harm == "missing" else "the journal") in said


@pytest.mark.parametrize("harm", HARMS)
def test_a_tail_that_is_not_there_after_a_clean_stop_is_refused(start, stopped, harm):
    """A file of its own says which record was the last. A journal of before, from a backup, ends too early as well."""
    (journal,) = stopped()
    _harm(journal, harm)

    with pytest.raises(
        AssertionError, match=r"the journal ends at record \d+, and the broker was stopped at record \d+"
    ):
        start()


@pytest.fixture
def damaged():
    """A journal of three messages and a clean stop, with one bit of the second body flipped."""
    disk = Disk(4096)
    for entry in (QueueDeclared("q", 1), *(stored(n) for n in (1, 2, 3)), Closed()):
        disk.put(entry)
    ((number, segment),) = disk.image().items()
    at = segment.index(stored(2).bare)
    return {number: segment[: at + 3] + bytes([segment[at + 3] ^ 1]) + segment[at + 4 :]}


def test_a_damaged_record_is_refused(damaged):
    with pytest.raises(CorruptJournal, match=r"00000001\.journal\): record 3 cannot be read"):
        recover(damaged)


@pytest.mark.parametrize(
    ("liar", "left", "altered"), [("skips-damaged-records", [1, 3], []), ("trusts-damaged-records", [1, 2, 3], [2])]
)
def test_a_liar_goes_on_behind_a_damaged_record(damaged, liar, left, altered):
    found = recover(damaged, behaviour(liar).damaged).messages

    assert left == [*found]
    assert altered == [n for n, message in found.items() if message.bare != stored(n).bare]


def test_a_kill_is_said(start, stopped):
    """A killed broker leaves the same journal as one whose last records are gone."""
    (journal,) = stopped(cleanly=False)
    said = _said(start())

    assert "the broker was killed, or the end of the journal is missing; it goes on behind record" in said
    assert journal.name in said


def test_the_most_queues_with_the_longest_names_leave_room_in_a_segment():
    """Each segment begins with all names: with 17,500 of them each record became a segment of its own."""
    journal = Journal(recover({}))
    names = [f"{n:0{MAX_NAME}}" for n in range(Settings().max_queues)]
    journal.writes([QueueDeclared(name, 1) for name in names])
    journal.written()
    begun = len(journal.segments)
    for n in range(1, 1001):
        journal.writes([stored(n, names[0], size=1024)])
        journal.written()

    assert len(journal.segments) - begun <= 2
    assert max(journal.segments.values()) == SEGMENT_BYTES
