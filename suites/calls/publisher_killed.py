"""The process of a vendor's client is killed when a call has returned: what it has sent needs no more of it."""

from conformance.scenario import LOSSES, OF_CLIENT, Check, SessionLiar, scenario
from conformance.scenario.script import SETTLE, Between, ConsumerCrash, Nth, Publish, Rounds


@scenario
class PublisherKilledAfterSend:
    """A client sends one persistent message after the other, and is killed when a send() has returned.

    That message must be there, as all before it: nothing more was to be done for it. Four clients do so in turn.
    """

    mode = "blocking"
    subjects = OF_CLIENT
    settings = {"block_on_durable_send": True}
    steps = (
        Rounds((Publish(2_000, window=1, until=ConsumerCrash(Nth("returned", Between(50, 150)))),), LOSSES),
        *SETTLE,
    )
    checks = (Check("lost", exposure="confirmed", control=SessionLiar("sends-with-the-next-call")),)
