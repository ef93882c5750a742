"""The disk that loses its power: made, mounted again and released, also after errors in between."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

import msgspec
import pytest
from job_rig import make_job

import conformance
from conformance import adapters, mounts
from conformance import ledger as ledger_of
from conformance.clients.roles.modes import AckHeader
from conformance.clients.session import Disconnected, Refused
from conformance.errors import FaultError, UsageError
from conformance.faults.power import image, loss
from conformance.faults.power.image import FILE_SYSTEMS, LossyDisk, cannot
from conformance.history import Phase, make_body, message_id
from conformance.ledger import Ledger
from conformance.protocols.stomp.sessions.raw_session import RawStompSession
from conformance.run.leftovers import release_leftovers

pytestmark = pytest.mark.process

needs_power = pytest.mark.skipif(bool(cannot()), reason=cannot() or "it can")
EACH = pytest.mark.parametrize("filesystem", [*FILE_SYSTEMS])


def outside():
    """Return the mounts and loop devices in this process's namespace."""
    mounted = [line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
    loops = {}
    for path in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            loops[path.parts[3]] = path.read_text().strip()
    return mounted, loops


def ours(tmp_path):
    """Return those below a test's folder; other tests may make some at the same time."""
    mounted, loops = outside()
    here = str(tmp_path)
    return [path for path in mounted if path.startswith(here)], [path for path in loops.values() if here in path]


def left_at_last(tmp_path):
    """Return `ours` when the loop devices have lost their last user, or after 30 s.

    A process that starts beside this test in a mount namespace of its own (a container, another test) has a copy of every
    mount for a moment, and the kernel detaches a loop device with its last mount.
    """
    deadline = time.monotonic() + 30
    while ours(tmp_path)[1] and time.monotonic() < deadline:
        os.sched_yield()
    return ours(tmp_path)


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "run", "powerloss") as book:
        yield book


@pytest.fixture
def make(tmp_path, ledger):
    """Makes disks; each is released with the test."""
    with contextlib.ExitStack() as stack:

        def one(name="disk", **words):
            words = {"filesystem": "ext4", **words}
            if cannot(words["filesystem"]):
                pytest.skip(cannot(words["filesystem"]))
            return stack.enter_context(LossyDisk.make(ledger, tmp_path / f"{name}.img", tmp_path / name, **words))

        yield one
    assert left_at_last(tmp_path) == ([], [])


