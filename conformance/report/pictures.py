"""Pictures of a report, as SVG without a script, each with a sentence that says the same.

The time line of a message as swim lanes; a strip for each trial; and how long answers, deliveries and
starts took, as a picture and as a table.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from conformance.counting import plural
from conformance.errors import visible
from conformance.judge.plan.timeline import fold
from conformance.judge.rows import Course, Histogram, Verdict, VerdictRow, Witness, bucket_end_ms

LANE, ROW, TIME, HEAD = 150, 22, 90, 30
"""Pixels: the width of a lane, the height of an event, the width of the times, the height of the names of lanes."""
EVENTS = 100
"""A longer timeline is folded in a table."""
PICTURED = 12
"""A longer one is folded in a picture and in a story."""
_LONGEST = 24
"""So many letters fit beside the mark of an event."""
_PAUSE_MS = 1_000.0
"""A longer time between two events is said: the picture has them in order, and not to scale."""

_WORDS = {
    "send invoke": ("sent", "{who} sent {message}"),
    "send ok": ("confirmed", "the broker confirmed it"),
    "confirm ok": ("confirmed", "the broker confirmed it"),
    "send fail": ("refused", "the broker refused it"),
    "deliver ok": ("received", "{who} received it"),
    "ack invoke": ("acknowledged", "{who} acknowledged it"),
    "ack ok": ("acknowledgement confirmed", "the broker confirmed the acknowledgement"),
    "nack invoke": ("given back", "{who} gave it back"),
    "commit invoke": ("commit asked", "{who} asked to commit"),
    "commit ok": ("committed", "the broker confirmed the commit"),
    "rollback invoke": ("rollback asked", "{who} asked to roll back"),
    "rollback ok": ("rolled back", "the broker confirmed the rollback"),
    "drain ok": ("drained", "{who} drained the queue"),
    "broker ok": ("broker started", "the broker was started again"),
    "kill": ("broker killed", "the broker was killed"),
    "kill_nodes": ("nodes killed", "nodes of the broker were killed"),
    "stop_nodes": ("nodes stopped", "nodes of the broker were stopped"),
    "lose_node": ("node killed", "the node of the client was killed"),
    "pause_nodes": ("node halted", "a node of the broker was halted"),
    "part_nodes": ("nodes parted", "nodes of the broker could not reach each other"),
    "stop": ("broker stopped", "the broker was stopped"),
    "pause": ("broker paused", "the broker was paused"),
    "consumer_crash": ("client killed", "the client was killed"),
    "power_loss": ("power lost", "the power was lost"),
    "disk_full": ("disk full", "the disk was full"),
    "filled_disk": ("disk filled", "others filled the disk"),
    "files_used_up": ("files used up", "the broker could open no more files"),
    "held_sync": ("sync held", "a sync was held"),
    "failed_sync": ("sync failed", "a sync failed"),
    "sync fail": ("sync failed", "a sync failed"),
    "cut": ("connection cut", "the connection was cut"),
}
"""The words of people for an operation and its phase, or a fault: in a picture, and as a sentence."""
_QUIET = "broker invoke, drain invoke, process invoke, process ok, fault armed, fault info, fault healed"
_OF_BROKER = ("fault", "broker", "sync")


def _step(event: Mapping[str, Any]) -> str:
    return f"{event.get('op', '')} {event.get('phase', '')}".strip()


def _kind(event: Mapping[str, Any]) -> str:
    """Return the key of `_WORDS` for an event."""
    return str(event.get("detail")).replace(",", " ").partition(" ")[0] if event.get("op") == "fault" else _step(event)


def _said(event: Mapping[str, Any], message: str) -> str:
    if (kind := _kind(event)) not in _WORDS:
        return kind.replace("_", " ")
    return _WORDS[kind][1].format(who=event.get("process", ""), message=f"message {message}")


def _telling(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Leave out what says nothing new. A fault is when it was injected, or took effect if something came between."""
    found: list[Mapping[str, Any]] = []
    for event in events:
        fired = [at for at, one in enumerate(found) if _step(one) == "fault fired" and _kind(one) == _kind(event)]
        if _step(event) == "fault effective" and fired:
            if fired[-1] < len(found) - 1 and not any(_step(one) == "broker ok" for one in found[fired[-1] :]):
                found.append({**found.pop(fired[-1]), "at_ms": event["at_ms"]})
        elif _step(event) != "broker ok" or str(event.get("detail")) not in _WORDS:
            found += [event] if _step(event) not in _QUIET and event.get("op") != "frame" else []
    return found


