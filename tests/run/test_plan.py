"""The plan: the same seed gives the same trials, and every check has its control."""

import dataclasses

import pytest

from conformance import adapters, campaign, claims, scenario
from conformance.run.planning import Selection, arm_label, instances, plan, subject_trials, wanted
from conformance.run.trial import describe

CATALOGUE = claims.load()
SCENARIOS = scenario.load(CATALOGUE)


def selection(
    *patterns,
    adapter="reference",
    protocol="amqp",
    overrides=None,
    required=(),
    judged_as=(),
    only=(),
    seed=1,
    trials=3,
):
    found = adapters.find(adapter)
    overrides = overrides or {}
    return Selection(
        adapter=found,
        protocol=protocol,
        settings=found.effective(overrides),
        overrides=overrides,
        claims=claims.select(patterns or ["*"], CATALOGUE),
        required=frozenset(required),
        seed=seed,
        trials=trials,
        judged_as=frozenset(judged_as),
        only=frozenset(only),
    )


def test_what_stores_everything_is_proven_by_liars_alone():
    """A quorum queue of RabbitMQ keeps what a classic one can be told to give up."""

    def controls(queue_type):
        asked = planned("SOLCD-ACK-01", "AMQP-DUR-01", adapter="rabbitmq", overrides={"queue_type": queue_type})
        return {(trial.control, trial.adapter.name) for trial in asked if trial.arm == "control"}

    assert ("persistence=false", "rabbitmq") in controls("classic")
    assert controls("quorum") == {
        ("liar loses-the-oldest", "reference"),
        ("liar treats-persistent-as-non-persistent", "reference"),
    }


def test_a_store_without_a_buffer_is_proven_by_what_a_kill_takes_from_it():
    """Broker-J with Derby writes before it answers: without syncs a kill takes nothing from it, and a lost power does."""

    def controls(store, claim):
        asked = planned(claim, adapter="qpid", overrides={"store": store}, judged_as=["artemis"])
        played = [trial for trial in asked if trial.arm == "control"]
        return [{**trial.settings.changed, "liar": trial.liar, "store": store} for trial in played]

    stores = {"store": "DERBY", "persistence": False, "liar": None}
    lies = {"store": "DERBY", "liar": "loses-the-oldest"}
    off = {"liar": None, "sync_transactional": False}

    assert {"store": "BDB", "journal_buffer_ms": 500, **off} in controls("BDB", "ARTEMIS-TX-03")
    assert {"store": "DERBY", **off} in controls("DERBY", "ARTEMIS-TX-03")
    assert all(control in (stores, lies) for control in controls("DERBY", "SOLCD-ACK-01"))


def varied(profile, *patterns, **options):
    """A selection on a variant of the reference broker."""
    chosen = selection(*patterns, overrides={}, **options)
    overrides = {"profile": profile}
    adapter = chosen.adapter.chosen(overrides)
    return dataclasses.replace(chosen, adapter=adapter, settings=adapter.effective(overrides), overrides=overrides)


def planned(*patterns, **options):
    return plan(selection(*patterns, **options), SCENARIOS, CATALOGUE)


def test_same_seed_same_trials():
    """And another seed draws other numbers."""
    assert planned(seed=1) == planned(seed=1)
    assert [trial.k for trial in planned(seed=1)] != [trial.k for trial in planned(seed=2)]


def test_ids_are_unique():
    """They name folders, queues and histories."""
    trials = planned()

    assert len(trials) == len({trial.id for trial in trials}) == len({trial.queue for trial in trials})


def test_trials_of_one_broker_follow_each_other():
    """A broker is started once for each configuration."""
    groups = instances(planned(adapter="artemis"))

    assert len(groups) == len({group[0].instance for group in groups})


def test_selection_leaves_out_what_is_not_needed():
    """One claim, its scenarios, its controls."""
    trials = planned("AMQP-DUR-01")

    assert {"broker-killed-while-publishing"} == {trial.script.id for trial in trials}
    assert ["control"] * 3 + ["subject"] * 3 == sorted(trial.arm for trial in trials)


