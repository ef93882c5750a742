"""How deep the queues are, over HTTP/1.1: just enough of it for any client to ask. Bytes in, bytes out."""

from __future__ import annotations

import json
from urllib.parse import unquote

from conformance.reference.core.broker import Broker

_LIMIT = 16 * 1024


class Asked:
    """One connection: `receive` gives the answers to all requests that are complete, in order."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._buffer = b""
        self.closed = False

    def receive(self, data: bytes) -> bytes:
        """Bytes from the peer; bytes for it. `closed` says whether the socket is to be closed after them."""
        self._buffer += data
        answers = b""
        while not self.closed and b"\r\n\r\n" in self._buffer:
            head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
            answers += self._answer(head.decode("latin-1"))
        if len(self._buffer) > _LIMIT:
            self.closed = True
        return answers

    def _answer(self, head: str) -> bytes:
        line, *headers = head.split("\r\n")
        method, path, version = (*line.split(" "), "", "", "")[:3]
        fields = {name.strip().lower(): value.strip().lower() for name, _, value in (h.partition(":") for h in headers)}
        self.closed = fields.get("connection") == "close" or version != "HTTP/1.1" or "content-length" in fields
        status, body = self._look(path) if method == "GET" else ("405 Method Not Allowed", {"error": "only GET"})
        text = json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(text)}"]
        if self.closed:
            lines.append("Connection: close")
        return "\r\n".join([*lines, "", ""]).encode() + text

    def _look(self, path: str) -> tuple[str, object]:
        if path.rstrip("/") == "/queues":
            return "200 OK", {"queues": list(self._broker.names())}
        queue = self._broker.known(unquote(path.removeprefix("/queues/"))) if path.startswith("/queues/") else None
        if queue is None:
            return "404 Not Found", {"error": "no such queue"}
        return "200 OK", {"depth": queue.depth, "unacknowledged": queue.unacknowledged}