def story(witness: Witness) -> list[str]:
    """Tell what happened to a message in at most five lines: itself, the fault, the start after it, and its end."""
    events = _telling(witness.timeline)
    own = [at for at, event in enumerate(events) if _lane(event) not in ("broker", "drains")]
    faults = [at for at, event in enumerate(events) if event.get("op") == "fault"]
    met = [at for at in faults if own and own[0] < at < own[-1]][-1:] or [at for at in faults if own and at > own[-1]]
    starts = [at for at, event in enumerate(events) if met and at > met[0] and _kind(event) == "broker ok"]
    kept = own if len(own) < PICTURED // 2 else [*own[:3], *own[-2:]]
    lines: list[list[str]] = []
    before: int | None = None
    for at in sorted({*kept, *met[:1], *starts[:1]}):
        passed = float(events[at].get("at_ms", 0)) - float(events[at if before is None else before].get("at_ms", 0))
        later = "" if before is None else f" {_span(passed)} later" if passed >= 0.05 else " at once"
        if before is None or _lane(events[at]) == "broker" or _lane(events[before]) == "broker":
            lines.append([])
        lines[-1].append(f"{_said(events[at], witness.message)}{later}")
        before = at
    while len(lines) > 4:
        lines[1:3] = [lines[1] + lines[2]]
    texts = [text[0].upper() + text[1:] if text.startswith(("the ", "a ")) else text for text in map("; ".join, lines)]
    return [*(f"{text}." for text in texts), ending(witness)]


def ending(witness: Witness) -> str:
    """Say how the time line ended: whether the message came after the last fault, and how it was looked for.

    `Never delivered: looked for in 2 drains to silence, after 2 restarts of the broker.`
    """
    events = witness.timeline
    last = max((place for place, event in enumerate(events) if event.get("op") == "fault"), default=-1)
    times = [place for place, event in enumerate(events) if _step(event) == "deliver ok"]
    after = sum(place > last for place in times)
    drains = sum(_step(event) == "drain ok" for event in events)
    epochs = [epoch for event in events if (epoch := event.get("epoch")) is not None]
    starts = max(epochs, default=0) - min(epochs, default=0)
    looked = f"{plural(drains, 'drain')} to silence, after {plural(starts, 'restart')} of the broker"
    if not times:
        nowhere = "Not delivered, and no drain of this trial looked for it."
        return f"Never delivered: looked for in {looked}." if drains else nowhere
    if last < 0:
        return f"Delivered {_times(len(times))}; {looked}."
    again = f"{_times(after)} after the last fault" if after else "never after the last fault"
    return f"Delivered {_times(len(times) - after)} before the last fault, and {again}; {looked}."


def _times(count: int) -> str:
    return "once" if count == 1 else "twice" if count == 2 else f"{count} times"


def lanes(witness: Witness) -> Markup:
    """Draw a lane for the broker and each process that touched the message, downwards in the order of the clock.

    A fault is a band over all of them.
    """
    events = fold(_telling(witness.timeline), PICTURED)
    names = list(dict.fromkeys(_lane(event) for event in events if not isinstance(event, int)))
    width, height = TIME + LANE * len(names) + 24, HEAD + ROW * len(events)
    parts = [_text(_x(at), 18, _short(name), kind="lane") for at, name in enumerate(names)]
    line = Markup('<line x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>')
    parts += [line.format(_x(at), HEAD - 6, height) for at in range(len(names))]
    before = None
    for place, event in enumerate(events):
        y = HEAD + ROW * place + ROW // 2
        if isinstance(event, int):
            parts.append(_text(0, y + 4, f"... {event} more"))
            continue
        at_ms = float(event.get("at_ms", 0.0))
        parts += _event(event, names, y, width, None if before is None else at_ms - before)
        before = at_ms
    says = f"Time line of {witness.message}: {ending(witness)} The table below has every event."
    return _picture(says, width, height, parts)


