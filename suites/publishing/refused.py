"""The broker refuses sends, or keeps them where nothing outlasts it."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, Nth, Publish, Restart, Stop


@scenario
class SendsRefusedByFullQueue:
    """A publisher sends 80 messages to a queue that takes 40, without a consumer.

    What the broker refuses it must not act upon: none of that may be delivered. What it confirms must be there.
    """

    mode = "async_ack"
    queue = {"max_length": 40}
    steps = (Publish(80, window=20), *SETTLE)
    decides = {
        "AMQP-REF-01": Check("refused_delivered", exposure="sends_refused", control=Liar("stores-what-it-rejects")),
        "EXPECT-KEPT-01": Check("confirmed_nowhere", exposure="sends", control=Liar("drops-every-tenth-send")),
    }


@scenario
class BrokerStoppedWithoutDurableQueue:
    """A publisher sends persistent messages to a queue that is not durable; the broker is stopped and started again."""

    mode = "async_ack"
    queue = {"durable": False}
    steps = (Publish(50_000, window=100, until=Stop(Nth("confirm", Between(150, 600)))), Restart(), *SETTLE)
    decides = {"ARTEMIS-SEND-08": Check("confirmed_missing", exposure="confirmed")}
