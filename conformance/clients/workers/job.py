"""The job of a client process and its result: plain data over its control socket."""

from __future__ import annotations

import os

import msgspec

from conformance.adapters.credentials import OPEN, Access
from conformance.history import Header

NEVER = "never"
"""A broker that answers no acknowledgement."""

SILENCE_S = 0.25
LIVENESS_S = 30.0
LIVENESS_FACTOR = 10


class DepthRequest(msgspec.Struct, frozen=True):
    """How to ask a broker for the depth of a queue: `http` with `url` and `field`, or `amqp-management`.

    For `amqp-management` a request with the application properties of `properties` goes to `address`; the answer's
    body is a map with the depth as its `field` (ActiveMQ Classic), or a JSON list whose first item is the depth
    (Artemis); `host` and `port` are those of its AMQP endpoint, whatever the client itself speaks, and `access` is how
    one comes in there. `needs` is what the broker must have to answer at all. With `relayed` no link is made to
    `address` itself.
    """

    method: str
    url: str = ""
    field: str = ""
    address: str = ""
    properties: dict[str, str] = {}
    body: str = ""
    host: str = ""
    port: int = 0
    access: Access = OPEN
    needs: str = ""
    relayed: bool = False


class StompWords(msgspec.Struct, frozen=True):
    """How a broker wants to be addressed over STOMP: the destination, and headers for SEND and SUBSCRIBE.

    `{queue}`, `{prefetch}` (messages) and `{prefetch_bytes}` (1,024 a message) are filled in by the session.
    `virtual_host` is the `host` header of CONNECT; without it that is the name of the machine (STOMP 1.2, CONNECT).
    """

    destination: str = "{queue}"
    send: dict[str, str] = {}
    subscribe: dict[str, str] = {}
    virtual_host: str = ""


def address(destination: str, queue: str) -> str:
    """What a client calls a queue to this broker; histories have the queue's own name.

    >>> address("/amq/queue/{queue}", "orders")
    '/amq/queue/orders'
    """
    return destination.replace("{queue}", queue)


class Asks(msgspec.Struct, frozen=True):
    """What a client asks of a broker that has it: docs/reference-profiles.md has the wire forms.

    A publisher: `window` messages of a publish window (0: it asks for nothing), and `event_mode` (`per_message`,
    `windowed` or nothing). A consumer: `mode`, the broker's own word for its acknowledgement mode.
    """

    window: int = 0
    event_mode: str = ""
    mode: str = ""

    @property
    def publisher(self) -> dict[str, int | str]:
        """Names and values of what a publisher asks for."""
        if not self.window:
            return {}
        mode = {"ack-event-mode": self.event_mode.replace("_", "-")} if self.event_mode else {}
        return {"publish-window": self.window, **mode}

    @property
    def consumer(self) -> dict[str, int | str]:
        """Names and values of what a consumer asks for."""
        return {"ack-mode": self.mode} if self.mode else {}


class Part(msgspec.Struct, frozen=True):
    """Half a trigger: the k-th `event` of this process, or `time`, where `k` is milliseconds since it began."""

    event: str
    k: int


