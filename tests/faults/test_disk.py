"""The tracer at work: on children of ten lines, on the bundled broker, and on a real Artemis."""

import contextlib
import dataclasses
import errno
import itertools
import os
import pathlib
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pytest
from starts import starts_process

from benchmarks import disk as disk_bench
from conformance import adapters, claims, history, scenario
from conformance.adapters.distribution import fetch
from conformance.adapters.file.settings import weaken
from conformance.errors import FaultError
from conformance.faults.disk import access, injection, pairing, trace
from conformance.faults.disk.access import JournalAccess
from conformance.faults.disk.trace import Call, Clock, Operation, Trace
from conformance.history import Op, Phase, bare_header, make_body
from conformance.ledger import Ledger
from conformance.processes import wait_ended
from conformance.scenario.script import Between, DiskFull, FailedSync, HeldSync, Watched

traced = pytest.mark.skipif(bool(injection.cannot()), reason=injection.cannot())

CHILD = """
import ctypes, mmap, os, pathlib, signal, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
folder = sys.argv[1]
def opened(name, flags=0):
    return os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT | flags, 0o644)
def tried(call, *words):
    started = time.monotonic()
    try:
        call(*words)
        print("ok", round(time.monotonic() - started, 3), flush=True)
    except OSError as error:
        print(error.strerror, flush=True)
a, b, log = opened("1.j"), opened("2.j"), opened("log")
"""


@pytest.fixture
@starts_process
def run(tmp_path):
    """Run a child to its end under a fault: returns what it printed, the trace and the tracer."""

    def start(fault, code, files=("{n}.j",), reached=None, **how):
        tracer = injection.Tracer(tmp_path / "trace", tmp_path, fault, files=files, reached=reached)
        command = [*tracer.wrap, sys.executable, "-c", CHILD + code, str(tmp_path)]
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **how)
        return said.stdout.splitlines(), tracer.read(), tracer

    return start