def _lane(event: Mapping[str, Any]) -> str:
    op = event.get("op")
    return "broker" if op in _OF_BROKER else "drains" if op == "drain" else str(event.get("process", ""))


def _event(event: Mapping[str, Any], names: Sequence[str], y: int, width: int, gap_ms: float | None) -> list[Markup]:
    x, kind = _x(names.index(_lane(event))), _kind(event)
    parts = [_text(0, y + 4, f"{float(event.get('at_ms', 0.0)):,.1f} ms")]
    if event.get("op") == "fault":
        parts.append(_band(TIME, y - 10, width - TIME, ROW - 2))
    if gap_ms is not None and gap_ms > _PAUSE_MS:
        parts.append(Markup('<line x1="0" x2="{}" y1="{}" y2="{}" class="gap"/>').format(width, y - 11, y - 11))
    mark = "open" if event.get("phase") == "invoke" else "full"
    parts.append(Markup('<circle cx="{}" cy="{}" r="5" class="{}"/>').format(x, y, mark))
    count = str(event.get("detail", "")).partition("count ")[2] if kind == "drain ok" else ""
    said = _WORDS.get(kind, (kind.replace("_", " "),))[0]
    return [*parts, _text(x + 9, y + 4, _short(f"{said}, {count} came" if count else said))]


def _x(lane: int) -> int:
    return TIME + LANE * lane + 8


def _short(text: str) -> str:
    shown = visible(text)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


PART, STRIP, LEFT = 14, 26, 120
"""Pixels of a strip: the width of a part of the trial's time, the height of a row, the width of the names of rows."""
_DECADES = tuple(range(-4, 3))
"""Times are drawn on a logarithmic scale: 0.1 ms to 100 s."""
_BINS = 12 * (len(_DECADES) - 1)


def course_words(course: Course) -> str:
    """Say in one line what a trial was: `400 sent, 390 confirmed, 395 delivered in 2.1 s. 3 faults, ...`."""
    counts = {"sent": course.sent, "confirmed": course.confirmed, "delivered": course.delivered}
    said = [f"{', '.join(f'{sum(each):,} {name}' for name, each in counts.items())} in {course.seconds:.1f} s"]
    if course.faults:
        started = f", the broker started in {_span(max(course.starts_ms))} at most" if course.starts_ms else ""
        said.append(plural(course.faults, "fault") + started)
    if typical := typical_ms(course):
        said.append(f"Answers took {_span(typical)} typically, {_span(max(course.longest_ms))} at most")
    return ". ".join(said) + "."


def typical_ms(course: Course) -> float:
    """Return the median over the parts of the trial of their median answer, 0.0 without one."""
    return statistics.median(filter(None, course.median_ms)) if any(course.median_ms) else 0.0


def strip(course: Course, rows: Iterable[VerdictRow] = ()) -> Markup:
    """Draw a trial over its time: messages sent and confirmed, delivered, and how long an answer took.

    A band is a fault, until the broker is ready again. A line marks when a witness of these violations was confirmed.
    """
    width, height = LEFT + PART * len(course.sent), 3 * (STRIP + 6) + 14
    parts, at = [], 0
    for down, same in itertools.groupby(course.down):
        wide = len(list(same))
        parts += [_band(LEFT + PART * at, 0, PART * wide, height - 14)] if down else []
        at += wide
    most = max(1, *course.sent, *course.confirmed, *course.delivered)
    for row, (name, filled, outlined) in enumerate(
        (("sent, confirmed", course.confirmed, course.sent), ("delivered", course.delivered, ()))
    ):
        base = (row + 1) * (STRIP + 6)
        parts.append(_text(0, base - 6, name))
        parts.append(_steps(_heights(filled, most), base, "full"))
        parts += [_steps(_heights(outlined, most), base, "open")] if outlined else []
    base = 3 * (STRIP + 6)
    parts.append(_text(0, base - 6, "answer (log)"))
    parts.append(_steps(tuple(map(_log_height, course.longest_ms)), base, "open"))
    parts.append(_steps(tuple(map(_log_height, course.median_ms)), base, "full"))
    for at_ms in _confirmed_at(course.trial, rows):
        x = LEFT + at_ms / 1e3 / max(course.seconds, 1e-3) * PART * len(course.sent)
        parts.append(Markup('<line x1="{0:.0f}" x2="{0:.0f}" y1="0" y2="{1}" class="lost"/>').format(x, height - 14))
    parts += [_text(LEFT, height, "0 s"), _text(width, height, f"{course.seconds:.1f} s", kind="end")]
    return _picture(course.trial, width, height, parts)  # the words stand below it


