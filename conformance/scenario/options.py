"""Options of a step that few scripts use: each is one field of the step, and one entry here that says all about it.

A further option costs its field and its entry. Only what stands in the message beside its application properties (a
priority, say) also needs a line in each session that can say it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from conformance.counting import ordinal
from conformance.history import parse_message
from conformance.scenario.needs import (
    ANOTHER_CONSUMER,
    ANOTHER_NODE,
    ANOTHER_PROTOCOL,
    DELAYED,
    DISORDERED,
    ENDS_ONE,
    EXACTLY_ONCE,
    FOR_TOPIC,
    GOES_ON,
    HOLDS,
    PEEKS,
    PRIORITY,
    PROPERTIES,
    RESENDS,
    SELECTS,
    TIME_TO_LIVE,
    TYPED,
    Need,
)
from conformance.scenario.script import ANOTHER, Consume, Publish
from conformance.scenario.selectors import SELECTORS, word

PARITY = "parity"
"""The property by which consumers select; the name is legal over every protocol."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepOption:
    """A field of a step that is used where it differs from its default.

    Args:
        field: The name of the field.
        says: How the report says it, of the step; empty if other words of the step say it.
        need: What it needs of the broker.
        of_client: What it needs of the client, which a vendor's client does not have.
        way: The word by which a claim may ask for it (`ways` of the catalogue); empty if none does.
        properties: The application properties that it gives to a message of the step (`p1:3`).
        unwritten: What no script outside the suite does because of it (`... is` not in it); empty if it does all.
    """

    field: str
    says: str | Callable[[Any], str] = ""
    need: Need | None = None
    of_client: Need | None = None
    way: str = ""
    properties: Callable[[str], Mapping[str, object]] | None = None
    unwritten: str = ""


def parity(message: str) -> str:
    """Return the parity of a message's number; empty for a message that no publisher of a trial sent.

    >>> parity("p1:3"), parity("p1:4"), parity("foreign:1")
    ('odd', 'even', '')
    """
    parsed = parse_message(message)
    return ("even", "odd")[parsed[1] % 2] if parsed else ""


def headers(message: str) -> dict[str, object]:
    """Return application properties of each type that all protocols can say; STOMP says each as a text.

    `signs` are those that STOMP 1.2 escapes in a header (Value Encoding).

    >>> sorted(headers("p1:3"))
    ['empty', 'large', 'number', 'part', 'signs', 'text', 'truth', 'word']
    """
    number = (parse_message(message) or (0, 0))[1]
    texts = {"text": "zwölf \U0001d11e", "empty": "", "signs": "a\\b:c\rd\ne", "word": word(number)}
    return texts | {"truth": True, "number": number, "large": 1 << 40, "part": 0.5}


def as_text(value: object) -> str:
    """Return how a protocol that has only text says the value of a property.

    >>> as_text(True), as_text(7), as_text(0.5)
    ('true', '7', '0.5')
    """
    if isinstance(value, bool):
        return str(value).lower()
    return format(value, "d") if isinstance(value, int) else str(value)  # str of proton's int32(7) is not its digits


def _over(step: Publish | Consume) -> str:
    return "over another protocol on the same queues" if step.over == ANOTHER else f"over {step.over}"


_LATE = "transactions that are sent again, or committed before their answers, are"
_LOOKS_ON = "a receiver that looks on while others publish, or sends without an answer, are"
_WINDOWS = "a publish window that the broker knows is"

OVER = StepOption(field="over", says=_over, need=ANOTHER_PROTOCOL, unwritten="clients of two protocols are")
CONSUMES_OVER = dataclasses.replace(OVER, need=ANOTHER_CONSUMER)

OF_PUBLISH: tuple[StepOption, ...] = (
    OVER,
    StepOption(
        field="hurries",
        unwritten=_LATE,
        says="the request to commit follows at once, and all answers are read together",
    ),
    StepOption(
        field="every_ms",
        says=lambda step: f"{'a transaction' if step.batch else 'a send'} is due every {step.every_ms:g} ms",
    ),
    StepOption(
        field="peek",
        says="a receiver waits on the queue and takes what becomes available",
        of_client=PEEKS,
        unwritten=_LOOKS_ON,
    ),
    StepOption(
        field="lives_ms",
        says=lambda step: f"each lives for {step.lives_ms:,} ms",
        need=TIME_TO_LIVE,
        way="time_to_live",
    ),
    StepOption(
        field="delay_ms",
        says=lambda step: f"each may be delivered {step.delay_ms:,} ms after its send",
        need=DELAYED,
        way="delivery_delay",
        unwritten="messages with a delivery delay are",
    ),
    StepOption(
        field="priority",
        says=lambda step: f"each has the priority {step.priority}",
        need=PRIORITY,
        way="message_priority",
        unwritten="messages with a priority are",
    ),
    StepOption(
        field="unasked_every",
        says=lambda step: f"every {ordinal(step.unasked_every)} asks for no answer",
        unwritten=_LOOKS_ON,
    ),
    StepOption(
        field="ack_event_mode",
        says=lambda step: (
            f"the broker gets that window, and is asked for {step.ack_event_mode.upper()} acknowledgement events"
        ),
        unwritten=_WINDOWS,
    ),
    StepOption(
        field="immediate_every",
        says=lambda step: f"every {ordinal(step.immediate_every)} asks for Ack Immediately",
        unwritten=_WINDOWS,
    ),
    StepOption(field="resends", of_client=RESENDS, unwritten=_LATE),
    StepOption(
        field="exactly_once",
        says="each is sent exactly once",
        need=EXACTLY_ONCE,
        way="exactly_once",
        unwritten="sends that are to arrive exactly once are",
    ),
    StepOption(field="queues", unwritten="a publisher that sends to several queues is"),
    StepOption(field="correlates"),
    StepOption(field="for_topic", need=FOR_TOPIC),
    StepOption(
        field="headers",
        says="each has application properties of several types",
        need=PROPERTIES,
        properties=headers,
    ),
    StepOption(
        field="nulls",
        says="each has an application property without a value",
        need=TYPED,
        properties=lambda _message: {"nothing": None},
    ),
    StepOption(
        field="node",
        says=lambda step: f"the client is connected to {step.node} node",
        need=ANOTHER_NODE,
        unwritten="a client at another node is",
    ),
    StepOption(
        field="goes_on",
        says="the client knows all nodes, and goes on at another one by itself",
        need=GOES_ON,
        unwritten="a client that goes on at another node is",
    ),
    StepOption(field="parity", need=PROPERTIES, properties=lambda message: {PARITY: parity(message)}),
)

