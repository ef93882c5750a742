"""AMQP 0-9-1 over real sockets, with pika's own connection as the client: restarts, other protocols, logins, TLS."""

from __future__ import annotations

import contextlib
import socket

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, ProbableAuthenticationError, UnroutableError
from proton import Message

from .amqp091_rig import HEADER

PATIENCE = 20
PERSISTENT = pika.BasicProperties(delivery_mode=2, headers={"colour": "red"})


def closed(connection):
    """Its broker may have ended before."""
    with contextlib.suppress(pika.exceptions.AMQPError):
        connection.close()


@pytest.fixture
def connect():
    """Connects pika's clients; each connection ends with the test."""
    with contextlib.ExitStack() as opened:

        def one(running, port="amqp091", **options):
            parameters = pika.ConnectionParameters(
                "127.0.0.1", running.port(port), blocked_connection_timeout=PATIENCE, socket_timeout=PATIENCE, **options
            )
            connection = pika.BlockingConnection(parameters)
            opened.callback(closed, connection)
            return connection.channel()

        yield one


@pytest.fixture
def running(start):
    return start("--amqp091-port=0")


def published(channel, count, queue="q"):
    channel.confirm_delivery()
    for number in range(1, count + 1):
        channel.basic_publish("", queue, b"%d" % number, PERSISTENT, mandatory=True)


def drained(channel, queue="q"):
    """The bodies of the queue, each acknowledged."""
    found = []
    while True:
        method, _, body = channel.basic_get(queue)
        if method is None:
            return found
        found.append(int(body))
        channel.basic_ack(method.delivery_tag)


@pytest.mark.process
def test_confirmed_messages_and_acknowledgements_survive_a_kill(start, connect):
    """An acknowledgement is stored when the commit of its transaction is answered."""
    running = start("--amqp091-port=0")
    published(connect(running), 10)
    consumer = connect(running)
    consumer.tx_select()
    taken = [consumer.basic_get("q")[0] for _ in range(6)]
    consumer.basic_ack(taken[2].delivery_tag, multiple=True)
    consumer.basic_nack(taken[3].delivery_tag, requeue=False)
    consumer.tx_commit()
    running.kill()
    again = start("--amqp091-port=0")

    assert again.depth("DLQ") == 1
    assert drained(connect(again)) == [5, 6, 7, 8, 9, 10]


@pytest.mark.process
def test_a_large_message_comes_in_frames(running, connect):
    channel = connect(running)
    channel.confirm_delivery()
    body = bytes(range(256)) * 20_000
    channel.basic_publish("", "q", body, PERSISTENT)

    assert channel.basic_get("q", auto_ack=True)[2] == body


@pytest.mark.process
def test_errors_as_pika_sees_them(running, connect):
    """The connection stays open after an error of a channel."""
    channel = connect(running)
    channel.confirm_delivery()
    with pytest.raises(UnroutableError):
        channel.basic_publish("", "missing", b"1", mandatory=True)
    with pytest.raises(ChannelClosedByBroker, match="404"):
        channel.queue_declare("missing", passive=True)
    other = channel.connection.channel()
    other.basic_ack(7)
    with pytest.raises(ChannelClosedByBroker, match="unknown delivery-tag 7"):
        other.tx_select()
    published(channel.connection.channel(), 1)

    assert running.depth() == 1


@pytest.mark.process
def test_one_queue_for_all_protocols(running, connect, peer):
    """A message of AMQP 1.0 is consumed over AMQP 0-9-1, and one of AMQP 0-9-1 over AMQP 1.0."""
    client = peer(running)
    sent = client.sender().send(Message(body=b"5", durable=True, id="i"))
    client.wait(lambda: sent.settled)
    channel = connect(running)
    _, properties, body = channel.basic_get("q", auto_ack=True)
    assert (properties.message_id, properties.delivery_mode, body) == ("i", 2, b"5")
    published(channel, 1)
    ((message, _),) = client.receive(1).got

    assert (bytes(message.body), message.durable, message.properties) == (b"1", True, {"colour": "red"})


@pytest.mark.process
def test_a_login(start, connect, tmp_path):
    (tmp_path / "password").write_text("secret\n")
    running = start("--amqp091-port=0", "--user=alice", f"--password-file={tmp_path / 'password'}")
    published(connect(running, credentials=pika.PlainCredentials("alice", "secret")), 1)
    assert running.depth() == 1

    with pytest.raises(ProbableAuthenticationError, match="ACCESS_REFUSED"):
        connect(running)


@pytest.mark.process
def test_a_connection_beyond_the_limit_gets_the_reason(start, connect):
    running = start("--amqp091-port=0", "--set=max_connections=1")
    connect(running)

    with pytest.raises(pika.exceptions.AMQPConnectionError, match="the broker has 1 connections"):
        connect(running)


@pytest.mark.process
def test_a_stop_says_why(running, connect):
    channel = connect(running)
    published(channel, 1)
    assert running.stop() == 0

    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="320"):
        channel.connection.process_data_events(PATIENCE)


@pytest.mark.process
def test_garbage_gets_the_header_of_the_protocol(running):
    with socket.create_connection(("127.0.0.1", running.port("amqp091")), PATIENCE) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert peer.recv(100) == HEADER
        assert peer.recv(100) == b""
