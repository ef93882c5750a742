"""Check an adapter step by step: `conformance adapters check`.

A step that fails says what failed and shows the end of the broker's log. A broker that passes can be tested in a run;
only the run says whether it keeps its messages.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from conformance import claims, locks
from conformance.adapters import Adapter, Broker, BrokerRequest, open_broker
from conformance.adapters.broker_log import launch_error, text_of
from conformance.adapters.credentials import Access
from conformance.adapters.external.addresses import WitnessConnection
from conformance.adapters.file_adapter import DURABLE
from conformance.adapters.interface import Node, Processes
from conformance.adapters.opening import OpenedBroker, check_credentials
from conformance.claims import Value
from conformance.errors import ClientError, ConformanceError, FaultError, LaunchError, UsageError
from conformance.faults import process
from conformance.ledger import Ledger, pids_of_run
from conformance.processes import send_all
from conformance.protocols import WIRES, describe
from conformance.run.planning import Selection
from conformance.run.readiness_probe import ProbeClient
from conformance.scenario.faults import Kill, Stop


@dataclasses.dataclass(frozen=True)
class Step:
    """One step, its seconds and its details; `tried` is false if it could not be done."""

    name: str
    seconds: float
    detail: str = ""
    tried: bool = True


Tell = Callable[[Step], None]


def run_id(adapter: Adapter) -> str:
    return f"check-{adapter.name}-{secrets.token_hex(4)}"


@contextlib.contextmanager
def folder_of(keep: pathlib.Path | None) -> Iterator[pathlib.Path]:
    """Yield the folder of a check: a temporary one, or `keep`, which must be new or empty (`UsageError`)."""
    if keep is None:
        with locks.scratch("check") as folder:
            yield folder
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise UsageError(f"{keep} is not empty: name a new folder", code="folder-not-empty", folder=keep)
    yield keep.absolute()


def open_adapter(name: str, typed: Access, settings: Sequence[str] = ()) -> OpenedBroker:
    """Open the adapter, and check its credentials over each protocol that a client of the suite speaks.

    Raises `UsageError` before anything is started; see `open_broker`.
    """
    opened = open_broker(BrokerRequest(name, access=typed, settings=settings))
    for protocol in _checked_protocols(opened.adapter):
        check_credentials(opened.adapter, protocol)
    return opened


def _checked_protocols(adapter: Adapter) -> list[str]:
    return [protocol for protocol in adapter.file.protocols if not _not_checked(adapter, protocol)]


def _not_checked(adapter: Adapter, protocol: str) -> str:
    """Say why the check does not use a protocol of the broker; empty if it does."""
    launcher = adapter.launcher
    if protocol not in WIRES:
        return "no client of this suite speaks it"
    unreached = launcher.owned and protocol not in launcher.rules.urls
    return f"no address was given for it (external.urls.{protocol})" if unreached else ""


def assumptions(adapter: Adapter) -> list[str]:
    """List the claims that are assumed to be promised because the file does not describe a setting of storage.

    A claim that does not apply because of another setting is left out.
    """
    found: dict[tuple[str, ...], list[str]] = {}
    settings = adapter.effective()
    for protocol in _checked_protocols(adapter):
        capabilities = adapter.capabilities(protocol)
        selection = Selection(adapter, protocol, settings, {}, [], frozenset(), seed=0)
        for claim in claims.load().claims.values():
            names = claims.assumed_settings(claim.when, settings.values)
            if claim.is_expectation or claims.STORED in {*claim.capabilities} - capabilities:
                continue  # no document promises it
            if names and selection.applies(claim) and not claims.unmet(claim.when, settings.values, settings.absent):
                found.setdefault(names, []).append(claim.id)
    return [f"{', '.join(dict.fromkeys(ids))}: {', '.join(names)}" for names, ids in found.items()]


def unstored_claims(adapter: Adapter) -> list[str]:
    """List, by protocol, the claims about stored messages that do not apply because the file does not declare it."""
    about = [claim for claim in claims.load().claims.values() if claims.STORED in claim.capabilities]
    found = {
        protocol: [claim.id for claim in about if protocol in claim.surfaces]
        for protocol in _checked_protocols(adapter)
        if claims.STORED not in adapter.capabilities(protocol) and adapter.capabilities(protocol) >= DURABLE
    }
    return [f"over {protocol}: {', '.join(ids)}" for protocol, ids in found.items() if ids]


def check(
    adapter: Adapter,
    folder: pathlib.Path,
    ledger: Ledger,
    tell: Tell,
    *,
    offline: bool = False,
    overrides: Mapping[str, Value] | None = None,
) -> None:
    """Start it, use each of its protocols, kill it, find the messages again, stop it, and check that nothing is left.

    Of several nodes the one that serves is killed: another takes over, and the one that died returns. `tell` gets each
    step when it is over. Raises the `ConformanceError` of the step that failed, after the broker has been stopped.
    """
    protocols = _checked_protocols(adapter)
    if not protocols and adapter.launcher.owned:  # nothing could be checked
        words = ", ".join(adapter.file.protocols)
        raise UsageError(
            f"{adapter.file.title} speaks {words}, and no client of this suite does: there is nothing to check",
            code="no-client",
            adapter=adapter.name,
        )
    queues = {protocol: f"check-{protocol}" for protocol in protocols}
    with _step(tell, "prepare") as details:
        client = ProbeClient(adapter, protocols[0]) if protocols else None
        broker = adapter.prepare(
            folder, adapter.effective(overrides), list(queues.values()), ledger, offline=offline, client=client
        )
        details.append(str(broker.node.facts.folder))
    with broker:
        try:
            _Check(adapter, broker, queues, ledger, tell).run()
        except ClientError as error:  # the broker's log often says why
            raise with_log(adapter, broker, str(error)) from error


def with_log(adapter: Adapter, broker: Broker, what: str) -> LaunchError:
    """Return an error with what the broker's log says, without secrets."""
    log = broker.node.facts.log
    return launch_error(what, adapter.file.without_secrets(text_of(log), adapter.path.parent), log)


