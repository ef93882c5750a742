"""Ask a broker what AMQP 0-9-1 forbids, or what a script has no step for, in a queue of this connection alone.

The answer is True if it is what the specification says. Where it asks for the end of a channel, the end of the
connection is that too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pika import spec

from conformance.clients.session import QuestionResult, Refused
from conformance.protocols.amqp091.sessions.connection import Amqp091Connection, Content

_GETS = 120
"""Messages that basic.get must find: more than the period of a broker that hides one in a hundred."""


def _closed(connection: Amqp091Connection, channel: int, call: str, method: Any, answer: type | None) -> QuestionResult:
    """Whether the broker closes the channel for `method`. Without an `answer` of its own, the next request shows it."""
    try:
        if answer is not None:
            connection.ask(channel, method, answer)
        else:
            connection.put(channel, method)
            connection.ask(channel, spec.Basic.Qos(prefetch_count=1), spec.Basic.QosOk)
            connection.ask(channel, spec.Basic.Qos(prefetch_count=0), spec.Basic.QosOk)
    except Refused as error:
        return QuestionResult(call, True, str(error))
    return QuestionResult(call, False, f"the channel goes on after {method.NAME}")


def _queue(connection: Amqp091Connection, messages: int) -> tuple[int, str]:
    """Return a channel, and the name of a queue of this connection that holds so many confirmed messages."""
    channel = connection.open_channel()
    queue = connection.ask(channel, spec.Queue.Declare(exclusive=True), spec.Queue.DeclareOk).queue
    connection.ask(channel, spec.Confirm.Select(), spec.Confirm.SelectOk)
    publish, content = spec.Basic.Publish(routing_key=queue, mandatory=True), Content(spec.BasicProperties(), b"x")
    for _ in range(messages):
        connection.ask(channel, publish, spec.Basic.Ack, content=content)
    return channel, queue


def _unknown_tag(connection: Amqp091Connection) -> Iterator[QuestionResult]:
    unknown = spec.Basic.Ack(delivery_tag=7)
    yield _closed(connection, connection.open_channel(), "basic.ack of what was not delivered", unknown, None)
    if connection.ended:
        return
    channel, queue = _queue(connection, 1)
    found = connection.ask(channel, spec.Basic.Get(queue=queue), spec.Basic.GetOk)
    again = spec.Basic.Ack(delivery_tag=found.delivery_tag)
    connection.put(channel, again)
    yield _closed(connection, channel, "basic.ack, a second time", again, None)


def _commit(connection: Amqp091Connection) -> Iterator[QuestionResult]:
    channel = connection.open_channel()
    yield _closed(connection, channel, "tx.commit without tx.select", spec.Tx.Commit(), spec.Tx.CommitOk)


def _get(connection: Amqp091Connection) -> Iterator[QuestionResult]:
    channel, queue = _queue(connection, _GETS)
    for left in range(_GETS, 0, -1):
        found = connection.ask(channel, spec.Basic.Get(queue=queue), spec.Basic.GetOk, spec.Basic.GetEmpty)
        call = f"basic.get with {left} of {_GETS} messages in the queue"
        yield QuestionResult(call, isinstance(found, spec.Basic.GetOk), found.NAME)
        if isinstance(found, spec.Basic.GetEmpty):
            return
        connection.put(channel, spec.Basic.Ack(found.delivery_tag))


QUESTIONS: Mapping[str, Callable[[Amqp091Connection], Iterator[QuestionResult]]] = {
    "is an acknowledgement of nothing an error": _unknown_tag,
    "is a commit without transactions an error": _commit,
    "does basic.get find what a queue holds": _get,
}
"""The questions of the script step `Ask`; `amqp091.PROTOCOL` lists them."""
