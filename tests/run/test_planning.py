"""The plan: the same seed gives the same trials, and every check has its control."""

import collections
import dataclasses
import itertools
import os
import pathlib
import re
import subprocess
import sys

import msgspec
import pytest
from planned_trials import CATALOGUE, SCENARIOS, WIRES, selection

from conformance import campaign, scenario
from conformance.campaign import options
from conformance.clients.job import LIVENESS_S
from conformance.judge.anomalies import ANOMALIES
from conformance.run import planning
from conformance.run.planning import (
    TIMED,
    arm_label,
    measures_time,
    plan,
    subject_trials,
    wanted_checks,
)
from conformance.run.trial.described import describe
from conformance.scenario import Check, Liar, Scenario, needs
from conformance.scenario.script import (
    SETTLE,
    After,
    All,
    Consume,
    Delay,
    FailedSync,
    HeldSync,
    Kill,
    Nth,
    OneOf,
    PowerLoss,
    Publish,
    Restart,
    waits_for_answered_ack,
)

EVERYWHERE = pytest.mark.parametrize(("adapter", "protocol"), WIRES)
WEAK, LIAR = scenario.weakened(persistence=False), Liar("counts-from-one")
SHORT = (Publish(10, window=5), *SETTLE)
PATIENT = Liar("never-answers-one-send", trials=3, waits_for_liveness=True)


WITHOUT_LIARS = [
    item.id
    for item in SCENARIOS.values()
    if not {"SOLCD-ACK-01", "AMQP-DUR-01"} & {c for c, check in item.decides.items() if isinstance(check.control, Liar)}
]
"""Scenarios in which no liar is the control of a claim about stored messages."""


def planned(*patterns, **options):
    return plan(selection(*patterns, **options), SCENARIOS, CATALOGUE)


def chosen_by(overrides, *patterns):
    """A selection on the reference broker with settings that choose its variant or its liar."""
    chosen = selection(*patterns)
    adapter = chosen.adapter.chosen(overrides)
    return dataclasses.replace(chosen, adapter=adapter, settings=adapter.effective(overrides), overrides=overrides)


def test_what_stores_everything_is_proven_by_liars_alone():
    """A classic queue of RabbitMQ can be weakened, a quorum queue cannot."""

    def controls(queue_type):
        asked = planned(
            "SOLCD-ACK-01",
            "AMQP-DUR-01",
            adapter="rabbitmq",
            overrides={"queue_type": queue_type},
            only=WITHOUT_LIARS,
        )
        return {(trial.control, trial.adapter.name) for trial in asked if trial.arm == "control"}

    assert ("persistence=false", "rabbitmq") in controls("classic")
    assert controls("quorum") == {
        ("liar loses-the-oldest", "reference"),
        ("liar treats-persistent-as-non-persistent", "reference"),
    }


@pytest.mark.parametrize(
    ("adapter", "protocol", "tried"),
    [
        ("reference", "amqp", {"EXPECT-SYNC-01", "EXPECT-SYNC-02", "EXPECT-SYNC-03"}),
        ("activemq", "stomp", {"EXPECT-SYNC-01", "EXPECT-SYNC-02", "EXPECT-SYNC-03"}),
        ("qpid", "amqp", {"EXPECT-SYNC-01", "EXPECT-SYNC-02", "EXPECT-SYNC-03"}),
        ("rabbitmq", "amqp", {"EXPECT-SYNC-01"}),
        ("ems", "jms", set()),
    ],
)
def test_a_sync_is_tried_where_it_is_documented(adapter, protocol, tried):
    asked = selection("EXPECT-SYNC-*", adapter=adapter, protocol=protocol)

    assert {name for item in SCENARIOS.values() for name in wanted_checks(item, asked)} == tried


