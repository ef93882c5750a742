"""Which faults a broker in a container can take on this machine: found out by trying, in its own image."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import tempfile
import uuid
from collections.abc import Callable

from conformance.adapters.container.engine import Engine, Spec, connect
from conformance.adapters.container.host_processes import Init, unseen
from conformance.adapters.container.images import Recipe, broker_image
from conformance.adapters.launch.process_tree import wait_ended
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
