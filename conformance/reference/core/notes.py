"""What a protocol keeps over a restart beside messages: short values, each under a key.

The journal has them as messages of one queue that no client can name, so that a note is stored in one record with the
message or the outcome that it is about, and compaction copies it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from conformance.reference.core.effects import Effect
from conformance.reference.store.commit import do_nothing
from conformance.reference.store.records import NOTES, Removed, Stored


class Notes:
    """The notes of one broker; `take_id` gives an id that no message has. A value has at most 65,535 bytes."""

    def __init__(self, take_id: Callable[[], int]) -> None:
        self._take_id = take_id
        self._ids: dict[bytes, int] = {}
        self.found: dict[bytes, bytes] = {}
        """What a start has found; who reads it empties it."""

    def restored(self, stored: Iterable[Stored]) -> list[Stored]:
        """Take the notes out of what a start has found, and return the messages."""
        messages = []
        for each in stored:
            if each.queue == NOTES:
                self._ids[each.bare] = each.id
                self.found[each.bare] = each.rest
            else:
                messages.append(each)
        return messages

    def keep(self, key: bytes, value: bytes = b"") -> Effect:
        """Make a note under a key, and remove the one that was there."""
        old, id = self._ids.get(key), self._take_id()
        self._ids[key] = id
        stored = Stored(id, 1, NOTES, 0, value, key)
        records = (stored,) if old is None else (Removed(old), stored)
        return Effect(records, do_nothing, partial(self._undo, key, old))

    def drop(self, key: bytes) -> list[Effect]:
        """The end of a note; nothing where the key has none."""
        id = self._ids.pop(key, None)
        return [] if id is None else [Effect((Removed(id),), do_nothing)]

    def _undo(self, key: bytes, old: int | None) -> None:
        """It could not be stored: the key has what it had before."""
        del self._ids[key]
        if old is not None:
            self._ids[key] = old
