"""The container launcher: start a broker in a container, its ports published on 127.0.0.1.

Everything that the harness looks at lies at the same path inside and outside: the folder of the broker with its
instance, journal and logs, and the folder of the run, where a tracer inside writes its trace. So no path is ever
translated, and what `-P` of strace compares is what the broker opens. The folder of the run is bound without what is
mounted below it: else each container would keep alive the disks of all others, and none could lose its power.

The container is made at the first start, when its disk is there, and each later start is `docker start` of the same
one: the ports, the address and the file system of the container stay. What it runs is a script that is written anew
for each start, since a container cannot be given another command, and a traced start needs one. The script waits at a
gate until the harness knows its pid: a fault of the recovery has to be armed before there is any.

Which faults a container can take on this machine is found out by trying, in the image of the broker.
"""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import signal
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence

from conformance import paths
from conformance.adapters.container.engine import Bind, Container, Engine, Spec, connect, names_of
from conformance.adapters.container.host_processes import ContainerTree, Init, listening, unseen
from conformance.adapters.container.images import Image, Recipe, broker_image
from conformance.adapters.file.settings import EffectiveSettings, show
from conformance.adapters.launch import instance, ports
from conformance.adapters.launch.native import NativeBroker
from conformance.adapters.launch.prepared import (
    READY_QUEUE,
    BrokerSource,
    Options,
    Plan,
    declared,
    start_command,
    words_of,
)
from conformance.adapters.launch.process_tree import wait_ended
from conformance.adapters.launch.readiness import Readiness
from conformance.errors import LaunchError
from conformance.ledger import Ledger

_TRACED = frozenset({"watched", "held_sync", "failed_sync", "disk_full"})
_SIGNALLED = frozenset({"kill", "stop", "pause", "power_loss"})
_OLDEST = (5, 6)
_ENDS_S = 10.0
_TRIAL = "strace -V && exec strace -f --seccomp-bpf -o /dev/null -e trace=none sh -c 'sh -c :'"


