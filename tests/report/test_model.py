"""The report as data: its headline, its doubts, and `report.json`."""

from __future__ import annotations

import json

import msgspec
import pytest
from report_rows import full, judgement, row, trial, unanswered, violated

from conformance.claims import Subject
from conformance.errors import ExitCode
from conformance.judge.rows import ControlResult, Exposure, Verdict
from conformance.report import model, phrases
from conformance.report.model import STANDING_TEXTS, Expectations, Item, Standing

UNSURE = "Whether Apache Artemis 2.56.0 loses confirmed messages was not decided."
LOST = "Apache Artemis 2.56.0 lost 41 confirmed messages, in 3 of 3 kills."
CLEAN = "Apache Artemis 2.56.0 lost no confirmed message in 6 kills."
OPEN, BROKEN = Verdict.INCONCLUSIVE, Verdict.HARNESS_ERROR
ABOUT = {"scenario": "broker-killed-while-publishing", "mode": "async_ack"}
KEPT = row(anomaly="lost")
FOREIGN = violated("EMS-STEP-06", anomaly="gone", scope="profile", required=True)
FEW = {"verdict": Verdict.NOT_APPLICABLE, "offences": 3, "failed_unpromised": "3 of 90 confirmed messages lost"}
ALL = {**FEW, "offences": 90, "failed_unpromised": "90 of 90 confirmed messages lost", "scenario": "other"}


def expected(*standings):
    items = (Item(standing=standing, claim="SOLCD-ACK-01", text="why", **ABOUT) for standing in standings)
    return Expectations(exit_code=0, means="as expected", items=tuple(items))


KNOWN = expected(Standing.KNOWN)


@pytest.mark.parametrize(
    ("found", "asked", "text"),
    [
        (judgement(KEPT), None, CLEAN),
        (judgement(violated(anomaly="lost"), row("AMQP-HDR-01", OPEN)), None, LOST),
        (
            judgement(KEPT, violated("AMQP-DUR-02", anomaly="gone", scenario="another")),
            None,
            f"{CLEAN} It did not recover and deliver everything in 3 of 3 kills (AMQP-DUR-02).",
        ),
        (
            judgement(violated(anomaly="lost", required=True)),
            None,
            f"{LOST} 1 requirement of yours, not promised by this configuration, violated: SOLCD-ACK-01.",
        ),
        (
            judgement(KEPT, FOREIGN, judged_as=("ems",)),
            None,
            f"{CLEAN} 1 sentence of another vendor, judged at your request, violated: EMS-STEP-06.",
        ),
        (
            judgement(violated(anomaly="lost")),
            KNOWN,
            f"{LOST} Nothing new was violated. 1 known failure: SOLCD-ACK-01.",
        ),
        (
            judgement(KEPT, row(**FEW), row(**ALL)),
            None,
            (
                f"{CLEAN} Not promised by this configuration, and seen to fail: 90 of 90 confirmed messages lost "
                "(SOLCD-ACK-01)."
            ),
        ),
        (judgement(row(anomaly="lost", verdict=BROKEN)), None, UNSURE),
        (judgement(finished=False, interrupted=True), None, "Nothing was tried. The run was interrupted."),
    ],
)
def test_the_headline(found, asked, text):
    """It says no more than was tried. What the product does not promise, and what is known, is not counted against it."""
    assert text == model.headline(found, expected=asked)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (judgement(row()), "0 violated, 0 undecided, 1 claim holds, 0 not tried."),
        (
            judgement(row(), unanswered("STOMP-ACK-01", Verdict.NOT_TRIED, "needs STOMP")),
            "0 violated, 0 undecided, 1 claim holds, 1 not tried.",
        ),
        (
            judgement(row(), unanswered("SOLCD-ACK-01", Verdict.NOT_TRIED, "left out", scenario="another")),
            "0 violated, 0 undecided, 1 claim holds, 0 not tried.",
        ),
        (
            judgement(violated(), violated(scenario="another"), row("AMQP-DUR-01"), row("AMQP-HDR-01", OPEN)),
            "1 violated, 1 undecided, 1 claim holds, 0 not tried.",
        ),
        (
            judgement(
                row(verdict=OPEN, decided_by="power-lost"), row(scenario="power-lost"), row("AMQP-HDR-01", BROKEN)
            ),
            "0 violated, 1 with an error of the suite, 0 undecided, 1 claim holds, 0 not tried.",
        ),
        (judgement(FOREIGN, judged_as=("ems",)), "0 violated, 0 undecided, 0 claims hold, 0 not tried."),
    ],
)
def test_claims_are_counted_by_their_answer(found, text):
    """A requirement of the user counts for nothing."""
    assert text == model.counted(found)


