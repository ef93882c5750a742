"""What users of proton do in its examples: each way of working, against the bundled broker.

Written anew in their style: `MessagingHandler` with one `Container`, or `BlockingConnection`.
"""

from __future__ import annotations

import concurrent.futures

import pytest
from blackbox.server import PATIENCE, Server
from proton import Message, Terminus
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container, Copy
from proton.utils import BlockingConnection, SyncRequestResponse


@pytest.fixture
def server(tmp_path):
    with Server(tmp_path / "data") as started:
        yield started


class Timed(MessagingHandler):
    """Ends with an error instead of waiting for ever; keeps what a link or a connection is closed with."""

    def __init__(self, url, **words):
        super().__init__(**words)
        self.url = url
        self.errors = []

    def on_start(self, event):
        self.connection = event.container.connect(self.url, reconnect=False)
        self.timer = event.container.schedule(PATIENCE, self)
        self.begin(event)

    def on_timer_task(self, event):
        self.errors.append("time is up")
        event.container.stop()

    def on_link_error(self, event):
        self.errors.append(str(event.link.remote_condition))
        self.done()

    def done(self):
        self.timer.cancel()
        self.connection.close()

    def play(self):
        Container(self).run()
        assert self.errors == []
        return self


class HelloWorld(Timed):
    """helloworld: a receiver and a sender on one connection."""

    def begin(self, event):
        event.container.create_receiver(self.connection, "examples")
        event.container.create_sender(self.connection, "examples")

    def on_sendable(self, event):
        event.sender.send(Message(body="Hello World!"))
        event.sender.close()

    def on_message(self, event):
        self.said = event.message.body
        self.done()


def test_hello_world(server):
    assert HelloWorld(server.url).play().said == "Hello World!"


class SimpleSend(Timed):
    """simple_send: as many as there is credit for, until all are confirmed."""

    def __init__(self, url, total):
        super().__init__(url)
        self.total, self.sent, self.confirmed = total, 0, 0

    def begin(self, event):
        event.container.create_sender(self.connection, "examples")

    def on_sendable(self, event):
        while event.sender.credit and self.sent < self.total:
            self.sent += 1
            event.sender.send(Message(id=self.sent, body={"sequence": self.sent}, durable=True))

    def on_accepted(self, event):
        self.confirmed += 1
        if self.confirmed == self.total:
            self.done()


class SimpleReceive(Timed):
    """simple_recv: accepts by itself, ends with the last."""

    def __init__(self, url, total):
        super().__init__(url)
        self.total, self.got = total, []

    def begin(self, event):
        event.container.create_receiver(self.connection, "examples")

    def on_message(self, event):
        self.got.append((event.message.id, event.message.body["sequence"]))
        if len(self.got) == self.total:
            event.receiver.close()
            self.done()


def barrier(server):
    """Until all that was asked of the broker before is done: an acceptance that is settled at once has no answer."""
    connection = BlockingConnection(server.url, timeout=PATIENCE)
    connection.create_sender("barrier").send(Message(body="x", durable=True), timeout=PATIENCE)
    connection.close()


def test_simple_send_and_simple_receive(server):
    """1,000, more than any credit, through a restart of the broker's clients."""
    assert SimpleSend(server.url, 1000).play().confirmed == 1000
    assert server.depth("examples") == 1000
    assert SimpleReceive(server.url, 1000).play().got == [(n, n) for n in range(1, 1001)]
    barrier(server)
    assert server.depth("examples") == 0


class TxSend(Timed, TransactionHandler):
    """tx_send: batches, each in a transaction; every third is aborted."""

    def __init__(self, url, batches, size):
        super().__init__(url)
        self.batches, self.size, self.batch, self.committed = batches, size, 0, []

    def begin(self, event):
        self.container = event.container
        self.sender = event.container.create_sender(self.connection, "examples")
        self.container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event):
        self.batch += 1
        for number in range(self.size):
            event.transaction.send(self.sender, Message(id=f"{self.batch}-{number}", body="x", durable=True))
        if self.batch % 3:
            event.transaction.commit()
        else:
            event.transaction.abort()

    def on_transaction_committed(self, event):
        self.committed.append(self.batch)
        self._next()

    def on_transaction_aborted(self, event):
        self._next()

    def on_transaction_commit_failed(self, event):
        self.errors.append(str(event.delivery.remote.condition))
        self.done()

    on_transaction_declare_failed = on_transaction_commit_failed

    def _next(self):
        if self.batch < self.batches:
            self.container.declare_transaction(self.connection, handler=self)
        else:
            self.done()


