"""Retained messages of MQTT: the last one of each topic, for the subscriptions to come (5.0, section 3.3.1.3).

Each is a note in the journal, so that it is stored in one record with what the PUBLISH has put into queues. A note has
little room: a retained message of more is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.core.effects import Effect
from conformance.reference.core.sections import Parsed
from conformance.reference.mqtt import message
from conformance.reference.mqtt.codec import QUOTA, MqttError, ServerPublish
from conformance.reference.mqtt.topics import matches

_RETAINED = b"\0t"
"""How the key of the note of a topic begins."""

_HEAD = struct.Struct(">?Q")
_MOST = 0xFFFF


class _Kept(NamedTuple):
    """A retained message; `expires_ms` is its end since the epoch, 0 for none."""

    durable: bool
    expires_ms: int
    bare: bytes


class Retained:
    """Those of one broker."""

    def __init__(self, broker: ReferenceBroker) -> None:
        self._broker = broker
        self._kept: dict[str, _Kept] = {}

    def restore(self, notes: dict[bytes, bytes]) -> None:
        """Take the retained messages out of what a start has found."""
        mine = {key: notes.pop(key) for key in list(notes) if key.startswith(_RETAINED)}
        for key, value in mine.items() if self._broker.behaviour.restores_retained else ():
            durable, expires_ms = _HEAD.unpack_from(value)
            self._kept[key[len(_RETAINED) :].decode()] = _Kept(durable, expires_ms, value[_HEAD.size :])

    def take(self, packet: ServerPublish, parsed: Parsed) -> list[Effect]:
        """What a PUBLISH changes, if it has RETAIN; one without a body ends the retained message of its topic.

        Raises `MqttError` where there is no room for it.
        """
        if not packet.retain:
            return []
        key, notes = _RETAINED + packet.topic.encode(), self._broker.notes
        if not packet.body:
            dropped = notes.drop(key)
            return [effect._replace(apply=lambda: self._forget(packet.topic)) for effect in dropped]
        if not self._broker.behaviour.replaces_retained and packet.topic in self._kept:
            return []
        ends_ms = self._broker.now_ms() + parsed.ttl_ms if parsed.ttl_ms else 0
        kept = _Kept(parsed.durable, ends_ms, parsed.bare)
        value = _HEAD.pack(*kept[:2]) + kept.bare
        if len(value) > _MOST or (packet.topic not in self._kept and len(self._kept) >= self._limit):
            raise MqttError(QUOTA, f"a retained message of {len(value)} bytes beside {len(self._kept)} others")
        return [notes.keep(key, value)._replace(apply=lambda: self._kept.update({packet.topic: kept}))]

    def matching(self, name: str) -> Iterator[Parsed]:
        """The messages for a new subscription, marked as retained."""
        for topic, kept in list(self._kept.items()):
            left_ms = kept.expires_ms and kept.expires_ms - self._broker.now_ms()
            if matches(name, topic) and left_ms >= 0:
                yield message.retained(kept.durable, kept.bare, left_ms)

    @property
    def _limit(self) -> int:
        return self._broker.settings.max_queues

    def _forget(self, topic: str) -> None:
        self._kept.pop(topic, None)
