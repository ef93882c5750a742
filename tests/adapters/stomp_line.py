"""Just enough STOMP to see that a message is kept."""

from __future__ import annotations

import socket

from conformance.adapters import Broker


class Stomp:
    """A connection to a broker, without a session of the suite."""

    def __init__(self, broker: Broker, connect: str = "") -> None:
        self._socket = socket.create_connection(broker.service.endpoint("stomp"), timeout=30)
        self._stream = self._socket.makefile("rwb")
        self.ask(f"CONNECT\naccept-version:1.2\nhost:localhost\n{connect}\n")

    def ask(self, frame: str) -> str:
        self._stream.write(frame.encode() + b"\0")
        self._stream.flush()
        answer = bytearray()
        while (byte := self._stream.read(1)) not in (b"\0", b""):
            answer += byte
        return answer.decode().lstrip()

    def close(self) -> None:
        self._stream.close()
        self._socket.close()
