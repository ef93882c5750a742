"""Sends that a broker may be unable to keep: it must not confirm what it drops."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Publish

KEPT = Check("confirmed_nowhere", exposure="sends", control=Liar("drops-every-tenth-send"))


@scenario
class SendsToAnUndeclaredQueue:
    """A publisher sends 40 persistent messages to a queue that was never declared.

    The broker may refuse the publisher or its messages, or make the queue. What it confirms must be there.
    """

    mode = "async_ack"
    queue = {"undeclared": True}
    steps = (Publish(40, window=10), *SETTLE)
    checks = (KEPT,)


@scenario
class SendsToAQueueThatMustExist:
    """Five publishers send one persistent message each to a queue that was never declared.

    The broker is asked to make no queues, if its file has the setting: so there is none that could keep the message.
    """

    mode = "async_ack"
    queue = {"undeclared": True}
    settings = {"creates_addresses": False}
    steps = (*(Publish(1, window=1),) * 5, *SETTLE)
    checks = (Check("confirmed_without_queue", exposure="sends", control=Liar("makes-any-queue")),)


@scenario
class SendsForATopicToAQueue:
    """A publisher sends 40 persistent messages to a queue, and each of them says that it is for a topic.

    If the broker's file has the setting, nothing may be made for them. The broker may give them to the queue, or refuse
    them. What it confirms must be there.
    """

    mode = "async_ack"
    settings = {"creates_addresses": False}
    steps = (Publish(40, window=10, for_topic=True), *SETTLE)
    checks = (KEPT,)


@scenario
class SendsOfOversizedMessages:
    """A publisher sends messages of 1 KiB and of 300 KiB to a broker that is asked to take at most 100,000 bytes.

    If the broker's file has no setting for that, every message has to be kept. A broker may refuse a large message, or
    end the connection with an error; the next publisher connects again. What it confirms must be there.
    """

    mode = "blocking"
    settings = {"max_message_bytes": 100_000}
    steps = (
        Publish(20, window=5, size=1_024),
        Publish(5, window=1, size=300 * 1_024),
        Publish(20, window=5, size=1_024),
        *SETTLE,
    )
    checks = (KEPT,)