@contextlib.contextmanager
def living(tmp_path, fault, code):
    """A child that says `ready` and waits for its end: the tracer and its process."""
    tracer = injection.Tracer(tmp_path / "trace", tmp_path, fault, files=["{n}.j"])
    command = [*tracer.wrap, sys.executable, "-c", CHILD + code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        assert child.stdout.readline() == "ready\n"
        try:
            yield tracer, child
        finally:
            for pid in tracer._traced():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def tampered(found):
    return [(call.name, pathlib.PurePath(call.file).name) for call in found.calls if call.tampered]


# What the tracer does.


@traced
def test_the_syncs_of_the_journal_are_held_and_no_others(run):
    said, found, _ = run(HeldSync(0.3), "[tried(os.fdatasync, file) for file in (a, b, log)]; tried(os.fsync, a)")
    seconds = [float(line.split()[1]) for line in said]

    assert [second >= 0.3 for second in seconds] == [True, True, False, True]
    assert tampered(found) == [("fdatasync", "1.j"), ("fdatasync", "2.j"), ("fsync", "1.j")]
    injection.prove(found, HeldSync(0.3))


@traced
def test_without_names_every_sync_is_held(run, tmp_path):
    """Of a journal whose files cannot be named: the files below its folder are read, and no others."""
    beside = tempfile.mkstemp(dir=tmp_path.parent)[1]
    code = f"""
os.mkdir(folder + "/d")
for file in (opened("d/3.j"), a, os.open({beside!r}, os.O_RDWR)):
    tried(os.fsync, file)
"""
    said, found, tracer = run(HeldSync(0.3), code, files=())

    assert [float(line.split()[1]) >= 0.3 for line in said] == [True] * 3
    assert tampered(found) == [("fsync", "3.j"), ("fsync", "1.j")]
    assert tracer.files == frozenset()


@traced
def test_the_stamps_hold_the_delay(run):
    """What the child measures around its call lies around what the tracer measured in it."""
    said, found, _ = run(
        HeldSync(0.3), "t = time.monotonic_ns(); os.fsync(a); u = time.monotonic_ns(); print(t); print(u)"
    )
    before, after = map(int, said)
    call = next(call for call in found.calls if call.name == "fsync")

    assert before <= call.started_ns <= call.ended_ns - 300_000_000
    assert call.ended_ns <= after


@traced
def test_a_failed_sync_counts_for_each_thread_and_each_name(run):
    """Syncs of other files in between are not held."""
    code = """
def syncs():
    for call in (os.fdatasync, os.fdatasync, os.fsync, os.fsync, os.fsync):
        os.fdatasync(log)
        tried(call, a)
syncs()
thread = threading.Thread(target=syncs); thread.start(); thread.join()
"""
    said, found, _ = run(FailedSync(3), code)

    assert [line.split()[0] for line in said] == ["ok", "ok", "ok", "ok", "Input/output"] * 2
    assert [(call.name, call.error) for call in found.calls if call.injected] == [("fsync", "EIO")] * 2


@traced
def test_a_full_disk_refuses_only_writes_and_allocation(run):
    code = """
for call, *words in [(os.write, a, b"x"), (os.write, a, b"x"), (os.pwrite, a, b"x", 0), (os.posix_fallocate, a, 0, 9), (os.write, log, b"x"),
                     (os.fsync, a), (os.ftruncate, a, 0)]:
    tried(call, *words)
"""
    said, found, _ = run(DiskFull(1), code)

    assert [line.split()[0] for line in said] == ["No", "No", "No", "No", "ok", "ok", "ok"]
    assert (pathlib.PurePath(found.calls[0].file).name, {call.error for call in found.calls}) == ("1.j", {"", "ENOSPC"})


@traced
def test_writes_and_their_syncs_are_paired(run):
    """`O_DSYNC` by its open; another thread's sync; a file that is not in the journal."""
    code = """
d = opened("3.j", os.O_DSYNC)
t = time.monotonic_ns()
os.write(log, b"p1:1.")
os.pwrite(a, b"\\0\\xffp1:1.\\n", 0)
thread = threading.Thread(target=os.fdatasync, args=(a,)); thread.start(); thread.join()
os.write(d, b"p1:2."); os.writev(b, [b"p1", b":3."])
print(t); print(time.monotonic_ns())
"""
    said, found, _ = run(Watched(), code)
    begin, end = map(int, said)
    one, two, three = pairing.pair_operations(found, [Operation(f"p1:{n}", begin, b"p1:%d." % n) for n in (1, 2, 3)])

    assert one.write.sample == b"\0\xffp1:1.\n"
    assert one.sync.thread != one.write.thread
    assert (begin <= one.write.ended_ns, one.sync.ended_ns <= end) == (True, True)
    assert two.sync is two.write
    assert (three.write.sample, three.sync) == (b"p1:3.", None)


@pytest.mark.process
@traced
def test_a_journal_behind_a_link_is_watched(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    tracer = injection.Tracer(tmp_path / "trace", tmp_path / "link", DiskFull(1), files=["{n}.j"])
    code = CHILD + "tried(os.write, a, b'x')"
    said = subprocess.run(
        [*tracer.wrap, sys.executable, "-c", code, str(tmp_path / "link")], capture_output=True, check=True
    )

    assert (said.stdout, said.stderr) == (b"No space left on device\n", b"")
    assert [("openat", ""), ("openat", ""), ("write", "ENOSPC")] == [(c.name, c.error) for c in tracer.read().calls]


@traced
def test_every_way_to_sync_is_seen_by_a_watch(run):
    _, found, _ = run(Watched(), "os.fsync(a); os.fdatasync(a); libc.syncfs(a); os.sync()")

    assert [call.name for call in found.calls if call.name in trace.SYNCS] == ["fsync", "fdatasync", "syncfs", "sync"]
    assert sorted(trace.SYNCS) == sorted(["fsync", "fdatasync", "syncfs", "sync"])


# Traps.


@pytest.mark.process
@traced
def test_a_signal_is_not_injected_under_seccomp_bpf(tmp_path):
    """strace injects no kill and reports no error, so the tracer is never used to kill."""
    words = ["-f", "-o", str(tmp_path / "out"), "-e", "trace=fdatasync", "-e", "inject=fdatasync:signal=KILL"]
    child = [sys.executable, "-c", CHILD + "os.fdatasync(a)", str(tmp_path)]

    assert subprocess.run(["strace", *words, *child], check=False).returncode == -signal.SIGKILL
    assert subprocess.run(["strace", "--seccomp-bpf", *words, *child], check=False).returncode == 0


@pytest.mark.process
@traced
def test_a_tracer_that_dies_first_leaves_a_broker_that_can_write_no_more(tmp_path):
    """The broker lives on, and its calls return ENOSYS: that is no disk fault, and the trial is void."""
    code = """
print("ready", flush=True)
try:
    while True: os.pwrite(a, b"x", 0); time.sleep(0.01)
except OSError as error:  # a print would be a write as well
    os.mkdir(f"{folder}/{error.strerror}")
"""
    with living(tmp_path, HeldSync(0.1), code) as (tracer, child):
        descriptor = os.pidfd_open(*tracer._traced())
        child.kill()
        ended = wait_ended([descriptor], 30)
        os.close(descriptor)

    assert (ended, (tmp_path / "Function not implemented").is_dir()) == (True, True)
    with pytest.raises(FaultError, match=r"the tracer was lost before the broker ended: 1 of its 1 files have no end"):
        injection.prove(tracer.read(), HeldSync(0.1))


@pytest.mark.process
@traced
def test_a_narrowed_tracer_does_not_see_a_mapping_written_or_io_uring(tmp_path):
    """`look` finds them; without `look` the trace says that it was not called."""
    code = """
ring = libc.syscall(425, 4, (ctypes.c_char * 120)())
os.ftruncate(a, 4096); memory = mmap.mmap(a, 4096); memory[0:1] = b"x"; memory.flush()
other = mmap.mmap(log, 0) if os.fstat(log).st_size else None
print("ready", flush=True); signal.pause()
"""
    with living(tmp_path, HeldSync(0.1), code) as (tracer, _):
        seen = {call.name for call in trace.read(tmp_path / "trace", Clock(0), tracer.files).calls}
        before = reasons(tracer)
        tracer.look()
        after = reasons(tracer)

    assert "io_uring_setup" not in seen
    assert before == [
        "1.j is mapped: writes through memory cannot be seen",
        "the broker was not checked for a mapped journal, libaio and io_uring",
    ]
    assert [text.split(":")[0] for text in after][:1] == ["1.j is mapped"]
    assert pathlib.Path("/proc/sys/kernel/io_uring_disabled").read_text() != "0\n" or "io_uring" in after[1]


AIO = """
import struct
WRITE, SYNC = 1, 3
context, memory = ctypes.c_ulong(0), mmap.mmap(-1, 4096)
assert libc.syscall(206, 8, ctypes.byref(context)) == 0
memory[:5] = b"p1:1."
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
def aio(number, data, file):
    "Submit one request, and return the result of the call, or the one of the request."
    request = ctypes.create_string_buffer(
        struct.pack("QIiHhIQQqQQ", data, 0, 0, number, 0, file, *((at, 4096) if number == WRITE else (0, 0)), 0, 0, 0))
    if libc.syscall(209, context, ctypes.c_long(1), ctypes.byref(ctypes.c_void_p(ctypes.addressof(request)))) < 0:
        return -ctypes.get_errno()
    event = (ctypes.c_int64 * 4)()
    assert libc.syscall(208, context, ctypes.c_long(1), ctypes.c_long(1), event, None) == 1
    return event[2]
"""
LIBAIO = AIO + 'print("ready", flush=True); signal.pause()'
x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the number of io_setup is that of x86_64")


@pytest.mark.process
@traced
@x86_64
def test_libaio_is_found_in_the_memory_of_the_broker(tmp_path):
    with living(tmp_path, HeldSync(0.1), LIBAIO) as (tracer, _):
        tracer.look()
        found = reasons(tracer)

    assert [text.split(":")[0] for text in found] == ["the broker uses libaio"]


@pytest.mark.process
@traced
@x86_64
def test_a_full_disk_without_effect_says_why_it_saw_no_writes(tmp_path):
    """Its trial is void, and the error says why: libaio writes to files whose space is allocated already."""
    with living(tmp_path, DiskFull(1), LIBAIO) as (tracer, child):
        tracer.look()
        os.kill(*tracer._traced(), signal.SIGKILL)
        child.wait(20)
        with pytest.raises(FaultError, match=r"did not take effect: it met no call; .*; the broker uses libaio"):
            tracer.finish(tmp_path / "disk.jsonl", bare_header("disk"), 1, [])


@pytest.mark.process
def test_the_memory_of_a_process_is_looked_at_once_however_many_threads_it_has(monkeypatch):
    """Once for each process: a JVM has fifty threads, and each process of a broker has its own memory."""
    looked = []
    over = threading.Event()
    threads = [threading.Thread(target=over.wait) for _ in range(5)]
    monkeypatch.setattr(access, "_memory", lambda *about: looked.append(about) or (False, frozenset()))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        for thread in threads:
            thread.start()
        try:
            access.look([os.getpid(), *(thread.native_id for thread in threads), other.pid], frozenset())
        finally:
            over.set()
            other.kill()

    assert len(looked) == 2


@traced
@x86_64
def test_what_is_written_and_synced_by_libaio_is_paired_and_held(run):
    """A write past the page cache, and its sync by fdatasync; one through a file that syncs each write."""
    code = (
        AIO
        + """
d = opened("3.j", os.O_DIRECT); os.posix_fallocate(d, 0, 8192)
s = opened("4.j", os.O_DIRECT | os.O_DSYNC); os.posix_fallocate(s, 0, 8192)
for call, *words in [(aio, WRITE, 7, d), (os.fdatasync, d), (aio, WRITE, 8, s), (aio, SYNC, 9, d)]:
    print(time.monotonic_ns(), call(*words), time.monotonic_ns())
print(time.monotonic_ns())
"""
    )
    said, found, tracer = run(HeldSync(0.3), code, reached=JournalAccess(libaio=True, synced_writes=True))
    times = [int(line.split()[0]) for line in said]
    asked = [Operation("p1:1", at, b"p1:1.", until_ns=until) for at, until in itertools.pairwise(times)]
    direct, _, dsync, _ = pairing.pair_operations(found, asked)

    assert [line.split()[1:2] for line in said[:4]] == [["4096"], ["None"], ["4096"], ["0"]]
    assert times[0] <= direct.write.started_ns < direct.write.ended_ns <= times[1] < direct.sync.started_ns
    assert (direct.sync.name, direct.sync.delayed, dsync.sync is dsync.write) == ("fdatasync", True, True)
    assert (dsync.write.delayed, dsync.write.seconds >= 0.3) == (True, True)
    assert pairing.unseen(found, [direct, dsync]) == []
    injection.prove(found, tracer.fault)


@traced
@x86_64
@pytest.mark.parametrize(("fault", "error"), [(FailedSync(1), "EIO"), (DiskFull(1), "ENOSPC")])
def test_requests_of_libaio_fail_as_the_disk_does(run, fault, error):
    """And no call on a socket or a pipe does, although every file is traced."""
    code = AIO + 'asked = time.monotonic_ns(); print(asked, aio(WRITE, 7, a)); os.write(1, b"open\\n")'
    said, found, tracer = run(fault, code, reached=JournalAccess(libaio=True, synced_writes=True))
    begin, result = map(int, said[0].split())
    pair = paired(found, begin)

    assert (said[1], os.strerror(-result), pair.write, pair.failed.error) == (
        "open",
        os.strerror(getattr(errno, error)),
        None,
        error,
    )
    injection.prove(found, tracer.fault)


def paired(found, begin):
    return pairing.pair_operations(found, [Operation("p1:1", begin, b"p1:1.")])[0]


@traced
@pytest.mark.parametrize(("fault", "took"), [(HeldSync(0.3), "ok"), (FailedSync(1), "Input/output error")])
def test_a_mapped_journal_is_held_and_failed_at_its_msync(run, fault, took):
    code = """
os.ftruncate(a, 8192); memory = mmap.mmap(a, 8192)
asked = time.monotonic_ns(); memory[4096:4101] = b"p1:1."
tried(memory.flush, 4096, 4096); print(asked)
"""
    said, found, tracer = run(fault, code, reached=JournalAccess(mapped=frozenset({"1.j"})))
    pair = paired(found, int(said[1]))
    sync = pair.sync or pair.failed

    assert said[0].startswith(took)
    assert (sync.name, sync.tampered, pathlib.PurePath(sync.file).name) == ("msync", True, "1.j")
    assert pairing.unseen(found, [pair]) == []
    injection.prove(found, tracer.fault)


@traced
@pytest.mark.parametrize(("flags", "held"), [("os.O_DSYNC", True), ("os.O_SYNC", True), ("0", False)])
def test_a_write_that_is_its_own_sync_is_held_if_it_was_seen_before(run, flags, held, tmp_path):
    """The liar opens its file without the flag: its writes are held too, and no sync of them is ever seen."""
    code = f"""
d = opened("3.j", {flags})
asked = time.monotonic_ns(); tried(os.write, d, b"p1:1."); print(asked)
"""
    said, found, tracer = run(HeldSync(0.3), code, reached=JournalAccess(synced_writes=True))
    pair = paired(found, int(said[1]))

    assert float(said[0].split()[1]) >= 0.3
    assert (pair.write.delayed, pair.sync is pair.write) == (True, held)
    injection.prove(found, tracer.fault)


@pytest.mark.process
@traced
@x86_64
def test_a_look_finds_by_what_calls_a_journal_is_reached(tmp_path):
    code = (
        AIO
        + """
d = opened("3.j", os.O_SYNC); os.ftruncate(a, 4096); stored = mmap.mmap(a, 4096)
print("ready", flush=True); signal.pause()
"""
    )
    with living(tmp_path, Watched(), code) as (tracer, _):
        found = access.look(tracer._traced(), injection.watched(tmp_path, ["{n}.j"]))

    assert found == JournalAccess(libaio=True, mapped=frozenset({f"{tmp_path}/1.j"}), synced_writes=True)
    assert (found.unnamed, JournalAccess(synced_writes=True).unnamed) == (True, False)


def reasons(tracer):
    """A tracer whose run had no reason against it."""
    tracer.read()
    found = sorted(tracer._reasons)
    tracer._reasons.discard("the broker was not checked for a mapped journal, libaio and io_uring")
    return found


@traced
def test_a_file_with_a_number_that_is_not_watched_is_reported(tmp_path):
    """Counter-example to the numbers 1 to 64: a journal that has rolled a hundred times has none of these files."""
    (tmp_path / "100.j").touch()
    tracer = injection.Tracer(tmp_path / "trace", tmp_path, Watched(), files=["{n:03d}.j", "index"])
    for name in ("164.j", "165.j", "index", "x165.j"):
        (tmp_path / name).touch()

    assert reasons(tracer) == ["165.j was not watched: its number is more than 64 above those at the start"]
    assert {f"{tmp_path}/{name}" for name in ("100.j", "164.j", "index")} <= tracer.files


# Proofs.

HELD = Call(1, "fsync", "/j/1", 0, 300_000_000, 0, delayed=True)
FAILED = Call(1, "fsync", "/j/1", 5, 6, -1, error="EIO", injected=True)


@pytest.mark.parametrize(
    ("found", "fault", "says"),
    [
        (Trace((), 0), Watched(), "the tracer wrote nothing: it could not start the broker"),
        (Trace((HELD,), 9, ("trace.3", "trace.4")), HeldSync(0.3), r"2 of its 9 files have no end \(trace.3\)"),
        (Trace((), 1), HeldSync(0.3), "it met no call; it saw no call on a file of the journal"),
        (Trace((dataclasses.replace(HELD, delayed=False),), 1), HeldSync(0.3), "it met no call; it saw fsync"),
        (Trace((), 1), Watched(), "the watched fault did not take effect: it met no call"),
        (Trace((HELD,), 1), HeldSync(0.61), r"fsync 1 took 0\.300 s"),
        (Trace((HELD,), 1), FailedSync(1), r"fsync 1 took 0\.300 s"),
        (Trace((FAILED,), 1), DiskFull(1), "EIO"),
    ],
)
def test_a_fault_that_did_not_take_effect_voids_its_trial(found, fault, says):
    with pytest.raises(FaultError, match=says):
        injection.prove(found, fault)


def test_a_broker_that_never_syncs_has_no_sync_to_hold():
    """The control shows writes without a sync; a sync that was not held voids the trial."""
    write = Call(7, "pwrite64", "/j/1", 1, 2, 10)
    unheld = Call(7, "fdatasync", "/j/1", 3, 4, 0)
    injection.prove(Trace((write,), 1), HeldSync(0.3))

    with pytest.raises(FaultError, match="the held_sync fault did not take effect: it met no call"):
        injection.prove(Trace((write, unheld), 1), HeldSync(0.3))


def test_a_broker_that_maps_its_journal_has_no_sync_to_hold():
    """It writes through memory and syncs by msync, which the tracer cannot see: that is a reason."""
    mapped = Call(7, "mmap", "/j/1", 1, 2, 0, flags=frozenset({"MAP_SHARED", "PROT_WRITE"}))
    read = dataclasses.replace(mapped, flags=frozenset({"MAP_SHARED", "PROT_READ"}))
    found = Trace((mapped,), 1)
    injection.prove(found, HeldSync(0.3))

    assert pairing.unseen(found, []) == ["1 is mapped: writes through memory cannot be seen"]
    with pytest.raises(FaultError, match="the held_sync fault did not take effect: it met no call"):
        injection.prove(Trace((read,), 1), HeldSync(0.3))


def test_a_fault_that_took_effect_is_proved():
    injection.prove(Trace((HELD,), 1), HeldSync(0.3))
    injection.prove(Trace((HELD,), 1), HeldSync(0.32))  # a tracer that waits between its timer and its stamp
    injection.prove(Trace((FAILED,), 1), FailedSync(1))
    injection.prove(Trace((dataclasses.replace(FAILED, error="ENOSPC"),), 1), DiskFull(1))
    injection.prove(Trace((dataclasses.replace(HELD, delayed=False),), 1), Watched())


@traced
def test_a_number_that_was_not_drawn_is_refused(tmp_path):
    with pytest.raises(FaultError, match="its number was not drawn"):
        _ = injection.Tracer(tmp_path / "trace", tmp_path, FailedSync(Between(1, 2)), files=["1.j"]).wrap


@pytest.mark.process
@pytest.mark.parametrize(
    ("strace", "says"),
    [
        (None, "not on PATH"),
        ("echo 'strace -- version 5.5'", "version 5.5 is too old"),
        ("echo nonsense", "unknown version is too old"),
        (
            '[ "$1" = -V ] && echo "strace -- version 6.1" || { echo "strace: PTRACE_TRACEME: no" >&2; exit 1; }',
            "TRACEME: no",
        ),
        ('[ "$1" = -V ] && echo "strace -- version 6.10"', ""),
    ],
)
def test_a_machine_that_cannot_trace_says_why(tmp_path, monkeypatch, strace, says):
    if strace is not None:
        (tmp_path / "strace").write_text(f"#!/bin/sh\n{strace}\n:\n" if says == "" else f"#!/bin/sh\n{strace}\n")
        (tmp_path / "strace").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    injection.cannot.cache_clear()
    try:
        reason = injection.cannot()
        if reason:
            with pytest.raises(FaultError, match=r"a fault cannot be injected at the broker's disk: .*strace"):
                injection.Tracer(tmp_path / "trace", tmp_path, Watched(), files=["1.j"])
    finally:
        injection.cannot.cache_clear()

    assert (says in reason, bool(reason)) == (True, bool(says))


# The history.


def test_the_history_has_the_trace_in_the_order_of_time(tmp_path):
    write = Call(1, "pwrite64", "/j/1", 10, 20, 5)
    sync = Call(2, "fdatasync", "/j/1", 30, 702_000_030, 0, delayed=True)
    plain = Call(2, "fdatasync", "/j/1", 30, 40, 0)
    failed = Call(1, "pwrite64", "/j/1", 50, 60, -1, error="ENOSPC", injected=True)
    pairs = [
        pairing.StoredOperation(Operation("p1:1", 1), write, sync),
        pairing.StoredOperation(Operation("t1:1", 1, transaction=True), write, plain),
        pairing.StoredOperation(Operation("p1:2", 1), failed=failed),
        pairing.StoredOperation(Operation("p1:3", 1), write, unseen="too long"),
        pairing.StoredOperation(Operation("p1:4", 1), write),
    ]
    path = tmp_path / "disk.jsonl"
    found = Trace((write, sync), 2)
    injection.write_history(path, bare_header("disk"), 3, HeldSync(0.7), found, pairs, ["too long"], (5, 900_000_000))
    events = history.read(path).events

    assert [
        (event.at_ns, event.op, event.phase, event.message or event.transaction, event.fault, event.detail)
        for event in events
    ] == [
        (5, Op.FAULT, Phase.ARMED, None, "held_sync", None),
        (20, Op.SYNC, Phase.INVOKE, "p1:1", None, "pwrite64 1"),
        (20, Op.SYNC, Phase.INVOKE, "t1:1", None, "pwrite64 1"),
        (20, Op.SYNC, Phase.INVOKE, "p1:4", None, "pwrite64 1"),
        (30, Op.FAULT, Phase.FIRED, None, "held_sync", "fdatasync 1"),
        (30, Op.FAULT, Phase.EFFECTIVE, None, "held_sync", "fdatasync 1"),
        (40, Op.SYNC, Phase.OK, "t1:1", None, "fdatasync 1 0.000 s"),
        (60, Op.SYNC, Phase.FAIL, "p1:2", "held_sync", "pwrite64 1 ENOSPC"),
        (702_000_030, Op.SYNC, Phase.OK, "p1:1", "held_sync", "fdatasync 1 0.702 s"),
        (900_000_000, Op.FAULT, Phase.HEALED, None, "held_sync", None),
        (900_000_000, Op.SYNC, Phase.INFO, None, None, "too long"),
    ]
    assert {event.epoch for event in events} == {3}
    assert [event.transaction for event in events if event.transaction] == ["t1:1", "t1:1"]


# Brokers.


class Stomp:
    """Send messages one after another, each with its receipt; return the times of request and answer."""

    def __init__(self, broker, headers=""):
        self._headers = headers
        self._socket = socket.create_connection(broker.endpoint("stomp"), timeout=30)
        self._ask(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n")

    def send(self, number):
        """The operation, and when its answer was here; None where none came."""
        message = history.message_id(1, number)
        asked = time.monotonic_ns()
        head = f"SEND\ndestination:orders\n{self._headers}persistent:true\nreceipt:{number}\n\n"
        answered = self._ask(head.encode() + make_body(message, 256)).startswith(b"RECEIPT")
        return Operation(message, asked, f"{message}.".encode()), time.monotonic_ns() if answered else None

    def _ask(self, frame):
        self._socket.sendall(frame + b"\0")
        answer = b""
        with contextlib.suppress(ConnectionError):
            while b"\0" not in answer and (more := self._socket.recv(4096)):
                answer += more
        return answer.lstrip()

    def close(self):
        self._socket.close()


@pytest.fixture
def started(tmp_path, request):
    """A broker under a fault, with its tracer; both are gone at the end."""
    with contextlib.ExitStack() as stack:
        ledger = stack.enter_context(Ledger(tmp_path / "run", f"disk-{tmp_path.name}"))
        runs = itertools.count()

        def start(fault, name="reference", liar=None, **settings):
            adapter = adapters.find(name)
            prepared = adapter.prepare(
                tmp_path / f"b{next(runs)}", adapter.effective(settings), ["orders"], ledger, liar
            )
            broker = stack.enter_context(prepared)
            broker.start()  # the journal is made whole
            broker.stop()
            tracer = injection.Tracer(broker.folder / "trace", broker.journal, fault, files=broker.journal_files.names)
            broker.start(wrap=tracer.wrap)
            tracer.look()
            return broker, tracer

        yield start


def sent(broker, count, headers=""):
    client = Stomp(broker, headers)
    answers = [client.send(number) for number in range(count)]
    client.close()
    return [operation for operation, _ in answers], [at for _, at in answers]


def finished(tracer, broker, operations):
    path = broker.folder / "disk.jsonl"
    pairs = tracer.finish(path, bare_header("disk"), broker.epoch, operations)
    return pairs, history.read(path).events


@pytest.mark.process
@traced
def test_the_bundled_broker_answers_when_the_message_is_on_the_disk(started):
    """Write, sync, answer: in this order, with the sync held and without."""
    broker, tracer = started(HeldSync(0.3))
    operations, answered = sent(broker, 2)
    broker.stop()
    pairs, events = finished(tracer, broker, operations)

    for operation, pair, at in zip(operations, pairs, answered, strict=True):
        assert operation.invoked_ns < pair.write.ended_ns < pair.sync.ended_ns - 300_000_000 < at - 300_000_000
        assert pair.sync.delayed
    assert [event.detail for event in events if event.phase is Phase.INFO] == []
    assert [event.message for event in events if event.op is Op.SYNC and event.fault] == ["p1:0", "p1:1"]


@pytest.mark.process
@traced
def test_a_broker_that_does_not_sync_answers_before(started):
    broker, tracer = started(HeldSync(0.3), sync_non_transactional=False)
    operations, answered = sent(broker, 2)
    broker.stop()
    pairs, _ = finished(tracer, broker, operations)

    assert [at < pair.sync.ended_ns for pair, at in zip(pairs, answered, strict=True)] == [True, True]


@pytest.mark.process
@traced
@pytest.mark.parametrize(("fault", "error"), [(FailedSync(3), "EIO"), (DiskFull(3), "ENOSPC")])
def test_a_broker_on_a_failing_disk_reports_it_and_confirms_nothing(started, fault, error):
    broker, tracer = started(fault)
    operations, answered = sent(broker, 3)
    broker.wait_gone(20)
    pairs, events = finished(tracer, broker, operations)

    assert [at is not None for at in answered] == [True, True, False]
    assert [pair.failed and pair.failed.error for pair in pairs] == [None, None, error]
    fails = [(event.message, event.fault) for event in events if event.phase is Phase.FAIL]
    assert fails == [("p1:2", fault.name)]


@pytest.mark.process
@traced
def test_a_killed_broker_leaves_a_whole_trace_and_no_process(started, marked, tmp_path):
    """The child first: its tracer writes down its end, and goes with it. Even while a sync is held."""
    broker, tracer = started(HeldSync(1.0))
    operation = Operation("p1:0", time.monotonic_ns(), b"p1:0.")
    waiting = socket.create_connection(broker.endpoint("stomp"))
    waiting.sendall(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
    waiting.recv(4096)
    waiting.sendall(b"SEND\ndestination:orders\npersistent:true\n\n" + make_body("p1:0", 256) + b"\0")
    while b"p1:0." not in b"".join(path.read_bytes() for path in broker.journal.glob("*.journal")):
        os.sched_yield()
    while not any("fdatasync" in path.read_text() for path in (broker.folder / "trace").iterdir()):
        os.sched_yield()
    injection.end(broker)
    waiting.close()
    found = tracer.read()
    pair = pairing.pair_operations(found, [operation])[0]

    assert (broker.gone(), marked(f"disk-{tmp_path.name}")) == (True, [])
    assert (found.lost, pair.write is not None, pair.sync) == ((), True, None)


@pytest.mark.process
@traced
def test_the_harness_ends_broker_and_tracer_alike(started, marked, tmp_path):
    """Ended by a clean stop of the tracer's child, or by SIGKILL to the whole tree."""
    broker, tracer = started(Watched())
    main = broker._tree.main(wrapped=True)
    names = [pathlib.Path(f"/proc/{pid}/comm").read_text().strip() for pid in broker.processes()]
    broker.stop()
    other, _ = started(HeldSync(0.1))
    other.close()

    assert (names[0], main != broker._tree.leader.pid, broker.exit_status) == ("strace", True, 0)
    assert tracer.read().lost == ()
    assert marked(f"disk-{tmp_path.name}") == []


@pytest.mark.full
@pytest.mark.artemis
@traced
def test_artemis_answers_after_the_sync_and_before_it_if_configured_so(started):
    for settings, waits in [({}, True), ({"sync_non_transactional": False}, False)]:
        broker, tracer = started(HeldSync(0.7), "artemis", **settings)
        operations, answered = sent(broker, 2, "destination-type:ANYCAST\n")
        broker.stop()
        pairs, events = finished(tracer, broker, operations)

        assert [pair.sync.ended_ns <= at for pair, at in zip(pairs, answered, strict=True)] == [waits, waits]
        assert [pair.sync.delayed for pair in pairs] == [True, True]
        assert [event.detail for event in events if event.phase is Phase.INFO] == []


@pytest.mark.artemis
@traced
def test_a_control_of_a_held_sync_writes_each_message_before_the_next_is_sent(started):
    """Otherwise the tracer cannot see it. Artemis 2.19.0 writes when its buffer is full, unless the buffer is disabled."""
    adapter = adapters.find("artemis@2.19.0")
    if not (fetch.dist() / "apache-artemis-2.19.0").is_dir():
        pytest.skip(f"it is not in the cache: conformance fetch artemis@{adapter.version}")
    check = scenario.load(claims.load())["sync-held-while-sending"].decides["ARTEMIS-SEND-09"]
    alone = dict(check.control.settings)
    for settings, seen in [(weaken(adapter.file, alone, {}, adapter.version), True), (alone, False)]:
        broker, tracer = started(HeldSync(0.1), "artemis@2.19.0", **settings)
        operations, answered = sent(broker, 3, "destination-type:ANYCAST\n")
        injection.end(broker)
        pairs, _ = finished(tracer, broker, operations)

        assert None not in answered
        assert [pair.write is not None for pair in pairs[:2]] == [seen, seen]
        assert [pair.sync for pair in pairs[:2]] == [None, None]


@pytest.mark.process
@traced
def test_the_bench_measures_each_arm(monkeypatch):
    monkeypatch.setattr(disk_bench, "ROUNDS", 1)
    monkeypatch.setattr(disk_bench, "MESSAGES", {1: 3, 10: 30})
    figures = disk_bench.bench()

    assert sorted(figures) == sorted(
        f"{arm}, {what}" for arm in ("alone", "watched", "narrowed") for what in ("start", "window 1", "window 10")
    )
    assert all(figure > 0 for figure in figures.values())
