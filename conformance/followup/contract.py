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
import tempfile
import time
from collections.abc import Callable, Iterator

from conformance import claims
from conformance.adapters import Adapter, Broker, BrokerRequest, open_broker
from conformance.adapters.credentials import Access
from conformance.adapters.external.addresses import WitnessConnection
from conformance.adapters.file_adapter import DURABLE, FileAdapter
from conformance.adapters.interface import Processes
from conformance.adapters.launchers import EXTERNAL
from conformance.adapters.opening import WIRES, check_credentials
from conformance.errors import ClientError, ConformanceError, FaultError, LaunchError, UsageError
from conformance.faults import process
from conformance.ledger import Ledger, marked
from conformance.run.planning.plan import Selection
from conformance.run.readiness_probe import ProbeClient, depth_of

_GONE_S = 20.0
_TAIL = 40


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
        with tempfile.TemporaryDirectory(prefix="conformance-check-") as folder:
            yield pathlib.Path(folder)
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise UsageError(f"{keep} is not empty: name a new folder", code="folder-not-empty", folder=keep)
    yield keep.absolute()


def opened(name: str, typed: Access) -> Adapter:
    """Open the adapter, and check its credentials over each protocol that a client of the suite speaks.

    Raises `UsageError` before anything is started; see `open_broker`.
    """
    adapter = open_broker(BrokerRequest(name, access=typed)).adapter
    for protocol in _spoken(adapter):
        check_credentials(adapter, protocol)
    return adapter


def _spoken(adapter: Adapter) -> list[str]:
    return [protocol for protocol in adapter.file.protocols if not _silent(adapter, protocol)]


def _silent(adapter: Adapter, protocol: str) -> str:
    """Say why the check does not use a protocol of the broker; empty if it does."""
    rules = adapter.place.rules if isinstance(adapter, FileAdapter) else None
    if protocol not in WIRES:
        return "no client of this suite speaks it"
    return f"no address was given for it (external.urls.{protocol})" if rules and protocol not in rules.urls else ""


def assumptions(adapter: Adapter) -> list[str]:
    """List the claims that are assumed to be promised because the file does not describe a setting of storage.

    A claim that does not apply because of another setting is left out.
    """
    found: dict[tuple[str, ...], list[str]] = {}
    settings = adapter.effective()
    for protocol in _spoken(adapter):
        able = adapter.capabilities(protocol)
        selection = Selection(adapter, protocol, settings, {}, [], frozenset(), seed=0)
        for claim in claims.load().claims.values():
            names = claims.assumed(claim.when, settings.values)
            if claim.is_expectation or claims.STORED in {*claim.capabilities} - able:
                continue  # no document promises it
            if names and selection.applies(claim) and not claims.unmet(claim.when, settings.values, settings.absent):
                found.setdefault(names, []).append(claim.id)
    return [f"{', '.join(dict.fromkeys(ids))}: {', '.join(names)}" for names, ids in found.items()]


def unstored(adapter: Adapter) -> list[str]:
    """List, by protocol, the claims about stored messages that do not apply because the file does not declare it."""
    about = [claim for claim in claims.load().claims.values() if claims.STORED in claim.capabilities]
    return [
        f"over {protocol}: {', '.join(claim.id for claim in about if protocol in claim.surfaces)}"
        for protocol in _spoken(adapter)
        if claims.STORED not in adapter.capabilities(protocol) and adapter.capabilities(protocol) >= DURABLE
    ]


def check(adapter: Adapter, folder: pathlib.Path, ledger: Ledger, tell: Tell, *, offline: bool = False) -> None:
    """Start it, use each of its protocols, kill it, find the messages again, stop it, and check that nothing is left.

    `tell` gets each step when it is over. Raises the `ConformanceError` of the step that failed, after the broker has
    been stopped.
    """
    spoken = _spoken(adapter)
    if not spoken and adapter.launcher == EXTERNAL:  # nothing would be left to look at
        words = ", ".join(adapter.file.protocols)
        raise UsageError(
            f"{adapter.file.title} speaks {words}, and no client of this suite does: there is nothing to check",
            code="no-client",
            adapter=adapter.name,
        )
    queues = {protocol: f"check-{protocol}" for protocol in spoken}
    with _step(tell, "prepare") as said:
        client = ProbeClient(adapter, spoken[0]) if spoken else None
        broker = adapter.prepare(
            folder, adapter.effective(), list(queues.values()), ledger, offline=offline, client=client
        )
        said.append(str(broker.facts.folder))
    with broker, _shown(adapter, broker):
        with _step(tell, "start") as said:
            broker.start()
            said.append(
                "it runs already"
                if broker.facts.by_command
                else f"pids {', '.join(map(str, broker.target.processes()))}"
            )
        queues = {protocol: broker.service.queue_of(queue) for protocol, queue in queues.items()}
        for protocol in sorted(set(adapter.file.protocols) - set(spoken)):
            tell(Step(f"{protocol}: send and receive", 0.0, _silent(adapter, protocol), tried=False))
        for protocol, queue in queues.items():
            with _step(tell, f"{protocol}: send and receive"):
                ProbeClient(adapter, protocol).exchange(broker, queue)
        if broker.facts.by_command:
            _by_command(adapter, broker, queues, tell)
            return
        left = _leave(adapter, broker, queues, tell)
        _kill(adapter, broker, tell)
        with _step(tell, "restart"):
            broker.start()
        for protocol, message in left.items():
            with _step(tell, f"{protocol}: found again"):
                _find(adapter, broker, protocol, queues[protocol], message)
        with _step(tell, "stop"):
            broker.stop()
        with _step(tell, "nothing is left"):
            _nothing_left(adapter, broker, ledger)


