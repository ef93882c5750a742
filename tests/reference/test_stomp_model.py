"""Random sessions against a model of a few lines: who has which message, what is acknowledged, and what comes again.

The model does not say which subscription gets a message, but that it is the first that is ready, that it was ready,
what it says of its deliveries so far, and that none waits while a subscription has room. A failure prints its steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from .stomp_rig import Rig

AUTO, CLIENT, INDIVIDUAL = "auto", "client", "client-individual"


@dataclass
class Message:
    """A message that was sent and is not gone."""

    place: int
    failures: int = 0
    seen: bool = False


@dataclass(eq=False)
class Subscription:
    """`held` are the numbers in the order of their deliveries; `open` those of them that can be acknowledged."""

    client: int
    id: str
    mode: str
    limit: int | None
    held: list[int] = field(default_factory=list)
    open: list[int] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)


@dataclass(eq=False)
class Transaction:
    """What it does at its commit."""

    client: int
    name: str
    sent: list[int] = field(default_factory=list)
    acked: list[tuple[Subscription, int]] = field(default_factory=list)
    nacked: list[tuple[Subscription, int]] = field(default_factory=list)


class Sessions(RuleBasedStateMachine):
    """Two clients of any version on one queue."""

    subscriptions = Bundle("subscriptions")
    transactions = Bundle("transactions")

    @initialize(versions=st.tuples(*[st.sampled_from(["1.2", "1.1", "1.0"])] * 2))
    def start(self, versions):
        self.rig = Rig()
        self.versions = list(versions)
        self.clients = [self.rig.client(version) for version in versions]
        self.sent = self.named = 0
        self.places: list[int] = []
        self.messages: dict[int, Message] = {}
        self.ready: set[int] = set()
        self.live: list[Subscription] = []
        self.begun: list[Transaction] = []

    def ask(self, client, command, headers, body=b""):
        """A frame that is answered by its receipt, in the end."""
        self.clients[client].say(command, {**headers, "receipt": "r"}, body)
        answers = self.settle()
        assert answers[client] == ["r"]

    def settle(self):
        """All is stored and sent; MESSAGE frames are taken into the model, the receipts of each client returned."""
        self.rig.disk()
        self.rig.broker.dispatch()
        receipts, delivered = [], []
        for number, client in enumerate(self.clients):
            frames = client.heard()
            receipts.append([f.headers["receipt-id"] for f in frames if f.command == "RECEIPT"])
            mine = [f for f in frames if f.command == "MESSAGE"]
            delivered += [(number, frame) for frame in mine]
            assert len(mine) + len(receipts[-1]) == len(frames)
        places = {number: self.messages[number].place for number in self.ready}
        numbers = [self.deliver(client, frame) for client, frame in delivered]
        assert set(numbers) == set(sorted(places, key=places.__getitem__)[: len(numbers)]), "not the first of all"
        for each in self.live:
            mine = [number for number in numbers if number in each.held]
            assert mine == sorted(mine, key=places.__getitem__), "out of order"
        assert not self.ready or not any(self.room(each) for each in self.live), "one waits in spite of room"
        return receipts

    def arrive(self, number):
        """Stored: its place is behind all that were before, whenever it was sent."""
        self.messages[number] = Message(len(self.places))
        self.places.append(number)
        self.ready.add(number)

    def room(self, subscription):
        """Whether it may be sent another."""
        return subscription.mode == AUTO or subscription.limit is None or len(subscription.open) < subscription.limit

    def deliver(self, client, frame):
        """One MESSAGE."""
        number = int(frame.body)
        (subscription,) = [s for s in self.live if (s.client, s.id) == (client, frame.headers["subscription"])]
        message = self.messages[number]
        assert number in self.ready, "was not to be had"
        assert (frame.headers["delivery-count"], frame.headers["redelivered"]) == (
            str(message.failures),
            str(message.seen).lower(),
        )
        message.seen = True
        self.ready.discard(number)
        if subscription.mode == AUTO:
            assert "ack" not in frame.headers
            del self.messages[number]
            return number
        subscription.held.append(number)
        subscription.open.append(number)
        subscription.names[number] = frame.headers.get("ack", frame.headers["message-id"])
        return number

    @rule(client=st.integers(0, 1), count=st.integers(1, 3), persistent=st.booleans())
    def send(self, client, count, persistent):
        for _ in range(count):
            self.sent += 1
            self.arrive(self.sent)
            headers = {"destination": "q", **({"persistent": "true"} if persistent else {})}
            self.clients[client].say("SEND", headers, str(self.sent).encode())
        self.settle()

    @rule(
        target=subscriptions,
        client=st.integers(0, 1),
        mode=st.sampled_from([AUTO, CLIENT, CLIENT, INDIVIDUAL, INDIVIDUAL]),
        limit=st.none() | st.integers(1, 3),
    )
    def subscribe(self, client, mode, limit):
        mode = CLIENT if self.versions[client] == "1.0" and mode == INDIVIDUAL else mode
        self.named += 1
        subscription = Subscription(client, f"s{self.named}", mode, limit)
        self.live.append(subscription)
        limits = {} if limit is None else {"prefetch-count": str(limit)}
        self.ask(client, "SUBSCRIBE", {"id": subscription.id, "destination": "q", "ack": mode, **limits})
        return subscription

    @rule(subscription=subscriptions)
    def unsubscribe(self, subscription):
        if subscription in self.live:
            self.drop(subscription)
            self.ask(subscription.client, "UNSUBSCRIBE", {"id": subscription.id})

    def drop(self, subscription):
        """What it held is to be had again, counted; a transaction that acknowledged it has nothing of it any more."""
        self.live.remove(subscription)
        for number in subscription.held:
            self.fail(number)
        for transaction in self.begun:
            transaction.acked = [item for item in transaction.acked if item[0] is not subscription]
            transaction.nacked = [item for item in transaction.nacked if item[0] is not subscription]

    def fail(self, number):
        """Back in the queue, counted."""
        self.messages[number].failures += 1
        self.ready.add(number)

    @rule(target=transactions, client=st.integers(0, 1))
    def begin(self, client):
        self.named += 1
        transaction = Transaction(client, f"t{self.named}")
        self.begun.append(transaction)
        self.ask(client, "BEGIN", {"transaction": transaction.name})
        return transaction

    @rule(transaction=transactions, persistent=st.booleans())
    def send_in(self, transaction, persistent):
        if transaction in self.begun:
            self.sent += 1
            transaction.sent.append(self.sent)
            headers = {"destination": "q", "transaction": transaction.name}
            headers |= {"persistent": "true"} if persistent else {}
            self.ask(transaction.client, "SEND", headers, str(self.sent).encode())

    @precondition(lambda self: any(each.open for each in self.live))
    @rule(
        data=st.data(), command=st.sampled_from(["ACK", "ACK", "NACK"]), place=st.integers(0, 5), inside=st.booleans()
    )
    def settle_one(self, data, command, place, inside):
        """ACK or NACK of any open delivery, in a transaction of its client or in none."""
        subscription = data.draw(st.sampled_from([each for each in self.live if each.open]))
        version = self.versions[subscription.client]
        command = "ACK" if version == "1.0" else command
        place %= len(subscription.open)
        number = subscription.open[place]
        covered = subscription.open[: place + 1] if subscription.mode == CLIENT else [number]
        mine = [each for each in self.begun if each.client == subscription.client]
        transaction = data.draw(st.sampled_from(mine)) if inside and mine else None
        subscription.open = [each for each in subscription.open if each not in covered]
        name = subscription.names[number]
        headers = {"id": name} if version == "1.2" else {"message-id": name, "subscription": subscription.id}
        if transaction is None:
            self.apply(subscription, covered, command)
        else:
            headers["transaction"] = transaction.name
            kept = transaction.acked if command == "ACK" else transaction.nacked
            kept += [(subscription, each) for each in covered]
        self.ask(subscription.client, command, headers)

    def apply(self, subscription, numbers, command):
        """The outcome takes effect."""
        for number in numbers:
            subscription.held.remove(number)
            if command == "ACK":
                del self.messages[number]
            else:
                self.fail(number)

    @rule(transaction=transactions)
    def commit(self, transaction):
        if transaction in self.begun:
            self.begun.remove(transaction)
            for number in transaction.sent:
                self.arrive(number)
            for subscription, number in transaction.acked:
                self.apply(subscription, [number], "ACK")
            for subscription, number in transaction.nacked:
                self.apply(subscription, [number], "NACK")
            self.ask(transaction.client, "COMMIT", {"transaction": transaction.name})

    @rule(transaction=transactions)
    def abort(self, transaction):
        if transaction in self.begun:
            self.begun.remove(transaction)
            for subscription, number in [*transaction.acked, *transaction.nacked]:
                subscription.open = [each for each in subscription.held if each in {*subscription.open, number}]
            self.ask(transaction.client, "ABORT", {"transaction": transaction.name})

    @rule(client=st.integers(0, 1), way=st.sampled_from(["lost", "DISCONNECT", "error"]))
    def leave(self, client, way):
        """All that it had is to be had again, and its transactions are aborted; another takes its place."""
        for transaction in [each for each in self.begun if each.client == client]:
            self.begun.remove(transaction)
        for subscription in [each for each in self.live if each.client == client]:
            self.drop(subscription)
        leaving = self.clients[client]
        if way == "lost":
            leaving.connection.lost()
        else:
            leaving.say("DISCONNECT" if way == "DISCONNECT" else "COMMIT", {"transaction": "none", "receipt": "r"})
            assert [f.command for f in leaving.heard()] == ["RECEIPT" if way == "DISCONNECT" else "ERROR"]
            assert leaving.connection.closed
        self.clients[client] = self.rig.client(self.versions[client])
        self.settle()

    @invariant()
    def the_queue_holds_what_the_model_holds(self):
        if hasattr(self, "rig"):
            assert self.rig.depth() == len(self.messages)


Sessions.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None, print_blob=True)
TestSessions = Sessions.TestCase
