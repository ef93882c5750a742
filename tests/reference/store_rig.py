"""A journal on bytes that forget: what a loss of power may leave of it, and a model of what must be there."""

from __future__ import annotations

import itertools

from conformance.reference.store import journal
from conformance.reference.store.commit import GroupCommit
from conformance.reference.store.journal import Journal
from conformance.reference.store.records import (
    Counted,
    Identified,
    Moved,
    QueueDeclared,
    QueueDeleted,
    Removed,
    Stored,
    changes,
)
from conformance.reference.store.recovery import recover

SMALL = 700
PAGE = 64
IDENTITIES = 3


def stored(n, queue="q", size=20, number=None, **fields):
    return Stored(n, number or n, queue, 0, b"", bytes([n % 256]) * size, **fields)


class Disk:
    """Segments in memory, and a journal that writes to them."""

    def __init__(self, segment_bytes):
        self.files = {}
        self.journal = Journal(recover({}), segment_bytes)

    def image(self):
        return {number: bytes(data) for number, data in self.files.items()}

    def put(self, *records, sync=True):
        """One batch, written and, if `sync`, known to be on disk."""
        write_all(self.files, self.journal.writes(records))
        self.journal.written()
        if sync:
            self.journal.synced(self.journal.sequence)


def write_all(files, writes):
    for write in writes:
        if write.create:
            files[write.segment] = bytearray(write.create)
        _put(files, write)


class Model:
    """What a journal says, kept the plain way."""

    def __init__(self):
        self.messages, self.identities = {}, {}

    def apply(self, record):
        """The model after a record."""
        after = Model()
        after.messages, after.identities = dict(self.messages), dict(self.identities)
        if isinstance(record, QueueDeleted):
            after.messages = {id: m for id, m in after.messages.items() if m.queue != record.name}
            after.identities.pop(record.name, None)
        for change in changes(record):
            after.change(change)
        return after

    def change(self, change):
        messages = self.messages
        match change:
            case Stored(id):
                messages[id] = change
            case Removed(id):
                messages.pop(id, None)
            case Counted(id, failures) if id in messages:
                messages[id] = messages[id]._replace(failures=failures)
            case Moved(id, number, queue) if id in messages:
                messages[id] = messages[id]._replace(number=number, queue=queue)
            case Identified(queue, identity):
                known = [each for each in self.identities.get(queue, []) if each != identity]
                self.identities[queue] = [*known, identity][-IDENTITIES:]

    def __eq__(self, other):
        return (self.messages, self.identities) == (other.messages, other.identities)

    __hash__ = None


def content(image):
    """What a start finds, as a model; of the ids those that matter."""
    found, model = recover(image), Model()
    model.messages = found.messages
    model.identities = {queue: ids[-IDENTITIES:] for queue, ids in found.identities.items()}
    return model


class Machine:
    """A disk that keeps what was synced; of what was written since, any pages. A batch is crashed before it is whole.

    `durable` is what is on it for sure, `dirty` the writes since, `states` what the journal said after each record of
    them, the first that of `durable`. `crashed` counts the images that were looked at.
    """

    def __init__(self, image=None, slice_bytes=256, few=2):
        self.durable = {number: bytearray(data) for number, data in (image or {}).items()}
        self.dirty = []
        self.states = [content(self.image())]
        self.crashed = 0
        self.compacted = 0
        journal.SLICE, journal.FEW = slice_bytes, few  # the test puts them back
        self.commit = GroupCommit(Journal(recover(self.image()), SMALL, IDENTITIES))

    def image(self, *writes):
        """The disk with these writes on it."""
        files = {number: bytearray(data) for number, data in self.durable.items()}
        for write in writes:
            _put(files, write)
        return {number: bytes(data) for number, data in files.items()}

    def tend(self):
        """What the disk's thread does between two batches."""
        while (wanted := self.commit.wanted()) is not None:
            file = self.image(*self.dirty)[wanted.segment]
            self.commit.supply(wanted, file[wanted.offset : wanted.offset + wanted.length])

    def batch(self, *records, sync=True, look=None):
        """One batch; `look` is called with each image that a crash may leave, and how many records are in it whole."""
        for record in records:
            (self.commit.add if sync else self.commit.add_early)(record, lambda: None)
        self.tend()
        self.compacted += self.commit._compaction.has_copies
        batch = self.commit.take(early=not sync)
        self.states += itertools.islice(itertools.accumulate(records, Model.apply, initial=self.states[-1]), 1, None)
        for whole in batch.writes:
            if whole.create:
                self._settle()
                self.durable[whole.segment] = bytearray(whole.create)
            write = whole._replace(create=0)
            if look is not None:
                for image in self.crashes(write):
                    self.crashed += 1
                    look(image)
            self.dirty.append(write)
        if batch.sync:
            self._settle()
            self.states = self.states[-1:]
        self.commit.finished()
        self._delete(batch.unneeded, look)

    def no_room(self, record):
        """A batch that finds no room; why it was refused."""
        reasons = []
        self.commit.add(record, reasons.clear, reasons.append)
        self.tend()
        batch = self.commit.take()
        self.commit.no_space()
        self.commit.room(True)
        self._delete(batch.unneeded, None)
        return reasons

    def crashes(self, last):
        """Every cut of the last write, and pages missing: each alone, each left alone, and alternating ones."""
        for cut in range(len(last.data) + 1):
            yield self.image(*self.dirty, last._replace(data=last.data[:cut]))
        pages = [page for write in (*self.dirty, last) for page in _pages(write)]
        for place in range(len(pages)):
            yield self.image(*pages[:place], *pages[place + 1 :])
            yield self.image(pages[place])
        yield self.image(*pages[::2])
        yield self.image(*pages[1::2])

    def some_pages(self, chosen):
        """The image with only those pages that are not synced and of which `chosen(how many)` says so."""
        pages = [page for write in self.dirty for page in _pages(write)]
        return self.image(*itertools.compress(pages, chosen(len(pages))))

    def _delete(self, segments, look):
        for segment in segments:
            del self.durable[segment]
            if look is not None:
                look(self.image(*self.dirty))

    def _settle(self):
        for write in self.dirty:
            _put(self.durable, write)
        self.dirty = []


def _put(files, write):
    end = write.offset + len(write.data)
    files[write.segment][write.offset : end] = write.data


def _pages(write):
    """The parts of a write, as the pages of its file divide it."""
    at = write.offset
    end = at + len(write.data)
    while at < end:
        till = min(end, at - at % PAGE + PAGE)
        yield write._replace(offset=at, data=write.data[at - write.offset : till - write.offset])
        at = till


def declared(*names):
    return [QueueDeclared(name, 1) for name in names]
