"""Judgements for tests of reports: rows of the real catalogue and scenarios, with answers made up for a test."""

from __future__ import annotations

from typing import Any

import verdict_rows

from conformance.claims import Catalogue
from conformance.judge.rows import ControlResult, Exposure, Judgement, Verdict, VerdictRow, Witness
from conformance.records import TrialRecord
from conformance.scenario import Scenario

RUN: dict[str, Any] = {
    "capabilities": ("send_confirmed", "durable_queues", "confirm_means_stored"),
    "settings": {"sync_non_transactional": True, "sync_transactional": True, "journal_buffer_ms": 1},
    "absent": ("sync_transactional",),
    "changed": {"journal_buffer_ms": 1},
    "deviations": {"web console": "not started: the run is headless", "port": "drawn, so that runs do not collide"},
    "versions": {"python": "3.11.2", "pyspark": "4.0.1", "linux": "6.1.0"},
    "floor_seconds": 51.2,
    "seconds": 84.6,
}

TIMELINE = tuple(
    {"at_ms": at, "process": process, "op": op, "phase": phase, "epoch": epoch, "detail": detail}
    for at, process, op, phase, epoch, detail in (
        (812.114, "publisher-1", "send", "invoke", 1, "window 100, 37 in flight"),
        (814.902, "publisher-1", "confirm", "ok", 1, "accepted"),
        (815.377, "publisher-1", "fault", "fired", 1, "kill at the 213th confirm"),
        (816.020, "orchestrator", "fault", "effective", 1, "kill, process tree 4711, 4718 is gone"),
        (4120.551, "orchestrator", "broker", "ok", 2, "ready"),
        (4544.801, "drainer-1", "drain", "ok", 2, "silence after 212 messages, depth 0"),
        (7911.334, "orchestrator", "broker", "ok", 3, "stopped in order and ready again"),
        (8320.006, "drainer-2", "drain", "ok", 3, "silence after 0 messages, depth 0"),
    )
)


def row(claim: str = "SOLCD-ACK-01", verdict: Verdict = Verdict.HOLDS, **changes: Any) -> VerdictRow:
    """A row with everything filled in; `changes` replace its fields."""
    filled: dict[str, Any] = {
        "scenario": "broker-killed-while-publishing",
        "exposure": Exposure(
            name="confirmed_in_window", total=1240, minimum=180, median=205.5, trials=6, confirmed=9120, window_ms=100.0
        ),
        "trials": 6,
        "faults": 6,
        "control": ControlResult(label="sync_non_transactional=false", strong=True, failed=3, trials=3),
        "bound": 0.393,
        "q": 0.029,
        "reason": "0 of 1,240 confirmed messages lost in 6 kills.",
        "replay": "conformance replay . --scenario broker-killed-while-publishing --trial 2",
    }
    return verdict_rows.row(verdict, claim, **(filled | changes))


def violated(claim: str = "SOLCD-ACK-01", **changes: Any) -> VerdictRow:
    """A row with one witness that has a timeline and one that has none."""
    witnesses = (
        Witness(trial="t0002", queue="orders", message="p1-000213", timeline=TIMELINE),
        Witness(trial="t0003", queue="orders", message="p1-000388"),
    )
    found = {
        "offended": 3,
        "trials": 3,
        "faults": 3,
        "offended_faults": 3,
        "offences": 41,
        "bound": None,
        "q": None,
        "reason": "41 confirmed messages were never delivered; the queue was empty after two drains and a restart.",
        "witnesses": witnesses,
    }
    return row(claim, Verdict.VIOLATED, **(found | changes))


def unanswered(claim: str, verdict: Verdict, reason: str, **changes: Any) -> VerdictRow:
    """A row that no trial stands behind."""
    nothing: dict[str, Any] = {"exposure": None, "control": None, "bound": None, "q": None, "trials": 0, "replay": ""}
    return row(claim, verdict, reason=reason, **(nothing | changes))


def trial(name: str = "t0001", **changes: Any) -> TrialRecord:
    return verdict_rows.trial(name, **{"scenario": "broker-killed-while-publishing", **changes})


def judgement(*rows: VerdictRow, **changes: Any) -> Judgement:
    """A judgement of these rows; `changes` replace fields of the judgement, or of its run."""
    return verdict_rows.judgement(*rows, **{**RUN, **changes})


def full(catalogue: Catalogue, scenarios: dict[str, Scenario], *, bad: bool = True) -> Judgement:
    """A run of every scenario with a row for every claim; `bad` adds violations and everything that can go wrong."""
    rows: list[VerdictRow] = []
    own: list[VerdictRow] = []
    for name, script in scenarios.items():
        for claim_id in script.decides:
            claim = catalogue.claims[claim_id]
            answer = _answer(claim, name, script)
            (own if claim.subject == "session" else rows).append(answer)
    answered = {item.claim for item in rows + own}
    for claim in catalogue.claims.values():
        if claim.id not in answered:
            word, reason = Verdict.NOT_TRIED, "no scenario of this version tries it"
            if claim.scope == "profile" and "artemis" not in claim.binds:
                word, reason = Verdict.NOT_APPLICABLE, f"it binds {', '.join(claim.binds)}, not artemis"
            rows.append(unanswered(claim.id, word, reason, **_about(claim), scenario="", mode=""))
    trials = [trial(f"t{at:04}", scenario=name, index=at) for at, name in enumerate(scenarios)]
    trials += [trial(f"c{at:04}", scenario=n, arm="control", control="sync=false") for at, n in enumerate(scenarios)]
    if bad:
        rows[1] = violated(rows[1].claim, scenario=rows[1].scenario, says=rows[1].says)
        rows[2] = row(rows[2].claim, Verdict.INCONCLUSIVE, scenario=rows[2].scenario, reason="Too few trials for it.")
        rows[3] = row(rows[3].claim, Verdict.HARNESS_ERROR, scenario=rows[3].scenario, reason="The fault never fired.")
        trials.append(trial("t0099", void="the kill did not take effect", void_log=("AMQ221007: Server is now live",)))
    return judgement(*rows, ours=tuple(own), trials=tuple(trials))


def _about(claim: Any) -> dict[str, Any]:
    return {
        "kind": claim.kind.value,
        "scope": claim.scope.value,
        "subject": claim.subject.value,
        "says": claim.says,
        "document": claim.source.document,
        "section": claim.source.section,
    }


def _answer(claim: Any, name: str, script: Scenario) -> VerdictRow:
    control = script.decides[claim.id].control
    shown = (
        ControlResult(label=control.label, strong="liar" not in control.label, failed=1, trials=1) if control else None
    )
    about = {**_about(claim), "scenario": name, "mode": script.mode, "control": shown}
    about["failure_model"] = script.fault.failure_model if script.fault else ""
    if claim.kind == "permission":
        seen = (Witness(trial="t0001", queue="orders", message="p1-000301", timeline=TIMELINE[:3]),)
        return row(claim.id, Verdict.WITNESSED, **about, bound=None, q=None, witnesses=seen, reason="Both were seen.")
    if claim.kind == "observation":
        return row(claim.id, Verdict.OBSERVED, **about, bound=None, q=None, reason="1,250 were held without trouble.")
    if claim.scope == "profile" and "artemis" not in claim.binds:
        return row(claim.id, Verdict.OBSERVED, **about, bound=None, q=None, reason="All came back, as TIBCO promises.")
    return row(claim.id, Verdict.HOLDS, **about)
