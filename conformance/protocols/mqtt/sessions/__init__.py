"""The session of the suite over MQTT. Only client processes import it."""

from conformance.protocols.mqtt.sessions.session import MqttSession

SESSIONS = {"library": MqttSession}
