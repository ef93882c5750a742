"""What is in the queues, over HTTP/1.1: just enough of it for any client to ask. Bytes in, bytes out.

| GET | answers |
|---|---|
| `/` | the whole broker: how many queues, messages, and what its surroundings know |
| `/queues?limit=N&offset=K` | names of queues, in the order of their declaration |
| `/queues/NAME` | depth, what of it is unacknowledged, and what has happened since the start |
| `/queues/NAME/messages?limit=N&offset=K` | messages, in order |

DELETE `/queues/NAME` removes a queue with all that is in it, and is answered before that is on the disk (202). A broker
that asks its clients for a login refuses it, because this port asks for none.

A list has at most N entries after the first K; N is 1000 unless it is asked for less. One of messages ends early where
they have more than 8 MiB, because the broker hashes all of it before it serves other clients. It answers one request at
a time, and serves the other ports between two.

A name is one segment of the path, so that its own slashes, spaces and percent signs are percent-encoded as UTF-8. For a
name with plain slashes the whole rest of the path is tried first: `/queues/a/messages` is the queue `a/messages` where
there is one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from urllib.parse import parse_qs, unquote_to_bytes

from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.core.queues import Message, Queue
from conformance.reference.core.settlement import SettlementEvent, State

_LIMIT = 16 * 1024
_MOST = 1000
_MOST_HASHED = 8 * 1024 * 1024
_END = b"\r\n\r\n"
_MESSAGES = "/messages"

_COUNTS: dict[str, tuple[SettlementEvent, ...]] = {
    "enqueued": (SettlementEvent.STORED, SettlementEvent.MOVED),
    "acknowledged": (SettlementEvent.ACCEPTED, SettlementEvent.SENT_SETTLED),
    "dead_lettered": (SettlementEvent.REJECTED, SettlementEvent.EXHAUSTED),
    "discarded": (SettlementEvent.DISCARDED,),
    "expired": (SettlementEvent.EXPIRED, SettlementEvent.DIVERTED),
}
"""What is shown of a queue's events: those that came into it by either way, and those that left it by each."""

_NO_QUEUE = ("404 Not Found", {"error": "no such queue"})
_HELD = frozenset({State.ACQUIRED, State.COMMITTING})


class _BadQueryError(Exception):
    """A parameter that is no number, or unknown."""


class DepthConnection:
    """One connection: `answer` gives the answer to the next request of those that have come, while one is `complete`.

    `closed` says whether the socket is to be closed after what was answered. With `may_delete` queues can be removed.
    """

    def __init__(self, broker: ReferenceBroker, *, may_delete: bool = False) -> None:
        self._broker, self._may_delete = broker, may_delete
        self._buffer = b""
        self.closed = False

    def receive(self, data: bytes) -> None:
        """Bytes from the peer; a request that is too long closes the connection."""
        self._buffer += data
        if not self.complete and len(self._buffer) > _LIMIT:
            self.closed = True

    @property
    def complete(self) -> bool:
        return not self.closed and _END in self._buffer

    def answer(self) -> bytes:
        head, _, self._buffer = self._buffer.partition(_END)
        answer = self._answer(head.decode("latin-1"))
        self.closed = self.closed or (_END not in self._buffer and len(self._buffer) > _LIMIT)
        return answer

    def _answer(self, head: str) -> bytes:
        line, *headers = head.split("\r\n")
        method, path, version = (*line.split(" "), "", "", "")[:3]
        fields = {name.strip().lower(): value.strip().lower() for name, _, value in (h.partition(":") for h in headers)}
        self.closed = fields.get("connection") == "close" or version != "HTTP/1.1" or "content-length" in fields
        if method == "DELETE" and self._may_delete:
            status, body = self._delete(path)
        elif method == "GET":
            status, body = self._look(path)
        else:
            status, body = "405 Method Not Allowed", {"error": "only GET"}
        text = json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(text)}"]
        if self.closed:
            lines.append("Connection: close")
        return "\r\n".join([*lines, "", ""]).encode() + text

    def _delete(self, path: str) -> tuple[str, object]:
        queue = self._queue(path.removeprefix("/queues/")) if path.startswith("/queues/") else None
        if queue is None:
            return _NO_QUEUE
        self._broker.delete(queue)
        return "202 Accepted", {"deleted": queue.name}

    def _look(self, target: str) -> tuple[str, object]:
        path, _, query = target.partition("?")
        if path == "/":
            return "200 OK", self._overall()
        try:
            if path.rstrip("/") == "/queues":
                return "200 OK", {"queues": list(islice(self._broker.names(), *_page(query)))}
            found = self._found(path, query)
        except _BadQueryError as error:
            return "400 Bad Request", {"error": str(error)}
        return _NO_QUEUE if found is None else ("200 OK", found)

    def _found(self, path: str, query: str) -> object | None:
        if not path.startswith("/queues/"):
            return None
        name = path.removeprefix("/queues/")
        queue = self._queue(name)
        if queue is not None:
            return _shown(queue)
        queue = self._queue(name.removesuffix(_MESSAGES)) if name.endswith(_MESSAGES) else None
        if queue is None:
            return None
        return {"depth": queue.depth, "messages": [*_listed(islice(self._broker.browse(queue), *_page(query)))]}

    def _queue(self, encoded: str) -> Queue | None:
        try:
            return self._broker.known(unquote_to_bytes(encoded.encode("latin-1")).decode())
        except UnicodeDecodeError:
            return None

    def _overall(self) -> dict[str, int]:
        queues = [queue for name in self._broker.names() if (queue := self._broker.known(name)) is not None]
        return {
            "queues": len(queues),
            "depth": sum(queue.depth for queue in queues),
            "unacknowledged": sum(queue.unacknowledged for queue in queues),
            "consumers": sum(queue.consumers for queue in queues),
            **self._broker.surroundings(),
        }


def _shown(queue: Queue) -> dict[str, int | bool]:
    return {
        "depth": queue.depth,
        "unacknowledged": queue.unacknowledged,
        "durable": queue.durable,
        "consumers": queue.consumers,
        **{name: sum(queue.counts[event] for event in events) for name, events in _COUNTS.items()},
        "refused": queue.refused,
        "duplicates": queue.duplicates,
        "next_number": queue.next_number,
        "bytes": queue.bytes,
    }


def _listed(messages: Iterator[Message]) -> Iterator[dict[str, int | bool | str]]:
    from hashlib import sha256  # costs a start 3 ms, and few ever look

    left = _MOST_HASHED
    for message in messages:
        left -= len(message.bare)
        yield {
            "id": message.id,
            "number": message.number,
            "durable": message.durable,
            "delivery_count": message.failures,
            "redelivered": message.acquired,
            "expires_ms": message.expires_ms,
            "bytes": len(message.bare),
            "sha256": sha256(message.bare).hexdigest(),
            "acquired": message.state in _HELD,
        }
        if left < 0:
            return


def _page(query: str) -> tuple[int, int]:
    """From where to where, counted from 0."""
    page = {"limit": _MOST, "offset": 0}
    for name, values in parse_qs(query, keep_blank_values=True).items():
        if name not in page or not re.fullmatch(r"[0-9]{1,15}", values[-1]):
            raise _BadQueryError(f"{name[:40]}: limit and offset are whole numbers, and nothing else can be asked")
        page[name] = int(values[-1])
    return page["offset"], page["offset"] + min(page["limit"], _MOST)
