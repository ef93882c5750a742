"""A container engine (Docker or a compatible one): the only module that uses its library and knows its errors.

testcontainers finds the engine (DOCKER_HOST, its own properties file, the usual socket) and labels each container. Its
container class is not used: it makes and starts a container in one call and cannot start it again, so it would replace
none of this code. Its reaper, Ryuk, is never started: its image must be pulled, and it knows no loop devices or mounts.
The next run releases what a killed run left, from the ledger, as with every other resource.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import os
import pathlib
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from conformance.adapters.broker_log import launch_error
from conformance.adapters.ports import HOST
from conformance.errors import LaunchError
from conformance.ledger import RUN_VARIABLE, Ledger

LABEL = "conformance.run"
"""Every container has the id of its run under it."""

_SOCKET = "unix:///var/run/docker.sock"
_TIMEOUT_S = 120
_BUILD_S = 1800
_TIMED_OUT = 124
"""The status of `timeout` if it ended its command, but by SIGKILL."""
_NEXT_STEP = "start Docker, or name its socket in DOCKER_HOST"


@dataclasses.dataclass(frozen=True)
class Bind:
    """A folder, or a file, of this machine, in the container under the same path.

    `recursive`: with what is mounted below it when the container starts. A recursive bind keeps each of these file
    systems alive as long as the container runs.
    """

    folder: pathlib.Path
    recursive: bool = True
    read_only: bool = False


@dataclasses.dataclass(frozen=True)
class Spec:
    """What a container is made from. `ports`: those inside, and for each the one that it gets on 127.0.0.1."""

    image: str
    command: tuple[str, ...]
    binds: tuple[Bind, ...] = ()
    ports: Mapping[int, int] = dataclasses.field(default_factory=dict)
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


class Container:
    """One container, from `Engine.create` to `remove`; started, killed by others, and started again.

    It is in the ledger before it is made. Every method raises `LaunchError` for an error of the engine.
    """

    def __init__(self, made: Any, name: str, ledger: Ledger, ticket: str) -> None:
        self.name = name
        self.id: str = made.id
        self._made = made
        self._ledger = ledger
        self._ticket = ticket

    def start(self) -> int:
        """`docker start`; the pid of its first process on this machine, 0 if it has ended already."""
        with _reported(f"start container {self.name}"):
            self._made.start()
            self._made.reload()
        return int(self._made.attrs["State"]["Pid"])

    def wait(self) -> int:
        """Wait until it has ended for the engine as well; return its exit status, 128 and the number for a signal.

        Nothing listens at its published ports then: the engine reports the end before it closes them, and answers no
        question about the container until they are closed.
        """
        with _reported(f"wait for container {self.name}"):
            status = int(self._made.wait(timeout=_TIMEOUT_S)["StatusCode"])
            self._made.reload()
        return status

    def output(self) -> str:
        with _reported(f"read the log of container {self.name}"):
            logged: bytes = self._made.logs()
        return logged.decode(errors="replace")

    def command(
        self, words: Sequence[str], environment: Mapping[str, str], folder: pathlib.Path, seconds: float
    ) -> tuple[int, str]:
        """Run a command beside the broker in it, as the same user; return its exit status and output.

        The limit is kept inside, by `timeout` of the image: the engine has no way to end such a command. Raises
        `subprocess.TimeoutExpired` if the time is over.
        """
        limited = ["timeout", "--signal=KILL", f"{seconds:g}", *words]
        with _reported(f"run {words[0]} in container {self.name}"):
            status, said = self._made.exec_run(limited, environment=dict(environment), workdir=str(folder))
        if status in (_TIMED_OUT, 128 + signal.SIGKILL):
            raise subprocess.TimeoutExpired(words, seconds)
        return int(status), said.decode(errors="replace")

    def remove(self) -> None:
        """Kill its processes and delete it with its volumes; a second call does nothing."""
        import docker.errors

        if not self._ticket:
            return
        with _reported(f"remove container {self.name}"), contextlib.suppress(docker.errors.NotFound):
            self._made.remove(force=True, v=True)
        self._ledger.released(self._ticket)
        self._ticket = ""


class Engine:
    """A connection to an engine. `host` is its address as the `docker` command takes it."""

    def __init__(self, client: Any, host: str) -> None:
        self.host = host
        self._client = client

    @property
    def version(self) -> str:
        with _reported("ask the engine for its version"):
            return str(self._client.client.version()["Version"])

    def create(self, spec: Spec, name: str, ledger: Ledger) -> Container:
        """Make a container that runs as this user, so that its files can be read and deleted here.

        Nothing is started. Its environment has the run's variable: where its processes can be seen, the next run finds
        them by it.
        """
        label = f"{LABEL}={ledger.run_id}"
        ticket = ledger.intend("container", engine="docker", host=self.host, name=name, label=label)
        try:
            with _reported(f"make container {name}"):
                made = self._client.create(
                    spec.image,
                    command=list(spec.command),
                    entrypoint=[],
                    name=name,
                    user=f"{os.getuid()}:{os.getgid()}",
                    environment={**spec.environment, RUN_VARIABLE: ledger.run_id},
                    labels={LABEL: ledger.run_id},
                    ports={f"{inside}/tcp": (HOST, port) for inside, port in spec.ports.items()},
                    mounts=[_mount(bind) for bind in spec.binds],
                )
        except LaunchError:
            ledger.released(ticket)
            raise
        ledger.made(ticket, id=made.id)
        return Container(made, name, ledger, ticket)

    def run(self, spec: Spec, name: str, ledger: Ledger) -> tuple[int, str]:
        """Run one container from start to end; return its exit status and output."""
        container = self.create(spec, name, ledger)
        try:
            container.start()
            return container.wait(), container.output()
        finally:
            container.remove()

    def image(self, name: str) -> str | None:
        """The id of an image that the engine has; None if it has none of that name."""
        import docker.errors

        with _reported(f"look for image {name}"):
            try:
                return str(self._client.client.images.get(name).id)
            except docker.errors.ImageNotFound:
                return None

    def pull(self, name: str) -> None:
        """Pull it from its registry; `LaunchError` if that has no such image, or does not answer."""
        with _reported(f"pull image {name}"):
            self._client.client.images.pull(name)

    def import_image(self, archive: pathlib.Path, name: str) -> None:
        """A tar of a root file system as an image of one layer."""
        repository, _, tag = name.rpartition(":")
        with _reported(f"import {archive.name} as image {name}"):
            self._client.client.api.import_image_from_file(str(archive), repository=repository, tag=tag)

    def build(self, context: IO[bytes], name: str, arguments: Mapping[str, str]) -> None:
        """Build an image from a context (a tar with a Dockerfile); `LaunchError` with the end of the build's output."""
        import docker.errors

        with _reported(f"build image {name}"):
            try:
                self._client.client.images.build(
                    fileobj=context,
                    custom_context=True,
                    tag=name,
                    buildargs=dict(arguments),
                    rm=True,
                    forcerm=True,
                    timeout=_BUILD_S,
                )
            except docker.errors.BuildError as error:
                said = "".join(str(line.get("stream") or line.get("error") or "") for line in error.build_log)
                raise launch_error(f"image {name} cannot be built: {error.msg}", said) from error


