"""What a broker of several nodes has of the links between them: its ports, and how they are parted and joined."""

from __future__ import annotations

import contextlib
import os
import pathlib
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from conformance.adapters.launch.links import proxy
from conformance.adapters.launch.links.proxy import MAX_MESSAGE, LinkCommand, Named, Route, Withheld
from conformance.errors import FaultError, LaunchError
from conformance.ledger import Ledger, python_environment

_ANSWER_S = 20.0

Ports = Mapping[int, Mapping[str, int]]
"""The ports of each node (1 is the first) by their names."""


class NodeLinks:
    """The process through which the nodes of a broker reach each other at the ports with these `names`.

    `ports` has for a node, another one and a name the port at which the first one reaches the other. Raises
    `LaunchError` if the process does not start.
    """

    def __init__(self, ledger: Ledger, folder: pathlib.Path, ports: Ports, names: Sequence[str]) -> None:
        ways = [(node, to, name) for node in ports for to in ports if node != to for name in names]
        self._log = folder / "links.log"
        self._ledger = ledger
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with theirs, self._log.open("wb") as log:
                self._process, self._ticket = ledger.spawn(
                    "links between nodes",
                    [sys.executable, "-m", proxy.__name__, str(theirs.fileno())],
                    env=python_environment(),
                    stdout=log,
                    stderr=log,
                    pass_fds=[theirs.fileno()],
                )
            routes = [Route(node, to, ports[to][name]) for node, to, name in ways]
            found = msgspec.json.decode(self._ask(msgspec.json.encode(routes)), type=list[int])
        except BaseException:
            self._control.close()
            raise
        self.ports = dict(zip(ways, found, strict=True))

    def register(self, names: Sequence[Named]) -> None:
        """Put nodes into the name services of others, at the ports of their links. Raises `LaunchError`."""
        if wrong := self._ask(msgspec.json.encode(LinkCommand("names", names=tuple(names)))).decode().strip():
            raise LaunchError(f"nodes.links.names: {wrong}")

    @contextlib.contextmanager
    def parting(self, apart: Sequence[int], *, one_way: bool = False) -> Iterator[int]:
        """Yield a descriptor by which a client parts these nodes from all others (`part`); join them at the end.

        `one_way`: only what they send crosses not. Raises `FaultError` if nothing had to wait meanwhile: then the nodes
        have not missed each other.
        """
        self._ask(msgspec.json.encode(LinkCommand("aim", apart=tuple(apart), one_way=one_way)))
        try:
            yield self._control.fileno()
        finally:
            withheld = join(self._control.fileno())
        if withheld == Withheld():
            raise FaultError("the partition met nothing: no node has sent anything to one that it could not reach")

    def close(self) -> None:
        """End the process; a second call does nothing."""
        if self._control.fileno() < 0:
            return
        self._control.close()
        try:
            self._process.wait(_ANSWER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._ledger.released(self._ticket)

    def _ask(self, message: bytes) -> bytes:
        try:
            return _asked(self._control.fileno(), message)
        except FaultError as error:
            raise LaunchError(f"the links between nodes: {error}; the log is {self._log}") from error


def part(descriptor: int) -> None:
    """Part the nodes that were aimed at. Raises `FaultError`."""
    _asked(descriptor, msgspec.json.encode(LinkCommand("part")))


def join(descriptor: int) -> Withheld:
    """Join all nodes, and return what did not cross meanwhile. Raises `FaultError`."""
    return msgspec.json.decode(_asked(descriptor, msgspec.json.encode(LinkCommand("join"))), type=Withheld)


def _asked(descriptor: int, message: bytes) -> bytes:
    """Return the answer of the process at the other end of the socket."""
    with contextlib.suppress(ConnectionError):
        os.write(descriptor, message)
        if not select.select([descriptor], [], [], _ANSWER_S)[0]:
            raise FaultError(f"their process did not answer within {_ANSWER_S:g} s")
        if answer := os.read(descriptor, MAX_MESSAGE):
            return answer
    raise FaultError("their process has ended")
