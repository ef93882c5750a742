"""Scripts: drawn by a seed, registered once, and refused where they contradict the catalogue."""

import dataclasses
import random

import msgspec
import pytest

from conformance import claims, counting, scenario
from conformance.errors import CatalogueError, FaultError
from conformance.scenario import SYNC_OFF, Check, Liar, Scenario, SessionLiar
from conformance.scenario.faults import FAULTS
from conformance.scenario.needs import SPREADS, in_mode
from conformance.scenario.reading import draw, singles, togethers
from conformance.scenario.script import (
    SETTLE,
    After,
    All,
    Between,
    Consume,
    ConsumerCrash,
    Cut,
    Delay,
    Drain,
    Frame,
    HoldLink,
    Kill,
    Nth,
    OneOf,
    Pause,
    Publish,
    Recovery,
    Restart,
    Rounds,
    Step,
    Stop,
    Throttle,
    Together,
    Watched,
    largest,
    parts_of,
)

CATALOGUE = claims.load()
SCENARIOS = scenario.load(CATALOGUE)
LOST = Check("lost", exposure="confirmed_in_window", control=SYNC_OFF)
KILLED = (Publish(100, window=10, until=Kill(Nth("confirm", 5))), Restart(), *SETTLE)


def script(steps=KILLED, *checks):
    return Scenario("odd", "Says.", "async_ack", steps, {}, checks=checks)


def refused(item):
    with pytest.raises(CatalogueError) as caught:
        scenario.validate(item)
    return str(caught.value)


@pytest.fixture
def registered(monkeypatch):
    """A registry of its own."""
    monkeypatch.setattr(scenario, "_REGISTRY", {})
    return scenario._REGISTRY


def test_what_is_played_thoroughly_only_has_another_that_stands_for_it(monkeypatch):
    """Counter-example: a claim that only --thorough tries would be missing from every other run."""
    alone = dataclasses.replace(SCENARIOS["acknowledged-in-any-order"], thorough=True)
    monkeypatch.setitem(scenario._REGISTRY, alone.id, alone)

    with pytest.raises(CatalogueError, match=f"scenario {alone.id} is thorough, and no other decides EMS-EXPL-02"):
        scenario.load(CATALOGUE)


@pytest.mark.parametrize("item", SCENARIOS.values(), ids=lambda item: item.id)
def test_a_fault_waits_for_the_client_whose_acknowledgements_are_at_risk(item):
    """Counter-example: a consumer is attached when the other's 300th confirm kills the broker: nothing is exposed."""
    at_risk = any(check.exposure.startswith("acknowledge") for check in item.decides.values())
    waiting = [step for together in togethers(item.steps) for step in together.steps if step.until is not None]

    assert not at_risk or all(isinstance(step, Consume) for step in waiting)


@pytest.mark.parametrize("item", SCENARIOS.values(), ids=lambda item: item.id)
def test_a_control_with_a_loss_window_bears_one_kill_that_misses_it(item):
    """Counter-example: with three trials, one kill right after the buffer was written left EMS-STEP-06 undecided."""
    missed = 0 if any(isinstance(step, Rounds) for step in item.steps) else 1
    controls = [check.control for check in item.decides.values()]
    windows = [each for each in controls if isinstance(each, scenario.Weakened) and each.widened_by]

    for control in windows:
        failed = control.trials - missed
        assert counting.miss_probability(failed, control.trials, scenario.TRIALS) <= counting.ENOUGH


TAILS = [item for item in SCENARIOS.values() if any(check.control and check.control.tail for check in item.checks)]


@pytest.mark.parametrize("item", TAILS, ids=lambda item: item.id)
def test_a_control_of_a_missing_sync_has_something_to_keep(item):
    """A client does before, without a fault, what is at risk at the fault: a missing sync must not take everything."""
    clients = [step for step in singles(item.drawn(1, control=True).steps) if isinstance(step, Publish | Consume)]
    place = next(place for place, step in enumerate(clients) if step.until is not None)

    assert type(clients[place]) in {type(step) for step in clients[:place]}


