"""What a power loss takes, what it leaves, and what a torn one leaves besides."""

import errno
import fcntl
import mmap
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest
from starts import starts_process

import conformance
from conformance.errors import FaultError
from conformance.faults.power import loss
from conformance.faults.power.image import FILE_SYSTEMS, LossyDisk, cannot
from conformance.ledger import Ledger

PAGE = mmap.PAGESIZE
EACH = pytest.mark.parametrize("filesystem", [*FILE_SYSTEMS])
LOSE = "import sys; from conformance.faults.power import loss; loss.lose(int(sys.argv[1]))"


@pytest.fixture
def filesystem():
    return "ext4"


@pytest.fixture
@starts_process
def disk(tmp_path, filesystem):
    if cannot(filesystem):
        pytest.skip(cannot(filesystem))
    with (
        Ledger(tmp_path / "run", "power") as ledger,
        LossyDisk.make(ledger, tmp_path / "image", tmp_path / "disk", filesystem=filesystem) as made,
    ):
        yield made


@pytest.fixture
def lose(disk):
    """Loses the power of the disk, and mounts it again."""

    def act(**words):
        with disk.handle() as descriptor:
            lost = loss.lose(descriptor, **words)
        disk.after_loss()
        return lost

    return act


def segment(path, pages):
    """A file of zeros on the disk, as a journal makes its segments; open for writing."""
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.pwrite(file, bytes(pages * PAGE), 0)
    os.fsync(file)
    return file


def fill(path, pages, *, at_once=True):
    """A segment whose pages hold their numbers from 1 on, none of them synced."""
    file = segment(path, pages)
    numbered = [bytes([number + 1]) * PAGE for number in range(pages)]
    if at_once:
        os.pwrite(file, b"".join(numbered), 0)
    else:
        for number, page in enumerate(numbered):
            os.pwrite(file, page, number * PAGE)
    os.close(file)


