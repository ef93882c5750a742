"""Retained messages of MQTT: the last of each topic, for new subscriptions, also after a stop or kill of the broker."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Ask, Between, Kill, Nth, Publish, Restart

SET, KEPT = "are messages retained", "are retained messages still there"
REPLACED = Check("retained_otherwise", exposure="questions", control=Liar("retains-the-first-message"))
FORGOTTEN = Check("retained_otherwise", exposure="questions", control=Liar("forgets-retained-messages"))


@scenario
class RetainedMessages:
    """A publisher retains a message on each of 40 topics, another one on ten of them, and ends those of ten others.

    On ten more it publishes a message that is not to be retained. A new subscription to each topic must get the last
    one that is retained there, marked as such, and nothing where there is none.
    """

    mode = "individual"
    steps = (Ask("does a new subscription get the last retained message"),)
    checks = (REPLACED,)


@scenario
class RetainedMessagesForAWildcard:
    """As `retained-messages`, with one new subscription to all of the topics, by a wildcard."""

    mode = "individual"
    steps = (Ask("does a wildcard get the last retained messages"),)
    checks = (REPLACED,)


@scenario
class RetainedMessagesAndARestart:
    """A publisher retains a message on each of 40 topics, and the broker is restarted in order.

    A new subscription must get each of them.
    """

    mode = "individual"
    steps = (Ask(SET), Restart(clean=True), Ask(KEPT))
    checks = (FORGOTTEN,)


@scenario
class BrokerKilledWithRetainedMessages:
    """A publisher retains a message on each of 40 topics, and another one sends on; the broker is killed at a confirm.

    A new subscription must get each of them.
    """

    mode = "individual"
    steps = (
        Ask(SET),
        Publish(50_000, window=20, until=Kill(Nth("confirm", Between(5, 60)))),
        Restart(),
        Ask(KEPT),
        *SETTLE,
    )
    checks = (FORGOTTEN,)
