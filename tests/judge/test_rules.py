"""The rules of a verdict, on counted trials: no Spark."""

import dataclasses
import types

import msgspec
import pytest
from judge_evidence import CATALOGUE, SCENARIOS, everywhere, evidence, facts, rule
from judge_histories import RUN

from conformance import claims, counting
from conformance.campaign import repeats
from conformance.errors import ExitCode
from conformance.judge import applicable, exits, rules, tally
from conformance.judge.anomalies import ANOMALIES
from conformance.judge.rows import Exposure, Judgement, Verdict

KILL, ONE, AUTO, EVERY = (
    "broker-killed-while-publishing",
    "broker-killed-while-sending-one-by-one",
    "consumer-killed-under-auto",
    "every-trial",
)


LOST = {"lost": 3, "confirmed_missing": 3}
CLEAN, BROKEN = [facts()] * 3, [facts(offends=LOST, tail=True)] * 3
NOT_BACK = "not recovered: it ended with status 3; a second broker, on a copy of the same data: it ended with status 3"
DEAD = facts(offends={"not_recovered": 100}, was_settled=False, not_recovered=NOT_BACK)
UNKNOWN = facts(was_settled=False, not_ready="not ready: it ended with status 3; no copy of its data could be tried")
RECOVER, REFUSES = "EXPECT-RECOVER-01", "liar refuses-to-start-with-messages"
UNANSWERED, NEVER_ANSWERS = [facts(offends={"unanswered_send": 1})] * 3, "liar never-answers-one-send"
REFUSED = [facts(offends={"not_recovered": 100}, not_recovered=NOT_BACK)]


def test_holds():
    row = rule("SOLCD-ACK-01", KILL, CLEAN, BROKEN)

    assert Verdict.HOLDS == row.verdict
    assert (
        "0 of 300 confirmed messages lost in 3 kills (at least 50 at risk in each). Up to 63 % of kills could "
        "still violate the claim (95 % confidence, if they are independent). The control failed in 3 of 3 kills; "
        "a broker as weak as the control would pass with the chance q = 0.029. Failure model: process death."
    ) == row.reason
    assert (3, 0, 0, 0.63, 0.029) == (row.trials, row.offended, row.void, round(row.bound, 2), round(row.q, 3))


MANY = {"met_confirmed_in_window": 0b1111111111, "met_10_confirmed_in_window": 0b1111, "exposed": 400}
MANY["met_100_confirmed_in_window"] = MANY["met_confirmed_in_window"]


def test_each_kill_of_a_trial_counts():
    """Ten kills in each of three trials bound the chance at 10 %; the control had three."""
    row = rule("SOLCD-ACK-01", KILL, [facts(**MANY)] * 3, BROKEN)

    assert ("HOLDS (30 kills)", 3, 30, 0.095) == (row.graded, row.trials, row.faults, round(row.bound, 3))
    assert (
        "0 of 300 confirmed messages lost in 30 kills of 3 trials (at least 400 at risk in each). Up to 10 % of kills "
        "could still violate the claim (95 % confidence, if they are independent). A broker that stores 3, 10 "
        "or 100 ms after its answer would have lost messages in at least 0, 12 or 30 of these 30 kills. A loss in one of ten "
        "would have been seen with 96 %, in one of a hundred with 26 %."
    ) in row.reason


def test_each_kill_that_offended_counts():
    """One that lost a message counts, even if nothing else was at risk before it."""
    many, bare = facts(offends=LOST, **MANY), facts(offends=LOST, exposed=0)
    many.failing["lost"] = dataclasses.replace(many.failing["lost"], faults={"confirm_period": 0b101})
    rows = [rule("SOLCD-ACK-01", KILL, [one]) for one in (many, bare)]

    assert [(10, 2), (1, 1)] == [(row.faults, row.offended_faults) for row in rows]
    assert "seen in 2 of 10 kills" in rows[0].reason


@pytest.mark.parametrize(
    ("claim", "name", "changes", "control"),
    [
        ("SOLCD-ACK-01", KILL, {"weakens": ()}, "liar loses-the-oldest"),
        ("SOLCD-ACK-01", KILL, {"launcher": "external"}, "liar loses-the-oldest"),
        ("EMS-STEP-02", AUTO, {"protocol": "jms"}, "session liar leaves-out-a-listener"),
        (
            *("ARTEMIS-SEND-10", "sync-held-while-sending"),
            *({"weakens": (), "absent": ("sync_non_transactional",)}, "sync_non_transactional=false"),
        ),
    ],
)
def test_which_control_has_to_fail(claim, name, changes, control):
    """A broker that no setting weakens needs a liar; only the opposite setting shows what a default does."""
    row = rule(claim, name, CLEAN, run=msgspec.structs.replace(RUN, **changes))

    assert (Verdict.INCONCLUSIVE, f"Its control ({control}) was not run.") == (
        row.verdict,
        row.reason.partition(" Seen")[0],
    )


def test_a_kill_that_met_nothing_at_risk_is_no_evidence():
    """Two kills are left, and one more is needed: the script is repeated. What the others found does not matter."""
    short, whole = (
        rule("SOLCD-ACK-01", KILL, [*CLEAN[:2], facts(exposed=0)], BROKEN),
        rule("SOLCD-ACK-01", KILL, [*CLEAN, facts(exposed=0)], BROKEN),
    )

    assert (Verdict.INCONCLUSIVE, True, 2) == (short.verdict, short.needs_exposure, short.faults)
    assert ("HOLDS (3 kills)", False, 50) == (whole.graded, whole.needs_exposure, whole.exposure.minimum)
    judged = Judgement(run=RUN, rows=(short, whole), self_checks=(), trials=())
    assert [KILL] == repeats.needs_repeats(judged)
    assert [] == repeats.needs_repeats(judged, {KILL: repeats.MOST_REPEATS})


@pytest.mark.parametrize(
    ("subject", "changes"),
    [
        (CLEAN, {}),  # only its control was not run
        ([facts(exposed=0)] * 3, {"settings": {**RUN.settings, "sync_non_transactional": False}}),
        ([facts(offends=LOST), facts(exposed=0)], {"policies_unread": "GET /queues: status 401"}),
    ],
)
def test_what_no_further_kill_decides(subject, changes):
    row = rule("SOLCD-ACK-01", KILL, subject, run=msgspec.structs.replace(RUN, **changes))

    assert (True, False) == (row.verdict in (Verdict.INCONCLUSIVE, Verdict.NOT_APPLICABLE), row.needs_exposure)


def test_kills_at_the_trigger_of_another_scenario_count_apart():
    """They bound the chance as well, and HOLDS needs three of its own."""
    third, most = facts(**MANY, faults_joined=0b1101101101), facts(**MANY, faults_joined=0b1111111110)
    held, short = (rule("SOLCD-ACK-01", KILL, subject, BROKEN) for subject in ([third] * 3, [most] * 2))

    assert ("HOLDS (30 kills, 9 at the trigger)", 30) == (held.graded, held.faults)
    assert "in 30 kills of 3 trials, 9 at the trigger (at least" in held.reason
    assert (Verdict.INCONCLUSIVE, 20) == (short.verdict, short.faults)
    assert "HOLDS needs 3 kills at its trigger, and 2 took effect: 1 more needed (--trials 3)." in short.reason


def test_many_kills_in_one_trial_are_enough():
    """A trial that met three kills is as good as three trials."""
    assert Verdict.HOLDS == rule("SOLCD-ACK-01", KILL, [facts(**MANY)], BROKEN).verdict


@pytest.mark.parametrize(
    ("subject", "control", "words"),
    [
        ([facts(was_settled=False)] * 3, BROKEN, "not drained to silence in 3 of 3 kills. Seen: "),
        ([facts(was_settled=False, was_stuck=True)] * 3, BROKEN, "in 3 of 3 kills (its depth stayed above zero). "),
        ([facts(), facts(was_settled=False, was_bringing=True, drains=5)], BROKEN, "drain 5 still brought messages"),
        ([facts(), facts(), facts(applies=0)], BROKEN, "applied to nothing in 1 of 3 kills"),
        ([facts(), facts(), facts(exposed=0)], BROKEN, "Nothing was at risk in 1 of 3 kills"),
        ([facts(all_foreign=1)] * 3, BROKEN, "no client sent"),
        ([facts(offends={"corrupt": 1})] * 3, BROKEN, "altered"),
        (CLEAN, [], "was not run"),
        (CLEAN, CLEAN, "was not seen to fail in 3 kills"),
        (CLEAN[:2], BROKEN, "HOLDS needs 3 kills, and 2 took effect: 1 more needed (--trials 3)."),
        (CLEAN[:1], BROKEN, "HOLDS needs 3 kills, and 1 took effect: 2 more needed (--trials 3)."),
        (CLEAN, BROKEN[:1], "has 1 valid trials, and needs 3."),
        (CLEAN, BROKEN[:2], "has 2 valid trials, and needs 3."),
        ([facts(**MANY)] * 3, [BROKEN[0], *CLEAN[:2]], "failed only in 1 of 3 trials, and must fail in two."),
        (CLEAN, [facts(), *BROKEN[:2]], "Too few trials for this control, which failed in 2 of 3"),
    ],
)
def test_what_stands_against_holds(subject, control, words):
    row = rule("SOLCD-ACK-01", KILL, subject, control)

    assert (Verdict.INCONCLUSIVE, True) == (row.verdict, words in row.reason), row.reason
    assert row.bound is None


