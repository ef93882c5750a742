"""Two consumers of one queue at the same time: a message belongs to one of them."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Consume, Publish, Together

SHARED = Consume("client", prefetch=20, acknowledge=10, confirm=True, stop=120)
OWNED = Check("two_owners", exposure="delivered_beside_another", control=Liar("gives-a-message-to-two-consumers"))


@scenario
class TwoConsumersOfOneQueue:
    """Two consumers are attached to one queue, with messages prefetched and unacknowledged, while messages are sent.

    Each acknowledges ten at a time. What the broker has given to one of them, it must not give to the other as well,
    unless the first gives it back or its connection ends.
    """

    mode = "client"
    standing = True
    steps = (Together((SHARED, SHARED, Publish(300, window=20, every_ms=4))), *SETTLE)
    checks = (OWNED,)
