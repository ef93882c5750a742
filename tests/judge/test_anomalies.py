"""Every anomaly and exposure on literal histories of a few events, all of them in one Spark job."""

import pytest
from judge_cases import BY_FRAMES, CASES, EXPOSED, EXPOSED_BY_FRAMES, TABLES
from judge_histories import record, write
from judge_words import framed, history, table

from conformance import claims, scenario
from conformance.errors import CatalogueError
from conformance.judge.anomalies import ANOMALIES
from conformance.judge.input.packing import compact_all
from conformance.judge.plan.exposures import EXPOSURES, check_names
from conformance.judge.verdict import collect_facts

pytestmark = pytest.mark.spark

FRAMES = [
    event
    for number, message in enumerate(("p1:1", "p1:2", "p2:1", "p2:2"), 1)
    for event in framed("transfer handle=0", to="to_client", message=message, delivery=str(number))
]

# The number is the flush interval in ms. An event takes a millisecond.
OTHERS = table("""
[rates: two sends in 3 ms; a transaction whose third to eighth event takes 5 ms]
0 rates: kept p1:1, kept p1:2, put t1 p2:1 p2:2, committed t1, kept p3:1
0 rate of one producer: kept p1:1, kept p1:2

[parts of a loss]
0 lost prefix: kept 1 2 3, killed, settled 2 3
0 lost middle: kept 1 2 3, killed, settled 1 3
0 lost tail: kept 1 2 3, killed, settled 1
0 lost all: kept 1 2, killed, settled
0 lost nothing: kept 1, killed, settled 1
0 lost first commit: put t1 1, committed t1, put t2 2, committed t2, killed, settled 2
0 lost last commit: put t1 1, committed t1, put t2 2, committed t2, killed, settled 1

[flush intervals: confirms at 2, and at 6 to 8, and the kill at 9 ms; commits at 5 and 10, and the kill at 11 ms]
3 confirms before a kill: kept 1, kept 2 3 4, killed, settled 1 2 3 4
3 commits before a kill: put t1 1, committed t1, put t2 2, committed t2, killed, settled 1 2
0 no flush interval: kept 1, pause 200, kept 2, killed, settled 1 2
1 confirmed after the kill: kept 1, pause 5, sent 2 3, killed, confirmed 2, settled 1 2
# Confirms at 2 and 4 ms, the halt at 5, the kill at 7.
1 two faults: kept 1 2, fired pause publisher-1, killed, settled 1 2
0 drained between two faults: kept 1, fired pause publisher-1, settled 1, killed

[commits]
3 commit long answered: put t1 1 2, committed t1, pause 50, put t2 3, killed, settled 1 2
3 commit refused: put t1 1 2, committed t1 FAIL, killed, settled
3 commit in flight: put t1 1 2, committed t1, pause 50, put t2 3 4 5, committed t2 None, killed, settled 1 2
3 commit unknown: put t1 1 2, committed t1, pause 50, put t2 3 4 5, committed t2 None, killed, answered COMMIT t2,
    settled 1 2 3 4 5
3 commit just answered: put t1 1 2, committed t1, killed, settled 1 2
0 commit answered a while before: put t1 1 2, committed t1, pause 90, killed, settled 1 2
0 commit answered before: put t1 1 2, committed t1, pause 5, killed, settled 1 2
3 commit asked later: put t1 1 2, killed, committed t1 None, settled

[the disk]
0 faults: kept 1, fired held_sync disk-1, of publisher-1 FAULT FIRED fault=kill, fired cut
0 watched: kept 1, sent 2 3 4 epoch=2, confirmed 2 3 4 epoch=2, wrote 3 epoch=2, synced 3 epoch=2
0 other run watched: kept 1, sent 2 3 4 epoch=2, confirmed 2 3 4 epoch=2, wrote 1, synced 1
0 watched and refused: kept 1, sent 2 3 4 epoch=2, confirmed 2 3 4 epoch=2, wrote 3 epoch=2, synced 3 epoch=2,
    sync_failed 2 epoch=2, refused 4
0 unwatched: kept 1, sent 2 3 4 epoch=2, confirmed 2 3 4 epoch=2
0 commits unwritten: put t1 1 2, committed t1, put t2 3, rolled_back t2, wrote p2:1
0 hidden twice: kept 1, hidden mmap, hidden io_uring
0 hidden without a reason: kept 1, hidden None
0 hidden of one message: kept 1, of disk-1 SYNC INFO p1:1 detail="only its first 32 bytes were shown"

[three kills, the third of them long after the last confirm]
9 nothing lost: kept_in 1 1, killed, kept_in 2 1, pause 5, killed epoch=2, kept_in 3 1, pause 200, killed epoch=3,
    settled p1:1 p2:1 p3:1 epoch=4
3 nothing lost in 3 ms: kept_in 1 1, killed, kept_in 2 1, pause 5, killed epoch=2, settled p1:1 p2:1 epoch=3
9 lost by the second: kept_in 1 1, killed, kept_in 2 1, pause 5, killed epoch=2, kept_in 3 1, pause 200, killed epoch=3,
    settled p1:1 p3:1 epoch=4
9 lost by the first and the third: kept_in 1 1, killed, kept_in 2 1, pause 5, killed epoch=2, kept_in 3 1, pause 200,
    killed epoch=3, settled p2:1 epoch=4
9 commits before two kills: put t1 1, committed t1, killed, of publisher-2 BEGIN INVOKE transaction=t1 epoch=2,
    of publisher-2 SEND INVOKE p2:1 transaction=t1 durable=True epoch=2,
    of publisher-2 COMMIT INVOKE transaction=t1 epoch=2, killed publisher-2 epoch=2, settled 1 epoch=3

[ages]
0 lost by age: kept 1, pause 300, kept 2 3, killed, settled 1 2

[others]
0 foreign id: kept 1, came ID:foreign, settled 1
0 late, two drains: kept 1, killed, silent 1, came 1 drain=2, silent 2
0 late, three drains: kept 1, killed, silent 1, came 1 drain=2, silent 2, silent 3
""")
OTHERS = {name: case for cases in OTHERS.values() for name, case in cases.items()}
OTHERS["frames"] = (0, history("kept p1:1 p1:2 p2:1 p2:2") + FRAMES + history("disposed 1, disposed 2, disposed 3 4"))