@pytest.mark.parametrize(("subject", "control"), [(CLEAN, CLEAN), ([], BROKEN)], ids=["control passed", "no trial"])
def test_a_control_that_proves_nothing_has_no_miss_probability(subject, control):
    """A control that never failed is no weak broker, and no trial could have missed one: both would be q = 1.000."""
    assert rule("SOLCD-ACK-01", KILL, subject, control).q is None


OLDEST = {"kept_first_lost": 7, "kept_last_lost": 9, "kept_asked_lost": 8}


@pytest.mark.parametrize("otherwise", [facts(offends=LOST), facts(offends=LOST, **OLDEST)], ids=["all", "oldest"])
def test_a_control_that_stands_for_a_missing_sync_loses_the_end(otherwise):
    """A broker that loses its oldest message, or everything, is weak in another way: its check may miss a lost tail."""
    none, some = (rule("SOLCD-ACK-01", KILL, CLEAN, [*BROKEN[:n], *[otherwise] * (3 - n)]) for n in (0, 2))
    why = "a missing sync loses the end of what was answered, and neither the oldest nor all of it."

    assert (Verdict.INCONCLUSIVE, 0, 3) == (none.verdict, none.control.failed, none.control.trials)
    assert f"was not seen to fail in 3 kills. It failed otherwise in 3: {why}" in none.reason
    assert (Verdict.INCONCLUSIVE, 2) == (some.verdict, some.control.failed)
    stores_nothing = rule(
        "SOLCD-ACK-01", "broker-stopped-while-publishing", CLEAN, [otherwise] * 3, "persistence=false"
    )
    assert 3 == stores_nothing.control.failed


def test_a_q_of_exactly_the_limit_is_enough(monkeypatch):
    monkeypatch.setattr(counting, "ENOUGH", counting.miss_probability(3, 3, 3))
    row = rule("SOLCD-ACK-01", KILL, CLEAN, BROKEN)

    assert (Verdict.HOLDS, counting.ENOUGH) == (row.verdict, row.q)


def test_one_kill_of_a_control_carries_nothing():
    """Counter-example: 45 clean kills beside a control with one valid trial, which failed: q was 0.0009."""
    many = [facts(**{**MANY, "met_confirmed_in_window": 0b111111111111111})] * 3
    row = rule("SOLCD-ACK-01", KILL, many, BROKEN[:1])

    assert (45, Verdict.INCONCLUSIVE) == (row.faults, row.verdict)


def test_what_a_check_applied_to_nothing_of_was_not_at_risk():
    """Counter-example: `at risk 20+` beside "The check applied to nothing in 1 of 3 kills"."""
    row = rule("SOLCD-ACK-01", KILL, [facts(), facts(), facts(applies=0)], BROKEN)

    assert (Verdict.INCONCLUSIVE, 0) == (row.verdict, row.exposure.minimum)
    assert 50 == rule("SOLCD-ACK-01", KILL, CLEAN, BROKEN).exposure.minimum


@pytest.mark.parametrize(
    ("aside", "words"), [(0, ""), (2, "6 messages were found in the dead-letter or expiry queue. ")]
)
def test_what_was_set_aside_is_named_if_nothing_else_is_there(aside, words):
    row = rule("SOLCD-ACK-01", KILL, [facts(applies=0, all_set_aside=aside)] * 3, BROKEN)

    assert Verdict.INCONCLUSIVE == row.verdict
    assert f"The check applied to nothing in 3 of 3 kills. {words}Seen: 0 of 0 confirmed messages lost." == row.reason


def test_the_exposure_of_a_row():
    flush = {"trial_flush_ns": 3_141_593, "all_confirmed": 70}
    row = rule("SOLCD-ACK-01", KILL, [facts(exposed=number, **flush) for number in (50, 20, 60)], BROKEN)

    assert row.exposure == Exposure(
        name="confirmed_in_window", total=130, minimum=20, median=50.0, trials=3, confirmed=210, window_ms=3.142
    )


def test_a_control_that_stores_nothing_gives_no_q():
    """It proves the check, like a liar: a broker that never syncs would pass, so it must fail in every trial."""
    name = "broker-stopped-while-publishing"
    row = rule("SOLCD-ACK-01", name, CLEAN, BROKEN, label="persistence=false")
    once = rule("SOLCD-ACK-01", name, CLEAN, [*BROKEN[:2], facts()], label="persistence=false")

    assert (Verdict.HOLDS, None, False) == (row.verdict, row.q, row.control.strong)
    assert "seen to fail with persistence=false (3 of 3), which proves the check, not the exposure." in row.reason
    assert (Verdict.INCONCLUSIVE, True) == (once.verdict, "failed only in 2 of 3" in once.reason)


def test_violated_in_every_trial():
    row = rule("SOLCD-ACK-01", KILL, BROKEN)

    assert (Verdict.VIOLATED, 3, 9) == (row.verdict, row.offended, row.offences)
    assert "9 of 300 confirmed messages lost: seen in 3 of 3 kills." in row.reason
    assert "First: p1:7 in subject.1." in row.reason


def test_seen_once_in_five():
    row = rule("SOLCD-ACK-01", KILL, [*BROKEN[:1], *CLEAN, facts()])

    assert (Verdict.VIOLATED, True) == (row.verdict, "seen once in 5 kills" in row.reason)


def test_a_violation_outweighs_an_incomplete_run():
    torn = msgspec.structs.replace(RUN, finished=False, interrupted=True)

    assert Verdict.VIOLATED == rule("SOLCD-ACK-01", KILL, BROKEN, run=torn).verdict
    assert Verdict.INCONCLUSIVE == rule("SOLCD-ACK-01", KILL, CLEAN, BROKEN, run=torn).verdict
    assert "The run is incomplete." == rule("SOLCD-ACK-01", KILL, [], run=torn).reason


def expectation(**fields):
    """The catalogue in which SOLCD-ACK-01 is a claim of the suite itself."""
    claim = msgspec.structs.replace(
        CATALOGUE.claims["SOLCD-ACK-01"], source=claims.Source(claims.SUITE), reason="Made for this test.", **fields
    )
    return msgspec.structs.replace(CATALOGUE, claims={claim.id: claim})


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        (CLEAN, "An expectation of this suite, not seen to fail in 3 kills: 0 of 300 confirmed messages lost."),
        (
            [*BROKEN[:2], facts()],
            "An expectation of this suite, seen to fail in 2 of 3 kills: 6 of 300 confirmed messages lost.",
        ),
        ([facts(applies=0)] * 3, "An expectation of this suite. No message in 3 kills could have shown it."),
    ],
)
def test_an_expectation_is_only_observed(subject, words):
    row = rule("SOLCD-ACK-01", KILL, subject, catalogue=expectation())

    assert (Verdict.OBSERVED, words, False) == (row.verdict, row.reason, row.required)


def test_an_expectation_that_is_required_is_judged():
    asked = msgspec.structs.replace(RUN, required=("SOLCD-ACK-01",))

    broken = rule("SOLCD-ACK-01", KILL, BROKEN, catalogue=expectation(), run=asked)
    clean = rule("SOLCD-ACK-01", KILL, CLEAN, BROKEN, catalogue=expectation(), run=asked)

    assert (Verdict.VIOLATED, True) == (broken.verdict, broken.required)
    assert broken.reason.endswith("Your requirement; no document makes it.")
    assert (Verdict.HOLDS, True) == (clean.verdict, clean.required)


def test_an_expectation_that_the_documentation_makes():
    """It gets a verdict where it is tried. Unlike one that is always judged, nothing else that is seen is put to it."""
    documented = claims.load().claims["EXPECT-SYNC-03"]

    assert documented.gets_verdict(())
    assert not documented.always_judged


def test_an_expectation_that_is_always_judged():
    row = rule("SOLCD-ACK-01", KILL, BROKEN, catalogue=expectation(always_judged=True))

    assert (Verdict.VIOLATED, False) == (row.verdict, row.required)
    assert row.reason.endswith("An expectation of this suite; no document makes it.")


