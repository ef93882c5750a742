"""What a broker's file says about AMQP 1.0: its outcomes, and how a message says when it may be delivered."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from typing_extensions import override

from conformance.protocols.options import OUTCOMES, Outcome, ProtocolOptions


class AmqpOptions(ProtocolOptions, frozen=True, kw_only=True):
    """`outcomes` are those that the broker knows (section 3.4).

    A sender names them in its attach, and a consumer gives no others. `delivery_time` is the annotation of a message
    with a delay: `x-opt-delivery-delay` with its milliseconds, or `x-opt-delivery-time` with those since 1970, for a
    broker with the clock of its clients.
    """

    outcomes: Annotated[tuple[Outcome, ...], msgspec.Meta(min_length=1)] = OUTCOMES
    delivery_time: Literal["", "x-opt-delivery-delay", "x-opt-delivery-time"] = ""

    @property
    @override
    def delays(self) -> bool:
        return bool(self.delivery_time)
