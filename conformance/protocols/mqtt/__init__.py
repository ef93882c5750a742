"""MQTT 5, by a session that writes its packets itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from conformance.protocols.model import ClientProtocol, Greeting, Reproducer, Scheme, Traits

if TYPE_CHECKING:
    from conformance.protocols.mqtt.options import MqttOptions
    from conformance.protocols.ties import LinkReading


def _link() -> LinkReading:
    from conformance.protocols.mqtt.ties import LINK

    return LINK


def _options() -> type[MqttOptions]:
    from conformance.protocols.mqtt.options import MqttOptions

    return MqttOptions


_NOWHERE = "a message of MQTT without a subscriber is in no session, and its PUBACK need not say so"

_QUESTIONS = frozenset(
    {
        "are messages retained",
        "are retained messages still there",
        "does a new subscription get the last retained message",
        "does a wildcard get the last retained messages",
    }
)

PROTOCOL = ClientProtocol(
    name="mqtt",
    title="MQTT 5",
    link=_link,
    options=_options,
    sessions=("library",),
    schemes=(Scheme("mqtt", 1883), Scheme("mqtts", 8883, secure=True)),
    # CONNECT of a client without a name, and any CONNACK with properties: a refused login is an answer too.
    greeting=Greeting(
        b"\x10\x0d\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x00", re.compile(rb"\x20[\x03-\x7f][\x00\x01]", re.DOTALL), 3
    ),
    # A message has no persistence of its own, and a PUBACK need not mean that it is stored.
    traits=Traits(confirm="PUBACK", queues_by_client=True, session_expiry=True, questions=_QUESTIONS),
    reproducer=Reproducer(
        template="mqtt.py.j2",
        modules={"": "socket", "tls": "ssl"},
        capture="`tcpdump -i lo -w wire.pcap port PORT` beside `reproduce.py` keeps every byte",
        plain_only=True,
        relays=False,
    ),
    without=frozenset(
        """ack_confirmed cumulative_ack duplicate_detection nack no_ack_mode presettled_delivery selectors
        transactional_acks transactions""".split()
    ),
    lacks={
        "deliveries given back": "a consumer of MQTT cannot give a message back",
        "mode no_ack": "a subscription of MQTT with QoS 0 keeps nothing for a client that is away",
        "mode transacted": "MQTT has no transactions",
        "transactions": "MQTT has no transactions",
        "a time to live of less than a second": "MQTT counts it in seconds (MQTT 5.0, 3.3.2.3.3)",
        "messages that are not persistent": "a message of MQTT has no persistence of its own",
        "a queue that was never declared": _NOWHERE,
        "a queue that the broker makes when a client names it": _NOWHERE,
        "a consumer of another protocol": "a session of MQTT is that of its client",
        "several consumers of one queue at a time": "a session of MQTT has one connection at a time",
        "acknowledgements in another order": "a client of MQTT acknowledges in the order of arrival (MQTT-4.6.0-2)",
    },
)
