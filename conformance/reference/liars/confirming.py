"""Liars about the answer to a send: late, never, twice, or for another."""

from __future__ import annotations

from conformance.reference.liars.liar import PERIOD, LiarBroker


class _NeverAnswersOneSend(LiarBroker):
    """Stores every message and never answers the 50th send after the start."""

    breaks = ("EMS-STEP-02", "STOMP-RCPT-01", "SOLPUB-ACK-01")

    def answers(self, send: int) -> bool:
        return send != PERIOD // 2


class _AcceptsThenRejects(LiarBroker):
    """Every 100th send is stored and accepted, and afterwards rejected."""

    breaks = ("AMQP-STATE-01",)

    def retracts(self, send: int) -> bool:
        return send % PERIOD == 0


class _AnswersEveryHundredthFrameTwice(LiarBroker):
    """Every 100th frame that asks for a receipt gets two."""

    breaks = ("STOMP-RCPT-02",)

    def receipts(self, frame: int) -> int:
        return 2 if frame % PERIOD == 0 else 1


class _StoresWhatItRejects(LiarBroker):
    """A message that is refused, because its queue is full for one, is stored all the same."""

    breaks = ("AMQP-REF-01",)

    stores_refused = True
