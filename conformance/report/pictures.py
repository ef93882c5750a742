"""The time line of a message as swim lanes: SVG without a script, and one sentence that says how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from conformance.judge.rows import Witness
from conformance.quoting import visible
from conformance.report.phrases import plural

LANE, ROW, TIME, HEAD = 150, 22, 90, 30
"""Pixels: the width of a lane, the height of an event, the width of the times, the height of the names of lanes."""
_LONGEST = 24
"""So many letters fit beside the mark of an event."""
_PAUSE_MS = 1_000.0
"""A longer time between two events is said: the picture has them in order, and not to scale."""


def ending(witness: Witness) -> str:
    """Say how the time line ended: whether the message came after the last fault, and how it was looked for.

    `Never delivered: looked for in 2 drains to silence, after 2 restarts of the broker.`
    """
    events = witness.timeline
    last = max((place for place, event in enumerate(events) if event.get("op") == "fault"), default=-1)
    times = [place for place, event in enumerate(events) if _is(event, "deliver", "ok")]
    after = sum(place > last for place in times)
    drains = sum(_is(event, "drain", "ok") for event in events)
    starts = len({event.get("epoch") for event in events} - {None}) - 1
    looked = f"{plural(drains, 'drain')} to silence, after {plural(max(starts, 0), 'restart')} of the broker"
    if not times:
        return f"Never delivered: looked for in {looked}."
    if last < 0:
        return f"Delivered {_times(len(times))}; {looked}."
    again = f"{_times(after)} after the last fault" if after else "never after the last fault"
    return f"Delivered {_times(len(times) - after)} before the last fault, and {again}; {looked}."


def _is(event: Mapping[str, Any], op: str, phase: str) -> bool:
    return event.get("op") == op and event.get("phase") == phase


def _times(count: int) -> str:
    return "once" if count == 1 else "twice" if count == 2 else f"{count} times"


def lanes(witness: Witness) -> Markup:
    """Draw a lane for each process, downwards in the order of the clock; a fault is a band over all of them."""
    events = witness.timeline
    names = list(dict.fromkeys(str(event.get("process", "")) for event in events))
    width, height = TIME + LANE * len(names), HEAD + ROW * len(events)
    parts = [
        Markup('<text x="{}" y="18" class="lane">{}</text>').format(_x(at), _short(n)) for at, n in enumerate(names)
    ]
    parts += [
        Markup('<line x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(_x(at), HEAD - 6, height)
        for at in range(len(names))
    ]
    before = None
    for place, event in enumerate(events):
        at_ms = float(event.get("at_ms", 0.0))
        parts += _event(event, names, HEAD + ROW * place + ROW // 2, width, None if before is None else at_ms - before)
        before = at_ms
    says = f"Time line of {witness.message}: {ending(witness)} The table below has each event."
    return Markup('<svg role="img" viewBox="0 0 {} {}" width="{}"><title>{}</title>{}</svg>').format(
        width, height, width, visible(says), Markup("").join(parts)
    )


def _event(event: Mapping[str, Any], names: Sequence[str], y: int, width: int, gap_ms: float | None) -> list[Markup]:
    x = _x(names.index(str(event.get("process", ""))))
    op, phase = str(event.get("op", "")), str(event.get("phase", ""))
    detail = str(event.get("detail", "")) if op in ("broker", "drain", "fault") else ""
    parts = [Markup('<text x="0" y="{}">{:,.1f} ms</text>').format(y + 4, float(event.get("at_ms", 0.0)))]
    if op == "fault":
        detail = detail.partition(",")[0]
        parts.append(Markup('<rect x="{}" y="{}" width="{}" height="{}"/>').format(TIME, y - 10, width - TIME, ROW - 2))
    if gap_ms is not None and gap_ms > _PAUSE_MS:
        parts.append(Markup('<line x1="0" x2="{}" y1="{}" y2="{}" class="gap"/>').format(width, y - 11, y - 11))
    parts.append(
        Markup('<circle cx="{}" cy="{}" r="5" class="{}"/>').format(x, y, "open" if phase == "invoke" else "full")
    )
    said = " ".join(filter(None, (op, phase, detail)))
    return [*parts, Markup('<text x="{}" y="{}">{}</text>').format(x + 9, y + 4, _short(said))]


def _x(lane: int) -> int:
    return TIME + LANE * lane + 8


def _short(text: str) -> str:
    shown = visible(text)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