@pytest.mark.parametrize(
    ("adapter", "protocol", "tried"),
    [
        ("rabbitmq@3.10.8:docker", "amqp", "DUR-01 DUR-02 ORDER-01 QQ-02 REQ-02"),
        ("rabbitmq@4.0.5:docker", "amqp", "AMQP-01 AMQP-02 AMQP-03 DUR-01 QQ-02"),
        (
            "rabbitmq@4.0.5:docker",
            "stomp",
            "AUTO-01 CONF-01 DUR-01 DUR-02 PRE-01 QQ-01 QQ-02 REDEL-01 REQ-01 STOMP-01 STOMP-02 STOMP-03",
        ),
        ("activemq", "amqp", ""),
    ],
)
def test_a_sentence_binds_its_product_version_and_protocol(adapter, protocol, tried):
    asked = selection("RMQ-*", adapter=adapter, protocol=protocol)
    found = {name for item in SCENARIOS.values() for name in wanted_checks(item, asked)}

    assert {f"RMQ-{word}" for word in tried.split()} == found


def test_a_broker_that_can_only_store_nothing_is_no_control_of_its_syncs():
    """RabbitMQ: its syncs follow `persistence`. A kill takes what was not stored, and says so of no sync."""
    asked = selection("EXPECT-SYNC-01", "SOLCD-ACK-01", adapter="rabbitmq")
    controls = {trial.control: trial.adapter.name for trial in plan(asked, SCENARIOS, CATALOGUE) if trial.control}

    assert asked.weakens & {"persistence", "sync_non_transactional", "sync_transactional"} == {"persistence"}
    assert controls["persistence=false"] == "rabbitmq"
    assert controls["liar never-syncs-confirms"] == controls["liar confirms-before-sync"] == "reference"
    assert not any("sync_non_transactional" in control for control in controls)


def test_a_store_without_a_buffer_is_proven_by_what_a_kill_takes_from_it():
    """Broker-J with Derby writes before it answers: without syncs a kill loses nothing, and a power loss does."""

    def controls(store, claim):
        asked = planned(claim, adapter="qpid", overrides={"store": store}, judged_as=["artemis"], only=WITHOUT_LIARS)
        played = [trial for trial in asked if trial.arm == "control"]
        return [{**trial.settings.changed, "liar": trial.liar, "store": store} for trial in played]

    stores = {"store": "DERBY", "persistence": False, "liar": None}
    lies = {"store": "DERBY", "liar": "loses-the-oldest"}
    off = {"liar": None, "sync_transactional": False}

    assert {"store": "BDB", "journal_buffer_ms": 500, **off} in controls("BDB", "ARTEMIS-TX-03")
    assert {"store": "DERBY", **off} in controls("DERBY", "ARTEMIS-TX-03")
    assert all(control in (stores, lies) for control in controls("DERBY", "SOLCD-ACK-01"))


PLANNED = """
import sys, msgspec
from planned_trials import CATALOGUE, SCENARIOS, selection
from conformance.run import planning
from conformance.run.trial import player
plan = planning.plan(selection(adapter="artemis", seed=1), SCENARIOS, CATALOGUE)
sys.stdout.buffer.write(msgspec.json.encode([(each.queue, player.describe(each)) for each in plan]))
"""


def test_same_seed_same_trials():
    assert planned(seed=1) == planned(seed=1)
    assert [trial.k for trial in planned(seed=1)] != [trial.k for trial in planned(seed=2)]