@pytest.mark.parametrize(("buffer_ms", "own"), [(500, True), (60_000, True), (499, False)])
def test_weakened_subject_is_its_own_control(buffer_ms, own):
    """The same settings need not be tried twice, nor with a narrower window than the user's."""
    weak = {**dict(scenario.SYNC_OFF.settings), "journal_buffer_ms": buffer_ms}
    trials = planned("SOLCD-ACK-01", overrides=weak, required=["SOLCD-ACK-01"])

    assert {"", "persistence=false"} | (set() if own else {scenario.SYNC_OFF.label}) == {
        trial.control for trial in trials
    }


def test_liars_are_bundled_brokers():
    """Also in a run of another broker, and only they idle in a lane of their own."""
    trials = [trial for trial in planned(adapter="artemis") if trial.liar]

    assert {"reference"} == {trial.adapter.name for trial in trials}
    waits_for_liveness = {"never-answers-one-send", "skips-every-hundredth-delivery", "stuck-after-recovery"}
    assert waits_for_liveness == {t.liar for t in trials if t.waits_for_liveness}


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
    """By protocol, capability and vendor; the user's own words outrank them."""
    assert expected == selection(**options).applies(CATALOGUE.claim(claim))


@pytest.mark.parametrize(
    ("adapter", "protocol"),
    [(a, p) for a in adapters.names() for p in ("amqp", "stomp") if p in adapters.find(a).file.protocols],
)
def test_nothing_is_recorded_that_cannot_be_decided(adapter, protocol):
    """Every scenario of a plan decides a claim that applies, and every scenario with such a claim is there."""
    chosen = selection(adapter=adapter, protocol=protocol)
    applicable = {claim.id for claim in CATALOGUE.claims.values() if chosen.applies(claim)}
    expected = {name for name, script in SCENARIOS.items() if applicable & set(script.decides)}

    assert expected == {trial.script.id for trial in plan(chosen, SCENARIOS, CATALOGUE)}
    assert expected != set(SCENARIOS)


def test_only_some_scenarios():
    """A scenario that is not named decides nothing."""
    chosen = selection("SOLCD-ACK-01", only=["broker-stopped-while-publishing"])

    assert {} == wanted(SCENARIOS["broker-killed-while-publishing"], chosen)
    assert ["SOLCD-ACK-01"] == list(wanted(SCENARIOS["broker-stopped-while-publishing"], chosen))


def test_lanes():
    """The broker on trial and its weakened self in one, liars beside it, and each patient trial by itself."""
    trials = planned("AMQP-DUR-01", "AMQP-HDR-01", "EMS-STEP-02")
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
    """Weakened settings have a line of their own in the report; a liar is known by its name."""
    assert expected == arm_label(arm, control)


@pytest.mark.parametrize("name", SCENARIOS)
def test_drawn_numbers_are_fixed(name):
    """Nothing random is left in a drawn script."""
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
    """And by all that binds the broker without it."""
    assert expected == varied(profile).applies(CATALOGUE.claim(claim))


def test_a_liar_lies_in_the_variant_of_its_claim():
    """Whatever the broker on trial is; and it is a broker of its own."""
    trials = plan(varied("solace", "SOLPUB-THR-02"), SCENARIOS, CATALOGUE)
    liars = [trial for trial in trials if trial.liar]

    assert {("confirms-by-threshold-only", True, "solace")} == {
        (trial.liar, trial.waits_for_liveness, trial.settings.values["profile"]) for trial in liars
    }
    assert 3 == len(liars)
    assert all("ranged_confirms" in trial.adapter.capabilities("amqp") for trial in trials)


