"""Make the job of each client of a trial: how it reaches the broker, what it does there, and what may happen to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import msgspec

from conformance.adapters import Adapter, Broker, DepthProbe, EffectiveSettings, vendor_clients
from conformance.adapters.file.launch_tables import Topic
from conformance.adapters.file.model import Protocol
from conformance.adapters.file.placeholders import fill
from conformance.adapters.interface import Service
from conformance.clients.job import (
    CONNECT_S,
    LIVENESS_FACTOR,
    LIVENESS_S,
    NEVER,
    SILENCE_S,
    UNANSWERED,
    Asks,
    Connection,
    Dialect,
    Job,
    JobResult,
    Tolerances,
    Unfinished,
    Vendor,
    Work,
    address,
)
from conformance.history import Header
from conformance.protocols import describe, protocol_of_depth
from conformance.run.planning import Planned
from conformance.scenario.needs import RESENDS, SESSION_EXPIRY, TURNED_AWAY
from conformance.scenario.reading import singles
from conformance.scenario.script import LONGEST_DELAY_MS, ClientStep, Consume, Drain, Publish

Address = tuple[str, int]
"""Host and port."""

_CONSUMERS = 1_000
"""A trial has fewer publishers."""


class JobMaker:
    """Makes the jobs of one trial, in the order of its steps.

    `queue` is the name of its queue at the broker, and `more_queues` are those of its others. `slowest_s` is the
    longest time that the broker took for an answer: a drain waits ten times as long before it calls a message stuck,
    and at least the liveness bound. `network` is the way to an address of the broker.
    """

    def __init__(self, planned: Planned, broker: Broker, header: Header) -> None:
        self.planned, self.broker = planned, broker
        self.queue, *self.more_queues = planned.queues
        self.slowest_s = 0.0
        self.network: Callable[[Address], Address] = lambda address: address
        self._header = header
        self._due_s = 0.0
        self._sent: list[Unfinished] = []
        self._taken: dict[str, tuple[Unfinished, ...]] = {}
        self._publishers = self._consumers = 0
        self._selectors: set[str] = set()
        self._in_vain: list[str] = []

    def learn(self, work: Work, result: JobResult) -> None:
        """Note what later jobs depend on."""
        step = work.step
        self._in_vain += [step.selects] if isinstance(step, Consume) and result.ended == "stuck" else []
        self.slowest_s = max(self.slowest_s, result.slowest_s)
        if work.delay_ms:
            self._due_s = max(self._due_s, time.monotonic() + work.delay_ms / 1000)
        if isinstance(step, Publish):  # what has had no answer for the liveness bound is not open any more
            self._sent += () if result.ended == UNANSWERED else result.unfinished
        else:
            self._taken[work.collects or work.queue] = result.unfinished

    def make(
        self,
        step: ClientStep,
        tolerances: Tolerances = Tolerances(),  # noqa: B008 - it is frozen
        *,
        collects: str = "",
        liar: str = "",
        within_s: float = 0.0,
        journal: str = "",
    ) -> Job:
        """Return the job of the client that does this step, or that empties the queue `collects`."""
        step, asks = self._known(step)
        topic = self._speaks(step).topic if self._to_topic(step, collects) else None
        work = self._work(step, asks, collects, self.queue if topic else "")
        self._selectors |= {step.selects} if isinstance(step, Consume) else set()
        return Job(
            connection=self._connection(work),
            dialect=self._dialect(step, topic),
            work=work,
            tolerances=self._tolerances(work, tolerances),
            header=self._header,
            history="",
            epoch=self.broker.epoch,
            liar=liar,
            within_s=within_s,
            journal=journal,
        )

    def _to_topic(self, step: ClientStep, collects: str) -> bool:
        """Whether the client sends to a topic, or subscribes to it: also where the queue is a client's subscription."""
        fills = bool(getattr(step, "over", "")) and self._fills_a_subscription
        return fills or (self.planned.script.subscribed and not collects)

    @property
    def _fills_a_subscription(self) -> bool:
        """Whether the queue is a subscription that its client makes, and a client of another protocol fills."""
        return self.planned.script.crosses and describe(self.planned.protocol).traits.queues_by_client

    @property
    def keeps_messages(self) -> bool:
        """Whether an acknowledged message stays in its queue, so that no drain empties it."""
        return bool(self.planned.settings.values.get("non_destructive"))

    def bounds(self) -> Tolerances:
        """How long a drain waits; for a delay beyond its patience, messages may be left that wait for redelivery.

        What was sent with a delay has come due when it ends.
        """
        redelivery_delay_ms = int(self.planned.settings.values.get("redelivery_delay_ms", 0))
        if self.keeps_messages:
            return Tolerances(delayed=True, liveness_s=SILENCE_S)
        if redelivery_delay_ms > LONGEST_DELAY_MS:
            return Tolerances(delayed=True)
        delay_s = max(redelivery_delay_ms / 1000, self._due_s - time.monotonic(), 0)
        return Tolerances(silence_s=SILENCE_S + delay_s, liveness_s=LIVENESS_S + 10 * delay_s)

    def _work(self, step: ClientStep, asks: Asks, collects: str, topic: str) -> Work:
        publishers = [each for each in singles(self.planned.script.steps) if isinstance(each, Publish)]
        first = getattr(step, "from_queue", 0)
        used = len(self.more_queues) if isinstance(step, Drain) else getattr(step, "queues", 1) - 1
        queue, *more_queues = [self.queue, *self.more_queues][first : first + 1 + used]
        return Work(
            step=step,
            queue=queue,
            more_queues={each: self._depth_probe(each, topic) for each in more_queues},
            depth=self._depth_probe(collects or queue, topic),
            producer=self._producer(step),
            publishers=tuple(publishers),
            resumes=self._resumed(step, collects or queue),
            asks=asks,
            collects=collects,
            subscriber=topic,
            in_vain=tuple(self._in_vain) if self._selectors and "" not in self._selectors else None,
            crosses=self.planned.script.crosses,
            session_expiry_s=int(dict(self.planned.script.queue).get(SESSION_EXPIRY, 0)),
        )

    def _protocol(self, step: ClientStep) -> str:
        return getattr(step, "over", "") or self.planned.protocol

    def _speaks(self, step: ClientStep) -> Protocol:
        return self.planned.adapter.file.protocols[self._protocol(step)]

    def _depth_probe(self, queue: str, topic: str) -> DepthProbe | None:
        """Return how a client asks for a depth; None if it finds out by itself."""
        by_client = describe(self.planned.protocol).traits.queues_by_client
        return None if by_client else depth_probe(self.broker, queue, topic)

    def _connection(self, work: Work) -> Connection:
        planned, step = self.planned, work.step
        several = isinstance(step, Publish) and step.window > 1 and not step.batch
        protocol = self._protocol(step)
        client = planned.client if protocol == planned.protocol else ""
        goes_on = getattr(step, "goes_on", False)
        vendor = vendor_of(
            planned.adapter, protocol, planned.settings, client, work.prefetch, asynchronous=several, goes_on=goes_on
        )
        # What crossed may have any bytes in a header, as RabbitMQ's from AMQP 1.0, and stomp.py ends a frame at a NUL.
        raw = planned.script.crosses and "raw" in describe(protocol).sessions
        kind = "raw" if raw else planned.script.client
        self.broker.find_serving()
        beside = isinstance(step, Publish) and step.node == "another"
        service = self.broker.beside if beside else self.broker.service
        found = connection_to(service, protocol, self.network, client=kind, vendor=vendor)
        return msgspec.structs.replace(found, addresses=tuple(self.broker.addresses(protocol))) if goes_on else found

    def _dialect(self, step: ClientStep, topic: Topic | None) -> Dialect:
        script, speaks = self.planned.script, self._speaks(step)
        dialect = dialect_of(self.planned.adapter, self._protocol(step), copying=script.copied)
        resends = RESENDS in script.of_client
        dialect = msgspec.structs.replace(
            dialect,
            copied=speaks.copied.replace("{address}", self.queue) if script.copied else "",
            duplicate_id=speaks.duplicate_id if resends else "",
        )
        return self._subscribing(dialect, step, topic) if topic else dialect

    def _subscribing(self, dialect: Dialect, step: ClientStep, topic: Topic) -> Dialect:
        """Return the dialect for durable subscriptions of a topic."""
        called = self._topic_name

        def filled(headers: Mapping[str, str]) -> dict[str, str]:
            return {name: value.replace("{topic}", called) for name, value in headers.items()}

        at = topic.address.replace("{topic}", called)
        connect = {} if isinstance(step, Publish) else filled(topic.connect)  # two connections of one id: refused
        own = self._speaks(step).options.subscribing(connect, filled(topic.send), filled(topic.subscribe))
        return msgspec.structs.replace(dialect, destination=at, copied=at, own=msgspec.structs.asdict(own))

    @property
    def _topic_name(self) -> str:
        """The name of the first queue, or the broker's address of what a client of MQTT has subscribed to.

        A level of a topic of MQTT is one of that address: `orders/new` is `orders.new`.
        """
        if not self._fills_a_subscription:
            return self.queue
        return address(self.planned.adapter.file.protocols[self.planned.protocol].destination, self.queue).replace(
            "/", "."
        )

    def _tolerances(self, work: Work, wanted: Tolerances) -> Tolerances:
        script = self.planned.script
        limited = not describe(self.planned.protocol).traits.refusal_names_send and "max_length" in dict(script.queue)
        bound = LIVENESS_FACTOR * self.slowest_s if isinstance(work.step, Drain) and not work.collects else 0.0
        return msgspec.structs.replace(
            wanted,
            refused=bool(script.queue or getattr(work.step, "may_be_refused", False)),
            absent=not (script.declared or script.subscribed),
            cut_off=TURNED_AWAY in script.of_client or limited,
            liveness_s=max(wanted.liveness_s, bound),
        )

    def _producer(self, step: ClientStep) -> int:
        """Return the number under which a client sends: consumers that send have their own, beside publishers."""
        if isinstance(step, Consume):
            self._consumers += step.receivers
            return _CONSUMERS + self._consumers - step.receivers + 1
        self._publishers += isinstance(step, Publish)
        return max(self._publishers, 1)

    def _resumed(self, step: ClientStep, queue: str) -> tuple[Unfinished, ...]:
        """Return, once, what the step goes on with: of each publisher since such a step, or of the session of a queue.

        Of publishers that is the last transaction, or the packets without a last answer.
        """
        if not isinstance(step, Publish):
            return self._taken.get(queue, ())
        if not step.resends:
            return ()
        found, self._sent = tuple(self._sent), []
        return found

    def _known(self, step: ClientStep) -> tuple[ClientStep, Asks]:
        """Return the step without requests that this broker does not know, and those that depend on it."""
        if isinstance(step, Publish):
            capabilities = self.planned.adapter.capabilities(self._protocol(step))
            if "ack_immediately" not in capabilities:
                step = msgspec.structs.replace(step, immediate_every=0)
            windows = "ranged_confirms" in capabilities
            return step, Asks(window=step.window, event_mode=step.ack_event_mode) if windows else Asks()
        mode = self.planned.adapter.file.ack_modes.get(step.mode, "") if isinstance(step, Consume) else ""
        return step, Asks(mode=mode)