def test_a_broker_that_does_not_start_again():
    dead = rule(RECOVER, KILL, [DEAD] * 3)
    once = rule(RECOVER, KILL, [*CLEAN, DEAD])
    kept = rule("SOLCD-ACK-01", KILL, [*CLEAN, DEAD], BROKEN)

    assert (Verdict.VIOLATED, 3, False) == (dead.verdict, dead.offended, dead.required)
    assert "seen in 3 of 3 kills. Not recovered: it ended with status 3; a second broker" in dead.reason
    assert dead.reason.endswith("An expectation of this suite; no document makes it.")
    assert (Verdict.VIOLATED, True) == (once.verdict, "seen once in 4 kills" in once.reason)
    assert Verdict.INCONCLUSIVE == kept.verdict
    assert kept.reason.startswith("The broker did not start again in 1 of 4 kills: not recovered: it ended")


def test_a_broker_that_does_not_start_for_the_next_trial():
    """The previous trial ended the broker: no message was sent, and the fault of this trial did not fire."""
    before = facts(applies=0, exposed=0, effective=(), not_recovered=NOT_BACK, was_settled=False)
    row = rule(RECOVER, KILL, [*CLEAN, before], REFUSED, REFUSES)

    assert (Verdict.VIOLATED, ()) == (row.verdict, row.witnesses)
    assert row.reason == (
        f"No message was sent: seen once in 4 kills. N{NOT_BACK[1:]}. An expectation of this suite; no document makes it."
    )


@pytest.mark.parametrize(
    ("scenario", "why", "verdict"),
    [
        ("broker-killed-when-a-file-is-removed", "the kill did not fire: 0 events of the 2", Verdict.INCONCLUSIVE),
        ("broker-killed-when-a-file-is-removed", "the broker did not start", Verdict.HARNESS_ERROR),
        (KILL, "the kill did not fire: 0 events of the 2", Verdict.HARNESS_ERROR),
    ],
)
def test_a_broker_that_removes_no_file_of_its_journal(scenario, why, verdict):
    """The trigger is up to the broker there: that it never came is no error of the suite."""
    row = rule("SOLCD-ACK-01", scenario, [None] * 3, BROKEN, void=why)

    assert (verdict, True) == (row.verdict, row.reason.startswith(f"Every trial was void: {why}"))


def test_a_broker_that_refuses_damaged_data():
    """It has given nothing wrong away. One that is not ready for another reason has not answered."""
    skips = "liar skips-damaged-records"
    refused = facts(effective=("corrupt",), not_recovered=NOT_BACK, was_settled=False, applies=0)
    unready = facts(effective=("corrupt",), not_ready="not ready: end of stream", was_settled=False, applies=0)
    silent = facts(effective=("corrupt",), offends={"lost_silently": 3})
    required = msgspec.structs.replace(RUN, required=("EXPECT-DAMAGE-02",))
    rows = [
        rule("EXPECT-DAMAGE-02", "stored-body-damaged", [one] * 3, [silent] * 3, skips, run=required)
        for one in (refused, unready, silent)
    ]

    assert [Verdict.HOLDS, Verdict.INCONCLUSIVE, Verdict.VIOLATED] == [row.verdict for row in rows]
    assert rows[1].reason.startswith("The broker did not start again in 3 of 3 damaged files: not ready: end of stream")
    assert ["refused", "unreadable", "silent"] == [one.answer_to_damage for one in (refused, unready, silent)]


def test_a_node_that_refuses_its_damaged_data():
    """The kill that was to follow never came: that is an answer, and no error of the suite."""
    refused = facts(effective=("corrupt_replica",), not_ready="not ready: node-1 ended", was_settled=False, applies=0)
    pair = msgspec.structs.replace(RUN, settings={**RUN.settings, "nodes": 2})
    row = rule("EXPECT-DAMAGE-03", "replica-damaged", [refused] * 3, run=pair)

    asked = msgspec.structs.replace(pair, required=("EXPECT-DAMAGE-03",))
    required = rule("EXPECT-DAMAGE-03", "replica-damaged", [refused] * 3, run=asked)

    assert (Verdict.OBSERVED, 3, 0) == (row.verdict, row.trials, row.void)
    assert Verdict.INCONCLUSIVE == required.verdict
    assert required.reason.startswith(
        "A node refused its damaged data in 3 of 3 kills of nodes, so no kill of nodes came"
    )


@pytest.mark.parametrize(("scenario", "judged"), [("stored-body-damaged", False), (KILL, True)])
def test_a_refusal_of_damaged_data_is_no_failed_recovery(scenario, judged):
    found = evidence(scenario, [facts(not_recovered=NOT_BACK)])

    assert judged is rules.judges_elsewhere(CATALOGUE.claims[RECOVER], "not_recovered", SCENARIOS[scenario], found)


def test_a_broker_that_starts_again_each_time():
    assert Verdict.HOLDS == rule(RECOVER, KILL, CLEAN, REFUSED, REFUSES).verdict


def test_a_broker_that_may_or_may_not_be_to_blame():
    for claim, control, label in ((RECOVER, REFUSED, REFUSES), ("SOLCD-ACK-01", BROKEN, None)):
        row = rule(claim, KILL, [*CLEAN, UNKNOWN], control, label)

        assert Verdict.INCONCLUSIVE == row.verdict
        assert row.reason.startswith(
            "The broker did not start again in 1 of 4 kills: not ready: it ended with status 3;"
        )


def test_recovery_is_judged_in_every_scenario():
    """A scenario without the claim has a row only if a broker did not start again, and each scenario only one."""
    row = rule(RECOVER, ONE, [*CLEAN, DEAD])
    both = everywhere(**{name.replace("-", "_"): [DEAD] for name in (KILL, ONE)})
    violated = [each for each in rules.rows(CATALOGUE, SCENARIOS, both, {}) if each.claim == RECOVER and each.offended]

    assert (Verdict.VIOLATED, "confirmed_in_window") == (row.verdict, row.exposure.name)
    assert [(KILL, 1), (ONE, 1)] == [(each.scenario, each.offended) for each in violated]
    with pytest.raises(StopIteration):
        rule(RECOVER, ONE, CLEAN)


def test_recovery_is_judged_with_any_selection():
    """The selected claims rest on it."""
    chosen = msgspec.structs.replace(RUN, selected=("SOLCD-ACK-01",))

    assert Verdict.VIOLATED == rule(RECOVER, KILL, [*CLEAN, DEAD], run=chosen).verdict
    assert Verdict.NOT_TRIED == rule(RECOVER, KILL, CLEAN, REFUSED, REFUSES, run=chosen).verdict


def test_the_part_of_a_loss_is_named():
    tail = {"kept_first_lost": 1, "kept_last_lost": 2}
    row = rule("SOLCD-ACK-01", KILL, [facts(offends=LOST, **tail)] * 3)

    assert "Affected: the last confirmed messages in 3 kills." in row.reason


def test_all_trials_void():
    row = rule("SOLCD-ACK-01", KILL, [None] * 3, void="no port was free")

    assert (Verdict.HARNESS_ERROR, "Every trial was void: no port was free", 3) == (row.verdict, row.reason, row.void)


def test_all_trials_of_a_control_void():
    row = rule("SOLCD-ACK-01", KILL, CLEAN, [None], void="no port was free")

    assert (Verdict.HARNESS_ERROR, "Every trial of its control was void: no port was free") == (row.verdict, row.reason)


def test_a_trial_without_events_is_void():
    empty = tally.ClaimEvidence(RUN, evidence(KILL, CLEAN).trials, {})
    row = next(row for row in rules.rows(CATALOGUE, {KILL: SCENARIOS[KILL]}, empty, {}) if row.claim == "SOLCD-ACK-01")

    assert (Verdict.HARNESS_ERROR, "Every trial was void: nothing was recorded") == (row.verdict, row.reason)


def test_a_void_trial_beside_valid_ones():
    assert Verdict.HOLDS == rule("SOLCD-ACK-01", KILL, [None, *CLEAN], BROKEN).verdict
    assert Verdict.INCONCLUSIVE == rule("SOLCD-ACK-01", KILL, [None, *CLEAN[:2]], BROKEN).verdict


