"""The delivery mode of a producer and of one send(), as it leaves a vendor's client: seen on the link."""

from conformance.scenario import OF_CLIENT, Check, SessionLiar, scenario
from conformance.scenario.script import Drain, Publish


@scenario
class FlagsOfDeliveryModes:
    """A client sends persistent messages and others, by the mode of its producer and by one that send() is given.

    Every second send() is given a mode, and then its producer has the opposite one.
    """

    mode = "blocking"
    subjects = OF_CLIENT
    steps = (Publish(20, window=1, linked=True), Publish(20, window=1, durable=False, linked=True), Drain())
    checks = (
        Check("flag_missing", exposure="persistent_on_link", control=SessionLiar("never-sets-the-flag")),
        Check("flag_set", exposure="non_persistent_on_link", control=SessionLiar("always-sets-the-flag")),
        Check("flag_differs", exposure="flags_on_link", control=SessionLiar("ignores-the-mode-of-one-send")),
    )
