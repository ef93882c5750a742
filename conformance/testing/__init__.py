"""A broker and its faults, for tests of your own clients.

`running_broker` starts the bundled broker, or any other that the suite can start on this machine. A test kills it,
pauses it, takes its power, or breaks a connection at a chosen frame of the protocol. A fault that did not take effect
raises `FaultError`: a test must not pass because nothing happened. The fixture `ack_broker` of the pytest plugin uses
this, and docs/how-to/test-your-client.md has examples.
"""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import secrets
from collections.abc import Iterator, Sequence

from conformance.adapters import Broker, BrokerRequest, OpenedBroker, open_broker
from conformance.adapters.credentials import scheme_of
from conformance.errors import FaultError, UsageError
from conformance.faults import process
from conformance.faults.link.harness import LinkProxy, prove
from conformance.faults.power import loss
from conformance.faults.power.image import LossyDisk
from conformance.faults.power.loss import PowerLossReport
from conformance.faults.process import Target
from conformance.followup.contract import folder_of
from conformance.history import bare_header
from conformance.ledger import Ledger
from conformance.run.leftovers import open_ledger, release_leftovers
from conformance.run.readiness_probe import depth_of, probe_client
from conformance.scenario.script import Cut, Delay, Frame, HoldLink, LinkFault, Throttle

__all__ = [
    "Cut",
    "Delay",
    "FaultError",
    "Frame",
    "HoldLink",
    "LinkFault",
    "LinkProxy",
    "LocalBroker",
    "PowerLossReport",
    "Throttle",
    "running_broker",
]


class LocalBroker:
    """A broker on free ports of 127.0.0.1; `running_broker` makes one.

    Ports and data stay the same from one start to the next. Signals reach its processes by handles, so that no other
    process with a reused pid gets one. `protocol` is one of `amqp`, `amqp091`, `stomp`, `mqtt` and `mqtt311`, or empty
    for the first of these that the broker speaks.
    """

    def __init__(self, opened: OpenedBroker, broker: Broker, ledger: Ledger, disk: LossyDisk | None) -> None:
        self._opened, self._broker, self._ledger, self._disk = opened, broker, ledger, disk
        self._links = itertools.count(1)

    @property
    def folder(self) -> pathlib.Path:
        """The folder that holds its data and its logs."""
        return self._broker.folder

    @property
    def log(self) -> pathlib.Path:
        """The output of the newest start."""
        return self._broker.node.facts.log

    def port(self, protocol: str = "") -> int:
        """Return the port of that protocol; `UsageError` if the broker does not speak it."""
        return self._endpoint(protocol)[1]

    def url(self, protocol: str = "") -> str:
        """Return the URL for a client of that protocol. Both versions of AMQP have the scheme `amqp`."""
        host, port = self._endpoint(protocol)
        return f"{scheme_of(protocol or self._opened.protocol).rstrip('0123456789')}://{host}:{port}"

    def depth(self, queue: str) -> int:
        """Return how many messages the broker says are in the queue."""
        return depth_of(self._broker, self._broker.service.queue_of(queue))

    def start(self) -> None:
        """Start it on its data, and return when clients can use it. Raises `LaunchError` with the end of its log."""
        self._broker.start()

    def stop(self) -> None:
        """Stop it in order, as its owner does."""
        self._broker.stop()

    def restart(self) -> None:
        """Stop it in order if it runs, and start it."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """Kill every process of it (SIGKILL), and return when all are gone. What is in the page cache survives."""
        process.end(self._running("kill"), "kill")

    def paused(self) -> contextlib.AbstractContextManager[None]:
        """Halt every process of it until the end of the `with`: connections stay, and nothing is answered."""
        return process.halted(self._broker.met("all"))

    def lose_power(self, *, torn: int | None = None) -> PowerLossReport:
        """End it as a loss of power does: what it has not synced is gone. It needs `own_disk`; `start` starts it again.

        With `torn`, a seed, some unsynced pages reach the disk before the loss, and others do not.
        """
        if self._disk is None:
            raise UsageError("a loss of power needs a disk of its own: give running_broker own_disk=True")
        target = self._running("power loss")
        with self._disk.handle() as descriptor:
            report = loss.lose(descriptor, torn=torn)
        process.end(target, "power loss")
        self._disk.after_loss()
        return report

    @contextlib.contextmanager
    def link(self, protocol: str = "", fault: LinkFault | None = None) -> Iterator[LinkProxy]:
        """Yield a proxy before the broker; a client connects to its `port`, and `cut()` breaks what is connected.

        A `fault` is set off by a frame of the protocol, as in `Cut(Frame("send", 2, at="middle"))`, or meets every byte
        (`Delay`, `Throttle`). Raises `FaultError` at the end of the `with` if it did not take effect.
        """
        word, upstream = protocol or self._opened.protocol, self._endpoint(protocol)
        header, number = bare_header("link", protocol=word), next(self._links)
        with LinkProxy(self._ledger, self.folder, header, upstream, word, fault, number=number) as proxy:
            yield proxy
            result = proxy.finish()
        if fault is not None:
            prove(fault, result)

    def _running(self, fault: str) -> Target:
        """Return what a fault ends; `FaultError` if there is nothing to end."""
        target = self._broker.met("all")
        if target.gone():
            raise FaultError(f"the {fault} met nothing: the broker does not run")
        return target

    def _endpoint(self, protocol: str) -> tuple[str, int]:
        return self._broker.service.endpoint(protocol or self._opened.protocol)


@contextlib.contextmanager
def running_broker(
    adapter: str = "reference",
    *,
    queues: Sequence[str] = (),
    settings: Sequence[str] = (),
    own_disk: bool = False,
    folder: pathlib.Path | None = None,
) -> Iterator[LocalBroker]:
    """Start a broker, and leave no process and no mount of it behind at the end of the `with`.

    If this process is killed, the next call ends what it left.

    Args:
        adapter: NAME[@VERSION], or the path of a broker.toml.
        queues: The queues that it has from its first start on.
        settings: NAME=VALUE, as `--set` takes them: `liar=drops-released` makes the bundled broker wrong in one way.
        own_disk: Store on a file system of its own, which `lose_power` needs; root only.
        folder: A new or empty folder, which is kept; a temporary one without it.

    Raises:
        UsageError: A word is unknown, or the broker does not run as processes of this machine.
        LaunchError: It did not start.
        FaultError: There can be no disk of its own here.
    """
    opened = open_broker(BrokerRequest(adapter, "", settings=settings))
    found = opened.adapter
    if found.launcher.word != "native":
        raise UsageError(f"{adapter}: only a broker that runs as processes of this machine can be given to tests")
    release_leftovers()
    client = probe_client(found, opened.protocol, "")
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(folder_of(folder))
        ledger = stack.enter_context(open_ledger(place, f"test-{found.name}-{secrets.token_hex(4)}"))
        chosen = found.effective(opened.overrides)
        broker = stack.enter_context(found.prepare(place / "broker", chosen, queues, ledger, client=client))
        disk = None
        if own_disk:
            if len(broker.nodes) > 1:
                raise UsageError("own_disk: a broker of several nodes has one for each, which is not supported")
            disk = stack.enter_context(LossyDisk.make(ledger, place / "disk.img", broker.node.facts.data))
            stack.callback(broker.close)  # before its disk is released
        broker.start()
        if disk is not None:
            disk.settle()
        yield LocalBroker(opened, broker, ledger, disk)
