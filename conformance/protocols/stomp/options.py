"""What a broker's file says about STOMP: the headers that the broker needs, and when it answers in a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

import msgspec
from typing_extensions import override

from conformance.protocols.options import ProtocolOptions

Headers = dict[str, str]


class StompOptions(ProtocolOptions, frozen=True, kw_only=True):
    """`virtual_host` is the `host` header of CONNECT (default: the name of the machine: STOMP 1.2, CONNECT).

    `connect`, `send` and `subscribe` are more headers of CONNECT, SEND and SUBSCRIBE; the last two may hold `{queue}`,
    `{prefetch}` (messages) and `{prefetch_bytes}` (1,024 a message). A header with a prefetch is omitted if deliveries
    need no acknowledgement. `copied_send` are those of a SEND to the `copied` address as well.

    `time_to_live` are the headers of a SEND whose message has a time to live: `{lives_ms}` in milliseconds, or
    `{expires_ms}` since 1970. `transacted_sends` says when a SEND in a transaction gets its RECEIPT: `at_once`, or
    `at_commit`, and never after an ABORT. With `at_commit` a client does not wait for it before the COMMIT, and a
    COMMIT counts as answered when all of its sends are.
    """

    virtual_host: str = ""
    connect: Headers = msgspec.field(default_factory=dict)
    send: Headers = msgspec.field(default_factory=dict)
    subscribe: Headers = msgspec.field(default_factory=dict)
    copied_send: Headers = msgspec.field(default_factory=dict)
    time_to_live: Headers = msgspec.field(default_factory=dict)
    transacted_sends: Literal["at_once", "at_commit"] = "at_once"

    @property
    @override
    def expires(self) -> bool:
        return bool(self.time_to_live)

    @property
    @override
    def answers_at_commit(self) -> bool:
        return self.transacted_sends == "at_commit"

    @override
    def copying(self) -> Self:
        return msgspec.structs.replace(self, send={**self.send, **self.copied_send})

    @override
    def subscribing(self, connect: Mapping[str, str], send: Mapping[str, str], subscribe: Mapping[str, str]) -> Self:
        return msgspec.structs.replace(
            self, connect={**self.connect, **connect}, send=dict(send), subscribe=dict(subscribe)
        )
