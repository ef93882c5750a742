"""The broker refuses sends, or keeps them where nothing outlasts it."""

from conformance.scenario import OF_BOTH, REST, Check, Liar, SessionLiar, scenario
from conformance.scenario.script import SETTLE, Between, Consume, Nth, Publish, Restart, Stop, Together

REFUSAL_HEARD = Check("confirmed_nowhere", exposure="sends_refused", control=SessionLiar("confirms-refused-sends"))


@scenario
class SendsRefusedByFullQueue:
    """A publisher sends 80 messages to a queue that takes 40, without a consumer.

    What the broker refuses it must not act upon: none of that may be delivered. What it confirms must be there, and
    each send must be answered. A vendor's client sends without waiting, and must not tell its listener that a refused
    send is complete.
    """

    mode = "async_ack"
    subjects = OF_BOTH
    queue = {"max_length": 40}
    steps = (Publish(80, window=20), *SETTLE)
    checks = (
        REFUSAL_HEARD,
        Check("refused_delivered", exposure="sends_refused", control=Liar("stores-what-it-rejects")),
        Check("confirmed_nowhere", exposure="sends", control=Liar("drops-every-tenth-send")),
        Check(
            "unanswered_send",
            exposure="sends_refused",
            control=Liar("never-answers-one-send", trials=3, waits_for_liveness=True, over="amqp"),
        ),
    )


@scenario
class SendsRefusedBesideAConsumer:
    """A publisher sends 300 messages to a queue that takes 20, while a slow consumer makes room.

    So the broker refuses some and takes others, in turn. What it refuses must not be delivered, now or later.
    """

    mode = "async_ack"
    queue = {"max_length": 20}
    steps = (
        Together((Consume("auto", prefetch=5, work_ms=5, stop=20), Publish(300, window=20, every_ms=1))),
        *SETTLE,
    )
    checks = (Check("refused_delivered", exposure="sends_refused", control=Liar("stores-what-it-rejects")),)


FILLED_AND_EMPTIED = (Publish(80, window=1, size=4_096), REST)
ROOM = (Check("refused_with_room", exposure="sends_refused", control=Liar("stays-full-once-full")),)


@scenario
class FullQueueEmptiedAndFilledAgain:
    """A publisher fills a queue that takes 40 messages, and a consumer empties it, three times over.

    Each publisher sends twice as much, so most of that is refused. The next one must find room again.
    """

    mode = "auto"
    queue = {"max_length": 40}
    steps = (*FILLED_AND_EMPTIED * 3, *SETTLE)
    checks = ROOM


@scenario
class FullQueueOfBytesEmptiedAndFilledAgain:
    """A publisher fills a queue that takes 100,000 bytes, and a consumer empties it, three times over.

    For a broker whose full queues refuse by a setting. Each publisher sends 80 messages of 4 KiB, so most of them are
    refused. The next one must find room again.
    """

    mode = "auto"
    settings = {"full_queue_policy": "refuse", "max_queue_bytes": 100_000, "queue_memory_bytes": "100000"}
    steps = (*FILLED_AND_EMPTIED * 3, *SETTLE)
    checks = ROOM


@scenario
class SendsBlockedByFullQueue:
    """A publisher sends 2,000 messages of 4 KiB to a queue that may keep few of them, while a slow consumer makes room.

    If the broker's file has the settings, the queue may keep 100,000 bytes, and a full one makes its publisher wait,
    which goes on when there is room. What the broker confirms must be there.
    """

    mode = "auto"
    settings = {"full_queue_policy": "block", "queue_memory_bytes": "100000"}
    steps = (
        Together((Consume("auto", prefetch=5, work_ms=1, stop=2_000), Publish(2_000, window=20, size=4_096))),
        *SETTLE,
    )
    checks = (
        Check(
            "confirmed_nowhere",
            exposure="sends",
            control=Liar("drops-every-tenth-send", waits_for_liveness=True),
        ),
    )


@scenario
class BrokerStoppedWithoutDurableQueue:
    """A publisher sends persistent messages to a queue that is not durable; the broker is stopped and started again."""

    mode = "async_ack"
    queue = {"durable": False}
    steps = (Publish(50_000, window=100, until=Stop(Nth("confirm", Between(150, 600)))), Restart(), *SETTLE)
    checks = (Check("confirmed_missing", exposure="confirmed"),)
