"""MQTT 3.1.1: MQTT 5 without properties, and without reason codes for a PUBLISH.

A message cannot have application properties. A broker that does not take one can only close the connection (3.1.1,
MQTT-3.3.5-2), and a client cannot say how many messages it takes unacknowledged.
"""

from __future__ import annotations

import re

from conformance.protocols import mqtt
from conformance.protocols.model import Greeting, Scheme

_NONE = "a message of MQTT 3.1.1 has no properties"

PROTOCOL = mqtt.PROTOCOL._replace(
    name="mqtt311",
    title="MQTT 3.1.1",
    # Its own scheme is that of MQTT 5, which has the same port.
    schemes=(Scheme("mqtt311", 1883), Scheme("mqtts311", 8883, secure=True)),
    greeting=Greeting(
        b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00", re.compile(rb"\x20\x02[\x00\x01][\x00-\x05]"), 4
    ),
    traits=mqtt.PROTOCOL.traits._replace(refusal_names_send=False, session_expiry=False, time_to_live=False),
    without=mqtt.PROTOCOL.without | {"explicit_rejections", "prefetch_in_messages"},
    lacks={**mqtt.PROTOCOL.lacks, "messages with properties": _NONE},
)