class TxReceive(Timed, TransactionHandler):
    """tx_recv: accepts in transactions of `size`; the first is aborted, so its messages come again."""

    def __init__(self, url, total, size):
        super().__init__(url, prefetch=0, auto_accept=False)
        self.total, self.size, self.aborted, self.committed, self.current = total, size, [], [], []
        self.transaction = None

    def begin(self, event):
        self.container = event.container
        self.receiver = event.container.create_receiver(self.connection, "examples")
        self.container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event):
        self.transaction = event.transaction
        self.receiver.flow(self.size)

    def on_message(self, event):
        self.current.append(str(event.message.id))
        self.transaction.accept(event.delivery)
        if len(self.current) == self.size:
            if self.aborted:
                self.transaction.commit()
            else:
                self.transaction.abort()

    def on_transaction_committed(self, event):
        self.committed += self.current
        self._next()

    def on_transaction_aborted(self, event):
        self.aborted += self.current
        self._next()

    def _next(self):
        self.current = []
        if len(self.committed) < self.total:
            self.container.declare_transaction(self.connection, handler=self)
        else:
            self.done()


def test_transactional_send_and_receive(server):
    """What was aborted is not there; what was received in an aborted one comes again."""
    assert TxSend(server.url, 4, 5).play().committed == [1, 2, 4]
    assert server.depth("examples") == 15
    received = TxReceive(server.url, 15, 5).play()

    assert received.committed == [f"{batch}-{number}" for batch in (1, 2, 4) for number in range(5)]
    assert received.aborted == received.committed[:5]
    assert server.depth("examples") == 0


class Answering(Timed):
    """server: upper case, to the queue that the request names, by one sender without an address."""

    def begin(self, event):
        self.answers = event.container.create_sender(self.connection, None)
        self.requests = event.container.create_receiver(self.connection, "requests")

    def on_message(self, event):
        request = event.message
        answer = Message(address=request.reply_to, body=request.body.upper(), correlation_id=request.correlation_id)
        self.answers.send(answer)


class Asking(Timed):
    """client: a receiver with a dynamic source, whose address is where the answers go."""

    WORDS = ("Twas brillig", "and the slithy toves")

    def __init__(self, url):
        super().__init__(url)
        self.heard, self.addresses = [], set()

    def begin(self, event):
        Answering.begin(self, event)
        self.sender = event.container.create_sender(self.connection, "requests")
        self.receiver = event.container.create_receiver(self.connection, None, dynamic=True)

    def on_link_opened(self, event):
        if event.link == self.receiver and event.link.remote_source.address:
            self._ask()

    def _ask(self):
        address = self.receiver.remote_source.address
        self.addresses.add(address)
        self.sender.send(Message(reply_to=address, body=self.WORDS[len(self.heard)], correlation_id=len(self.heard)))

    def on_message(self, event):
        if event.receiver != self.receiver:
            Answering.on_message(self, event)
            return
        self.heard.append((event.message.correlation_id, event.message.body))
        if len(self.heard) < len(self.WORDS):
            self._ask()
        else:
            self.done()


def test_request_and_reply_over_a_dynamic_queue_and_an_anonymous_sender(server):
    """Both sides on one connection."""
    asked = Asking(server.url).play()

    assert asked.heard == [(0, "TWAS BRILLIG"), (1, "AND THE SLITHY TOVES")]
    assert len(asked.addresses) == 1
    assert asked.addresses & {"", "requests", None} == set()


def answer_once(url):
    """sync_server: one request, answered to where it says."""
    connection = BlockingConnection(url, timeout=PATIENCE)
    receiver, sender = connection.create_receiver("requests"), connection.create_sender(None)
    request = receiver.receive(timeout=PATIENCE)
    receiver.accept()
    sender.send(Message(address=request.reply_to, correlation_id=request.correlation_id, body=request.body.upper()))
    connection.close()


def test_blocking_request_and_reply(server):
    """sync_client, with the answering side on a connection of its own; the dynamic queue ends with its connection."""
    connection = BlockingConnection(server.url, timeout=PATIENCE)
    client = SyncRequestResponse(connection, "requests")
    address = client.reply_to
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answering = pool.submit(answer_once, server.url)
        answer = client.call(Message(body="ping"))
        answering.result(PATIENCE)
    connection.close()

    assert answer.body == "PING"
    assert address not in server.get("/queues")["queues"]


class Browse(Timed):
    """queue_browser: a copy of each message, and a drain to know the end."""

    def __init__(self, url):
        super().__init__(url, prefetch=0)
        self.got = []

    def begin(self, event):
        self.receiver = event.container.create_receiver(self.connection, "examples", options=Copy())
        self.mode = self.receiver.source.distribution_mode
        self.receiver.drain(100)

    def on_message(self, event):
        self.got.append(event.message.id)

    def on_link_flow(self, event):
        if event.link.is_receiver and event.link.credit == 0:
            self.done()


def test_a_browser_takes_nothing(server):
    """Twice the same, and a consumer then gets all."""
    SimpleSend(server.url, 10).play()
    first, second = Browse(server.url).play(), Browse(server.url).play()

    assert first.mode == Terminus.DIST_MODE_COPY
    assert first.got == second.got == list(range(1, 11))
    assert server.depth("examples") == 10
    assert len(SimpleReceive(server.url, 10).play().got) == 10
