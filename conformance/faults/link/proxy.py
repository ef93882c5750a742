"""The process between a client and a broker: `python -m conformance.faults.link.proxy DESCRIPTOR`.

The descriptor is a control socket. The harness writes a `ProxyConfig`, and this process answers with its port. Any
further message cuts every connection. When the harness hangs up, or at SIGTERM, it closes every connection, writes a
`ProxyResult` and ends. So it never outlives the harness.
"""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import resource
import signal
import socket
import sys
from typing import Any

import msgspec

from conformance.faults.link.connection import ArmedLinkFault, ProxyConfig, ProxyConnection
from conformance.history import Recorder

HOST = "127.0.0.1"
_MAX_MESSAGE = 1 << 17
_BACKLOG = 512
_ENDING_S = 5.0


class Proxy:
    """Listens, and connects each client to the broker."""

    def __init__(self, config: ProxyConfig, recorder: Recorder) -> None:
        self._config = config
        self.armed = ArmedLinkFault(config.fault, recorder, config.epoch)
        self._connections: set[ProxyConnection] = set()
        self._listening = socket.create_server((HOST, 0), backlog=_BACKLOG)
        self._listening.setblocking(False)
        self.port: int = self._listening.getsockname()[1]
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, control: socket.socket) -> None:
        """Pass data until the harness hangs up, or SIGTERM.

        Raises:
            Exception: The error of a callback: after an error the proxy cannot be trusted.
        """
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._failed)
        loop.add_signal_handler(signal.SIGTERM, self._stop)
        loop.add_reader(control, self._hear, control)
        loop.add_reader(self._listening, self._accept)
        control.send(str(self.port).encode())
        await self._over
        loop.remove_reader(control)
        loop.remove_reader(self._listening)
        self._listening.close()
        if self.armed.tasks:  # a reset, or a proof
            await asyncio.wait(self.armed.tasks, timeout=_ENDING_S)
        for connection in list(self._connections):
            connection.close()

    def _hear(self, control: socket.socket) -> None:
        said = b""
        with contextlib.suppress(ConnectionResetError):  # it died before it had read everything
            said = control.recv(_MAX_MESSAGE)
        if said:
            self.armed.start(self._cut(control))
        else:
            self._stop()

    async def _cut(self, control: socket.socket) -> None:
        """Cut every connection; answer with how many there were, and how many are gone."""
        gone = await asyncio.gather(*(each.cut() for each in list(self._connections)))
        control.send(f"{len(gone)} {sum(gone)}".encode())

    def _stop(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        loop.default_exception_handler(context)
        if not self._over.done():
            self._over.set_exception(context.get("exception") or RuntimeError(context["message"]))

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            client, _ = self._listening.accept()
            self.armed.start(self._connect(client))

    async def _connect(self, client: socket.socket) -> None:
        broker = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        for end in (client, broker):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await asyncio.get_running_loop().sock_connect(broker, (self._config.host, self._config.port))
            number = self.armed.result.connections + 1
            self.armed.add(connections=number)
            self._connections.add(
                ProxyConnection(number, client, broker, self._config.protocol, self.armed, self._connections.discard)
            )
        except OSError:
            self.armed.add(refused=self.armed.result.refused + 1)
            client.close()
            broker.close()


async def _play(control: socket.socket, config: ProxyConfig) -> bytes:
    recorder = Recorder(pathlib.Path(config.history), config.header)
    try:
        proxy = Proxy(config, recorder)
        await proxy.run(control)
        return msgspec.json.encode(proxy.armed.result)
    finally:
        recorder.close()


def main(descriptor: int) -> None:
    """Serve one harness, and send it the result if it is still there."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with socket.socket(fileno=descriptor) as control:
        data = control.recv(_MAX_MESSAGE)
        if not data:
            return
        last = asyncio.run(_play(control, msgspec.json.decode(data, type=ProxyConfig)))
        with contextlib.suppress(BrokenPipeError):
            control.send(last)


if __name__ == "__main__":
    main(int(sys.argv[1]))
