"""A consumer closes its connection in order: what it processed is acknowledged, and nothing else."""

from conformance.scenario import Check, SessionLiar, scenario
from conformance.scenario.script import SETTLE, Consume, Publish


@scenario
class ConsumerClosedUnderAuto:
    """An AUTO consumer takes 150 of 200 messages over a link, and closes its connection in order.

    By then the link has seen an acknowledgement of each message that was processed, and of no other. It has room for
    all of them: a session that acknowledges nothing must not have to wait for more.
    """

    mode = "auto"
    steps = (Publish(200, window=100), Consume("auto", prefetch=200, stop=150, linked=True), *SETTLE)
    checks = (Check("not_each_passed", exposure="carried", control=SessionLiar("forgets-acknowledgements")),)
