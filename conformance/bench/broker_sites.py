"""The brokers of the benchmark, each as a site: started, killed, asked for its CPU time; all on one disk.

Artemis is the adapter's but for what makes it slow or quick to start: the instance is made by `artemis create` with the
journal tuned to this disk, and the JVM is the one that it writes into its profile. Broker-J has no adapter yet: it is
here where `CONFORMANCE_BROKER_J` names the folder of an unpacked distribution.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import httpx

from conformance import adapters
from conformance.adapters import ports as ports_of
from conformance.adapters.java import find_java
from conformance.errors import LaunchError
from conformance.ledger import Ledger

QUEUE = "bench"
BROKER_J = "CONFORMANCE_BROKER_J"
_TICK = os.sysconf("SC_CLK_TCK")
_READY_S = 90.0
_ENDS_S = 30.0


class Peer(Protocol):
    """What listens for clients. `stomp` is None where it does not speak that, else the headers of a SEND."""

    name: str
    stomp: dict[str, str] | None

    def port(self, protocol: str) -> int:
        """Where it listens."""

    def pids(self) -> list[int]:
        """Its processes."""


class Site(Peer, Protocol):
    """One broker; `about` is its name with its version and what it is tuned to."""

    about: str

    def start(self, wrap: Sequence[str] = ()) -> float:
        """Start it; the seconds from spawn to ready."""

    def kill(self) -> None:
        """SIGKILL, and until it is gone."""


@dataclasses.dataclass
class Adapted:
    """A broker of an adapter."""

    name: str
    about: str
    stomp: dict[str, str] | None
    broker: adapters.Broker

    def port(self, protocol: str) -> int:
        """Where it listens."""
        return self.broker.endpoint(protocol)[1]

    def start(self, wrap: Sequence[str] = ()) -> float:
        """Start it; the seconds from spawn to ready."""
        self.broker.start(wrap)
        return self.broker.start_seconds[-1]

    def pids(self) -> list[int]:
        """Its processes."""
        return self.broker.processes()

    def kill(self) -> None:
        """SIGKILL, and until it is gone."""
        with self.broker.pidfds() as descriptors:
            for descriptor in descriptors:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        if not self.broker.wait_gone(_ENDS_S):
            raise LaunchError(f"{self.name} cannot be killed: {self.pids()} are left")

    def stop(self) -> None:
        """A clean end."""
        self.broker.stop()


@contextlib.contextmanager
def reference(folder: pathlib.Path, ledger: Ledger) -> Iterator[Adapted]:
    """The bundled broker, as it comes."""
    adapter = adapters.find("reference")
    with adapter.prepare(folder, adapter.effective(), [QUEUE], ledger) as broker:
        yield Adapted("reference", f"reference {adapter.version}", {"destination": QUEUE}, broker)


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
        }
    )
    adapter = dataclasses.replace(adapter, file=tuned)
    with adapter.prepare(folder, adapter.effective(), [QUEUE], ledger) as broker:
        words = {"destination": QUEUE, "destination-type": "ANYCAST"}
        yield Adapted("artemis", f"Artemis {adapter.version} ({_tuning(folder)})", words, broker)


def _tuning(folder: pathlib.Path) -> str:
    """What `artemis create` chose, out of its own file."""
    text = (folder / "instance/etc/broker.xml").read_text()
    keys = ("journal-type", "journal-buffer-timeout", "journal-max-io")
    found = ((key, re.search(rf"<{key}>(.*?)</{key}>", text)) for key in keys)
    return ", ".join(f"{key} {match[1] if match else 'absent'}" for key, match in found)


class BrokerJ:
    """Qpid Broker-J as it comes: a JVM of its own making, a BDB store, one durable queue made over REST."""

    stomp: dict[str, str] | None = None

    def __init__(self, home: pathlib.Path, folder: pathlib.Path, ledger: Ledger) -> None:
        if not list(home.glob("lib/qpid-broker-core-*.jar")):
            raise LaunchError(f"{BROKER_J}={home}: there is no lib/qpid-broker-core-*.jar; unpack the distribution")
        version = next(home.glob("lib/qpid-broker-core-*.jar")).stem.rpartition("-")[2]
        self.name, self.about = "broker-j", f"Broker-J {version} (BDB, -Xmx512m)"
        self._home, self._folder, self._ledger = home, folder, ledger
        self._ports = ports_of.Ports(["amqp", "http"])
        self._process: subprocess.Popen[bytes] | None = None
        self._ticket = ""
        folder.mkdir(parents=True)
        (folder / "initial.json").write_text(json.dumps(_INITIAL))

    def port(self, protocol: str) -> int:
        """Where it listens."""
        return self._ports[protocol]

    def start(self, wrap: Sequence[str] = ()) -> float:
        """Until its virtual host is active: its own ready line comes before the recovery."""
        began = time.monotonic()
        words = {"amqp_port": self.port("amqp"), "http_port": self.port("http"), "work_dir": self._folder / "work"}
        command = [*wrap, str(find_java(17).path), "-Xmx512m", "-XX:MaxDirectMemorySize=256m", "-cp"]
        command += [f"{self._home}/lib/*", "org.apache.qpid.server.Main", "-icp", str(self._folder / "initial.json")]
        command += [word for name, value in words.items() for word in ("-prop", f"qpid.{name}={value}")]
        with (self._folder / "start.log").open("ab") as log:
            self._process, self._ticket = self._ledger.spawn(
                self.name, command, cwd=self._folder, stdout=log, stderr=log
            )
        base = f"http://127.0.0.1:{self.port('http')}/api/latest"
        with httpx.Client(timeout=10, trust_env=False) as client:
            self._until_active(client, f"{base}/virtualhost/bench/bench", began)
            taken = time.monotonic() - began
            client.put(f"{base}/queue/bench/bench/{QUEUE}", json={"name": QUEUE, "durable": True}).raise_for_status()
        return taken

    def _until_active(self, client: httpx.Client, url: str, began: float) -> None:
        assert self._process is not None  # start has spawned it
        while time.monotonic() - began < _READY_S:
            if self._process.poll() is not None:
                break
            with contextlib.suppress(httpx.HTTPError):
                answer = client.get(url)
                found: Any = answer.json() if answer.status_code == httpx.codes.OK else {}
                if (found[0] if isinstance(found, list) else found).get("state") == "ACTIVE":
                    return
            time.sleep(0.02)  # it says nothing when its virtual host is there
        log = (self._folder / "start.log").read_text(errors="replace").splitlines()[-20:]
        raise LaunchError(f"{self.about} was not ready; its log is {self._folder / 'start.log'}", log_tail=log)

    def pids(self) -> list[int]:
        """Its one process."""
        return [self._process.pid] if self._process is not None and self._process.poll() is None else []

    def kill(self) -> None:
        """SIGKILL, and until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._ledger.released(self._ticket)

    def close(self) -> None:
        """All of it, and its ports."""
        self.kill()
        self._ports.close()


