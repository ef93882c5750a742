"""What an adapter promises to the rest of the suite, tried step by step: `conformance adapters check`.

A step that fails says what failed and shows the end of the broker's log. What passes here can be tried in a run; what
the broker then does with its messages is for the run to say.
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
from conformance.adapters.file_adapter import DURABLE
from conformance.adapters.launchers import EXTERNAL
from conformance.adapters.opening import WIRES, check_credentials
from conformance.errors import ClientError, ConformanceError, LaunchError, UsageError
from conformance.faults import process
from conformance.ledger import RUN_VARIABLE, Ledger
from conformance.run import readiness_probe
from conformance.run.planning.plan import Selection

_GONE_S = 20.0
_TAIL = 40


@dataclasses.dataclass(frozen=True)
class Step:
    """What was tried, how long it took, and what there is to say of it; `tried` is false where it could not be."""

    name: str
    seconds: float
    detail: str = ""
    tried: bool = True


Tell = Callable[[Step], None]


def run_id(adapter: Adapter) -> str:
    """A name that no other check has."""
    return f"check-{adapter.name}-{secrets.token_hex(4)}"


@contextlib.contextmanager
def place(keep: pathlib.Path | None) -> Iterator[pathlib.Path]:
    """The folder of a check: one that is gone afterwards, or `keep`, which must be new or empty (`UsageError`)."""
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
    """Why nothing is said over a protocol of the broker; empty where something is."""
    rules = getattr(getattr(adapter, "place", None), "rules", None)
    if protocol not in WIRES:
        return "no client of this suite speaks it"
    return f"no address was given for it (external.urls.{protocol})" if rules and protocol not in rules.urls else ""


def assumptions(adapter: Adapter) -> list[str]:
    """The promises that are assumed because the adapter's file does not describe a setting of storage, a line each.

    A claim that is decided by other settings as well is not named: it does not apply here, whatever is assumed.
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
    """The claims about stored messages that do not apply because the file does not declare it, a line a protocol."""
    about = [claim for claim in claims.load().claims.values() if claims.STORED in claim.capabilities]
    return [
        f"over {protocol}: {', '.join(claim.id for claim in about if protocol in claim.surfaces)}"
        for protocol in _spoken(adapter)
        if claims.STORED not in adapter.capabilities(protocol) and adapter.capabilities(protocol) >= DURABLE
    ]


def check(adapter: Adapter, folder: pathlib.Path, ledger: Ledger, tell: Tell, *, offline: bool = False) -> None:
    """Start it, use each of its protocols, kill it, find the messages again, stop it, and see that nothing is left.

    `tell` gets each step when it is over. Raises the `ConformanceError` of the step that failed; nothing of the broker
    is left then.
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
        broker = adapter.prepare(folder, adapter.effective(), list(queues.values()), ledger, offline=offline)
        broker.ask_depth = readiness_probe.ask_depth(broker)
        said.append(str(broker.folder))
    with broker, _shown(adapter, broker):
        if spoken:
            broker.prove_ready = readiness_probe.prove_ready(adapter, broker, spoken[0])
            broker.drain_queue = readiness_probe.drain_queue(adapter, broker, spoken[0])
        with _step(tell, "start") as said:
            broker.start()
            said.append(
                f"pids {', '.join(map(str, broker.processes()))}" if not broker.by_command else "it runs already"
            )
        queues = {protocol: broker.queue_of(queue) for protocol, queue in queues.items()}
        for protocol in sorted(set(adapter.file.protocols) - set(spoken)):
            tell(Step(f"{protocol}: send and receive", 0.0, _silent(adapter, protocol), tried=False))
        for protocol, queue in queues.items():
            with _step(tell, f"{protocol}: send and receive"):
                readiness_probe.exchange(adapter, broker, protocol, queue)
        if broker.by_command:
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
    """What a client could not do is told with the end of the broker's log: it often says why."""
    try:
        yield
    except ClientError as error:
        said = broker.log.read_text(errors="replace") if broker.log.is_file() else ""
        tail = adapter.file.without_secrets(said, adapter.path.parent).splitlines()[-_TAIL:]
        raise LaunchError(str(error), log_tail=tail, log=str(broker.log)) from error