@pytest.fixture(scope="module")
def facts(session, tmp_path_factory):
    """The facts of every history, by its name."""
    histories = {name: (0, case[-1]) for name, case in (CASES | EXPOSED).items()} | OTHERS
    folder = tmp_path_factory.mktemp("cases")
    trials = []
    for number, (name, (flush_ms, events)) in enumerate(histories.items()):
        about = record(trial=name, scenario=name, flush_ms=flush_ms)
        trials.append((folder / str(number), write(folder / str(number), events, about)))
    assert len(CASES) + len(EXPOSED) + len(OTHERS) == len(trials)
    return collect_facts(session.spark, compact_all(trials))


@pytest.mark.parametrize("name", CASES)
def test_case(facts, name):
    anomaly, applies, offences, _ = CASES[name]

    assert (applies, offences) == (facts[name].applies(anomaly), facts[name].offences(anomaly))


def test_every_anomaly_is_caught_and_cleared():
    """Each anomaly has a history that offends and one that does not; figures accuse no broker."""
    judged = {name for name, anomaly in ANOMALIES.items() if anomaly.offends != "false"}
    caught = {anomaly for anomaly, _, offences, _ in CASES.values() if offences}
    cleared = {anomaly for anomaly, applies, offences, _ in CASES.values() if applies and not offences}

    assert judged == caught
    assert judged <= cleared


def test_no_case_hides_another():
    assert sum(len(cases) for part in TABLES for cases in part.values()) == len(CASES)


def test_the_lost_are_named(facts):
    assert (("q", 1, 2),) == facts["a confirmed message that never came is lost"].failing["lost"].witnesses


@pytest.mark.parametrize("name", EXPOSED)
def test_exposure(facts, name):
    assert EXPOSED[name][0] == facts[name].exposed(name)