@pytest.mark.parametrize("claim", ["SOLCD-ACK-01", "EMS-STEP-02"], ids=["with a fault", "without"])
def test_a_trial_that_the_broker_voided(claim):
    """Three clean kills beside seven trials in which the broker had died before: nothing holds by those three."""
    scenario, control, label = (KILL, BROKEN, None) if claim == "SOLCD-ACK-01" else (AUTO, UNANSWERED, NEVER_ANSWERS)
    why = "broker died by itself (status -6)"
    died = facts(offends={"not_alive": 3}, not_alive=f"not alive: {why}", was_settled=False)
    row = rule(claim, scenario, [*CLEAN, *[None] * 7], control, label, void=why, void_by_broker=True)
    ended = rule(claim, scenario, [*CLEAN, died], control, label)
    alone = rule(claim, scenario, [None] * 3, control, label, void=why, void_by_broker=True)
    earlier = rule(claim, scenario, [*CLEAN, *[None] * 7], control, label, void=why)  # no word but its reason
    bad = facts(offends={**LOST, "unanswered_send": 1, "not_alive": 3}, not_alive=f"not alive: {why}")

    assert (Verdict.INCONCLUSIVE, 3, 7) == (row.verdict, row.trials, row.void)
    assert row.reason.startswith(f"7 trials were void because of the broker: {why}.")
    assert row.reason == earlier.reason
    assert (Verdict.INCONCLUSIVE, 3, 1) == (ended.verdict, ended.trials, ended.void)
    assert ended.reason.startswith(f"1 trial was void because of the broker: not alive: {why}.")
    assert (Verdict.INCONCLUSIVE, f"Every trial was void: {why}.") == (alone.verdict, alone.reason)
    assert Verdict.VIOLATED == rule(claim, scenario, [bad] * 3, control, label).verdict


@pytest.mark.parametrize(("claim", "label"), [("SOLCD-ACK-01", None), (RECOVER, REFUSES)], ids=["strong", "liar"])
def test_a_trial_that_was_void_after_its_fault(claim, label):
    """It may have shown the opposite, so nothing holds without it; a violation beside it stands."""
    broken = [facts(offends={**LOST, "not_recovered": 1}, tail=True)] * 3
    void = "drain-1.jsonl: the process died: out of memory"

    row = rule(claim, KILL, [None, *CLEAN], broken, label, void=void, void_after_fault=True)
    two = rule(claim, KILL, [None, None, *CLEAN], broken, label, void=void, void_after_fault=True)

    assert Verdict.INCONCLUSIVE == row.verdict
    assert row.reason.startswith(f"1 trial was void after its fault took effect: {void}.")
    assert two.reason.startswith(f"2 trials were void after their fault took effect: {void}.")
    assert Verdict.HOLDS == rule(claim, KILL, [None, *CLEAN], broken, label, void=void).verdict
    assert Verdict.VIOLATED == rule(claim, KILL, [None, *broken], broken, label, void_after_fault=True).verdict


@pytest.mark.parametrize("trials", [1, 2, 3])
def test_three_faults_beside_a_liar(trials):
    """A liar proves the check with one trial, but one kill without an offence shows little."""
    row = rule(RECOVER, KILL, CLEAN[:trials], REFUSED, REFUSES)

    assert (Verdict.HOLDS if trials == 3 else Verdict.INCONCLUSIVE) == row.verdict
    assert trials == 3 or f"and {trials} took effect: {3 - trials} more needed (--trials 3)." in row.reason


def test_without_a_fault_one_trial_is_enough():
    tame = [facts(effective=())]
    answers = rule(
        "EMS-STEP-02", AUTO, tame, [facts(offends={"unanswered_send": 1})] * 3, "liar never-answers-one-send"
    )

    assert (Verdict.HOLDS, "none") == (answers.verdict, answers.fault), answers.reason


def test_what_was_withheld_before_its_fault_counts():
    """Of a consumer that was to meet the fault and was given nothing; its control fails in the same way."""
    run = msgspec.structs.replace(RUN, protocol="mqtt")
    vain = [facts(offends={"stuck": 3}, effective=())] * 3
    seen = rule("EXPECT-SERVED-01", "consumer-killed-under-auto", vain, run=run)
    control = (vain, "liar skips-every-hundredth-delivery")
    held = rule("EXPECT-SERVED-01", "consumer-killed-under-auto", CLEAN, *control, run=run)

    assert (Verdict.VIOLATED, Verdict.HOLDS) == (seen.verdict, held.verdict), (seen.reason, held.reason)


def test_a_fault_that_did_not_bite_voids_only_what_is_about_it():
    tame = [facts(effective=())] * 3
    held = rule("EMS-STEP-02", AUTO, tame, [facts(offends={"unanswered_send": 1}, effective=())] * 3,
                "liar never-answers-one-send")  # fmt: skip
    row = rule("SOLCD-ACK-01", KILL, tame, BROKEN)

    assert Verdict.HOLDS == held.verdict, held.reason
    assert (Verdict.HARNESS_ERROR, True) == (row.verdict, tally.NOT_EFFECTIVE in row.reason)


THROUGH_ARTEMIS = msgspec.structs.replace(
    RUN,
    adapter="artemis",
    protocol="jms",
    client="artemis-jms",
    capabilities=("core_client", "transactions"),
    settings={**RUN.settings, "confirmation_window_bytes": 10_485_760},
)


def test_a_comparison_needs_three():
    other, same = facts(offends={"came_otherwise_than_other": 5}), facts()
    capabilities = (*RUN.capabilities, "pre_ack_mode")
    run = msgspec.structs.replace(
        THROUGH_ARTEMIS,
        adapter="qpid",
        protocol="amqp091",
        vendor="qpid-amqp091",
        profiles=("qpid",),
        capabilities=capabilities,
    )

    def verdict(subject):
        return rule("QPID-PRE-04", "receivers-killed-under-auto-and-pre", subject, run=run)

    assert Verdict.VIOLATED == verdict([other] * 3).verdict, verdict([other] * 3).reason
    few = verdict([other, other, same])
    assert (Verdict.INCONCLUSIVE, True) == (few.verdict, "needs 3 trials that show it" in few.reason)


@pytest.mark.parametrize("early", [0, 318])
def test_a_confirmation_window_is_observed(early):
    """Its documentation also calls it a buffer for reattachment: an early answer accuses no broker."""
    seen = [facts(offends={"answered_within_window": early})] * 3
    row = rule("ARTEMIS-ASYNC-06", "few-sends-of-large-window", seen, run=THROUGH_ARTEMIS)

    assert row.verdict == Verdict.OBSERVED
    assert row.reason.startswith(f"Observed here: {early * 3:,} of ")
    assert "sends were answered before their confirmation window was full" in row.reason


def test_figures_are_medians_in_their_words():
    seen = [
        facts(figure_rates_of_sending_0=rate, figure_rates_of_sending_1=1234.6, figure_rates_of_sending_2=None)
        for rate in (10.0, 30.0, 99.0)
    ]
    row = rule("ARTEMIS-SEND-13", "three-styles-of-sending", seen, run=THROUGH_ARTEMIS)

    assert row.verdict == Verdict.OBSERVED
    assert row.reason == (
        "Observed here, medians of 3 slow links: 30 messages a second one at a time, 1,235 in transactions of twenty, "
        "no figure for '… with a listener for the answers'."
    )


def test_liveness_needs_three():
    late = facts(offends={"unanswered_send": 1})

    assert Verdict.INCONCLUSIVE == rule("EMS-STEP-02", AUTO, [facts(), late, late]).verdict
    assert "needs 3 trials that show it" in rule("EMS-STEP-02", AUTO, [facts(), late, late]).reason
    assert Verdict.VIOLATED == rule("EMS-STEP-02", AUTO, [late] * 3).verdict


def test_a_liar_proves_the_check_in_all_of_its_trials():
    late = facts(offends={"unanswered_send": 1})
    label = "liar never-answers-one-send"
    held = rule("EMS-STEP-02", AUTO, CLEAN, [late] * 3, label)

    assert ("HOLDS (3 trials)", None, 0.63) == (held.graded, held.q, round(held.bound, 2))
    assert "proves the check, not the exposure" in held.reason
    assert Verdict.INCONCLUSIVE == rule("EMS-STEP-02", AUTO, CLEAN, [late, late, facts()], label).verdict
    assert Verdict.INCONCLUSIVE == rule("EMS-STEP-02", AUTO, CLEAN, [late, late], label).verdict


def test_a_claim_of_the_disk_is_not_decided_by_a_kill():
    row = rule("ARTEMIS-SEND-09", KILL, CLEAN, BROKEN)

    assert (Verdict.INCONCLUSIVE, True) == (row.verdict, row.reason.startswith("Process death only"))


WEAK = msgspec.structs.replace(RUN, settings={**RUN.settings, "sync_non_transactional": False})


@pytest.mark.parametrize(
    ("subject", "observed"), [(BROKEN, " Observed here: 9 of 300 confirmed messages lost in 3 kills."), ([], "")]
)
def test_not_promised(subject, observed):
    row = rule("SOLCD-ACK-01", KILL, subject, run=WEAK)

    assert Verdict.NOT_APPLICABLE == row.verdict
    assert (
        "Not promised by this configuration: sync_non_transactional is false, the claim needs true." + observed
    ) == row.reason


UNDECLARED = msgspec.structs.replace(
    RUN, protocol="stomp", capabilities=tuple(name for name in RUN.capabilities if name != claims.STORED)
)