@pytest.mark.process
def test_same_seed_same_trials_in_another_process():
    """It has other hashes of strings, so its sets have another order."""
    path = os.pathsep.join([str(pathlib.Path(__file__).parent), *filter(None, sys.path)])
    one, other = (
        subprocess.run(
            [sys.executable, "-c", PLANNED],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": hashes},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for hashes in ("1", "2")
    )

    assert len(msgspec.json.decode(one)) > 100
    assert one == other


def test_ids_are_unique():
    trials = planned()

    assert len(trials) == len({trial.id for trial in trials}) == len({trial.queue for trial in trials})


@pytest.mark.parametrize(
    ("adapter", "protocol", "expected"),
    [
        ("artemis", "amqp", {"page", "1000000"}),
        ("qpid", "amqp", {"page", "1000000"}),
        ("openmq", "stomp", {"refuse", "-1"}),
    ],
)
def test_a_broker_that_cannot_page_is_asked_for_no_small_memory(adapter, protocol, expected):
    """It would refuse what the script fills its queue with."""
    asked = selection(adapter=adapter, protocol=protocol, only=frozenset({"broker-killed-when-paging-begins"}))
    found = {
        trial.settings.values[name]
        for trial in plan(asked, SCENARIOS, CATALOGUE)
        if trial.arm == "subject"
        for name in ("full_queue_policy", "queue_memory_bytes")
    }

    assert expected == found


def test_trials_of_one_broker_follow_each_other():
    groups = [instance for instance, _ in itertools.groupby(trial.instance for trial in planned(adapter="artemis"))]

    assert len(groups) == len(set(groups))


def test_selection_leaves_out_what_is_not_needed():
    trials = planned("SOLCD-TX-02", only=WITHOUT_LIARS)

    assert {"broker-killed-after-commit", "messages-sent-in-transactions"} == {trial.script.id for trial in trials}
    assert ["control"] * 6 + ["subject"] * 6 == sorted(trial.arm for trial in trials)


@pytest.mark.parametrize(("buffer_ms", "own"), [(500, True), (60_000, True), (499, False)])
def test_weakened_subject_is_its_own_control(buffer_ms, own):
    """Unless its loss window is narrower than that of the control."""
    weak = {**dict(scenario.SYNC_OFF.settings), "journal_buffer_ms": buffer_ms}
    trials = planned("SOLCD-ACK-01", overrides=weak, required=["SOLCD-ACK-01"], only=WITHOUT_LIARS)

    assert {"", "persistence=false"} | (set() if own else {scenario.SYNC_OFF.label}) == {
        trial.control for trial in trials
    }


def test_a_liar_lies_over_the_protocol_of_the_broker_on_trial():
    """The bundled broker speaks AMQP 0-9-1 too: the controls of RabbitMQ's trials need no other protocol."""
    planned = plan(selection(adapter="rabbitmq", protocol="amqp091"), SCENARIOS, CATALOGUE)
    over = {trial.liar: trial.protocol for trial in planned if trial.liar}

    assert ("amqp091", "amqp091") == (over["ignores-prefetch"], over["ends-at-a-send"])
    assert {"amqp091"} == {trial.protocol for trial in planned if not trial.liar}


def test_liars_are_bundled_brokers():
    trials = [trial for trial in planned(adapter="artemis") if trial.liar]

    assert {"reference"} == {trial.adapter.name for trial in trials}
    assert {t.liar for t in trials if t.waits_for_liveness} == {
        "forgets-every-hundredth-acknowledgement",
        "ignores-what-comes-again",
        "never-answers-one-send",
        "skips-every-hundredth-delivery",
        "stuck-after-recovery",
    }


@pytest.mark.parametrize(
    ("claim", "options", "expected"),
    [
        ("STOMP-RCPT-01", {"protocol": "stomp"}, True),
        ("STOMP-RCPT-01", {"protocol": "amqp"}, False),
        ("AMQP-DUR-01", {"protocol": "stomp"}, False),
        ("EMS-STEP-06", {"protocol": "stomp"}, True),  # of a product's own client: over any, on the bundled broker
        ("STOMP-TX-02", {"protocol": "stomp"}, True),
        ("STOMP-TX-02", {"protocol": "stomp", "adapter": "artemis"}, False),  # it has no transactional_acks there
        ("QPID-PERS-02", {}, True),
        ("QPID-PERS-02", {"adapter": "artemis"}, False),
        ("QPID-PERS-02", {"adapter": "artemis", "judged_as": ["qpid"]}, True),
        ("QPID-PERS-02", {"adapter": "artemis", "judged_as": ["ems"]}, False),
        ("QPID-PERS-02", {"adapter": "artemis", "required": ["QPID-PERS-02"]}, True),
        ("STOMP-RCPT-01", {"required": ["STOMP-RCPT-01"]}, True),
        ("SOLPUB-WIN-01", {"adapter": "artemis"}, True),  # a check of ourselves binds no vendor
        ("SOLCD-ACK-01", {"overrides": {"sync_non_transactional": False}}, True),  # the permission beside it is seen
    ],
)
def test_what_could_be_decided_here(claim, options, expected):
    """By protocol, capability and vendor, unless the user requires the claim."""
    assert expected == selection(**options).applies(CATALOGUE.claim(claim))


@EVERYWHERE
def test_nothing_is_recorded_that_cannot_be_decided(adapter, protocol):
    """Every scenario of a plan decides a claim that applies, and every scenario with such a claim is there."""
    chosen = selection(adapter=adapter, protocol=protocol, thorough=True)
    applicable = {claim.id for claim in CATALOGUE.claims.values() if chosen.applies(claim)}
    expected = {name for name, script in SCENARIOS.items() if applicable & set(script.decides)}

    assert expected == {trial.script.id for trial in plan(chosen, SCENARIOS, CATALOGUE)}
    assert expected != set(SCENARIOS)


@pytest.mark.parametrize(
    ("expected", "step"),
    [
        (True, Restart(under=HeldSync())),
        (False, Publish(1, window=1, until=Delay(20))),
        (False, Publish(1, window=1, every_ms=50)),
        (True, Consume("pre", work_ms=200, linked=True)),
        (False, Consume("pre", work_ms=200)),
        (False, Restart(under=FailedSync(3))),
        (False, Publish(1, window=1, until=Kill(Nth("confirm", 1)))),
        (False, Publish(1, window=1, until=PowerLoss(Nth("confirm", 1)))),
    ],
)
def test_which_steps_measure_time(expected, step):
    assert expected is measures_time(Scenario("odd", "", "async_ack", (step, *SETTLE), {}))


def test_which_checks_measure_time():
    """Also those of an author who says so. A trial that waits for the liveness bound needs no quiet."""
    timed = Scenario("odd", "", "async_ack", SHORT, {"SOLPUB-THR-02": Check("answered_late", exposure="less_sent")})

    assert measures_time(timed)
    assert measures_time(Scenario("odd", "", "async_ack", SHORT, {}, timing=True))
    assert not measures_time(Scenario("odd", "", "async_ack", SHORT, {}))
    late = plan(chosen_by({"profile": "solace"}, "SOLPUB-THR-02"), SCENARIOS, CATALOGUE)
    assert {True, False} == {trial.alone for trial in late}
    assert all(trial.alone != trial.waits_for_liveness for trial in late)


def test_every_anomaly_about_durations_is_timed():
    """It subtracts two times, and does not compare the difference with the liveness bound; or its figures are rates."""
    bound = f">= {int(LIVENESS_S * 1e9)}L"
    durations = {
        name
        for name, each in ANOMALIES.items()
        if re.search(r"_at - \w", text := f"{each.applies} {each.offends}") and bound not in text
    }
    rates = {name for name, each in ANOMALIES.items() for _, figure in each.figures if re.search(r"\brate\b", figure)}

    assert durations | rates == TIMED


THOROUGH = {item.id for item in SCENARIOS.values() if item.thorough}


def test_what_others_stand_for_is_played_thoroughly():
    """Each of its claims is tried all the same. A run says what it left out, and a replay plays what it names."""
    some, all_ = selection(), selection(thorough=True)
    played = [{each.script.id for each in plan(one, SCENARIOS, CATALOGUE)} for one in (some, all_)]
    tried = [{claim for name in names for claim in wanted_checks(SCENARIOS[name], all_)} for names in played]
    named = selection(only=["power-lost-with-torn-writes"])

    assert played[1] - played[0] == THOROUGH == set(planning.left_to_thorough(some, SCENARIOS))
    assert tried[0] == tried[1]
    assert () == planning.left_to_thorough(all_, SCENARIOS) == planning.left_to_thorough(named, SCENARIOS)
    assert {"power-lost-with-torn-writes"} == {each.script.id for each in plan(named, SCENARIOS, CATALOGUE)}


def test_a_budget_adds_faults_where_there_were_fewest():
    """A trial of many kills counts all of them; a script without a fault is not repeated."""
    many, one, none = "broker-killed-while-publishing", "broker-killed-after-quiet", "third-of-a-window-sent"
    asked = selection(only=[many, one, none])
    kills = len(subject_trials(asked, SCENARIOS[many], [1])[0].script.faults)
    more = planning.more_faults(asked, SCENARIOS, {one: 2}, seconds=600)
    added = collections.Counter(trial.script.id for trial in more)

    assert kills > 10
    assert {many, one} == set(added)
    assert abs(kills * (3 + added[many]) - (3 + 2 + added[one])) <= kills
    assert [6, 7, 8] == [trial.index for trial in more if trial.script.id == one][:3]
    assert {"subject"} == {trial.arm for trial in more}
    assert 1 == len(planning.more_faults(asked, SCENARIOS, {}, seconds=0.1))
    assert [] == planning.more_faults(selection(only=[none]), SCENARIOS, {}, seconds=9)


def test_only_some_scenarios():
    chosen = selection("SOLCD-ACK-01", only=["broker-stopped-while-publishing"])

    assert {} == wanted_checks(SCENARIOS["broker-killed-while-publishing"], chosen)
    assert ["SOLCD-ACK-01"] == list(wanted_checks(SCENARIOS["broker-stopped-while-publishing"], chosen))


def test_lanes():
    trials = planned("AMQP-DUR-01", "AMQP-HDR-01", "EMS-STEP-02", only=WITHOUT_LIARS)
    lanes = {trial.arm_label: trial.parallel_group for trial in trials if not trial.waits_for_liveness}
    waits_for_liveness = [trial for trial in trials if trial.waits_for_liveness]

    assert {"subject": "", "weakened": "", "liar counts-from-one": "liars"} == lanes
    assert len(waits_for_liveness) > 1
    assert [trial.id for trial in waits_for_liveness] == [trial.parallel_group for trial in waits_for_liveness]
    assert len(waits_for_liveness) == len({trial.instance for trial in waits_for_liveness})


@pytest.mark.parametrize(
    ("arm", "control", "expected"),
    [
        ("subject", "", "subject"),
        ("control", "persistence=false", "weakened"),
        ("control", "liar counts-from-one", "liar counts-from-one"),
        ("control", "session liar ignores-its-window", "session liar ignores-its-window"),
    ],
)
def test_arms_in_a_word(arm, control, expected):
    assert expected == arm_label(arm, control)


@pytest.mark.parametrize("name", SCENARIOS)
def test_drawn_numbers_are_fixed(name):
    drawn = SCENARIOS[name].drawn(3)

    assert drawn == dataclasses.replace(SCENARIOS[name].drawn(3), says=drawn.says)
    assert "Between(" not in repr(drawn.steps)


@pytest.mark.parametrize(
    ("profile", "claim", "expected"),
    [
        ("solace", "SOLPUB-THR-01", True),
        ("standard", "SOLPUB-THR-01", False),
        ("ems", "SOLPUB-THR-01", False),
        ("ems", "EMS-EXPL-01", True),
        ("solace", "EMS-EXPL-01", False),
        ("solace", "AMQP-DUR-01", True),  # a variant takes nothing away
        ("solace", "ARTEMIS-SEND-09", True),
    ],
)
def test_a_variant_is_bound_by_its_document(profile, claim, expected):
    assert expected == chosen_by({"profile": profile}).applies(CATALOGUE.claim(claim))


def test_a_liar_lies_in_the_variant_of_its_claim():
    trials = plan(chosen_by({"profile": "solace"}, "SOLPUB-THR-02"), SCENARIOS, CATALOGUE)
    liars = [trial for trial in trials if trial.liar]

    assert {("confirms-by-threshold-only", True, "solace")} == {
        (trial.liar, trial.waits_for_liveness, trial.settings.values["profile"]) for trial in liars
    }
    assert 3 == len(liars)
    assert all("ranged_confirms" in trial.adapter.capabilities("amqp") for trial in trials)


def test_a_run_of_a_liar_keeps_its_controls():
    lying = chosen_by({"liar": "counts-releases"}, "AMQP-REL-01")
    trials = plan(lying, SCENARIOS, CATALOGUE)

    assert {("subject", None, "counts-releases"), ("control", "drops-released", "")} == {
        (trial.arm, trial.liar, trial.settings.values["liar"]) for trial in trials
    }


def test_conditions_are_met_by_the_session_of_the_script():
    immediate, third = (SCENARIOS[name] for name in ("acknowledged-immediately", "third-of-a-window-sent"))

    assert {"ack_event_mode": "windowed", "publish_window": 50, "ack_immediately": True} == immediate.session
    assert {"ack_event_mode": "windowed", "publish_window": 50, "ack_immediately": False} == third.session
    assert {} == SCENARIOS["messages-sent-in-transactions"].session
    controls = {
        trial.liar
        for trial in plan(chosen_by({"profile": "solace"}, "SOLPUB-IMM-01", "SOLPUB-THR-01"), SCENARIOS, CATALOGUE)
    }
    assert {None, "ignores-ack-immediately", "confirms-by-timer-only"} == controls


def test_what_the_adapter_has_no_words_for_is_not_planned():
    script = SCENARIOS["sends-refused-by-full-queue"]
    chosen = selection("AMQP-REF-01")
    lacking = dataclasses.replace(chosen, unable={"a queue with max_length": "no words for one"})

    assert ["a queue with max_length"] == [need.name for need in script.needs]
    assert (needs.SETTINGS,) == SCENARIOS["thresholds-offered-as-settings"].needs
    assert (["AMQP-REF-01"], []) == (list(wanted_checks(script, chosen)), list(wanted_checks(script, lacking)))


def able(chosen, changes=(), of="", **more):
    """Find what can be tried if a protocol of the broker's file, that of the run, and the file itself are changed so."""
    file, of = chosen.adapter.file, of or chosen.protocol
    over = file.protocols[of].model_copy(update=dict(changes))
    changed = file.model_copy(update={"protocols": {**file.protocols, of: over}, **more})
    return options._able(
        dataclasses.replace(chosen, adapter=dataclasses.replace(chosen.adapter, file=changed)), SCENARIOS
    )


@pytest.mark.parametrize(("protocol", "tried"), [("amqp", False), ("stomp", True)])
def test_an_outcome_that_the_broker_has_not_is_given_by_no_consumer(protocol, tried):
    """Over AMQP it would end the session; over STOMP each refusal is a NACK."""
    chosen = selection("AMQP-REL-01", "AMQP-MOD-01", "EMS-DUPS-05", "STOMP-NACK-01", protocol=protocol)
    found = able(chosen, {"outcomes": ("accepted", "released")}, of="amqp")
    modified = wanted_checks(SCENARIOS["deliveries-modified"], found)

    assert (needs.MODIFIED,) == SCENARIOS["deliveries-modified"].needs
    assert () == SCENARIOS["deliveries-refused"].needs
    assert (tried, True) == (bool(modified), bool(wanted_checks(SCENARIOS["deliveries-refused"], found)))
    assert ({} if tried else {needs.MODIFIED.name: "reference has only accepted, released over amqp"}) == found.unable
    assert needs.MODIFIED.name not in options._able(chosen, SCENARIOS).unable


@pytest.mark.parametrize(("headers", "tried"), [({}, False), ({"expires": "{expires_ms}"}, True)])
def test_a_time_to_live_over_stomp_needs_a_header(headers, tried):
    """Over AMQP it is a field of the header section."""
    chosen = selection("EXPECT-EXPIRED-02", protocol="stomp")
    found = able(chosen, {"time_to_live": headers})
    lacking = {} if tried else {needs.TIME_TO_LIVE.name: "the file of reference does not say `time_to_live` over stomp"}

    assert lacking == {need: why for need, why in found.unable.items() if need == needs.TIME_TO_LIVE.name}
    assert tried == bool(wanted_checks(SCENARIOS["consumer-after-expiry"], found))


@pytest.mark.parametrize(("protocol", "tried"), [("amqp", True), ("stomp", False)])
def test_a_broker_without_individual_acknowledgements_gets_none_over_stomp(protocol, tried):
    chosen = selection("EMS-CLIENT-02", "SOLCD-ACK-01", protocol=protocol)
    found = able(chosen, capabilities=chosen.adapter.file.capabilities - {"individual_ack"})

    assert tried != ("mode individual" in found.unable)
    assert "mode client" not in found.unable


@pytest.mark.parametrize("has", [False, True])
def test_no_consumer_selects_at_a_broker_without_selectors(has):
    """It would get every message, or none, and what it leaves would prove nothing."""
    chosen = selection("EXPECT-KEPT-01")
    left = chosen.adapter.file.capabilities - (set() if has else {"selectors"})
    found = able(chosen, capabilities=left)
    lacking = {} if has else {needs.SELECTS.name: "the adapter of reference does not declare selectors over amqp"}

    assert lacking == {need: why for need, why in found.unable.items() if need == needs.SELECTS.name}
    assert [has, has, True] == [
        bool(wanted_checks(SCENARIOS[name], found))
        for name in (
            "given-back-and-no-longer-selected",
            "unacknowledged-and-no-longer-selected",
            "sends-of-oversized-messages",
        )
    ]


@pytest.mark.parametrize("copied", ["", "{queue}"])
def test_copies_need_an_address_for_their_receivers(copied):
    chosen = selection("AMQP-ACC-01")
    found = able(chosen, {"copied": copied})
    lacking = {} if copied else {needs.COPIED.name: "the adapter of reference does not say `copied` over amqp"}

    assert lacking == {need: why for need, why in found.unable.items() if need == needs.COPIED.name}
    assert bool(copied) == bool(wanted_checks(SCENARIOS["receivers-of-copies"], found))


@pytest.mark.parametrize(
    ("change", "protocol_change", "why"),
    [
        ({}, {}, ""),
        ({}, {"topic": None}, "the adapter of reference does not say `topic` over amqp"),
        ({"subscription_depth": None}, {}, "the file of reference has no [subscription_depth]"),
    ],
)
def test_durable_subscriptions_need_a_topic_and_their_depth(change, protocol_change, why):
    chosen = selection("AMQP-ACC-02")
    found = able(chosen, protocol_change, **change)
    item = SCENARIOS["broker-killed-while-subscriber-away"]

    assert why == found.unable.get(needs.SUBSCRIBED.name, "")
    assert (not why) == bool(wanted_checks(item, found))


@pytest.mark.parametrize("ack_confirm", [None, "disposition"])
def test_no_kill_waits_for_answers_to_acknowledgements_that_the_broker_does_not_give(ack_confirm):
    """The kill would never fire, and every trial would be void; SOLCD-ACK-01 itself does not need such answers."""
    chosen = selection("SOLCD-ACK-01")
    found = able(chosen, {"ack_confirm": ack_confirm})
    script = SCENARIOS["broker-killed-after-acknowledgements"]
    lacking = {} if ack_confirm else {needs.ANSWERED.name: "the file of reference has no ack_confirm over amqp"}

    assert needs.ANSWERED in script.needs
    assert needs.ANSWERED not in SCENARIOS["broker-killed-while-publishing"].needs
    assert lacking == {need: why for need, why in found.unable.items() if need == needs.ANSWERED.name}
    assert bool(ack_confirm) == bool(wanted_checks(script, found))


@pytest.mark.parametrize(
    ("trigger", "waits"),
    [
        (Nth("ack", 3), True),
        (OneOf((After(5), Nth("ack", 3))), True),
        (All((Nth("ack", 3), After(5))), True),
        (OneOf((After(5), Nth("ack_written", 3))), False),
        (None, False),
    ],
)
def test_a_trigger_that_may_count_answered_acknowledgements_is_recognised(trigger, waits):
    assert waits is waits_for_answered_ack(trigger)


def test_the_record_of_a_trial_has_its_script():
    """The drawn steps, the client and the queue options: a replay needs them."""
    names = ("sends-refused-by-full-queue", "receipts-on-the-wire")
    full, raw = (subject_trials(selection(protocol="stomp"), SCENARIOS[name], [1])[0] for name in names)

    assert ({"max_length": 40}, {}) == (describe(full).queue, describe(raw).queue)
    assert ("library", "raw") == (describe(full).client, describe(raw).client)
    assert (full.script.steps, raw.script.steps) == (describe(full).steps, describe(raw).steps)


def test_a_limit_of_a_queue_comes_with_the_policy_that_refuses():
    """Artemis has no limit of one queue: the setting of all addresses gets it, and the policy must refuse what is over it."""
    full, need = SCENARIOS["sends-refused-by-full-queue"], "a queue with max_length"
    pages, refuses = (
        selection("AMQP-REF-01", adapter="artemis", overrides=overrides)
        for overrides in ({}, {"full_queue_policy": "refuse"})
    )
    first = plan(refuses, {full.id: full}, CATALOGUE)[0]

    assert {need: "full_queue_policy is page, the scenario needs refuse"} == campaign.unable(pages, [full])
    assert {} == campaign.unable(refuses, [full])
    assert (40, "refuse") == (first.settings.values["queue_messages"], first.settings.values["full_queue_policy"])
