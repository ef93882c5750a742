"""What an image is built upon, and from what; and the engine that is not there."""

import dataclasses
import errno
import fcntl
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import pytest

from conformance import adapters, mounts
from conformance.adapters.container import engine, images
from conformance.adapters.container.docker import DockerLauncher
from conformance.adapters.distribution import debian
from conformance.adapters.file import model
from conformance.adapters.launch.plan import BrokerSource
from conformance.errors import LaunchError, UsageError
from conformance.processes import open_pidfd, wait_ended
from conformance.run.leftovers import release_leftovers
from tools import build_images, dockerd

VENDOR = "vendor/broker:1.0"
IMAGES = (model.VendorImage(since="0", name="vendor/broker:{version}"),)
FILE = adapters.find("reference").file.model_copy(
    update={"container": model.ContainerTable(images=IMAGES, packages=("strace",))}
)


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(images.BASE_VARIABLE, raising=False)
    monkeypatch.setattr(debian, "cannot_make", lambda: "no test makes one")


@pytest.fixture
def recipe(tmp_path):
    """Of a broker whose distribution has a binary, and examples that are not needed."""
    home = tmp_path / "home"
    for name in ("bin/broker", "examples/one"):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text(name)
    (tmp_path / "Dockerfile").write_text("FROM ${BASE_IMAGE}\n")

    def make(version="1.0", offline=False):
        source = BrokerSource(FILE, tmp_path, version, images.HOME)
        return images.Recipe(source, lambda: home, offline)

    return make


def names(context):
    with tarfile.open(fileobj=io.BytesIO(context)) as archive:
        return {member.name: (member.uid, member.gid) for member in archive.getmembers()}


def test_the_vendors_image_brings_its_own_distribution(pretend, recipe, ledger):
    pretend.images[VENDOR] = "sha256:1"
    image = images.broker_image(pretend, recipe())

    assert (VENDOR, True) == (image.base, image.official)
    assert {"Dockerfile", "distribution"} == set(names(pretend.context))
    assert [("build", image.name, {"BASE_IMAGE": VENDOR})] == pretend.asked


def test_a_vendors_image_without_the_broker_gets_it(pretend, recipe, ledger):
    """`bare`: it has what the broker runs on."""
    pretend.images[VENDOR] = "sha256:1"
    bare = model.ContainerTable(images=(IMAGES[0].model_copy(update={"bare": True}),))
    made = recipe()
    source = dataclasses.replace(made.source, file=FILE.model_copy(update={"container": bare}))
    images.broker_image(pretend, dataclasses.replace(made, source=source))

    assert "distribution/bin/broker" in names(pretend.context)


@pytest.mark.process
def test_the_bundled_broker_is_the_code_that_runs_here(tmp_path):
    """Its folder alone is found by a Python that has the loader of cffi, and nothing else of this package is in it."""
    lib = images.distribution() / "lib"
    code = "import conformance, conformance.reference.command, cproton; print(conformance.__file__, cproton.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(lib), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert [str(lib / "conformance/__init__.py"), str(lib / "cproton.py")] == done.stdout.split()
    assert {"__init__.py", "errors.py", "reference"} == {path.name for path in (lib / "conformance").iterdir()}
    assert images.distribution() == lib.parent


def test_an_edit_of_the_bundled_broker_makes_another_image(tmp_path, monkeypatch):
    before = images.content()
    copy = tmp_path / "conformance"
    shutil.copytree(images._PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "_data"))
    monkeypatch.setattr(images, "_PACKAGE", copy)
    same = images.content()
    with (copy / "reference" / "server.py").open("a") as stream:
        stream.write("# edited\n")

    assert before == same
    assert before != images.content()
    assert DockerLauncher().recipe(adapters.find("reference").source).content == images.content()


@pytest.mark.parametrize("words", [[], ["--help"], ["artmis"], ["artemis@9:nowhere"]])
def test_images_that_cannot_be_asked_for(words, capsys):
    assert 4 == build_images.main(words)
    assert capsys.readouterr().err.startswith("conformance: ")


def test_a_base_of_our_own_gets_the_distribution(pretend, recipe, ledger, monkeypatch):
    """A registry is asked first. Files in the image belong to root, also if another user unpacked them."""
    monkeypatch.setattr(debian, "cannot_make", str)
    monkeypatch.setattr(debian, "archive", lambda packages, suite: pathlib.Path(f"of-{'-'.join(packages)}.tar"))
    pretend.images.clear()
    image = images.broker_image(pretend, recipe())
    packed = names(pretend.context)

    assert not image.official
    assert ["pull", "import", "build"] == [asked[0] for asked in pretend.asked]
    assert ("import", "of-strace.tar") in pretend.asked
    assert {"Dockerfile", "distribution", "distribution/bin", "distribution/bin/broker"} == set(packed)
    assert (0, 0) == packed["distribution/bin/broker"]


