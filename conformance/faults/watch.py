"""Watch the files of a broker's journal: the kernel reports each access or removal as it happens (inotify(7))."""

from __future__ import annotations

import ctypes
import errno
import io
import os
import pathlib
import struct

from conformance.errors import FaultError

_ACCESS, _MODIFY, _OPEN = 0x1, 0x2, 0x20
ACCESSES = _ACCESS | _MODIFY | _OPEN
"""A file is opened, read or written."""
REMOVALS = 0x200
"""A file is removed (IN_DELETE)."""

_EVENT = struct.Struct("iIII")


def cannot() -> str:
    """Return why no folder can be watched here; empty if it can."""
    return "" if hasattr(ctypes.CDLL(None), "inotify_init1") else "the files of a journal can be watched on Linux only"


class FileWatch:
    """Counts the events of one kind in a folder, and with `below` in the folders below it, that are there now.

    Raises `FaultError` if the folder cannot be watched.
    """

    def __init__(self, folder: pathlib.Path, events: int, *, below: bool = False) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.seen = 0
        descriptor = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if descriptor < 0:
            raise FaultError(f"the journal cannot be watched: {os.strerror(ctypes.get_errno())}")
        self._events = io.FileIO(descriptor)
        folders = [pathlib.Path(place) for place, _, _ in os.walk(folder)] if below else []
        for each in folders or [folder]:
            if libc.inotify_add_watch(descriptor, os.fsencode(each), events) < 0:
                if (error := ctypes.get_errno()) == errno.ENOENT and each != folder:
                    continue  # removed since it was listed
                self.close()
                raise FaultError(f"{each} cannot be watched: {os.strerror(error)}")

    def fileno(self) -> int:
        return self._events.fileno()

    def read(self) -> int:
        """Return how many events were seen until now, or until it was closed.

        An event of the folder itself has no name, and does not count.
        """
        while not self._events.closed and (data := self._events.read(1 << 16)):
            at = 0
            while at < len(data):
                *_, length = _EVENT.unpack_from(data, at)
                at += _EVENT.size + length
                self.seen += length > 0
        return self.seen

    def close(self) -> None:
        self._events.close()
