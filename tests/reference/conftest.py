"""A broker in a process of its own, and a real AMQP client for it."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from cproton import pn_data_clear, pn_disposition_data
from proton import Delivery, Described, Message, symbol, ulong
from proton.handlers import MessagingHandler
from proton.reactor import AtMostOnce, LinkOption
from proton.utils import BlockingConnection
from starts import starts_process

sys.path.insert(0, str(Path(__file__).parent))  # for `blackbox`

from blackbox.server import QUEUE, Server

hypothesis.settings.register_profile("machine-may-be-busy", deadline=None)
hypothesis.settings.load_profile("machine-may-be-busy")
PATIENCE = 20
_DECLARED, _TRANSACTIONAL = 0x33, 0x34
_NAMES = itertools.count()
"""A second link of one name would be a protocol error, and proton names links after their queue."""


class Running(Server):
    """A broker and the `queue` that a test works on."""

    queue = QUEUE

    def depth(self, queue: str | None = None) -> int:
        return super().depth(queue or self.queue)


class Inbox(MessagingHandler):
    """Keeps what comes, acknowledges nothing by itself; `link` gives credit by hand."""

    def __init__(self) -> None:
        super().__init__(prefetch=0, auto_accept=False, auto_settle=False)
        self.got: list[tuple[Message, Delivery]] = []

    def attach(self, receiver: Any) -> None:
        """Keeps the receiver: one that is collected takes the handler off its link, and every message with it."""
        self._receiver = receiver
        self.link = receiver.link

    def on_message(self, event: Any) -> None:
        self.got.append((event.message, event.delivery))

    @property
    def bodies(self) -> list[Any]:
        return [message.body for message, _ in self.got]


class ToCoordinator(LinkOption):
    """Makes the target of a sender the coordinator."""

    def apply(self, link: Any) -> None:
        link.target.type = link.target.COORDINATOR


class Control:
    """A control link, and transactions by their ids on the wire."""

    def __init__(self, client: Peer, name: str) -> None:
        self.client = client
        options = ToCoordinator()
        self.link = client.connection.create_sender(None, name=name, options=options).link
        client.wait(lambda: self.link.credit > 0)

    def ask(self, body: Any) -> Delivery:
        """One message to the coordinator; the answered delivery."""
        delivery = self.link.send(Message(body=body))
        self.client.wait(lambda: delivery.settled)
        return delivery

    def begin(self) -> bytes:
        answer = self.ask(Described(ulong(0x31), [None]))
        assert answer.remote_state == _DECLARED
        return bytes(next(iter(answer.remote.data)))

    def end(self, identity: bytes, *, fail: bool = False) -> tuple[Any, str | None]:
        """Discharges; the state that answers, and the condition if it is an error."""
        answer = self.ask(Described(symbol("amqp:discharge:list"), [identity, fail]))
        condition = answer.remote.condition
        return answer.remote_state, condition and condition.name

    def send(self, identity: bytes, bodies: Iterable[int], *, durable: bool = True) -> list[Delivery]:
        link = self.client.sender()
        sent = []
        for body in bodies:
            delivery = link.delivery(f"{identity}-{body}")
            delivery.local.data = [identity]
            delivery.update(_TRANSACTIONAL)
            link.stream(Message(body=body, durable=durable).encode())
            link.advance()
            sent.append(delivery)
        self.client.wait(lambda: all(d.settled for d in sent))
        return sent

    def settle(
        self,
        identity: bytes,
        deliveries: Iterable[Delivery],
        outcome: int = Delivery.ACCEPTED,
        fields: Iterable[bool] = (),
        *,
        settled: bool = False,
    ) -> None:
        """Gives an outcome in the transaction, and waits until the broker has read it."""
        for delivery in deliveries:
            # proton appends to what an earlier update has put there.
            pn_data_clear(pn_disposition_data(delivery.local._impl))
            delivery.local.data = [identity, Described(ulong(outcome), list(fields))]
            delivery.update(_TRANSACTIONAL)
            if settled:
                delivery.settle()
        self.client.barrier()


class Peer:
    """One client connection; everything waits for its event, and nothing for a time. `queue` is what it works on."""

    def __init__(self, running: Running, queue: str | None = None, **options: Any) -> None:
        self.queue = queue or running.queue
        options = {"allowed_mechs": "ANONYMOUS", "timeout": PATIENCE, **options}
        self.connection = BlockingConnection(f"amqp://{running.amqp}", **options)

    def wait(self, condition: Callable[[], bool]) -> None:
        self.connection.wait(condition, timeout=PATIENCE)

    def sender(self, queue: str | None = None) -> Any:
        link = self.connection.create_sender(queue or self.queue, name=f"link-{next(_NAMES)}").link
        self.wait(lambda: link.credit > 0)
        return link

    def send(self, count: int, queue: str | None = None, *, durable: bool = True, first: int = 1) -> list[Delivery]:
        """Sends the numbers from `first` on, unsettled, and waits for nothing."""
        link = self.sender(queue)
        return [link.send(Message(body=n, durable=durable)) for n in range(first, first + count)]

    def publish(self, count: int, queue: str | None = None, *, durable: bool = True, first: int = 1) -> None:
        """Sends, and waits until every send is accepted."""
        sent = self.send(count, queue, durable=durable, first=first)
        self.wait(lambda: all(d.settled for d in sent))
        assert {d.remote_state for d in sent} <= {Delivery.ACCEPTED}

    def barrier(self) -> None:
        """Until all that the broker had queued for its disk is there: a confirm is never given out of turn."""
        self.publish(1, "barrier")

    def inbox(self, credit: int, queue: str | None = None, *, settled: bool = False) -> Any:
        """A receiver with this much credit, given once; its link is `.link`."""
        box = Inbox()
        options = AtMostOnce() if settled else None
        box.attach(self._receiver(queue, box, options))
        box.link.flow(credit)
        return box

    def _receiver(self, queue: str | None, box: Inbox, options: Any) -> Any:
        return self.connection.create_receiver(
            queue or self.queue, credit=0, handler=box, options=options, name=f"link-{next(_NAMES)}"
        )

    def receive(self, count: int, queue: str | None = None) -> Any:
        """A receiver that has got so many messages, none acknowledged."""
        box = self.inbox(count, queue)
        self.wait(lambda: len(box.got) >= count)
        return box

    def drain(self, queue: str | None = None) -> Any:
        """A receiver that has been sent all there was, by the drain flag."""
        box = Inbox()
        box.attach(self._receiver(queue, box, None))
        box.link.drain(5000)
        self.wait(lambda: box.link.credit == 0)
        return box

    def accept(self, deliveries: Iterable[Delivery]) -> None:
        """Acknowledges, and waits until each is confirmed (accepted, not settled; the broker settles)."""
        mine = list(deliveries)
        for delivery in mine:
            delivery.update(Delivery.ACCEPTED)
        self.wait(lambda: all(d.settled for d in mine))
        for delivery in mine:
            delivery.settle()

    def outcome(self, delivery: Delivery, state: Any, *, failed: bool = False, elsewhere: bool = False) -> None:
        """Any other outcome, confirmed."""
        delivery.local.failed = failed
        delivery.local.undeliverable = elsewhere
        delivery.update(state)
        self.wait(lambda: delivery.settled)
        delivery.settle()

    def control(self, name: str = "control") -> Control:
        return Control(self, name)

    def close(self) -> None:
        self.connection.close()


@pytest.fixture
@starts_process
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts brokers on one data directory, one after the other; each ends with the test."""
    started: list[Running] = []

    def one(*words: str, data: str = "data", before: str = "") -> Running:
        started.append(Running(tmp_path / data, *words, before=before))
        return started[-1]

    yield one
    for running in started:
        running.kill()


@pytest.fixture(scope="module")
@starts_process
def for_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The broker of the tests of a file that need none of their own."""
    with Running(tmp_path_factory.mktemp("for-all") / "data") as running:
        yield running


@pytest.fixture
def broker(for_all: Running) -> Running:
    """A broker with a queue that no other test has used; it is neither ended nor made another."""
    for_all.queue = f"queue-{next(_NAMES)}"
    return for_all


@pytest.fixture
def peer() -> Callable[..., Peer]:
    """Connects clients."""
    return Peer
