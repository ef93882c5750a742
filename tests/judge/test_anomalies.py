"""Every anomaly on literal histories of a few events, all of them in one Spark job."""

import judge_cases_clients
import judge_cases_link
import pytest
from judge_cases import CASES, PARTS
from judge_cases_exposures import EXPOSED
from judge_frames import disposed, framed
from judge_histories import (
    answered,
    came,
    committed,
    confirmed,
    fired,
    hidden,
    kept,
    killed,
    of,
    pause,
    put,
    record,
    refused,
    rolled_back,
    sent,
    settled,
    silent,
    sync_failed,
    synced,
    write,
    wrote,
)

from conformance import claims, scenario
from conformance.errors import CatalogueError
from conformance.history import Op, Phase
from conformance.judge.anomalies import ANOMALIES
from conformance.judge.input.packing import compact
from conformance.judge.plan.exposures import EXPOSURES, check_names
from conformance.judge.verdict import collect_facts

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def facts(session, tmp_path_factory):
    """The facts of every case, by its name."""
    folder = tmp_path_factory.mktemp("cases")
    trials = []
    for number, (name, (_, history, _, _)) in enumerate(CASES.items()):
        about = write(folder / str(number), history, record(trial=name, scenario=name))
        trials.append(compact(folder / str(number), about))
    return collect_facts(session.spark, trials)


@pytest.mark.parametrize("name", CASES)
def test_case(facts, name):
    """The anomaly applies to as many messages, and as many offend, as the case says."""
    anomaly, _, applies, offences = CASES[name]

    assert (applies, offences) == (facts[name].applies(anomaly), facts[name].offences(anomaly))


def test_every_anomaly_is_caught_and_cleared():
    """Each anomaly has a history that offends and one that does not; figures accuse nobody."""
    judged = {name for name, anomaly in ANOMALIES.items() if not anomaly.figures}
    caught = {anomaly for anomaly, _, _, offences in CASES.values() if offences}
    cleared = {anomaly for anomaly, _, applies, offences in CASES.values() if applies and not offences}

    assert judged == caught
    assert judged <= cleared


def test_no_case_hides_another():
    """The names of all parts differ: one that is written twice would silently be judged once."""
    assert sum(map(len, PARTS)) == len(CASES)


def test_the_lost_are_named(facts):
    """A witness names the message that was lost, and its queue."""
    assert (("q", 1, 2),) == facts["a confirmed message that never came is lost"].failing["lost"].witnesses


@pytest.fixture(scope="module")
def one(session, tmp_path_factory):
    """Facts of one history."""

    def facts_of(*arms):
        folder = tmp_path_factory.mktemp("one")
        trials = [compact(folder / a.trial, write(folder / a.trial, history, a)) for a, history in arms]
        return collect_facts(session.spark, trials)

    return facts_of


def test_rates_of_styles_side_by_side(one):
    """Of each producer by itself: from its first send to its last answer, or the answer to its last commit."""
    blocking = kept("p1:1") + kept("p1:2")  # an event a millisecond: 2 in 3 ms
    transacted = put("t1", "p2:1", "p2:2") + committed("t1")  # from the third of its events to the eighth: 5 ms
    found = one((record("t"), blocking + transacted + kept("p3:1")))["t"]

    assert [2 / 0.003, 2 / 0.005, 1 / 0.001] == [found.figure("rates_of_sending", place) for place in range(3)]
    assert found.offences("rates_of_sending") == 0
    assert one((record("t"), blocking))["t"].figure("rates_of_sending", 1) is None


def test_frames_of_acknowledgements_are_counted_once(one):
    """One that acknowledges two messages is one frame of 300 bytes, of the half whose messages they are."""
    each, both = kept("p1:1", "p1:2"), kept("p2:1", "p2:2")
    frames = [
        event
        for number, message in enumerate(("p1:1", "p1:2", "p2:1", "p2:2"), 1)
        for event in framed("transfer handle=0", to="to_client", message=message, delivery=str(number))
    ]
    found = one((record("t"), each + both + frames + disposed(1) + disposed(2) + disposed(3, 4)))["t"]

    assert [2, 600, 1, 300] == [found.figure("frames_of_acknowledgements", place) for place in range(4)]


def test_parts_of_a_loss(one):
    """Prefix, middle, tail and everything, by the order of the confirms."""
    found = one(
        (record("prefix"), kept(1, 2, 3) + killed() + settled(2, 3)),
        (record("middle"), kept(1, 2, 3) + killed() + settled(1, 3)),
        (record("tail"), kept(1, 2, 3) + killed() + settled(1)),
        (record("all"), kept(1, 2) + killed() + settled()),
        (record("none"), kept(1) + killed() + settled(1)),
    )

    assert {"prefix": "prefix", "middle": "middle", "tail": "tail", "all": "all", "none": ""} == {
        name: facts.part("lost") for name, facts in found.items()
    }


