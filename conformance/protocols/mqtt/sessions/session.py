"""MQTT: a queue of the suite is a session of the broker, and a consumer is a connection to that session.

The session has the name of its queue as client identifier, and subscribes to the topic of that name. It never expires,
unless the scenario says when. It has one connection at a time: a second one takes it over (section 3.1.4). So each
receiver is a connection of its own, and senders have another, whose session ends with it.

The session of a publisher of `exactly_once` outlives its connection, and so does what this side knows of the packets of
QoS 2 that are in use: `unfinished` is the session state of the client (section 4.1), which a later process goes on
with. There an identifier is finished by PUBCOMP. A consumer has a message once it has written PUBREC: until PUBREL,
another PUBLISH with that identifier on a later connection is the same message.

No broker says how many messages a session holds. This client finds out: it sends a marker to the topic. A broker that
delivers in order (section 4.6) has nothing left in the session when the marker comes back. The order is itself a claim,
so this client then waits for silence: Artemis 2.56.0 delivers the marker before messages that it takes back from the
connection before this one.

With QoS 1 a PUBACK acknowledges, and has no answer. With QoS 2 a PUBREC acknowledges, and PUBREL is its answer.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from typing_extensions import override

from conformance import limits
from conformance.clients.job import Job, OpenPacket, address, in_turn
from conformance.clients.roles.modes import AckHeader
from conformance.clients.session import OperationAnswer, QuestionResult, Received, SendOutcome, Session, pump_until
from conformance.errors import BrokenProtocolError, ClientError
from conformance.history import CONFORMANCE_ID, Op, Phase, parse_message
from conformance.protocols.mqtt import packets
from conformance.protocols.mqtt.options import MqttOptions
from conformance.protocols.mqtt.packets import Answer, PublishPacket
from conformance.protocols.mqtt.sessions.connection import MqttConnection, MqttLogin
from conformance.protocols.mqtt.sessions.questions import QUESTIONS
from conformance.scenario.options import as_text
from conformance.scenario.script import Nth, Publish

_MARKER = "marker-"
_MARKER_S, _MORE_S = 5.0, 1.0
_BUSY_S = 0.02

ABSENT = "the broker no longer had the session"
"""Said of a queue whose session is gone: its messages are gone with it."""


class _Delivery(NamedTuple):
    """What acknowledges a delivery."""

    number: int
    qos: int


class MqttSession(Session):
    """See `Session`. Every method is called from one thread. `level` is the version, as in `packets`."""

    level: ClassVar[int] = packets.MQTT_5

    def __init__(self, job: Job, before_write: Callable[[], None]) -> None:
        super().__init__(job, before_write)
        self._login = MqttLogin(job.connection.host, job.connection.port, job.connection.access)
        self._options = job.dialect.options(MqttOptions)
        self._lives_s = math.ceil(job.work.lives_ms / 1000)
        self._queues: list[str] = []
        self._sender: MqttConnection | None = None
        self._receivers: list[MqttConnection] = []
        self._watched: list[int] = []
        self._unconfirmed: dict[int, SendOutcome] = {}
        self._received: set[int] = set()  # those of them with a PUBREC
        self._released: dict[tuple[int, int], tuple[str, OperationAnswer | None]] = {}  # by receiver and number: PUBREC
        step, resumed = job.work.step, [each for each in job.work.resumes if isinstance(each, OpenPacket)]
        self._once = isinstance(step, Publish) and step.exactly_once
        self._resumed = {each.message: each for each in resumed} if self._once else {}
        self._known = {} if self._once else {each.number: each.message for each in resumed}
        self._released.update({(0, number): (message, None) for number, message in self._known.items()})
        at = job.fault.at if job.fault is not None and job.fault.ends_broker else None
        self._unreleased = at.number if isinstance(at, Nth) and at.event == "received" else 0
        self._receipts = 0
        self._marker = ""
        self._untruths = self._deliveries = self._came = 0

    # what roles call

    @override
    def attach_sender(self, queue: str) -> None:
        self._queues.append(queue)
        self._open_sender()

    @override
    def attach_receiver(self, queue: str, credit: int, subscription: AckHeader) -> None:
        """Connect to the session of the queue, and subscribe if the broker has none: the subscription is part of it."""
        if subscription is AckHeader.SETTLED:
            raise ClientError("a subscription of MQTT with QoS 0 keeps nothing for a client that is away")
        place = len(self._receivers)
        made = self._connect(queue, credit, lambda kind, found: self._on_receiver(place, kind, found))
        self._receivers.append(made)
        if not made.present:
            self.found = ABSENT
            self._released, self._known = {}, {}
            made.subscribe(address(self._job.dialect.source, queue))

    @override
    def end_receiver(self, receiver: int) -> None:
        """End the connection; what it has not acknowledged stays in the session."""
        self.incoming.end(receiver)
        self._receivers[receiver].close()

    @override
    def sendable(self) -> int:
        return self._sender.quota - len(self._unconfirmed) if self._sender else 0

    @override
    def send(
        self, message: str, body: bytes, *, durable: bool, transaction: str | None = None, immediate: bool = False
    ) -> None:
        if transaction is not None:
            raise _not_in_mqtt("transactions")
        queue = in_turn(self._queues, message)
        number = self._put(queue, message, body, 2 if self._once else self._options.qos)
        self._unconfirmed[number] = SendOutcome(message, Phase.OK, None)

    @override
    def unfinished(self) -> tuple[OpenPacket, ...]:
        taken = (OpenPacket(message, number, True) for (_, number), (message, _) in self._released.items())
        sent = (OpenPacket(each.message, n, n in self._received) for n, each in self._unconfirmed.items())
        return (*taken, *(sent if self._once else ()), *self._resumed.values())

    @override
    def acknowledge(
        self, covered: Sequence[Received], *, confirmed: bool = False, transaction: str | None = None
    ) -> None:
        """Acknowledge in the order of arrival, as MQTT-4.6.0-2 wants it."""
        if transaction is not None:
            raise _not_in_mqtt("transactions")
        for received in covered:
            handle: _Delivery = received.handle
            answer = OperationAnswer(Op.ACK, received.message, Phase.OK, delivery=received.delivery)
            if handle.qos == 2:
                self._released[received.receiver, handle.number] = received.message, answer if confirmed else None
            elif confirmed:
                raise ClientError("a PUBACK has no answer")
            if handle.qos:
                kind = packets.PUBREC if handle.qos == 2 else packets.PUBACK
                self._receivers[received.receiver].put(packets.acknowledge(kind, handle.number))

    @override
    def refuse(self, received: Received, outcome: str) -> None:
        raise _not_in_mqtt("refusals of a message")

    @override
    def begin(self, transaction: str) -> None:
        raise _not_in_mqtt("transactions")

    commit = rollback = begin

    @override
    def depth(self, queue: str) -> int | None:
        """Return how many messages came before a marker; 1 if neither they nor the marker came."""
        if not self._marker:
            self._open_sender()
            self._marker = f"{_MARKER}{time.monotonic_ns()}"
            self._unconfirmed[self._put(queue, self._marker, b"", 1)] = SendOutcome(self._marker, Phase.OK, None)
        pump_until(self.pump, lambda: bool(self.incoming) or not self._marker, _MARKER_S)
        if self.incoming:  # a window that is full holds the marker back
            pump_until(self.pump, lambda: not self._marker, _MORE_S)
        elif not self._marker:
            pump_until(self.pump, lambda: bool(self.incoming), _MORE_S)
        return max(len(self.incoming), bool(self._marker))

    @override
    def asked(self, question: str) -> list[QuestionResult]:
        """Return the answers to one of `QUESTIONS`; see `Session`."""
        topic = address(self._job.dialect.destination, self._job.work.queue)
        container = self._job.container
        return list(QUESTIONS[question](lambda name, hear: self._connect(f"{container}-{name}", 0, hear), topic))

    @override
    def pump(self, timeout_s: float | None) -> None:
        lines = self._lines
        if len(lines) == 1:
            lines[0].pump(timeout_s)
            return
        came = self._came
        for line in lines:
            line.pump(0)
        if self._came == came and timeout_s != 0:
            self._wait(lines, timeout_s)
            for line in lines:
                line.pump(0)

    @override
    def watch(self, descriptor: int) -> None:
        self._watched.append(descriptor)
        for line in self._lines:
            line.watch(descriptor)

    @override
    def close(self) -> None:
        for line in self._lines:
            line.close()

    # connections

    @property
    def _lines(self) -> list[MqttConnection]:
        ended = self.incoming.ended
        return [
            *([self._sender] if self._sender else []),
            *(line for place, line in enumerate(self._receivers) if place not in ended),
        ]

    def _connect(
        self, name: str, receive: int, on_packet: Callable[[int, PublishPacket | Answer], None]
    ) -> MqttConnection:
        made = MqttConnection(
            self._login,
            name,
            self.level,
            receive=receive,
            expiry_s=(self._job.work.session_expiry_s or packets.NEVER_EXPIRES) if receive else 0,
            on_packet=on_packet,
            before_write=self._before_write,
            connect_s=self._job.connection.connect_s,
        )
        for descriptor in self._watched:
            made.watch(descriptor)
        return made

    def _open_sender(self) -> MqttConnection:
        if self._sender is None:
            name = self._job.container if not self._once else self._kept_name()
            self._sender = self._connect(f"{name}-sender", packets.MOST if self._once else 0, self._on_sender)
            self.found = ABSENT if self._resumed and not self._sender.present else ""
        return self._sender

    def _kept_name(self) -> str:
        """Return the name of the session of a publisher; without packets to resume, it is a new one."""
        found = {(parse_message(message) or (0, 0))[0] for message in self._resumed} or {self._job.work.producer}
        if len(found) > 1:
            raise ClientError("one client cannot go on with the packets of several publishers")
        name = f"{self._job.header.trial}-{found.pop()}"
        if not self._resumed:
            self._connect(f"{name}-sender", 0, self._on_sender).close()
        return name

    def _wait(self, lines: Sequence[MqttConnection], timeout_s: float | None) -> None:
        """Wait for input on any of several connections."""
        poll = select.poll()
        for line in lines:
            poll.register(line.fileno(), select.POLLIN)
        for descriptor in self._watched:
            poll.register(descriptor, 0)
        if any(line.waits_to_write for line in lines):
            timeout_s = min(_BUSY_S if timeout_s is None else timeout_s, _BUSY_S)
        poll.poll(None if timeout_s is None else max(timeout_s, 0) * 1000)

    # what leaves

    def _put(self, queue: str, message: str, body: bytes, qos: int) -> int:
        assert self._sender is not None  # the caller has attached it
        texts = {CONFORMANCE_ID: message}
        texts |= {name: _text(value) for name, value in self._job.work.properties(message).items()}
        again = self._resumed.pop(message, None)
        if again is not None and again.answered:
            self._sender.put(packets.acknowledge(packets.PUBREL, again.number))
            self._received.add(again.number)
            return again.number
        to = address(self._job.dialect.destination, queue)
        number = self._sender.publish(to, texts, body, qos, again=again.number if again else 0, lives_s=self._lives_s)
        if number in self._unconfirmed:
            raise ClientError(f"packet identifier {number} is still in use, {limits.quote(len(self._unconfirmed))} are")
        return number

    # what arrives

    def _on_sender(self, kind: int, found: PublishPacket | Answer) -> None:
        """Read the answer to a send. A message for which there was no subscriber is in no queue."""
        self._came += 1
        if isinstance(found, PublishPacket) or kind == packets.PUBREL:
            raise BrokenProtocolError("a delivery to a client that has not subscribed")
        reason, name = found.reasons[0], packets.NAMES[kind]
        outcome = self._unconfirmed.get(found.number)
        if outcome is None:
            self._untrue(f"a {name} for packet {found.number}, which has no answer to come")
            return
        if kind == packets.PUBREC and reason < packets.REFUSED:
            self._received.add(found.number)
            self.reached.append("received")
            self._receipts += 1
            if self._sender is not None and self._receipts != self._unreleased:
                self._sender.put(packets.acknowledge(packets.PUBREL, found.number))
                self.reached.append("released")
            self._note_refusal(outcome, reason, found)
            return
        del self._unconfirmed[found.number]
        self._received.discard(found.number)
        # Before a PUBCOMP its message was accepted by PUBREC; in recovery 0x92 is no error (section 3.7.2.1).
        if kind != packets.PUBCOMP:
            self._note_refusal(outcome, reason, found)
        if outcome.message == self._marker:
            self._marker = "" if outcome.phase is Phase.FAIL else self._marker
        elif not outcome.message.startswith(_MARKER):
            self.outcomes.append(outcome)

    def _note_refusal(self, outcome: SendOutcome, reason: int, found: Answer) -> None:
        if reason >= packets.REFUSED or reason == packets.NOWHERE:
            outcome.phase, outcome.detail = Phase.FAIL, self._login.clean(packets.said(reason, found.properties))

    def _untrue(self, sentence: str) -> None:
        self._untruths += 1
        if self._untruths > limits.UNTRUE_RECEIPTS:
            raise ClientError(limits.limit_sentence("confirms that answer nothing", limits.UNTRUE_RECEIPTS, "pieces"))
        self.anomalies.append(sentence)

    def _on_receiver(self, receiver: int, kind: int, found: PublishPacket | Answer) -> None:
        self._came += 1
        if isinstance(found, PublishPacket):
            self._on_delivery(receiver, found)
        elif kind == packets.PUBREL:
            _, answer = self._released.pop((receiver, found.number), ("", None))
            self._known.pop(found.number, None)
            self._receivers[receiver].put(packets.acknowledge(packets.PUBCOMP, found.number))
            self.reached.append("released")
            self.answers.extend([answer] if answer else [])
        else:
            raise BrokenProtocolError(f"a {packets.NAMES[kind]} to a client that sends nothing")

    def _on_delivery(self, receiver: int, found: PublishPacket) -> None:
        if found.qos == 2 and not receiver and found.number in self._known:
            self._receivers[receiver].put(packets.acknowledge(packets.PUBREC, found.number))
            return
        texts = found.texts
        otherwise = texts.get(CONFORMANCE_ID) or f"foreign:{found.number}"
        name = self._job.work.known_by(texts, found.body, otherwise)
        handle = _Delivery(found.number, found.qos)
        self._deliveries += 1
        received = Received(
            message=name,
            body=found.body,
            count=None,
            first_acquirer=None,
            redelivered=found.again,
            delivery=str(self._deliveries),
            handle=handle,
            receiver=receiver,
            altered=self._job.work.are_altered(name, texts, _text),
        )
        if name.startswith(_MARKER):
            self.acknowledge([received])
            self._marker = "" if name == self._marker else self._marker
        elif receiver not in self.incoming.ended:
            self.incoming.append(received)


def _text(value: object) -> str:
    r"""Return the text of a property without control characters, which a broker may refuse (section 1.5.4).

    >>> _text("a\rb"), _text(True)
    ('a\\rb', 'true')
    """
    return "".join(repr(sign)[1:-1] if sign < " " else sign for sign in as_text(value))


def _not_in_mqtt(what: str) -> ClientError:
    return ClientError(f"MQTT has no {what}")