@contextlib.contextmanager
def _step(tell: Tell, name: str) -> Iterator[list[str]]:
    """Time a step, and report it with its details when it has passed; an error names its step."""
    details: list[str] = []
    began = time.monotonic()
    try:
        yield details
    except ConformanceError as error:
        raise error.within(name) from error
    tell(Step(name, time.monotonic() - began, " ".join(details)))


class _Check:
    """The steps of a check on a prepared broker; `queues` has a queue for each protocol."""

    def __init__(self, adapter: Adapter, broker: Broker, queues: Mapping[str, str], ledger: Ledger, tell: Tell) -> None:
        self.adapter, self.broker, self.queues, self.ledger, self.tell = adapter, broker, queues, ledger, tell
        self.several = len(broker.nodes) > 1
        self.of_suite = set(pids_of_run(ledger.run_id))  # the links between nodes

    @property
    def node(self) -> Node:
        return self.broker.node

    def run(self) -> None:
        by_command = self.node.facts.by_command
        with self.step("start") as details:
            self.broker.start()
            pids = ", ".join(map(str, self.broker.met("all").processes()))
            details.append("it runs already" if by_command else f"pids {pids}")
        self.queues = {protocol: self.broker.service.queue_of(queue) for protocol, queue in self.queues.items()}
        for protocol in sorted(set(self.adapter.file.protocols) - set(self.queues)):
            self.not_tried(f"{protocol}: send and receive", _not_checked(self.adapter, protocol))
        for protocol, queue in self.queues.items():
            with self.step(f"{protocol}: send and receive"):
                ProbeClient(self.adapter, protocol).exchange(self.broker, queue)
        if by_command:
            self.faults_by_command()
            return
        left = self.leave_messages()
        self.kill()
        self.find_after("another node takes over" if self.several else "restart", left)
        if self.several:
            with self.step("the node that died returns"):
                self.broker.start()
        with self.step("stop"):
            self.broker.stop()
        with self.step("nothing is left"):
            left_over = [*self.broker.met("all").processes(), *set(pids_of_run(self.ledger.run_id)) - self.of_suite]
            if left_over:
                raise LaunchError(f"after a clean stop these pids are left: {', '.join(map(str, left_over))}")
            if held := self.listening():
                raise LaunchError(f"after a clean stop a process listens on {held}")

    def step(self, name: str) -> contextlib.AbstractContextManager[list[str]]:
        return _step(self.tell, name)

    def not_tried(self, name: str, why: str) -> None:
        self.tell(Step(name, 0.0, why, tried=False))

    def faults_by_command(self) -> None:
        """Check the faults that have commands; each leaves a message before its fault."""
        for kind in (Kill, Stop):
            fault = kind.name
            if why := self.adapter.able(kind) if self.adapter.able else "":
                self.not_tried(fault, why)
                continue
            left = self.leave_messages()
            with self.step(fault) as details:
                address = self.broker.service.endpoint(next(iter(self.queues)))
                details.append(_fire_by_command(self.node.target, fault, address))
            self.find_after(f"back after {fault}", left)

    def leave_messages(self) -> dict[str, str]:
        """Send one durable message over each protocol that promises to keep it, and wait for its confirm."""
        left = {}
        for protocol, queue in self.queues.items():
            if missing := sorted(_promised(protocol) - self.adapter.capabilities(protocol)):
                self.not_tried(f"{protocol}: send and leave", f"it does not declare {', '.join(missing)}")
                continue
            with self.step(f"{protocol}: send and leave"):
                left[protocol] = ProbeClient(self.adapter, protocol).send(self.broker, queue)
            with self.step(f"{protocol}: its depth is 1"):
                ProbeClient(self.adapter, protocol).depth(self.broker, queue, wanted=1)
        return left

    def find_after(self, start: str, left: Mapping[str, str]) -> None:
        """Start the broker, and receive the messages that were left; `start` is the name of that step."""
        with self.step(start):
            self.broker.start()
        for protocol, message in left.items():
            with self.step(f"{protocol}: found again"):
                try:
                    ProbeClient(self.adapter, protocol).receive(self.broker, self.queues[protocol], message)
                except ClientError as error:
                    raise ClientError(
                        f"{error}. It was confirmed before the kill: the queue is not durable, the start loses its "
                        "data, or the broker confirms before it stores"
                    ) from error

    def kill(self) -> None:
        target = self.node.target
        with self.step("kill") as details:
            with target.armed("kill") as descriptors:
                send_all(descriptors, signal.SIGKILL)
                details.append(f"{len(descriptors)} {'process' if len(descriptors) == 1 else 'processes'}")
            if not target.wait_gone(process.GONE_S):
                raise LaunchError(f"{target.processes()} are left {process.GONE_S:g} s after SIGKILL")
            if held := self.listening():
                raise LaunchError(
                    f"a process still listens on {held} after SIGKILL, and is not known to belong to the broker; "
                    "let it write start.pid_file"
                )

    def listening(self) -> str:
        """Return the addresses of its protocols that accept connections."""
        found = []
        for host, port in sorted({self.broker.service.endpoint(word) for word in self.adapter.file.protocols}):
            with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
                found.append(f"{host}:{port}")
        return ", ".join(found)


def _fire_by_command(target: Processes, fault: str, address: tuple[str, int]) -> str:
    """Fire the owner's command of a fault that ends the broker, as a trigger does; say when a connection was lost.

    Raises `FaultError` if a connection to `address` that was open before is not lost in time.
    """
    within_s = target.within_s(fault)
    with target.armed(fault) as (gate, _), WitnessConnection(address) as witness:
        began = time.monotonic()
        os.write(gate, b"go\n")
        if not witness.lost(within_s):
            raise FaultError(
                f"the {fault} did not take effect: a connection was still there {within_s:g} s after its command began "
                f"(external.{fault}.seconds)"
            )
        took = time.monotonic() - began
    process.prove_gone(target, fault)
    return f"a connection was lost {took * 1000:.0f} ms after its command began"


def _promised(protocol: str) -> frozenset[str]:
    """Return the capabilities of a broker that keeps a message which a kill finds.

    A queue that a client has just made need not be stored yet, unless each confirm is.
    """
    return DURABLE | {claims.STORED} if describe(protocol).traits.queues_by_client else DURABLE
