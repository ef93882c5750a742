"""The client that most Python programs use: proton's `Container` and `Message`, which cost some 50 us a message."""

from __future__ import annotations

from typing import Any

from proton import Message, symbol
from proton.handlers import MessagingHandler
from proton.reactor import Container, LinkOption

from benchmarks.broker_wire import PATIENCE_S, SIZE

_HOST = "127.0.0.1"


class _AQueue(LinkOption):
    """The capability that says that a queue is meant (what Artemis makes of an address without, is none)."""

    def apply(self, link: Any) -> None:
        link.target.capabilities.put_object(symbol("queue"))


class _Publisher(MessagingHandler):
    """Sends until `count` are accepted; `failure` says what else ended it."""

    def __init__(self, port: int, queue: str, count: int, window: int) -> None:
        super().__init__()
        self._port, self._queue, self._left, self._window = port, queue, count, window
        self._open = 0
        self.failure = ""

    def on_start(self, event: Any) -> None:
        self._connection = event.container.connect(f"{_HOST}:{self._port}", reconnect=False)
        event.container.create_sender(self._connection, self._queue, options=_AQueue())
        self._patience = event.container.schedule(PATIENCE_S, self)

    def on_sendable(self, event: Any) -> None:
        self._fill(event.sender)

    def on_accepted(self, event: Any) -> None:
        self._open -= 1
        if self._left:
            self._fill(event.sender)
        elif not self._open:
            self._connection.close()

    def on_rejected(self, event: Any) -> None:
        self._end(event, "a send was rejected")

    def on_released(self, event: Any) -> None:
        """Proton calls this for `modified` too."""
        self._end(event, "a send was given back")

    def on_transport_error(self, event: Any) -> None:
        self._end(event, str(event.transport.condition))

    def on_connection_error(self, event: Any) -> None:
        self._end(event, str(event.connection.remote_condition))

    def on_link_error(self, event: Any) -> None:
        self._end(event, str(event.link.remote_condition))

    def on_timer_task(self, event: Any) -> None:
        self._end(event, f"{self._left + self._open} sends had no answer after {PATIENCE_S:.0f} s")

    def on_transport_closed(self, event: Any) -> None:
        """Stop the container.

        Without the stop a container whose only timer was cancelled sleeps for pi seconds before it ends.
        """
        if self._left or self._open:
            self.failure = self.failure or "the peer closed the connection"
        self._patience.cancel()
        event.container.stop()

    def _fill(self, sender: Any) -> None:
        while self._left and self._open < self._window and sender.credit > 0:
            self._left -= 1
            self._open += 1
            sender.send(Message(body=b"x" * SIZE, durable=True))

    def _end(self, event: Any, why: str) -> None:
        self.failure = self.failure or why
        event.container.stop()


def publish(port: int, queue: str, count: int, window: int) -> None:
    """Send `count` persistent messages, at most `window` unanswered, until all are accepted.

    Raises `RuntimeError` if a message was not accepted, or the peer closed the connection.
    """
    publisher = _Publisher(port, queue, count, window)
    Container(publisher).run()
    if publisher.failure:
        raise RuntimeError(publisher.failure)
