"""Start the link proxy, end it, and prove its fault.

The client of a step connects to `LinkProxy.port` instead of the broker's port. The proxy is a process of its own, so
that work of the harness does not slow a link.
"""

from __future__ import annotations

import contextlib
import pathlib
import socket
import subprocess
import sys
from typing import Self

import msgspec

from conformance.errors import FaultError
from conformance.faults.link import proxy
from conformance.faults.link.connection import ProxyConfig, ProxyResult
from conformance.history import Ended, Header, close_history
from conformance.ledger import Ledger, python_environment
from conformance.scenario.script import Cut, HoldLink, LinkFault

_START_S = 30.0
_END_S = 20.0
_MAX_MESSAGE = 1 << 16


class LinkProxy:
    """One proxy and its history, `link-N.jsonl` in `folder`.

    The process starts with the `with` block; only `port` waits for it. The block always ends it.

    Args:
        ledger: Records the process.
        folder: The folder of the trial. It gets the history, and a log if the proxy reports an error.
        header: The header of the history; `process` is replaced.
        upstream: Address and port of the broker.
        protocol: The protocol of the link: one of `PROTOCOLS`, or one whose frames are not read.
        fault: The fault of the link, all its numbers drawn; None for a link that only records.
        number: N, from 1 on: a trial may have several.
        epoch: The run of the broker behind it.
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
        self._ledger, self._result, self._port = ledger, ProxyResult(), 0
        self._config = ProxyConfig(
            header=msgspec.structs.replace(header, process=name),
            history=str(self.history),
            host=upstream[0],
            port=upstream[1],
            protocol=protocol,
            epoch=epoch,
            fault=fault,
        )
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes]
        self._ticket = ""

    def __enter__(self) -> Self:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs, self.log.open("ab") as log:
                self._process, self._ticket = self._ledger.spawn(
                    "link proxy",
                    [sys.executable, "-m", proxy.__name__, str(theirs.fileno())],
                    env=python_environment(),
                    stdout=log,
                    stderr=log,
                    pass_fds=[theirs.fileno()],
                )
        except BaseException:
            ours.close()
            raise
        self._control = ours
        ours.send(msgspec.json.encode(self._config))
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        with contextlib.suppress(*([] if kind is None else [FaultError])):
            self.finish()

    @property
    def port(self) -> int:
        """Its port on 127.0.0.1; the fault is armed when it is known.

        Raises:
            FaultError: The proxy did not start.
        """
        if not self._port:
            self._port = int(self._receive(_START_S) or 0)
            if not self._port:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_END_S)  # it hangs up before it writes its error
                raise FaultError(f"the link proxy did not start: {self._last_log_line()}")
        return self._port

    def cut(self) -> int:
        """Reset every connection at both ends, now; return how many. A client may connect again.

        Raises:
            FaultError: There is no connection, a peer still has its own, or the proxy died.
        """
        _ = self.port  # its first message
        assert self._control is not None
        with contextlib.suppress(BrokenPipeError):
            self._control.send(b"cut")
        there, _, gone = self._receive(_END_S).decode().partition(" ")
        if not gone:
            raise FaultError(f"the link proxy died: {self._last_log_line()}")
        if there == "0":
            raise FaultError("the cut met nothing: no client is connected through the link")
        if there != gone:
            raise FaultError(f"the cut did not take effect: {gone} of {there} connections are gone")
        return int(gone)

    def finish(self) -> ProxyResult:
        """End the proxy in order, close its history, and return its result; a second call only returns the result.

        Raises:
            FaultError: The proxy had died, or did not end.
        """
        control, self._control = self._control, None
        if control is None:
            return self._result
        with control:
            last = self._hang_up(control)
        self._ledger.released(self._ticket)
        reason = self._last_log_line()
        if not last or self._process.returncode:
            if self.history.exists():
                close_history(self.history, Ended.DIED, reason)
            raise FaultError(f"the link proxy died: {reason}")
        close_history(self.history, Ended.FINISHED)
        self.log.unlink()
        self._result = msgspec.json.decode(last, type=ProxyResult)
        return self._result

    def _hang_up(self, control: socket.socket) -> bytes:
        """End the process, and return its encoded result; empty if it sent none."""
        last = b""
        control.settimeout(_END_S)
        try:
            if not self._port:
                control.recv(_MAX_MESSAGE)  # its port, which was never read
            control.shutdown(socket.SHUT_WR)
            last = control.recv(_MAX_MESSAGE)
            self._process.wait(_END_S)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        return last

    def _receive(self, timeout_s: float) -> bytes:
        assert self._control is not None
        self._control.settimeout(timeout_s)
        with contextlib.suppress(OSError):
            return self._control.recv(_MAX_MESSAGE)
        return b""

    def _last_log_line(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return lines[-1] if lines else "its log is empty"


def prove(fault: LinkFault, result: ProxyResult) -> None:
    unread = f" ({result.unreadable})" if result.unreadable else ""
    if isinstance(fault, Cut | HoldLink) and not result.fired:
        at = fault.at
        kinds = f"{at.kind.replace('_', ' ')} frames"
        raise FaultError(
            f"the {fault.name} did not fire: {result.seen} of the {at.k} {kinds} that its trigger waits for{unread}"
        )
    if not result.effective:
        raise FaultError(f"the {fault.name} did not take effect: {_MISSING[fault.name]}{unread}")


_MISSING = {
    "cut": "a peer's connection was still established, or no byte was sent into the half-open connection",
    "hold_link": "no byte arrived that could be withheld",
    "delay": "no byte passed",
    "throttle": "no byte had to wait",
}
