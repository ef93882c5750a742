"""A container engine that is none: its containers are processes of this machine, all but the engine itself is real."""

import contextlib
import os
import signal
import subprocess

import pytest

from conformance.adapters.container import docker
from conformance.errors import LaunchError


class PretendContainer:
    """`start` runs its command here; its status is what an engine would say."""

    def __init__(self, spec, name, ledger, ticket):
        self.spec, self.name, self.id = spec, name, f"id-of-{name}"
        self.ledger, self.ticket = ledger, ticket
        self.process = None
        self.starts = 0

    def start(self):
        self.starts += 1
        environment = {**os.environ, **self.spec.environment, **self.ledger.environment}
        self.process = subprocess.Popen(self.spec.command, env=environment, start_new_session=True)
        return self.process.pid

    def wait(self):
        status = self.process.wait()
        return 128 - status if status < 0 else status

    def output(self):
        return "nothing"

    def command(self, words, environment, folder, seconds):
        own = {**os.environ, **environment}
        done = subprocess.run(words, env=own, cwd=folder, timeout=seconds, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def remove(self):
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self.ticket:
            self.ledger.released(self.ticket)
            self.ticket = ""


class PretendEngine:
    """`images`: what it has, name to id. `asked` is what was asked of it, in order."""

    version = "0.0"
    host = "unix:///nowhere.sock"

    def __init__(self, *images, registry=()):
        self.images = {name: f"sha256:{name}" for name in images}
        self.registry, self.asked, self.containers, self.ran = registry, [], [], []

    def image(self, name):
        return self.images.get(name)

    def pull(self, name):
        self.asked.append(("pull", name))
        if name not in self.registry:
            raise LaunchError(f"the container engine could not pull image {name}: no such host")
        self.images[name] = f"sha256:{name}"

    def import_image(self, archive, name):
        self.asked.append(("import", archive.name))
        self.images[name] = f"sha256:{name}"

    def build(self, context, name, arguments):
        self.asked.append(("build", name, dict(arguments)))
        self.context = context.read()
        self.images[name] = f"sha256:{name}"

    def create(self, spec, name, ledger):
        ticket = ledger.intend("container", engine="docker", host=self.host, name=name)
        self.containers.append(PretendContainer(spec, name, ledger, ticket))
        return self.containers[-1]

    def run(self, spec, name, ledger):
        self.ran.append(spec)
        return 0, ""


@pytest.fixture
def pretend(monkeypatch):
    """The launcher finds this engine; a process belongs to a container where it is of its session."""

    def belongs(pid, container):
        known = [each.process.pid for each in found.containers if each.id == container and each.process]
        with contextlib.suppress(OSError):
            return os.getsid(pid) in known
        return False

    found = PretendEngine("vendor/broker:1.0")
    monkeypatch.setattr(docker, "connect", lambda: found)
    monkeypatch.setattr(docker, "belongs", belongs)
    return found
