"""Standing checks: one row a claim, over the trials of every scenario that can show the offence."""

import dataclasses

import msgspec
import pytest
from judge_evidence import CATALOGUE, SCENARIOS, everywhere, facts
from judge_histories import RUN, record

from conformance.campaign import repeats
from conformance.claims import Kind
from conformance.judge import applicable, rules
from conformance.judge.anomalies import EVERYWHERE
from conformance.judge.rows import Judgement, Verdict
from conformance.scenario.script import SETTLE, Consume, Publish, Together

OWN = {"every_trial": [facts()] * 3}
LOSES = {"liar_loses-half-a-prefetch": [facts(offends={"lost": 2})]}
TWICE = {"liar_stores-every-hundredth-twice": [facts(offends={"delivered_twice": 3})]}


def rows_of(claim, evidence):
    rows = rules.rows(CATALOGUE, SCENARIOS, evidence, {})
    return [row for row in rows if (row.claim, row.scenario) == (claim, "every-trial")]


def row_of(claim, **arms):
    (row,) = rows_of(claim, everywhere(**arms))
    return row


def test_one_row_over_all_scenarios():
    row = row_of("EMS-STEP-04", **OWN, consumer_killed_under_auto=[facts()] * 2, **LOSES)

    assert (Verdict.HOLDS, 5, True, ()) == (row.verdict, row.trials, row.standing, row.repeated_by)
    assert "none" == row.fault
    assert "Judged in the trials of 2 scenarios; 5 of these trials had a fault." in row.reason


@pytest.mark.parametrize(("offends", "verdict"), [({}, Verdict.HOLDS), ({"two_owners": 2}, Verdict.VIOLATED)])
def test_a_message_of_two_owners_is_looked_for_in_every_trial(offends, verdict):
    """A scenario with one consumer at a time exposes nothing, and is left out."""
    alone, lies = facts(exposed=0), {"liar_gives-a-message-to-two-consumers": [facts(offends={"two_owners": 20})]}
    trials = {"two_consumers_of_one_queue": [facts(), facts(), facts(offends=offends)], "every_trial": [alone]}
    found = rules.rows(CATALOGUE, SCENARIOS, everywhere(lies_in="two-consumers-of-one-queue", **trials, **lies), {})
    (row,) = [row for row in found if row.claim == "AMQP-ACQ-01"]

    assert (verdict, 3, 1) == (row.verdict, row.trials, row.control.failed), row.reason


ELSEWHERE = [
    # (claim, anomaly, the scenario in which it was seen, and how often it is judged there)
    ("AMQP-ACC-01", "delivered_after_acknowledgement", "deliveries-refused", 1),
    ("AMQP-TX-01", "available_early", "messages-acknowledged-in-transactions", 1),
    ("AMQP-SETTLE-02", "gone", "broker-killed-while-publishing", 0),  # a kill is not one of its faults
    ("EXPECT-TWICE-01", "returned_after_close", "deliveries-refused", 1),
    ("AMQP-ACC-01", "delivered_after_acknowledgement", "every-trial", 1),
    ("EXPECT-SYNC-01", "given_back_nowhere", "deliveries-refused", 0),  # no fault there: it says nothing of the disk
]


@pytest.mark.parametrize(("claim", "anomaly", "scenario", "times"), ELSEWHERE)
def test_a_claim_is_judged_in_every_trial_that_fits_it(claim, anomaly, scenario, times):
    """Also where its check is none of the scenario's; a trial in which nothing was seen gives no row."""
    name = scenario.replace("-", "_")
    run = msgspec.structs.replace(RUN, capabilities=(*RUN.capabilities, "transactions", "transactional_acks", "nack"))
    for offends, rows in (({anomaly: 2}, times), ({}, 0)):
        evidence = dataclasses.replace(everywhere(**{name: [facts(offends=offends)] * 3}), run=run)
        found = rules.rows(CATALOGUE, SCENARIOS, evidence, {})
        (*shown,) = [row for row in found if (row.claim, row.scenario, row.anomaly) == (claim, scenario, anomaly)]

        assert [Verdict.VIOLATED] * rows == [row.verdict for row in shown]