def test_a_control_that_stores_nothing_puts_nothing_more_at_risk(one):
    """The control lost all that it ever confirmed. At risk is what this broker may not have written at the kill."""
    early, late = kept(1), kept(2, 3, 4)  # an event a millisecond: confirms at 2, and at 6 to 8; kill at 9
    found = one(
        (record("subject", flush_ms=3), early + late + killed() + settled(1, 2, 3, 4)),
        (record("control", arm="control", control="persistence=false"), kept(1) + pause(5_000) + killed() + settled()),
    )

    assert found["subject"].window_ns("confirmed_in_window") == 3_000_000
    assert found["subject"].exposed("confirmed_in_window") == 3
    assert found["subject"].exposed("confirmed") == 4


def test_parts_of_a_loss_of_commits(one):
    """By the order of the answers to the commits: each transaction is lost or kept as a whole."""
    both = put("t1", 1) + committed("t1") + put("t2", 2) + committed("t2") + killed()
    found = one((record("prefix"), both + settled(2)), (record("tail"), both + settled(1)))

    assert {"prefix": "prefix", "tail": "tail"} == {name: facts.part("lost_committed") for name, facts in found.items()}


def test_the_flush_interval_of_commits(one):
    """Only what was committed within 3 ms before the kill is at risk."""
    early, late = put("t1", 1) + committed("t1"), put("t2", 2) + committed("t2")  # answers at 5 and 10 ms; kill at 11
    found = one((record("subject", flush_ms=3), early + late + killed() + settled(1, 2)))["subject"]

    assert (3_000_000, 1) == (found.window_ns("committed_in_window"), found.exposed("committed_in_window"))


def test_a_broker_that_does_not_tell_its_flush_interval(one):
    """100 ms, whatever a control has lost."""
    found = one(
        (record("subject"), kept(1) + pause(200) + kept(2) + killed() + settled(1, 2)),
        (record("control", arm="control", control="sync=false"), kept(1) + pause(500) + killed() + settled()),
    )

    assert found["subject"].window_ns("confirmed_in_window") == 100_000_000
    assert found["subject"].exposed("confirmed_in_window") == 1


def test_what_is_confirmed_after_the_kill_was_in_flight(one):
    """And is at risk, however short the flush interval is."""
    found = one((record("t", flush_ms=1), kept(1) + pause(5) + sent(2, 3) + killed() + confirmed(2) + settled(1, 2)))

    assert 1 == found["t"].exposed("confirmed_in_window")


def test_commits_at_risk(one):
    """ARTEMIS-TX-09 held with twenty at risk, although no commit was in flight at any kill: then nothing is at risk."""
    old = put("t1", 1, 2) + committed("t1") + pause(50)
    asked = put("t2", 3, 4, 5) + committed("t2", None)
    found = one(
        (record("long answered", flush_ms=3), old + put("t2", 3) + killed() + settled(1, 2)),
        (record("refused", flush_ms=3), put("t1", 1, 2) + committed("t1", Phase.FAIL) + killed() + settled()),
        (record("in flight", flush_ms=3), old + asked + killed() + settled(1, 2)),
        (record("unknown", flush_ms=3), old + asked + killed() + answered(Op.COMMIT, "t2") + settled(1, 2, 3, 4, 5)),
        (record("just answered", flush_ms=3), put("t1", 1, 2) + committed("t1") + killed() + settled(1, 2)),
        (record("asked later", flush_ms=3), put("t1", 1, 2) + killed() + committed("t1", None) + settled()),
    )

    assert {
        "long answered": 0,
        "refused": 0,
        "in flight": 3,
        "unknown": 3,
        "just answered": 2,
        "asked later": 0,
    } == {name: facts.exposed("commits_at_risk") for name, facts in found.items()}
    assert 2 == found["long answered"].applies("half_applied")


@pytest.fixture(scope="module")
def exposed(session, tmp_path_factory):
    """The facts of the history of every exposure, by its name."""
    folder = tmp_path_factory.mktemp("exposures")
    trials = [
        compact(folder / name, write(folder / name, history, record(trial=name, scenario=name)))
        for name, (history, _) in EXPOSED.items()
    ]
    return collect_facts(session.spark, trials)


def test_every_exposure_has_a_history():
    """Each is counted in one."""
    assert set(EXPOSURES) == set(EXPOSED)
    assert all(count > 0 for _, count in EXPOSED.values())


@pytest.mark.parametrize("name", EXPOSED)
def test_exposure(exposed, name):
    """What was at risk, and nothing that is merely close to it."""
    assert EXPOSED[name][1] == exposed[name].exposed(name)


ON_LINK = {**judge_cases_link.EXPOSED, **judge_cases_clients.EXPOSED}


