"""What the harness and the link proxy send each other: plain data over a control socket."""

from __future__ import annotations

import msgspec

from conformance.history import Header
from conformance.scenario.script import LinkFault


class ProxyConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Pass on every byte from and to `host`:`port`, write `history`, and carry out the fault, if there is one."""

    header: Header
    history: str
    host: str
    port: int
    protocol: str
    epoch: int
    fault: LinkFault | None = None


class ProxyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a proxy reports when it has ended in order.

    `seen` is how many frames of the trigger's kind came on the connection that had the most of them, `refused` how many
    clients the broker did not accept, `affected` how many bytes the fault withheld, swallowed or slowed, `unreadable`
    why a stream could not be read to its end.
    """

    fired: bool = False
    effective: bool = False
    healed: bool = False
    seen: int = 0
    connections: int = 0
    refused: int = 0
    frames: int = 0
    affected: int = 0
    unreadable: str = ""