def test_a_loss_of_a_broker_whose_file_declares_no_storage_is_undecided():
    """Counter-example: 9 of 9 confirmed messages lost in every kill, NOT_APPLICABLE, and exit 0."""
    lossy, clean = (rule("SOLCD-ACK-01", KILL, arm, run=UNDECLARED) for arm in (BROKEN, CLEAN))

    assert (Verdict.INCONCLUSIVE, Verdict.NOT_APPLICABLE) == (lossy.verdict, clean.verdict)
    assert "9 of 300 confirmed messages lost" in lossy.reason
    assert "The broker's file does not declare confirm_means_stored over stomp. If its documentation" in lossy.reason
    assert "add confirm_means_stored to the capabilities of [protocols.stomp]" in lossy.reason


def test_a_setting_that_gives_storage_up_needs_no_declaration():
    run = msgspec.structs.replace(UNDECLARED, settings=WEAK.settings)
    row = rule("SOLCD-ACK-01", KILL, BROKEN, run=run)

    assert (Verdict.NOT_APPLICABLE, True) == (row.verdict, "sync_non_transactional is false" in row.reason)


SILENT = msgspec.structs.replace(RUN, settings={}, absent=(), weakens=())


def test_a_file_without_settings_gives_nothing_up():
    """A setting that the broker's file does not describe is assumed to promise the claim; a violation says so."""
    row = rule("SOLCD-ACK-01", KILL, BROKEN, run=SILENT)

    assert (Verdict.VIOLATED, False, "") == (row.verdict, row.required, row.failed_unpromised)
    assert row.reason.endswith(
        "The broker's file does not describe persistence and sync_non_transactional, so the promise is assumed."
    )


def test_a_file_that_says_that_it_stores_nothing():
    row = rule("SOLCD-ACK-01", KILL, BROKEN, run=msgspec.structs.replace(SILENT, settings={"persistence": False}))

    assert Verdict.NOT_APPLICABLE == row.verdict
    assert row.reason.startswith("Not promised by this configuration: persistence is false, the claim needs true.")


def test_silence_permits_nothing():
    """The permission needs the weak value, so it does not apply beside the assumed claim."""
    row = rule("ARTEMIS-SEND-11", KILL, BROKEN, run=SILENT)

    assert (Verdict.NOT_APPLICABLE, "") == (row.verdict, row.failed_unpromised)


@pytest.mark.parametrize(
    ("claim", "subject", "run", "figure"),
    [
        ("SOLCD-ACK-01", BROKEN, WEAK, "9 of 300 confirmed messages lost"),
        ("SOLCD-ACK-01", CLEAN, WEAK, ""),
        ("SOLCD-ACK-01", BROKEN, RUN, ""),
        ("SOLCD-ACK-01", BROKEN, msgspec.structs.replace(RUN, capabilities=()), ""),
        ("ARTEMIS-SEND-11", BROKEN, RUN, ""),
    ],
)
def test_what_failed_without_a_promise(claim, subject, run, figure):
    """Only if a setting does not promise the claim and its check failed: a permission cannot fail."""
    assert figure == rule(claim, KILL, subject, run=run).failed_unpromised


def test_required_all_the_same():
    row = rule("SOLCD-ACK-01", KILL, BROKEN, run=msgspec.structs.replace(WEAK, required=("SOLCD-ACK-01",)))

    assert (Verdict.VIOLATED, True) == (row.verdict, row.required)
    assert row.reason.endswith(
        "Your requirement, not promised by this configuration: sync_non_transactional is false, the claim needs true."
    )


def test_required_and_kept():
    row = rule("SOLCD-ACK-01", KILL, CLEAN, BROKEN, run=msgspec.structs.replace(WEAK, required=("SOLCD-ACK-01",)))

    assert (Verdict.HOLDS, True) == (row.verdict, row.required)
    assert row.reason.startswith("0 of 300 confirmed messages lost in 3 kills (at least 50 at risk in each).")
    assert "not promised" not in row.reason


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize(
    ("subject", "finished", "verdict", "reason"),
    [
        ([], False, Verdict.INCONCLUSIVE, "The run is incomplete."),
        ([None], True, Verdict.HARNESS_ERROR, "Every trial was void: the broker did not start"),
    ],
)
def test_required_and_not_tried(required, subject, finished, verdict, reason):
    run = msgspec.structs.replace(WEAK if required else RUN, required=("SOLCD-ACK-01",), finished=finished)
    row = rule("SOLCD-ACK-01", KILL, subject, run=run)

    assert (verdict, reason, required) == (row.verdict, row.reason, row.required)


def test_required_without_need():
    row = rule("SOLCD-ACK-01", KILL, BROKEN, run=msgspec.structs.replace(RUN, required=("SOLCD-ACK-01",)))

    assert (Verdict.VIOLATED, False) == (row.verdict, row.required)


def test_another_vendors_sentence():
    row = rule("EMS-STEP-06", "broker-killed-after-acknowledgements", CLEAN,
               run=msgspec.structs.replace(RUN, adapter="artemis", title="Artemis", profiles=("artemis",)))  # fmt: skip

    assert Verdict.NOT_APPLICABLE == row.verdict
    assert row.reason.startswith("The sentence binds TIBCO EMS, not Artemis. Observed here: 0 of 300")


ACKNOWLEDGED = "broker-killed-after-acknowledgements"
FOREIGN = msgspec.structs.replace(RUN, title="Another", profiles=("artemis",), judged_as=("ems",))
ASKED = "Judged as TIBCO EMS at your request; this product never promised it."


def test_judged_as_another_vendor():
    row = rule("EMS-STEP-06", ACKNOWLEDGED, [facts(offends={"delivered_after_restart": 2})] * 3, run=FOREIGN)

    assert (Verdict.VIOLATED, True, True) == (row.verdict, row.required, row.reason.startswith(ASKED)), row.reason
    assert ExitCode.VIOLATED == exits.exit_code(Judgement(run=FOREIGN, rows=(row,), self_checks=(), trials=()))


def test_judged_as_what_cannot_be_decided():
    row = rule("EMS-STEP-06", ACKNOWLEDGED, [None] * 3, run=FOREIGN)

    assert (Verdict.HARNESS_ERROR, True, True) == (row.verdict, row.required, row.reason.startswith(ASKED))


@pytest.mark.parametrize("changes", [{"profiles": ("ems",)}, {"judged_as": ("qpid",)}])
def test_judged_as_without_need(changes):
    row = rule("EMS-STEP-06", ACKNOWLEDGED, CLEAN, run=msgspec.structs.replace(FOREIGN, **changes))

    assert (False, False) == (row.required, "at your request" in row.reason)


def test_judged_as_leaves_the_settings_alone():
    claim = next(c for c in CATALOGUE.claims.values() if c.binds == ("qpid",) and c.when and c.subject == "broker")
    run = msgspec.structs.replace(
        FOREIGN, judged_as=("qpid",), protocol=claim.surfaces[0], capabilities=claim.capabilities, settings={}
    )
    why = applicable.why_not(claim, run)

    assert why.startswith(applicable.NOT_PROMISED), why


SESSION = next(c for c in CATALOGUE.claims.values() if c.subject == "session" and c.when and c.binds == ("solace",))


@pytest.mark.parametrize("settings", [{}, {"publish_window": 0}])
def test_a_session_of_ours_has_its_settings_from_its_script(settings):
    """No product's configuration changes a self-check, and it binds no vendor."""
    run = msgspec.structs.replace(RUN, settings=settings, profiles=(), capabilities=SESSION.capabilities)

    assert ("publish_window", "", "") == (
        next(iter(SESSION.when)),
        applicable.not_promised(SESSION, run),
        applicable.why_not(SESSION, run),
    )


def test_a_brokers_claim_is_given_up_by_what_its_product_does_not_have():
    claim = msgspec.structs.replace(SESSION, subject=claims.Subject.BROKER)
    run = msgspec.structs.replace(RUN, settings={}, profiles=("solace",), capabilities=SESSION.capabilities)

    assert applicable.NOT_PROMISED + "the product has no setting publish_window." == applicable.why_not(claim, run)


