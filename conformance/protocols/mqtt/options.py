"""What a broker's file says about MQTT: nothing beside what every protocol has."""

from __future__ import annotations

from typing_extensions import override

from conformance.protocols.options import Outcome, ProtocolOptions


class MqttOptions(ProtocolOptions, frozen=True, kw_only=True):
    """MQTT has no keys of its own."""

    @property
    @override
    def outcomes(self) -> tuple[Outcome, ...]:
        """A PUBACK, and no other: MQTT 5 has no way to give a message back."""
        return ("accepted",)
