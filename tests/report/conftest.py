"""A factory of judgements: rows of the real catalogue and the real scenarios with answers made up for a test."""

from __future__ import annotations

import types
from typing import Any

import msgspec
import pytest

from conformance import claims, scenario
from conformance.claims import Catalogue
from conformance.judge.rows import (
    ControlResult,
    Exposure,
    Judgement,
    RunRecord,
    TrialRecord,
    Verdict,
    VerdictRow,
    Witness,
)
from conformance.scenario import Scenario

RUN = RunRecord(
    run="2026-11-21T10-15-00-artemis",
    started="2026-11-21T10:15:00Z",
    command="conformance run --adapter artemis@2.56.0 --trials 3 --seed 7",
    seed=7,
    adapter="artemis",
    version="2.56.0",
    launcher="native",
    protocol="amqp",
    client="qpid-proton 0.40.0",
    title="Apache ActiveMQ Artemis",
    profiles=("artemis",),
    capabilities=("send_confirmed", "durable_queues", "confirm_means_stored"),
    settings={"sync_non_transactional": True, "sync_transactional": True, "persistence": True, "journal_buffer_ms": 1},
    absent=("sync_transactional",),
    changed={"journal_buffer_ms": 1},
    deviations={"web console": "not started: the run is headless", "port": "drawn, so that runs do not collide"},
    versions={"python": "3.11.2", "pyspark": "4.0.1", "linux": "6.1.0"},
    selected=(),
    required=(),
    finished=True,
    floor_seconds=51.2,
    seconds=84.6,
)

TIMELINE = tuple(
    {"at_ms": at, "process": process, "op": op, "phase": phase, "epoch": epoch, "detail": detail}
    for at, process, op, phase, epoch, detail in (
        (812.114, "publisher-1", "send", "invoke", 1, "window 100, 37 in flight"),
        (814.902, "publisher-1", "confirm", "ok", 1, "accepted"),
        (815.377, "publisher-1", "fault", "fired", 1, "kill at the 213th confirm"),
        (816.020, "orchestrator", "fault", "effective", 1, "process tree 4711, 4718 is gone"),
        (4120.551, "orchestrator", "broker", "ok", 2, "ready"),
        (4544.801, "drainer-1", "drain", "ok", 2, "silence after 212 messages, depth 0"),
        (7911.334, "orchestrator", "broker", "ok", 3, "stopped in order and ready again"),
        (8320.006, "drainer-2", "drain", "ok", 3, "silence after 0 messages, depth 0"),
    )
)


def row(claim: str = "SOLCD-ACK-01", verdict: Verdict = Verdict.HOLDS, **changes: Any) -> VerdictRow:
    """A row with everything filled in; `changes` replace its fields."""
    plain = VerdictRow(
        claim=claim,
        kind="safety",
        scope="common",
        subject="broker",
        says="Once the acknowledgement of a persistent message was received, the message must not be lost.",
        document="000",
        section="Confirmed Delivery",
        adapter="artemis",
        version="2.56.0",
        launcher="native",
        settings=RUN.settings,
        protocol="amqp",
        client="qpid-proton 0.40.0",
        scenario="broker-killed-while-publishing",
        mode="async_ack",
        fault="kill",
        failure_model="process death",
        verdict=verdict,
        exposure=Exposure(
            name="confirmed_in_window", total=1240, minimum=180, median=205.5, trials=6, confirmed=9120, window_ms=100.0
        ),
        trials=6,
        offended=0,
        void=0,
        control=ControlResult(label="sync_non_transactional=false", strong=True, failed=3, trials=3),
        bound=0.393,
        q=0.029,
        reason="0 of 1,240 confirmed messages lost in 6 kills.",
        replay="conformance replay . --scenario broker-killed-while-publishing --trial 2",
    )
    return msgspec.structs.replace(plain, **changes)


def violated(claim: str = "SOLCD-ACK-01", **changes: Any) -> VerdictRow:
    """A row with one witness that has a timeline and one that has none."""
    witnesses = (
        Witness(trial="t0002", queue="orders", message="p1-000213", timeline=TIMELINE),
        Witness(trial="t0003", queue="orders", message="p1-000388"),
    )
    found = {
        "offended": 3,
        "trials": 3,
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
    """A trial of the subject in which nothing went wrong."""
    plain = TrialRecord(
        trial=name,
        scenario="broker-killed-while-publishing",
        arm="subject",
        control="",
        index=0,
        seed=7001,
        k=213,
        adapter="artemis",
        settings=RUN.settings,
        floor_seconds=6.2,
        seconds=9.4,
    )
    return msgspec.structs.replace(plain, **changes)


def judgement(*rows: VerdictRow, **changes: Any) -> Judgement:
    """A judgement of these rows; `changes` replace fields of the judgement, or of its run where it has none."""
    outer = {name: changes.pop(name) for name in ("self_checks", "trials") if name in changes}
    whole = Judgement(run=msgspec.structs.replace(RUN, **changes), rows=rows, self_checks=(), trials=())
    return msgspec.structs.replace(whole, **outer)


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
    return judgement(*rows, self_checks=tuple(own), trials=tuple(trials))


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


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    """The claims of the suite."""
    return claims.load()


@pytest.fixture(scope="session")
def scenarios(catalogue: Catalogue) -> dict[str, Scenario]:
    """The scenarios of the suite."""
    return scenario.load(catalogue)


@pytest.fixture(scope="session")
def make() -> types.SimpleNamespace:
    """The factory: `row`, `violated`, `unanswered`, `trial`, `judgement`, `full`."""
    return types.SimpleNamespace(
        row=row, violated=violated, unanswered=unanswered, trial=trial, judgement=judgement, full=full
    )
