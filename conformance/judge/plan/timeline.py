"""What is shown of a long timeline: the one rule of every text, page and file that cuts one."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping, Sequence
from typing import TypeVar

from conformance.history import Op, Phase

Shown = TypeVar("Shown", bound=Mapping[str, object])

MOST = 1_000
"""The events of a stored timeline. 60 kills are about 400; only a message that comes again and again has more."""

_OF_TRIAL = (Op.FAULT, Op.BROKER)
_LEAST_TELLING = ((Op.PROCESS, ""), (Op.FRAME, ""), (Op.ACK, Phase.INVOKE), (Op.DRAIN, Phase.INVOKE))
"""Operation and phase, an empty one for each phase."""


def fold(events: Sequence[Shown], most: int) -> list[Shown | int]:
    """Return the events of a timeline, with the number of left out events in their place if there are more than `most`.

    It keeps the events of the message, the drains, and the first and last event of all. Around each of them it keeps
    the last fault and start before it, and the first fault and start after it. Of a message or of drains with more
    than `most` events, the kinds that tell least and then those in the middle are left out.

    Counter-example: a message was sent in the tenth of 16 rounds. Of the first and last five events of its timeline,
    none was its own.
    """
    if len(events) <= most:
        return list(events)
    drains = [place for place, event in enumerate(events) if event["op"] == Op.DRAIN]
    own = [place for place, event in enumerate(events) if event["op"] not in (*_OF_TRIAL, Op.DRAIN)]
    anchors = sorted([*_telling(events, own, most), *_telling(events, drains, most)])
    kept = {0, len(events) - 1, *anchors}
    for around in (_fault, _start):
        places = [place for place, event in enumerate(events) if around(event)]
        for place in anchors:
            after = bisect.bisect(places, place)
            kept.update(places[max(after - 1, 0) : after + 1])
    # "1 more" would be as long as the event.
    kept |= {place for place in range(len(events)) if {place - 1, place + 1} <= kept}
    shown: list[Shown | int] = [events[0]]
    for place, other in itertools.pairwise(sorted(kept)):
        shown += [*([other - place - 1] if other > place + 1 else []), events[other]]
    return shown


def cut(events: Sequence[Shown]) -> list[Shown]:
    """Return what is stored of a timeline."""
    return [event for event in fold(events, MOST) if not isinstance(event, int)]


def _telling(events: Sequence[Mapping[str, object]], places: Sequence[int], most: int) -> list[int]:
    found = list(places)
    for op, phase in _LEAST_TELLING:
        if len(found) <= most:
            return found
        found = [at for at in found if events[at]["op"] != op or phase not in ("", events[at]["phase"])]
    left_out = max(len(found) - most, 0)
    head = most - most // 2
    return found[:head] + found[head + left_out :]


def _fault(event: Mapping[str, object]) -> bool:
    return event["op"] == Op.FAULT and event["phase"] in (Phase.FIRED, Phase.EFFECTIVE)


def _start(event: Mapping[str, object]) -> bool:
    return event["op"] == Op.BROKER and event["phase"] == Phase.OK and event.get("detail") in ("start", "restart")
