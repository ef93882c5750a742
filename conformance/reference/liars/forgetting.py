"""Liars about what is kept: what they confirm is never stored, or a start does not take it over."""

from __future__ import annotations

from conformance.reference.liars.liar import TENTH, LiarBroker


class _TreatsPersistentAsNonPersistent(LiarBroker):
    """A durable message is kept in memory only."""

    breaks = ("SOLCD-ACK-01", "AMQP-DUR-01", "ARTEMIS-SEND-07", "QPID-PERS-02")
    fault = "kill"

    def stores(self, number: int) -> bool:
        return False


class _LosesOneInAThousand(LiarBroker):
    """Every 1000th message of a queue, from the 500th on, is confirmed and never put in the journal."""

    breaks = ("SOLCD-ACK-01", "AMQP-DUR-01", "ARTEMIS-SEND-07")
    fault = "kill"

    def stores(self, number: int) -> bool:
        return number % 1000 != 500


class _BringsAcknowledgedBack(LiarBroker):
    """The removal of every tenth message of a queue is answered, and never put in the journal."""

    breaks = ("EMS-STEP-06", "AMQP-ACC-02", "STOMP-ACK-05")
    fault = "kill"

    def stores_removal(self, number: int) -> bool:
        return number % TENTH != 0


class _LosesTheOldest(LiarBroker):
    """A start does not take over the oldest message of each queue."""

    breaks = ("SOLCD-ACK-01", "AMQP-DUR-01", "ARTEMIS-SEND-07")
    fault = "kill"

    def takes_over(self, place: int, count: int) -> bool:
        return place > 0


class _RefusesToStartWithMessages(LiarBroker):
    """A start on a journal that holds messages ends with an error, each time."""

    breaks = ("EXPECT-RECOVER-01",)
    fault = "kill"

    def starts_with(self, messages: int) -> bool:
        return messages == 0


class _EndsAtTheFirstConsumerAfterRecovery(LiarBroker):
    """A broker that took messages over from its journal starts, and ends with an error when a consumer subscribes."""

    breaks = ("EXPECT-RECOVER-01",)
    fault = "kill"

    def outlives_consumers(self, messages: int) -> bool:
        return messages == 0


class _LosesTheLastBatch(LiarBroker):
    """A start does not take over the newest ten messages of each queue."""

    breaks = ("SOLCD-ACK-01", "AMQP-DUR-01", "ARTEMIS-SEND-07")
    fault = "kill"

    def takes_over(self, place: int, count: int) -> bool:
        return place < count - TENTH


class _StuckAfterRecovery(LiarBroker):
    """What a start takes over is counted in the depth, and delivered to nobody."""

    breaks = ("EMS-STEP-03",)
    fault = "kill"

    hides_recovered = True


class _LateAfterRecovery(LiarBroker):
    """What a start finds in its journal is neither counted nor delivered before the next start."""

    breaks = ("EMS-STEP-03",)
    fault = "kill"

    recovers_late = True
