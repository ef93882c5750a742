"""Give the reason of a verdict: one to four sentences for people, from counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conformance import counting
from conformance.claims import Kind, Value
from conformance.counting import plural
from conformance.judge.plan.relations import LOSS_WINDOWS_MS
from conformance.judge.tally import NONE, Tally
from conformance.records import RunRecord
from conformance.scenario import Weakened
from conformance.scenario.faults import FAULTS, Stop, StopNodes

UNSHOWN = "could have shown it."  # of a check that had no message to look at
_PARTS = {
    "all": "all {} messages",
    "prefix": "the first {} messages",
    "middle": "{} messages in the middle",
    "tail": "the last {} messages",
}
_ORDERED = {
    "confirmed_at": "confirmed",
    "committed_at": "committed",
    "handed_at": "delivered",
    "acked_at": "acknowledged",
}


def count_faults(fault: str, number: int) -> str:
    """Count faults of that name, or trials if it is none.

    >>> count_faults("kill", 3), count_faults("none", 1)
    ('3 kills', '1 trial')
    """
    return plural(number, *_counted(fault))


def faults_named(fault: str) -> str:
    """Return the plural of the fault of that name.

    >>> faults_named("power_loss")
    'power losses'
    """
    return _counted(fault)[1]


def _counted(fault: str) -> tuple[str, str]:
    return FAULTS[fault].counted if fault in FAULTS else ("trial", "trials")


def sentence(words: str) -> str:
    """End words with one full stop.

    >>> sentence("no port was free"), sentence("No port was free.")
    ('no port was free.', 'No port was free.')
    """
    return f"{words.rstrip('.')}."


def units(tally: Tally, number: int) -> str:
    """Count independent units: faults, or trials if there is no fault."""
    return count_faults(tally.fault, number)


def strength(tally: Tally) -> str:
    """Count what a HOLDS rests on: `3 trials`, `30 kills, 10 at the trigger`."""
    return units(tally, tally.faults) + _at_trigger(tally)


def _at_trigger(tally: Tally) -> str:
    return f", {own} at the trigger" if (own := tally.faults_at_trigger) < tally.faults else ""


def times_seen(tally: Tally) -> str:
    """Say how often: `seen in 3 of 3 kills`, `seen once in 5 kills`."""
    if tally.offended_faults == 1 and tally.faults > 1:
        return f"seen once in {units(tally, tally.faults)}"
    return f"seen in {tally.offended_faults} of {units(tally, tally.faults)}"


def figure(tally: Tally) -> str:
    """Return the figure that a verdict rests on: `0 of 1,240 confirmed messages lost`."""
    return f"{tally.offences:,} of {tally.applies:,} {tally.anomaly.words}"


def holds(tally: Tally) -> str:
    exposure = tally.exposure
    assert exposure is not None  # it has trials
    risk = "at risk" if tally.fault != NONE else "exposed"
    in_trials = f" of {plural(tally.trials, 'trial')}" if tally.faults != tally.trials else ""
    in_trials += _at_trigger(tally)
    left = counting.may_fail(counting.upper_bound(tally.faults), faults_named(tally.fault), "violate the claim")
    text = [
        f"{figure(tally)} in {units(tally, tally.faults)}{in_trials} (at least {exposure.minimum:,} {risk} in each).",
        f"{left[:1].upper()}{left[1:]} (95 % confidence, if they are independent).",
        power(tally) if tally.fault != NONE else "",
    ]
    last = _everywhere(tally) if tally.scenario.standing else f"Failure model: {failure_model(tally)}."
    return " ".join([*filter(None, text), control(tally), last])


def power(tally: Tally) -> str:
    """Say which defects these faults would have shown; empty if the check counts nothing back from its fault.

    A broker that stores some time after its answer loses what it answered within that time before the fault. When it
    answered is not known, but it was after the request: so a fault that came within that time after a request shows it.
    A broker that loses after one fault in ten is missed by n faults with the chance 0.9^n. An orderly stop shows no
    late storing: the broker has the time to store before it ends.
    """
    if tally.fault in (Stop.name, StopNodes.name):
        return ""
    within = [tally.faults_within(ms) for ms in LOSS_WINDOWS_MS]
    if not any(within):
        return ""
    tenth, hundredth = (100 * (1 - (1 - 1 / n) ** tally.faults) for n in (10, 100))
    return (
        f"A broker that stores {_listed(LOSS_WINDOWS_MS)} ms after its answer would have lost messages in at least "
        f"{_listed(within)} of these {units(tally, tally.faults)}. A loss in one of ten would have been seen with "
        f"{tenth:.0f} %, in one of a hundred with {hundredth:.0f} %."
    )


def _listed(numbers: Sequence[int]) -> str:
    """List numbers.

    >>> _listed((3, 10, 100))
    '3, 10 or 100'
    """
    return f"{', '.join(map(str, numbers[:-1]))} or {numbers[-1]}"


def _everywhere(tally: Tally) -> str:
    scenarios = len({trial.scenario for trial, _ in tally.subject.valid})
    faults = sum(bool(facts.counts["faults_effective"]) for facts in tally.subject.facts)
    return f"Judged in the trials of {scenarios:,} scenarios; {faults:,} of these trials had a fault."


def incomplete(run: RunRecord) -> str:
    return f"The run is incomplete{': ' if run.incomplete else ''}{run.incomplete}."


def control(tally: Tally) -> str:
    """Say how often the control failed; a liar proves the check, never the exposure."""
    result = tally.control_result
    assert result is not None  # no claim holds without a control that failed
    if tally.strong:
        q = counting.miss_probability(result.failed, result.trials, tally.faults)
        which = f"The opposite setting ({result.label})" if tally.claim.kind is Kind.DEFAULT else "The control"
        passes = counting.chance_of_control(q)
        return f"{which} failed in {result.failed} of {units(tally, result.trials)}; {passes}."
    on = f"with {result.label}" if isinstance(tally.check.control, Weakened) else f"on the {result.label}"
    failed = f"{result.failed} of {result.trials}"
    return f"The check was seen to fail {on} ({failed}), which proves the check, not the exposure."


def failure_model(tally: Tally) -> str:
    found = (fault.failure_model for fault in reversed(tally.scenario.faults) if tally.fault in fault.names)
    return next(found, "no fault")


def why_violated(tally: Tally) -> str:
    first = next(iter(tally.witnesses), None)
    return " ".join(
        part
        for part in (
            f"{figure(tally)}: {times_seen(tally)}." if first else f"No message was sent: {times_seen(tally)}.",
            _which(tally),
            _unrecovered(tally),
            f"First: {first.message} in {first.trial}." if first else "",
        )
        if part
    )


def _unrecovered(tally: Tally) -> str:
    """Say how the broker failed to start again, or ended, in the first such trial; empty for any other anomaly."""
    words = next(filter(None, (facts.text_of(tally.anomaly.name) for facts in tally.subject.facts)), "")
    return sentence(f"{words[:1].upper()}{words[1:]}") if words else ""


def _which(tally: Tally) -> str:
    """Say which part of the sequence was lost in each offended trial, and what else was late or stuck."""
    parts = [facts.part(tally.anomaly.name) for facts in tally.subject.facts]
    places = []
    for part, words in _PARTS.items():
        if parts.count(part):
            where = words.format(_ORDERED[tally.anomaly.order])
            places.append(f"{where} in {units(tally, parts.count(part))}" if tally.offended > 1 else where)
    # With several faults in a trial, a part is that of the sequence between two of them.
    text = f"Affected: {', '.join(places)}." if places and tally.faults <= tally.trials else ""
    if tally.anomaly.rests_on(["delay"]):
        return text  # the late and the stuck are the offending ones
    late = sum(int(facts.counts["all_late"]) for facts in tally.subject.facts)
    stuck = sum(facts.stuck for facts in tally.subject.facts)
    more = [f"{late:,} others came only after another restart (late)"] if late else []
    more += [f"in {units(tally, stuck)} the queue kept a depth above zero (stuck)"] if stuck else []
    return " ".join(filter(None, [text, f"In addition, {' and '.join(more)}." if more else ""]))


def permission(tally: Tally, beside: int | None) -> str:
    """Say what was seen of a permission; `beside` counts the other half if a witness needs two."""
    other = f", {beside:,} others absent" if beside is not None else ""
    missing = "" if tally.applies else f" No message {UNSHOWN}"
    return f"{figure(tally)}{other}, in {units(tally, tally.trials)}.{missing}{_also(hidden_from_tracer(tally))}"


def why_expected(tally: Tally) -> str:
    if not tally.applies:
        return f"An expectation of this suite. No message in {units(tally, tally.trials)} {UNSHOWN}"
    found = times_seen(tally).replace("seen", "seen to fail")
    how = found if tally.offended else f"not seen to fail in {units(tally, tally.trials)}"
    measured = f" Medians of the trials: {', '.join(tally.figures)}." if tally.figures else ""
    return f"An expectation of this suite, {how}: {figure(tally)}.{measured}{_also(hidden_from_tracer(tally))}"


def why_observed(tally: Tally) -> str:
    if tally.anomaly.figures:
        return f"Observed here, medians of {units(tally, tally.trials)}: {', '.join(tally.figures)}."
    return f"Observed here: {figure(tally)} in {units(tally, tally.trials)}.{_also(hidden_from_tracer(tally))}"


def hidden_from_tracer(tally: Tally) -> str:
    """Say what the tracer could not see, if the check is about the disk; empty if it saw everything."""
    found = [facts.hidden for facts in tally.subject.facts if tally.anomaly.at_disk and facts.hidden is not None]
    if not found:
        return ""
    how = f": {found[0]}" if found[0] else ""
    return sentence(
        f"The tracer could not see how the broker writes in {len(found)} of {units(tally, tally.trials)}{how}"
    )


def of_default(tally: Tally, absent: Sequence[str], changed: Mapping[str, Value], base: str) -> str:
    """Say what a verdict about a default rests on: absent keys, and what else differs from `base`."""
    keys = [name for name, wanted in tally.claim.when.items() if wanted == "absent" and name in absent]
    if tally.claim.kind is not Kind.DEFAULT or not keys:
        return ""
    others = ", ".join(f"{name}={str(value).lower()}" for name, value in changed.items()) or "nothing"
    return f"Absent from the effective configuration: {', '.join(keys)}. Changed from {base}: {others}."


def _also(sentence: str) -> str:
    return f" {sentence}" if sentence else ""
