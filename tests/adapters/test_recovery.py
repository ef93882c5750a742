"""Real brokers that do not start again after a kill: because of their data, or because of this machine."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable

import pytest

from conformance import adapters
from conformance.adapters.launch import native
from conformance.adapters.launch.plan import Plan
from conformance.errors import LaunchError
from conformance.history import NOT_RECOVERED, Phase
from conformance.ledger import Ledger
from conformance.run.broker_pool import BrokerPool
from conformance.run.planning import Planned
from conformance.run.trial.restart import RestartAttempt
from conformance.scenario import Scenario
from conformance.scenario.script import Drain

SCRIPT = Scenario("odd", "", "async_ack", (Drain(),), {})
READY_S = 45.0
"""Classic does not end where it cannot have its store: it waits."""

Hook = Callable[[native.NativeBroker, pytest.MonkeyPatch, contextlib.ExitStack], None]


def unreadable(broker: native.NativeBroker, patch: pytest.MonkeyPatch, undo: contextlib.ExitStack) -> None:
    """A file that the broker must read has other bytes, or a file stands where its store should be a folder."""
    if broker.journal.name == "kahadb":  # it creates all its other files again
        shutil.rmtree(broker.journal)
        broker.journal.write_text("no folder")
        return
    files = [*broker.data.glob("journal/activemq-data-*.amq"), *broker.data.glob("config.json")]
    assert files
    for path in files:
        with path.open("r+b") as stream:
            stream.write(b"\xde\xad\xbe\xef" * 256)


def port_taken(broker: native.NativeBroker, patch: pytest.MonkeyPatch, undo: contextlib.ExitStack) -> None:
    """Another process listens where the broker must."""
    undo.enter_context(socket.create_server(broker.endpoint("amqp")))


def no_memory(broker: native.NativeBroker, patch: pytest.MonkeyPatch, undo: contextlib.ExitStack) -> None:
    """The machine has less than the JVM is told to take."""
    environment = {
        name: text.replace("-Xms64M -Xmx512M", "-Xms7000G -Xmx7000G") for name, text in broker.plan.environment.items()
    }
    patch.setattr(Plan, "environment", environment)


def disk_full(broker: native.NativeBroker, patch: pytest.MonkeyPatch, undo: contextlib.ExitStack) -> None:
    """The data lie on a disk that has no byte left."""
    if os.getuid() != 0:
        pytest.skip("a disk of its own needs root")
    kept = broker.folder / "kept"
    shutil.copytree(broker.data, kept)
    size = sum(path.stat().st_size for path in kept.rglob("*")) + (64 << 10)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(broker.data)], check=True)
    undo.callback(subprocess.run, ["umount", "--lazy", str(broker.data)], check=True)
    shutil.copytree(kept, broker.data, dirs_exist_ok=True)
    with contextlib.suppress(OSError), (broker.data / "ballast").open("wb", buffering=0) as stream:
        while stream.write(bytes(4096)):
            pass


PRODUCTS = {
    "artemis": (unreadable, port_taken, no_memory),  # its files are preallocated: it starts on a full disk
    "activemq": (unreadable, port_taken, no_memory, disk_full),
    "qpid": (unreadable, port_taken, no_memory, disk_full),
}
OFTEN = [("artemis", unreadable), ("artemis", port_taken), ("artemis", no_memory)]
"""The reasons that a stock broker meets first; the others take minutes."""


@pytest.mark.parametrize(
    ("product", "hook"),
    [
        pytest.param(
            name, hook, marks=[getattr(pytest.mark, name), *([] if (name, hook) in OFTEN else [pytest.mark.full])]
        )
        for name, hooks in PRODUCTS.items()
        for hook in hooks
    ],
)
def test_who_is_to_blame(
    tmp_path: pathlib.Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, product: str, hook: Hook
) -> None:
    """The broker where its own data keep it from starting, and no other cause; each hook strikes after a kill."""
    monkeypatch.setattr(native.NativeBroker, "_limit_s", lambda *_: READY_S)
    adapter = adapters.find(product)
    planned = Planned("odd.1", SCRIPT, "subject", "", 1, 1, adapter, adapter.effective(), "amqp")
    stand, _ = BrokerPool(tmp_path / "brokers", ledger, [planned], offline=False).acquire(planned)
    with contextlib.closing(stand), contextlib.ExitStack() as undo:
        assert isinstance(stand.broker, native.NativeBroker)
        with stand.broker.target.armed("kill") as descriptors:
            for descriptor in descriptors:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        assert stand.broker.wait_gone(20)
        hook(stand.broker, monkeypatch, undo)
        if hook is unreadable:
            found = RestartAttempt(stand).start()
            assert found is not None
            assert found.phase is Phase.FAIL, found.reason
            assert found.reason.startswith(f"{NOT_RECOVERED}: {adapter.file.title}")
        else:
            with pytest.raises(LaunchError, match="this machine is the cause, not the broker"):
                RestartAttempt(stand).start()
