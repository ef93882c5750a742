"""Whether a broker answers in its own protocol.

An open port is no proof where the engine publishes it: its proxy takes connections before the broker listens, and
closes them again.
"""

from __future__ import annotations

import socket

_ASKED = {
    "amqp": (b"AMQP\x03\x01\x00\x00", (b"AMQP",)),  # AMQP 1.0 section 5.3.1; the answer is a header, whichever
    "stomp": (b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0", (b"CONNECTED", b"ERROR")),
    "http": (b"GET / HTTP/1.0\r\n\r\n", (b"HTTP/",)),
}
KNOWN = tuple(_ASKED)
"""The protocols that can be asked."""


def answers(protocol: str, host: str, port: int, timeout_s: float = 1.0) -> bool:
    """Whether what listens at `port` begins an answer in `protocol` within `timeout_s` of each of its bytes."""
    question, beginnings = _ASKED[protocol]
    said = b""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as line:
            line.sendall(question)
            while any(beginning.startswith(said) for beginning in beginnings):
                more = line.recv(64)
                if not more:
                    return False
                said = (said + more).lstrip(b"\n") if protocol == "stomp" else said + more
                if said.startswith(beginnings):
                    return True
    except OSError:
        return False
    return False
