"""The answer of the judge: verdict rows, as plain data that goes to disk and back."""

from __future__ import annotations

import enum
import math
import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from conformance.records import RunRecord, TrialRecord

HERE = "."
"""The folder of the run in a replay command: a row must be the same in any folder."""


def replay_in(replay: str, folder: object) -> str:
    """Return a replay command as it is typed outside the folder of the run.

    >>> replay_in("conformance replay . --scenario s --trial 2", "runs/a b")
    "conformance replay 'runs/a b' --scenario s --trial 2"
    """
    inside = f"conformance replay {HERE} "
    if not replay.startswith(inside):
        return replay
    return f"conformance replay {shlex.quote(str(folder))} {replay.removeprefix(inside)}"


class Verdict(enum.StrEnum):
    """The verdicts (design, "Terms"). Only `VIOLATED` counts against a broker."""

    HOLDS = "HOLDS"
    VIOLATED = "VIOLATED"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_TRIED = "NOT_TRIED"
    NOT_APPLICABLE = "NOT_APPLICABLE"
    HARNESS_ERROR = "HARNESS_ERROR"
    WITNESSED = "WITNESSED"
    NOT_WITNESSED = "NOT_WITNESSED"
    OBSERVED = "OBSERVED"


class Exposure(msgspec.Struct, frozen=True, kw_only=True):
    """What was at risk: `total` operations over `trials` trials, and the least and the median of one trial.

    `name` is that of the exposure (`confirmed_in_window`); `confirmed` counts all confirmed sends; `window_ms` is the
    broker's flush interval before the fault (100 ms if its settings do not say), 0.0 if every operation counts.
    """

    name: str
    total: int
    minimum: int
    median: float
    trials: int
    confirmed: int = 0
    window_ms: float = 0.0


class ControlResult(msgspec.Struct, frozen=True, kw_only=True):
    """How often the control failed. `strong`: the same product, weakened; else check-only.

    A liar, and a broker that stores nothing, are check-only: they say nothing about a missing sync of this broker.
    """

    label: str
    strong: bool
    failed: int
    trials: int


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """One counterexample (or one witness of a permission); the first of a violated row has a timeline.

    `timeline` holds the events of that message over all processes in the order of the clock:
    `{"at_ms", "process", "op", "phase", "epoch", "detail"}`, `at_ms` from the first event of the trial.
    """

    trial: str
    queue: str
    message: str
    timeline: tuple[dict[str, Any], ...] = ()


ANSWER, DELIVERY = "answer", "delivery"
"""What a histogram is of: answers to sends (in a transaction, to its commit), or first deliveries to a consumer."""

STEPS = 16
"""So many buckets lie between a time and its double: a quantile is at most 1/16 too long."""


class Histogram(msgspec.Struct, frozen=True, kw_only=True):
    """How long after their sends messages were answered or delivered; histograms of equal `of` and `paced` add up.

    `paced`: from the intended time of the send. Otherwise it is from the send itself, which a slow broker holds up.
    `counts` are by bucket: a time of t ns is in t >> s + 16 s, where s is the least that leaves t >> s below 32.
    `messages` are all, in `seconds` from the first send (of deliveries, from the attach if that is later). A message
    that was sent before its consumer attached has no time, and is in no bucket.
    """

    of: str
    paced: bool
    messages: int
    seconds: float
    longest_ms: float
    counts: dict[int, int]

    def __add__(self, other: Histogram) -> Histogram:
        return Histogram(
            of=self.of,
            paced=self.paced,
            messages=self.messages + other.messages,
            seconds=self.seconds + other.seconds,
            longest_ms=max(self.longest_ms, other.longest_ms),
            counts={
                bucket: self.counts.get(bucket, 0) + other.counts.get(bucket, 0)
                for bucket in sorted(self.counts.keys() | other.counts.keys())
            },
        )

    @property
    def timed(self) -> int:
        return sum(self.counts.values())

    def quantile_ms(self, share: float) -> float:
        """Return the time within which this share of the messages came: the end of its bucket.

        >>> of = Histogram(of=ANSWER, paced=True, messages=4, seconds=1.0, longest_ms=0.000100, counts={20: 3, 57: 1})
        >>> of.quantile_ms(0.75), of.quantile_ms(0.76)
        (2e-05, 0.0001)
        """
        left = math.ceil(share * self.timed)
        for bucket in sorted(self.counts):
            left -= self.counts[bucket]
            if left <= 0:
                return min(bucket_end_ms(bucket), self.longest_ms)
        return self.longest_ms