class Trigger(msgspec.Struct, frozen=True):
    """When every part has come to pass, do `fault`.

    `kill`, `stop`, `pause` and `power_loss` reach the broker by the descriptors that came with the job: a pidfd for
    each of its processes, and for a power loss first its disk. `consumer_crash` ends this very process. A pause lasts
    `hold_s` seconds; with `then_kill` it ends in a kill. `torn` is the seed of what a power loss leaves half written.
    With `within_s` seconds the fault is a command that is to take effect in that time: see `trigger`. A kill comes
    `delay_us` microseconds after its event.
    """

    fault: str
    parts: tuple[Part, ...]
    hold_s: float = 0.0
    then_kill: bool = False
    torn: int | None = None
    within_s: float = 0.0
    delay_us: int = 0

    @classmethod
    def nth(cls, event: str, k: int, fault: str, *, hold_s: float = 0.0) -> Trigger:
        """The trigger of one event."""
        return cls(fault, (Part(event, k),), hold_s)

    @property
    def k(self) -> int:
        """The largest of its numbers, for people."""
        return max(part.k for part in self.parts)


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    """A vendor's client: what its process loads, and what it calls (see `adapters.vendor_clients.ClientFile`).

    `url` has every parameter, and `{host}` and `{port}`. `modes` are its numbers of our acknowledgement modes. With
    `asynchronous` a listener hears of the answers to sends.
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


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One role in one process; the fields of `Publish` and `Consume` have their names here too.

    `role` is `publish`, `consume`, `drain`, `ask` or `collect`, which empties the dead-letter or expiry queue
    `collects`; `delayed`: what a drain does not get may wait for its redelivery; `history` the path of its file;
    `epoch` the run of the broker that it talks to; `ack_confirm` how this broker answers an acknowledgement
    (`transaction`, `NEVER`, which asks for no answer and waits for none, or else by its disposition); `liar` the name
    of a session liar; `broker_may_end` that it may end by itself, and `may_be_refused` that a refusal is an answer like
    any other, even one that costs the connection. `destination` makes the broker's address of a queue, over AMQP; over
    STOMP that is in `stomp`. `outcomes` are those that a sender says that it knows, over AMQP; without any it says
    nothing. `tells_attached`: a consumer writes a byte to the descriptor of its job when it is attached.
    `answers_at_commit`: sends in a transaction get their answers with that of the commit, and never where it
    is rolled back. `access` is how it comes in, and holds no secret; `secrets` are the variables that it names, which
    no process inherits. `vendor` is the client through which everything is done, if that is none of the suite's own
    sessions. Times are in seconds.
    """

    role: str
    header: Header
    history: str
    host: str
    port: int
    protocol: str
    queue: str
    epoch: int
    client: str = "library"
    producer: int = 1
    count: int = 0
    window: int = 1
    size: int = 256
    durable: bool = True
    batch: int = 0
    peek: bool = False
    unasked_every: int = 0
    question: str = ""
    every_ms: int = 0
    ack_event_mode: str = ""
    immediate_every: int = 0
    tells_waits: bool = False
    mode: str = ""
    prefetch: int = 100
    acknowledge: int = 1
    confirm: bool = False
    stop: int | None = None
    until_silent: bool = False
    refuse: tuple[str, ...] = ()
    refuse_every: int = 0
    hold: bool = False
    work_ms: int = 0
    rollback_every: int = 0
    backwards: int = 0
    receives: bool = False
    on_session: bool = False
    asks: Asks = Asks()
    tells_attached: bool = False
    trigger: Trigger | None = None
    broker_may_end: bool = False
    may_be_refused: bool = False
    ack_confirm: str = ""
    depth: DepthRequest | None = None
    collects: str = ""
    delayed: bool = False
    destination: str = "{queue}"
    outcomes: tuple[str, ...] = ()
    answers_at_commit: bool = False
    stomp: StompWords = StompWords()
    liar: str = ""
    vendor: Vendor | None = None
    liveness_s: float = LIVENESS_S
    silence_s: float = SILENCE_S
    connect_s: float = 20.0
    access: Access = OPEN
    secrets: dict[str, str] = {}

    def encoded(self) -> bytes:
        """What goes over the socket: the job, with the secrets that its client needs to log in."""
        every = [self.access, *([self.depth.access] if self.depth else [])]
        names = [each.password.env for each in every if each.password and each.password.env in os.environ]
        return msgspec.json.encode(msgspec.structs.replace(self, secrets={name: os.environ[name] for name in names}))


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """The last word of a process that ended as it should.

    `ended` is `finished`, `disconnected` (the broker went away under it), `refused` (a refusal that it recorded has
    ended the connection) or `stuck` (a drain that did not get what the broker says that it has). `fired` says whether
    its fault was, and `seen` how many events of its trigger it had counted by then. `waited_s` is what it spent waiting
    for silence or for answers that never came.
    `error` is set where the process could not do its part for a reason that is ours; one that is `spent` did it, and is
    not to do another. `slowest_s` is the longest time that the broker took to answer a send, without pauses.
    """

    ended: str = "finished"
    count: int = 0
    depth: int | None = None
    waited_s: float = 0.0
    slowest_s: float = 0.0
    fired: bool = False
    seen: int = 0
    error: str = ""
    spent: bool = False
