"""The AMQP clients of a series, as a user of proton writes them: a publisher and a consumer, each with transactions."""

from __future__ import annotations

from typing import Any

from proton import Delivery, Message
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container
from proton.utils import BlockingConnection

from .accounts import What
from .load import PACE_S, TOGETHER, Client, body, name_of, transactions
from .server import PATIENCE, QUEUE, Server

WINDOW = 20
CREDIT = 60
_HOST = "127.0.0.1"


def message(name: str) -> Message:
    return Message(id=name, body=body(name), durable=True)


class _Role(MessagingHandler, TransactionHandler):
    """A connection that ends with the broker, and one transaction after the other."""

    def __init__(self, client: Client) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self.client = client
        self.ids = transactions(client.name)
        self.transaction: Any = None
        self.called = ""

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.connection = event.container.connect(
            f"amqp://{_HOST}:{self.client.port}", reconnect=False, allowed_mechs="ANONYMOUS"
        )
        self.attach()

    def attach(self) -> None:
        raise NotImplementedError

    def on_link_opened(self, event: Any) -> None:
        self.client.ready.set()

    def declare(self) -> None:
        self.called, self.committing = next(self.ids)
        self.transaction = self.container.declare_transaction(self.connection, handler=self)

    def on_transaction_commit_failed(self, event: Any) -> None:
        self.client.errors.append(f"commit of {self.called} refused: {event.delivery.remote.condition}")

    on_transaction_declare_failed = on_transaction_commit_failed

    def on_rejected(self, event: Any) -> None:
        self.client.errors.append(f"{event.delivery.tag}: {event.delivery.remote_state}")

    on_released = on_rejected

    def on_link_error(self, event: Any) -> None:
        self.client.errors.append(f"link closed: {event.link.remote_condition}")

    def on_transport_error(self, event: Any) -> None:
        """The broker is gone: the container ends, for it has nothing else."""


class _Publisher(_Role):
    """Plain sends in a window, and beside them one transaction after the other."""

    def attach(self) -> None:
        self.sender = self.container.create_sender(self.connection, QUEUE)
        self.flying = 0
        self.plain = self.begun = False
        if not self.client.calm:
            self.declare()

    def on_sendable(self, event: Any) -> None:
        if not self.client.calm:
            self._fill(WINDOW)
        elif not self.begun:
            self.begun = True
            self._next()

    def _next(self) -> None:
        """The next transaction; calm, the next of a plain send and a transaction in turn."""
        if self.client.calm:
            self.container.schedule(PACE_S, self)
        elif self.client.quota > 0:
            self.declare()

    def on_timer_task(self, event: Any) -> None:
        self.plain = not self.plain
        if self.plain:
            self._fill(1)
        else:
            self.declare()

    def _fill(self, window: int) -> None:
        while self.client.quota > 0 and self.flying < window and self.sender.credit > TOGETHER:
            (name,) = self.client.fresh(1)
            self.client.quota -= 1
            self.flying += 1
            self.client.note(What.SEND, [name])
            self.sender.send(message(name), tag=name)

    def on_accepted(self, event: Any) -> None:
        if event.link == self.sender:
            self.flying -= 1
            self.client.note(What.SENT, [event.delivery.tag])
            if self.client.calm:
                self._next()
            else:
                self._fill(WINDOW)

    def on_transaction_declared(self, event: Any) -> None:
        names = self.client.fresh(TOGETHER)
        for name in names:
            self.transaction.send(self.sender, message(name), tag=name)
        if self.committing:
            self.client.note(What.COMMIT, names, transaction=self.called)
            self.transaction.commit()
        else:
            self.transaction.abort()

    def on_transaction_committed(self, event: Any) -> None:
        self.client.note(What.COMMITTED, transaction=self.called)
        self.client.quota -= TOGETHER
        self._next()

    def on_transaction_aborted(self, event: Any) -> None:
        self._next()


class _Consumer(_Role):
    """Confirmed acknowledgements one by one; every fourth message waits for a transaction, which also sends some."""

    def attach(self) -> None:
        self.receiver = self.container.create_receiver(self.connection, QUEUE)
        self.receiver.flow(CREDIT)
        self.sender = self.container.create_sender(self.connection, QUEUE)
        self.names: dict[str, str] = {}
        self.kept: list[Delivery] = []
        self.count = 0
        self.busy = False

    def on_message(self, event: Any) -> None:
        name, delivery = self.client.received(bytes(event.message.body)), event.delivery
        self.count += 1
        if self.count % 4 == 0:
            self.names[delivery.tag] = name
            self.kept.append(delivery)
            if len(self.kept) >= TOGETHER and not self.busy:
                self.busy = True
                self.declare()
            return
        self.names[delivery.tag] = name
        self.client.note(What.ACK, removes=[name])
        delivery.update(Delivery.ACCEPTED)

    def on_settled(self, event: Any) -> None:
        """An acknowledgement is confirmed, or its transaction is over."""
        if event.link != self.receiver:
            return
        name = self.names.pop(event.delivery.tag)
        if event.delivery.local_state == Delivery.ACCEPTED:
            self.client.note(What.ACKED, removes=[name])
        event.delivery.settle()
        self.receiver.flow(1)

    def on_transaction_declared(self, event: Any) -> None:
        taken, self.kept = self.kept[:TOGETHER], self.kept[TOGETHER:]
        names, sends = [self.names[delivery.tag] for delivery in taken], self.client.fresh(2)
        self.taken = names
        for name in sends:
            self.transaction.send(self.sender, message(name), tag=name)
        for delivery in taken:
            self.transaction.accept(delivery)
        if self.committing:
            self.client.note(What.COMMIT, sends, names, self.called)
            self.transaction.commit()
        else:
            self.transaction.abort()

    def on_transaction_committed(self, event: Any) -> None:
        self.client.note(What.COMMITTED, transaction=self.called)
        self._next()

    def on_transaction_aborted(self, event: Any) -> None:
        """proton gives back what was accepted: it may come again, to anybody, which is no fault."""
        self.client.note(What.RELEASE, removes=self.taken)
        self.receiver.flow(TOGETHER)
        self._next()

    def _next(self) -> None:
        self.busy = len(self.kept) >= TOGETHER
        if self.busy:
            self.declare()


class Publisher(Client):
    """See `_Publisher`."""

    def run(self) -> None:
        Container(_Publisher(self)).run()


class Consumer(Client):
    """See `_Consumer`."""

    def run(self) -> None:
        Container(_Consumer(self)).run()


class _All(MessagingHandler):
    def __init__(self) -> None:
        super().__init__(prefetch=0, auto_accept=False, auto_settle=False)
        self.got: list[tuple[str, Delivery]] = []

    def on_message(self, event: Any) -> None:
        self.got.append((name_of(bytes(event.message.body)), event.delivery))


def census(server: Server, queue: str = QUEUE) -> list[str]:
    """The names of all messages of a queue, in its order; they are given back with the outcome released.

    Received by one drain, and a second one that must find nothing: a drain may be answered too early.
    """
    connection = BlockingConnection(server.url, allowed_mechs="ANONYMOUS", timeout=PATIENCE)
    box = _All()
    receiver = connection.create_receiver(queue, credit=0, handler=box)
    before = -1
    while before < len(box.got):
        before = len(box.got)
        receiver.link.drain(100_000)
        connection.wait(lambda: receiver.link.credit == 0, timeout=PATIENCE)
    for _, delivery in box.got:
        delivery.update(Delivery.RELEASED)
        delivery.settle()
    connection.close()
    return [name for name, _ in box.got]