def bucket_end_ms(bucket: int) -> float:
    """Return the longest time of a bucket.

    >>> bucket_end_ms(31), bucket_end_ms(32)
    (3.1e-05, 3.3e-05)
    """
    shift = max(bucket // STEPS - 1, 0)
    return (((bucket - STEPS * shift + 1) << shift) - 1) / 1e6


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in each of equal parts of a trial's time: the data of a picture, which decides nothing.

    `sent` (at the intended time of a paced publisher), `confirmed` and `delivered` (for the first time) count messages.
    `median_ms` and `longest_ms` are the times from the intended send to its answer, in the part of the answer; 0.0
    without one. `down` is 1 where a fault was in effect or the broker was not ready. `starts_ms` has the longest start
    of the broker of each part with one. `times` has the time of each message, at most one histogram of each kind.
    """

    trial: str
    seconds: float
    sent: tuple[int, ...]
    confirmed: tuple[int, ...]
    delivered: tuple[int, ...]
    median_ms: tuple[float, ...]
    longest_ms: tuple[float, ...]
    down: tuple[int, ...]
    faults: int
    starts_ms: tuple[float, ...]
    times: tuple[Histogram, ...] = ()


class VerdictRow(msgspec.Struct, frozen=True, kw_only=True):
    """One claim in one scenario: the unit of a report, and an object of `verdicts` in `report.json`.

    `trials` counts valid trials of the subject, `offended` those with at least one counterexample, `void` the void
    ones. A trial can hold several faults: `faults` counts the independent units of the subject, `offended_faults` those
    with a counterexample; without a fault they are the trials. `strength` is how many of them a HOLDS rests on, as text
    (`30 kills`, `3 trials`). `needs_exposure`: it is undecided because some faults met nothing at risk. `bound` is the
    upper bound (95 %) of the chance per fault or trial, `q` the miss probability of a strong control that failed; else
    None. `reason` is for people. `required`: judged only because the user asked, and never counted against the vendor.
    `replay` is a command line, to be typed in the folder of the run: it records the first trial of a violation again;
    for other verdicts it repeats the run. `decided_by` is the durability test that covers this row. `failed_unpromised`
    is the figure of a check that failed although this configuration does not promise the claim. `anomaly` is the name
    of the check. `standing`: it judged the trials of every scenario; `repeated_by` are those whose trials offended it,
    and that show it again.
    """

    claim: str
    kind: str
    scope: str
    subject: str
    says: str
    document: str
    section: str
    adapter: str
    version: str
    launcher: str
    settings: dict[str, bool | int | str]
    protocol: str
    client: str
    scenario: str
    mode: str
    fault: str
    failure_model: str
    verdict: Verdict
    exposure: Exposure | None
    trials: int
    offended: int
    void: int
    control: ControlResult | None
    bound: float | None
    q: float | None
    reason: str
    replay: str
    required: bool = False
    faults: int = 0
    offended_faults: int = 0
    needs_exposure: bool = False
    strength: str = ""
    offences: int = 0
    decided_by: str = ""
    failed_unpromised: str = ""
    anomaly: str = ""
    standing: bool = False
    repeated_by: tuple[str, ...] = ()
    witnesses: tuple[Witness, ...] = ()

    @property
    def graded(self) -> str:
        """The verdict with its strength: `HOLDS (30 kills)`."""
        return f"{self.verdict} ({self.strength})" if self.strength else str(self.verdict)


ANSWERS: Mapping[str, str] = MappingProxyType(
    {
        "altered": "delivers a message that was altered",
        "silent": "loses messages, without a word in its log",
        "reported": "loses messages, and reports it in its log",
        "unreadable": "starts, and no client can read its queue to the end",
        "refused": "refuses to start",
        "whole": "delivers everything as it was sent",
    }
)
"""What a broker does whose data were changed at rest, the worst first."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a report needs. `self_checks` are rows about the suite's own sessions, apart from the broker's.

    `account`: by the names of `anomalies.fates.ACCOUNT`, in which of them the confirmed messages of the subject ended.
    `damage`: by the kind of `scenario.faults.Corrupt`, how many trials ended with which of `ANSWERS`.
    """

    run: RunRecord
    rows: tuple[VerdictRow, ...]
    self_checks: tuple[VerdictRow, ...]
    trials: tuple[TrialRecord, ...]
    courses: tuple[Course, ...] = ()
    account: dict[str, int] = {}
    damage: dict[str, dict[str, int]] = {}
