"""The texts of a report: the sign of each verdict, and numbers, controls and steps as sentences."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

from conformance import counting
from conformance.counting import ordinal, plural
from conformance.errors import ExitCode
from conformance.judge.exits import codes, exit_code
from conformance.judge.reasons import faults_named
from conformance.judge.rows import ControlResult, Exposure, Judgement, Verdict, VerdictRow
from conformance.records import RunRecord
from conformance.scenario import options, script

SIGNS: dict[Verdict, str] = {
    Verdict.VIOLATED: "✗",
    Verdict.HARNESS_ERROR: "!",
    Verdict.INCONCLUSIVE: "?",
    Verdict.HOLDS: "✓",
    Verdict.WITNESSED: "+",
    Verdict.NOT_WITNESSED: "·",
    Verdict.OBSERVED: "i",
    Verdict.NOT_APPLICABLE: "∅",
    Verdict.NOT_TRIED: "○",
}
"""The sign of each verdict, in the order of the rows in a report."""
UNTRIED = (Verdict.NOT_TRIED, Verdict.NOT_APPLICABLE)

EXIT_MEANS: dict[ExitCode, str] = {
    ExitCode.CONFORMANT: "nothing was violated, and nothing that was tried is left undecided",
    ExitCode.VIOLATED: "at least one claim was violated",
    ExitCode.INCONCLUSIVE: "nothing was violated, but something that was tried could not be decided",
    ExitCode.HARNESS: "part of the suite failed; no conclusion is drawn from that part",
    ExitCode.USAGE: "the command was not understood, or there was none",
    ExitCode.NOTHING_RAN: "no claim that the broker promises was tried, or none was decided",
    ExitCode.INTERRUPTED: "the run was interrupted; what was recorded is kept",
}


def with_errors(means: str, code: int, judgement: Judgement) -> str:
    """Return the meaning of an exit code; a violation that outweighs an error of the suite names both."""
    also = code == ExitCode.VIOLATED and ExitCode.HARNESS in codes(judgement)
    return f"{means}; also (3), {EXIT_MEANS[ExitCode.HARNESS]}" if also else means


def exit_means(judgement: Judgement) -> str:
    code = exit_code(judgement)
    return with_errors(EXIT_MEANS[code], code, judgement)


def row_words(row: VerdictRow) -> dict[str, str]:
    """Return what a test result of another format says of a row, by name."""
    names = "claim kind scope document section adapter version protocol mode fault verdict"
    words = {name: str(getattr(row, name)) for name in names.split()}
    return {**words, "exposure": exposure_words(row.exposure), "control": control_words(row.control)}


def gravity(word: Verdict) -> int:
    """Return the place of a verdict in a report: the worst is 0."""
    return list(SIGNS).index(word)


def extent(run: RunRecord) -> str:
    """Say how much of the suite a run has played: a quick run, a choice of its user, or all."""
    words = run.command.split()
    if words[1:2] == ["replay"]:
        return "a replay"
    if "--quick" in words:
        return f"a quick run of {plural(len(run.selected), 'claim')}"
    if {"--scenario", "--claims"} & {*words}:
        return "a run of chosen claims or scenarios"
    return "a whole run, with --thorough" if "--thorough" in words else "a whole run"


_OF_SELECTION = ("--claims", "--scenario", "--trials", "--seed", "--budget", "--out")
"""Options with a value that a run to decide one claim does not take over."""


def command_to_decide(row: VerdictRow, command: str) -> str:
    """Return the command that tries an undecided claim again with twice the trials; empty if the run had none.

    `command` is that of the run: broker, protocol and settings stay.
    """
    kept = _without_selection(command)
    return f"{kept} {shlex.join(['--claims', row.claim, '--trials', str(max(2 * row.trials, 6))])}" if kept else ""


def command_to_repeat(row: VerdictRow, run: RunRecord, settings: Iterable[str] = ()) -> str:
    """Return the command that plays the scenario of a row again; empty if the run had none.

    With `settings` (`NAME=VALUE`) it plays what a control was: the claim is then required, since they give it up.
    """
    kept = _without_selection(run.command)
    words = ["--scenario", row.scenario, "--seed", str(run.seed)]
    for setting in settings:
        words += ["--set", setting]
    return f"{kept} {shlex.join([*words, *(['--require', row.claim] if settings else [])])}" if kept else ""


def settings_words(settings: Mapping[str, bool | int | str]) -> str:
    """`persistence=true, queue_type=quorum`."""
    return ", ".join(f"{name}={str(value).lower()}" for name, value in settings.items())


def _without_selection(command: str) -> str:
    words = shlex.split(command)
    if words[:2] != ["conformance", "run"]:
        return ""
    pairs = zip(["", *words], words, strict=False)
    return shlex.join(w for before, w in pairs if w not in (*_OF_SELECTION, "--quick") and before not in _OF_SELECTION)


def next_step(judgement: Judgement, violation: VerdictRow | None) -> tuple[str, str]:
    """Return what a reader can do next, and the command: see a violation again, decide what is open, play the rest."""
    run = judgement.run
    if violation and violation.replay:
        return "To see it again, type in the folder of this report:", violation.replay
    undecided = (row for row in judgement.rows if row.verdict is Verdict.INCONCLUSIVE and not row.decided_by)
    for row in undecided:
        if command := command_to_decide(row, run.command):
            return f"To decide {row.claim}, try it with more trials:", command
    if extent(run).startswith("a whole run"):
        return "To repeat this run:", run.command
    return "To play the other tests too:", _without_selection(run.command) or run.command


def exposure_words(exposure: Exposure | None) -> str:
    """Say what was at risk, in one phrase; the unit is the trial."""
    if exposure is None:
        return "not counted"
    name = exposure.name.replace("_", " ")
    window = f" of {exposure.window_ms:g} ms" if exposure.window_ms else ""
    spread = f"at least {exposure.minimum:,} in each, median {exposure.median:,g}"
    confirmed = f"; {exposure.confirmed:,} confirmed in all" if exposure.confirmed else ""
    return f"{exposure.total:,} {name}{window} in {plural(exposure.trials, 'trial')} ({spread}{confirmed})"


def control_words(control: ControlResult | None) -> str:
    if control is None:
        return "none"
    kind = "same product, weakened" if control.strong else "checks the check only"
    return f"seen to fail in {control.failed} of {control.trials}: {control.label} ({kind})"


_COULD = {
    "gone": "lose a message",
    "lost": "lose a message",
    "lost_unacknowledged": "lose a message",
    "lost_though_old": "lose a message",
    "lost_committed": "lose a committed message",
    "committed_missing": "lose a committed message",
    "delivered_after_restart": "bring back an acknowledged message",
    "returned_after_commit": "bring back an acknowledged message",
    "half_applied": "tear a transaction apart",
    "transaction_torn": "tear a transaction apart",
    "not_recovered": "keep it from starting",
}
"""What a fault could still do if an anomaly was not seen; one that is not named could break the claim."""


def bound_words(row: VerdictRow) -> str:
    """Say what zero counterexamples leave open, at 95 % confidence; empty if no bound applies."""
    could = _COULD.get(row.anomaly, "break this")
    left = counting.may_fail(row.bound, faults_named(row.fault), could) if row.bound is not None else ""
    passes = counting.chance_of_control(row.q) if row.q is not None else ""
    return "; ".join(part for part in (left, passes) if part)


_BESIDE = re.compile(r" \(at least [^)]*\)| (If such|Up to|The control|The check was|Failure model).*?\.(?= [A-Z]|$)")


def own_reason(row: VerdictRow) -> str:
    """Return of the reason of a pass only what exposure, control and bound do not say beside it."""
    return _BESIDE.sub("", row.reason) if row.verdict is Verdict.HOLDS else row.reason


def steps_in_words(steps: Iterable[script.Step]) -> list[str]:
    """Return the steps of a script as sentences; for a drawn script, with the numbers of its trial.

    >>> from conformance.scenario.script import Drain
    >>> steps_in_words([Drain()])[0].partition(",")[0]
    'Receive and acknowledge everything until silence'
    """
    return [_sentence(step) for step in steps]


def _sentence(step: script.Step) -> str:
    match step:
        case script.Publish():
            what = _publishing(step)
        case script.Consume():
            what = _consuming(step)
        case script.Together():
            parts = " ".join(map(_sentence, step.steps))
            return f"{len(step.steps)} clients at once, the publishers when every consumer is attached: {parts}"
        case script.Rounds():
            parts = " ".join(map(_sentence, step.steps))
            return f"Up to {plural(step.times, 'time')}, and {plural(step.control, 'time')} in a control: {parts}"
        case script.Restart():
            return _restart_sentence(step)
        case script.Offer():
            return f"Start the broker with each of {plural(len(step.settings), 'setting')}: {', '.join(step.settings)}."
        case script.Ask():
            return f"Ask: {step.question}?"
        case script.Drain():
            return "Receive and acknowledge everything until silence, then ask the broker for its own depth."
    return f"{what}. {_fault_sentence(step.until)}" if step.until else f"{what}."


def _publishing(step: script.Publish) -> str:
    if step.resends and step.exactly_once:
        return "Go on, in the same session, with each message that has no last answer"
    if step.resends:
        return "Send the transactions again that were asked to commit last, with the same duplicate ids"
    kind = "persistent" if step.durable else "non-persistent"
    pace = "one at a time, waiting for each answer" if step.window == 1 else f"at most {step.window} unanswered"
    bound = "up to " if step.until else ""
    parts = [f"Publish {bound}{plural(step.count, kind + ' message')} of {step.size:,} bytes, {pace}"]
    if step.batch:
        back = f" and roll back every {ordinal(step.rollback_every)}" if step.rollback_every else ""
        parts.append(f"in transactions of {step.batch}; commit each{back}")
    return "; ".join([*parts, *options.phrases(step)])


def _consuming(step: script.Consume) -> str:
    parts = [f"Consume in {step.mode.upper()} mode with a prefetch of {step.prefetch:,}, {_acknowledging(step)}"]
    return "; ".join([*parts, *options.phrases(step)])


def _acknowledging(step: script.Consume) -> str:
    each = "each message" if step.acknowledge == 1 else f"at every {ordinal(step.acknowledge)} message"
    some = each if step.acknowledge == 1 else f"every {ordinal(step.acknowledge)} message"
    answer = ", and reading the answer" if step.confirm else ""
    return {
        "auto": "acknowledging each message after its processing",
        "pre": "acknowledging each message before its processing",
        "no_ack": "acknowledging nothing",
        "client": f"acknowledging everything so far {'at ' if step.acknowledge == 1 else ''}{each}",
        "transacted": f"acknowledging in transactions of {step.acknowledge}",
    }.get(step.mode, f"acknowledging {some}") + answer


_EVENTS = {
    "sent": "send that was written",
    "received": "send that was received and not released",
    "released": "send that was released",
    "confirm": "confirm",
    "returned": "send that has returned",
    "confirm_immediate": "confirm of a send with Ack Immediately",
    "confirm_range": "confirm of several sends",
    "process": "processing",
    "ack_written": "acknowledgement that was written",
    "ack": "confirmed acknowledgement",
    "before_commit": "transaction that lacks only its commit",
    "commit_written": "request to commit",
    "committed": "answered commit",
}
_FRAMES = {
    "send": "send",
    "answer": "answer of the broker",
    "deliver": "delivery",
    "acknowledge": "acknowledgement",
    "received": "PUBREC of the broker",
    "release": "PUBREL of the client",
    "complete": "PUBCOMP of the client",
    "begin": "request to begin a transaction",
    "begin_answer": "answer to a begin",
    "commit": "request to commit",
    "commit_answer": "answer to a commit",
    "rollback": "request to roll back",
    "rollback_answer": "answer to a rollback",
}
_PLACES = {"before": "before", "middle": "in the middle of", "after": "right after"}


def _restart_sentence(step: script.Restart) -> str:
    how = "Stop the broker cleanly and start it again" if step.clean else "Start the broker again"
    text = f"{how} on the same data{', all of which has reached the disk by then' if step.flushed else ''}"
    if step.until is not None:
        at = step.until.at
        when = (
            f"{_milliseconds(at.ms)} after it is ready, without use," if isinstance(at, script.After) else _trigger(at)
        )
        text += f"; {when} every process of it is killed, and it is started once more"
    if step.beside:
        parts = " ".join(map(_sentence, step.beside))
        return f"{text}; {plural(len(step.beside), 'client')} may connect as soon as it answers: {parts}"
    return f"{text}; {_fault_sentence(step.under)}." if step.under is not None else f"{text}."


def _fault_sentence(fault: script.Fault | script.DiskFault) -> str:
    """Say what a fault does, and when: at its trigger, from the k-th operation on, or all the time."""
    if (at := getattr(fault, "at", None)) is not None:
        return fault.says(f"{_trigger(at)}{_later(fault)}")
    return fault.says(_number(fault.k) if hasattr(fault, "k") else "")


def _trigger(at: script.Trigger | script.Frame | script.Recovery) -> str:
    match at:
        case script.OneOf():
            return f"{' or '.join(map(_trigger, at.options))} (the seed draws which)"
        case script.Nth():
            return _number(at.k, _EVENTS[at.event])
        case script.After():
            return f"{_milliseconds(at.ms)} after the client began"
        case script.FileRemoved():
            return f"when the broker removes {_number(at.k, 'file')} of its journal after the client began"
        case script.All():
            return " and ".join(_trigger(part) for part in at.parts)
        case script.Frame():
            last = "the last frame of " if at.last else ""
            return f"{_PLACES[at.at]} {last}{_number(at.k, _FRAMES[at.kind])}"
        case script.Recovery():
            return f"at {_number(at.k, 'access')} to its journal"


def _number(k: int | script.Between, what: str = "") -> str:
    if isinstance(k, script.Between):
        article = ("an " if what[0] in "aeiou" else "a ") if what else ""
        between = f"{'' if what else 'one '}between the {ordinal(k.low)} and the {ordinal(k.high)}"
        return f"{article}{what} {between}, drawn from the trial's seed".lstrip()
    return f"the {ordinal(k)} {what}".rstrip()


def _later(fault: script.Fault | script.DiskFault) -> str:
    """Say how long after its event a kill comes; empty if at once."""
    if not isinstance(fault, script.Kill):
        return ""
    for delay, unit in ((fault.delay_us, "us"), (fault.delay_percent, "% of the median answer so far")):
        if isinstance(delay, script.Between):
            return f", {delay.low:,} to {delay.high:,} {unit} after it, drawn from the trial's seed"
        if delay:
            return f", {delay:,} {unit} after it"
    return ""


def _milliseconds(k: int | script.Between) -> str:
    if isinstance(k, script.Between):
        return f"a time between {k.low:,} and {k.high:,} ms, drawn from the trial's seed,"
    return f"{k:,} ms"
