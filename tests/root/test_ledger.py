"""What a killed harness leaves is released exactly; what is not its own is left alone."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from conformance import ledger, paths, processes
from conformance.errors import UsageError
from conformance.ledger import Ledger, release_leftovers
from conformance.mounts import mounted_at
from conformance.processes import Identity, identify

RUN = f"ledger-{os.getpid()}"
"""Of this test process alone: a release ends every process on this machine that carries the id of the run."""

_HARNESS = """
import pathlib, signal, sys
from conformance.ledger import Ledger
book = Ledger(pathlib.Path(sys.argv[1]), sys.argv[2])
child, ticket = book.spawn("sleeper", ["sleep", "600"])
print(child.pid, flush=True)
signal.pause()
"""


_KILLED_IN_SPAWN = """
import pathlib, signal, sys
from conformance.ledger import Ledger, pids_of_run
book = Ledger(pathlib.Path(sys.argv[1]), sys.argv[2])
def stop_here(ticket, pid):
    while pid not in pids_of_run(sys.argv[2]):
        pass  # the kernel still replaces its environment
    print(pid, flush=True)
    signal.pause()
book.made = stop_here
book.spawn("sleeper", ["sleep", "600"])
"""


@pytest.fixture(autouse=True)
def _own_state(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def _harness(tmp_path: pathlib.Path, run_id: str = RUN, program: str = _HARNESS) -> tuple[subprocess.Popen[str], int]:
    """A harness in a process of its own, and the pid of the child that it started."""
    package = str(pathlib.Path(ledger.__file__).parents[1])
    harness = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / run_id), run_id],
        env={**os.environ, "PYTHONPATH": package},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert harness.stdout is not None
    return harness, int(harness.stdout.readline())


def _end(harness: subprocess.Popen[str]) -> None:
    harness.kill()
    harness.wait()
    if harness.stdout is not None:  # not read to its end: the child that is left holds it open
        harness.stdout.close()


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "reaped", "line"),
    [
        (_HARNESS, True, "killed sleeper (pid {child})"),
        (_HARNESS, False, "killed sleeper (pid {child})"),  # a zombie is dead
        (_KILLED_IN_SPAWN, True, "killed an unrecorded child (pid {child})"),  # found by its environment
    ],
)
def test_a_killed_harness_leaves_a_child_that_the_next_run_ends(
    tmp_path: pathlib.Path, program: str, line: str, *, reaped: bool
) -> None:
    harness, child = _harness(tmp_path, program=program)
    harness.kill()
    os.waitid(os.P_PID, harness.pid, os.WEXITED | (0 if reaped else os.WNOWAIT))
    assert identify(child) is not None

    assert release_leftovers() == [f"run {RUN}: {line.format(child=child)}"]
    assert identify(child) is None
    assert not list((paths.state() / "live").glob("*.json"))
    _end(harness)


@pytest.mark.process
def test_a_live_harness_is_left_alone(tmp_path: pathlib.Path) -> None:
    harness, child = _harness(tmp_path)
    try:
        assert release_leftovers() == []
        assert identify(child) is not None
    finally:
        _end(harness)
        release_leftovers()


@pytest.mark.process
def test_a_reused_pid_is_left_alone(tmp_path: pathlib.Path) -> None:
    harness, child = _harness(tmp_path)
    _end(harness)
    bystander = subprocess.Popen(["sleep", "600"])
    now = identify(bystander.pid)
    assert now is not None
    resources = tmp_path / RUN / "resources.jsonl"
    records = [json.loads(line) for line in resources.read_text().splitlines()]
    records[1] |= {"pid": bystander.pid, "start": now.start - 1}
    resources.write_text("".join(json.dumps(record) + "\n" for record in records))

    lines = release_leftovers()

    assert bystander.poll() is None
    assert lines == [f"run {RUN}: killed an unrecorded child (pid {child})"]
    bystander.kill()
    bystander.wait()


@pytest.mark.process
def test_what_was_released_is_not_looked_for(tmp_path: pathlib.Path) -> None:
    with Ledger(tmp_path / "run", RUN) as book:
        process, ticket = book.spawn("brief", ["true"])
        process.wait()
        book.released(ticket)
        states = [json.loads(line)["state"] for line in book.path.read_text().splitlines()]

    assert states == ["intent", "made", "released"]
    assert list(ledger._left(book.path)) == []


@pytest.mark.process
def test_the_intent_is_on_file_before_the_process_is_made(tmp_path: pathlib.Path) -> None:
    with Ledger(tmp_path / "run", RUN) as book:
        process, _ = book.spawn("reader", ["cat", str(book.path)], stdout=subprocess.PIPE)
        seen, _ = process.communicate()

    assert json.loads(seen.splitlines()[0])["state"] == "intent"


@pytest.mark.process
def test_a_command_that_does_not_exist_leaves_nothing_behind(tmp_path: pathlib.Path) -> None:
    with Ledger(tmp_path / "run", RUN) as book:
        with pytest.raises(FileNotFoundError):
            book.spawn("missing", ["/no/such/command"])

        assert list(ledger._left(book.path)) == []


def test_a_torn_last_line_is_no_record(tmp_path: pathlib.Path) -> None:
    resources = tmp_path / "resources.jsonl"
    resources.write_text('{"ticket":"a","state":"intent","kind":"process"}\n{"ticket":"b","sta')

    assert [record["ticket"] for record in ledger._left(resources)] == ["a"]


def test_closing_ends_the_index_entry_and_may_be_repeated(tmp_path: pathlib.Path) -> None:
    book = Ledger(tmp_path / "run", RUN)
    entry = paths.state() / "live" / f"{RUN}.json"
    assert json.loads(entry.read_text())["pid"] == os.getpid()

    book.close()
    book.close()

    assert not entry.exists()


@pytest.mark.process
def test_an_entry_of_an_earlier_boot_is_dropped_and_kills_no_process(tmp_path: pathlib.Path) -> None:
    book = Ledger(tmp_path / "run", RUN)
    bystander = subprocess.Popen(["sleep", "600"])
    start = identify(bystander.pid)
    assert start is not None
    ticket = book.intend("process", what="old")
    book.made(ticket, pid=None, start=start.start, boot="another boot", pid_=0)
    entry = paths.state() / "live" / f"{RUN}.json"
    entry.write_text(json.dumps({**json.loads(entry.read_text()), "boot": "another boot"}))
    resources = book.path.read_text().replace('"pid_":0', f'"pid":{bystander.pid}')
    book.path.write_text(resources)

    assert release_leftovers() == []
    assert bystander.poll() is None
    assert not entry.exists()
    bystander.kill()
    bystander.wait()


def test_another_start_time_is_another_process() -> None:
    me = identify(os.getpid())

    assert me is not None
    assert processes.is_same(me)
    assert not processes.is_same(Identity(me.pid, me.start + 1, me.boot))
    assert not processes.kill(Identity(me.pid, me.start + 1, me.boot))


@pytest.mark.process
def test_a_session_of_its_own_keeps_the_interrupt_of_the_terminal_away(tmp_path: pathlib.Path) -> None:
    with Ledger(tmp_path / "run", RUN) as book:
        process, _ = book.spawn("sleeper", ["sleep", "600"])

        assert os.getsid(process.pid) == process.pid != os.getsid(0)
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_a_run_id_that_cannot_be_a_file_name_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match="letters, digits"):
        Ledger(tmp_path, "../escape")


_needs_mounts = pytest.mark.skipif(
    os.geteuid() != 0
    or subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode != 0,
    reason="mounts and loop devices need root (CAP_SYS_ADMIN)",
)


@contextlib.contextmanager
def _mounted(target: pathlib.Path, source: str) -> Iterator[None]:
    """A mount that the test removes if it is still there."""
    target.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", source, target], check=True)
    try:
        yield
    finally:
        if source in mounted_at(str(target)):
            subprocess.run(["umount", target], check=True)


def _attached(image: pathlib.Path) -> str:
    image.write_bytes(bytes(1 << 20))
    made = subprocess.run(["losetup", "--find", "--show", image], check=True, capture_output=True, text=True)
    return made.stdout.strip()


def _is_attached(device: str, image: pathlib.Path) -> bool:
    try:
        return str(image) in pathlib.Path("/sys/block", device[5:], "loop/backing_file").read_text()
    except OSError:
        return False


def _dead(book: Ledger) -> None:
    """Its harness is another process now."""
    entry = paths.state() / "live" / f"{book.run_id}.json"
    entry.write_text(json.dumps({**json.loads(entry.read_text()), "start": 1}))


@pytest.mark.process
@_needs_mounts
@pytest.mark.parametrize("device", ["ours", ""])
def test_a_mount_is_found_by_any_path(tmp_path: pathlib.Path, device: str) -> None:
    """The kernel writes a space, a tab and a backslash in octal; the device may be unknown."""
    target = tmp_path / "a b\tc\\d"
    book = Ledger(tmp_path / "run", RUN)
    with _mounted(target, "ours"):
        book.made(book.intend("mount", target=str(target), device=device))
        _dead(book)

        assert release_leftovers() == [f"run {RUN}: unmounted {target}"]
        assert not target.is_mount()


@pytest.mark.process
@_needs_mounts
def test_a_mount_of_another_at_the_same_place_is_left_alone(tmp_path: pathlib.Path) -> None:
    """Instead of the recorded one, and on top of it."""
    target = tmp_path / "mounted"
    book = Ledger(tmp_path / "run", RUN)
    book.made(book.intend("mount", target=str(target), device="ours"))
    with _mounted(target, "another"):
        _dead(book)
        assert release_leftovers() == []
        assert mounted_at(str(target)) == ["another"]

    book = Ledger(tmp_path / "run", RUN)
    with _mounted(target, "ours"), _mounted(target, "another"):
        _dead(book)
        assert release_leftovers() == []
        assert mounted_at(str(target)) == ["ours", "another"]


@pytest.mark.process
@_needs_mounts
def test_a_mount_that_is_in_use_is_out_of_the_way(tmp_path: pathlib.Path) -> None:
    """The process that uses it keeps its open files."""
    target = tmp_path / "mounted"
    book = Ledger(tmp_path / "run", RUN)
    with _mounted(target, "ours"), (target / "file").open("w+") as held:
        book.made(book.intend("mount", target=str(target), device="ours"))
        _dead(book)

        assert release_leftovers() == [f"run {RUN}: unmounted {target}"]
        assert mounted_at(str(target)) == []
        assert held.write("still here") == 10


@pytest.mark.process
@_needs_mounts
@pytest.mark.parametrize("deleted", [True, False])
@pytest.mark.parametrize("recorded", [True, False])
def test_a_loop_device_is_found_by_its_file(tmp_path: pathlib.Path, *, recorded: bool, deleted: bool) -> None:
    """Also one that the harness never heard of, and one whose file is gone; that of another file stays."""
    device, other = _attached(tmp_path / "ours"), _attached(tmp_path / "ours-too")
    book = Ledger(tmp_path / "run", RUN)
    ticket = book.intend("loop", backing=str(tmp_path / "ours"))
    if recorded:
        book.made(ticket, device=device)
    if deleted:
        (tmp_path / "ours").unlink()
    _dead(book)

    try:
        assert release_leftovers() == [f"run {RUN}: detached {device}"]
        assert not _is_attached(device, tmp_path / "ours")
        assert _is_attached(other, tmp_path / "ours-too")
    finally:
        subprocess.run(["losetup", "--detach", other], check=True)


@pytest.mark.process
@_needs_mounts
def test_a_loop_device_that_was_given_to_another_is_left_alone(tmp_path: pathlib.Path) -> None:
    """Its number is in our record, its file is not."""
    device = _attached(tmp_path / "theirs")
    book = Ledger(tmp_path / "run", RUN)
    book.made(book.intend("loop", backing=str(tmp_path / "ours")), device=device)
    _dead(book)

    try:
        assert release_leftovers() == []
        assert _is_attached(device, tmp_path / "theirs")
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


@pytest.mark.process
@_needs_mounts
def test_the_mount_goes_before_its_loop_device(tmp_path: pathlib.Path) -> None:
    """In any order of the record; with the mount still there the device would stay."""
    device = _attached(tmp_path / "image")
    target = tmp_path / "mounted"
    target.mkdir()
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    subprocess.run(["mount", device, target], check=True)
    book = Ledger(tmp_path / "run", RUN)
    book.made(book.intend("loop", backing=str(tmp_path / "image")), device=device)
    book.made(book.intend("mount", target=str(target), device=device))
    _dead(book)

    assert release_leftovers() == [f"run {RUN}: unmounted {target}", f"run {RUN}: detached {device}"]
    assert mounted_at(str(target)) == []
    assert not _is_attached(device, tmp_path / "image")


@pytest.mark.process
@pytest.mark.parametrize("recorded", [True, False])
def test_an_interrupt_leaves_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, *, recorded: bool
) -> None:
    """Also where it comes between the start of a process and its record."""
    started: list[int] = []

    def interrupted(ticket: str, *, pid: int) -> None:
        started.append(pid)
        raise KeyboardInterrupt

    book = Ledger(tmp_path / "run", RUN)
    if not recorded:
        monkeypatch.setattr(book, "made", interrupted)
    with pytest.raises(KeyboardInterrupt), book:
        process, _ = book.spawn("sleeper", ["sleep", "600"])
        started.append(process.pid)
        raise KeyboardInterrupt

    assert (1, None) == (len(started), next((found for found in map(identify, started) if found), None))


@pytest.mark.process
def test_an_orderly_end_kills_no_process(tmp_path: pathlib.Path) -> None:
    """A process that is left then has an owner that ends it."""
    with Ledger(tmp_path / "run", RUN) as book:
        process, _ = book.spawn("sleeper", ["sleep", "600"])

    assert process.poll() is None
    process.kill()
    process.wait()
