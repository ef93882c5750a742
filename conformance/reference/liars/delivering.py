"""Liars about what a consumer is sent: which messages, in which order, how often, and how they are marked."""

from __future__ import annotations

from conformance.reference.liars.liar import PERIOD, TENTH, LiarBroker


class _SkipsEveryHundredthDelivery(LiarBroker):
    """Every 100th message of a queue stays there, is counted in its depth, and is delivered to nobody."""

    breaks = ("EMS-STEP-03",)

    def hides(self, number: int) -> bool:
        return number % PERIOD == 0


class _CountsFromOne(LiarBroker):
    """The delivery-count is one too high."""

    breaks = ("AMQP-HDR-01",)

    def delivery_count(self, failures: int) -> int:
        return failures + 1


class _AlwaysFirstAcquirer(LiarBroker):
    """The first-acquirer flag is true on every delivery."""

    breaks = ("AMQP-HDR-02",)
    fault = "consumer_crash"

    def first_acquirer(self, first: bool) -> bool:
        return True


class _NeverMarksRedelivered(LiarBroker):
    """The delivery-count is always 0, and the redelivered mark is never set."""

    breaks = ("EMS-DUPS-05",)
    fault = "consumer_crash"

    marks_redelivered = False


class _RequeuesSettled(LiarBroker):
    """A message that is sent settled is kept, and offered again when its link ends."""

    breaks = ("EMS-NOACK-01", "QPID-NOACK-02", "AMQP-SETTLE-01", "STOMP-AUTO-01")
    fault = "consumer_crash"

    keeps_settled = True


class _IgnoresPrefetch(LiarBroker):
    """A subscription with prefetch-count is sent as much as there is."""

    breaks = ("QPID-CLIENT-04",)

    def prefetch_limit(self, asked: int) -> int:
        return 1_000_000


class _NeverRefillsPrefetch(LiarBroker):
    """A subscription with prefetch-count gets that many messages and, whatever it acknowledges, no more."""

    breaks = ("QPID-CLIENT-05",)

    refills = False


class _StoresEveryHundredthTwice(LiarBroker):
    """Every 100th message of a queue is stored twice, with one confirm."""

    breaks = ("AMQP-ACC-02", "STOMP-ACK-05", "JMS-ACK-01", "EXPECT-TWICE-01")

    def copies(self, number: int) -> int:
        return 2 if number % PERIOD == 0 else 1


class _GivesAMessageToTwoConsumers(LiarBroker):
    """Every tenth message of a queue is sent to a second consumer as well, where one has credit."""

    breaks = ("AMQP-ACQ-01", "EXPECT-OWNER-01")

    def gives_twice(self, number: int) -> bool:
        return number % TENTH == 0


class _SwapsTwoOfAHundred(LiarBroker):
    """Of each hundred messages of a queue the 50th and the 51st change places."""

    breaks = ("JMS-ORDER-01", "EXPECT-ORDER-01")

    def numbered(self, number: int) -> int:
        return {PERIOD // 2: number + 1, PERIOD // 2 + 1: number - 1}.get(number % PERIOD, number)


class _CorruptsABody(LiarBroker):
    """The last byte of every 100th message of a queue is another when it is delivered."""

    breaks = ("AMQP-BARE-01", "EXPECT-BODY-01")

    def body(self, number: int, bare: bytes) -> bytes:
        return bare if number % PERIOD or not bare else bare[:-1] + bytes((bare[-1] ^ 1,))


class _RenamesAMessage(LiarBroker):
    """Every 100th message of a queue is delivered under the id of one that was never sent."""

    breaks = ("EXPECT-SENT-01",)

    def body(self, number: int, bare: bytes) -> bytes:
        return bare if number % PERIOD else bare.replace(b"p1:", b"p9:")


class _ForgetsAfterHalfASecond(LiarBroker):
    """A message without a time to live is dropped, durably, half a second after it came."""

    breaks = ("SOLCD-ACK-01", "AMQP-DUR-01", "ARTEMIS-SEND-07")
    fault = "pause"

    def lives_ms(self, ttl_ms: int) -> int:
        return ttl_ms or 500
