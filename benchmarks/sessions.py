"""Our session and recorder beside a bare client of the same protocol, on the bundled broker.

A bare client is what a user of the field's library would write: as many sends as the window allows, a count of the
answers, and nothing of what a history needs. The bundled broker confirms in order, and so they count.
"""

from __future__ import annotations

import pathlib
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import paho.mqtt.client
import pika
import stomp
from paho.mqtt.enums import CallbackAPIVersion
from proton import Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

from conformance import adapters
from conformance.adapters.ports import HOST
from conformance.clients.job import Connection, Job, Work
from conformance.clients.roles.play import run_job
from conformance.history import bare_header, make_body, message_id
from conformance.ledger import Ledger
from conformance.scenario.script import Consume, Publish

MESSAGES = 20_000
WINDOW = 1_000
ROUNDS = 5
SIZE = 256
TARGET = 0.85
"""The least that our rate should be of the bare client's."""

_PATIENCE_S = 60.0


def session() -> Iterator[str]:
    """Messages a second with a window of 1,000, over each protocol, which has a queue of its name."""
    reference = adapters.find("reference")
    settings = reference.effective({"sync_non_transactional": False})
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with (
            Ledger(folder, "bench-session") as ledger,
            reference.prepare(folder / "broker", settings, list(BARE), ledger) as broker,
        ):
            broker.start()
            for protocol, bare in BARE.items():
                _, port = broker.service.endpoint(protocol)
                drain(protocol, port, protocol)  # over MQTT a session is the queue, and begins so
                taken = [(bare(port, protocol), _ours(protocol, port)) for _ in range(ROUNDS)]
                yield _line(protocol, *(statistics.median(side) for side in zip(*taken, strict=True)))


def _line(protocol: str, bare_s: float, ours_s: float) -> str:
    return (
        f"session: over {protocol} {MESSAGES / ours_s:,.0f} msg/s with recorder, {MESSAGES / bare_s:,.0f} bare, "
        f"ratio {bare_s / ours_s:.2f} (medians of {ROUNDS} x {MESSAGES:,}, window {WINDOW:,}; target {TARGET})"
    )


def _ours(protocol: str, port: int) -> float:
    began = time.perf_counter()
    publish(protocol, port, protocol, MESSAGES, WINDOW, SIZE)
    return time.perf_counter() - began


def publish(protocol: str, port: int, queue: str, count: int, window: int, size: int) -> None:
    """Send persistent messages with the suite's session and recorder, until all are confirmed.

    Raises `RuntimeError` if one was not.
    """
    confirmed = _play(Publish(count, window=window, size=size), protocol, port, queue)
    if confirmed != count:
        raise RuntimeError(f"over {protocol} {confirmed} of {count} sends were confirmed")


def drain(protocol: str, port: int, queue: str) -> None:
    """Receive and acknowledge everything with the suite's session, until silence."""
    _play(Consume("auto", prefetch=1000, until_silent=True), protocol, port, queue)


def _play(step: Publish | Consume, protocol: str, port: int, queue: str) -> int:
    """Return how many sends were confirmed, or messages processed."""
    with tempfile.TemporaryDirectory(prefix="conformance-bench-") as folder:
        job = Job(
            connection=Connection(addresses=((HOST, port),), protocol=protocol),
            work=Work(step=step, queue=queue, producer=1),
            header=bare_header("bench"),
            history=str(pathlib.Path(folder) / "history.jsonl"),
            epoch=1,
        )
        result = run_job(job, ())
    if result.error:
        raise RuntimeError(f"over {protocol}: {result.error}")
    return result.count


def _bodies() -> Iterator[tuple[str, bytes]]:
    """Yield the id and the body of each message."""
    for number in range(1, MESSAGES + 1):
        name = message_id(99, number)
        yield name, make_body(name, SIZE)


class _Count:
    """Answers and the sends that they let go on. `send` is called with each message, in the thread of the client."""

    def __init__(self, send: Callable[[str, bytes], Any]) -> None:
        self._send, self._left = send, _bodies()
        self._sent = self._answered = 0
        self._all = threading.Event()

    def answer(self, up_to: int = 0) -> None:
        """Count one answer, or all `up_to` a number, and send what the window allows."""
        self._answered = up_to or self._answered + 1
        self.fill()
        if self._answered == MESSAGES:
            self._all.set()

    def fill(self, credit: int = WINDOW) -> None:
        for _ in range(min(credit, WINDOW - (self._sent - self._answered), MESSAGES - self._sent)):
            self._sent += 1
            self._send(*next(self._left))

    @property
    def done(self) -> bool:
        return self._all.is_set()

    def wait(self) -> None:
        if not self._all.wait(_PATIENCE_S):
            raise RuntimeError(f"a bare client got {self._answered} answers of {MESSAGES}")


