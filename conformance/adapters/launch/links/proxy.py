"""The process between the nodes of a broker: `python -m conformance.adapters.launch.links.proxy DESCRIPTOR`.

The descriptor is a control socket. First comes a list of `Route`, and this process answers with the port of each. Then
each message is a `LinkCommand`, and has an answer. It ends when all others have closed the socket.

While nodes are parted, what a node sends stays in the kernel or here, also the end of a connection, and a new
connection is not made; at most what was on its way crosses (`_ON_ITS_WAY`). Everything goes on when they are joined, as
TCP does when the network is there again. Unlike there the kernel here takes each connection at once, and acknowledges
what waits: a node sees silence, and no time limit of TCP. A connection that its node has given up is not made.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import select
import socket
import struct
import sys
from collections.abc import Coroutine, Sequence
from typing import Any, Literal

import msgspec

HOST = "127.0.0.1"
MAX_MESSAGE = 1 << 16
_ON_ITS_WAY = 1 << 16
"""Bytes that are read at once, and the size of each buffer of the kernel (the kernel doubles it)."""

_AGAIN_S = 0.1
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, 0 s

# What a node says to Erlang's name service, and hears (https://www.erlang.org/doc/apps/erts/erl_dist_protocol.html).
_REGISTER, _NORMAL_NODE, _TCP_4, _VERSIONS = 120, 77, 0, (6, 5)
_ANSWERED = {118, 121}


class Route(msgspec.Struct, frozen=True, array_like=True):
    """A way from a node to a `port` of another one; nodes are numbers from 1 on."""

    node: int
    to: int
    port: int


class Named(msgspec.Struct, frozen=True, array_like=True):
    """The entry of a node in a name service: the service's port, its name, and the port at which it is reached."""

    service: int
    name: str
    port: int


class LinkCommand(msgspec.Struct, frozen=True):
    """`aim` at nodes, `part` these from all others, `count` what has waited, `join` all, or register `names`.

    `apart` are the nodes that are aimed at, `one_way` if what they send does not cross, and what they are sent does.
    """

    do: Literal["aim", "part", "count", "join", "names"]
    apart: tuple[int, ...] = ()
    one_way: bool = False
    names: tuple[Named, ...] = ()


class Withheld(msgspec.Struct):
    """What did not cross while nodes were `parted`: bytes, ends of connections, and new connections."""

    parted: bool
    bytes: int
    ends: int
    connections: int

    @property
    def nothing(self) -> bool:
        """Whether nodes were parted, and none has missed another one."""
        return self.parted and not (self.bytes or self.ends or self.connections)

    def __str__(self) -> str:
        return f"{self.bytes} bytes, {self.ends} ends of connections and {self.connections} new connections had to wait"