def after_loss_at_once(disk):
    """Mount a disk again without the usual patience."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image, "_BUSY_S", 0.2)
        disk.after_loss()


def lose(disk):
    with disk.handle() as descriptor:
        loss.lose(descriptor)


def stored(path, content=b"stored"):
    """Write and sync a file, and its name."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def process(*command, **words):
    """A process that is ready; it ends with its standard input."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **words) as started:
        try:
            assert started.stdout.readline() == "ready\n"
            yield started
        finally:
            started.kill()


def test_this_machine_can_lose_power_or_says_what_it_needs():
    """The answer is computed once."""
    assert re.fullmatch(r"|a power loss cannot be tried here: .+", cannot())
    assert cannot() is cannot()


@needs_power
@EACH
def test_data_before_settle_survives(make, filesystem):
    """For example a file that a broker replaced during set-up and did not sync. Later data survives only a sync."""
    disk = make(filesystem=filesystem)
    place, new = disk.mountpoint / "queues.json", disk.mountpoint / "queues.json.new"
    stored(place, b"none")
    new.write_bytes(b"orders")
    new.replace(place)
    disk.settle()
    (disk.mountpoint / "later").write_bytes(b"unsynced")
    lose(disk)
    disk.after_loss()

    assert place.read_bytes() == b"orders"
    assert not (disk.mountpoint / "later").exists() or (disk.mountpoint / "later").read_bytes() == b""


@needs_power
@EACH
def test_fifty_losses_leave_no_resource(make, tmp_path, filesystem, capsys):
    """No mount, loop device or image; no loss drops synced data, and nearly every one drops the other."""
    before = ours(tmp_path)
    disk = make(filesystem=filesystem)
    seconds = []
    for number in range(50):
        stored(disk.mountpoint / f"kept-{number}")
        (disk.mountpoint / f"gone-{number}").write_bytes(b"x")
        lose(disk)
        seconds.append(disk.after_loss())
    names = {path.name for path in disk.mountpoint.iterdir()}
    disk.release()
    with capsys.disabled():
        times = " ".join(f"{second * 1000:.0f}" for second in seconds)
        print(f"\n{filesystem}: unmounted and mounted again in ms: {times}")

    kept = {f"kept-{number}" for number in range(50)}
    assert kept <= names
    # A sync by any process of the machine stores them too: seen for 1 of 50 files in one run.
    assert len(names - kept) < 5
    assert left_at_last(tmp_path) == before == ([], [])
    assert not (tmp_path / "disk.img").exists()


@needs_power
def test_files_of_the_folder_are_copied_to_the_disk(make, tmp_path):
    """With owners and modes, and no other file: a broker may take every folder for its own."""
    below = tmp_path / "disk"
    (below / "journal").mkdir(parents=True)
    (below / "journal" / "1").write_text("made before")
    os.chown(below / "journal" / "1", 12, 34)
    below.chmod(0o711)
    disk = make()
    lose(disk)
    disk.after_loss()
    about = (disk.mountpoint / "journal" / "1").stat()

    assert [path.name for path in disk.mountpoint.iterdir()] == ["journal"]
    assert (disk.mountpoint / "journal" / "1").read_text() == "made before"
    assert (about.st_uid, about.st_gid, disk.mountpoint.stat().st_mode & 0o777) == (12, 34, 0o711)


@needs_power
@EACH
def test_a_loss_that_did_not_happen_is_noticed(make, filesystem):
    """The proof leaves no file behind."""
    disk = make(filesystem=filesystem)
    with pytest.raises(FaultError, match=r"the power loss did not take effect: .*/disk still stores"):
        disk.after_loss()

    assert [] == list(disk.mountpoint.iterdir())


@needs_power
def test_a_disk_that_is_full_is_no_lost_one(make):
    """Only EIO proves the loss."""
    disk = make(size=8 << 20)
    with contextlib.suppress(OSError), (disk.mountpoint / "all").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
    names = 0
    with contextlib.suppress(OSError):
        while True:
            (disk.mountpoint / f"empty-{(names := names + 1)}").touch()

    with pytest.raises(FaultError, match=r"the power loss cannot be shown: .* gives No space left on device"):
        disk.after_loss()


@needs_power
@EACH
@pytest.mark.parametrize(("hold", "held"), [("exec 3<file", "descriptor 3"), (":", "cwd"), ("cd /", "a mapped file")])
def test_a_busy_disk_names_the_process_that_holds_it(make, filesystem, hold, held):
    """By pid, with the file it holds; once it has released it, the mount succeeds. Its program is on the disk."""
    disk = make(filesystem=filesystem)
    stored(disk.mountpoint / "file")
    shutil.copy("/bin/sh", disk.mountpoint / "shell")
    with process(disk.mountpoint / "shell", "-c", f"{hold}; echo ready; read go", cwd=disk.mountpoint) as holder:
        lose(disk)
        with pytest.raises(FaultError, match=rf"/disk stays busy .* held by .*pid {holder.pid} \(shell: {held}\)"):
            after_loss_at_once(disk)
    disk.after_loss()

    assert (disk.mountpoint / "file").read_bytes() == b"stored"


@needs_power
def test_a_descriptor_of_our_own_is_named_as_well(make):
    """The likely mistake: a descriptor of our own."""
    disk = make()
    with disk.handle() as descriptor:
        loss.lose(descriptor)
        with pytest.raises(FaultError, match=rf"pid {os.getpid()} \(this very process: descriptor {descriptor}\)"):
            after_loss_at_once(disk)
    disk.after_loss()


@needs_power
def test_a_process_that_releases_the_disk_in_time_is_no_error(make):
    """A process that ends while the disk is unmounted."""
    disk = make()
    program = "import os,sys; os.chdir(sys.argv[1]); print('ready', flush=True); sys.stdin.read()"
    tries = []

    def counted(*words):
        tries.append(words)
        holder.stdin.close()
        return found(*words)

    with process(sys.executable, "-c", program, str(disk.mountpoint)) as holder, pytest.MonkeyPatch.context() as patch:
        found = image.holders
        patch.setattr(image, "holders", counted)
        lose(disk)
        disk.after_loss()

    assert len(tries) >= 1


@needs_power
@EACH
def test_a_bind_mount_keeps_the_dead_file_system_until_it_is_gone(make, tmp_path, filesystem):
    """As in a container: the umount succeeds, and a new mount would show the dead file system again."""
    disk = make(filesystem=filesystem)
    (tmp_path / "bound").mkdir()
    subprocess.run(["mount", "--bind", disk.mountpoint, tmp_path / "bound"], check=True)
    try:
        (tmp_path / "bound" / "file").write_text("seen through both")
        assert (disk.mountpoint / "file").read_text() == "seen through both"
        lose(disk)
        with pytest.raises(FaultError, match=rf"in its mount namespace it is mounted at {tmp_path}/bound\)"):
            after_loss_at_once(disk)
        with pytest.raises(OSError, match="Input/output error"):
            (tmp_path / "bound" / "more").write_text("x")
    finally:
        subprocess.run(["umount", tmp_path / "bound"], check=True)
    disk._unmount()  # a mount at once would find the dead file system, if a container that starts now has a copy
    disk._mount()
    lose(disk)
    disk.after_loss()

    (disk.mountpoint / "more").write_text("x")


@needs_power
@pytest.mark.parametrize("propagation", ["slave", "private"])
def test_a_container_sees_the_new_mount_by_propagation_only(make, tmp_path, propagation):
    """A mount namespace of its own, as a container has. A private one holds the dead file system, and is named."""
    subprocess.run(["mount", "--bind", tmp_path, tmp_path], check=True)
    try:
        subprocess.run(["mount", "--make-shared", tmp_path], check=True)
        disk = make()
        script = 'echo ready; read go; cat "$0"'
        inside = ["unshare", "--mount", "--propagation", propagation, "sh", "-c", script, str(disk.mountpoint / "new")]
        with process(*inside) as container:
            lose(disk)
            if propagation == "private":
                with pytest.raises(FaultError, match=rf"pid {container.pid} \(sh: in its mount namespace"):
                    after_loss_at_once(disk)
            else:
                disk.after_loss()
                stored(disk.mountpoint / "new", b"made after the loss")
                assert container.communicate("go\n", timeout=30)[0] == "made after the loss"
        disk.release()
    finally:
        subprocess.run(["umount", tmp_path], check=True)


@needs_power
def test_release_may_be_repeated_and_ends_every_record(make, ledger, tmp_path):
    """Also after a loss without a new mount."""
    disk = make()
    lose(disk)
    disk.release()
    disk.release()

    assert left_at_last(tmp_path) == ([], [])
    assert not (tmp_path / "disk.img").exists()
    assert list(ledger_of._left(ledger.path)) == []


@needs_power
def test_a_disk_that_is_not_mounted_has_no_handle(make):
    """Its folder is then on the machine's own disk."""
    disk = make()
    subprocess.run(["umount", disk.mountpoint], check=True)
    with pytest.raises(FaultError, match="no disk is mounted at"), disk.handle():
        pass


