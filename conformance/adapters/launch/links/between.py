"""What a broker of several nodes has of the links between them: its ports, and how they are parted and joined."""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from conformance.adapters.launch.links import proxy
from conformance.adapters.launch.links.proxy import MAX_MESSAGE, LinkCommand, Named, Route, Withheld
from conformance.errors import FaultError, LaunchError
from conformance.ledger import Ledger, python_environment
from conformance.processes import readable

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
        folder.mkdir(parents=True, exist_ok=True)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._log.open("wb") as log:
            self._process, self._ticket = ledger.spawn(
                "links between nodes",
                [sys.executable, "-m", proxy.__name__, str(theirs.fileno())],
                env=python_environment(),
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
            )
        try:
            routes = [Route(node, to, ports[to][name]) for node, to, name in ways]
            found = msgspec.json.decode(self._ask(routes), type=list[int])
        except BaseException:
            self.close()
            raise
        self.ports = dict(zip(ways, found, strict=True))

    def register(self, names: Sequence[Named]) -> None:
        """Put nodes into the name services of others, at the ports of their links. Raises `LaunchError`."""
        if wrong := msgspec.json.decode(self._ask(LinkCommand("names", names=tuple(names))), type=str):
            raise LaunchError(f"nodes.links.names: {wrong}")

    @contextlib.contextmanager
    def parting(self, apart: Sequence[int], *, one_way: bool = False) -> Iterator[int]:
        """Yield a descriptor by which a client parts these nodes from all others (`part`); join them at the end.

        `one_way`: what they send does not cross, and what they are sent does. Raises `FaultError` if they were parted
        and nothing had to wait: then the partition had no effect.
        """
        self._ask(LinkCommand("aim", apart=tuple(apart), one_way=one_way))
        try:
            yield self._control.fileno()
        finally:
            withheld = join(self._control.fileno())
        if withheld.nothing:
            raise no_effect(self._log)

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

    def _ask(self, message: object) -> bytes:
        try:
            return _asked(self._control.fileno(), message)
        except FaultError as error:
            raise LaunchError(f"the links between nodes: {error}; the log is {self._log}") from error


def part(descriptor: int) -> None:
    """Part the nodes that were aimed at. Raises `FaultError`."""
    _asked(descriptor, LinkCommand("part"))


def missed(descriptor: int) -> Withheld:
    """Return what has not crossed since the nodes were parted; `FaultError` if nothing had to wait."""
    withheld = _withheld(_asked(descriptor, LinkCommand("count")))
    if withheld.nothing:
        raise no_effect()
    return withheld


def join(descriptor: int) -> Withheld:
    """Join all nodes, and return what did not cross meanwhile. Raises `FaultError`."""
    return _withheld(_asked(descriptor, LinkCommand("join")))


def no_effect(log: pathlib.Path | None = None) -> FaultError:
    """Say that no node had sent anything that had to wait, and what to look at."""
    where = f"; the log is {log}" if log else ""
    return FaultError(
        "the partition had no effect: no node has sent anything to one that it could not reach. Do all nodes use the "
        f"ports {{peer.K.NAME_port}} or {{other.NAME_port}} of [nodes.links]?{where}"
    )


def _withheld(answer: bytes) -> Withheld:
    try:
        return msgspec.json.decode(answer, type=Withheld)
    except msgspec.MsgspecError as error:
        raise FaultError(f"their process answered {answer.decode()}") from error


def _asked(descriptor: int, message: object) -> bytes:
    """Return the answer of the process at the other end of the socket; one that no one has read is dropped."""
    with contextlib.suppress(ConnectionError):
        while readable([descriptor], 0) and os.read(descriptor, MAX_MESSAGE):
            pass
        os.write(descriptor, msgspec.json.encode(message))
        if not readable([descriptor], _ANSWER_S):
            raise FaultError(f"their process did not answer within {_ANSWER_S:g} s")
        if answer := os.read(descriptor, MAX_MESSAGE):
            return answer
    raise FaultError("their process has ended")
