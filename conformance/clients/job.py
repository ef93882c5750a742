"""What one client process is told, and what it answers: plain data over its control socket."""

from __future__ import annotations

import msgspec

from conformance.history import Header

SILENCE_S = 0.25
LIVENESS_S = 30.0
LIVENESS_FACTOR = 10


class DepthProbe(msgspec.Struct, frozen=True):
    """How to ask a broker for the depth of a queue: `http` with `url` and `field`, or `amqp-management`.

    For `amqp-management` a request with the application properties of `properties` goes to `address`; the answer's
    body is a JSON list whose first item is the depth (Artemis management over messages); `host` and `port` are those of
    its AMQP endpoint, whatever the client itself speaks.
    """

    method: str
    url: str = ""
    field: str = ""
    address: str = ""
    properties: dict[str, str] = {}
    host: str = ""
    port: int = 0


class StompWords(msgspec.Struct, frozen=True):
    """How a broker wants to be addressed over STOMP: the destination, and headers for SEND and SUBSCRIBE.

    `{queue}`, `{prefetch}` (messages) and `{prefetch_bytes}` (1,024 a message) are filled in by the session.
    """

    destination: str = "{queue}"
    send: dict[str, str] = {}
    subscribe: dict[str, str] = {}


class Part(msgspec.Struct, frozen=True):
    """Half a trigger: the k-th `event` of this process, or `time`, where `k` is milliseconds since it began."""

    event: str
    k: int


class Trigger(msgspec.Struct, frozen=True):
    """When every part has come to pass, do `fault`.

    `kill`, `stop`, `pause` and `power_loss` reach the broker by the descriptors that came with the job: a pidfd for
    each of its processes, and for a power loss first its disk. `consumer_crash` ends this very process. A pause lasts
    `hold_s` seconds; with `then_kill` it ends in a kill. `torn` is the seed of what a power loss leaves half written.
    """

    fault: str
    parts: tuple[Part, ...]
    hold_s: float = 0.0
    then_kill: bool = False
    torn: int | None = None

    @classmethod
    def nth(cls, event: str, k: int, fault: str, *, hold_s: float = 0.0) -> Trigger:
        """The trigger of one event."""
        return cls(fault, (Part(event, k),), hold_s)

    @property
    def k(self) -> int:
        """The largest of its numbers, for people."""
        return max(part.k for part in self.parts)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One role in one process; the fields of `Publish` and `Consume` have their names here too.

    `role` is `publish`, `consume` or `drain`; `history` the path of its file; `epoch` the run of the broker that it
    talks to; `ack_confirm` how this broker answers an acknowledgement (`disposition`, `transaction` or empty: never);
    `liar` the name of a session liar; `broker_may_end` that it may end by itself. Times are in seconds.
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
    every_ms: int = 0
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
    trigger: Trigger | None = None
    broker_may_end: bool = False
    ack_confirm: str = ""
    depth: DepthProbe | None = None
    stomp: StompWords = StompWords()
    liar: str = ""
    liveness_s: float = LIVENESS_S
    silence_s: float = SILENCE_S
    connect_s: float = 20.0


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The last word of a process that ended as it should.

    `ended` is `finished`, `disconnected` (the broker went away under it) or `stuck` (a drain that did not get what
    the broker says that it has). `fired` says whether its fault was, and `seen` how many events of its trigger it had
    counted by then. `waited_s` is what it spent waiting for silence or for answers that never came.
    `error` is set where the process could not do its part for a reason that is ours.
    """

    ended: str = "finished"
    count: int = 0
    depth: int | None = None
    waited_s: float = 0.0
    fired: bool = False
    seen: int = 0
    error: str = ""
