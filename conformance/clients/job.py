"""The job of a client process and its result: plain data over its control socket."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from conformance import limits
from conformance.adapters.credentials import OPEN, Access
from conformance.adapters.interface import DepthProbe
from conformance.history import CONFORMANCE_ID, ONCE, PASSED_OVER, SELECTED, UNSELECTED, Header, id_of, parse_message
from conformance.protocols.options import ProtocolOptions
from conformance.scenario import options
from conformance.scenario.script import ClientFault, ClientStep, Consume, Drain, Publish
from conformance.scenario.selectors import SELECTORS, is_selected

Options = TypeVar("Options", bound=ProtocolOptions)

_EACH = re.compile(r"\[(.*?)\]")
NEVER = "never"
"""A broker that answers no acknowledgement."""

DRAIN_CREDIT = 1000
CONNECT_S = 20.0
SILENCE_S = 0.25
LIVENESS_S = 30.0
LIVENESS_FACTOR = 10


UNANSWERED, NO_CREDIT = "unanswered", "no credit"
"""Ends of a publisher that waited for the liveness bound: for an answer, or with nothing in flight for credit."""

BROKE_PROTOCOL = "broke protocol"
"""The end of a job with an error: what the broker sent is not what the protocol allows."""


def in_turn(queues: Sequence[str], message: str) -> str:
    """Return the one of a publisher's queues to which a message goes: the first, the second, ... and the first again.

    >>> in_turn(("a", "b"), "p1:3")
    'a'
    """
    parsed = parse_message(message)
    return queues[(parsed[1] - 1) % len(queues)] if parsed else queues[0]


def address(destination: str, queue: str) -> str:
    """Return the broker's address of a queue; histories have the queue's own name.

    >>> address("/amq/queue/{queue}", "orders")
    '/amq/queue/orders'
    """
    return destination.replace("{queue}", queue)


class Asks(msgspec.Struct, frozen=True):
    """The client's requests to a broker that supports them: docs/reference/profiles.md has the wire forms.

    A publisher: `window` messages of a publish window (0: it asks for nothing), and `event_mode` (`per_message`,
    `windowed` or nothing). A consumer: `mode`, the broker's own name for its acknowledgement mode.
    """

    window: int = 0
    event_mode: str = ""
    mode: str = ""

    @property
    def publisher(self) -> dict[str, int | str]:
        if not self.window:
            return {}
        mode = {"ack-event-mode": self.event_mode.replace("_", "-")} if self.event_mode else {}
        return {"publish-window": self.window, **mode}

    @property
    def consumer(self) -> dict[str, int | str]:
        return {"ack-mode": self.mode} if self.mode else {}


class SentTransaction(msgspec.Struct, frozen=True, tag=True):
    """The messages of a publisher that are in one transaction: from the number `first` to the number `last`."""

    producer: int
    first: int
    last: int


class OpenPacket(msgspec.Struct, frozen=True, tag=True):
    """A packet identifier of MQTT that is in use when its connection ends; the session outlives that.

    `answered`: the PUBREC of the `message` is read or, by a consumer, written. So PUBREL is next, and not the PUBLISH.
    """

    message: str
    number: int
    answered: bool

    @property
    def again(self) -> str:
        """Return how a history says what its publisher sends again."""
        return f"{ONCE}, {'PUBREL' if self.answered else 'PUBLISH'} {self.number} again"


Unfinished = SentTransaction | OpenPacket
"""What a client leaves to a later one."""


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    """A vendor's client: what its process loads, and what it calls (see `adapters.vendor_clients.ClientFile`).

    `url` has every parameter, and `{host}` and `{port}`. A part of it in brackets is there once for each node: then the
    client goes on by itself at another one. `modes` are its numbers of our acknowledgement modes. With `asynchronous` a
    listener hears of the answers to sends.
    """

    name: str
    api: str
    factory: str
    url: str
    jars: tuple[str, ...]
    modes: dict[str, int]
    lost: tuple[str, ...] = ()
    asynchronous: bool = False
    properties: dict[str, str] = {}
    java: int = 11
    setter: str = ""
    individual: str = "acknowledge"

    @property
    def goes_on(self) -> bool:
        return _EACH.search(self.url) is not None

    def address(self, nodes: Sequence[tuple[str, int]]) -> str:
        """Return its address of these nodes, host and port, or of the first one."""

        def at(words: str, host: str, port: int) -> str:
            return words.replace("{host}", host).replace("{port}", str(port))

        each = _EACH.search(self.url)
        repeated = ",".join(at(each[1], *node) for node in nodes) if each else ""
        return at(_EACH.sub(lambda _: repeated, self.url), *nodes[0])


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """How a client reaches the broker. Times are in seconds.

    `addresses` are those that it may try, host and port, the first one first. `client` is the kind of its session.
    `access` is how it logs in, without secrets; `secrets` are the variables that it names, which no process inherits.
    `vendor` is the vendor's client, or None for the suite's own sessions. `reaches_s` is set if the broker is starting:
    so long the client tries again until it is attached.
    """

    addresses: tuple[tuple[str, int], ...]
    protocol: str
    client: str = "library"
    access: Access = OPEN
    secrets: dict[str, str] = {}
    vendor: Vendor | None = None
    connect_s: float = CONNECT_S
    reaches_s: float = 0.0

    @property
    def host(self) -> str:
        return self.addresses[0][0]

    @property
    def port(self) -> int:
        return self.addresses[0][1]

    def through(self, host: str, port: int) -> Connection:
        """Return it with this address and no other, as that of a link."""
        return msgspec.structs.replace(self, addresses=((host, port),))


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """How this broker speaks the protocol (`adapters.file.model.Protocol`).

    `ack_confirm` says how it answers an acknowledgement: `transaction`, `NEVER` (the client asks for no answer and
    waits for none), or else by its disposition. `singly`: one acknowledgement can cover one message only; else a
    session over STOMP acknowledges each message with all before it. `destination` makes the broker's address of a
    queue; `copied` makes that of a receiver if each queue gets every send. `duplicate_id` is the property or header
    with the id by which the broker knows a message that it has stored. `own` are the options of this protocol and no
    other, as `ClientProtocol.options` has them, and `answers_at_commit` is among them.
    """

    ack_confirm: str = ""
    singly: bool = True
    destination: str = "{queue}"
    copied: str = ""
    duplicate_id: str = ""
    answers_at_commit: bool = False
    own: dict[str, Any] = {}

    @property
    def source(self) -> str:
        """Return how the address of a receiver is made."""
        return self.copied or self.destination

    def options(self, kind: type[Options]) -> Options:
        """Return the options of the protocol whose class this is."""
        return msgspec.convert(self.own, kind)


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What a client does: one step of the script, on these queues.

    `producer` is the number of this publisher, and `publishers` are the steps of all that the trial has, in the order
    of their numbers. `resumes` is what earlier clients of a publisher have left, or of the session of a queue.

    Beside `queue` a publisher sends to `more_queues` in turn, and a drain empties them too; each has its depth probe. A
    consumer with several receivers has them on its queues in turn. A `Drain` with `collects` empties that dead-letter
    or expiry queue instead. `subscriber` is the client id under which the queues are durable subscriptions of a topic.
    `in_vain`: where each consumer before this client had a selector, the names of those whose consumers were given
    nothing for the liveness bound; else None. `crosses`: the clients of the trial speak two protocols, of which one may
    not pass on the sender's id of a message. `session_expiry_s`: how long a session outlives its connection, where one
    is the queue; 0 for ever.
    """

    step: ClientStep
    queue: str
    more_queues: dict[str, DepthProbe | None] = {}
    depth: DepthProbe | None = None
    producer: int = 1
    publishers: tuple[Publish, ...] = ()
    resumes: tuple[Unfinished, ...] = ()
    asks: Asks = Asks()
    collects: str = ""
    subscriber: str = ""
    in_vain: tuple[str, ...] | None = None
    crosses: bool = False
    session_expiry_s: int = 0

    @property
    def queues(self) -> tuple[str, ...]:
        return (self.queue, *self.more_queues)

    @property
    def client_id(self) -> str:
        """Return the client id of a subscriber; empty for a publisher, whose connection is another beside it."""
        return "" if isinstance(self.step, Publish) else self.subscriber

    @property
    def lives_ms(self) -> int:
        """The time to live of what this client sends; 0 for messages without end."""
        return self.step.lives_ms if isinstance(self.step, Publish) else 0

    @property
    def delay_ms(self) -> int:
        """How long after its send each message may be delivered; 0 for at once."""
        return self.step.delay_ms if isinstance(self.step, Publish) else 0

    @property
    def selector(self) -> str:
        """Return the selector of a consumer; empty for none."""
        return SELECTORS[self.step.selects].text if isinstance(self.step, Consume) and self.step.selects else ""

    @property
    def prefetch(self) -> int:
        """How many deliveries a receiver may have open."""
        if isinstance(self.step, Consume):
            return self.step.prefetch
        return DRAIN_CREDIT if isinstance(self.step, Drain) else Consume("auto").prefetch

    def queue_of(self, message: str) -> str:
        """Return the queue to which this publisher sends a message."""
        return in_turn(self.queues, message)

    def properties(self, message: str) -> dict[str, object]:
        """Return the application properties of a message of this trial, beside what names it."""
        found = options.properties(self.sent_by(message), message)
        return {CONFORMANCE_ID: message, **found} if self.crosses else found

    def priority(self, message: str) -> int | None:
        """Return the priority with which a message of this trial was sent; None for one that says none."""
        sent_by = self.sent_by(message)
        return sent_by.priority if sent_by else None

    def has_other_priority(self, message: str, came: int | None) -> bool:
        """Whether a message came with another priority than the one that it was sent with, if it was sent with one."""
        return self.priority(message) not in (None, came)

    def known_by(self, came: Mapping[str, object], body: bytes, otherwise: object) -> str:
        """Return the id of a message: by its property or body if another protocol may not have passed on its own."""
        found = self.crosses and (came.get(CONFORMANCE_ID) or id_of(body))
        return limits.quote(found or otherwise)

    def is_crossed(self, message: str) -> bool:
        """Whether a message that this client gets was sent over another protocol than its own."""
        sent_by = self.sent_by(message) if self.crosses else None
        return sent_by is not None and sent_by.over != getattr(self.step, "over", "")

    def are_altered(
        self, message: str, came: Mapping[str, object], say: Callable[[object], object] = lambda value: value
    ) -> bool:
        """Whether a property is not what was sent; of a message of another protocol only the texts are compared.

        Not those of numbers with a point: AMQP 0-9-1 has decimals, others have doubles, and each has several texts.
        """
        sent = self.properties(message)
        if self.is_crossed(message):
            sent = {name: value for name, value in sent.items() if not isinstance(value, float)}
            came, say = {name: options.as_text(value) for name, value in came.items()}, options.as_text
        return options.are_altered(sent, came, say)

    def selection(self, message: str) -> str | None:
        """Return how the history says for whom a message is; None if no selector has to do with it."""
        if isinstance(self.step, Consume) and not is_selected(self.step.selects, message):
            return UNSELECTED
        if self.in_vain is None:
            return None
        return SELECTED if any(is_selected(name, message) for name in self.in_vain) else PASSED_OVER

    def sent_by(self, message: str) -> Publish | None:
        """Return the step whose publisher sends this message; None for a message of another."""
        number = (parse_message(message) or (0, 0))[0]
        return self.publishers[number - 1] if 0 < number <= len(self.publishers) else None


