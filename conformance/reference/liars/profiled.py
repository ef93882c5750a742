"""Liars under a profile: publish windows and lazy acknowledgements (docs/reference-profiles.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conformance.reference.honest import Answered, Asked
from conformance.reference.liars.liar import LiarBroker


class _ConfirmsByTimerOnly(LiarBroker):
    """A publish window is confirmed once a second, however much of it is stored."""

    breaks = ("SOLPUB-THR-01",)
    needs = "solace"

    confirm_share = 1 << 30


class _ConfirmsByThresholdOnly(LiarBroker):
    """Less than a third of a publish window is never confirmed."""

    breaks = ("SOLPUB-THR-02",)
    needs = "solace"

    confirms_after_a_second = False


class _TakesAThresholdSetting(LiarBroker):
    """There is a setting `publish_threshold`: so many stored sends make a confirm due, and not a third."""

    breaks = ("SOLPUB-THR-03",)
    needs = "solace"

    def known_settings(self, words: Sequence[str]) -> Sequence[str]:
        found = [word for word in words if word.startswith("publish_threshold=")]
        for word in found:
            self.confirm_share = int(word.partition("=")[2])
        return [word for word in words if word not in found]


class _IgnoresAckImmediately(LiarBroker):
    """A send with Ack Immediately waits for the third of its window, or the second, as any other."""

    breaks = ("SOLPUB-IMM-01",)
    needs = "solace"

    confirms_at_once = False


class _ConfirmsImmediateBeforeStoring(LiarBroker):
    """A send with Ack Immediately is answered first; its record goes to the journal half a second later."""

    breaks = ("SOLPUB-IMM-02",)
    fault = "kill"
    needs = "solace"

    def answered(self, asked: Asked, send: int) -> Answered:
        return Answered.LAZY if asked is Asked.URGENT_SEND else Answered.STORED


class _RangeCoversUnstored(LiarBroker):
    """A confirm of a publish window covers all that has arrived, stored or not."""

    breaks = ("SOLPUB-EVT-02",)
    fault = "kill"
    needs = "solace"

    covers_unstored = True


class _RangeHidesRefusal(LiarBroker):
    """What is refused in a publish window has no answer of its own: the next confirm covers it."""

    breaks = ("SOLPUB-EVT-04",)
    needs = "solace"

    covers_refused = True


class _NeverReopensWindow(LiarBroker):
    """A confirm gives no credit back: a peer may send one publish window, and no more. AMQP only."""

    needs = "solace"

    reopens_windows = False


class _RefusesOutOfOrderAcknowledgements(LiarBroker):
    """Acknowledging a delivery while an earlier one is open is refused: released over AMQP, ERROR over STOMP."""

    breaks = ("EMS-EXPL-02",)
    needs = "ems"

    takes_any_order = False


class _ExplicitAcknowledgeTakesEarlier(LiarBroker):
    """An acknowledgement also removes what its link was sent before, whatever was asked for."""

    breaks = ("EMS-EXPL-01",)
    fault = "consumer_crash"
    needs = "ems"

    def acknowledged_with(self, held: Iterable[int], tag: int) -> Iterable[int]:
        return [other for other in held if other <= tag]


class _LazyAcknowledgeTakesNeighbours(LiarBroker):
    """A lazy acknowledgement also removes the delivery after its own."""

    breaks = ("EMS-EXDUP-02",)
    fault = "consumer_crash"
    needs = "ems"

    def acknowledged_lazily_with(self, held: Iterable[int], tag: int) -> Iterable[int]:
        return [other for other in held if tag <= other <= tag + 1]
