"""Look into the processes of a broker for how it reaches its journal, where its system calls do not say it.

`/proc/PID/maps` has the ring of libaio (`/[aio]`) and each mapped file, `/proc/PID/fdinfo` the flags of each open file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Container, Iterable, Iterator

_SYNCED = os.O_DSYNC
"""A bit of O_SYNC too (open(2))."""


@dataclasses.dataclass(frozen=True)
class JournalAccess:
    """By what a broker reaches its journal: more than writes and syncs of named files.

    `libaio`: it has a context of libaio. `mapped`: the files of the journal that are mapped for shared writing.
    `synced_writes`: a file of the journal is open with O_DSYNC or O_SYNC, so that a write is its own sync. `io_uring`:
    it has a ring.
    """

    libaio: bool = False
    mapped: frozenset[str] = frozenset()
    synced_writes: bool = False
    io_uring: bool = False

    @property
    def unnamed(self) -> bool:
        """Whether it makes calls for its journal that name no file: `strace -P` drops `io_submit` and `msync`."""
        return self.libaio or bool(self.mapped)


def look(pids: Iterable[int], journals: Container[str]) -> JournalAccess:
    """Return how these processes reach the files of a journal now (absolute paths).

    Threads share memory and descriptors, and a JVM has fifty threads: each process is looked at once.
    """
    found, processes = JournalAccess(), set[str]()
    for pid in pids:
        process = pathlib.Path("/proc", str(pid))
        with contextlib.suppress(OSError):  # the thread has ended
            group = next(line for line in (process / "status").read_text().splitlines() if line.startswith("Tgid:"))
            if group in processes:
                continue
            aio, mapped = _memory((process / "maps").read_text(errors="replace"), journals)
            processes.add(group)
            files = list(_open_files(process, journals))
            found = JournalAccess(
                found.libaio or aio,
                found.mapped | mapped,
                found.synced_writes or any(flags & _SYNCED for name, flags in files if name in journals),
                found.io_uring or any(name == "anon_inode:[io_uring]" for name, _ in files),
            )
    return found


def _memory(maps: str, journals: Container[str]) -> tuple[bool, frozenset[str]]:
    """Return whether there is a ring of libaio, and the files of the journal that are mapped for shared writing."""
    aio, mapped = False, set[str]()
    for line in maps.splitlines():
        _, mode, *rest = line.split(maxsplit=5)
        name = rest[-1] if len(rest) == 4 else ""
        aio = aio or name.startswith("/[aio]")
        if "w" in mode and "s" in mode and name in journals:
            mapped.add(name)
    return aio, frozenset(mapped)


def _open_files(process: pathlib.Path, journals: Container[str]) -> Iterator[tuple[str, int]]:
    """Yield the name of each open file; with its flags, which are octal there, if it is one of the journal."""
    for entry in (process / "fd").iterdir():
        with contextlib.suppress(OSError):  # it was closed meanwhile
            name = str(entry.readlink())
            flags = 0
            if name in journals:
                about = (process / "fdinfo" / entry.name).read_text().splitlines()
                flags = next(int(line.split()[1], 8) for line in about if line.startswith("flags:"))
            yield name, flags
