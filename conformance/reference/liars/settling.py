"""Liars about what an outcome does."""

from __future__ import annotations

from collections.abc import Iterable

from conformance.reference.core.settlement import SettlementEvent
from conformance.reference.liars.liar import PERIOD, LiarBroker


class _RemovesWhenSending(LiarBroker):
    """A message is removed, durably, when it is sent to a consumer and not when it is acknowledged."""

    breaks = ("EMS-STEP-04", "AMQP-SETTLE-02", "STOMP-ACK-03")
    fault = "consumer_crash"

    removes_when_sending = True


class _AcknowledgeTakesLater(LiarBroker):
    """An acknowledgement also removes what the same link was sent after the acknowledged delivery."""

    breaks = ("EMS-CLIENT-02",)
    fault = "consumer_crash"

    def acknowledged_with(self, held: Iterable[int], tag: int) -> Iterable[int]:
        return [other for other in held if other >= tag]


class _ForgetsEveryHundredthAcknowledgement(LiarBroker):
    """Answers the first acknowledgement of every 100th message of a queue, keeps it, and delivers it again later."""

    breaks = ("AMQP-ACC-01",)
    fault = "consumer_crash"

    def forgets(self, number: int, failures: int) -> bool:
        return number % PERIOD == 0 and not failures  # for ever, no consumer could empty the queue


class _DropsReleased(LiarBroker):
    """A released message is removed."""

    breaks = ("AMQP-REL-01",)

    def applied(self, outcome: SettlementEvent) -> SettlementEvent:
        return SettlementEvent.ACCEPTED if outcome is SettlementEvent.RELEASED else outcome


class _CountsReleases(LiarBroker):
    """A release makes the delivery-count one higher."""

    breaks = ("AMQP-REL-02",)

    def applied(self, outcome: SettlementEvent) -> SettlementEvent:
        return SettlementEvent.FAILED if outcome is SettlementEvent.RELEASED else outcome


class _NeverCountsFailures(LiarBroker):
    """The outcome modified with delivery-failed does not make the delivery-count higher."""

    breaks = ("AMQP-MOD-01",)

    def applied(self, outcome: SettlementEvent) -> SettlementEvent:
        return SettlementEvent.MODIFIED if outcome is SettlementEvent.FAILED else outcome


class _IgnoresUndeliverableHere(LiarBroker):
    """A message may be delivered again to a link that said undeliverable-here."""

    breaks = ("AMQP-MOD-02",)

    bars_refusers = False


class _ClientAckIsIndividual(LiarBroker):
    """An ACK on a subscription with ack:client covers only the message it names."""

    breaks = ("STOMP-ACK-01",)
    fault = "consumer_crash"

    def covers_earlier(self, cumulative: bool) -> bool:
        return False


class _IndividualAckIsCumulative(LiarBroker):
    """An ACK on a subscription with ack:client-individual covers the earlier messages too."""

    breaks = ("STOMP-ACK-02",)
    fault = "consumer_crash"

    def covers_earlier(self, cumulative: bool) -> bool:
        return True


class _DropsFailed(LiarBroker):
    """A message is removed when its consumer says that it failed: modified with delivery-failed, or NACK."""

    breaks = ("AMQP-MOD-03",)

    def applied(self, outcome: SettlementEvent) -> SettlementEvent:
        return SettlementEvent.ACCEPTED if outcome is SettlementEvent.FAILED else outcome


class _LosesHalfAPrefetch(LiarBroker):
    """Of what a consumer held when its connection ended, every second message of the queue is dropped, durably."""

    breaks = ("EMS-STEP-04",)
    fault = "consumer_crash"

    def drops_abandoned(self, number: int) -> bool:
        return number % 2 == 0
