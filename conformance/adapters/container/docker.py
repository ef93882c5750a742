"""The container launcher: start a broker in a container, its ports published on 127.0.0.1.

Everything that the harness reads has the same path inside and outside: the folder of the broker with its instance,
journal and logs, and the folder of the run, where a tracer inside writes its trace. So no path is translated, and `-P`
of strace compares the paths that the broker opens. The folder of the run is bound without the file systems mounted
below it: else each container would keep alive the disks of all others, and none could lose its power.

The container is made at the first start, when its disk is there, and each later start is `docker start` of the same
one: the ports, the address and the file system of the container stay. What it runs is a script that is written anew
for each start, since a container cannot be given another command, and a traced start needs one. The script waits at a
gate until the harness knows its pid: a fault of the recovery has to be armed before there is any.

A trial in the image of the broker finds out which faults a container can take on this machine.

The processes of a container have pids on the host, like any other process. Their control group has the id of the
container in its name, under every layout and driver. Signals go to them straight, and not through the engine: nothing
lies between the event of a trigger and its kill.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import ipaddress
import os
import pathlib
import re
import shlex
import signal
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Self

import psutil

from conformance import locks, paths
from conformance.adapters import ports
from conformance.adapters.broker_log import launch_error
from conformance.adapters.container import images
from conformance.adapters.container.engine import Bind, Container, Engine, Spec, connect, names_of
from conformance.adapters.container.images import Image, Recipe, broker_image
from conformance.adapters.distribution.versions import BUNDLED
from conformance.adapters.file.model import BrokerFile
from conformance.adapters.file.nodes_table import NODES, nodes_in
from conformance.adapters.interface import Broker
from conformance.adapters.launch.launcher import FileLauncher, check_starts
from conformance.adapters.launch.native import NativeBroker
from conformance.adapters.launch.plan import BrokerSetup, BrokerSource, Plan, make_plan
from conformance.adapters.launch.process_tree import Tree, descendants
from conformance.adapters.launch.readiness import Readiness
from conformance.claims import Value
from conformance.errors import LaunchError, UsageError
from conformance.ledger import Ledger
from conformance.processes import is_alive, open_pidfd, send, wait_ended
from conformance.scenario.needs import Means, Wanted

_KILLED = -9
_LOOK_S = 1.0
_LISTEN = "0A"
"""TCP_LISTEN of net/tcp_states.h, as proc_pid_net(5) prints it."""


class Init:
    """The first process of a container, as a `Leader`. `pid` is its number on the host.

    Raises `LaunchError` if it has ended already, or cannot be seen here: the engine runs on another machine, in a
    virtual one, or rootless.
    """

    def __init__(self, container: Container, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._container = container
        if pid == 0:
            raise LaunchError(f"container {container.name} ended at once: {container.output().strip()[-400:]}")
        with contextlib.ExitStack() as undo:
            try:
                self._handle = undo.enter_context(open_pidfd(pid))
            except OSError as error:
                raise LaunchError(f"{unseen(container.name)} (pid {pid}: {error.strerror or 'none here'})") from error
            if not belongs(pid, container.id):
                raise LaunchError(unseen(container.name))
            self._opened = undo.pop_all()

    def poll(self) -> int | None:
        """Its exit status if it has ended, for the engine as well: only then can it be started again."""
        if self.returncode is None and wait_ended([self._handle], 0):
            self.returncode = self._status()
            self._opened.close()
        return self.returncode

    def wait(self) -> int:
        while (status := self.poll()) is None:
            wait_ended([self._handle], _LOOK_S)
        return status

    def _status(self) -> int:
        try:
            status = self._container.wait()
        except LaunchError:  # it was removed meanwhile, which kills it
            return _KILLED
        return 128 - status if status > 128 else status


class ContainerTree(Tree):
    """The tree of a container: its first process, its descendants, and all others of its control group."""

    def __init__(
        self, container: Container, pid: int, *, pid_file: pathlib.Path | None = None, forks: bool = False
    ) -> None:
        super().__init__(Init(container, pid), pid_file=pid_file, forks=forks)
        self._id = container.id

    def named(self) -> int | None:
        """The process in the pid file, which has its number inside the container."""
        wanted = self.number_in_pid_file()
        if wanted is None:
            return None
        return next((pid for pid in _members(self._id) if number_inside(pid) == wanted), None)

    def members(self) -> Iterator[int]:
        """The first process, parents before their children, then all others."""
        if self.leader.poll() is None:
            yield self.leader.pid
            yield from descendants(self.leader.pid)
        yield from _members(self._id)


def _members(container: str) -> Iterator[int]:
    return (pid for pid in psutil.pids() if belongs(pid, container) and is_alive(pid))


def number_inside(pid: int) -> int | None:
    """The pid that a process has in its own namespace; None if it is gone."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return None


