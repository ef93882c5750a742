"""`--quick` chooses the strong claims, about each question, that fit into its time."""

import pytest
from planned_trials import CATALOGUE, SCENARIOS, WIRES, selection

from conformance import campaign, scenario
from conformance.report.questions import QUESTIONS
from conformance.run import quick as choice
from conformance.run.planning import plan, wanted_checks
from conformance.run.quick import QUICK_CLAIMS, QUICK_S, SLOW_S
from conformance.scenario import Check, Liar, Scenario, Weakened, needs
from conformance.scenario.script import SETTLE, Drain, Kill, Nth, Publish

EVERYWHERE = pytest.mark.parametrize(("adapter", "protocol"), WIRES)
WEAK, LIAR = scenario.weakened(persistence=False), Liar("counts-from-one")
SHORT = (Publish(10, window=5), *SETTLE)
TEN = ["AMQP-TX-02", "AMQP-TX-03", "AMQP-TX-04", "AMQP-ACC-01", "AMQP-HDR-01", "AMQP-HDR-02", "AMQP-REL-01",
       "AMQP-REL-02", "AMQP-MOD-01", "AMQP-MOD-02"]  # fmt: skip
PATIENT = Liar("never-answers-one-send", trials=3, waits_for_liveness=True)


def quick(selection, scenarios=SCENARIOS):
    return choice.quick(selection, scenarios, CATALOGUE, QUESTIONS.values())


def script(name, controls, steps=SHORT):
    return Scenario(
        name, "", "async_ack", steps, {claim: Check("lost", "confirmed", c) for claim, c in controls.items()}
    )


def first_look(*scripts, **changes):
    found = quick(selection(**changes), {each.id: each for each in scripts})
    return [claim.id for claim in found.claims], sorted(found.only)


def controls(selection):
    checks = [wanted_checks(script, selection) for script in SCENARIOS.values()]
    return [(claim, check.control) for found in checks for claim, check in found.items()]


@EVERYWHERE
def test_few_claims_that_need_no_patience(adapter, protocol):
    """At most ten claims; each has a control that answers at once, and none needs the disk."""
    found = quick(selection(adapter=adapter, protocol=protocol))
    decided = [(claim, control) for claim, control in controls(found) if control is not None]

    assert 0 < len(found.claims) <= QUICK_CLAIMS
    assert {claim.id for claim in found.claims} == {
        claim for claim, c in decided if isinstance(c, Weakened | Liar) and not getattr(c, "waits_for_liveness", False)
    }
    assert [] == [claim.id for claim in found.claims if claim.needs or not claim.judged]


@EVERYWHERE
def test_the_trials_fit_into_the_budget(adapter, protocol):
    found = quick(selection(adapter=adapter, protocol=protocol))
    ids = {claim.id for claim in found.claims}
    seconds = sum(
        choice._cost(SCENARIOS[name], {c: 1 for c in SCENARIOS[name].decides if c in ids}, found) for name in found.only
    )

    assert 0 < seconds <= (SLOW_S if found.adapter.file.java else QUICK_S)
    assert {trial.script.id for trial in plan(found, SCENARIOS, CATALOGUE)} <= found.only


@pytest.mark.parametrize(
    ("adapter", "protocol"), [each for each in WIRES if each != ("qpid", "amqp091") and not each[1].startswith("mqtt")]
)
def test_a_strong_claim_is_among_them(adapter, protocol):
    """Of Broker-J over AMQP 0-9-1 no document says what a setting could give up: its own is about a client of JMS.

    MQTT promises nothing of the disk: what a setting gives up is an expectation of the suite.
    """
    found = quick(selection(adapter=adapter, protocol=protocol))

    assert [] != [claim for claim, control in controls(found) if isinstance(control, Weakened)]


def questions_of(found):
    """The places of the questions that the chosen claims are about."""
    about = {check.anomaly for script in SCENARIOS.values() for check in wanted_checks(script, found).values()}
    return [place for place, names in enumerate(QUESTIONS.values()) if about & names]


@pytest.mark.parametrize(
    ("adapter", "protocol", "answers"),
    [
        ("reference", "amqp", [0, 1, 2, 4, 5]),
        ("artemis", "amqp", [0, 1, 2, 4, 5]),
        ("qpid", "amqp", [0, 1, 2, 4, 5]),
        ("reference", "stomp", [0, 1, 2, 3, 4, 5]),
        ("rabbitmq", "amqp", [0, 1, 4, 5]),
    ],
)
def test_each_question_that_a_fast_scenario_answers(adapter, protocol, answers):
    """Over AMQP each check of how a session blocks is by a liar of that session; RabbitMQ has no transactions there."""
    assert answers == questions_of(quick(selection(adapter=adapter, protocol=protocol)))


def test_a_weak_claim_about_another_question_beside_ten_strong_ones():
    """Ten claims about lost messages would fill the run, and each other question would stay open."""
    strong = script("strong", dict.fromkeys(TEN, WEAK))
    other = Scenario("other", "", "async_ack", SHORT, {"AMQP-TX-01": Check("half_applied", "confirmed", LIAR)})
    found, played = first_look(strong, other)

    assert (["other", "strong"], QUICK_CLAIMS, True) == (played, len(found), "AMQP-TX-01" in found)