def test_a_violation_names_its_trial_and_its_scenario_repeats_it():
    bad = facts(offends={"lost": 2}, applies=4)
    evidence = everywhere(**OWN, consumer_killed_under_individual=[facts(), bad], **LOSES)
    (row,) = rows_of("EMS-STEP-04", evidence)
    judged = Judgement(run=RUN, rows=(row,), self_checks=(), trials=tuple(evidence.trials))

    assert (Verdict.VIOLATED, 1) == (row.verdict, row.offended)
    assert "consumer-killed-under-individual.2" == row.witnesses[0].trial
    assert "--scenario consumer-killed-under-individual --trial 2" in row.replay
    assert ["consumer-killed-under-individual"] == repeats.needs_repeats(judged)
    assert [] == repeats.needs_repeats(judged, {"consumer-killed-under-individual": 2})


@pytest.mark.parametrize(
    ("claim", "scenario", "judged"),
    [
        ("EMS-STEP-04", "consumer-killed-under-auto", True),
        ("EMS-STEP-04", "broker-killed-while-publishing", False),  # a kill is another claim's matter
        ("EMS-STEP-04", "consumer-killed-under-no-ack", False),  # what was sent settled may be lost
        ("AMQP-ACC-02", "broker-killed-after-acknowledgements", True),
        ("AMQP-ACC-02", "power-lost-while-publishing", False),
        ("EXPECT-TWICE-01", "listener-killed-under-dups-ok", False),
        ("EXPECT-TWICE-01", "deliveries-refused", False),
        ("EXPECT-TWICE-01", "broker-killed-after-acknowledgements", False),  # a document says so, where one can
        ("AMQP-ACC-02", "transaction-sent-again", False),  # its publisher sends it again
        ("EXPECT-ORDER-01", "broker-killed-while-publishing", True),
        ("JMS-ORDER-01", "broker-killed-while-publishing", True),
        ("JMS-ORDER-01", "two-consumers-of-one-queue", False),  # what one of them had prefetched goes to the other
        ("JMS-ORDER-01", "receivers-of-one-connection", False),
        ("JMS-ORDER-01", "receivers-of-two-queues", False),
        ("JMS-ORDER-01", "broker-killed-among-queues", False),  # its queues are received one after the other
        ("AMQP-ACC-02", "two-consumers-of-one-queue", True),
        ("JMS-ACK-01", "broker-killed-while-publishing", True),
    ],
)
def test_which_trials_are_judged(claim, scenario, judged):
    """Scenarios with faults that the claim names, in which the client itself does not cause the anomaly."""
    check = SCENARIOS["every-trial"].decides[claim]
    about = record(f"{scenario}.1", scenario)

    assert judged == applicable.judges(CATALOGUE.claims[claim], check.anomaly, SCENARIOS[scenario], about, RUN)


def plain(*steps, **changes):
    """A script without a fault, in which the client causes no anomaly; these steps may replace its own."""
    own = (Publish(9, window=3), Consume("individual", stop=9, queues=2, receivers=2))
    steps = steps or (*own, Together(own), *SETTLE)
    return dataclasses.replace(SCENARIOS["every-trial"], steps=steps, **changes)


@pytest.mark.parametrize(
    ("anomaly", "script"),
    [
        ("lost", plain(queue=(("durable", False),))),
        ("lost", plain(queue=(("undeclared", True),))),
        ("lost", plain(settings=(("message_ttl_ms", 500),))),
        ("lost", plain(Consume("no_ack"))),
        ("lost", plain(Consume("pre"))),
        ("delivered_twice", plain(Publish(9, window=3, batch=3, resends=True))),
        ("delivered_twice", plain(Consume("individual", refuse=("released",)))),
        ("delivered_twice", plain(Consume("transacted", rollback_every=2))),
        ("delivered_twice", plain(Consume("dups_ok"))),
        ("delivered_twice", plain(Consume("individual_dups_ok"))),
        ("overtaken", plain(Publish(9, window=3, durable=False))),
        ("overtaken", plain(Publish(9, window=3, queues=2))),
        ("overtaken", plain(Publish(9, window=3, resends=True, exactly_once=True))),
        ("overtaken", plain(Consume("individual", refuse=("released",)))),
        ("overtaken", plain(Consume("individual", receivers=2))),
        ("overtaken", plain(Together((Consume("individual"), Consume("individual"))))),
    ],
)
def test_what_the_script_itself_may_cause(anomaly, script):
    """A control has the setting off, and is never judged."""
    claim, about = CATALOGUE.claims["EMS-STEP-04"], record("t", script.id)

    assert not applicable.judges(claim, anomaly, script, about, RUN)
    assert applicable.judges(claim, anomaly, plain(), about, RUN)
    assert applicable.judges(claim, "corrupt", script, about, RUN)
    assert not applicable.judges(claim, "corrupt", plain(Publish(9, window=3, priority=7)), about, RUN)
    assert not applicable.judges(claim, anomaly, plain(), record("t", script.id, "control", "off"), RUN)