def witnessing(rows: Iterable[VerdictRow]) -> set[str]:
    """Return the trials of the messages that show these verdicts."""
    return {witness.trial for row in rows for witness in row.witnesses}


def _confirmed_at(trial: str, rows: Iterable[VerdictRow]) -> list[float]:
    """Return when the witnesses of violations in this trial were confirmed, in milliseconds of the trial."""
    lines = [w.timeline for row in rows if row.verdict is Verdict.VIOLATED for w in row.witnesses if w.trial == trial]
    return [float(event["at_ms"]) for line in lines for event in line if _step(event) == "send ok"]


@dataclasses.dataclass(frozen=True)
class TimesView:
    """The merged histogram of a group of trials, with the number of messages that were sent, in words."""

    group: str
    inside: str
    what: str
    messages: str
    quantiles: tuple[str, ...]
    longest: str
    rate: str


QUANTILES = (0.5, 0.95, 0.99, 0.999)
"""Each is given if a message is expected beyond it: p99.9 of 300 messages would be the longest under another name."""


def merge(courses: Iterable[Course]) -> list[Histogram]:
    """Return the histograms of all these trials, one of each kind."""
    kinds: dict[tuple[str, bool], Histogram] = {}
    for one in (one for course in courses for one in course.times):
        before = kinds.get((one.of, one.paced))
        kinds[one.of, one.paced] = before + one if before else one
    return [kinds[kind] for kind in sorted(kinds)]


def times_table(courses: Mapping[str, Sequence[Course]]) -> list[TimesView]:
    """Return the lines of a table of times, for each group of trials and each kind of time."""
    found = []
    for group, one in ((group, one) for group, trials in courses.items() for one in merge(trials)):
        began = "its intended time" if one.paced else "the send"
        kind = (one.of, one.paced)
        trials = [course for course in courses[group] if kind in [(each.of, each.paced) for each in course.times]]
        faults = sum(course.faults for course in trials)
        steady = one.seconds and one.messages >= _expected(QUANTILES[1])
        found.append(
            TimesView(
                group=group,
                inside=f"{plural(faults, 'fault') if faults else 'no fault'} inside, in {plural(len(trials), 'trial')}",
                what=f"{one.of}, from {began}",
                messages=f"{one.timed:,} of {sum(sum(course.sent) for course in trials):,} sent",
                quantiles=tuple(
                    _span(one.quantile_ms(share)) if one.timed >= _expected(share) else "" for share in QUANTILES
                ),
                longest=_span(one.longest_ms) if one.timed else "",
                rate=f"{one.messages / one.seconds:,.0f}" if steady else "",
            )
        )
    return found + [line for group, one in courses.items() for line in _starts(group, one)]


def _starts(group: str, courses: Sequence[Course]) -> Iterator[TimesView]:
    """Yield the line about the starts of the broker, or of a node that took over: no client has an answer meanwhile."""
    if not (every := sorted(ms for course in courses for ms in course.starts_ms)):
        return
    yield TimesView(
        group=group,
        inside=plural(sum(course.faults for course in courses), "fault"),
        what="starts and takeovers, until a message had passed: the longest of each fiftieth of a trial",
        messages=f"{len(every):,} of them",
        quantiles=tuple(
            _span(every[math.ceil(share * len(every)) - 1]) if len(every) >= _expected(share) else ""
            for share in QUANTILES
        ),
        longest=_span(every[-1]),
        rate="",
    )