_ALIASES = [{"name": name, "type": name} for name in ("nameAlias", "defaultAlias", "hostnameAlias")]
_INITIAL = {
    "name": "bench",
    "modelVersion": "9.1",
    "authenticationproviders": [{"name": "anonymous", "type": "Anonymous"}],
    "ports": [
        {
            "name": "AMQP",
            "port": "${qpid.amqp_port}",
            "bindingAddress": "127.0.0.1",
            "authenticationProvider": "anonymous",
            "virtualhostaliases": _ALIASES,
        },
        {
            "name": "HTTP",
            "port": "${qpid.http_port}",
            "bindingAddress": "127.0.0.1",
            "protocols": ["HTTP"],
            "authenticationProvider": "anonymous",
        },
    ],
    "virtualhostnodes": [
        {
            "name": "bench",
            "type": "JSON",
            "defaultVirtualHostNode": "true",
            "virtualHostInitialConfiguration": '{"type":"BDB"}',
        }
    ],
    "plugins": [{"type": "MANAGEMENT-HTTP", "name": "httpManagement"}],
}
"""Read only while there is no configuration in the work folder."""


@contextlib.contextmanager
def sites(folder: pathlib.Path, ledger: Ledger, *, others: bool = True) -> Iterator[list[Site]]:
    """The bundled broker first, then the others; each ends with the `with`. Raises `FetchError`, `LaunchError`."""
    with contextlib.ExitStack() as stack:
        found: list[Site] = [stack.enter_context(reference(folder / "reference", ledger))]
        if others:
            found.append(stack.enter_context(artemis(folder / "artemis", ledger)))
            if home := os.environ.get(BROKER_J):
                found.append(stack.enter_context(contextlib.closing(BrokerJ(pathlib.Path(home), folder / "j", ledger))))
        yield found


def cpu_s(pids: Sequence[int]) -> float:
    """User and system seconds that these processes have used so far (proc(5), stat, fields 14 and 15)."""
    fields = [pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(field[11]) + int(field[12]) for field in fields) / _TICK


def rss(pids: Sequence[int]) -> int:
    """Bytes of resident memory (proc(5), statm)."""
    pages = (int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return sum(pages) * os.sysconf("SC_PAGE_SIZE")


def tracer() -> str | None:
    """strace, where it is."""
    return shutil.which("strace")
