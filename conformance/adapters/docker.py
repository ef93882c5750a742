"""The container launcher: a broker in a container of its own, its ports published on 127.0.0.1.

Everything that the harness looks at lies at the same path inside and outside: the folder of the broker with its
instance, journal and logs, and the folder of the run, where a tracer inside writes its trace. So no path is ever
translated, and what `-P` of strace compares is what the broker opens. The folder of the run is bound without what is
mounted below it: else each container would keep alive the disks of all others, and none could lose its power.

The container is made at the first start, when its disk is there, and each later start is `docker start` of the same
one: the ports, the address and the file system of the container stay. What it runs is a script that is written anew
for each start, since a container cannot be given another command, and a traced start needs one. The script waits at a
gate until the harness knows its pid: a fault of the recovery has to be armed before there is any.
"""

from __future__ import annotations

import os
import pathlib
import shlex
from collections.abc import Mapping, Sequence

from conformance import paths
from conformance.adapters import configure, docker_ready, native, ports
from conformance.adapters.configure import Source, fill
from conformance.adapters.docker_tree import ContainerTree
from conformance.adapters.engine import Bind, Container, Engine, Spec, connect, names_of
from conformance.adapters.images import Image, Recipe, broker_image
from conformance.adapters.native import Broker, Options, Plan
from conformance.adapters.settings import EffectiveSettings, show
from conformance.errors import LaunchError, UsageError
from conformance.ledger import Ledger

_EVERYWHERE = "0.0.0.0"  # noqa: S104  (inside a container: who reaches it is decided by what is published)


def prepare(
    recipe: Recipe,
    folder: pathlib.Path,
    settings: EffectiveSettings,
    queues: Sequence[str],
    ledger: Ledger,
    *,
    liar: str | None = None,
    options: Mapping[str, Options] | None = None,
) -> Broker:
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
    reserved = ports.Ports(source.file.ports)
    try:
        inside = {name: recipe.table.ports.get(name, port) for name, port in reserved.by_name.items()}
        outer = _words(source, folder, reserved.by_name)
        words = _words(source, folder, inside)
        _make_instance(engine, image, source, words, ledger)
        edits = configure.edit_xml(source, settings, queues, words)
        pathlib.Path(outer["data_dir"]).mkdir(parents=True, exist_ok=True)
        show(folder, settings)
        deviations = {**edits, **source.file.deviations, **_deviations(engine, image)}
        command = native.start_command(source, settings, native.declared(source, queues, options or {}), words, liar)
        plan = Plan(source, settings, tuple(queues), folder, outer, command, None, deviations)
        wanted = source.file.start.environment
        environment = {name: text for name, form in wanted.items() if (text := fill(form, words)).strip()}
        published = {inside[name]: port for name, port in reserved.by_name.items()}
        spec = Spec(image.name, _script(folder), _binds(folder, ledger), published, environment)
        return ContainerBroker(plan, reserved, ledger, engine, spec)
    except BaseException:
        reserved.close()
        raise


def _words(source: Source, folder: pathlib.Path, numbers: dict[str, int]) -> dict[str, str]:
    words = {
        "home": str(source.home),
        "here": str(source.here),
        "instance": str(folder / "instance"),
        "archive": "",
        "java": "java",
        "java_home": "",  # the image knows its own
        "listen": _EVERYWHERE,
        **{f"{name}_port": str(port) for name, port in numbers.items()},
    }
    return {**words, "data_dir": fill(source.file.data.path, words)}


def _make_instance(engine: Engine, image: Image, source: Source, words: dict[str, str], ledger: Ledger) -> None:
    """The stock instance is made by the product in the image, once; the cache is shared with no native one.

    `{home}` is a path that only exists inside, and part of its key.
    """

    def create(command: Sequence[str], source: Source, words: object) -> None:
        stock = paths.cache() / "instances"
        name = names_of(["conformance", ledger.run_id, "create"])
        status, said = engine.run(Spec(image.name, tuple(command), (Bind(stock),)), name, ledger)
        if status != 0:
            tail = said.splitlines()[-40:]
            raise LaunchError(f"{source.file.title}: `{command[0]}` in {image.name} ended with {status}", log_tail=tail)

    configure.make_instance(source, words, create)


def _script(folder: pathlib.Path) -> tuple[str, ...]:
    return ("/bin/sh", str(folder / "start.sh"))


def _binds(folder: pathlib.Path, ledger: Ledger) -> tuple[Bind, ...]:
    return (Bind(ledger.path.parent, recursive=False), Bind(folder))


def _deviations(engine: Engine, image: Image) -> dict[str, str]:
    base = f"the vendor's image {image.base}" if image.official else f"{image.base}, made here: no registry was reached"
    return {
        "container image": f"{image.name}, upon {base}; with strace",
        "container": f"engine {engine.version}; as this user, its folder bound from this machine, ports published on "
        f"{ports.HOST} only",
    }


class ContainerBroker(Broker):
    """A broker in a container; see the module. `container` is None before its first start, and after `close`."""

    def __init__(self, plan: Plan, reserved: ports.Ports, ledger: Ledger, engine: Engine, spec: Spec) -> None:
        super().__init__(plan, reserved, ledger)
        self.container: Container | None = None
        self._engine = engine
        self._spec = spec
        self._gate = -1
        self._asked = _asked(plan.source)

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
            f"cd {shlex.quote(str(self.folder))}",
            f"exec {shlex.join([*wrap, *self.plan.command, *self._more])}",
        ]
        (self.folder / "start.sh").write_text("\n".join([*lines, ""]))
        self._tree = ContainerTree(self.container, self.container.start())
        os.write(self._gate, b"go\n")

    def _is_ready(self) -> bool:
        return self.was_ready and docker_ready.answers(
            self._asked, ports.HOST, self._ports[self.plan.source.file.start.ready_port]
        )

    def _close_gate(self) -> None:
        if self._gate >= 0:
            os.close(self._gate)
            self._gate = -1


def _asked(source: Source) -> str:
    """The protocol in which the broker is asked whether it is ready; `UsageError` where its port has none."""
    port = source.file.start.ready_port
    named = [name for name, protocol in source.file.protocols.items() if protocol.port == port]
    for name in [*named, port]:
        if name in docker_ready.KNOWN:
            return name
    raise UsageError(f"{source.file.name}: ready_port {port!r} speaks none of {', '.join(docker_ready.KNOWN)}")