def listening(pid: int) -> set[tuple[str, int]]:
    """The addresses and numbers at which anything listens in the network of a process (proc_pid_net(5)).

    All of a container share one; it is asked of any, and need not be entered.
    """
    found = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTEN:
                    address, _, number = words[1].partition(":")
                    found.add((_address(address), int(number, 16)))
    return found


def _address(digits: str) -> str:
    """An address as the kernel prints it: in words of four bytes, each in the order of this machine."""
    words = [struct.pack("=I", int(digits[start : start + 8], 16)) for start in range(0, len(digits), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def belongs(pid: int, container: str) -> bool:
    """Whether a process is in the control group of the container with this id."""
    try:
        return container in pathlib.Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return False


def unseen(name: str) -> str:
    """Why no fault can be injected into a container from here."""
    return (
        f"the processes of container {name} cannot be seen from here: its engine runs on another machine or in a "
        "virtual one, and a signal through it would come too late to be at its event"
    )


_OLDEST = (5, 6)
_ENDS_S = 10.0
_TRIAL = "strace -V && exec strace -f --seccomp-bpf -o /dev/null -e trace=none sh -c 'sh -c :'"


class Able:
    """Tells why a container of this image cannot take a fault; empty if it can."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe

    def __call__(self, wanted: Wanted) -> str:
        if wanted.means is Means.TRACER:
            return self._cannot_trace
        return self._cannot_signal if wanted.signal else ""

    @contextlib.contextmanager
    def _trial(self) -> Iterator[tuple[Engine, str, Ledger]]:
        """The engine, the image of the broker, and the ledger of a trial container."""
        engine = connect()
        with locks.scratch("able") as folder, Ledger(folder, f"able-{uuid.uuid4().hex[:12]}") as ledger:
            yield engine, broker_image(engine, self._recipe).name, ledger

    @functools.cached_property
    def _cannot_trace(self) -> str:
        with self._trial() as (engine, image, ledger):
            status, said = engine.run(Spec(image, ("/bin/sh", "-c", _TRIAL)), ledger.run_id, ledger)
        return reason_of(status, said, image)

    @functools.cached_property
    def _cannot_signal(self) -> str:
        with self._trial() as (engine, image, ledger):
            container = engine.create(Spec(image, ("/bin/sleep", "60")), ledger.run_id, ledger)
            try:
                first = Init(container, container.start())
                with open_pidfd(first.pid) as handle:
                    send(handle, signal.SIGKILL)
                    ended = wait_ended([handle], _ENDS_S)
            except LaunchError as error:
                return str(error)
            except PermissionError:
                return f"{unseen(container.name)}; this user may not signal its processes"
            finally:
                container.remove()
        return "" if ended else f"a container's process was still there {_ENDS_S:.0f} s after SIGKILL"


def reason_of(status: int, said: str, image: str) -> str:
    """Why the tracer did not trace in its trial; empty if it did."""
    version = re.search(r"version (\d+)\.(\d+)", said)
    if version is None:
        return f"there is no strace in image {image}"
    if (int(version[1]), int(version[2])) < _OLDEST:
        return f"{version[0]} of strace in image {image} is too old: 5.6 has what is needed"
    if status != 0:
        first = next((line for line in said.splitlines() if line.startswith("strace: ")), "it says nothing")
        return f"strace may not trace in a container here (its seccomp profile?): {first}"
    return ""


_INSIDE = {
    "listen": ports.EVERYWHERE,  # the published ports decide who reaches it
    "java": "java",
    "java_home": "",  # the image knows its own
    "python": "python3",
    "python_path": "",  # the image has its own suite
}
"""The placeholders with another value in a container; its ports have one as well."""


def prepare(recipe: Recipe, setup: BrokerSetup) -> NativeBroker:
    """Make the broker's folder and reserve its ports; no container is made yet.

    The image is built first if the engine does not have it. Raises `UsageError` (no such liar or queue option),
    `LaunchError` (no engine, image, instance or port), `FetchError`.
    """
    source, ledger = recipe.source, setup.ledger
    engine = connect()
    image = broker_image(engine, recipe)
    reserved = ports.Ports(source.file.ports)
    try:
        numbers = {name: recipe.table.ports.get(name, port) for name, port in reserved.by_name.items()}
        plan = make_plan(
            source,
            setup,
            reserved.by_name,
            inside={**_INSIDE, **{f"{name}_port": str(port) for name, port in numbers.items()}},
            create=functools.partial(_create, engine, image, ledger),
        )
        plan = dataclasses.replace(plan, deviations={**plan.deviations, **_deviations(engine, image)})
        published = {numbers[name]: port for name, port in reserved.by_name.items()}
        given = {name: text for name, text in plan.environment.items() if text.strip()}  # the image has its own
        outside = source.own.outside if source.own else ()
        binds = (
            Bind(ledger.path.parent, recursive=False),
            Bind(setup.folder),
            *(Bind(path, recursive=False, read_only=True) for path in outside),  # key stores, found where they are
        )
        spec = Spec(image.name, ("/bin/sh", str(setup.folder / "start.sh")), binds, published, given)
        return ContainerBroker(plan, setup, reserved, engine, spec, numbers)
    except BaseException:
        reserved.close()
        raise


def _create(
    engine: Engine, image: Image, ledger: Ledger, command: Sequence[str], source: BrokerSource, words: object
) -> None:
    """Run the product's command that makes a stock instance in the image.

    `{home}` exists only inside and is part of the instance's key, so no native broker shares the instance.
    """
    stock = paths.cache() / "instances"
    name = names_of(["conformance", ledger.run_id, "create"])
    status, said = engine.run(Spec(image.name, tuple(command), (Bind(stock),)), name, ledger)
    if status != 0:
        raise launch_error(f"{source.file.title}: `{command[0]}` in {image.name} ended with {status}", said)


def _deviations(engine: Engine, image: Image) -> dict[str, str]:
    base = f"the vendor's image {image.base}" if image.official else f"{image.base}, made here: no registry was reached"
    return {
        "container image": f"{image.name}, upon {base}; with strace",
        "container": f"engine {engine.version}; as this user, its folder bound from this machine, ports published on "
        f"{ports.HOST} only",
    }


class ContainerBroker(NativeBroker):
    """A broker in a container; see the module. `container` is None before its first start, and after `close`.

    `numbers` are its ports inside.
    """

    def __init__(
        self,
        plan: Plan,
        setup: BrokerSetup,
        reserved: ports.Ports,
        engine: Engine,
        spec: Spec,
        numbers: Mapping[str, int],
    ) -> None:
        super().__init__(plan, setup, reserved)
        self.container: Container | None = None
        self._engine = engine
        self._spec = spec
        self._gate = -1
        self._readiness = Readiness(plan, reserved.by_name, self._listening, numbers)

    def close(self) -> None:
        """Remove the container, and with it all processes of the broker; a second call does nothing."""
        try:
            if self.container is not None:
                self.container.remove()
        finally:
            self._close_gate()
            super().close()

    def _spawn(self, wrap: Sequence[str]) -> None:
        gate = self.folder / "gate"
        if self.container is None:
            name = names_of([self._ledger.run_id, self.folder.name])
            os.mkfifo(gate)
            self.container = self._engine.create(self._spec, name, self._ledger)
        self._close_gate()
        # Open for reading too: what is written before the other side opens it would be gone with the last descriptor.
        self._gate = os.open(gate, os.O_RDWR | os.O_CLOEXEC)
        lines = [
            f"exec >{shlex.quote(str(self.log))} 2>&1",
            f"read -r go <{shlex.quote(str(gate))}",
            f"cd {shlex.quote(str(self.plan.working_folder))}",
            f"exec {shlex.join([*wrap, *self.plan.command, *self._more])}",
        ]
        (self.folder / "start.sh").write_text("\n".join([*lines, ""]))
        forks = self.plan.source.file.start.leaves_its_parent
        self._tree = ContainerTree(self.container, self.container.start(), pid_file=self.plan.pid_file, forks=forks)
        os.write(self._gate, b"go\n")

    def _beside(self, command: Sequence[str], seconds: float) -> tuple[int, str]:
        assert self.container is not None  # it is ready, so it was started
        return self.container.command(command, self.plan.environment, self.plan.working_folder, seconds)

    def _listening(self) -> set[tuple[str, int]]:
        return listening(self._tree.leader.pid) if self._tree else set()

    def _close_gate(self) -> None:
        if self._gate >= 0:
            os.close(self._gate)
            self._gate = -1


class DockerLauncher(FileLauncher):
    """Starts a container of an image that it builds once."""

    word = "docker"
    contained = True

    @classmethod
    def of(cls, file: BrokerFile, at: str, _: pathlib.Path, /) -> Self:
        check_starts(file)
        if at:
            raise UsageError(f"docker={at}: docker takes no value")
        if file.container is None:
            raise UsageError(f"{file.name} has no [container]: it runs natively only")
        return cls()

    @classmethod
    def lacks_here(cls, file: BrokerFile, /) -> str:
        lacks_container = "" if file.container else "no [container] in its broker.toml: it runs natively only"
        return super().lacks_here(file) or lacks_container

    def recipe(self, source: BrokerSource, *, offline: bool = False) -> Recipe:
        inside = dataclasses.replace(source, home=images.HOME)
        if source.file.default_version == BUNDLED:
            return Recipe(inside, images.distribution, offline, images.content())
        return Recipe(inside, lambda: self.install(source, offline=offline), offline)

    def settings(self, wanted: Mapping[str, Value]) -> Mapping[str, Value]:
        if (count := nodes_in(wanted)) > 1:
            raise UsageError(f"{NODES}={count}: several nodes run natively only, without :docker")
        return wanted

    def able(self, source: BrokerSource) -> Callable[[Wanted], str]:
        return Able(self.recipe(source))

    def prepare(self, source: BrokerSource, setup: BrokerSetup, *, offline: bool) -> Broker:
        return prepare(self.recipe(source, offline=offline), setup)
