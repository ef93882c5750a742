"""Read the packets of one MQTT connection, from outside (MQTT 5, chapters 2 and 3; 3.1.1 has no properties).

One `LinkFrame` is one packet. Its fields:

- `name` is the name in the standard, for example `PUBLISH`. `detail` begins with it.
- `delivery` is the packet identifier, by which an answer names its PUBLISH. Both directions count for themselves.
- The `detail` of a PUBLISH adds `qos=N`, `dup`, and `settled` for QoS 0, which has no answer. That of an answer adds
  its reason code if it is not 0, and `refused` from 0x80 on.

The acknowledgement of a consumer is its PUBACK, or with QoS 2 its PUBREC; the PUBREL of the broker is the answer to it.
The answer to a send is a PUBACK, a PUBCOMP, or a PUBREC that refuses it.

A PUBLISH is reported when its properties and the first word of its body have come. Other packets are short, and are
held back until they are complete.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from conformance.history import CONFORMANCE_ID, parse_message
from conformance.protocols import reader as frames
from conformance.protocols.mqtt import packets
from conformance.protocols.mqtt.packets import Head, Malformed
from conformance.protocols.reader import LinkFrame, Splitter, Unreadable

_WHOLE = 1 << 20
"""Most bytes that are held back: a packet other than a PUBLISH, or what stands before the body of one."""

_NUMBERED = (*packets.ACKS, packets.SUBSCRIBE, packets.SUBACK, packets.UNSUBSCRIBE, packets.UNSUBACK)


@dataclasses.dataclass
class _Shared:
    """What both directions of a connection must know: the `level` of the protocol, 5 or 4 (3.1.1)."""

    level: int = packets.MQTT_5


def readers() -> tuple[Splitter, Splitter]:
    """Return readers of both directions."""
    shared = _Shared()
    return _ToBroker(shared), _ToClient(shared)


class _Mqtt(Splitter):
    kinds: ClassVar[Mapping[int, str]]

    def __init__(self, shared: _Shared) -> None:
        super().__init__()
        self._shared = shared

    def _frame(self, data: bytes | bytearray, at: int, end: int, offset: int) -> LinkFrame | None:
        try:
            head = packets.head(data, at, end)
            if head is None:
                return None
            here, stop = at + head.size, at + head.length
            if head.kind == packets.PUBLISH:
                return self._publish(head, data, here, stop, end, offset)
            if head.length > _WHOLE:
                raise Malformed(f"a {packets.NAMES[head.kind]} of {head.length} bytes")
            return None if stop > end else self._other(head, data, here, stop, offset)
        except (Malformed, IndexError) as error:
            raise Unreadable(str(error)) from error

    def _publish(
        self, head: Head, data: bytes | bytearray, at: int, stop: int, end: int, offset: int
    ) -> LinkFrame | None:
        came = min(stop, end)
        before = self._before_body(head, data, at, came)
        if before is None or (came < stop and came - before < packets.FIRST_WORD):
            if before is None and came == stop:
                raise Malformed("a PUBLISH that is shorter than its head")
            if before is None and came - at > _WHOLE:
                raise Malformed(f"a PUBLISH with more than {_WHOLE} bytes before its body")
            return None
        number, message = 0, None
        qos = head.flags >> 1 & 3
        topic = int.from_bytes(data[at : at + 2])
        if qos:
            number = int.from_bytes(data[at + 2 + topic : at + 4 + topic])
        if self._shared.level >= packets.MQTT_5:
            found, _ = packets.properties(data, at + 2 + topic + (2 if qos else 0), before)
            message = _ours(packets.user_properties(found).get(CONFORMANCE_ID, ""))
        if message is None:
            word = packets.first_word(bytes(data[before : min(before + packets.FIRST_WORD, came)]))
            message = _ours(word.decode(errors="replace"))
        words = {"PUBLISH": True, f"qos={qos}": True, "dup": bool(head.flags & 8), "settled": not qos}
        return LinkFrame(
            offset,
            head.length,
            self.kinds[packets.PUBLISH],
            "PUBLISH",
            " ".join(word for word, true in words.items() if true),
            str(number) if number else None,
            message=message,
        )

    def _before_body(self, head: Head, data: bytes | bytearray, at: int, came: int) -> int | None:
        """Return where the body of a PUBLISH begins; None if too little of it has come."""
        if came - at < 2:
            return None
        at += 2 + int.from_bytes(data[at : at + 2]) + (2 if head.flags & 6 else 0)
        if self._shared.level < packets.MQTT_5:
            return at if at <= came else None
        found = packets.variable(data, at, came)
        if found is None or found[0] + found[1] > came:
            return None
        return found[0] + found[1]

    def _other(self, head: Head, data: bytes | bytearray, at: int, stop: int, offset: int) -> LinkFrame:
        name, words, number = packets.NAMES[head.kind], [], None
        reason = 0
        if head.kind == packets.CONNECT:
            self._shared.level = data[at + 2 + int.from_bytes(data[at : at + 2])]
        elif head.kind in _NUMBERED:
            if stop - at < 2:
                raise Malformed(f"a {name} without packet identifier")
            number = int.from_bytes(data[at : at + 2])
            reason = data[at + 2] if head.kind in packets.ACKS and stop - at > 2 else 0
        elif head.kind == packets.CONNACK and stop - at >= 2:
            reason = packets.refusal(data[at + 1])
            words += ["session present"] if data[at] & 1 else []
        elif head.kind == packets.DISCONNECT and stop > at:
            reason = data[at]
        words += [f"reason={reason:#04x}"] if reason else []
        words += ["refused"] if reason >= packets.REFUSED else []
        return LinkFrame(
            offset,
            head.length,
            self._kind(head.kind, reason),
            name,
            " ".join([name, *words]),
            None if number is None else str(number),
        )

    def _kind(self, packet: int, reason: int) -> str:
        return self.kinds.get(packet, frames.OTHER)


class _ToBroker(_Mqtt):
    kinds: ClassVar[Mapping[int, str]] = {
        packets.PUBLISH: frames.SEND,
        packets.PUBACK: frames.ACKNOWLEDGE,
        packets.PUBREC: frames.ACKNOWLEDGE,
        packets.PUBREL: frames.RELEASE,
        packets.PUBCOMP: frames.COMPLETE,
    }


class _ToClient(_Mqtt):
    kinds: ClassVar[Mapping[int, str]] = {
        packets.PUBLISH: frames.DELIVER,
        packets.PUBACK: frames.ANSWER,
        packets.PUBREC: frames.RECEIVED,
        packets.PUBCOMP: frames.ANSWER,
        packets.PUBREL: frames.ANSWER,
    }

    def _kind(self, packet: int, reason: int) -> str:
        """A PUBREC goes on with PUBREL and PUBCOMP, unless it refuses."""
        if packet == packets.PUBREC and reason >= packets.REFUSED:
            return frames.ANSWER
        return super()._kind(packet, reason)


def _ours(word: str) -> str | None:
    """Return a word if it is our message id: it is a user property, and the first word of the body."""
    return word if parse_message(word) else None