@pytest.mark.parametrize(
    ("changes", "judged"),
    [
        ({"faults": ("consumer_crash",)}, True),
        ({"faults": ("consumer_crash", "kill")}, True),
        ({"faults": ("kill",)}, False),
        ({"when": {"page_size": "absent"}}, True),
        ({"when": {"journal_buffer_ms": "absent"}}, False),
    ],
)
def test_what_a_claim_asks_of_a_trial(changes, judged):
    item = SCENARIOS["consumer-killed-under-auto"]
    claim = msgspec.structs.replace(CATALOGUE.claims["EMS-STEP-04"], **changes)
    run = msgspec.structs.replace(RUN, absent=("page_size",))

    assert judged == applicable.judges(claim, "lost", item, record("t", item.id), run)


@pytest.mark.parametrize(("protocol", "judged"), [("amqp", True), ("jms", False)])
def test_a_vendors_client_is_not_accused_of_a_loss_by_a_cut(protocol, judged):
    """Its send may return although the broken link lost its bytes."""
    cut = SCENARIOS["cut-before-acknowledgement"]
    about, run = record(f"{cut.id}.1", cut.id), msgspec.structs.replace(RUN, protocol=protocol)

    assert judged == applicable.judges(CATALOGUE.claims["EMS-STEP-04"], "lost", cut, about, run)


@pytest.mark.parametrize(
    ("protocol", "vendor", "judged"),
    [
        ("amqp", "", {"EXPECT-ORDER-01", "EXPECT-TWICE-01", "AMQP-ACC-02"}),
        ("stomp", "", {"EXPECT-ORDER-01", "EXPECT-TWICE-01", "STOMP-ACK-05"}),
        ("jms", "artemis-jms", {"JMS-ORDER-01", "JMS-ACK-01"}),
        ("amqp091", "", {"EXPECT-ORDER-01", "EXPECT-TWICE-01", "AMQP091-ORDER-01"}),
        (
            "amqp091",
            "qpid-amqp091",
            {"EXPECT-ORDER-01", "EXPECT-TWICE-01", "AMQP091-ORDER-01", "JMS-ORDER-01", "JMS-ACK-01"},
        ),
    ],
)
def test_order_and_acknowledgement_bind_by_a_document_where_one_speaks(protocol, vendor, judged):
    """JMS 2.0 promises both (6.2.9, 6.2.11): through a JMS client they are claims."""
    run = msgspec.structs.replace(RUN, protocol=protocol, vendor=vendor, adapter="artemis", profiles=("artemis",))
    anomalies = ("overtaken", "delivered_twice", "drained_twice")
    decides = SCENARIOS["every-trial"].decides
    found = {claim for claim in decides if decides[claim].anomaly in anomalies}

    assert judged == {claim for claim in found if not applicable.why_not(CATALOGUE.claims[claim], run)}


@pytest.mark.parametrize(
    ("able", "settings", "judged"),
    [
        (("core_client",), {"block_on_acknowledge": True}, True),
        (("core_client",), {"block_on_acknowledge": False}, False),
        ((), {}, False),
    ],
)
def test_a_client_that_does_not_wait_for_the_broker_is_not_accused_after_a_kill(able, settings, judged):
    """Its acknowledge() returns before the broker has read it."""
    run = msgspec.structs.replace(
        RUN, protocol="jms", settings=RUN.settings | settings, capabilities=(*RUN.capabilities, *able)
    )

    assert judged == (not applicable.why_not(CATALOGUE.claims["JMS-ACK-02"], run))


