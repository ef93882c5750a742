"""Take from a Python what only Linux has: pidfds, /proc, inotify, strace, mounts. psutil still reads what it needs."""

import ctypes
import os
import pathlib
import select
import shutil
import signal
import socket

HIDDEN = {
    os: ["eventfd", "eventfd_read", "eventfd_write", "fdatasync", "memfd_create", "pidfd_open", "pipe2"],
    select: ["POLLRDHUP", "epoll"],
    signal: ["pidfd_send_signal"],
    socket: ["SOCK_CLOEXEC", "SOCK_SEQPACKET", "TCP_INFO"],
}
for module, names in HIDDEN.items():
    for name in [*names, *(name for name in dir(module) if name.lower().startswith("sched_") and module is os)]:
        delattr(module, name)

TOOLS = ("losetup", "mount", "strace", "unshare")
which = shutil.which
shutil.which = lambda name, *words, **more: None if name in TOOLS else which(name, *words, **more)


def hidden(read):
    def reads(path, *words, **more):
        if path.parts[:2] == ("/", "proc"):
            raise FileNotFoundError(2, "there is no /proc here", str(path))
        return read(path, *words, **more)

    return reads


for name in ("iterdir", "open", "read_bytes", "read_text", "readlink", "stat"):
    setattr(pathlib.Path, name, hidden(getattr(pathlib.Path, name)))


class Library(ctypes.CDLL):
    """The C library, without what only that of Linux has."""

    def __getattr__(self, name):
        if name.startswith("inotify") or name == "sync_file_range":
            raise AttributeError(name)
        return super().__getattr__(name)


ctypes.CDLL = Library
