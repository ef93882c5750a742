"""The link proxy as the harness sees it: start it, end it, and prove its fault.

A client of a step connects to `LinkProxy.port` instead of the broker's. The proxy is a process of its own: what the
harness does must not slow a link.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
from typing import Self

import msgspec

from conformance.errors import FaultError
from conformance.faults.link import proxy
from conformance.faults.link.messages import ProxyConfig, ProxyResult, fields_of
from conformance.history import Ended, Header, close_history
from conformance.ledger import Ledger, inherited
from conformance.scenario.script import Cut, HoldLink, LinkFault

_START_S = 30.0
_END_S = 20.0
_MAX_TOLD = 1 << 16


class LinkProxy:
    """One proxy and its history, `link-N.jsonl` of the folder.

    The process starts with the `with` block; only `port` waits for it. The block ends it in any case.

    Args:
        ledger: Where the process is recorded.
        folder: Of the trial: history, and a log where the proxy had something to complain of.
        header: Of the history; `process` is replaced.
        upstream: Address and port of the broker.
        protocol: What is spoken over it: `amqp`, `amqp091`, `stomp`, or `core`, of which no frame is told.
        fault: What is done to the link, every number of it drawn; None for a link that only records.
        number: N, from 1 on: a trial may have several.
        epoch: The run of the broker that is behind it.

    Raises:
        FaultError: The fault has a word or a number that is none.
    """

    def __init__(
        self,
        ledger: Ledger,
        folder: pathlib.Path,
        header: Header,
        upstream: tuple[str, int],
        protocol: str,
        fault: LinkFault | None = None,
        *,
        number: int = 1,
        epoch: int = 1,
    ) -> None:
        name = f"link-{number}"
        self.history, self.log = folder / f"{name}.jsonl", folder / f"{name}.log"
        self._ledger, self._told, self._port = ledger, ProxyResult(), 0
        self._order = ProxyConfig(
            header=msgspec.structs.replace(header, process=name),
            history=str(self.history),
            host=upstream[0],
            port=upstream[1],
            protocol=protocol,
            epoch=epoch,
            fault="" if fault is None else fault.name,
            fields={} if fault is None else fields_of(fault),
        )
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes]
        self._ticket = ""

    def __enter__(self) -> Self:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        here = str(pathlib.Path(__file__).resolve().parents[3])  # also from a checkout that is not installed
        path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
        try:
            with theirs, self.log.open("ab") as log:
                self._process, self._ticket = self._ledger.spawn(
                    "link proxy",
                    [sys.executable, "-m", proxy.__name__, str(theirs.fileno())],
                    env={**inherited(), "PYTHONPATH": path},
                    stdout=log,
                    stderr=log,
                    pass_fds=[theirs.fileno()],
                )
        except BaseException:
            ours.close()
            raise
        self._control = ours
        ours.send(msgspec.json.encode(self._order))
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        with contextlib.suppress(*([] if kind is None else [FaultError])):
            self.finish()

    @property
    def port(self) -> int:
        """Where it listens on 127.0.0.1, with its fault armed.

        Raises:
            FaultError: It did not start.
        """
        if not self._port:
            self._port = int(self._word(_START_S) or 0)
            if not self._port:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_END_S)  # it hangs up before it complains
                raise FaultError(f"the link proxy did not start: {self._complaint()}")
        return self._port

    def finish(self) -> ProxyResult:
        """End it in order, close its history, and return its last word; a second call only returns it.

        Raises:
            FaultError: It had died, or did not end.
        """
        control, self._control = self._control, None
        if control is None:
            return self._told
        with control:
            last = self._hang_up(control)
        self._ledger.released(self._ticket)
        complaint = self._complaint()
        if not last or self._process.returncode:
            if self.history.exists():
                close_history(self.history, Ended.DIED, complaint)
            raise FaultError(f"the link proxy died: {complaint}")
        close_history(self.history, Ended.FINISHED)
        self.log.unlink()
        self._told = msgspec.json.decode(last, type=ProxyResult)
        return self._told

    def _hang_up(self, control: socket.socket) -> bytes:
        """Its last word, if it had one; the process is gone then."""
        last = b""
        control.settimeout(_END_S)
        try:
            if not self._port:
                control.recv(_MAX_TOLD)  # its port, which nobody had asked for
            control.shutdown(socket.SHUT_WR)
            last = control.recv(_MAX_TOLD)
            self._process.wait(_END_S)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        return last

    def _word(self, timeout_s: float) -> bytes:
        assert self._control is not None
        self._control.settimeout(timeout_s)
        with contextlib.suppress(OSError):
            return self._control.recv(_MAX_TOLD)
        return b""

    def _complaint(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return lines[-1] if lines else "it left no word"


def prove(fault: LinkFault, told: ProxyResult) -> None:
    """Raise `FaultError` unless the fault struck, and was seen to do what it is for."""
    unread = f" ({told.unreadable})" if told.unreadable else ""
    if isinstance(fault, Cut | HoldLink) and not told.fired:
        at = fault.at
        kinds = f"{at.kind.replace('_', ' ')} frames"
        raise FaultError(
            f"the {fault.name} did not fire: {told.seen} of the {at.k} {kinds} that its trigger waits for{unread}"
        )
    if not told.effective:
        raise FaultError(f"the {fault.name} did not take effect: {_MISSING[fault.name]}{unread}")


_MISSING = {
    "cut": "a peer's connection was still established, or nothing was sent into the silence",
    "hold_link": "nothing came that could be withheld",
    "delay": "nothing passed",
    "throttle": "nothing had to wait",
}