def test_every_exposure_has_a_history():
    assert set(EXPOSURES) == set(EXPOSED)
    assert all(count > 0 for count, _ in EXPOSED.values())


@pytest.mark.parametrize(
    "exposure", ["acknowledged_on_link", "carried", "reached_settled", "flags_on_link", "left_prefetched"]
)
def test_nothing_is_exposed_without_a_recorded_frame(facts, exposure):
    """Deliveries, acknowledgements and transactions of the other histories: a check by frames decides nothing there."""
    assert {0} == {facts[name].exposed(exposure) for name in EXPOSED if name not in EXPOSED_BY_FRAMES}


def test_what_frames_decide_goes_over_a_link():
    by_frames = {name for name, anomaly in ANOMALIES.items() if anomaly.on_link}
    scenarios = scenario.load(claims.load()).values()
    used = [(check.anomaly, item.linked) for item in scenarios for check in item.decides.values()]

    assert set(BY_FRAMES) == {name for name in by_frames if not ANOMALIES[name].figures}
    assert {(anomaly, True) for anomaly in by_frames} == {pair for pair in used if pair[0] in by_frames}


def test_rates_of_styles_side_by_side(facts):
    """Of each producer: from its first send to its last answer, or the answer to its last commit."""
    rates = [facts["rates"].figure("rates_of_sending", place) for place in range(3)]

    assert [2 / 0.003, 2 / 0.005, 1 / 0.001] == rates
    assert facts["rates"].offences("rates_of_sending") == 0
    assert facts["rate of one producer"].figure("rates_of_sending", 1) is None


def test_frames_of_acknowledgements_are_counted_once(facts):
    """A frame that acknowledges two messages is one frame of 300 bytes."""
    assert [2, 600, 1, 300] == [facts["frames"].figure("frames_of_acknowledgements", place) for place in range(4)]


@pytest.mark.parametrize(
    ("name", "anomaly", "part"),
    [
        ("lost prefix", "lost", "prefix"),
        ("lost middle", "lost", "middle"),
        ("lost tail", "lost", "tail"),
        ("lost all", "lost", "all"),
        ("lost nothing", "lost", ""),
        ("lost first commit", "lost_committed", "prefix"),
        ("lost last commit", "lost_committed", "tail"),
    ],
)
def test_part_of_a_loss(facts, name, anomaly, part):
    assert part == facts[name].part(anomaly)


@pytest.mark.parametrize(
    ("name", "exposure", "window_ms", "exposed"),
    [
        ("confirms before a kill", "confirmed_in_window", 3, 3),
        ("confirms before a kill", "confirmed", None, 4),
        ("commits before a kill", "committed_in_window", 3, 1),
        ("no flush interval", "confirmed_in_window", 100, 1),
        ("confirmed after the kill", "confirmed_in_window", 1, 1),
        # Nothing is done between a halt and a kill: the window ends at the first fault.
        ("two faults", "confirmed_in_window", 1, 1),
    ],
)
def test_flush_interval(facts, name, exposure, window_ms, exposed):
    """Only operations that the broker may not have written at the fault are at risk, or were in flight then."""
    window = facts[name].window_ns(exposure)

    assert (window_ms and window_ms * 1_000_000, exposed) == (window, facts[name].exposed(exposure))


@pytest.mark.parametrize(
    ("name", "exposed"),
    [
        ("commit long answered", 0),
        ("commit refused", 0),
        ("commit in flight", 3),
        ("commit unknown", 3),
        ("commit just answered", 2),
        # Of this broker no flush interval is known, and 100 ms are assumed: that says nothing of a commit that is over.
        ("commit answered a while before", 0),
        ("commit answered before", 2),
        ("commit asked later", 0),
    ],
)
def test_commits_at_risk(facts, name, exposed):
    """Counter-example: ARTEMIS-TX-09 held with twenty at risk, although no commit was in flight at any kill."""
    assert exposed == facts[name].exposed("commits_at_risk")
    assert 2 == facts["commit long answered"].applies("half_applied")