@functools.cache
def connect() -> Engine:
    """Connect to the engine that answers; `LaunchError` gives its address and the next step."""
    try:
        from testcontainers.core.docker_client import DockerClient
    except ImportError as error:
        raise LaunchError(
            f"no container can be started: {error.name} is not installed; `pip install testcontainers`"
        ) from error
    logging.getLogger("testcontainers").setLevel(logging.WARNING)
    try:
        with _reported("connect"):
            client = DockerClient(timeout=_TIMEOUT_S)
            client.client.ping()
    except LaunchError as error:
        raise LaunchError(f"no container engine answers at {_host()}: {_NEXT_STEP}") from error
    if shutil.which("docker") is None:
        raise LaunchError("the `docker` command is not on PATH: with it the next run releases what a killed one leaves")
    return Engine(client, _host())


def _host() -> str:
    """As the `docker` command takes it; what testcontainers found in its own file it puts into the environment."""
    return os.environ.get("DOCKER_HOST") or _SOCKET


def _mount(bind: Bind) -> Any:
    import docker.types

    mount = docker.types.Mount(str(bind.folder), str(bind.folder), type="bind", read_only=bind.read_only)
    if not bind.recursive:
        mount["BindOptions"] = {"NonRecursive": True}
    return mount


@contextlib.contextmanager
def _reported(what: str) -> Iterator[None]:
    """Turn errors of the engine, of its library and of the connection to it into a `LaunchError`."""
    import docker.errors

    try:
        yield
    except (docker.errors.DockerException, OSError) as error:  # an error of its HTTP library is an OSError
        raise LaunchError(f"the container engine could not {what}: {_plain(error)}") from error


def _plain(error: Exception) -> str:
    said = getattr(error, "explanation", None) or str(error)
    return " ".join(str(said).split())[:400]


def names_of(spec: Sequence[str]) -> str:
    """A name that the engine accepts, from any words."""
    return "-".join("".join(c if c.isalnum() or c in "._-" else "-" for c in word) for word in spec)