class Tolerances(msgspec.Struct, frozen=True, kw_only=True):
    """What may happen to a client without an error, and how long it waits. Times are in seconds.

    `broker_may_end`: the broker may end, by itself or by the fault of another client. `refused`: a refusal is an answer
    like any other, even if it costs the connection. `absent`: its queue may not be there, and a refused attach says so.
    `cut_off`: the end of a publisher's connection refuses what had no answer yet. `delayed`: the messages that a drain
    does not get may wait for their redelivery.
    """

    broker_may_end: bool = False
    refused: bool = False
    absent: bool = False
    cut_off: bool = False
    delayed: bool = False
    liveness_s: float = LIVENESS_S
    silence_s: float = SILENCE_S


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the script in one client process.

    `history` is the path of its file, and `epoch` the run of the broker that it talks to; `beside` are the names of the
    histories of its other receivers. `within_s` is set if the fault of the step is a command of the broker's owner: the
    seconds in which it must take effect. `journal` is the folder of the broker's journal, if the fault comes at a
    removal in it. `liar` names a session liar. `tells_attached`: the client writes a byte to the descriptor of its job
    when it is attached.
    """

    connection: Connection
    work: Work
    header: Header
    history: str
    epoch: int
    dialect: Dialect = Dialect()
    tolerances: Tolerances = Tolerances()
    beside: tuple[str, ...] = ()
    within_s: float = 0.0
    journal: str = ""
    liar: str = ""
    tells_attached: bool = False

    @property
    def fault(self) -> ClientFault | None:
        until = self.work.step.until if isinstance(self.work.step, Publish | Consume) else None
        return until if isinstance(until, ClientFault) else None

    @property
    def container(self) -> str:
        """Return the container-id of this client over AMQP."""
        return self.work.client_id or f"{self.header.trial}-{self.header.process}"

    @property
    def receivers(self) -> tuple[str, ...]:
        """Return the name of each receiver of this job, the first one with the name of its process."""
        return (self.header.process, *self.beside)

    def named(self, message: str) -> str:
        """Return the duplicate id of a message: no other trial has it, in a queue that outlives the run."""
        return f"{self.header.run} {self.header.trial} {message}"

    def encoded(self) -> bytes:
        """Encode the job for its process, with the secrets that its client needs to log in."""
        every = [self.connection.access, *([self.work.depth.access] if self.work.depth else [])]
        names = [each.password.env for each in every if each.password and each.password.env in os.environ]
        secrets = {name: os.environ[name] for name in names}
        connection = msgspec.structs.replace(self.connection, secrets=secrets)
        return msgspec.json.encode(msgspec.structs.replace(self, connection=connection))


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a job that ended by itself.

    `ended` is `finished`, `disconnected` (the broker closed the connection), `refused` (a refusal that it recorded has
    ended the connection), `stuck` (a drain did not get the messages that the broker reports), `UNANSWERED`,
    `NO_CREDIT` or `BROKE_PROTOCOL`. `fired`: whether the fault was fired, and `fired_ns` when; `seen`: the counted
    events of its trigger. `lost_ns` is when a client that was `disconnected` had noticed it. `waited_s` is the time
    spent waiting for silence or for answers that never came. `slowest_s` is the longest time that the broker took to
    answer a send, without pauses. `unfinished` is what it leaves to a later client: the last transaction that a
    publisher asked to commit, or the packets of a session that outlives its connection. `error` is set if the process
    could not do its job because of the suite or this machine, or if the broker refused to go on (`of_broker`). A
    process that is `spent` must not do another job.
    """

    ended: str = "finished"
    count: int = 0
    depth: int | None = None
    waited_s: float = 0.0
    slowest_s: float = 0.0
    unfinished: tuple[Unfinished, ...] = ()
    fired: bool = False
    fired_ns: int = 0
    lost_ns: int = 0
    seen: int = 0
    error: str = ""
    of_broker: bool = False
    spent: bool = False

    @property
    def reusable(self) -> bool:
        return not (self.error or self.spent)
