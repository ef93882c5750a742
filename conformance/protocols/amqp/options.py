"""What a broker's file says about AMQP 1.0: the outcomes that the broker knows."""

from __future__ import annotations

from typing import Annotated

import msgspec

from conformance.protocols.options import OUTCOMES, Outcome, ProtocolOptions


class AmqpOptions(ProtocolOptions, frozen=True, kw_only=True):
    """`outcomes` are those that the broker knows (section 3.4).

    A sender names them in its attach, and a consumer gives no others.
    """

    outcomes: Annotated[tuple[Outcome, ...], msgspec.Meta(min_length=1)] = OUTCOMES