class _Proton(MessagingHandler):
    """AMQP 1.0, by python-qpid-proton."""

    def __init__(self, url: str, queue: str) -> None:
        super().__init__()
        self._url, self._queue = url, queue
        self._count = _Count(lambda name, body: self._sender.send(Message(body=body, id=name, durable=True)))

    def on_start(self, event: Any) -> None:
        connection = event.container.connect(self._url, reconnect=False, allowed_mechs="ANONYMOUS")
        self._sender = event.container.create_sender(connection, self._queue)

    def on_sendable(self, event: Any) -> None:
        self._count.fill(self._sender.credit)

    def on_accepted(self, event: Any) -> None:
        self._count.answer()
        if self._count.done:
            event.connection.close()


def _proton(port: int, queue: str) -> float:
    container = Container(_Proton(f"amqp://{HOST}:{port}", queue))
    began = time.perf_counter()
    container.run()
    return time.perf_counter() - began


class _Receipts(stomp.ConnectionListener):  # type: ignore[misc]  # it has no types
    def __init__(self, count: _Count) -> None:
        self._count = count

    def on_receipt(self, frame: Any) -> None:
        self._count.answer()


def _stomp(port: int, queue: str) -> float:
    """STOMP 1.2, by stomp.py: a RECEIPT for each SEND."""
    connection = stomp.Connection12([(HOST, port)])
    count = _Count(lambda name, body: connection.send(queue, body, receipt=name, persistent="true", id=name))
    connection.set_listener("", _Receipts(count))
    began = time.perf_counter()
    connection.connect(wait=True)
    count.fill()
    count.wait()
    taken = time.perf_counter() - began
    connection.disconnect()
    return taken


def _pika(port: int, queue: str) -> float:
    """AMQP 0-9-1, by pika's asynchronous client with publisher confirms."""
    count: _Count | None = None

    def opened(channel: Any) -> None:
        nonlocal count

        def send(name: str, body: bytes) -> None:
            channel.basic_publish("", queue, body, pika.BasicProperties(message_id=name, delivery_mode=2))

        def answered(frame: Any) -> None:
            assert count is not None
            count.answer(up_to=frame.method.delivery_tag)
            if count.done:
                connection.close()

        count = _Count(send)
        channel.confirm_delivery(answered, callback=lambda _: count.fill() if count else None)

    def ended(one: Any, _: Any) -> None:
        one.ioloop.stop()

    began = time.perf_counter()
    connection = pika.SelectConnection(
        pika.ConnectionParameters(HOST, port),
        on_open_callback=lambda one: one.channel(on_open_callback=opened),
        on_open_error_callback=ended,
        on_close_callback=ended,
    )
    connection.ioloop.start()
    if count is None or not count.done:
        raise RuntimeError("the connection of pika ended before the last answer")
    return time.perf_counter() - began


def _paho(port: int, queue: str) -> float:
    """MQTT 5 with QoS 1, by paho-mqtt, whose loop has a thread of its own."""
    client = paho.mqtt.client.Client(CallbackAPIVersion.VERSION2, protocol=paho.mqtt.client.MQTTv5)
    client.max_inflight_messages_set(WINDOW)
    count = _Count(lambda _, body: client.publish(queue, body, qos=1))
    client.on_connect = lambda *_: count.fill()
    client.on_publish = lambda *_: count.answer()
    began = time.perf_counter()
    client.connect(HOST, port)
    client.loop_start()
    count.wait()
    taken = time.perf_counter() - began
    client.disconnect()
    client.loop_stop()
    return taken


BARE: Mapping[str, Callable[[int, str], float]] = {
    "amqp": _proton,
    "stomp": _stomp,
    "amqp091": _pika,
    "mqtt": _paho,
}
"""The seconds that a bare client needs for `MESSAGES` answered sends to a queue, by protocol."""
