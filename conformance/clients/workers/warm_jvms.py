"""Client processes with a JVM are used again, because a JVM takes a second to start.

Each is a process of its own, as any other client, and gets one job after another over its socket. One that was killed,
has failed or does not answer is never used again; all end when the harness hangs up, however that died.
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

from conformance.clients.jms import jvm
from conformance.clients.workers.job import Job, Vendor
from conformance.errors import ClientError

MAX_JOB = 1 << 16
MAX_FDS = 64


def serve(control: socket.socket, vendor: Vendor) -> None:
    """Load that client, and do the jobs that come, until the harness hangs up or one of them goes wrong."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the harness's to handle: it closes our socket
    threading.Thread(target=_ends_with, args=(os.dup(control.fileno()),), daemon=True).start()
    good = True
    with contextlib.suppress(ClientError):  # the first job says it
        jvm.start(vendor.jars, vendor.java, vendor.properties)
    while good:
        data, descriptors, _, _ = socket.recv_fds(control, MAX_JOB, MAX_FDS)
        if not data:
            break
        good = _one(msgspec.json.decode(data, type=Job), descriptors)
    os._exit(0)  # a JVM has threads that would keep this process


def _one(job: Job, descriptors: list[int]) -> bool:
    """One job; whether the process is as good as new after it."""
    from conformance.clients.workers.pool import run_job

    answer, log, *pidfds = descriptors
    os.dup2(log, 1)
    os.dup2(log, 2)
    ended = threading.Event()
    threading.Thread(target=_ends_with, args=(answer, ended), daemon=True).start()
    try:
        result = run_job(job, pidfds)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        return False
    result = msgspec.structs.replace(result, spent=jvm.SPENT.is_set())
    good = not (result.error or result.spent)
    ended.set()
    with socket.socket(fileno=answer) as harness:
        harness.sendall(msgspec.json.encode(result))
        harness.shutdown(socket.SHUT_RDWR)  # closed is not enough: the thread that watches it keeps it open
    for descriptor in (log, *pidfds):
        os.close(descriptor)
    return good


def _ends_with(descriptor: int, unless: threading.Event | None = None) -> None:
    """End this process when the harness hangs up the other end of a socket."""
    poller = select.poll()
    poller.register(descriptor, select.POLLRDHUP | select.POLLHUP)
    poller.poll()
    if unless is None or not unless.is_set():
        os._exit(1)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), msgspec.json.decode(sys.argv[2], type=Vendor))
