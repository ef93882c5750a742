"""The brokers of the benchmark, all on one disk: start, kill, CPU time.

Artemis runs as its vendor ships it: `artemis create` makes the instance and tunes the journal to this disk, and the JVM
options are those of its profile. Broker-J has its vendor's JVM options too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
import signal
from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from conformance import adapters
from conformance.errors import LaunchError
from conformance.ledger import Ledger

QUEUE, OVER_MQTT = "bench", "bench-mqtt"
"""The queue, and the topic and session over MQTT: a queue of that name would hold the messages too."""

_TICK = os.sysconf("SC_CLK_TCK")
_ENDS_S = 30.0


class Peer(Protocol):
    """A server for clients, with the protocols that it `speaks`; `stomp` has the headers of a SEND over STOMP."""

    name: str
    speaks: Collection[str]
    stomp: dict[str, str] | None

    def port(self, protocol: str) -> int:
        """Return the port."""

    def pids(self) -> list[int]:
        """Return its processes."""


class Site(Peer, Protocol):
    """One broker; `about` is its name with its version and what it is tuned to."""

    about: str

    def start(self, wrap: Sequence[str] = ()) -> float:
        """Return the seconds from spawn to ready."""

    def kill(self) -> None:
        """Send SIGKILL, and wait until it has ended."""


@dataclasses.dataclass
class Adapted:
    """A broker of an adapter."""

    name: str
    about: str
    speaks: Collection[str]
    stomp: dict[str, str] | None
    broker: adapters.Broker

    def port(self, protocol: str) -> int:
        return self.broker.service.endpoint(protocol)[1]

    def start(self, wrap: Sequence[str] = ()) -> float:
        return self.broker.start(wrap)

    def pids(self) -> list[int]:
        return self.broker.node.target.processes()

    def kill(self) -> None:
        with self.broker.node.target.armed("kill") as descriptors:
            for descriptor in descriptors:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        if not self.broker.node.target.wait_gone(_ENDS_S):
            raise LaunchError(f"{self.name} cannot be killed: {self.pids()} are left")

    def stop(self) -> None:
        self.broker.stop()


@contextlib.contextmanager
def reference(folder: pathlib.Path, ledger: Ledger) -> Iterator[Adapted]:
    adapter = adapters.find("reference")
    with adapter.prepare(folder, adapter.effective(), [QUEUE], ledger) as broker:
        speaks = ("amqp", "stomp", "amqp091", "mqtt")
        yield Adapted("reference", f"reference {adapter.version}", speaks, {"destination": QUEUE}, broker)


@contextlib.contextmanager
def artemis(folder: pathlib.Path, ledger: Ledger) -> Iterator[Adapted]:
    """Artemis with its own tuning of the journal and its own JVM options; the instance is made once and kept."""
    adapter = adapters.find("artemis")
    file = adapter.file
    assert file.template is not None  # the adapter has one
    assert file.java is not None
    left_out = {"--no-autotune", "--nio"}
    template = file.template.model_copy(
        update={"command": tuple(word for word in file.template.command if word not in left_out)}
    )
    environment = {name: text for name, text in file.start.environment.items() if name != "JAVA_ARGS"}
    tuned = file.model_copy(
        update={
            "template": template,
            "start": file.start.model_copy(update={"environment": environment}),
            "java": file.java.model_copy(update={"archive": False}),
            # Else the adapter's choice for its tracer, NIO, would be written over what `create` has found out.
            "settings": {name: entry for name, entry in file.settings.items() if name != "journal_type"},
        }
    )
    adapter = _changed(adapter, tuned)
    with adapter.prepare(folder, adapter.effective(), [QUEUE], ledger) as broker:
        words = {"destination": QUEUE, "destination-type": "ANYCAST"}
        about = f"Artemis {adapter.version} ({_tuning(folder)})"
        yield Adapted("artemis", about, ("amqp", "stomp", "mqtt"), words, broker)


def _changed(adapter: adapters.Adapter, file: adapters.BrokerFile) -> adapters.FileAdapter:
    assert isinstance(adapter, adapters.FileAdapter)  # as every broker of the package is
    return dataclasses.replace(adapter, file=file)


def _tuning(folder: pathlib.Path) -> str:
    """Return the tuning that `artemis create` chose, from its file."""
    text = (folder / "instance/etc/broker.xml").read_text()
    keys = ("journal-type", "journal-buffer-timeout", "journal-max-io")
    found = ((key, re.search(rf"<{key}>(.*?)</{key}>", text)) for key in keys)
    return ", ".join(f"{key} {match[1] if match else 'absent'}" for key, match in found)


@contextlib.contextmanager
def broker_j(folder: pathlib.Path, ledger: Ledger) -> Iterator[Adapted]:
    """Qpid Broker-J with BDB, and its vendor's JVM options except memory."""
    adapter = adapters.find("qpid")
    file = adapter.file
    assert file.java is not None  # the adapter has one
    options = "-Xmx512m -XX:MaxDirectMemorySize=256m"
    changed = {
        "start": file.start.model_copy(update={"environment": {**file.start.environment, "JDK_JAVA_OPTIONS": options}}),
        "java": file.java.model_copy(update={"archive": False}),
    }
    adapter = _changed(adapter, file.model_copy(update=changed))
    with adapter.prepare(folder, adapter.effective(), [QUEUE], ledger) as broker:
        yield Adapted("broker-j", f"Broker-J {adapter.version} (BDB, -Xmx512m)", ("amqp", "amqp091"), None, broker)


@contextlib.contextmanager
def packaged(folder: pathlib.Path, ledger: Ledger, name: str, protocol: str, **settings: str) -> Iterator[Adapted]:
    """A broker that the system packages, with its adapter's settings, and these."""
    adapter = adapters.find(name)
    with adapter.prepare(folder, adapter.effective(settings), [QUEUE], ledger) as broker:
        words = "".join(f", {key}={value}" for key, value in settings.items())
        yield Adapted(name, f"{adapter.name} {adapter.version}{words}", (protocol,), None, broker)


@contextlib.contextmanager
def sites(folder: pathlib.Path, ledger: Ledger, *, others: bool = True) -> Iterator[list[Site]]:
    """Yield the brokers, the bundled one first, and of those that a system packages the ones that are installed.

    Raises `FetchError`, `LaunchError`.
    """
    with contextlib.ExitStack() as stack:
        found: list[Site] = [stack.enter_context(reference(folder / "reference", ledger))]
        if others:
            found.append(stack.enter_context(artemis(folder / "artemis", ledger)))
            found.append(stack.enter_context(broker_j(folder / "broker-j", ledger)))
            if shutil.which("rabbitmqctl"):
                found.append(stack.enter_context(packaged(folder / "rabbitmq", ledger, "rabbitmq", "amqp091")))
            if shutil.which("mosquitto"):
                strict = packaged(folder / "mosquitto", ledger, "mosquitto", "mqtt", autosave="each_change")
                found.append(stack.enter_context(strict))
        yield found


def cpu_s(pids: Sequence[int]) -> float:
    """Return the user and system seconds of these processes (proc(5), stat, fields 14 and 15)."""
    fields = [pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(field[11]) + int(field[12]) for field in fields) / _TICK


def rss(pids: Sequence[int]) -> int:
    """Bytes of resident memory (proc(5), statm)."""
    pages = (int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return sum(pages) * os.sysconf("SC_PAGE_SIZE")


def tracer() -> str | None:
    return shutil.which("strace")
