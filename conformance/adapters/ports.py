"""Reserve ports on 127.0.0.1 for a broker, also while it is down.

Two traps decide how they are chosen. A client that keeps connecting to a dead broker's port from the kernel's
ephemeral range can be given that very port as its source, and then talks to itself; and any outgoing connection may
take it, so that the broker cannot be restarted. So ports come from below that range. And two runs on one machine must
not choose the same while neither listens: for as long as its broker is in use, each TCP port is kept by a UDP socket of
the same number, which no broker wants. It holds as far as ports do, also between file systems that share a network (a
lock file did not), and the kernel closes it when the process ends.
"""

from __future__ import annotations

import contextlib
import pathlib
import random
import socket
from collections.abc import Iterable, Sequence

import psutil

from conformance.errors import LaunchError

HOST = "127.0.0.1"
EVERYWHERE = "0.0.0.0"  # noqa: S104  (in a container only)
_LOWEST = 10240
_ATTEMPTS = 500


class Ports:
    """Ports by name, reserved until `close()` (or until this process ends)."""

    def __init__(self, names: Sequence[str]) -> None:
        self._kept: list[socket.socket] = []
        self.by_name: dict[str, int] = {}
        for name in names:
            self.by_name[name] = self._reserve()

    def __getitem__(self, name: str) -> int:
        return self.by_name[name]

    def close(self) -> None:
        while self._kept:
            self._kept.pop().close()

    def _reserve(self) -> int:
        chooser = random.SystemRandom()
        for _ in range(_ATTEMPTS):
            port = chooser.randrange(_LOWEST, _highest())
            keeper = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            with contextlib.suppress(OSError):
                keeper.bind((HOST, port))
                if free(port):
                    self._kept.append(keeper)
                    return port
            keeper.close()
        self.close()
        raise LaunchError(f"no free port on {HOST} between {_LOWEST} and {_highest()}")


def _highest() -> int:
    """The first port of the kernel's ephemeral range, where it leaves room below it; else the top of all ports."""
    try:
        first = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = 32768
    return first if first > _LOWEST + 1000 else 65535


def free(port: int) -> bool:
    """Whether nothing of this machine listens at that port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def listening(pids: Iterable[int]) -> set[tuple[str, int]]:
    """The addresses and numbers at which these processes of this machine listen; none of those that are gone."""
    found = set()
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            every = psutil.Process(pid).net_connections(kind="tcp")
            found |= {(one.laddr.ip, one.laddr.port) for one in every if one.status == psutil.CONN_LISTEN}
    return found