def test_an_order_that_is_violated_over_jms_is_a_violation():
    run = msgspec.structs.replace(RUN, protocol="jms", client="Apache Qpid JMS")
    bad = facts(offends={"overtaken": 1})

    assert Verdict.VIOLATED == row_of("JMS-ORDER-01", run=run, every_trial=[facts(), facts(), bad]).verdict


def test_what_was_not_selected_says_so():
    run = msgspec.structs.replace(RUN, selected=("STOMP-ACK-02",))
    shown = {row.claim: row for row in rules.rows(CATALOGUE, SCENARIOS, everywhere(run, **OWN, **TWICE), {})}
    found = {(shown[claim].verdict, shown[claim].reason) for claim in ("AMQP-ACC-02", "EXPECT-SENT-01", "EMS-STEP-02")}

    assert {(Verdict.NOT_TRIED, "Left out by the selection.")} == found


def test_settings_of_a_trial_that_give_the_claim_up_are_left_out():
    item = SCENARIOS["broker-killed-after-acknowledgements"]
    weak = record("t", item.id)
    weak = msgspec.structs.replace(weak, settings={"sync_acknowledgements": False})

    assert not applicable.judges(CATALOGUE.claims["AMQP-ACC-02"], "delivered_twice", item, weak, RUN)


def test_without_its_own_trials_it_was_not_tried():
    """Its control fails there, so a run without that scenario shows nothing."""
    assert Verdict.NOT_TRIED == row_of("AMQP-ACC-02", consumer_killed_under_auto=[facts()] * 3).verdict


def test_without_its_own_trials_an_offence_is_a_violation():
    bad = facts(offends={"delivered_twice": 1})

    assert Verdict.VIOLATED == row_of("AMQP-ACC-02", consumer_killed_under_auto=[bad, facts()]).verdict


def test_an_offence_counts_before_the_queue_is_settled_and_not_where_it_proves_nothing():
    bad = facts(offends={"lost": 2}, was_settled=False)
    row = row_of("EMS-STEP-04", **OWN, consumer_killed_under_auto=[bad], **LOSES)
    excused = row_of("EMS-STEP-04", **OWN, consumer_killed_under_no_ack=[bad], **LOSES)

    assert (Verdict.VIOLATED, 4, 1) == (row.verdict, row.trials, row.offended)
    assert (Verdict.HOLDS, 3, 0) == (excused.verdict, excused.trials, excused.offended)


def test_an_expectation_is_observed():
    bad = facts(offends={"overtaken": 1})
    row = row_of("EXPECT-ORDER-01", every_trial=[facts(), facts(), bad])
    required = row_of(
        "EXPECT-ORDER-01", run=msgspec.structs.replace(RUN, required=("EXPECT-ORDER-01",)), every_trial=[facts(), bad]
    )

    assert (Verdict.OBSERVED, Verdict.VIOLATED) == (row.verdict, required.verdict)


def test_trials_that_show_nothing_are_left_out():
    """Nothing applied; and one whose script has no two drains at its end is never settled."""
    silent, open_ = facts(applies=0), facts(was_settled=False)
    row = row_of(
        "AMQP-ACC-02", **OWN, consumer_killed_under_auto=[silent], every_send_of_a_window_answered=[open_], **TWICE
    )

    assert (Verdict.HOLDS, 3) == (row.verdict, row.trials)


@pytest.mark.parametrize(
    ("scenario", "verdict", "trials"),
    [
        ("messages_sent_over_another_protocol", Verdict.HOLDS, 3),
        ("every_send_of_a_window_answered", Verdict.INCONCLUSIVE, 4),
    ],
)
def test_messages_that_two_protocols_altered_are_no_doubt_about_other_claims(scenario, verdict, trials):
    """What becomes of a body on its way from one to the other is judged by claims of its own."""
    altered = facts(offends={"corrupt": 120})
    row = row_of("EXPECT-TWICE-01", **OWN, **{scenario: [altered]}, **TWICE)

    assert (verdict, trials) == (row.verdict, row.trials)