class NodesProxy:
    """Listens for each route, and passes on what comes, while its nodes are not parted."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._open = {(route.node, route.to): asyncio.Event() for route in routes}
        self._open |= {(to, node): asyncio.Event() for node, to in list(self._open)}
        self._withheld = _none()
        self._aimed = LinkCommand("aim")
        self._tasks: set[asyncio.Task[None]] = set()
        self._registered: list[asyncio.StreamWriter] = []
        self._listening = [(route, self._listen()) for route in routes]
        self._join()

    @property
    def ports(self) -> list[int]:
        return [listening.getsockname()[1] for _, listening in self._listening]

    async def serve(self, control: socket.socket) -> None:
        """Do what comes over the control socket, until all others have closed it."""
        loop = asyncio.get_running_loop()
        for route, listening in self._listening:
            self._begin(self._accept(route, listening))
        control.setblocking(False)
        while data := await loop.sock_recv(control, MAX_MESSAGE):
            answer = await self._do(msgspec.json.decode(data, type=LinkCommand))
            await loop.sock_sendall(control, answer)

    async def _do(self, command: LinkCommand) -> bytes:
        if command.do == "names":
            return msgspec.json.encode(await self._register(command.names))
        if command.do == "join":
            self._join()
        elif command.do == "aim":
            self._aimed, self._withheld = command, _none()
        elif command.do == "part":
            self._withheld.parted = True
            for (node, to), way in self._open.items():
                leaves, enters = node in self._aimed.apart, to in self._aimed.apart
                if leaves != enters and (leaves or not self._aimed.one_way):
                    way.clear()
        return msgspec.json.encode(self._withheld)

    def _join(self) -> None:
        for way in self._open.values():
            way.set()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @staticmethod
    def _listen() -> socket.socket:
        listening = socket.create_server((HOST, 0), backlog=64)
        listening.setblocking(False)
        return listening

    async def _accept(self, route: Route, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                taken, _ = await loop.sock_accept(listening)
            except OSError:  # no descriptor is left: the connection waits in the kernel
                await asyncio.sleep(_AGAIN_S)
            else:
                self._begin(self._connect(route, taken))

    async def _connect(self, route: Route, taken: socket.socket) -> None:
        """Connect to the other node, once packets cross in both directions."""
        there, back = self._open[route.node, route.to], self._open[route.to, route.node]
        made: socket.socket | None = None
        try:
            if not (there.is_set() and back.is_set()):
                self._withheld.connections += 1
                await there.wait()
                await back.wait()
                if _given_up(taken):
                    return
            made = socket.socket()
            made.setblocking(False)
            for end in (taken, made):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ON_ITS_WAY)
            await asyncio.get_running_loop().sock_connect(made, (HOST, route.port))
            async with asyncio.TaskGroup() as both:  # if one fails, neither waits for a socket that is closed
                both.create_task(self._pass_on(taken, made, there, back))
                both.create_task(self._pass_on(made, taken, back, there))
        except* OSError:  # one end was reset, or nothing listens: so is the other
            for end in filter(None, (taken, made)):
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        finally:
            for end in filter(None, (taken, made)):
                end.close()

    async def _pass_on(
        self, source: socket.socket, target: socket.socket, way: asyncio.Event, back: asyncio.Event
    ) -> None:
        """Pass on what comes; an error of either socket is raised when the news of it can have crossed."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                data = await loop.sock_recv(source, _ON_ITS_WAY)
            except OSError:
                await self._crosses(way, 0)
                raise
            await self._crosses(way, len(data))
            try:
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                await loop.sock_sendall(target, data)
            except OSError:
                await self._crosses(back, 0)
                raise

    async def _crosses(self, way: asyncio.Event, size: int) -> None:
        if not way.is_set():
            self._withheld.bytes += size
            self._withheld.ends += not size
            await way.wait()

    async def _register(self, names: Sequence[Named]) -> str:
        """Put nodes into name services in place of those of before; return what went wrong."""
        for writer in self._registered:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        self._registered.clear()
        for named in names:
            name = named.name.encode()
            about = struct.pack(">HBBHHH", named.port, _NORMAL_NODE, _TCP_4, *_VERSIONS, len(name)) + name + b"\0\0"
            try:
                reader, writer = await asyncio.open_connection(HOST, named.service)
                self._registered.append(writer)  # it is registered as long as this is open
                writer.write(struct.pack(">HB", 1 + len(about), _REGISTER) + about)
                answer = await reader.readexactly(2)
            except (OSError, EOFError) as error:
                return f"the name service at port {named.service} did not take {named.name}: {error}"
            if answer[0] not in _ANSWERED or answer[1]:
                return f"the name service at port {named.service} refused {named.name}"
        return ""


def _none() -> Withheld:
    return Withheld(parted=False, bytes=0, ends=0, connections=0)


def _given_up(end: socket.socket) -> bool:
    """Whether its peer has closed the connection."""
    poller = select.poll()
    poller.register(end, select.POLLRDHUP)
    return bool(poller.poll(0))


async def _serve(control: socket.socket, routes: Sequence[Route]) -> None:
    proxy = NodesProxy(routes)
    control.send(msgspec.json.encode(proxy.ports))
    await proxy.serve(control)


def main(descriptor: int) -> None:
    """Serve one broker of several nodes."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with socket.socket(fileno=descriptor) as control:
        routes = control.recv(MAX_MESSAGE)
        if routes:
            asyncio.run(_serve(control, msgspec.json.decode(routes, type=list[Route])))


if __name__ == "__main__":
    main(int(sys.argv[1]))
