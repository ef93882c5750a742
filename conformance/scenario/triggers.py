"""When a fault comes: numbers that a seed draws, and the events and times that fire it.

A trigger belongs to the process that sees its event: `Nth`, `After`, `FileRemoved` and `All` to a client, `Frame` to
the link between a client and the broker, `Recovery` to the harness that starts the broker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from conformance.errors import FaultError


class Between(msgspec.Struct, frozen=True):
    """A number that the trial's seed draws, both ends included."""

    low: int
    high: int


Count = Annotated[int, msgspec.Meta(ge=1)]
Above0 = Annotated[float, msgspec.Meta(gt=0)]
Drawn = Count | Between
"""A number from 1 on. `Between` until the seed of a trial has drawn it (`drawn`), an int after that (`fixed`)."""

DrawnWait = Annotated[int, msgspec.Meta(ge=0)] | Between


def fixed_number(number: int | Between) -> int:
    """Return a number of a drawn script; raise `FaultError` if no seed has drawn it."""
    if isinstance(number, Between):
        raise FaultError(f"a fault cannot be armed: its number was not drawn: {number}")
    return number


def tag_of(of_class: str) -> str:
    """Return the name of a class in JSON, as `power_loss`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", of_class).lower()


class _Trigger(msgspec.Struct, frozen=True, tag_field="trigger", tag=tag_of):
    pass


ClientEvent = Literal[
    "sent",
    "confirm",
    "received",
    "released",
    "returned",
    "confirm_immediate",
    "confirm_range",
    "process",
    "ack_written",
    "ack",
    "before_commit",
    "commit_written",
    "committed",
]


class Nth(_Trigger, frozen=True):
    """A trigger: the k-th event of one client process.

    `event` is one of `sent` (a send was written), `received` (it was received, by a PUBREC of MQTT, and is not
    released before the fault, which ends the broker), `released` (its PUBREL was written, or has come to a consumer),
    `confirm` (a send was answered), `returned` (a send was answered, and the next one is not sent before the fault),
    `confirm_immediate` (the send had asked for Ack Immediately), `confirm_range` (one answer has covered several
    sends), `process` (a processing has begun), `ack_written` (an acknowledgement, or a refusal, was written), `ack` (it
    was answered), `before_commit` (everything of a transaction but the request has left), `commit_written` (the request
    has left too) and `committed` (it was answered).
    """

    event: ClientEvent
    k: Drawn

    @property
    def number(self) -> int:
        return fixed_number(self.k)


class After(_Trigger, frozen=True):
    """A trigger: so many milliseconds after the client has begun."""

    ms: DrawnWait

    @property
    def number(self) -> int:
        return fixed_number(self.ms)


class FileRemoved(_Trigger, frozen=True):
    """A trigger: the k-th file of the journal that the broker removes once the client has begun, as in a compaction."""

    k: Drawn

    @property
    def number(self) -> int:
        return fixed_number(self.k)


Part = Nth | After | FileRemoved
"""A trigger of one event or time."""


class All(_Trigger, frozen=True):
    """A trigger: each of these has happened in the same client process. The last of them fires the fault."""

    parts: tuple[Part, ...]


class OneOf(_Trigger, frozen=True):
    """One of these triggers: the trial's seed draws which.

    A kill that is always tied to the same event always comes at the same moment of the broker's work.
    """

    options: tuple[Part | All, ...]


class Frame(_Trigger, frozen=True):
    """A trigger: the k-th frame of that kind on the link, `before` it is passed on, in the `middle` of it, or `after`.

    `kind` names frames of both protocols: `send` (SEND, or a transfer to the broker), `answer` (to a send or an
    acknowledgement: RECEIPT, or a disposition from the broker), `deliver` (MESSAGE, or a transfer to the client),
    `acknowledge` (ACK, or a disposition to the broker), `received`, `release` and `complete` (with QoS 2 of MQTT the
    PUBREC of the broker, and the PUBREL and PUBCOMP of the client), `begin`, `commit` and `rollback` (BEGIN, COMMIT and
    ABORT, or declare and discharge), and `begin_answer`, `commit_answer` and `rollback_answer`. Of a message in several
    frames the first counts, or with `last` its last one.
    """

    kind: Literal[
        "send",
        "answer",
        "deliver",
        "acknowledge",
        "received",
        "release",
        "complete",
        "begin",
        "commit",
        "rollback",
        "begin_answer",
        "commit_answer",
        "rollback_answer",
    ]
    k: Drawn
    at: Literal["before", "middle", "after"] = "after"
    last: bool = False


class Recovery(_Trigger, frozen=True):
    """A trigger: the k-th access to a file of the journal, by a broker that is starting and not yet ready."""

    k: Drawn


Trigger = Part | All | OneOf


def parts_of(trigger: Trigger | Recovery) -> tuple[Part, ...]:
    """Return the events and times that must all have happened in one client; raise `FaultError` if it has none."""
    if isinstance(trigger, Recovery):
        raise FaultError("a fault cannot be armed: no client sees the recovery of a broker")
    if isinstance(trigger, OneOf):
        raise FaultError(f"a fault cannot be armed: its trigger was not drawn: {trigger}")
    return trigger.parts if isinstance(trigger, All) else (trigger,)


def leaves(trigger: object) -> Iterator[object]:
    """Yield every event and time of a trigger, also those that the seed may draw."""
    if isinstance(trigger, All | OneOf):
        for each in trigger.parts if isinstance(trigger, All) else trigger.options:
            yield from leaves(each)
    else:
        yield trigger


def waits_for_answered_ack(trigger: object) -> bool:
    """Whether the trigger may count answers to acknowledgements."""
    return any(isinstance(each, Nth) and each.event == "ack" for each in leaves(trigger))


def largest(trigger: Trigger | Recovery) -> int:
    """Return the largest number of a client's trigger, for people."""
    return max(part.number for part in parts_of(trigger))