def test_a_base_that_is_there_is_not_asked_for_again(pretend, recipe, ledger, monkeypatch):
    """Nor is an image built twice."""
    monkeypatch.setattr(debian, "cannot_make", str)
    monkeypatch.setattr(debian, "archive", lambda packages, suite: pathlib.Path("base.tar"))
    pretend.images.clear()
    first = images.broker_image(pretend, recipe())
    asked = len(pretend.asked)

    assert first == images.broker_image(pretend, recipe())
    assert asked == len(pretend.asked)


def test_what_an_image_is_made_from_is_in_its_name(pretend, recipe, ledger):
    pretend.images[VENDOR] = "sha256:1"
    found = {images.broker_image(pretend, recipe()).name}
    pretend.images[VENDOR] = "sha256:2"
    found.add(images.broker_image(pretend, recipe()).name)
    pretend.registry = ("vendor/broker:1.1",)
    found.add(images.broker_image(pretend, recipe("1.1")).name)
    recipe().dockerfile.write_text("FROM ${BASE_IMAGE}\nUSER root\n")
    found.add(images.broker_image(pretend, recipe()).name)

    assert 4 == len(found)


def test_a_base_that_was_named_is_taken(pretend, recipe, ledger, monkeypatch):
    monkeypatch.setenv(images.BASE_VARIABLE, "mine:1")
    pretend.registry = ("mine:1",)

    image = images.broker_image(pretend, recipe())

    assert ("mine:1", True) == (image.base, image.official)
    assert ("pull", "mine:1") == pretend.asked[0]


def test_a_run_that_is_offline_asks_no_registry(pretend, recipe, ledger, monkeypatch):
    monkeypatch.setattr(debian, "cannot_make", lambda: "debootstrap is not installed")
    pretend.images.clear()
    with pytest.raises(
        LaunchError, match=r"the run is offline; and debootstrap is not installed. Name an image with strace"
    ):
        images.broker_image(pretend, recipe(offline=True))

    assert [] == pretend.asked


@pytest.mark.process
def test_debootstrap_that_fails_leaves_no_archive(tmp_path, ledger, monkeypatch):
    fake(tmp_path, monkeypatch, "debootstrap", "echo E: no such suite; exit 3")
    fake(tmp_path, monkeypatch, "unshare", 'while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"')
    with pytest.raises(LaunchError, match="ended with 3") as caught:
        debian.archive(["strace"])

    assert ("E: no such suite",) == caught.value.log_tail
    assert [] == list((tmp_path / "cache").rglob("*.tar"))


def fake(tmp_path, monkeypatch, name, script):
    """A command of that name, before all others."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    if str(folder) not in os.environ["PATH"]:
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


# what a killed run leaves

HARNESS = """
import pathlib, sys
from conformance.ledger import Ledger
book = Ledger(pathlib.Path(sys.argv[1]), "killed")
book.intend("container", engine="docker", host="unix:///e.sock", name="killed-01", label="conformance.run=killed")
print("made", flush=True)
sys.stdin.read()
"""


@pytest.mark.process
def test_a_container_of_a_killed_run_is_removed_at_its_own_engine(tmp_path, monkeypatch):
    """With its volumes: an image may declare some, and each would stay behind. So is what else has its run's label."""
    fake(tmp_path, monkeypatch, "docker", f'echo "$@" >>{tmp_path}/asked; [ "$3" != ps ] || echo killed-02')
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(tmp_path / "run")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert b"made\n" == harness.stdout.readline()
    harness.kill()
    harness.communicate()

    assert ["run killed: removed container killed-01 and killed-02"] == release_leftovers()
    assert [
        "--host unix:///e.sock ps --all --format {{.Names}} --filter label=conformance.run=killed",
        "--host unix:///e.sock rm --force --volumes killed-01",
        "--host unix:///e.sock rm --force --volumes killed-02",
    ] == (tmp_path / "asked").read_text().splitlines()


# an engine that is not there


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    engine.connect.cache_clear()
    yield
    engine.connect.cache_clear()


def test_no_engine_is_an_error_with_the_next_step(nowhere):
    with pytest.raises(LaunchError, match=r"no container engine answers at unix://.*none.sock: start Docker, or name"):
        engine.connect()