def survived(path):
    """The pages that are on the disk, by number; each is whole or was never written."""
    data = path.read_bytes()
    found = []
    for number in range(len(data) // PAGE):
        page = data[number * PAGE : (number + 1) * PAGE]
        assert page in (bytes(PAGE), bytes([number + 1]) * PAGE)
        if page != bytes(PAGE):
            found.append(number)
    return found


def child(program, descriptor, *before):
    """A Python process that gets only the number of a descriptor."""
    package = str(pathlib.Path(conformance.__file__).parents[1])
    return subprocess.run(
        [*before, sys.executable, "-c", program, str(descriptor)],
        env={**os.environ, "PYTHONPATH": package},
        cwd="/",
        pass_fds=[descriptor],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@EACH
def test_synced_data_survives_and_other_data_is_gone(disk, lose):
    """The end of one file, and a whole file without a sync."""
    with (disk.mountpoint / "journal").open("wb", buffering=0) as file:
        file.write(b"synced")
        os.fsync(file.fileno())
        file.write(b", and not")
        (disk.mountpoint / "new").write_text("not synced")
    lost = lose()

    assert (disk.mountpoint / "journal").read_bytes() == b"synced"
    assert not (disk.mountpoint / "new").exists()
    assert 0 < lost.shutdown_us < 60_000_000
    assert str(lost) == f"{lost.shutdown_us} us for the shutdown"


@EACH
def test_a_kill_alone_loses_no_data(disk):
    """The control, and the point of the fault: the page cache outlives every process."""
    file = disk.mountpoint / "journal"
    program = "import os,sys,signal; os.write(os.open(sys.argv[1], os.O_CREAT|os.O_WRONLY), b'x'*9000); signal.pause()"
    writer = subprocess.Popen([sys.executable, "-c", program, str(file)])
    while not (file.exists() and file.stat().st_size == 9000):
        assert writer.poll() is None
    writer.send_signal(signal.SIGKILL)
    writer.wait()

    assert file.read_bytes() == b"x" * 9000


@EACH
def test_from_the_loss_on_every_write_fails(disk):
    """And every sync: a broker cannot confirm data that it did not store."""
    file = segment(disk.mountpoint / "journal", 1)
    with disk.handle() as descriptor:
        loss.lose(descriptor)
    failures = []
    for act in (lambda: os.pwrite(file, b"x", 0), lambda: os.fdatasync(file)):
        with pytest.raises(OSError) as caught:
            act()
        failures.append(caught.value.errno)
    os.close(file)

    assert failures == [errno.EIO, errno.EIO]


def test_a_client_needs_only_the_descriptor(disk):
    """Another process, in another folder, loses the power."""
    (disk.mountpoint / "new").write_text("not synced")
    with disk.handle() as descriptor:
        done = child(LOSE, descriptor)
    disk.after_loss()

    assert (0, "") == (done.returncode, done.stderr)
    assert [] == list(disk.mountpoint.iterdir())


@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv (util-linux) takes a capability away")
def test_a_caller_without_the_privilege_gets_an_error(disk):
    """The caller is root without the capability."""
    with disk.handle() as descriptor:
        done = child(LOSE, descriptor, "setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")

    assert "FaultError: the power cannot be lost: the shutdown of a file system needs CAP_SYS_ADMIN" in done.stderr
    (disk.mountpoint / "still").write_text("stores")


@pytest.mark.parametrize("where", ["/", "the folder below"])
def test_the_disk_of_the_machine_is_refused(tmp_path, monkeypatch, where):
    """As for a folder whose disk is not mounted. The test watches the ioctl: it must not be called."""
    calls = []
    monkeypatch.setattr(fcntl, "ioctl", lambda *words: calls.append(words))
    descriptor = os.open(tmp_path if where != "/" else where, os.O_RDONLY)
    with pytest.raises(FaultError, match="is not our disk"):
        loss.lose(descriptor, torn=1)
    os.close(descriptor)

    assert calls == []


def test_the_command_is_the_shutdown_without_a_flush_of_the_log(tmp_path, monkeypatch):
    """XFS_IOC_GOINGDOWN and XFS_FSOP_GOING_FLAGS_NOLOGFLUSH of xfs_fs.h; ext4 took over both numbers.

    The other two flags keep unsynced data.
    """
    calls = []
    monkeypatch.setattr(fcntl, "ioctl", lambda *words: calls.append(words))
    monkeypatch.setattr(loss, "_refuse_the_machines_own", lambda descriptor: None)
    loss.lose(17)

    assert calls == [(17, 0x8004587D, (2).to_bytes(4, sys.byteorder))]


def test_pages_reach_the_disk_out_of_order_and_a_write_is_torn(disk, lose):
    """One write of 64 pages: some survive, and one whose predecessor does not."""
    fill(disk.mountpoint / "journal", 64)
    lost = lose(torn=1)
    left = survived(disk.mountpoint / "journal")

    assert (lost.torn.dirty, lost.torn.written) == (64, len(left))
    assert left != []
    assert {*range(32)} - {*left}
    assert [number for number in left if number and number - 1 not in left]
    assert str(lost).endswith(f" us for the shutdown, {len(left)} of 64 dirty pages written back")


def test_without_a_seed_no_page_survives(disk, lose):
    """The control of the test above."""
    fill(disk.mountpoint / "journal", 64)
    lose()

    assert [] == survived(disk.mountpoint / "journal")


def test_a_seed_means_the_same_twice(disk, lose):
    """Another seed tears other pages."""
    left = []
    for seed in (7, 7, 8):
        fill(disk.mountpoint / "journal", 64)
        lose(torn=seed)
        left.append(survived(disk.mountpoint / "journal"))

    assert left[0] == left[1] != left[2]


def test_a_seed_means_the_same_on_another_disk(disk, tmp_path):
    """File systems list folders in different orders."""
    left = []
    for number in (1, 2):
        with (
            Ledger(tmp_path / f"run-{number}", f"power-{number}") as ledger,
            LossyDisk.make(ledger, tmp_path / f"image-{number}", tmp_path / f"disk-{number}") as each,
        ):
            paths = [each.mountpoint / folder / name for folder in "abcdef" for name in ("1", "2")]
            for path in paths:
                path.parent.mkdir(exist_ok=True)
                fill(path, 4)
            with each.handle() as descriptor:
                loss.lose(descriptor, torn=3)
            each.after_loss()
            left.append([survived(path) for path in paths])

    assert left[0] == left[1]
    assert 0 < sum(map(len, left[0])) < 48


def test_only_dirty_pages_are_drawn(disk, lose):
    """Four pages in two places of a long segment."""
    file = segment(disk.mountpoint / "journal", 1024)
    for number in (100, 101, 102, 900):
        os.pwrite(file, bytes([9]) * PAGE, number * PAGE)
    os.close(file)

    assert lose(torn=1).torn.dirty == 4


@pytest.mark.parametrize("filesystem", ["xfs"])
def test_xfs_reorders_data_that_was_written_page_by_page(disk, lose):
    """Its folios are then single pages; written at once, they would survive as a whole."""
    file = os.open(disk.mountpoint / "journal", os.O_RDWR | os.O_CREAT)
    for number in range(64):
        os.pwrite(file, bytes(PAGE), number * PAGE)
    os.fsync(file)
    for number in range(64):
        os.pwrite(file, bytes([number + 1]) * PAGE, number * PAGE)
    os.close(file)
    lost = lose(torn=1)
    left = survived(disk.mountpoint / "journal")

    assert lost.torn.dirty == 64
    assert 0 < len(left) < 64
    assert [number for number in left if number and number - 1 not in left]


@pytest.mark.parametrize(("filesystem", "left"), [("ext4", b"new"), ("xfs", b"")])
def test_only_ext4_keeps_a_file_that_took_the_name_of_another_without_a_sync(disk, lose, left):
    """The new name is in the log, which the sync of another file writes. Both keep the name of a new file that is synced."""
    file, other, created = (disk.mountpoint / name for name in ("file", "other", "created"))
    file.write_bytes(b"old")
    disk.settle()
    (disk.mountpoint / "new").write_bytes(b"new")
    (disk.mountpoint / "new").rename(file)
    for synced in (created, other):
        with synced.open("wb") as stream:
            stream.write(b"synced")
            stream.flush()
            os.fsync(stream.fileno())
    lose()

    assert (file.read_bytes(), created.read_bytes(), other.read_bytes()) == (left, b"synced", b"synced")


def test_a_growing_file_ends_before_pages_that_were_written_back(disk, lose):
    """Its size is in the log, which is not written."""
    file = segment(disk.mountpoint / "journal", 2)
    os.pwrite(file, bytes([9]) * 64 * PAGE, 2 * PAGE)
    os.close(file)
    lost = lose(torn=1)

    assert lost.torn.written > 0
    assert (disk.mountpoint / "journal").stat().st_size == 2 * PAGE


def test_only_the_files_below_the_folder_are_torn(disk, lose):
    """Only files of the journal's folder are torn."""
    (disk.mountpoint / "journal").mkdir()
    for name in ("journal/1", "beside"):
        fill(disk.mountpoint / name, 64)
    lost = lose(torn=1, folder="journal")

    assert lost.torn.dirty == 64
    assert len(survived(disk.mountpoint / "journal" / "1")) == lost.torn.written
    assert [] == survived(disk.mountpoint / "beside")


def test_links_and_sockets_are_skipped(disk, lose, tmp_path):
    """Links, also broken ones and links out of the disk; a pipe, whose open must not block."""
    (disk.mountpoint / "away").symlink_to(tmp_path)
    (disk.mountpoint / "broken").symlink_to("nowhere")
    fill(tmp_path / "outside", 8)
    (disk.mountpoint / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(disk.mountpoint / "pipe")
    fill(disk.mountpoint / "journal", 64)

    assert lose(torn=1).torn.dirty == 64


def test_a_folder_that_is_not_there_is_named(disk, lose):
    """The trial is void, and the disk still works."""
    with pytest.raises(FaultError, match=r"the files below 'journal' cannot be torn: No such file"):
        lose(torn=1, folder="journal")
    (disk.mountpoint / "still").write_text("stores")


def test_a_kernel_without_cachestat_tears_too(disk, lose, monkeypatch):
    """An unknown system call, as cachestat is before Linux 6.5."""
    monkeypatch.setattr(loss, "_CACHESTAT", 100_000)
    fill(disk.mountpoint / "journal", 64)
    lost = lose(torn=1)
    left = survived(disk.mountpoint / "journal")

    assert (lost.torn.dirty, lost.torn.written) == (None, len(left))
    assert 0 < len(left) < 64
    assert "pages chosen among all" in str(lost)


def test_a_direct_write_survives_without_a_sync(disk, lose):
    """This loss does not empty the cache of a device."""
    os.close(segment(disk.mountpoint / "journal", 1))
    file = os.open(disk.mountpoint / "journal", os.O_RDWR | os.O_DIRECT)
    with mmap.mmap(-1, PAGE) as page:
        page[:] = bytes([1]) * PAGE
        os.pwrite(file, page, 0)
    os.close(file)
    lose()

    assert [0] == survived(disk.mountpoint / "journal")
