"""The session of the suite over MQTT 3.1.1. Only client processes import it."""

from __future__ import annotations

from typing import ClassVar

from conformance.protocols.mqtt import packets
from conformance.protocols.mqtt.sessions.session import MqttSession


class Mqtt311Session(MqttSession):
    """The session of MQTT 5 with packets of 3.1.1."""

    level: ClassVar[int] = packets.MQTT_311


SESSIONS = {"library": Mqtt311Session}