def test_a_run_of_a_liar_keeps_its_controls():
    """The broker on trial lies in one way, its control in another, or in the same."""
    chosen = selection("AMQP-REL-01")
    overrides = {"liar": "counts-releases"}
    lying = dataclasses.replace(
        chosen,
        adapter=chosen.adapter.chosen(overrides),
        settings=chosen.adapter.effective(overrides),
        overrides=overrides,
    )
    trials = plan(lying, SCENARIOS, CATALOGUE)

    assert {("subject", None, "counts-releases"), ("control", "drops-released", "")} == {
        (trial.arm, trial.liar, trial.settings.values["liar"]) for trial in trials
    }


def test_conditions_are_met_by_the_session_of_the_script():
    """The same setting is true in one script and false in another, and each claim has its own."""
    immediate, third = (SCENARIOS[name] for name in ("acknowledged-immediately", "third-of-a-window-sent"))

    assert {"ack_event_mode": "windowed", "publish_window": 50, "ack_immediately": True} == immediate.session
    assert {"ack_event_mode": "windowed", "publish_window": 50, "ack_immediately": False} == third.session
    assert {} == SCENARIOS["messages-sent-in-transactions"].session
    controls = {trial.liar for trial in plan(varied("solace", "SOLPUB-IMM-01", "SOLPUB-THR-01"), SCENARIOS, CATALOGUE)}
    assert {None, "ignores-ack-immediately", "confirms-by-timer-only"} == controls


def test_what_the_adapter_has_no_words_for_is_not_planned():
    """A queue of its own kind, or settings of any name; the script says what it needs."""
    script = SCENARIOS["sends-refused-by-full-queue"]
    chosen = selection("AMQP-REF-01")
    lacking = dataclasses.replace(chosen, unable={"a queue with max_length": "no words for one"})

    assert ("a queue with max_length",) == script.needs
    assert ("settings of any name",) == SCENARIOS["thresholds-offered-as-settings"].needs
    assert (["AMQP-REF-01"], []) == (list(wanted(script, chosen)), list(wanted(script, lacking)))


@pytest.mark.parametrize(("protocol", "tried"), [("amqp", False), ("stomp", True)])
def test_an_outcome_that_the_broker_has_not_is_given_by_no_consumer(protocol, tried):
    """Over AMQP it would end the session; over STOMP whatever is refused is a NACK. The other outcomes are tried."""
    chosen = selection("AMQP-REL-01", "AMQP-MOD-01", "EMS-DUPS-05", "STOMP-NACK-01", protocol=protocol)
    spoken = chosen.adapter.file.protocols["amqp"].model_copy(update={"outcomes": ("accepted", "released")})
    file = chosen.adapter.file.model_copy(update={"protocols": {**chosen.adapter.file.protocols, "amqp": spoken}})
    fewer = dataclasses.replace(chosen, adapter=dataclasses.replace(chosen.adapter, file=file))
    found = campaign._able(fewer, SCENARIOS)
    modified = wanted(SCENARIOS["deliveries-modified"], found)

    assert (scenario.MODIFIED,) == SCENARIOS["deliveries-modified"].needs
    assert () == SCENARIOS["deliveries-refused"].needs
    assert (tried, True) == (bool(modified), bool(wanted(SCENARIOS["deliveries-refused"], found)))
    assert ({} if tried else {scenario.MODIFIED: "reference has only accepted, released over amqp"}) == found.unable
    assert scenario.MODIFIED not in campaign._able(chosen, SCENARIOS).unable


def test_the_record_of_a_trial_has_its_script():
    """The drawn steps, the client and the options of the queue: all that a replay must find again."""
    names = ("sends-refused-by-full-queue", "receipts-on-the-wire")
    full, raw = (subject_trials(selection(protocol="stomp"), SCENARIOS[name], [1])[0] for name in names)

    assert ({"max_length": 40}, {}) == (describe(full).queue, describe(raw).queue)
    assert ("library", "raw") == (describe(full).client, describe(raw).client)
    assert (full.script.steps, raw.script.steps) == (describe(full).steps, describe(raw).steps)