def unarmed(job: Job) -> Job:
    """Return the job of a client that another trial's fault meets."""
    step = job.work.step
    if isinstance(step, Publish | Consume):
        step = msgspec.structs.replace(step, until=None)
    tolerances = msgspec.structs.replace(job.tolerances, broker_may_end=True)
    return msgspec.structs.replace(job, work=msgspec.structs.replace(job.work, step=step), tolerances=tolerances)


def offer_words(adapter: Adapter, setting: str) -> list[str]:
    """Return the words of the command line that give the broker the setting `name=value`."""
    name, _, value = setting.partition("=")
    return [fill(word, {"name": name, "value": value}) for word in adapter.file.start.offer]


def connection_to(
    service: Service,
    protocol: str,
    network: Callable[[Address], Address] = lambda address: address,
    *,
    client: str = "library",
    vendor: Vendor | None = None,
    connect_s: float = CONNECT_S,
) -> Connection:
    """Return how a client reaches this service of a broker over the protocol."""
    return Connection(
        addresses=(network(service.endpoint(protocol)),),
        protocol=protocol,
        client=client,
        access=service.access(protocol),
        vendor=vendor,
        connect_s=connect_s,
    )


def dialect_of(adapter: Adapter, protocol: str, *, copying: bool = False) -> Dialect:
    """Return how this broker speaks the protocol, to clients whose sends go to one queue each, or are `copying`."""
    speaks = adapter.file.protocols[protocol]
    own = speaks.options.copying() if copying else speaks.options
    return Dialect(
        ack_confirm=speaks.ack_confirm or NEVER,
        singly="individual_ack" in adapter.capabilities(protocol),
        destination=speaks.destination,
        answers_at_commit=own.answers_at_commit,
        own=msgspec.structs.asdict(own),
    )