OF_CONSUME: tuple[StepOption, ...] = (
    CONSUMES_OVER,
    StepOption(
        field="rollback_every",
        says=lambda step: f"roll back every {ordinal(step.rollback_every)}",
        unwritten="rollbacks are",
    ),
    StepOption(
        field="forwards",
        says="send as many new messages in the same transaction",
        unwritten="sends in the transactions of a consumer are",
    ),
    StepOption(
        field="refuse",
        says=lambda step: (
            f"give every {ordinal(step.refuse_every)} new message back, in turn as {', '.join(step.refuse)}"
        ),
        unwritten="deliveries that are given back are",
    ),
    StepOption(
        field="hold",
        says="when the prefetch is used up, wait for more before acknowledging",
        of_client=HOLDS,
        unwritten="a wait for more before acknowledging is",
    ),
    StepOption(
        field="backwards",
        says=lambda step: f"wait until {step.backwards} are processed, and acknowledge the last one first",
        need=DISORDERED,
        unwritten="acknowledgements from the last one to the first are",
    ),
    StepOption(field="receives", says="call receive() for each", unwritten="calls of receive() are"),
    StepOption(
        field="on_session",
        says="call acknowledge() on the session",
        unwritten="calls of acknowledge() on the session are",
    ),
    StepOption(
        field="work_ms",
        says=lambda step: f"each processing takes {step.work_ms} ms",
        unwritten="a processing that takes its time is",
    ),
    StepOption(field="stop", says=lambda step: f"stop after the {ordinal(step.stop)} delivery"),
    StepOption(
        field="renews",
        says=lambda step: f"after the {ordinal(step.renews)} delivery, give no more credit",
        unwritten="credit that is not given back is",
    ),
    StepOption(field="until_silent", says="stop when no more messages come"),
    StepOption(
        field="from_queue",
        says=lambda step: f"receive from the {ordinal(step.from_queue + 1)} queue",
        unwritten="a consumer of another queue than the first is",
    ),
    StepOption(field="ends", of_client=ENDS_ONE),
    StepOption(
        field="selects",
        says=lambda step: f"select by {SELECTORS[step.selects].text}",
        need=SELECTS,
        unwritten="a consumer with a selector is",
    ),
)

_OF: Mapping[type, tuple[StepOption, ...]] = {Publish: OF_PUBLISH, Consume: OF_CONSUME}


def options_of(step: object) -> Iterator[StepOption]:
    """Yield the options that a step uses, in the order in which its sentence says them."""
    return (option for option in _OF.get(type(step), ()) if _is_used(step, option))


def _is_used(step: object, option: StepOption) -> bool:
    return bool(getattr(step, option.field) != _DEFAULTS[type(step), option.field])


def phrases(step: object) -> list[str]:
    """Return what the options of a step add to its sentence."""
    said = (option.says if isinstance(option.says, str) else option.says(step) for option in options_of(step))
    return [words for words in said if words]


_GIVING = [(option, option.properties) for option in OF_PUBLISH if option.properties]
"""Those that give a message properties: asked for each message, so without the others."""


def properties(step: Publish | None, message: str) -> dict[str, object]:
    """Return the application properties of a message of a step."""
    found: dict[str, object] = {}
    for option, of_message in _GIVING if step else ():
        found |= of_message(message) if _is_used(step, option) else {}
    return found


def are_altered(
    sent: Mapping[str, object], came: Mapping[str, object], say: Callable[[object], object] = lambda value: value
) -> bool:
    """Whether a property that was sent is missing in what came, or has another value or type.

    One without a value may be left out.

    >>> are_altered({"truth": True}, {"truth": 1}), are_altered({"n": 7}, {"n": "7", "more": ""}, as_text)
    (True, False)
    """
    said = ((name, say(value)) for name, value in sent.items() if value is not None)
    return any(
        name not in came or came[name] != value or isinstance(came[name], bool) != isinstance(value, bool)
        for name, value in said
    )


_DEFAULTS: Mapping[tuple[type, str], object] = {
    (kind, field.name): field.default for kind in _OF for field in msgspec.structs.fields(kind)
}
