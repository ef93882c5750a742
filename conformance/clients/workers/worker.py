"""A worker process: it does the jobs that arrive over a socket, and ends when the harness hangs up.

`python -m conformance.clients.workers.worker DESCRIPTOR` forks one child for each job. A new Python with proton takes a
quarter of a second to start, a fork milliseconds, and a run needs two hundred of them. This process is single-threaded
and opens no connection, so that a fork inherits nothing that could be in use.

`... DESCRIPTOR VENDOR` does one job after another by a vendor's client: a JVM takes a second to start, and does not
survive a fork. After a job that failed, or whose call of the client did not return, the process ends.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import threading
import traceback

import msgspec

from conformance.clients.job import Job, Vendor
from conformance.clients.roles.play import run_job
from conformance.errors import ClientError
from conformance.protocols.jms.sessions import jvm

_CHUNK = 1 << 16
_MAX_FDS = 64


def main(control: socket.socket, vendor: Vendor | None) -> None:
    """Do jobs until the harness hangs up; does not return."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the harness's to handle: it closes our socket
    if vendor is None:
        _fork_jobs(control)
    else:
        _do_jobs(control, vendor)
    os._exit(0)  # unloading takes a second, and a JVM has threads that would keep this process


def _fork_jobs(control: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while (received := _received(control))[0]:
        data, fds = received
        pid = os.fork()
        if pid == 0:
            control.close()
            _child(data, socket.socket(fileno=fds[0]), fds[1], fds[2:])
        for descriptor in fds:
            os.close(descriptor)
        with contextlib.suppress(BrokenPipeError):
            control.send(str(pid).encode())


def _child(data: bytes, harness: socket.socket, log: int, handles: list[int]) -> None:
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _log_to(log)
        result = run_job(msgspec.json.decode(data, type=Job), handles, harness.fileno())
        harness.sendall(msgspec.json.encode(result))
        status = 0
    except BaseException:  # a fork must never return into the loop of its parent
        traceback.print_exc()
    finally:
        os._exit(status)


def _do_jobs(control: socket.socket, vendor: Vendor) -> None:
    threading.Thread(target=_ends_with, args=(os.dup(control.fileno()),), daemon=True).start()
    with contextlib.suppress(ClientError):  # the first job reports it
        jvm.start(vendor.jars, vendor.java, vendor.properties)
    good = True
    while good and (received := _received(control))[0]:
        good = _in_jvm(msgspec.json.decode(received[0], type=Job), received[1])


def _in_jvm(job: Job, descriptors: list[int]) -> bool:
    """Do one job in this process; return whether the process can do another."""
    answer, log, *handles = descriptors
    _log_to(log)
    ended = threading.Event()
    threading.Thread(target=_ends_with, args=(answer, ended), daemon=True).start()
    try:
        result = run_job(job, handles)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        return False
    result = msgspec.structs.replace(result, spent=jvm.SPENT.is_set())
    ended.set()
    with socket.socket(fileno=answer) as harness:
        harness.sendall(msgspec.json.encode(result))
        harness.shutdown(socket.SHUT_RDWR)  # a close is not enough: the thread that watches it keeps it open
    for descriptor in (log, *handles):
        os.close(descriptor)
    return result.reusable


def _received(control: socket.socket) -> tuple[bytes, list[int]]:
    """Return the next job and its descriptors; empty bytes if the harness has hung up, also with unread answers."""
    try:
        data, descriptors, _, _ = socket.recv_fds(control, _CHUNK, _MAX_FDS)
        while data and not data.endswith(b"\n"):
            more = control.recv(_CHUNK)
            data = data + more if more else b""
    except ConnectionResetError:
        return b"", []
    return data, descriptors


def _log_to(log: int) -> None:
    os.dup2(log, 1)
    os.dup2(log, 2)


def _ends_with(descriptor: int, unless: threading.Event | None = None) -> None:
    """End this process when the harness hangs up the other end of a socket."""
    poller = select.poll()
    poller.register(descriptor, select.POLLHUP)
    poller.poll()
    if unless is None or not unless.is_set():
        os._exit(1)


if __name__ == "__main__":
    main(
        socket.socket(fileno=int(sys.argv[1])),
        msgspec.json.decode(sys.argv[2], type=Vendor) if sys.argv[2:] else None,
    )