def test_names_are_such_as_an_engine_takes():
    assert "run-1-01-artemis-x" == engine.names_of(["run-1", "01-artemis x"])


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="an engine of its own needs root")


@pytest.mark.process
@needs_root
def test_an_engine_that_does_not_come_up(tmp_path, ledger, monkeypatch):
    """Its log is told, and it is released."""
    monkeypatch.setattr(dockerd, "LOCK", tmp_path / "lock")
    fake(tmp_path, monkeypatch, "iptables", "")
    fake(tmp_path, monkeypatch, "dockerd", "echo failed to start daemon: no bridge; exit 1")
    with pytest.raises(LaunchError, match="dockerd did not come up") as caught, dockerd.running(tmp_path / "d", ledger):
        pytest.fail("it is not there")
    lines = [json.loads(line) for line in ledger.path.read_text().splitlines()]

    assert ("failed to start daemon: no bridge",) == caught.value.log_tail
    assert ["intent", "made", "released"] == [line["state"] for line in lines]


@needs_root
def test_there_is_one_engine_of_ours_at_a_time(tmp_path, ledger, monkeypatch):
    """Two share a bridge: the second to start cuts the connections of the first's containers."""
    taken = []

    class Stopped(Exception): ...

    def try_to_take(*_):
        with dockerd.LOCK.open("w") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError as error:
                taken.append(error.errno)
        raise Stopped

    monkeypatch.setattr(dockerd, "LOCK", tmp_path / "lock")
    monkeypatch.setattr(dockerd, "install", lambda: None)
    monkeypatch.setattr(dockerd, "_spawn", try_to_take)
    with pytest.raises(Stopped), dockerd.running(tmp_path / "d", ledger):
        pytest.fail("it was not started")

    assert [errno.EWOULDBLOCK] == taken


@pytest.mark.process
@needs_root
def test_an_engine_ends_with_who_started_it(tmp_path):
    """Even when that is killed: it hears of it from the kernel, and has time to unmount what it mounted."""
    script = (
        "import pathlib, sys\nfrom tools import dockerd\nfrom conformance.ledger import Ledger\n"
        "book = Ledger(pathlib.Path(sys.argv[1]), 'holder')\n"
        "root = pathlib.Path(sys.argv[1])\n"
        "print(dockerd._spawn(root, root, book)[0].pid, flush=True)\nsys.stdin.read()\n"
    )
    folder = tmp_path / "bin"
    folder.mkdir()
    os.mkfifo(tmp_path / "up")
    (folder / "dockerd").write_text(
        f"#!/bin/sh\ntrap 'echo ended >{tmp_path}/said; exit 0' TERM; echo up >{tmp_path}/up\nwhile :; do sleep 0.05; done\n"
    )
    (folder / "dockerd").chmod(0o755)
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        env={**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    pid = int(holder.stdout.readline())
    assert "up\n" == (tmp_path / "up").read_text()  # from now on the kernel knows
    with open_pidfd(pid) as handle:
        holder.kill()
        holder.communicate()

        assert wait_ended([handle], 10)
    assert "ended\n" == (tmp_path / "said").read_text()


def test_what_is_missing_is_said_where_it_cannot_be_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(dockerd.os, "getuid", lambda: 0)
    monkeypatch.setattr(mounts, "tool", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchError, match=r"docker\.io, iptables cannot be installed here: there is no apt-get"):
        dockerd.install()


def test_the_report_says_that_the_user_is_not_root(monkeypatch):
    monkeypatch.setattr(dockerd.os, "getuid", lambda: 1000)
    with pytest.raises(LaunchError, match="needs root"):
        dockerd.install()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["docker", "ps"], ["docker", "ps"]),
        (["--", "docker", "--version"], ["docker", "--version"]),
        (["--data-root", "/d", "sh", "-c", "x"], ["sh", "-c", "x"]),
    ],
)
def test_the_words_of_the_command(words, expected):
    assert expected == dockerd._parse(words)[1]


@pytest.mark.parametrize("words", [[], ["--data-root"], ["--data-root", "/d"], ["--help"]])
def test_words_that_are_no_command(words):
    with pytest.raises(UsageError, match=r"usage: python -m tools\.dockerd"):
        dockerd._parse(words)


@pytest.mark.process
def test_the_exit_status_is_the_commands(nowhere, monkeypatch):
    """Beside an engine that answers nothing is started."""
    monkeypatch.setattr(dockerd, "_answering", lambda: True)

    assert 7 == dockerd.main(["sh", "-c", "exit 7"])
    assert 4 == dockerd.main([])