@needs_power
def test_a_busy_disk_is_released_when_its_last_user_lets_go(make, tmp_path):
    """It does not block the release."""
    disk = make()
    stored(disk.mountpoint / "file")
    with (disk.mountpoint / "file").open() as held:
        disk.release()
        assert ours(tmp_path)[0] == []
        assert ours(tmp_path)[1] != []
        assert held.read() == "stored"
    assert left_at_last(tmp_path) == ([], [])


@needs_power
@pytest.mark.parametrize("step", ["losetup", "mount", "cp"])
def test_an_interrupt_during_make_leaves_no_resource(ledger, tmp_path, monkeypatch, step):
    """Also between a command and its record."""
    run = LossyDisk._run

    def interrupted(self, *command, **words):
        said = run(self, *command, **words)
        if command[0] == step:
            assert ours(tmp_path)[1]
            raise KeyboardInterrupt
        return said

    monkeypatch.setattr(LossyDisk, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        LossyDisk.make(ledger, tmp_path / "disk.img", tmp_path / "disk")

    assert left_at_last(tmp_path) == ([], [])
    assert not (tmp_path / "disk.img").exists()
    assert list(ledger_of._left(ledger.path)) == []


@needs_power
def test_an_image_that_is_not_ours_is_left_alone(make, ledger, tmp_path):
    """A second disk in the same file is refused, and the first still works."""
    first = make()
    with pytest.raises(FaultError, match=r"no image of a disk can be made at .*: File exists"):
        LossyDisk.make(ledger, tmp_path / "disk.img", tmp_path / "other")
    stored(first.mountpoint / "file")
    lose(first)
    first.after_loss()

    assert (first.mountpoint / "file").read_bytes() == b"stored"
    assert (tmp_path / "disk.img").exists()


@needs_power
@pytest.mark.skipif(bool(cannot("xfs")), reason=cannot("xfs") or "it can")
def test_a_disk_that_is_too_small_says_why(ledger, tmp_path):
    """The error has the words of the command, and no resource is left."""
    with pytest.raises(FaultError, match=r"`mkfs.xfs .*` ended with 1: .* is too small"):
        LossyDisk.make(ledger, tmp_path / "disk.img", tmp_path / "disk", size=1 << 20, filesystem="xfs")

    assert left_at_last(tmp_path) == ([], [])
    assert not (tmp_path / "disk.img").exists()


def test_an_unknown_file_system_is_named(ledger, tmp_path):
    """The error comes before any resource is made."""
    with pytest.raises(UsageError, match="unknown file system 'ext3': did you mean 'ext4'"):
        LossyDisk.make(ledger, tmp_path / "disk.img", tmp_path / "disk", filesystem="ext3")
    with pytest.raises(UsageError, match="unknown file system 'ext3'"):
        cannot("ext3")


@pytest.fixture
def asked(monkeypatch):
    """`cannot`, without its cache."""
    cannot.cache_clear()
    yield cannot
    cannot.cache_clear()


@needs_power
@pytest.mark.parametrize("tool", ["mkfs.ext4", "losetup"])
def test_a_missing_tool_is_named_with_its_package(asked, monkeypatch, tool):
    """The answer says how to enable it."""
    real = mounts.tool
    monkeypatch.setattr(mounts, "tool", lambda name: None if name == tool else real(name))

    package = {"mkfs.ext4": "e2fsprogs", "losetup": "mount, util-linux or coreutils"}[tool]
    assert asked() == f"a power loss cannot be tried here: {tool} is not installed; install {package}"


@needs_power
def test_a_loss_without_effect_is_detected(asked, monkeypatch):
    """`cannot` tries a loss instead of guessing."""
    monkeypatch.setattr(loss, "lose", lambda descriptor: None)
    assert "the power loss did not take effect" in asked()


@needs_power
def test_a_kernel_that_keeps_unsynced_data_is_detected(asked, monkeypatch):
    """A sync of everything before the shutdown."""
    real = loss.lose

    def synced(descriptor):
        os.sync()
        return real(descriptor)

    monkeypatch.setattr(loss, "lose", synced)
    assert asked().endswith("ext4 of this kernel keeps b'synced, and not', but only b'synced' was synced")


@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv (util-linux) takes a capability away")
def test_without_the_capability_the_error_says_what_it_needs(tmp_path):
    """Root without the right to mount, as in most containers."""
    package = str(pathlib.Path(conformance.__file__).parents[1])
    program = "from conformance.faults.power import image; print(image.cannot())"
    drop = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    done = subprocess.run(
        [*drop, sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": package},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "it needs root (CAP_SYS_ADMIN) to mount; run it with sudo" in done.stdout


# What a killed harness leaves.

_HARNESS = """
import pathlib, signal, sys
from conformance.faults.power import loss
from conformance.faults.power.image import LossyDisk
from conformance.ledger import Ledger

folder, stage = pathlib.Path(sys.argv[1]), sys.argv[2]

def reached(name):
    if name == stage:
        print("ready", flush=True)
        signal.pause()

def stopping(owner, method, prefix):
    act = getattr(owner, method)
    def acted(self, word, *words, **more):
        value = act(self, word, *words, **more)
        reached(f"{prefix} {said.setdefault(value, word) if method == 'intend' else said.get(word, word)}")
        return value
    setattr(owner, method, acted)

said = {}
stopping(Ledger, "intend", "intend")
stopping(Ledger, "made", "made")
stopping(LossyDisk, "_run", "ran")
with Ledger(folder / "run", sys.argv[3]) as book:
    disk = LossyDisk.make(book, folder / "disk.img", folder / "disk")
    held = (disk.mountpoint / "file").open("w")
    book.spawn("holder", ["sleep", "600"], stdout=held)
    held.close()
    with disk.handle() as descriptor:
        loss.lose(descriptor)
    reached("shutdown")
"""
_NOTHING, _LOOP, _BOTH = (), ("detached /dev/{loop}",), ("unmounted {disk}", "detached /dev/{loop}")
_STAGES = {
    "ran mkfs.ext4": _NOTHING,
    "intend loop": _NOTHING,
    "ran losetup": _LOOP,
    "made loop": _LOOP,
    "intend mount": _LOOP,
    "ran mount": _BOTH,
    "made mount": _BOTH,
    "ran cp": _BOTH,
    "shutdown": ("killed holder (pid {pid})", *_BOTH),
}


@needs_power
@pytest.mark.parametrize("stage", [*_STAGES])
def test_the_next_run_releases_resources_of_a_killed_harness(make, tmp_path, stage):
    """Only these: another disk, and a mount with a similar name, stay."""
    bystander = make("disk-of-another")
    folder = tmp_path / "a harness"  # the kernel writes the space in another way
    folder.mkdir()
    package = str(pathlib.Path(conformance.__file__).parents[1])
    run = f"loss-{os.getpid()}"  # of this test process alone: a release ends all that carry it, on the whole machine
    environment = {**os.environ, "PYTHONPATH": package}
    with process(sys.executable, "-c", _HARNESS, str(folder), stage, run, env=environment):
        left = [name for name, path in outside()[1].items() if path == str(folder / "disk.img")]
        records = [json.loads(line) for line in (folder / "run" / "resources.jsonl").read_text().splitlines()]
        pid = next((record["pid"] for record in records if "pid" in record), None)
        assert release_leftovers() == []
    words = {"loop": left[0] if left else "", "disk": folder / "disk", "pid": pid}

    assert release_leftovers() == [f"run {run}: {line}".format(**words) for line in _STAGES[stage]]
    assert left_at_last(folder) == ([], [])
    assert release_leftovers() == []
    assert ours(bystander.mountpoint)[0] == [str(bystander.mountpoint)]
    lose(bystander)
    bystander.after_loss()


_PROBE = """
import signal
from conformance.faults.power import image, loss
loss.lose = lambda _: print("ready", flush=True) or signal.pause()
image.cannot()
"""


@needs_power
def test_the_next_run_releases_a_probe_that_was_killed(tmp_path):
    """Its disk is mounted in its temporary folder, which can be removed only after that mount."""
    package = str(pathlib.Path(conformance.__file__).parents[1])
    with process(sys.executable, "-c", _PROBE, env={**os.environ, "PYTHONPATH": package, "TMPDIR": str(tmp_path)}):
        (folder,) = tmp_path.iterdir()
        assert ours(folder / "disk")[0] == [str(folder / "disk")]

    assert release_leftovers()[-1] == f"removed {folder}"
    assert (left_at_last(folder), list(tmp_path.iterdir())) == (([], []), [])


# A broker on it.


def connected(broker):
    words = broker.plan.source.file.protocols["stomp"]
    host, port = broker.endpoint("stomp")
    own = msgspec.structs.asdict(words.options)
    job = make_job(host=host, port=port, protocol="stomp", own=own, destination=words.destination)
    return RawStompSession(job, lambda: None)


class Publisher:
    """Keeps 100 sends in flight, and notes which were confirmed before the loss."""

    def __init__(self, session):
        self.session, self.sent, self.confirmed = session, 0, []
        session.attach_sender("q")

    def fill(self):
        while self.sent - len(self.confirmed) < 100:
            self.sent += 1
            message = message_id(1, self.sent)
            self.session.send(message, make_body(message, 256), durable=True)

    def until(self, count):
        while len(self.confirmed) < count:
            self.fill()
            self.session.pump(10)
            while self.session.outcomes:
                outcome = self.session.outcomes.popleft()
                assert outcome.phase is Phase.OK
                self.confirmed.append(outcome.message)
        self.fill()
        self.session.pump(0)


def received(broker, count=None):
    """Drain the queue until the broker's depth is 0, or up to a number of messages."""
    if count is None:
        with urllib.request.urlopen(broker.depth_probe("q").url, timeout=20) as answer:
            count = json.load(answer)["depth"]
    session = connected(broker)
    session.attach_receiver("q", 1000, AckHeader.SETTLED)
    deadline = time.monotonic() + 20
    while len(session.incoming) < count and time.monotonic() < deadline:
        session.pump(1.0)
    assert len(session.incoming) >= count
    session.close()
    return {delivery.message for delivery in session.incoming}


@contextlib.contextmanager
def lost_at(name, tmp_path, ledger, confirms, *, torn=None, filesystem="ext4", settings=None):
    """Start a broker, lose its power at a confirm, start it again; return it and the confirmed messages."""
    if cannot(filesystem):
        pytest.skip(cannot(filesystem))
    adapter = adapters.find(name)
    with (
        adapter.prepare(tmp_path / "broker", adapter.effective(settings or {}), ["q"], ledger) as broker,
        LossyDisk.make(ledger, tmp_path / "disk.img", broker.data, filesystem=filesystem) as disk,
    ):
        broker.start()
        publisher = Publisher(connected(broker))
        publisher.until(confirms)
        with disk.handle() as descriptor, broker.target.armed("kill") as processes:
            loss.lose(descriptor, torn=torn)
            for each in processes:
                with contextlib.suppress(ProcessLookupError):  # it may have died of the disk
                    signal.pidfd_send_signal(each, signal.SIGKILL)
        with contextlib.suppress(Disconnected, Refused):
            publisher.session.close()
        assert broker.wait_gone(20)
        disk.after_loss()
        broker.start()
        try:
            yield broker, set(publisher.confirmed)
        finally:
            broker.close()
    assert left_at_last(tmp_path) == ([], [])


@needs_power
@EACH
@pytest.mark.parametrize("torn", [None, 1])
def test_a_broker_that_syncs_keeps_confirmed_messages(tmp_path, ledger, filesystem, torn):
    """The reference broker under stock settings."""
    with lost_at("reference", tmp_path, ledger, 300, filesystem=filesystem, torn=torn) as (broker, confirmed):
        assert confirmed - received(broker) == set()
    assert len(confirmed) >= 300


@needs_power
@EACH
def test_a_broker_that_does_not_sync_loses_confirmed_messages(tmp_path, ledger, filesystem):
    """By the same script. A kill alone would keep its writes; the power loss does not."""
    weak = {"sync_non_transactional": False, "journal_buffer_ms": 3}
    with lost_at("reference", tmp_path, ledger, 300, filesystem=filesystem, settings=weak) as (broker, confirmed):
        assert confirmed - received(broker)


@needs_power
@pytest.mark.artemis
@pytest.mark.parametrize("sync", [True, False])
def test_artemis_keeps_confirmed_messages_if_it_syncs(tmp_path, ledger, sync):
    """Its data folder is empty before its first start, and needs nothing in it."""
    with lost_at("artemis", tmp_path, ledger, 2000, settings={"sync_non_transactional": sync}) as (broker, confirmed):
        assert bool(confirmed - received(broker, len(confirmed) if sync else 0)) is not sync
