"""MQTT 5 and 3.1.1 on a strict codec, bytes in and bytes out."""
