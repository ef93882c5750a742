"""One AMQP connection, and the depth of a queue: over HTTP, and by AMQP management messages."""

import http.server
import json
import socket
import threading

import msgspec
import pytest
from proton import Condition, Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

from conformance import limits
from conformance.adapters import DepthProbe
from conformance.clients.management import DepthClient
from conformance.clients.session import Refused
from conformance.errors import ClientError
from conformance.protocols.amqp.sessions.connection import AmqpClientConnection

_IDLE_S = 1.5


class Peer(MessagingHandler):
    """Listens on a free port, for one connection."""

    def __init__(self):
        super().__init__()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.ready = threading.Event()

    def on_start(self, event):
        self.listener = event.container.listen(f"127.0.0.1:{self.port}")
        self.ready.set()

    def on_connection_closed(self, event):
        self.listener.close()

    on_disconnected = on_connection_closed


class Manager(Peer):
    """Answers each request to `management` with the next of `bodies`, or closes the link on it."""

    def __init__(self, *bodies, refuses=None):
        super().__init__()
        self.bodies, self.refuses = list(bodies), refuses
        self.replies, self.asked, self.connections = {}, [], 0

    @property
    def probe(self):
        return DepthProbe(
            "amqp-management", address="management", properties={"op": "count"}, host="127.0.0.1", port=self.port
        )

    def on_connection_opening(self, event):
        self.connections += 1

    def on_link_opening(self, event):
        link = event.link
        if link.is_sender:
            link.source.address = "replies"
            self.replies["replies"] = link
        else:
            self.address = link.remote_target.address
            link.target.address = self.address

    def on_message(self, event):
        if self.refuses:
            event.link.condition = self.refuses
            event.link.close()
            return
        self.asked.append(dict(event.message.properties))
        self.replies[event.message.reply_to].send(Message(body=self.bodies.pop(0)))


class Impatient(Peer):
    """Drops a client that is silent for its idle-timeout; it notes why a connection ended."""

    def __init__(self):
        super().__init__()
        self.ended, self.largest = [], []

    def on_connection_bound(self, event):
        event.transport.idle_timeout = _IDLE_S

    def on_connection_opened(self, event):
        self.largest.append(event.transport.remote_max_frame_size)

    def on_transport_error(self, event):
        self.ended.append(event.transport.condition.description)


@pytest.fixture
def served():
    """Serves a peer; its thread ends when its one connection has ended."""
    threads = []

    def start(peer):
        threads.append(threading.Thread(target=Container(peer).run, daemon=True))
        threads[-1].start()
        assert peer.ready.wait(10)
        return peer

    yield start
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture
def connected(served):
    """An impatient peer, and a connection to it."""
    peer = served(Impatient())
    return peer, AmqpClientConnection("127.0.0.1", peer.port, "x", on_delivery=lambda link, delivery: None)


def test_a_silent_client_keeps_its_connection(connected):
    """It sends empty frames for twice the idle-timeout of its peer (AMQP 1.0, 2.4.5)."""
    peer, connection = connected
    connection.pump_until(lambda: bool(peer.ended), 2 * _IDLE_S)  # raises if the peer closes the connection
    before = list(peer.ended)
    connection.close()

    assert ([], []) == (before, peer.ended)


def test_a_client_says_how_large_a_frame_may_be(connected):
    """Section 2.7.1: without max-frame-size in its open a peer may send frames of 4 GiB."""
    peer, connection = connected
    connection.pump_until(lambda: bool(peer.largest), 10)
    connection.close()

    assert [limits.AMQP_FRAME] == peer.largest


def test_management_messages_answer_a_list_or_a_number(served):
    """Each question is a new request over one connection; a second close does nothing."""
    made = served(Manager(json.dumps([3]), json.dumps(0)))
    ask_depth = DepthClient(made.probe, "x-depth")

    depths = [ask_depth.ask("q1"), ask_depth.ask("q1")]
    ask_depth.close()
    ask_depth.close()

    assert ([3, 0], 1) == (depths, made.connections)
    assert ("management", [{"op": "count"}] * 2) == (made.address, made.asked)


def test_management_messages_answer_a_map_by_its_field(served):
    """ActiveMQ Classic sends the statistics of a queue."""
    probe = served(Manager({"size": 7, "memoryUsage": 0}, {"memoryUsage": 0})).probe
    ask_depth = DepthClient(msgspec.structs.replace(probe, field="size"), "x-depth")

    depth = ask_depth.ask("q1")
    with pytest.raises(ClientError, match=r"\[depth\] management answers no size: \['memoryUsage'\]"):
        ask_depth.ask("q1")
    ask_depth.close()

    assert 7 == depth


def test_the_text_of_an_answer_is_what_its_list_holds(served):
    """Artemis sends a list; what is no such list is the answer itself, and its reader decides."""
    bodies = ['["{\\"a\\": 1}"]', '{"a": 1}', "AMQ229069: no operation", "[]", "[", {"a": 1}, 7]
    client = DepthClient(served(Manager(*bodies)).probe, "x-text")

    texts = [client.text() for _ in bodies]
    client.close()

    assert ['{"a": 1}', '{"a": 1}', "AMQ229069: no operation", "[]", "[", '{"a": 1}', "7"] == texts


def test_an_unused_gauge_does_not_connect():
    """The port of its probe is closed."""
    DepthClient(DepthProbe("amqp-management", host="127.0.0.1", port=1), "x").close()


@pytest.mark.parametrize(("field", "expected"), [("messages", 7), ("messages+of.them", 9)])
def test_http_answers_by_the_field_of_its_document(field, expected):
    """One GET each time; of several fields the sum."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"name": "q1", "messages": 7, "of": {"them": 2}}')

        def log_message(self, *args):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        ask_depth = DepthClient(DepthProbe("http", f"http://127.0.0.1:{server.server_port}/q1", field), "x")
        depth = ask_depth.ask("q1")
        ask_depth.close()
        server.shutdown()
        thread.join()

    assert expected == depth


@pytest.mark.process
def test_a_command_answers_by_the_group_of_its_pattern():
    probe = DepthProbe("command", command=("echo", "queue  q1\nmessages  7"), pattern=r"messages\s+(\d+)")

    assert DepthClient(probe, "x").ask("q1") == 7


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("echo", "none"), "status 0: none"),
        (("sh", "-c", "echo messages 7; echo no such queue >&2; exit 3"), "status 3: messages 7 no such queue"),
        (("no-such-command-of-mine",), "gives no answer"),
    ],
)
def test_a_command_without_a_number_is_an_error(command, words):
    with pytest.raises(ClientError, match=words):
        DepthClient(DepthProbe("command", command=command, pattern=r"messages\s+(\d+)"), "x").ask("q1")


def test_no_probe_no_depth():
    """The error says that the adapter declares no way."""
    with pytest.raises(ClientError, match="the adapter declares no way to ask for the depth of q1"):
        DepthClient(None, "x").ask("q1")


def test_a_refused_link_raises_the_brokers_error(served):
    """The broker closes the link instead of an answer; the caller still closes the connection in order."""
    ask_depth = DepthClient(served(Manager(refuses=Condition("amqp:unauthorized-access", "not you"))).probe, "x")

    with pytest.raises(Refused, match=r"the broker closed a sender: .*not you"):
        ask_depth.ask("q1")
    ask_depth.close()


def test_no_connection_for_management():
    """The error has the address."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    with pytest.raises(ClientError, match=f"no connection to 127.0.0.1:{port}"):
        DepthClient(DepthProbe("amqp-management", host="127.0.0.1", port=port), "x").ask("q1")