@contextlib.contextmanager
def _shown(adapter: Adapter, broker: Broker) -> Iterator[None]:
    """Add the end of the broker's log to an error of a client: it often says why."""
    try:
        yield
    except ClientError as error:
        raise with_log(adapter, broker, str(error)) from error


def with_log(adapter: Adapter, broker: Broker, what: str) -> LaunchError:
    """Return an error with the end of the broker's log, without secrets."""
    log = broker.facts.log
    said = log.read_text(errors="replace") if log.is_file() else ""
    tail = adapter.file.without_secrets(said, adapter.path.parent).splitlines()[-_TAIL:]
    return LaunchError(what, log_tail=tail, log=str(log))


@contextlib.contextmanager
def _step(tell: Tell, name: str) -> Iterator[list[str]]:
    """Time a step, and report it when it has passed; an error names its step."""
    said: list[str] = []
    began = time.monotonic()
    try:
        yield said
    except ConformanceError as error:
        raise error.within(name) from error
    tell(Step(name, time.monotonic() - began, " ".join(said)))


def _by_command(adapter: Adapter, broker: Broker, queues: dict[str, str], tell: Tell) -> None:
    """Check the faults that have commands; each leaves a message before its fault."""
    for fault in ("kill", "stop"):
        why = adapter.able(fault) if adapter.able else ""
        if why:
            tell(Step(fault, 0.0, why, tried=False))
            continue
        left = _leave(adapter, broker, queues, tell)
        with _step(tell, fault) as said:
            said.append(_fire_by_command(broker.target, fault, broker.service.endpoint(next(iter(queues)))))
        with _step(tell, f"back after {fault}"):
            broker.start()
        for protocol, message in left.items():
            with _step(tell, f"{protocol}: found again"):
                _find(adapter, broker, protocol, queues[protocol], message)


def _fire_by_command(target: Processes, fault: str, address: tuple[str, int]) -> str:
    """Fire the owner's command of a fault that ends the broker, as a trigger does; return what was seen of it.

    A connection to `address` that was open before must be lost in its time, else `FaultError`.
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


def _leave(adapter: Adapter, broker: Broker, queues: dict[str, str], tell: Tell) -> dict[str, str]:
    """Send one durable message over each protocol that promises to keep it, and wait for its confirm."""
    left = {}
    for protocol, queue in queues.items():
        missing = sorted(DURABLE - adapter.capabilities(protocol))
        if missing:
            tell(Step(f"{protocol}: send and leave", 0.0, f"it does not declare {', '.join(missing)}", tried=False))
            continue
        with _step(tell, f"{protocol}: send and leave"):
            left[protocol] = ProbeClient(adapter, protocol).send(broker, queue)
        with _step(tell, f"{protocol}: its depth is 1"):
            depth_of(broker, queue, wanted=1)
    return left


def _kill(adapter: Adapter, broker: Broker, tell: Tell) -> None:
    with _step(tell, "kill") as said:
        with broker.target.armed("kill") as descriptors:
            process.send(descriptors, signal.SIGKILL)
            said.append(f"{len(descriptors)} {'process' if len(descriptors) == 1 else 'processes'}")
        if not broker.target.wait_gone(_GONE_S):
            raise LaunchError(f"{broker.target.processes()} are left {_GONE_S:g} s after SIGKILL")
        if held := _listening(adapter, broker):
            raise LaunchError(
                f"a process still listens on {held} after SIGKILL, and is not known to belong to the broker; "
                "let it write start.pid_file"
            )


def _find(adapter: Adapter, broker: Broker, protocol: str, queue: str, message: str) -> None:
    try:
        ProbeClient(adapter, protocol).receive(broker, queue, message)
    except ClientError as error:
        raise ClientError(
            f"{error}. It was confirmed before the kill: the queue is not durable, the start loses its data, or the "
            "broker confirms before it stores"
        ) from error


def _nothing_left(adapter: Adapter, broker: Broker, ledger: Ledger) -> None:
    if left := broker.target.processes() or marked(ledger.run_id):
        raise LaunchError(f"after a clean stop these pids are left: {', '.join(map(str, left))}")
    if held := _listening(adapter, broker):
        raise LaunchError(f"after a clean stop a process listens on {held}")


def _listening(adapter: Adapter, broker: Broker) -> str:
    found = []
    for host, port in sorted({broker.service.endpoint(protocol) for protocol in adapter.file.protocols}):
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
            found.append(f"{host}:{port}")
    return ", ".join(found)
