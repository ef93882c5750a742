"""One AMQP connection: empty frames while it is idle, and its limit for frames."""

import socket
import threading

import pytest
from proton.handlers import MessagingHandler
from proton.reactor import Container

from conformance import limits
from conformance.clients.amqp.connection import AmqpClientConnection

_IDLE_S = 1.5


class Impatient(MessagingHandler):
    """A peer that drops a client that is silent for its idle-timeout; it notes why a connection ended."""

    def __init__(self, port):
        super().__init__()
        self.port = port
        self.ended, self.largest = [], []
        self.ready = threading.Event()

    def on_start(self, event):
        self.listener = event.container.listen(f"127.0.0.1:{self.port}")
        self.ready.set()

    def on_connection_bound(self, event):
        event.transport.idle_timeout = _IDLE_S

    def on_connection_opened(self, event):
        self.largest.append(event.transport.remote_max_frame_size)

    def on_transport_error(self, event):
        self.ended.append(event.transport.condition.description)

    def on_connection_closed(self, event):
        self.listener.close()

    on_disconnected = on_connection_closed


def ignore(link, delivery):
    pass


@pytest.fixture
def peer():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    made = Impatient(port)
    thread = threading.Thread(target=Container(made).run, daemon=True)
    thread.start()
    assert made.ready.wait(10)
    yield made
    thread.join(20)
    assert not thread.is_alive()


def test_a_silent_client_keeps_its_connection(peer):
    """It sends empty frames for twice the idle-timeout of its peer (AMQP 1.0, 2.4.5)."""
    connection = AmqpClientConnection("127.0.0.1", peer.port, "silent", on_delivery=ignore)
    connection.pump_until(lambda: bool(peer.ended), 2 * _IDLE_S)  # raises if the peer closes the connection
    before = list(peer.ended)
    connection.close()

    assert ([], []) == (before, peer.ended)


def test_a_client_says_how_large_a_frame_may_be(peer):
    """Section 2.7.1: without max-frame-size in its open a peer may send frames of 4 GiB."""
    connection = AmqpClientConnection("127.0.0.1", peer.port, "bounded", on_delivery=ignore)
    connection.pump_until(lambda: bool(peer.largest), 10)
    connection.close()

    assert [limits.AMQP_FRAME] == peer.largest