@contextlib.contextmanager
def _step(tell: Tell, name: str) -> Iterator[list[str]]:
    """Time a step, and tell it when it has passed; an error says in which step it came."""
    said: list[str] = []
    began = time.monotonic()
    try:
        yield said
    except ConformanceError as error:
        raise error.within(name) from error
    tell(Step(name, time.monotonic() - began, " ".join(said)))


def _by_command(adapter: Adapter, broker: Broker, queues: dict[str, str], tell: Tell) -> None:
    """What its owner has commands for; a message is only left where a kill is to follow."""
    for fault in ("kill", "stop"):
        why = adapter.able(fault) if adapter.able else ""
        if why:
            tell(Step(fault, 0.0, why, tried=False))
            continue
        left = _leave(adapter, broker, queues, tell)
        with _step(tell, fault) as said:
            said.append(process.fire_by_command(broker, fault, broker.endpoint(next(iter(queues)))))
        with _step(tell, f"back after {fault}"):
            broker.start()
        for protocol, message in left.items():
            with _step(tell, f"{protocol}: found again"):
                _find(adapter, broker, protocol, queues[protocol], message)


def _leave(adapter: Adapter, broker: Broker, queues: dict[str, str], tell: Tell) -> dict[str, str]:
    """One confirmed durable message in the queue of each protocol that promises to keep it."""
    left = {}
    for protocol, queue in queues.items():
        missing = sorted(DURABLE - adapter.capabilities(protocol))
        if missing:
            tell(Step(f"{protocol}: send and leave", 0.0, f"it does not declare {', '.join(missing)}", tried=False))
            continue
        with _step(tell, f"{protocol}: send and leave"):
            left[protocol] = readiness_probe.send(adapter, broker, protocol, queue)
        with _step(tell, f"{protocol}: its depth is 1"):
            readiness_probe.depth_reaches(broker, queue, 1)
    return left


def _kill(adapter: Adapter, broker: Broker, tell: Tell) -> None:
    with _step(tell, "kill") as said:
        with broker.pidfds() as descriptors:
            process.send(descriptors, signal.SIGKILL)
            said.append(f"{len(descriptors)} {'process' if len(descriptors) == 1 else 'processes'}")
        if not broker.wait_gone(_GONE_S):
            raise LaunchError(f"{broker.processes()} are left {_GONE_S:g} s after SIGKILL")
        if held := _listening(adapter, broker):
            raise LaunchError(
                f"somebody still listens on {held} after SIGKILL: a process of the broker is not seen to be its own; "
                "let it write start.pid_file"
            )


def _find(adapter: Adapter, broker: Broker, protocol: str, queue: str, message: str) -> None:
    try:
        readiness_probe.receive(adapter, broker, protocol, queue, message)
    except ClientError as error:
        raise ClientError(
            f"{error}. It was confirmed before the kill: the queue is not durable, the start loses its data, or the "
            "broker confirms before it stores"
        ) from error


def _nothing_left(adapter: Adapter, broker: Broker, ledger: Ledger) -> None:
    """No process of this check, and nobody at its ports."""
    if left := broker.processes() or marked(ledger.run_id):
        raise LaunchError(f"after a clean stop these pids are left: {', '.join(map(str, left))}")
    if held := _listening(adapter, broker):
        raise LaunchError(f"after a clean stop somebody listens on {held}")


def _listening(adapter: Adapter, broker: Broker) -> str:
    """The addresses of its protocols where connections are taken."""
    found = []
    for host, port in sorted({broker.endpoint(protocol) for protocol in adapter.file.protocols}):
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
            found.append(f"{host}:{port}")
    return ", ".join(found)


def marked(run_id: str) -> list[int]:
    """The living processes that carry the mark of a run in their environment; this one excepted."""
    mark = f"{RUN_VARIABLE}={run_id}".encode()
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # gone, or another user's
            if mark in path.read_bytes().split(b"\0") and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
    return found
