"""What the harness and the link proxy tell each other: plain data over a control socket."""

from __future__ import annotations

import dataclasses

import msgspec

from conformance.errors import FaultError
from conformance.faults.frames import reader as frames
from conformance.history import Header
from conformance.scenario.script import Cut, Delay, HoldLink, LinkFault, Throttle

_CLASSES: dict[str, type[LinkFault]] = {kind.name: kind for kind in (Cut, HoldLink, Delay, Throttle)}
_WORDS = {
    "at": ("before", "middle", "after"),
    "how": ("fin", "rst", "half_open"),
    "direction": (frames.TO_BROKER, frames.TO_CLIENT),
}


class ProxyConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Pass on what comes to `host`:`port`, write `history`, and carry out a fault: its name, and its fields."""

    header: Header
    history: str
    host: str
    port: int
    protocol: str
    epoch: int
    fault: str = ""
    fields: dict[str, object] = {}

    def decoded(self) -> LinkFault | None:
        """The fault, as the script has it."""
        kind: type[LinkFault] | None = _CLASSES.get(self.fault)
        return None if kind is None else msgspec.convert(self.fields, type=kind)


class ProxyResult(msgspec.Struct, frozen=True, kw_only=True):
    """The last word of a proxy that ended in order.

    `seen` is how many frames of the trigger's kind came on the connection that had the most of them, `refused` how many
    clients the broker did not take, `affected` how many bytes the fault withheld, swallowed or slowed, `unreadable` why
    a stream was not understood to its end.
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


def fields_of(fault: LinkFault) -> dict[str, object]:
    """The fields of a fault as plain data.

    Raises:
        FaultError: It holds a word that is none, or a number that was not drawn from the seed.
    """
    fields = dataclasses.asdict(fault)
    flat = {**fields, **fields.get("at", {})} if isinstance(fault, Cut | HoldLink) else fields
    trigger = fields.get("at", {})
    if trigger and trigger["kind"] not in frames.KINDS:
        raise FaultError(
            f"the {fault.name} cannot be armed: no frame is a {trigger['kind']!r}: {', '.join(frames.KINDS)}"
        )
    if trigger and not (isinstance(trigger["k"], int) and trigger["k"] > 0):
        raise FaultError(f"the {fault.name} cannot be armed: its k is {trigger['k']!r}, not a number from 1 on")
    for name, words in _WORDS.items():
        if name in flat and (word := trigger["at"] if name == "at" else flat[name]) not in words:
            raise FaultError(f"the {fault.name} cannot be armed: {name} {word!r} is none of {', '.join(words)}")
    for name in ("hold_s", "rtt_ms", "bytes_per_s"):
        if not flat.get(name, 1) > 0:
            raise FaultError(f"the {fault.name} cannot be armed: {name} must be above 0")
    return fields