def test_transactions_on_both_sides_are_refused():
    """Two kinds of transactions would share their names in one history."""
    both = (Publish(10, window=5, batch=5), Consume("transacted", acknowledge=5), *SETTLE)

    assert "scenario odd has transactions of sends and of acknowledgements: use two scenarios" == refused(script(both))
    for alone in (both[:1], (Publish(10, window=5), both[1])):
        scenario.validate(script((*alone, *SETTLE)))


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (Publish(9, window=9, until=Cut(Frame("sent", 1))), "Invalid enum value 'sent' - at `$[0].until.at.kind`"),
        (Publish(9, window=9, until=Cut(Frame("send", 0))), "Expected `int` >= 1 - at `$[0].until.at.k`"),
        (Publish(9, window=9, until=Cut(Frame("send", 1, "behind"))), "Invalid enum value 'behind'"),
        (Publish(9, window=9, until=Cut(Frame("send", 1), "kill")), "Invalid enum value 'kill'"),
        (Publish(9, window=9, until=HoldLink(Frame("send", 1), "both")), "Invalid enum value 'both'"),
        (Publish(9, window=9, until=HoldLink(Frame("send", 1), hold_s=0)), "Expected `float` > 0.0"),
        (Publish(9, window=9, until=Delay(0)), "Expected `float` > 0.0 - at `$[0].until.rtt_ms`"),
        (Publish(9, window=9, until=Throttle(0)), "Expected `int` >= 1"),
        (Publish(9, window=9, until=Kill(Nth("confirmed", 1))), "Invalid enum value 'confirmed'"),
        (Publish(9, window=9, until=Kill(Frame("send", 1))), "Invalid value 'frame' - at `$[0].until.at.trigger`"),
        (Publish(0, window=9), "Expected `int` >= 1 - at `$[0].count`"),
        (Consume("telepathic"), "Invalid enum value 'telepathic' - at `$[0].mode`"),
        (Restart(under=Kill(Nth("sent", 1))), "Invalid value 'kill' - at `$[0].under.fault`"),
    ],
)
def test_a_word_or_number_that_a_field_may_not_have_is_refused(step, why):
    """When the scenario is loaded, with the place."""
    assert why in refused(script((step, *SETTLE)))


@pytest.mark.parametrize("item", SCENARIOS.values(), ids=SCENARIOS)
def test_a_script_is_read_as_it_was_written(item):
    """Before its numbers are drawn, when they are `Between`, and after that, when they are ints."""
    for steps in (item.steps, item.drawn(5).steps):
        assert steps == msgspec.json.decode(msgspec.json.encode(steps), type=tuple[Step, ...])


def test_what_is_written_has_names_and_numbers():
    """A step, a fault and a trigger each say what they are; defaults are written too, for a later version may change them."""
    kill = Kill(Nth("confirm", Between(3, 9)))
    at = {"trigger": "nth", "event": "confirm", "k": {"low": 3, "high": 9}}
    written = msgspec.to_builtins(Restart(until=kill))

    assert {
        "step": "restart",
        "clean": False,
        "flushed": False,
        "under": None,
        "until": {"fault": "kill", "at": at, "delay_us": 0, "delay_percent": 0},
        "beside": (),
    } == written


def test_only_a_drawn_number_arms_a_fault():
    """A fault whose number no seed has drawn is refused, and so is one that no client can see."""
    assert 7 == largest(All((Nth("confirm", 3), After(7))))
    for at, why in ((Nth("confirm", Between(3, 9)), "was not drawn"), (Recovery(3), "no client sees")):
        with pytest.raises(FaultError, match=why):
            largest(at)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"until": ConsumerCrash(Nth("process", 3))}, "one step of Together may have a kill, a stop or a pause"),
        ({"until": Kill(Nth("process", 3))}, "one step of Together may have a kill, a stop or a pause"),
        ({"linked": True}, "a step of Together has no link"),
    ],
)
def test_what_runs_together_has_one_fault_of_a_client_and_no_link(change, why):
    """A second fault, a crash of one client, and a link are refused."""
    step = msgspec.structs.replace(Consume("auto", stop=5), **change)
    publish = Publish(10, window=5, until=Kill(Nth("confirm", 3)) if "until" in change else None)
    item = script((Together((publish, step)), *SETTLE))

    assert f"scenario odd: {why}" == refused(item)


@pytest.mark.parametrize(
    "restart",
    [
        Restart(beside=(Publish(9, window=5, until=Kill(Nth("confirm", 3))),)),
        Restart(beside=(Publish(9, window=5, linked=True),)),
        Restart(beside=(Publish(9, window=5),), until=Kill(Recovery(1))),
        Restart(beside=(Publish(9, window=5),), under=Watched()),
    ],
)
def test_what_runs_beside_a_restart_has_no_fault_and_no_link(restart):
    item = script((Publish(10, window=5), restart, *SETTLE))

    assert "scenario odd: clients beside a restart go without a fault and without a link" == refused(item)


def test_what_runs_together_counts_as_the_script():
    """Its window is what the session asks for, and its modes are what the client must have."""
    item = script((Together((Publish(10, window=5), Consume("client", stop=5))), *SETTLE))

    assert (5, (in_mode("client"),)) == (item.session["publish_window"], item.of_client)


def derived(item, claim, **changes):
    """Whether this scenario decides the claim, as it is or with fields of it replaced."""
    stated = msgspec.structs.replace(CATALOGUE.claim(claim), **changes)
    return claim in scenario.decided_claims(item, msgspec.structs.replace(CATALOGUE, claims={claim: stated}))