def test_more_trials_leave_fewer_scenarios():
    usual, many = (quick(selection(trials=trials)) for trials in (3, 12))

    assert len(many.only) < len(usual.only)


def test_nothing_fits():
    assert ([], []) == first_look(script("one", {"AMQP-DUR-01": WEAK}), trials=1_000)


def test_the_strong_ones_of_many():
    """Of twelve claims by liars and two by the weakened product, both of these are among the ten."""
    by_liars = [*TEN, "AMQP-TX-01", "AMQP-STATE-01"]
    strong = {"SOLCD-ACK-01", "AMQP-DUR-01"}
    found, _ = first_look(script("all", {**dict.fromkeys(by_liars, LIAR), **dict.fromkeys(sorted(strong), WEAK)}))

    assert (QUICK_CLAIMS, True) == (len(found), strong <= set(found))


def test_a_strong_scenario_before_one_of_a_liar():
    steps = (Publish(10, window=5), *[Drain()] * 18)
    strong, weak = script("strong", {"AMQP-DUR-01": WEAK}, steps), script("by-liar", {"AMQP-HDR-01": LIAR}, steps)
    found = first_look(weak, strong)

    assert (["AMQP-DUR-01"], ["strong"]) == found


def test_a_kill_before_what_ends_in_order():
    killed = Publish(10, window=5, until=Kill(Nth("confirm", 5)))
    plain, kill = (
        script(name, {claim: WEAK}, (step, *[Drain()] * 13))
        for name, claim, step in (("plain", "SOLCD-ACK-01", SHORT[0]), ("killed", "AMQP-DUR-01", killed))
    )

    assert (["AMQP-DUR-01"], ["killed"]) == first_look(plain, kill)


@pytest.mark.parametrize(
    ("claim", "control"),
    [
        ("EMS-STEP-02", PATIENT),
        ("ARTEMIS-SEND-09", WEAK),
        ("SOLCD-ACK-02", None),
        ("SOLPUB-WIN-01", scenario.SessionLiar("ignores-its-window")),
        ("STOMP-RCPT-02", LIAR),
    ],
)
def test_what_a_first_look_leaves_out(claim, control):
    """Waiting, the disk, permissions, self-checks, and claims of another protocol."""
    assert ([], []) == first_look(script("one", {claim: control}), judged_as=["artemis"])


def test_a_claim_that_was_not_asked_for_stays_out():
    asked = selection("AMQP-TX-*")
    found = quick(asked)

    assert {"AMQP-TX-01", "AMQP-TX-04"} <= {claim.id for claim in found.claims} <= {claim.id for claim in asked.claims}


OWN_FILE = """<configuration><core><acceptors><acceptor name="a">tcp://0.0.0.0:61616</acceptor></acceptors>
<address-settings><address-setting match="#">{}</address-setting></address-settings></core></configuration>"""
LEFT_ALONE = "<auto-delete-queues-message-count>-1</auto-delete-queues-message-count><auto-delete-queues-delay>{}</auto-delete-queues-delay>"
FIRST = {"broker-killed-soon-after-first-send", "broker-killed-soon-after-first-consumer", "created-queue-left-alone"}


def played_quickly(tmp_path, settings):
    """The scenarios of `--quick` on Artemis with these address settings in the user's own file, and what it cannot do."""
    (tmp_path / "broker.xml").write_text(OWN_FILE.format(settings))
    asked = campaign.Options("artemis", quick=True, seed=1, out=tmp_path / "out", config=tmp_path / "broker.xml")
    made = campaign.prepare(asked)
    return made.selection.only, made.selection.unable, {trial.script.id for trial in made.trials}


@pytest.mark.parametrize(
    ("settings", "added"),
    [
        ("", set()),
        ("<auto-create-queues>true</auto-create-queues>", FIRST),
        ("<auto-delete-queues>true</auto-delete-queues>", FIRST),
        ("<auto-delete-queues>false</auto-delete-queues>", set()),
        (LEFT_ALONE.format(30_000), FIRST),
        ("<address-full-policy>FAIL</address-full-policy>", {"sends-refused-by-full-queue"}),
        ("<address-full-policy>PAGE</address-full-policy>", set()),
    ],
)
def test_a_first_look_plays_the_queues_that_the_users_file_sets_up(tmp_path, settings, added):
    """Queues that clients make were left to the whole run, also where the file was about nothing else."""
    only, _, trials = played_quickly(tmp_path, settings)

    assert added == only & {*FIRST, "sends-refused-by-full-queue"}
    assert only == trials


def test_a_file_that_removes_queues_with_messages_at_once_promises_nothing_about_them(tmp_path):
    """Counter-example: without a delay the broker may remove a queue that holds messages while it has no consumer."""
    only, unable, _ = played_quickly(tmp_path, LEFT_ALONE.format(5_000))

    assert set() == only & FIRST
    assert unable[needs.CREATED.name] == (
        "deletes_queues is true, deletes_queues_with_messages is true, queue_deletion_delay_ms is 5000"
    )