@pytest.mark.parametrize(
    ("name", "anomaly", "exposure", "faults", "offended"),
    [
        ("nothing lost", "lost", "confirmed_in_window", 2, 0),
        ("nothing lost", "lost", "confirmed", 3, 0),
        ("nothing lost", "lost", "expired", 1, 0),
        ("lost by the second", "lost", "confirmed_in_window", 2, 1),
        # What was lost was at risk, however long before the kill it was confirmed.
        ("lost by the first and the third", "lost", "confirmed_in_window", 3, 2),
        ("lost by the first and the third", "lost", "confirmed", 3, 2),
        ("commits before two kills", "half_applied", "commits_at_risk", 2, 0),
    ],
)
def test_each_fault_of_a_trial_counts_for_itself(facts, name, anomaly, exposure, faults, offended):
    """A kill that met nothing at risk is no evidence; a check that asks for no moment has one a trial at least."""
    found = facts[name]

    assert (faults, offended) == (found.faults(anomaly, exposure), found.offended_faults(anomaly, exposure))


def test_the_share_lost_of_each_age(facts):
    """One of two young messages, none of the old one; the lost one was confirmed a millisecond before the kill."""
    assert [50, None, 0, 1] == [facts["lost by age"].figure("lost_though_old", place) for place in range(4)]


@pytest.mark.parametrize(("window_ms", "faults"), [(3, 1), (10, 2), (100, 2)])
def test_which_faults_would_have_shown_a_loss_window(facts, window_ms, faults):
    """The kills came 1, 6 and 201 ms after the last confirm."""
    assert faults == facts["nothing lost"].faults_within("confirmed_in_window", window_ms)


def test_a_fault_that_does_not_count_shows_no_loss_window(facts):
    """Counter-example: "44 of these 39 kills". The second kill came 6 ms after the answer, beyond the interval of 3."""
    found = facts["nothing lost in 3 ms"]

    assert (1, 1) == (found.faults("lost", "confirmed_in_window"), found.faults_within("confirmed_in_window", 10))


def test_only_a_fault_that_took_effect_is_effective(facts):
    """The judge distinguishes the faults of one trial by name. A fault that only fired is not effective."""
    found = facts["faults"]

    assert ["held_sync", "cut"] == [name for name in ("held_sync", "kill", "cut", "pause") if found.effective(name)]


@pytest.mark.parametrize(
    ("name", "missed"), [("watched", 2), ("other run watched", 0), ("watched and refused", 1), ("unwatched", 0)]
)
def test_answered_and_never_seen_being_written(facts, name, missed):
    assert missed == facts[name].missed("confirmed_before_sync")


def test_commits_never_seen_being_written(facts):
    found = facts["commits unwritten"]

    assert (2, 0) == (found.missed("committed_before_sync"), found.missed("rolled_back_before_sync"))


@pytest.mark.parametrize(
    ("name", "reason"), [("hidden twice", "io_uring"), ("hidden without a reason", ""), ("hidden of one message", None)]
)
def test_what_the_tracer_could_not_see(facts, name, reason):
    """The first of several reasons; a reason about one message does not hide the others."""
    assert reason == facts[name].hidden


def test_drains_count_after_the_last_fault(facts):
    assert (True, False) == (facts["two faults"].settled, facts["drained between two faults"].settled)


def test_foreign_ids_are_strange(facts):
    assert facts["foreign id"].strange == 1


@pytest.mark.parametrize(("name", "settled"), [("late, two drains", False), ("late, three drains", True)])
def test_late_is_late_and_not_lost(facts, name, settled):
    """The trial is settled when a drain after the late one brings nothing."""
    assert (settled, 1) == (facts[name].settled, facts[name].counts["all_late"])


def test_names_that_are_not_defined_are_refused():
    with pytest.raises(CatalogueError, match="anomaly 'misplaced'"):
        check_names([("misplaced", "confirmed")])
    with pytest.raises(CatalogueError, match="exposure 'everything'"):
        check_names([("lost", "everything")])