@pytest.mark.parametrize(
    ("claim", "check", "changes"),
    [
        ("SOLCD-ACK-01", dataclasses.replace(LOST, control=None), {}),
        ("SOLCD-ACK-01", LOST, {"kind": claims.Kind.PERMISSION}),
        ("SOLCD-ACK-01", dataclasses.replace(LOST, control=SessionLiar("x")), {}),
        ("SOLCD-ACK-01", LOST, {"subject": claims.Subject.SESSION}),
        ("SOLCD-ACK-01", LOST, {"subject": claims.Subject.VENDOR_CLIENT}),
        ("SOLCD-ACK-01", LOST, {"checks": ("stuck",)}),
        ("SOLCD-ACK-01", LOST, {"faults": ("stop", "none")}),
        ("SOLCD-ACK-01", LOST, {"modes": ("blocking", "transacted", "persistent")}),
        ("SOLCD-ACK-01", LOST, {"modes": ("async_ack", "non_persistent")}),
        ("SOLCD-ACK-01", LOST, {"ways": ("undeclared_queue",)}),
        ("SOLCD-ACK-01", dataclasses.replace(LOST, control=Liar("x", over="stomp")), {}),
    ],
)
def test_a_check_decides_a_claim_only_where_everything_fits(claim, check, changes):
    """The control, whose behaviour it is, the anomaly, the fault, the mode, the ways and the protocol."""
    assert derived(script(KILLED, LOST), claim)
    assert not derived(script(KILLED, check), claim, **changes)


def test_a_claim_is_tried_under_a_fault_that_it_names():
    """SOLCD-ACK-01 is about what survives the end of a broker, and nothing of a script without one is."""
    assert not derived(script((Publish(10, window=5), *SETTLE), LOST), "SOLCD-ACK-01")
    assert derived(script(KILLED, LOST), "SOLCD-ACK-01")


def test_a_claim_without_a_fault_is_tried_where_the_broker_lives():
    """A paused broker goes on, and so does one whose client died."""
    lives = Publish(100, window=10, until=Pause(Nth("confirm", 5)))
    check = Check("unanswered_send", exposure="sends", control=Liar("never-answers-one-send"))

    assert derived(script((lives, *SETTLE), check), "SOLPUB-ACK-01")
    assert not derived(script(KILLED, check), "SOLPUB-ACK-01")


def test_a_check_that_decides_no_claim_is_refused(registered, tmp_path):
    """When the suite is loaded, with what is in the way of the claims that name it."""

    @scenario.scenario
    class Odd:
        """Says."""

        mode, steps, checks = "async_ack", (Publish(10, window=5), *SETTLE), (LOST,)

    with pytest.raises(CatalogueError, match="check 'lost' decides no claim: SOLCD-ACK-01 is tried under "):
        scenario.load(CATALOGUE, tmp_path)


def test_a_class_that_names_claims_is_refused(registered):
    """The error says what to write instead."""
    body = {"__doc__": "Says.", "mode": "auto", "steps": (), "decides": {"SOLCD-ACK-01": LOST}}

    with pytest.raises(CatalogueError, match=r"scenario odd: the class Odd has `decides`.* Write `checks = "):
        scenario.scenario(type("Odd", (), body))
    assert {} == registered


def test_the_client_of_a_scenario(registered):
    """A library, unless the class says raw; the docstring is its text on one line."""

    @scenario.scenario
    class WithALibrary:
        """Says
        this.
        """

        mode, steps, checks = "async_ack", KILLED, ()

    @scenario.scenario
    class OnTheWire(WithALibrary):
        """Says that."""

        client = "raw"

    found = {name: (item.client, item.says) for name, item in registered.items()}
    assert {"with-a-library": ("library", "Says this."), "on-the-wire": ("raw", "Says that.")} == found
    assert {"raw", "library"} == {item.client for item in SCENARIOS.values()}


def test_a_class_without_text_or_with_a_name_twice(registered):
    """Either stops the import."""
    body = {"mode": "auto", "steps": (), "checks": ()}
    once = type("Once", (), {**body, "__doc__": "Says."})
    scenario.scenario(once)
    with pytest.raises(CatalogueError, match="scenario once is defined twice"):
        scenario.scenario(once)
    with pytest.raises(CatalogueError, match="scenario mute has no docstring"):
        scenario.scenario(type("Mute", (), body))