@pytest.mark.parametrize(
    "exposure", ["acknowledged_on_link", "carried", "reached_settled", "flags_on_link", "left_prefetched"]
)
def test_nothing_is_exposed_where_no_frame_was_recorded(exposed, exposure):
    """Deliveries, acknowledgements and transactions of every other history: a check by frames decides nothing there."""
    assert {0} == {facts.exposed(exposure) for name, facts in exposed.items() if name not in ON_LINK}


def test_what_frames_decide_goes_over_a_link():
    """A check by frames in a scenario without a link would never decide anything."""
    by_frames = {name for name, anomaly in ANOMALIES.items() if anomaly.on_link}
    scenarios = scenario.load(claims.load()).values()
    used = [(check.anomaly, item.linked) for item in scenarios for check in item.decides.values()]
    cases = [*judge_cases_link.LINK.values(), *judge_cases_clients.ON_LINK.values()]
    judged = {name for name in by_frames if not ANOMALIES[name].figures}

    assert {anomaly for anomaly, *_ in cases} == judged
    assert {(anomaly, True) for anomaly in by_frames} == {pair for pair in used if pair[0] in by_frames}


def test_only_what_bit_is_effective(one):
    """Several faults of one trial are told apart by their names; one that only fired has not bitten."""
    history = fired("held_sync", "disk-1") + of("publisher-1", Op.FAULT, Phase.FIRED, fault="kill") + fired("cut")
    facts = one((record("t"), kept(1) + history))["t"]

    assert ["held_sync", "cut"] == [name for name in ("held_sync", "kill", "cut", "pause") if facts.effective(name)]


def test_answered_and_never_seen_being_written(one):
    """Only of a run of the broker that was watched: another one's writes nobody looked for."""
    early = sent(1) + confirmed(1)
    later = [(process, {**event, "epoch": 2}) for process, event in kept(2, 3, 4)]
    seen = wrote(3, epoch=2) + synced(3, epoch=2)
    found = one(
        (record("watched"), early + later + seen),
        (record("other"), early + later + wrote(1) + synced(1)),
        (record("refused"), early + later + seen + sync_failed(2, epoch=2) + refused(4)),
        (record("nobody"), early + later),
    )

    assert {"watched": 2, "other": 0, "refused": 0, "nobody": 0} == {
        name: facts.missed("confirmed_before_sync") for name, facts in found.items()
    }


def test_commits_never_seen_being_written(one):
    """As with sends; a rollback may well write nothing."""
    facts = one((record("t"), put("t1", 1, 2) + committed("t1") + put("t2", 3) + rolled_back("t2") + wrote("p2:1")))[
        "t"
    ]

    assert (2, 0) == (facts.missed("committed_before_sync"), facts.missed("rolled_back_before_sync"))


def test_what_the_tracer_could_not_see_is_told(one):
    """The first of several reasons; what it could not see of one message alone hides nothing of the others."""
    alone = of("disk-1", Op.SYNC, Phase.INFO, "p1:1", detail="only its first 32 bytes were shown")
    found = one(
        (record("all"), kept(1) + hidden("mmap") + hidden("io_uring")),
        (record("dumb"), kept(1) + hidden(None)),
        (record("one"), kept(1) + alone),
    )

    assert {"all": "io_uring", "dumb": "", "one": None} == {name: facts.hidden for name, facts in found.items()}


def test_of_two_faults_the_first_is_counted_back_from(one):
    """What is at risk lies before the first, as nothing is done between a halt and a kill; drains count after the last."""
    halted, dead = fired("pause", "publisher-1"), killed()  # confirms at 2 and 4 ms, the halt at 5, the kill at 7
    found = one(
        (record("subject", flush_ms=1), kept(1, 2) + halted + dead + settled(1, 2)),
        (record("between"), kept(1) + halted + settled(1) + dead),
    )

    assert (1_000_000, 1) == (
        found["subject"].window_ns("confirmed_in_window"),
        found["subject"].exposed("confirmed_in_window"),
    )
    assert (True, False) == (found["subject"].settled, found["between"].settled)


def test_foreign_ids_are_strange(one):
    """An id that this suite never makes is counted, and nothing breaks."""
    facts = one((record("t"), kept(1) + came("ID:foreign") + settled(1)))["t"]

    assert facts.strange == 1


def test_late_is_late_and_not_lost(one):
    """Found by the second drain only: late. The trial is settled when a drain after it brings nothing."""
    history = kept(1) + killed() + silent(1) + came(1, drain=2) + silent(2)
    found = one((record("two"), history), (record("three"), history + silent(3)))

    assert {"two": (False, 1), "three": (True, 1)} == {
        name: (facts.settled, facts.counts["all_late"]) for name, facts in found.items()
    }


def test_names_that_are_not_defined_are_refused():
    """A scenario cannot name what the tables do not define."""
    with pytest.raises(CatalogueError, match="anomaly 'misplaced'"):
        check_names([("misplaced", "confirmed")])
    with pytest.raises(CatalogueError, match="exposure 'everything'"):
        check_names([("lost", "everything")])
