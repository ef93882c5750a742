"""What a broker's file says about AMQP 0-9-1: the virtual host, and how a message says when it expires."""

from __future__ import annotations

from typing_extensions import override

from conformance.protocols.options import ProtocolOptions


class Amqp091Options(ProtocolOptions, frozen=True, kw_only=True):
    """`virtual_host` is the one that clients open.

    `expiration` is the property of a message with a time to live: `{lives_ms}` in milliseconds, or `{expires_ms}` since
    1970. AMQP 0-9-1 does not say which of them it is.
    """

    virtual_host: str = "/"
    expiration: str = "{lives_ms}"

    @property
    @override
    def outcomes(self) -> tuple[str, ...]:
        """Those of basic.ack, of basic.reject with `requeue` false and true, and of basic.recover."""
        return ("accepted", "rejected", "released", "recovered")

    @property
    @override
    def answers_at_commit(self) -> bool:
        """A channel with transactions has no confirms: tx.commit-ok answers its sends too."""
        return True