class Able:
    """Asked by the name of a fault, why a container of this image cannot take it; empty where it can. Tried once."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._found: dict[str, str] = {}

    def __call__(self, fault: str) -> str:
        """The reason, for people."""
        if fault in _TRACED:
            return self._once("trace", self._cannot_trace)
        if fault in _SIGNALLED:
            return self._once("signal", self._cannot_signal)
        return ""

    def _once(self, what: str, ask: Callable[[Engine, str, Ledger], str]) -> str:
        if what not in self._found:
            engine = connect()
            with tempfile.TemporaryDirectory(prefix="conformance-able-") as folder:
                run = f"able-{uuid.uuid4().hex[:12]}"
                with Ledger(pathlib.Path(folder), run) as ledger:
                    self._found[what] = ask(engine, broker_image(engine, self._recipe, ledger).name, ledger)
        return self._found[what]

    def _cannot_trace(self, engine: Engine, image: str, ledger: Ledger) -> str:
        spec = Spec(image, ("/bin/sh", "-c", _TRIAL))
        status, said = engine.run(spec, ledger.run_id, ledger)
        return reason_of(status, said, image)

    def _cannot_signal(self, engine: Engine, image: str, ledger: Ledger) -> str:
        container = engine.create(Spec(image, ("/bin/sleep", "60")), ledger.run_id, ledger)
        try:
            first = Init(container, container.start())
            descriptor = os.pidfd_open(first.pid)
            try:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                ended = wait_ended([descriptor], _ENDS_S)
            finally:
                os.close(descriptor)
        except LaunchError as error:
            return str(error)
        except PermissionError:
            return f"{unseen(container.name)}; this user may not signal its processes"
        finally:
            container.remove()
        return "" if ended else f"a container's process was still there {_ENDS_S:.0f} s after SIGKILL"


def reason_of(status: int, said: str, image: str) -> str:
    """What the trial of the tracer says: empty where it traced."""
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
    "listen": ports.EVERYWHERE,  # who reaches it is decided by what is published
    "java": "java",
    "java_home": "",  # the image knows its own
    "python": "python3",
    "python_path": "",  # likewise: the suite of a container is what its image was given
}
"""The words that mean something else in a container than on this machine; so do those of its ports."""


def prepare(
    recipe: Recipe,
    folder: pathlib.Path,
    settings: EffectiveSettings,
    queues: Sequence[str],
    ledger: Ledger,
    *,
    liar: str | None = None,
    options: Mapping[str, Options] | None = None,
) -> NativeBroker:
    """Make the broker's folder (new, or empty) and reserve its ports; no container is made yet.

    Its image is built first where the engine has it not. `options` are those of some of the
    queues, by name. Raises `UsageError` (this broker has no liars, or no such option of a queue), `LaunchError` (no
    engine, image, instance or port), `FetchError`.
    """
    source = recipe.source
    engine = connect()
    image = broker_image(engine, recipe, ledger)
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if source.file.start.ready_message:
        queues = [*queues, READY_QUEUE]
    reserved = ports.Ports(source.file.ports)
    try:
        numbers = {name: recipe.table.ports.get(name, port) for name, port in reserved.by_name.items()}
        words = words_of(source, folder, settings, reserved.by_name, None, "")
        inside = {**_INSIDE, **{f"{name}_port": str(port) for name, port in numbers.items()}}
        own = {**words, **inside}
        _make_instance(engine, image, source, own, ledger)
        edits = instance.edit_xml(source, settings, queues, own)
        pathlib.Path(words["data_dir"]).mkdir(parents=True, exist_ok=True)
        show(folder, settings)
        command = start_command(source, settings, declared(source, queues, options or {}), own, liar)
        files = source.file.template.files if source.file.template else ()
        changed = {**edits, **instance.template_deviations(files), **source.file.deviations}
        deviations = {**changed, **_deviations(engine, image)}
        plan = Plan(source, settings, tuple(queues), folder, words, command, None, deviations, inside, options or {})
        published = {numbers[name]: port for name, port in reserved.by_name.items()}
        given = {name: text for name, text in plan.environment.items() if text.strip()}  # the image has its own
        binds = (*_binds(folder, ledger), *_theirs(source))
        spec = Spec(image.name, _script(folder), binds, published, given)
        return ContainerBroker(plan, reserved, ledger, engine, spec, numbers)
    except BaseException:
        reserved.close()
        raise


def _make_instance(engine: Engine, image: Image, source: BrokerSource, words: dict[str, str], ledger: Ledger) -> None:
    """The stock instance is made by the product in the image, once; the cache is shared with no native one.

    `{home}` is a path that only exists inside, and part of its key.
    """

    def create(command: Sequence[str], source: BrokerSource, words: object) -> None:
        stock = paths.cache() / "instances"
        name = names_of(["conformance", ledger.run_id, "create"])
        status, said = engine.run(Spec(image.name, tuple(command), (Bind(stock),)), name, ledger)
        if status != 0:
            tail = said.splitlines()[-40:]
            raise LaunchError(f"{source.file.title}: `{command[0]}` in {image.name} ended with {status}", log_tail=tail)

    instance.make_instance(source, words, create)


def _script(folder: pathlib.Path) -> tuple[str, ...]:
    return ("/bin/sh", str(folder / "start.sh"))


def _binds(folder: pathlib.Path, ledger: Ledger) -> tuple[Bind, ...]:
    return (Bind(ledger.path.parent, recursive=False), Bind(folder))


def _theirs(source: BrokerSource) -> tuple[Bind, ...]:
    """Key stores and the like that the configuration of a user names: the copy finds them where they are, to read."""
    return tuple(Bind(path, recursive=False, read_only=True) for path in (source.own.outside if source.own else ()))


def _deviations(engine: Engine, image: Image) -> dict[str, str]:
    base = f"the vendor's image {image.base}" if image.official else f"{image.base}, made here: no registry was reached"
    return {
        "container image": f"{image.name}, upon {base}; with strace",
        "container": f"engine {engine.version}; as this user, its folder bound from this machine, ports published on "
        f"{ports.HOST} only",
    }


class ContainerBroker(NativeBroker):
    """A broker in a container; see the module. `container` is None before its first start, and after `close`.

    `numbers` are its ports inside. What tells when it is ready, declares its queues and proves it by a message is that
    of every launcher.
    """

    def __init__(
        self,
        plan: Plan,
        reserved: ports.Ports,
        ledger: Ledger,
        engine: Engine,
        spec: Spec,
        numbers: Mapping[str, int],
    ) -> None:
        super().__init__(plan, reserved, ledger)
        self.container: Container | None = None
        self._engine = engine
        self._spec = spec
        self._gate = -1
        self._readiness = Readiness(plan, reserved.by_name, self._listening, numbers)

    @property
    def contained(self) -> bool:
        """Its pids inside are others, and so is its strace."""
        return True

    def close(self) -> None:
        """Remove the container, and with it whatever is left of the broker; a second call does nothing."""
        try:
            if self.container is not None:
                self.container.remove()
        finally:
            self._close_gate()
            super().close()

    def _spawn(self, wrap: Sequence[str]) -> None:
        gate = self.folder / "gate"
        pid_file = self.plan.pid_file
        if pid_file is not None:
            pid_file.unlink(missing_ok=True)  # of a start that was killed: its number may be another's by now
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
        self._tree = ContainerTree(self.container, self.container.start(), pid_file=pid_file, forks=forks)
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
