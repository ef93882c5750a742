"""The process between the nodes of a broker: `python -m conformance.adapters.launch.links.proxy DESCRIPTOR`.

The descriptor is a control socket. First comes a list of `Route`, and this process answers with the port of each. Then
each message is a `LinkCommand`, and has an answer. It ends when all others have closed the socket.

While nodes are parted, no byte crosses: what a node has sent stays in the kernel or here, also the end of a connection,
and a new connection is not made. Everything goes on when they are joined, as TCP does when the network is there again.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import struct
import sys
from collections.abc import Coroutine, Sequence
from typing import Any, Literal

import msgspec

HOST = "127.0.0.1"
MAX_MESSAGE = 1 << 16
_CHUNK = 1 << 18
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
    """`aim` at nodes, `part` these from all others, `join` all, or register `names`.

    `apart` are the nodes that are aimed at, `one_way` if only what they send crosses not.
    """

    do: Literal["aim", "part", "join", "names"]
    apart: tuple[int, ...] = ()
    one_way: bool = False
    names: tuple[Named, ...] = ()


class Withheld(msgspec.Struct):
    """What did not cross while nodes were parted: bytes, ends of connections, and new connections."""

    bytes: int = 0
    ends: int = 0
    connections: int = 0

    def __str__(self) -> str:
        return f"{self.bytes} bytes, {self.ends} ends of connections and {self.connections} new connections had to wait"


class NodesProxy:
    """Listens for each route, and passes on what comes, while its nodes are not parted."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._open = {(route.node, route.to): asyncio.Event() for route in routes}
        self._open |= {(to, node): asyncio.Event() for node, to in list(self._open)}
        self._withheld = Withheld()
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
            return (await self._register(command.names)).encode() or b"\n"
        if command.do == "join":
            return msgspec.json.encode(self._join())
        if command.do == "aim":
            self._aimed, self._withheld = command, Withheld()
        else:
            for (node, to), way in self._open.items():
                leaves, enters = node in self._aimed.apart, to in self._aimed.apart
                if leaves != enters and (leaves or not self._aimed.one_way):
                    way.clear()
        return b"{}"

    def _join(self) -> Withheld:
        """Let everything cross; return what has waited since these nodes were aimed at."""
        for way in self._open.values():
            way.set()
        return self._withheld

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
            taken, _ = await loop.sock_accept(listening)
            self._begin(self._connect(route, taken))

    async def _connect(self, route: Route, taken: socket.socket) -> None:
        """Connect to the other node, once packets cross in both directions."""
        there, back = self._open[route.node, route.to], self._open[route.to, route.node]
        if not (there.is_set() and back.is_set()):
            self._withheld.connections += 1
        await there.wait()
        await back.wait()
        made = socket.socket()
        made.setblocking(False)
        try:
            for end in (taken, made):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().sock_connect(made, (HOST, route.port))
            async with asyncio.TaskGroup() as both:  # if one fails, neither waits for a socket that is closed
                both.create_task(self._pass_on(taken, made, there))
                both.create_task(self._pass_on(made, taken, back))
        except* OSError:  # one end was reset, or nothing listens: so is the other
            for end in (taken, made):
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        finally:
            taken.close()
            made.close()

    async def _pass_on(self, source: socket.socket, target: socket.socket, way: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                data = await loop.sock_recv(source, _CHUNK)
            except OSError:
                await self._crosses(way, 0)
                raise
            await self._crosses(way, len(data))
            if not data:
                target.shutdown(socket.SHUT_WR)
                return
            await loop.sock_sendall(target, data)

    async def _crosses(self, way: asyncio.Event, size: int) -> None:
        if not way.is_set():
            self._withheld.bytes += size
            self._withheld.ends += not size
            await way.wait()

    async def _register(self, names: Sequence[Named]) -> str:
        """Put nodes into name services in place of those of before; return what went wrong."""
        for writer in self._registered:
            writer.close()
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
