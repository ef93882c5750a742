"""What a broker's file says about MQTT: with which quality of service its publishers send."""

from __future__ import annotations

from typing import Literal

from typing_extensions import override

from conformance.protocols.options import Outcome, ProtocolOptions


class MqttOptions(ProtocolOptions, frozen=True, kw_only=True):
    """`qos` is the quality of service of what publishers send: 1 (PUBACK confirms) or 2 (PUBCOMP confirms)."""

    qos: Literal[1, 2] = 1

    @property
    @override
    def outcomes(self) -> tuple[Outcome, ...]:
        """A PUBACK, and no other: MQTT has no way to give a message back."""
        return ("accepted",)