def _expected(share: float) -> int:
    """Return how many messages have one beyond this quantile.

    >>> _expected(0.5), _expected(0.99), _expected(0.999)
    (2, 100, 1000)
    """
    return round(1 / (1 - share))


def times(courses: Mapping[str, Sequence[Course]]) -> Markup:
    """Draw how long answers, deliveries and starts took, on a logarithmic scale.

    `courses` are by fault. The rows of messages are by kind and fault; the last row are the starts of the broker.
    """
    every = [course for group in courses.values() for course in group]
    rows: dict[str, Counter[int]] = {}
    for fault, one in ((fault, one) for fault, group in courses.items() for one in merge(group)):
        row = rows.setdefault(f"{one.of}: {fault}", Counter())
        for bucket, messages in one.counts.items():
            row[_bin(bucket_end_ms(bucket))] += messages
    rows = {name: rows[name] for name in sorted(rows)}
    rows["start of broker"] = Counter(_bin(ms) for course in every for ms in course.starts_ms)
    rows = {name: row for name, row in rows.items() if row}
    bin_width, left, height = 9, LEFT + 90, (STRIP + 6) * len(rows) + 16
    parts = []
    for place, (name, row) in enumerate(rows.items()):
        base = (place + 1) * (STRIP + 6)
        parts.append(_text(0, base - 6, f"{name} ({row.total():,})"))
        for at, count in sorted(row.items()):
            tall = max(3, round(STRIP * count / max(row.values())))
            bar = Markup('<path d="M{} {}h{}v{}h-{}z" class="full"/>')
            parts.append(bar.format(left + at * bin_width, base - tall, bin_width - 1, tall, bin_width - 1))
    for place, decade in enumerate(_DECADES):
        parts.append(_text(left + place * 12 * bin_width, height, _span(10.0 ** (decade + 3))))
    says = f"How long answers, deliveries and starts took in {plural(len(every), 'trial')}"
    return _picture(says, left + _BINS * bin_width + 60, height, parts)


def _bin(ms: float) -> int:
    return min(int(_decades(ms) * 12), _BINS - 1)


def _decades(ms: float) -> float:
    """Return the place of a time on the scale: decades from its low end."""
    return min(max(math.log10(ms / 1e3) - _DECADES[0], 0.0), float(len(_DECADES) - 1))


def _log_height(ms: float) -> int:
    return max(1, round(STRIP * _decades(ms) / (len(_DECADES) - 1))) if ms else 0


def _heights(counts: Sequence[int], most: int) -> tuple[int, ...]:
    return tuple(max(1, round(STRIP * count / most)) if count else 0 for count in counts)


def _steps(heights: Sequence[int], base: int, kind: str) -> Markup:
    """Draw an area of steps, one for each run of equal heights."""
    steps = "".join(f"V{base - tall}h{PART * len(list(same))}" for tall, same in itertools.groupby(heights))
    return Markup('<path d="M{} {}{}V{}" class="{}"/>').format(LEFT, base, steps, base, kind)


def _band(x: int, y: int, width: int, height: int) -> Markup:
    return Markup('<rect x="{}" y="{}" width="{}" height="{}"/>').format(x, y, width, height)


def _text(x: int, y: int, text: str, kind: str = "") -> Markup:
    of_class = Markup(' class="{}"').format(kind) if kind else ""
    return Markup('<text x="{}" y="{}"{}>{}</text>').format(x, y, of_class, visible(text))


def _picture(says: str, width: int, height: int, parts: Sequence[Markup]) -> Markup:
    return Markup('<svg role="img" viewBox="0 0 {0} {1}" width="{0}"><title>{2}</title>{3}</svg>').format(
        width, height, visible(says), Markup("").join(parts)
    )


def _span(ms: float) -> str:
    """Return a time for people.

    >>> _span(0.84), _span(230.7), _span(1234.0)
    ('0.8 ms', '231 ms', '1.2 s')
    """
    if ms >= 1_000:
        return f"{ms / 1_000:.3g} s" if ms >= 10_000 else f"{ms / 1_000:.1f} s"
    return f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"
