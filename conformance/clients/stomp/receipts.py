"""Which frames of a STOMP client asked for a RECEIPT, and which of them a RECEIPT answers."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

from conformance import limits
from conformance.clients.session import OperationAnswer, SendOutcome, note_range
from conformance.clients.workers.job import Asks
from conformance.errors import ClientError
from conformance.history import Phase

Confirmed = SendOutcome | OperationAnswer
_OUR_NAME = re.compile(r"receipt-([1-9][0-9]{0,17})")  # a longer number was never asked for


class Receipts:
    """The receipts that were asked for and have not arrived.

    With Ack Event Mode `windowed` the RECEIPT of a SEND also answers every earlier SEND that has no answer. STOMP 1.2
    itself says only that the broker has received the earlier frames.

    Args:
        asks: What this client asks for.
        anomalies: Gets a sentence for each RECEIPT that is not one clean answer: without receipt-id, for a receipt that
            was never asked for, or a second time.

    Raises:
        ClientError: The broker sent more than `limits.UNTRUE_RECEIPTS` that answer nothing.
    """

    def __init__(self, asks: Asks, anomalies: deque[str]) -> None:
        self._anomalies = anomalies
        self._notes_ranges = asks.window > 0
        self._windowed = self._notes_ranges and asks.event_mode == "windowed"
        self._waiting: dict[str, Sequence[Confirmed]] = {}
        self._in_window: list[str] = []  # receipts of sends that a later one may answer as well
        self._asked = self._untruths = 0

    def __contains__(self, receipt: str) -> bool:
        """Whether it was asked for and has not arrived."""
        return receipt in self._waiting

    def ask(self, confirms: Sequence[Confirmed], *, in_window: bool = False) -> str:
        """Return the name of a new receipt that will confirm these; `in_window` for a SEND outside transactions."""
        self._asked += 1
        receipt = f"receipt-{self._asked}"
        self._waiting[receipt] = confirms
        if in_window and self._windowed:
            self._in_window.append(receipt)
        return receipt

    def arrived(self, receipt: str | None) -> Sequence[Confirmed]:
        """Return what a RECEIPT confirms, in the order of the requests; nothing if it is an anomaly."""
        if receipt is None:
            self._untrue("a RECEIPT without receipt-id")
        elif receipt in self._waiting:
            return self._covered(receipt)
        else:
            ours = _OUR_NAME.fullmatch(receipt)
            again = ours is not None and int(ours[1]) <= self._asked
            name = limits.quoted(receipt)
            self._untrue(f"a RECEIPT for {name!r}, " + ("a second time" if again else "never asked for"))
        return ()

    def _untrue(self, sentence: str) -> None:
        self._untruths += 1
        if self._untruths > limits.UNTRUE_RECEIPTS:
            raise ClientError(limits.exceeded("RECEIPT frames that answer nothing", limits.UNTRUE_RECEIPTS, "pieces"))
        self._anomalies.append(sentence)

    def refused(self, receipt: str | None, detail: str | None) -> Sequence[Confirmed]:
        """Return what an ERROR with that receipt-id refuses: its own frame and no other (STOMP 1.2, ERROR)."""
        if receipt not in self._waiting:
            return ()
        if receipt in self._in_window:
            self._in_window.remove(receipt)
        found = self._take([receipt])
        for one in found:
            one.phase, one.detail = Phase.FAIL, detail
        return found

    def _covered(self, receipt: str) -> Sequence[Confirmed]:
        if receipt not in self._in_window:
            return self._take([receipt])
        end = self._in_window.index(receipt) + 1
        names, self._in_window = self._in_window[:end], self._in_window[end:]
        return self._take(names)

    def _take(self, receipts: Sequence[str]) -> Sequence[Confirmed]:
        found = [one for receipt in receipts for one in self._waiting.pop(receipt)]
        if self._notes_ranges:
            note_range([one for one in found if isinstance(one, SendOutcome)])
        return found