def test_a_trial_that_a_standing_check_could_not_use_is_a_doubt():
    """In four of five trials the queue was stuck: what their queues hold is unknown."""
    open_ = [facts(applies=0, was_settled=False, was_stuck=True)] * 4
    row = row_of("EMS-STEP-04", every_trial=[facts()], consumer_killed_under_individual=open_, **LOSES)

    assert (Verdict.INCONCLUSIVE, 5) == (row.verdict, row.trials)
    assert "The queue was not drained to silence in 4 of 5 trials (its depth stayed above zero)." in row.reason


def test_a_trial_that_the_broker_voided_is_a_doubt_for_a_standing_check():
    evidence = everywhere(**OWN, consumer_killed_under_individual=[facts()], **LOSES)
    gone = record("gone.1", "consumer-killed-under-individual", void="the broker refused it", void_by_broker=True)
    (row,) = rows_of("EMS-STEP-04", dataclasses.replace(evidence, trials=[*evidence.trials, gone]))

    assert (Verdict.INCONCLUSIVE, 4, 1) == (row.verdict, row.trials, row.void)
    assert row.reason.startswith("1 trial was void because of the broker: the broker refused it.")


ENDED = facts(offends={"not_alive": 50}, not_alive="not alive: died by itself (status -11)", was_settled=False)
ENDS = {"liar_ends-at-a-send": [facts(offends={"not_alive": 150}, not_alive="not alive: died by itself (status 1)")]}


@pytest.mark.parametrize(("times", "verdict"), [(0, Verdict.HOLDS), (1, Verdict.INCONCLUSIVE), (2, Verdict.VIOLATED)])
def test_a_broker_that_ends_by_itself(times, verdict):
    """Once may be chance; twice, in any scenarios, is the broker."""
    trials = {"deliveries_refused": [facts(), ENDED][-times:] if times else [facts()]}
    trials["every_trial"] = [facts(), facts(), *[ENDED] * (times > 1)]
    row = row_of("EXPECT-ALIVE-01", **trials, **ENDS)

    assert (verdict, times) == (row.verdict, row.offended), row.reason
    assert ("Not alive: died by itself (status -11)." in row.reason) == bool(times)


def test_a_broker_that_ends_by_itself_is_judged_although_it_was_not_selected():
    run = msgspec.structs.replace(RUN, selected=("STOMP-ACK-02",))
    rows = rows_of("EXPECT-ALIVE-01", everywhere(run, deliveries_refused=[ENDED] * 2, every_trial=[facts()], **ENDS))

    assert [(Verdict.VIOLATED, ("deliveries-refused",))] == [(row.verdict, row.repeated_by) for row in rows]


def faults_of(item):
    """The faults of a scenario; `none` too if the broker lives through each of them."""
    lives = {"none"} if all(fault.spares_broker for fault in item.faults) else set()
    return lives | {name for fault in item.faults for name in fault.names}


def judged_beside(item, claim):
    """Whether the trials of a scenario are judged by a claim that it does not decide.

    By a standing check, or by the table of fates. A scenario of a vendor's client is not played over AMQP or STOMP.
    """
    standing = {
        each.decides[claim.id].anomaly for each in SCENARIOS.values() if each.standing and claim.id in each.decides
    }
    by_fate = {*claim.checks} & {*EVERYWHERE} if claim.kind is Kind.SAFETY and not item.other_than(claim) else set()
    surfaces = {surface for other in item.decides for surface in CATALOGUE.claims[other].surfaces}
    counts = [name for name in standing | by_fate if not applicable._EXCUSED.get(name, lambda _: False)(item)]
    return bool(counts) and faults_of(item) <= {*claim.faults, "none"} and bool({*claim.surfaces} & surfaces)


def test_each_fault_of_a_claim_is_played():
    """A fault that a claim lists is one of a scenario that decides it, or whose trials are judged by it as well."""
    missing = {}
    for claim in filter(lambda claim: claim.checks, CATALOGUE.claims.values()):
        deciding = [item for item in SCENARIOS.values() if claim.id in item.decides or judged_beside(item, claim)]
        if unplayed := {*claim.faults}.difference(*map(faults_of, deciding)):
            missing[claim.id] = unplayed

    assert missing == {}