@pytest.mark.parametrize(
    ("claim", "adapter", "protocol", "why"),
    [
        ("AMQP-DUR-01", "reference", "amqp", ""),
        ("AMQP-DUR-01", "reference", "stomp", "It is about amqp; this run used stomp."),
        ("STOMP-RCPT-01", "reference", "amqp", "It is about stomp; this run used amqp."),
        ("EMS-STEP-06", "reference", "stomp", ""),
        ("EMS-STEP-06", "artemis", "stomp", "It is about jms; this run used stomp."),
        ("EMS-CLIENT-01", "reference", "amqp", "It is about the vendor's own client (jms); this run used amqp."),
    ],
)
def test_what_the_protocol_does_not_say(claim, adapter, protocol, why):
    """On the bundled broker a claim about a product's own client may use any protocol."""
    about = CATALOGUE.claim(claim)
    run = msgspec.structs.replace(
        RUN, adapter=adapter, protocol=protocol, profiles=("ems",), capabilities=about.capabilities
    )

    assert why == applicable.why_not(about, run)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"binds": ("ems", "acme")}, "The sentence binds TIBCO EMS and acme, not the reference broker."),
        ({"surfaces": ("amqp091", "stomp")}, "It is about amqp091 or stomp; this run used amqp."),
        ({"surfaces": ("reference",)}, "It is about the bundled broker; this run used amqp."),
    ],
)
def test_the_words_for_what_does_not_apply(changes, why):
    claim = msgspec.structs.replace(CATALOGUE.claim("SOLCD-ACK-01"), **changes)

    assert why == applicable.why_not(claim, msgspec.structs.replace(RUN, adapter="artemis", profiles=("artemis",)))


@pytest.mark.parametrize(
    ("claim", "selected", "verdict", "reason"),
    [
        ("SOLCD-ACK-01", (), Verdict.NOT_TRIED, "no client"),
        ("SOLCD-ACK-01", ("SOLCD-ACK-01",), Verdict.NOT_TRIED, "no client"),
        ("SOLCD-ACK-01", ("EMS-STEP-02",), Verdict.NOT_TRIED, "Left out by the selection."),
        ("CLASSIC-SYNC-01", (), Verdict.NOT_APPLICABLE, "The sentence binds Apache ActiveMQ Classic, not Artemis."),
    ],
)
@pytest.mark.parametrize("scripted", [True, False])
def test_a_run_without_a_client(claim, selected, verdict, reason, scripted):
    run = msgspec.structs.replace(
        RUN, title="Artemis", profiles=("artemis",), no_client_reason="no client", selected=selected
    )
    found = rules.rows(CATALOGUE, SCENARIOS if scripted else {}, tally.ClaimEvidence(run, [], {}), {})

    assert {(verdict, reason)} == {(row.verdict, row.reason) for row in found if row.claim == claim}


def test_a_claim_without_a_scenario_may_not_apply():
    rows = rules.rows(CATALOGUE, {}, tally.ClaimEvidence(WEAK, [], {}), {"EMS-STEP-02": "No queue yet."})
    found = {row.claim: (row.verdict, row.reason) for row in rows}

    assert (Verdict.NOT_TRIED, "No queue yet.") == found["EMS-STEP-02"]
    assert Verdict.NOT_APPLICABLE == found["SOLCD-ACK-01"][0]
    assert found["SOLCD-ACK-01"][1].startswith("Not promised by this configuration: sync_non_transactional")


def test_a_capability_that_is_missing_over_this_protocol():
    claim = CATALOGUE.claim("STOMP-TX-02")
    run = msgspec.structs.replace(RUN, protocol="stomp", capabilities=("queues", "transactions"))

    assert "The broker lacks a capability over stomp: transactional_acks." == applicable.why_not(claim, run)


THIRD = "third-of-a-window-sent"
SOLACE = msgspec.structs.replace(
    RUN,
    profiles=("solace",),
    capabilities=("ranged_confirms",),
    settings={"publish_window": 50, "ack_immediately": False, "ack_event_mode": "per_message"},
)


def timed(claim="SOLPUB-THR-01", offended=(), trials=3, **run):
    """A row about time: in so many trials, a third of a window waited for the timer."""
    late = {"waited_for_timer": 17}
    subject = [facts(offends=late if number in offended else {}) for number in range(trials)]
    label = "liar confirms-by-timer-only"
    about = msgspec.structs.replace(SOLACE, **run)
    return rule(claim, THIRD, subject, [facts(offends=late)] * 3, label=label, run=about)


@pytest.mark.parametrize(
    ("claim", "anomaly", "beside"), [("EMS-STEP-03", "stuck", False), ("SOLCD-ACK-01", "lost", True)]
)
def test_what_came_late_is_not_counted_twice(claim, anomaly, beside):
    """Late messages are listed beside lost ones, but they are the stuck ones themselves."""
    seen = [facts(offends={anomaly: 4}, all_late=4)] * 3
    row = rule(claim, KILL, seen, seen)

    assert Verdict.VIOLATED == row.verdict
    assert ("In addition, 12 others came only after another restart" in row.reason) == beside


def test_what_came_too_late_must_do_so_in_three_trials():
    once, twice, thrice = (timed(offended=range(count), trials=5) for count in (1, 2, 3))

    assert [Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE, Verdict.VIOLATED] == [r.verdict for r in (once, twice, thrice)]
    assert "A violation needs 3 trials that show it." in once.reason
    assert Verdict.HOLDS == timed().verdict


def test_a_claim_that_no_product_can_be_tried_by_says_so():
    words = "Decided on a profile of the bundled broker only"

    assert words in timed().reason
    assert words not in rule("SOLCD-ACK-01", KILL, CLEAN).reason


def test_a_session_meets_conditions_that_the_settings_leave_open():
    """A script asks for Ack Immediately: the claim about it applies there, and the claim about its absence does not."""
    script = SCENARIOS["acknowledged-immediately"]
    run = msgspec.structs.replace(SOLACE, capabilities=("ack_immediately", "ranged_confirms"))
    immediate, third = CATALOGUE.claim("SOLPUB-IMM-01"), CATALOGUE.claim("SOLPUB-THR-01")

    assert ("", True) == (applicable.why_not(immediate, run, script.session), bool(applicable.why_not(immediate, run)))
    assert (True, "") == (bool(applicable.why_not(third, run, script.session)), applicable.why_not(third, run))
    assert Verdict.NOT_TRIED == rule(immediate.id, script.id, [], run=run).verdict


def test_what_an_adapter_has_no_words_for_is_not_tried():
    run = msgspec.structs.replace(
        RUN,
        capabilities=("explicit_rejections",),
        unable={"a queue with max_length": "its adapter has no words for one"},
    )
    row = rule("AMQP-REF-01", "sends-refused-by-full-queue", [], run=run)

    assert (Verdict.NOT_TRIED, "It needs a queue with max_length: its adapter has no words for one.") == (
        row.verdict,
        row.reason,
    )


def test_the_permission_needs_both_halves():
    found, absent = facts(offends={"unanswered_either_way": 1}), facts(offends={"unanswered_absent": 1})

    row = rule("SOLCD-ACK-02", KILL, [found, absent, facts()])

    found_and_absent = "1 of 300 sends without an answer were found after recovery, 1 others absent, in 3 kills."
    assert (Verdict.WITNESSED, found_and_absent) == (row.verdict, row.reason)
    assert Verdict.NOT_WITNESSED == rule("SOLCD-ACK-02", KILL, [found] * 3).verdict
    assert Verdict.NOT_WITNESSED == rule("SOLCD-ACK-02", KILL, [absent] * 3).verdict


@pytest.mark.parametrize(("seen", "verdict"), [(BROKEN, Verdict.WITNESSED), (CLEAN, Verdict.NOT_WITNESSED)])
def test_a_permission_with_one_half(seen, verdict):
    row = rule("ARTEMIS-SEND-11", KILL, seen, run=WEAK)

    assert (verdict, f"{row.offences} of 300 confirmed messages missing after the fault, in 3 kills.") == (
        row.verdict,
        row.reason,
    )


def test_what_was_not_selected_is_not_tried():
    run = msgspec.structs.replace(RUN, selected=("AMQP-DUR-01",))
    row = rule("SOLCD-ACK-01", KILL, CLEAN, BROKEN, run=run)

    assert (Verdict.NOT_TRIED, 0, None) == (row.verdict, row.trials, row.exposure)


def test_every_claim_has_a_row():
    untried = {"SOLCD-ACK-01": "No queues yet."}
    rows = rules.rows(CATALOGUE, SCENARIOS, tally.ClaimEvidence(RUN, [], {}), untried)

    assert set(CATALOGUE.claims) == {row.claim for row in rows}
    assert {Verdict.NOT_TRIED, Verdict.NOT_APPLICABLE} == {row.verdict for row in rows}
    assert all(row.reason for row in rows)
    assert {"No queues yet."} == {row.reason for row in rows if row.claim == "SOLCD-ACK-01"}