@pytest.mark.parametrize(
    "until",
    [
        Kill(Nth("confirm", Between(3, 90))),
        Stop(Nth("confirm", Between(3, 90))),
        Pause(Nth("confirm", Between(3, 90)), hold_s=0.5),
        ConsumerCrash(Nth("process", Between(3, 90))),
    ],
)
def test_a_seed_draws_the_trigger_and_nothing_else(until):
    """The same for the same seed; kind, event and length of the fault stay."""
    step = Consume("auto", until=until)
    item = script((Publish(10, window=5), step, Drain()))
    drawn = {item.drawn(seed).fault for seed in range(20)}

    assert item.drawn(7) == item.drawn(7)
    assert len(drawn) > 1
    assert all(3 <= fault.at.k <= 90 for fault in drawn)
    assert {until} == {msgspec.structs.replace(fault, at=until.at) for fault in drawn}


def test_the_fault_of_a_script():
    """Of whichever step has one; without it a claim is tried under none."""
    quiet = script((Publish(10, window=5), *SETTLE))
    claim = CATALOGUE.claim("AMQP-TX-03")
    crash = ConsumerCrash(Nth("before_commit", 4))
    crashed = script((Publish(200, window=50, batch=10, until=crash), *SETTLE))

    assert (None, "none") == (quiet.fault, quiet.fault_for(claim))
    assert (crash, "consumer_crash") == (crashed.fault, crashed.fault_for(claim))
    assert "none" == crashed.fault_for(CATALOGUE.claim("SOLCD-ACK-01"))


def test_labels_of_controls():
    """What the report calls them."""
    labels = [control.label for control in (scenario.weakened(b=5, a=False), Liar("x"), SessionLiar("y"))]

    assert ["a=false, b=5", "liar x", "session liar y"] == labels


def test_rounds_are_drawn_one_by_one():
    """Each round has numbers of its own; a control has as few rounds as it needs."""
    steps = (Rounds((Publish(9, window=1, until=Kill(Nth("confirm", Between(1, 500)))), Restart()), 4), Drain())
    item = dataclasses.replace(SCENARIOS["broker-killed-while-publishing"], steps=steps)

    assert 9 == len(item.drawn(1).steps) > 2
    assert 4 == len({step.until for step in item.drawn(1).steps if isinstance(step, Publish)})
    assert (5, 3) == (len(item.drawn(1, 2).steps), len(item.drawn(1, control=True).steps))


def test_one_of_two_triggers_is_drawn():
    kill = Kill(OneOf((Nth("confirm", Between(1, 9)), After(Between(1, 9)))))
    found = {type(draw(kill, random.Random(seed)).at) for seed in range(9)}

    assert {Nth, After} == found
    with pytest.raises(FaultError, match="was not drawn"):
        parts_of(kill.at)


@pytest.mark.parametrize(("option", "asked"), [("copies_of", ()), ("subscribed", ()), ("max_length", (SPREADS,))])
def test_what_is_sent_to_one_address_is_not_spread(option, asked):
    item = dataclasses.replace(script((Publish(10, window=5, queues=2), *SETTLE)), queue=((option, True),))

    assert asked == item.of_client


@pytest.mark.parametrize("step", [Publish(10, window=5), Publish(10, window=5, queues=2, batch=5)])
@pytest.mark.parametrize("option", ["copies_of", "subscribed"])
def test_copies_go_to_several_queues_and_are_in_no_transaction(option, step):
    item = dataclasses.replace(script((step, *SETTLE)), queue=((option, True),))

    assert "scenario odd: what several queues get goes to several, and is in no transaction" == refused(item)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"receivers": 2, "hold": True}, "several receivers go without a transaction, a link and `hold`"),
        ({"receivers": 2, "mode": "transacted"}, "several receivers go without a transaction, a link and `hold`"),
        ({"receivers": 2, "linked": True}, "several receivers go without a transaction, a link and `hold`"),
        ({"receivers": 2, "queues": 3}, "it needs a receiver for each queue, and one that goes on"),
        ({"ends": 5}, "it needs a receiver for each queue, and one that goes on"),
    ],
)
def test_what_several_receivers_cannot_do(change, why):
    step = msgspec.structs.replace(Consume("individual", stop=5), **change)
    item = script((Publish(10, window=5), step, *SETTLE))

    assert f"scenario odd: {why}" == refused(item)


def test_claims_name_the_faults_that_there_are():
    """A disk that is only watched is none."""
    assert {"none", *FAULTS} - {"watched"} == set(CATALOGUE.faults)


def test_a_default_is_tried_without_settings():
    """A setting that a scenario asks for may itself be the cause: Artemis loses what it paged at a loss of power."""
    catalogue = claims.load()
    defaults = {claim.id for claim in catalogue.claims.values() if claim.kind is claims.Kind.DEFAULT}
    decided = {name: defaults & {*item.decides} for name, item in scenario.load(catalogue).items()}

    assert {"ARTEMIS-SEND-10"} <= decided["power-lost-while-publishing"]
    assert [] == [name for name, item in scenario.load(catalogue).items() if item.settings and decided[name]]
