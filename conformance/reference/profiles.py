"""Profiles: the documented behaviour of a system, for peers that ask for it. Wire forms: docs/reference/profiles.md.

A profile adds to the standards and takes nothing away: a peer that asks for nothing gets the standard.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from conformance.errors import UsageError

WINDOW = 50
"""Messages of a publish window where the peer names none."""

MOST = 65_535
"""Messages of the largest window or prefetch limit that can be asked for."""

PUBLISH_WINDOW, EVENT_MODE, IMMEDIATELY = "publish-window", "ack-event-mode", "ack-immediately"
ACK_MODE, PREFETCH = "ack-mode", "prefetch"
"""What a peer asks with: link properties of AMQP, headers of STOMP."""


class Unknown(Exception):
    """A peer asked for what its profile does not have; the text says what there is."""


@dataclass(frozen=True, slots=True)
class ProfileMode:
    """An acknowledgement mode of a consumer.

    `settled`: a message is removed when it is sent. `lazy`: an acknowledgement is answered before it is stored.
    """

    settled: bool = False
    lazy: bool = False


@dataclass(frozen=True, slots=True)
class Publishing:
    """What a publisher asked for: `window` messages, and whether one confirm speaks for all before it."""

    window: int
    ranged: bool


@dataclass(frozen=True, slots=True)
class Consuming:
    """What a consumer asked for: its mode, and how many deliveries it may have without an outcome; 0 for no limit."""

    mode: ProfileMode
    prefetch: int


PLAIN = Consuming(ProfileMode(), 0)
"""What a consumer gets that asks for nothing."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One system's additions: publish windows, a prefetch limit, and the modes that a consumer may name."""

    description: str
    windows: bool = False
    prefetch: bool = False
    modes: Mapping[str, ProfileMode] = field(default_factory=dict)

    def publishing(self, asked: Mapping[str, str]) -> Publishing | None:
        """What the words of an attach or a CONNECT ask for; None where the profile has no windows.

        Raises `Unknown`.
        """
        if not self.windows:
            return None
        mode = asked.get(EVENT_MODE, "per-message")
        if mode not in ("per-message", "windowed"):
            raise Unknown(f"{EVENT_MODE} {mode[:40]!r}: it is per-message or windowed")
        return Publishing(_number(asked, PUBLISH_WINDOW, WINDOW), mode == "windowed")

    def consuming(self, asked: Mapping[str, str]) -> Consuming:
        """What the words of an attach or a SUBSCRIBE ask for. Raises `Unknown`."""
        name = asked.get(ACK_MODE) if self.modes else None
        if name is not None and name not in self.modes:
            raise Unknown(f"{ACK_MODE} {name[:40]!r}: it is one of {', '.join(self.modes)}")
        mode = self.modes[name] if name is not None else ProfileMode()
        return Consuming(mode, _number(asked, PREFETCH, 0) if self.prefetch else 0)


STANDARD = Profile("AMQP 1.0, AMQP 0-9-1 and STOMP as they are written")

_CONFIRMED, _LAZY, _NONE = ProfileMode(), ProfileMode(lazy=True), ProfileMode(settled=True)

PROFILES: dict[str, Profile] = {
    "standard": STANDARD,
    "artemis": Profile("sends, commits and rollbacks are answered when on the disk; sync_* settings weaken it"),
    "qpid": Profile(
        "a prefetch limit per consumer, NO_ACK and PRE",
        prefetch=True,
        modes={"auto": _CONFIRMED, "client": _CONFIRMED, "pre": _CONFIRMED, "no-ack": _NONE},
    ),
    "ems": Profile(
        "confirmed acknowledgements, EXPLICIT_CLIENT, lazy DUPS_OK, NO_ACK",
        modes={
            "auto": _CONFIRMED,
            "client": _CONFIRMED,
            "explicit-client": _CONFIRMED,
            "dups-ok": _LAZY,
            "explicit-client-dups-ok": _LAZY,
            "no-ack": _NONE,
        },
    ),
    "solace": Profile("publish windows: confirms at a third of one or after a second, Ack Immediately", windows=True),
    "rabbitmq": Profile("nothing: its documents promise no more than the standards and the settings here do"),
    "activemq": Profile("nothing: its documents promise no more than the standards and the settings here do"),
}


def profile(name: str) -> Profile:
    """The profile of this name; raises `UsageError` where there is none.

    >>> profile("solace").publishing({"publish-window": "9"}).window
    9
    """
    if name not in PROFILES:
        raise UsageError.unknown("profile", name, PROFILES)
    return PROFILES[name]


def describe() -> str:
    return "\n".join(f"  {name}\n      {each.description}" for name, each in PROFILES.items())


def _number(asked: Mapping[str, str], name: str, default: int) -> int:
    text = asked.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MOST)) and 0 < int(text) <= MOST):
        raise Unknown(f"{name} {text[:40]!r}: it is a whole number of messages from 1 to {MOST}")
    return int(text)
