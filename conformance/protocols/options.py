"""What a broker's file may say about one protocol and no other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

import msgspec

Outcome = Literal["accepted", "rejected", "released", "modified"]
OUTCOMES: tuple[Outcome, ...] = ("accepted", "rejected", "released", "modified")
"""Those of AMQP 1.0, section 3.4. A protocol without outcomes has a word for each that it can express."""


class ProtocolOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker's file says about this protocol and no other: more keys of `[protocols.NAME]`.

    The sessions of the protocol get them whole. A protocol with such keys has a class of its own.
    """

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Those that the broker knows; `recovered` is a request for all that a consumer holds."""
        return OUTCOMES

    @property
    def expires(self) -> bool:
        """Whether the file says how a message gets a time to live."""
        return False

    @property
    def delays(self) -> bool:
        """Whether the file says how a message names the earliest time of its delivery."""
        return False

    @property
    def answers_at_commit(self) -> bool:
        """Whether sends in a transaction get their answers with that of the commit, and none if it is rolled back."""
        return False

    def copying(self) -> Self:
        """Return those of clients whose sends go to several queues each."""
        return self

    def subscribing(self, connect: Mapping[str, str], send: Mapping[str, str], subscribe: Mapping[str, str]) -> Self:
        """Return those of clients that subscribe to a topic with these headers, or send to it."""
        return self