def test_claims_of_the_catalogue_without_a_row_are_not_tried(catalogue):
    """But not what the suite has to check of itself."""
    others = sum(claim.subject != Subject.SESSION for claim in catalogue.claims.values()) - 1

    assert others < len(catalogue.claims) - 1
    assert f" {others} not tried." in model.counted(judgement(row()), catalogue)
    assert "1 sentence of another vendor" in model.headline(judgement(FOREIGN, judged_as=("ems",)), catalogue)


WORST = judgement(
    row(exposure=Exposure(name="confirmed", total=12, minimum=4, median=6.0, trials=2)),
    row("AMQP-ACC-01", control=ControlResult(label="sync=false", strong=True, failed=1, trials=3)),
    row("AMQP-HDR-01", Verdict.INCONCLUSIVE),
    row("AMQP-HDR-02", Verdict.HARNESS_ERROR),
    violated("AMQP-DUR-01"),
    violated("EMS-STEP-02", required=True),
    unanswered("STOMP-ACK-01", Verdict.NOT_TRIED, "needs STOMP"),
    ours=(violated("EMS-AUTO-03"),),
    trials=(trial(void="the kill missed"),),
    finished=False,
)


@pytest.mark.parametrize(
    ("found", "asked", "doubts"),
    [
        (WORST, None, "violated required error undecided self void control not-tried course exposure"),
        (
            judgement(violated(), row("AMQP-HDR-02", Verdict.HARNESS_ERROR)),
            expected(Standing.REGRESSION, Standing.UNMATCHED),
            "violated error regression unmatched",
        ),
        (judgement(FOREIGN, judged_as=("ems",)), None, "judged-as"),
        (judgement(row(**FEW)), None, "unpromised"),
        # a permission of our sessions that was seen is no failure
        (judgement(row(), trials=(trial(),), ours=(row("QPID-PRE-07", Verdict.WITNESSED),)), None, ""),
    ],
)
def test_doubts_come_in_the_order_of_gravity(found, asked, doubts):
    assert doubts.split() == [doubt.key for doubt in model.doubts(found, None, asked)]


def test_json_round_trip(catalogue, scenarios, tmp_path):
    found = msgspec.structs.replace(full(catalogue, scenarios), account={"delivered": 3})
    model.write_json(found, tmp_path / "report.json", catalogue, KNOWN)
    read = model.read_json(tmp_path / "report.json")

    assert model.report(found, catalogue, KNOWN) == read
    assert {"delivered": 3} == read.judgement.account
    assert (KNOWN, 0) == (read.expectations, read.summary.exit_code)


def test_json_summary_counts_claims_by_their_answer(tmp_path):
    """A claim that one scenario violates is violated; one that does not apply in one and was not tried is not tried."""
    found = judgement(
        row(),
        violated(scenario="another"),
        row("AMQP-DUR-01"),
        row("AMQP-DUR-01", scenario="another"),
        unanswered("STOMP-ACK-01", Verdict.NOT_APPLICABLE, "no STOMP"),
        unanswered("STOMP-ACK-01", Verdict.NOT_TRIED, "left out", scenario="another"),
        ours=(row(),),
    )
    model.write_json(found, tmp_path / "report.json")
    summary = json.loads((tmp_path / "report.json").read_text())["summary"]

    assert {word.value for word in Verdict} | {"exit_code", "headline"} == summary.keys()
    assert (1, 1, 1, 1) == (summary["HOLDS"], summary["VIOLATED"], summary["NOT_TRIED"], summary["exit_code"])
    assert summary["NOT_APPLICABLE"] == 0


def test_json_survives_bytes_that_are_no_text(tmp_path):
    model.write_json(judgement(row(reason="a\udc80b")), tmp_path / "report.json")

    assert "a?b" == model.read_json(tmp_path / "report.json").verdicts[0].reason


def test_json_that_breaks_the_schema_is_refused(tmp_path):
    model.write_json(judgement(row()), tmp_path / "report.json")
    data = json.loads((tmp_path / "report.json").read_text())
    (tmp_path / "report.json").write_text(json.dumps({**data, "schema": 2}))

    with pytest.raises(msgspec.ValidationError, match="schema"):
        model.read_json(tmp_path / "report.json")


def test_every_verdict_exit_code_and_standing_has_its_own_words():
    assert (set(Standing), len(Standing)) == (
        set(STANDING_TEXTS),
        len({entry.noun for entry in STANDING_TEXTS.values()}),
    )
    assert (set(Verdict), len(Verdict)) == (set(phrases.SIGNS), len(set(phrases.SIGNS.values())))
    assert set(ExitCode) == set(phrases.EXIT_MEANS)


def test_a_report_is_replaced_in_one_step(tmp_path):
    """A program that reads it meanwhile sees the old one, whole."""
    path = tmp_path / "report.html"
    model.write("old \udc80", path)
    with path.open() as reader:
        model.write("new", path)
        assert ("old ?", "new") == (reader.read(), path.read_text())
    assert [path] == list(tmp_path.iterdir())