def test_every_field_of_a_row():
    run = msgspec.structs.replace(RUN, seed=8, command="conformance run --adapter reference")
    broken = facts(offends=LOST, trial_flush_ns=3_000_000, all_confirmed=70)
    row = rule("SOLCD-ACK-01", KILL, [facts(), broken, None], BROKEN, run=run)
    control = "journal_buffer_ms=500, sync_non_transactional=false, sync_transactional=false"

    assert {
        "claim": "SOLCD-ACK-01",
        "kind": "safety",
        "scope": "common",
        "subject": "broker",
        "says": "Once the acknowledgement of a persistent message was received and processed, the message must not be lost.",
        "document": "000",
        "section": "Confirmed Delivery",
        "adapter": "reference",
        "version": "1",
        "launcher": "native",
        "settings": RUN.settings,
        "protocol": "amqp",
        "client": "proton",
        "scenario": KILL,
        "mode": "async_ack",
        "fault": "kill",
        "failure_model": "process death",
        "verdict": "VIOLATED",
        "exposure": {
            "name": "confirmed_in_window",
            "total": 100,
            "minimum": 50,
            "median": 50.0,
            "trials": 2,
            "confirmed": 70,
            "window_ms": 3.0,
        },
        "trials": 2,
        "offended": 1,
        "void": 1,
        "control": {"label": control, "strong": True, "failed": 3, "trials": 3},
        "bound": None,
        "q": None,
        "reason": "3 of 200 confirmed messages lost: seen once in 2 kills. Affected: all confirmed messages. "
        "First: p1:7 in subject.2.",
        "replay": f"conformance replay . --scenario {KILL} --trial 2",
        "required": False,
        "faults": 2,
        "offended_faults": 1,
        "needs_exposure": False,
        "strength": "",
        "offences": 3,
        "decided_by": "",
        "failed_unpromised": "",
        "anomaly": "lost",
        "standing": False,
        "repeated_by": (),
        "witnesses": ({"trial": "subject.2", "queue": "q", "message": "p1:7", "timeline": ()},),
    } == msgspec.to_builtins(row)


@pytest.mark.parametrize(
    ("command", "replay"),
    [
        ("conformance run --adapter reference", "conformance run --adapter reference --seed 7"),
        ("conformance run --seed 9", "conformance run --seed 9"),
        ("conformance replay runs/r", "conformance replay runs/r"),
    ],
)
def test_the_command_that_records_a_row_again(command, replay):
    run = msgspec.structs.replace(RUN, command=command)

    assert replay == rule("SOLCD-ACK-01", KILL, CLEAN, run=run).replay


def test_only_a_row_about_our_session_is_a_self_check():
    row = rule("SOLCD-ACK-01", KILL, CLEAN)

    assert not rules.is_self_check(row)
    assert rules.is_self_check(msgspec.structs.replace(row, subject=claims.Subject.SESSION))


def test_a_row_without_a_scenario_is_empty():
    blank = next(row for row in rules.rows(CATALOGUE, {}, tally.ClaimEvidence(RUN, [], {}), {}))
    counted = (blank.trials, blank.offended, blank.void, blank.faults, blank.offended_faults, blank.offences)

    assert {"", "No scenario of this version tries it."} == {blank.scenario, blank.reason}
    assert "" == blank.mode + blank.fault + blank.failure_model + blank.anomaly + blank.strength
    assert (0,) * 6 == counted
    assert [None] * 4 == [blank.exposure, blank.control, blank.bound, blank.q]
    assert (False, False, (), ()) == (blank.standing, blank.needs_exposure, blank.repeated_by, blank.witnesses)


def judgement(*verdicts, run=RUN, ours=(), **fields):
    blank = rule("SOLCD-ACK-01", KILL, CLEAN, BROKEN)
    rows = [msgspec.structs.replace(blank, verdict=verdict, **fields) for verdict in verdicts]
    own = [msgspec.structs.replace(blank, verdict=verdict) for verdict in ours]
    return Judgement(run=run, rows=tuple(rows), self_checks=tuple(own), trials=())


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ([], ExitCode.NOTHING_RAN),
        (["NOT_TRIED", "NOT_APPLICABLE"], ExitCode.NOTHING_RAN),
        (["HOLDS", "NOT_TRIED", "NOT_WITNESSED"], ExitCode.CONFORMANT),
        (["NOT_WITNESSED"], ExitCode.CONFORMANT),
        (["HOLDS", "INCONCLUSIVE"], ExitCode.INCONCLUSIVE),
        (["INCONCLUSIVE", "VIOLATED"], ExitCode.VIOLATED),
        (["VIOLATED", "HARNESS_ERROR"], ExitCode.VIOLATED),
        (["HARNESS_ERROR", "INCONCLUSIVE", "HOLDS"], ExitCode.HARNESS),
    ],
)
def test_exit_codes(verdicts, code):
    assert code == exits.exit_code(judgement(*map(Verdict, verdicts)))


def test_exit_codes_of_the_run_itself():
    stopped = msgspec.structs.replace(RUN, finished=False, interrupted=True)
    torn = msgspec.structs.replace(RUN, finished=False)

    assert ExitCode.INTERRUPTED == exits.exit_code(judgement(Verdict.HOLDS, run=stopped))
    assert ExitCode.HARNESS == exits.exit_code(judgement(Verdict.HOLDS, run=torn))
    assert ExitCode.HARNESS == exits.exit_code(judgement(Verdict.HOLDS, ours=[Verdict.VIOLATED]))
    assert ExitCode.NOTHING_RAN == exits.exit_code(judgement(Verdict.NOT_TRIED, ours=[Verdict.HOLDS]))
    assert ExitCode.VIOLATED == exits.exit_code(judgement(Verdict.VIOLATED, required=True))


def test_spared_rows():
    """An error of the suite is never spared, and further codes may come from outside the rows."""
    everything = judgement(Verdict.VIOLATED, Verdict.INCONCLUSIVE)
    broken = judgement(Verdict.HARNESS_ERROR)

    assert ExitCode.CONFORMANT == exits.exit_code(everything, spared=lambda _: True)
    for beside in ([], [Verdict.OBSERVED, Verdict.WITNESSED]):  # what is no claim decides none
        undecided = judgement(Verdict.INCONCLUSIVE, *beside)
        assert ExitCode.NOTHING_RAN == exits.exit_code(undecided, spared=lambda _: True)
        assert ExitCode.INCONCLUSIVE == exits.exit_code(undecided)
    assert ExitCode.HARNESS == exits.exit_code(broken, spared=lambda _: True)
    assert ExitCode.INCONCLUSIVE == exits.exit_code(judgement(Verdict.HOLDS), also=[ExitCode.INCONCLUSIVE])
    assert ExitCode.INCONCLUSIVE == exits.exit_code(everything, spared=lambda row: row.verdict is Verdict.VIOLATED)


def test_a_row_that_another_row_decided():
    """It leaves nothing undecided; a violation stays one."""
    assert ExitCode.CONFORMANT == exits.exit_code(judgement(Verdict.HOLDS, Verdict.INCONCLUSIVE, decided_by="lost"))
    assert ExitCode.VIOLATED == exits.exit_code(judgement(Verdict.HOLDS, Verdict.VIOLATED, decided_by="lost"))


def test_repeats():
    shown = judgement(Verdict.VIOLATED, trials=3, offended=3)

    assert [] == repeats.needs_repeats(shown)
    assert [KILL] == repeats.needs_repeats(judgement(Verdict.VIOLATED, Verdict.VIOLATED, trials=3, offended=1))
    assert [KILL] == repeats.needs_repeats(judgement(Verdict.VIOLATED, trials=1, offended=1))
    assert [] == repeats.needs_repeats(judgement(Verdict.HOLDS))


@pytest.mark.parametrize(
    ("verdict", "offended", "added", "again"),
    [
        (Verdict.INCONCLUSIVE, 1, 0, True),
        (Verdict.INCONCLUSIVE, 2, 0, True),
        (Verdict.INCONCLUSIVE, 2, repeats.MOST_REPEATS - 1, True),
        (Verdict.INCONCLUSIVE, 2, repeats.MOST_REPEATS, False),
        (Verdict.INCONCLUSIVE, 0, 0, False),
        (Verdict.INCONCLUSIVE, 3, 0, False),  # the other half of a comparison is missing: no repeat brings that
        (Verdict.VIOLATED, 2, 0, True),
        (Verdict.VIOLATED, 2, repeats.REPEATS, False),
    ],
)
def test_what_was_seen_too_seldom_is_repeated(verdict, offended, added, again):
    """Stuck in two of three trials is repeated; a violation is repeated once."""
    found = repeats.needs_repeats(judgement(verdict, trials=5, offended=offended), {KILL: added})

    assert found == ([KILL] if again else [])


def test_the_tables_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ANOMALIES["lost"].applies = "true"


def with_policy(**settings):
    return msgspec.structs.replace(RUN, settings={**RUN.settings, **settings})


def required(run, *claims):
    return msgspec.structs.replace(run, required=claims)


DISCARDS = with_policy(full_queue_policy="discard")


