"""A full queue refuses some of what a WINDOWED publisher sends."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Publish


@scenario
class WindowMeetsFullQueue:
    """A WINDOWED publisher with a window of 30 sends 80 messages to a queue that takes 40, without a consumer.

    The queue is full in the middle of a window. Each message that it refuses must have a refusal of its own, and be
    part of no range: what was confirmed must be there.
    """

    mode = "windowed"
    queue = {"max_length": 40}
    steps = (Publish(80, window=30, ack_event_mode="windowed"), *SETTLE)
    checks = (Check("refusal_hidden", exposure="sends_refused", control=Liar("range-hides-refusal", profile="solace")),)
