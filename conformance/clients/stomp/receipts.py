"""Which STOMP frames have asked for a RECEIPT, and what one answers: no transport, no frames."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

from conformance import limits
from conformance.clients.session import OperationAnswer, SendOutcome, ranged
from conformance.clients.workers.job import Asks
from conformance.errors import ClientError
from conformance.history import Phase

Confirmed = SendOutcome | OperationAnswer
_ANSWERED_BY_US = re.compile(r"receipt-([1-9][0-9]{0,17})")  # what a longer one names was never asked for


class Receipts:
    """The receipts that were asked for and have not come.

    Raises `ClientError` where a broker sends more than `limits.UNTRUE_RECEIPTS` that answer nothing.

    With Ack Event Mode `windowed` the RECEIPT of a SEND answers every SEND before it that has no answer as well; STOMP
    1.2 itself says of earlier frames no more than that they were received.

    Attributes:
        anomalies: Every RECEIPT that is not one clean answer, as a sentence: without receipt-id, for a receipt that
            nobody asked for, or a second time.
    """

    def __init__(self, asks: Asks) -> None:
        self.anomalies: deque[str] = deque()
        self._ranges = asks.window > 0
        self._windowed = self._ranges and asks.event_mode == "windowed"
        self._waiting: dict[str, Sequence[Confirmed]] = {}
        self._in_window: list[str] = []  # receipts of sends that a later one may answer as well
        self._asked = self._untruths = 0

    def __contains__(self, receipt: str) -> bool:
        """Whether it was asked for, and has not come."""
        return receipt in self._waiting

    def ask(self, confirms: Sequence[Confirmed], *, in_window: bool = False) -> str:
        """The name of a new receipt, and what it will confirm; `in_window` for a SEND outside transactions."""
        self._asked += 1
        receipt = f"receipt-{self._asked}"
        self._waiting[receipt] = confirms
        if in_window and self._windowed:
            self._in_window.append(receipt)
        return receipt

    def came(self, receipt: str | None) -> Sequence[Confirmed]:
        """What a RECEIPT confirms, in the order in which it was asked; nothing where it is untrue."""
        if receipt is None:
            self._untrue("a RECEIPT without receipt-id")
        elif receipt in self._waiting:
            return self._covered(receipt)
        else:
            ours = _ANSWERED_BY_US.fullmatch(receipt)
            again = ours is not None and int(ours[1]) <= self._asked
            name = limits.quoted(receipt)
            self._untrue(f"a RECEIPT for {name!r}, " + ("a second time" if again else "never asked for"))
        return ()

    def _untrue(self, sentence: str) -> None:
        self._untruths += 1
        if self._untruths > limits.UNTRUE_RECEIPTS:
            raise ClientError(limits.exceeded("RECEIPT frames that answer nothing", limits.UNTRUE_RECEIPTS, "pieces"))
        self.anomalies.append(sentence)

    def refused(self, receipt: str | None, detail: str | None) -> Sequence[Confirmed]:
        """What an ERROR with that receipt-id refuses: its own frame, and no other (STOMP 1.2, ERROR)."""
        if receipt not in self._waiting:
            return ()
        if receipt in self._in_window:
            self._in_window.remove(receipt)
        found = self._told([receipt])
        for one in found:
            one.phase, one.detail = Phase.FAIL, detail
        return found

    def _covered(self, receipt: str) -> Sequence[Confirmed]:
        if receipt not in self._in_window:
            return self._told([receipt])
        end = self._in_window.index(receipt) + 1
        names, self._in_window = self._in_window[:end], self._in_window[end:]
        return self._told(names)

    def _told(self, receipts: Sequence[str]) -> Sequence[Confirmed]:
        found = [one for receipt in receipts for one in self._waiting.pop(receipt)]
        if self._ranges:
            ranged([one for one in found if isinstance(one, SendOutcome)])
        return found
