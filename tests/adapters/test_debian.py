"""A Debian of another suite: when it can be had, and what a broker sees that runs in it."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

from conformance.adapters.distribution import debian
from conformance.errors import LaunchError

PARTS = ("bin", "lib", "lib64", "sbin")


def test_offline_it_must_be_in_the_cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(LaunchError, match="Debian trixie with one, two is not in the cache, and the run is offline"):
        debian.root(["one", "two"], "trixie", offline=True)


def test_two_suites_are_two() -> None:
    assert debian.name_of(["strace"], "trixie") != debian.name_of(["strace"]) != debian.name_of([])


@pytest.mark.process
@pytest.mark.skipif(os.getuid() != 0, reason="to change the root needs root")
def test_a_command_in_it_sees_its_own_root_and_the_broker_s_folder(tmp_path: pathlib.Path) -> None:
    """A file has one name inside and outside, and in /proc/PID/fd, by which a tracer knows it. Nothing stays mounted.

    A mount of another broker, which a power loss is to take, is not held.
    """
    root, instance, other = (tmp_path / name for name in ("root", "instance", "other"))
    (root / "usr").mkdir(parents=True)
    instance.mkdir()
    other.mkdir()
    (root / "only-here").touch()
    for part in PARTS:
        (root / part).symlink_to(f"usr/{part}")
    within = f"cat >&2 {instance}/told; exec 5>{instance}/journal; pwd; ls /only-here; read word"
    (instance / "told").write_text("seen")
    command = debian.entering(root, instance, instance)
    made = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        f'mount --rbind /usr {root}/usr; mount -t tmpfs other {other}; exec "$@"',
        "sh",
        *command,
    ]
    with subprocess.Popen(
        [*made, "sh", "-c", within], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        said = [process.stdout.readline().strip() for _ in range(2)]
        opened = pathlib.Path(f"/proc/{process.pid}/fd/5").readlink()
        held = pathlib.Path(f"/proc/{process.pid}/mounts").read_text()
        _, told = process.communicate("end\n")

    assert said == [str(instance), "/only-here"]
    assert opened == instance / "journal"
    assert told == "seen"
    assert str(other) not in held
    assert str(root) not in pathlib.Path("/proc/self/mounts").read_text()