def vendor_of(
    adapter: Adapter,
    protocol: str,
    settings: EffectiveSettings,
    client: str,
    prefetch: int,
    *,
    asynchronous: bool = False,
    goes_on: bool = False,
) -> Vendor | None:
    """Describe the vendor's client of that name, whose jars are installed, for a worker process; None for no name.

    It has no transactions if the broker has none: RabbitMQ 3.10.8 never answers a client that asks for one.
    """
    if not client:
        return None
    file = vendor_clients.find(client)
    without = set() if "transactions" in adapter.capabilities(protocol) else {"transacted"}
    asynchronous = asynchronous and file.asynchronous is not False
    return Vendor(
        name=file.name,
        api=file.api,
        factory=file.factory,
        url=file.url(
            prefetch,
            vendor_clients.address_parameters(adapter.file, settings),
            asynchronous=asynchronous,
            several=goes_on,
        ),
        jars=tuple(map(str, file.install(offline=True))),
        modes={mode: number for mode, number in file.modes.items() if mode not in without},
        lost=file.lost,
        asynchronous=asynchronous,
        properties=dict(file.properties),
        java=file.java,
        setter=file.setter,
        individual=file.individual,
    )


def depth_probe(broker: Broker, queue: str, topic: str = "") -> DepthProbe:
    """Describe how a client asks for a depth, which may need another protocol than its own.

    With a `topic`, the queue is a durable subscription of it.
    """
    return reachable(broker, broker.service.depth_probe(queue, topic))


def reachable(broker: Broker, probe: DepthProbe) -> DepthProbe:
    """Return the probe with the address and the credentials for it."""
    if probe.method == "command":
        return probe
    if probe.method == "http":
        return msgspec.structs.replace(probe, access=broker.service.access("http"))
    asked = protocol_of_depth(probe.method)
    host, port = broker.service.endpoint(asked)
    return msgspec.structs.replace(probe, host=host, port=port, access=broker.service.access(asked))
