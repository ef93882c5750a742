"""Ask a broker for its retained messages, on topics below that of the trial's queue, to which no session subscribes.

What is retained belongs to no session: one connection sets it, and another one looks for it and ends it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping

from conformance.clients.session import ANSWER_S, QuestionResult, pump_until
from conformance.history import CONFORMANCE_ID
from conformance.protocols.mqtt import packets
from conformance.protocols.mqtt.packets import Answer, PublishPacket
from conformance.protocols.mqtt.sessions.connection import MqttConnection

_TOPICS = 40
_QUIET_S = 1.0
"""Within this a broker sends what else it has for a new subscription."""

Opens = Callable[[str, Callable[[int, PublishPacket | Answer], None]], MqttConnection]
"""Connect under a name, in a session that ends with the connection; the other argument hears what comes."""


class _Client:
    """A connection, with the messages that came, each acknowledged, and the answers by packet identifier."""

    def __init__(self, opens: Opens, name: str) -> None:
        self.messages: list[PublishPacket] = []
        self._answers: dict[int, Answer] = {}
        self.connection = opens(name, self._hear)

    def publish(self, topic: str, body: str, *, retain: bool = True) -> QuestionResult:
        """Publish with QoS 1; whether the broker took it."""
        number = self.connection.publish(topic, {}, body.encode(), 1, retain=retain)
        pump_until(self.connection.pump, lambda: number in self._answers, ANSWER_S)
        answer = self._answers.get(number)
        said = packets.said(answer.reasons[0], answer.properties) if answer else "no answer"
        taken = answer is not None and answer.reasons[0] < packets.REFUSED
        return QuestionResult(f"PUBLISH of {body!r} to {topic}{' with RETAIN' if retain else ''}", taken, said)

    def wait(self, many: int) -> None:
        """Wait for so many messages, and then for more."""
        pump_until(self.connection.pump, lambda: len(self.messages) >= many, ANSWER_S)
        pump_until(self.connection.pump, lambda: False, _QUIET_S)

    def found(self, topic: str, expected: tuple[str, ...]) -> QuestionResult:
        """Whether these came from a topic, as retained messages."""
        here = [each for each in self.messages if each.topic == topic]
        came = tuple(each.body.decode(errors="replace") or each.texts.get(CONFORMANCE_ID, "") for each in here)
        result = ", ".join(repr(body) for body in came) or "nothing"
        unmarked = [each for each in here if not each.retain]
        holds = came == expected and not unmarked
        return QuestionResult(f"new subscription to {topic}", holds, result + " without RETAIN" * bool(unmarked))

    def _hear(self, _kind: int, found: PublishPacket | Answer) -> None:
        if isinstance(found, Answer):
            self._answers[found.number] = found
            return
        self.messages.append(found)
        if found.qos:
            kind = packets.PUBACK if found.qos == 1 else packets.PUBREC
            self.connection.put(packets.acknowledge(kind, found.number))


def _topics(topic: str) -> list[str]:
    return [f"{topic}/{number}" for number in range(1, _TOPICS + 1)]


def _set(opens: Opens, topic: str) -> Iterator[QuestionResult]:
    publisher = _Client(opens, "retains")
    for each in _topics(topic):
        yield publisher.publish(each, "kept")
    publisher.connection.close()


def _look(opens: Opens, filters: Iterable[str], expected: Mapping[str, tuple[str, ...]]) -> Iterator[QuestionResult]:
    """Look for what new subscriptions get, and then end what is retained."""
    subscriber = _Client(opens, "subscribes")
    for each in filters:
        subscriber.connection.subscribe(each)
    subscriber.wait(sum(map(len, expected.values())))
    yield from [subscriber.found(each, bodies) for each, bodies in expected.items()]
    subscriber.connection.close()
    publisher = _Client(opens, "ends")
    for each in expected:
        publisher.publish(each, "")
    publisher.connection.close()


def _kept(opens: Opens, topic: str) -> Iterator[QuestionResult]:
    yield from _look(opens, _topics(topic), dict.fromkeys(_topics(topic), ("kept",)))


def _last(opens: Opens, topic: str, *, wildcard: bool = False) -> Iterator[QuestionResult]:
    """A quarter of the topics is retained again, of one retains nothing more, and one is ended."""
    yield from _set(opens, topic)
    publisher, topics = _Client(opens, "retains"), _topics(topic)
    quarter = _TOPICS // 4
    again, passing, ended = topics[:quarter], topics[quarter : 2 * quarter], topics[2 * quarter : 3 * quarter]
    yield from [publisher.publish(each, "last") for each in again]
    yield from [publisher.publish(each, "passing", retain=False) for each in passing]
    yield from [publisher.publish(each, "") for each in ended]
    publisher.connection.close()
    expected = dict.fromkeys(topics, ("kept",)) | dict.fromkeys(again, ("last",)) | dict.fromkeys(ended, ())
    yield from _look(opens, [f"{topic}/+"] if wildcard else topics, expected)


QUESTIONS: Mapping[str, Callable[[Opens, str], Iterator[QuestionResult]]] = {
    "are messages retained": _set,
    "are retained messages still there": _kept,
    "does a new subscription get the last retained message": _last,
    "does a wildcard get the last retained messages": functools.partial(_last, wildcard=True),
}
"""The questions of the script step `Ask`; `mqtt.PROTOCOL` lists them."""