def test_no_absence_is_held_against_a_queue_that_discards():
    """The claim is not promised unless the user requires it; a claim that rests on no absence is judged as usual."""
    row = rule("SOLCD-ACK-01", KILL, BROKEN, run=DISCARDS)
    required = rule("SOLCD-ACK-01", KILL, BROKEN, run=msgspec.structs.replace(DISCARDS, required=("SOLCD-ACK-01",)))
    other = rule("EMS-STEP-02", AUTO, [facts(offends={"unanswered_send": 1})] * 3, run=DISCARDS)

    assert Verdict.NOT_APPLICABLE == row.verdict
    assert row.reason.startswith(
        "Not promised by this configuration: full_queue_policy is discard: a message for a full queue is confirmed and "
        "discarded."
    )
    assert (Verdict.VIOLATED, True) == (required.verdict, required.required)
    assert Verdict.VIOLATED == other.verdict


def test_a_policy_that_moves_messages_excuses_only_what_was_found():
    """The suite drains the dead-letter queue, but not that of an external broker."""
    moves = with_policy(max_delivery_attempts=1, dead_letter_destination="DLQ")
    outside = msgspec.structs.replace(moves, launcher="external")
    found = rule("SOLCD-ACK-01", KILL, [facts(applies=0, all_set_aside=7)] * 3, BROKEN, run=moves)

    assert Verdict.VIOLATED == rule("SOLCD-ACK-01", KILL, BROKEN, run=moves).verdict
    assert Verdict.NOT_APPLICABLE == rule("SOLCD-ACK-01", KILL, BROKEN, run=outside).verdict
    assert Verdict.INCONCLUSIVE == found.verdict
    assert "21 messages were found in the dead-letter or expiry queue." in found.reason


@pytest.mark.parametrize(("asked", "expected"), [((), 0), ((("max_delivery_attempts", 2),), 1)])
def test_a_policy_that_a_script_asks_for_is_in_force(asked, expected):
    """Two attempts and no dead-letter queue: what was given back may be gone."""
    trial = types.SimpleNamespace(settings={"max_delivery_attempts": 2, "dead_letter_destination": ""})
    one = types.SimpleNamespace(
        anomaly=ANOMALIES["given_back_nowhere"],
        scenario=types.SimpleNamespace(settings=asked),
        subject=types.SimpleNamespace(valid=((trial, None),), facts=[facts()]),
    )

    assert expected == len(list(rules._policies(one, RUN)))


@pytest.mark.parametrize(
    ("policy", "reached", "verdict"),
    [
        ({"message_ttl_ms": 5_000, "expiry_destination": ""}, {"lasted_ns": 4_999_999_999}, Verdict.VIOLATED),
        ({"message_ttl_ms": 5_000, "expiry_destination": ""}, {"lasted_ns": 5_000_000_000}, Verdict.NOT_APPLICABLE),
        ({"max_delivery_attempts": 4, "dead_letter_destination": ""}, {"most_deliveries": 3}, Verdict.VIOLATED),
        ({"max_delivery_attempts": 4, "dead_letter_destination": ""}, {"most_deliveries": 4}, Verdict.NOT_APPLICABLE),
    ],
)
def test_a_policy_excuses_only_what_can_have_reached_it(policy, reached, verdict):
    """A time to live no younger message, and an attempt limit none that was delivered less often."""
    lossy = [facts(offends=LOST, **reached)] * 3

    assert verdict == rule("SOLCD-ACK-01", KILL, lossy, run=with_policy(**policy)).verdict


@pytest.mark.parametrize(("kept", "verdict"), [((1, 4), Verdict.VIOLATED), ((9, 9), Verdict.INCONCLUSIVE)])
def test_policies_that_could_not_be_read_explain_no_loss_of_younger_messages(kept, verdict):
    """The lost ones are fifth and sixth: the first four are there, or only the ninth."""
    run = msgspec.structs.replace(RUN, policies_unread="403 Forbidden")
    lossy = [facts(offends=LOST, kept_first_lost=kept[0], kept_last_lost=kept[1])] * 3

    assert verdict == rule("SOLCD-ACK-01", KILL, lossy, run=run).verdict


def test_a_queue_whose_messages_stay_excuses_those_that_come_again():
    """Non-destructive: a delivery after the acknowledgement shows nothing, a missing answer does."""
    keeps = with_policy(non_destructive=True)
    again = rule("AMQP-ACC-02", EVERY, [facts(offends={"delivered_twice": 1})] * 3, run=keeps)
    silent = rule("EMS-STEP-02", AUTO, [facts(offends={"unanswered_send": 1})] * 3, run=keeps)

    assert ANOMALIES["delivered_twice"].rests_on(("return",))
    assert ANOMALIES["two_owners"].rests_on(("return",))
    assert "non_destructive is true: a message stays in its queue" in again.reason
    assert Verdict.VIOLATED == silent.verdict


def test_no_policy_explains_a_message_that_no_client_sent():
    """An attempt limit of 10, which Artemis has, made this claim NOT_APPLICABLE."""
    limited = with_policy(
        max_delivery_attempts=10, dead_letter_destination="DLQ", message_ttl_ms=5, non_destructive=True
    )
    ruling = rule("EXPECT-SENT-01", EVERY, [facts(offends={"phantom": 1})] * 3, run=limited)

    assert Verdict.VIOLATED == ruling.verdict


def test_a_send_that_waits_for_room_is_no_missing_answer():
    """With BLOCK the producer of a full queue waits: that is undecided, and a loss is judged as usual."""
    blocks = with_policy(full_queue_policy="block")
    silent = [facts(offends={"unanswered_send": 1})] * 3
    row = rule("EMS-STEP-02", AUTO, silent, run=blocks)
    wanted = rule("EMS-STEP-02", AUTO, silent, run=required(blocks, "EMS-STEP-02"))

    assert Verdict.INCONCLUSIVE == row.verdict
    assert row.reason.endswith(
        "A policy may explain it: full_queue_policy is block: a producer waits while its queue is full."
    )
    assert (Verdict.VIOLATED, True) == (wanted.verdict, wanted.required)
    assert Verdict.VIOLATED == rule("SOLCD-ACK-01", KILL, BROKEN, run=blocks).verdict


def test_a_policy_that_voids_every_trial_is_no_error_of_the_suite():
    why = "the client was not killed: stuck after 52"
    expires = with_policy(message_ttl_ms=500, expiry_destination="")
    row = rule("AMQP-ACC-02", EVERY, [None] * 3, void=why, run=expires)

    assert (Verdict.INCONCLUSIVE, 3) == (row.verdict, row.void)
    assert row.reason.startswith(f"Every trial was void: {why}. A policy may explain it: message_ttl_ms is 500, ")
    assert Verdict.HARNESS_ERROR == rule("AMQP-ACC-02", EVERY, [None] * 3, void=why).verdict


def test_policies_that_could_not_be_read_excuse_an_absence():
    """The external broker refuses the request: it is not accused of a loss, and does not pass."""
    unread = msgspec.structs.replace(RUN, launcher="external", policies_unread="GET /queues: no path X.")
    row = rule("SOLCD-ACK-01", KILL, [facts(offends=LOST)] * 3, run=unread)

    assert Verdict.INCONCLUSIVE == row.verdict
    assert "the policies of the queues could not be read (GET /queues: no path X)." in row.reason
    assert (
        Verdict.VIOLATED == rule("EMS-STEP-02", AUTO, [facts(offends={"unanswered_send": 1})] * 3, run=unread).verdict
    )


def test_a_redelivery_delay_that_no_drain_waits_for_is_named():
    slow = with_policy(redelivery_delay_ms=600_000)
    row = rule("SOLCD-ACK-01", KILL, [facts(was_settled=False)] * 3, BROKEN, run=slow)

    assert Verdict.INCONCLUSIVE == row.verdict
    assert "(redelivery_delay_ms is 600,000, and the suite waits for 30,000 at most)" in row.reason
    short = rule(
        "SOLCD-ACK-01", KILL, [facts(was_settled=False)] * 3, BROKEN, run=with_policy(redelivery_delay_ms=30_000)
    )
    assert "not drained to silence in 3 of 3 kills. Seen: " in short.reason


@pytest.mark.parametrize(
    ("name", "syncs", "required", "expected"),
    [
        ("power-lost-while-publishing", True, (), False),
        ("power-lost-while-publishing", False, (), True),
        ("power-lost-while-publishing", False, ("EXPECT-SYNC-01",), False),
        ("broker-killed-while-publishing", False, (), False),
    ],
)
def test_what_no_claim_says_is_synced_is_given_up(name, syncs, required, expected):
    """Unless the user requires it; a kill takes nothing from the page cache."""
    settings = {**RUN.settings, "sync_non_transactional": syncs, "sync_transactional": syncs}
    run = msgspec.structs.replace(RUN, settings=settings, required=required)

    assert expected == applicable.gives_up(SCENARIOS[name], CATALOGUE, run)
