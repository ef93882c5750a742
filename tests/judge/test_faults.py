"""What a verdict says where the disk or the link was at fault: rules on counted trials, no Spark."""

import msgspec
import pytest
from judge_evidence import CATALOGUE, evidence, facts, rule
from judge_histories import RUN

from conformance.adapters.external import broker
from conformance.adapters.file.launch_tables import External
from conformance.errors import ExitCode
from conformance.judge import exits, reasons, rules, tally
from conformance.judge.plan.facts import effective_mask
from conformance.judge.rows import Judgement, Verdict
from conformance.scenario import Check, Liar, Scenario, weakened
from conformance.scenario.faults import FAULTS
from conformance.scenario.needs import CLEAN_RESTART
from conformance.scenario.script import (
    SETTLE,
    Cut,
    Delay,
    DiskFull,
    FailedSync,
    Frame,
    HeldSync,
    HoldLink,
    Kill,
    Nth,
    Pause,
    PowerLoss,
    Publish,
    Restart,
    Throttle,
    Watched,
)

OFF = weakened(sync_non_transactional=False)
EARLY = Check("confirmed_before_sync", "sync_held", OFF)
LOST = Check("lost", "confirmed_in_window", OFF)
AT = Nth("confirm", 7)


def script(name, steps, **decides):
    """A scenario of this test alone; underscores in the name of a claim become dashes."""
    return Scenario(name, "", "async_ack", (*steps, *SETTLE), {k.replace("_", "-"): v for k, v in decides.items()})


def under(fault, **decides):
    return script("disk", (Restart(clean=True, under=fault), Publish(9, window=3)), **decides)


def until(fault, **decides):
    return script("until", (Publish(9, window=3, until=fault), Restart()), **decides)


HELD = under(HeldSync(), ARTEMIS_SEND_09=EARLY, ARTEMIS_SEND_10=EARLY, ARTEMIS_SEND_11=EARLY, QPID_PERS_03=EARLY)
KILLED = until(Kill(AT), ARTEMIS_SEND_09=LOST, SOLCD_ACK_01=LOST)
EARLY_SEEN = {"confirmed_before_sync": 3}
CLEAN, BROKEN = [facts()] * 3, [facts(offends=EARLY_SEEN)] * 3
LOSSY = [facts(offends={"lost": 3})] * 3


def held(claim, *args, run=RUN, of=HELD):
    return rule(claim, of.id, *args, label=OFF.label, run=run, scenarios={of.id: of})


def test_a_claim_of_the_disk_holds_where_a_sync_was_held():
    row = held("ARTEMIS-SEND-09", CLEAN, BROKEN)

    assert (Verdict.HOLDS, "held_sync", "slow disk") == (row.verdict, row.fault, row.failure_model), row.reason
    assert (
        "0 of 300 persistent messages were confirmed before a sync of their record had returned in 3 starts with "
        "held syncs (at least 50 at risk in each). Up to 63 % of starts with held syncs could still "
        "violate the claim (95 % confidence, if they are independent). The control failed in 3 of 3 "
        "starts with held syncs; a broker as weak as the control would pass with the chance q = 0.029. Failure model: "
        "slow disk."
    ) == row.reason


def test_a_check_of_the_disk_needs_no_drained_queue():
    assert Verdict.HOLDS == held("ARTEMIS-SEND-09", [facts(was_settled=False)] * 3, BROKEN).verdict


def test_a_confirm_before_its_sync_violates():
    row = held("ARTEMIS-SEND-09", [*CLEAN[:2], facts(offends=EARLY_SEEN)])

    assert Verdict.VIOLATED == row.verdict
    assert row.reason.startswith(
        "3 of 300 persistent messages were confirmed before a sync of their record had returned: "
        "seen once in 3 starts with held syncs."
    ), row.reason


def test_a_broker_that_never_syncs_is_no_error_of_the_suite():
    """There was no sync to hold, so the fault had no effect; its early confirms count all the same."""
    never = [facts(offends=EARLY_SEEN, effective=())] * 3
    idle = [facts(effective=())] * 3
    row = held("ARTEMIS-SEND-09", never)

    assert (Verdict.VIOLATED, 3, 0) == (row.verdict, row.trials, row.void)
    assert Verdict.HOLDS == held("ARTEMIS-SEND-09", CLEAN, never).verdict
    assert Verdict.HARNESS_ERROR == held("ARTEMIS-SEND-09", idle).verdict


def test_what_no_fault_is_needed_for_at_the_disk_is_needed_elsewhere():
    tame = [facts(offends={"lost": 1}, effective=())] * 3

    assert Verdict.HARNESS_ERROR == held("SOLCD-ACK-01", tame, of=KILLED).verdict


def test_another_fault_that_took_effect_is_not_this_one():
    """A script with two: the held sync took effect, and the kill never came."""
    halves = [facts(effective=("held_sync",))] * 3

    assert Verdict.HARNESS_ERROR == held("SOLCD-ACK-01", halves, of=KILLED).verdict
    assert Verdict.HOLDS == held("SOLCD-ACK-01", [facts(effective=("held_sync", "kill"))] * 3, LOSSY, of=KILLED).verdict


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        (
            [facts(hidden_at_disk="io_uring", applies=0), *CLEAN[:2]],
            "how the broker writes in 1 of 3 starts with held syncs: io_uring.",
        ),
        ([facts(hidden_at_disk="", applies=0)] * 3, "how the broker writes in 3 of 3 starts with held syncs."),
        (
            [facts(missed_confirmed_before_sync=2), *CLEAN[:2]],
            "The write of the record was not seen for 2 more that were answered",
        ),
        ([facts(exposed=0), *CLEAN[:2]], "Nothing was at risk in 1 of 3 starts with held syncs (sync held)"),
    ],
)
def test_what_cannot_be_seen_at_the_disk_decides_nothing(subject, words):
    row = held("ARTEMIS-SEND-09", subject, BROKEN)

    assert (Verdict.INCONCLUSIVE, True) == (row.verdict, words in row.reason), row.reason


def test_what_cannot_be_seen_matters_only_at_the_disk():
    row = held("SOLCD-ACK-01", [facts(hidden_at_disk="io_uring")] * 3, LOSSY, of=KILLED)

    assert Verdict.HOLDS == row.verdict, row.reason


WEAK = msgspec.structs.replace(RUN, settings={**RUN.settings, "sync_non_transactional": False})


def test_the_permission_to_confirm_early():
    """With the sync switched off, a confirm before the sync is allowed."""
    row = held("ARTEMIS-SEND-11", BROKEN, run=WEAK)

    assert (Verdict.WITNESSED, "slow disk") == (row.verdict, row.failure_model)
    assert (
        "9 of 300 persistent messages were confirmed before a sync of their record had returned, in 3 starts with "
        "held syncs."
    ) == row.reason


def test_a_permission_says_what_could_not_be_seen():
    row = held("ARTEMIS-SEND-11", [facts(hidden_at_disk="msync", applies=0)] * 3, run=WEAK)

    assert Verdict.NOT_WITNESSED == row.verdict
    assert row.reason.endswith(
        "The tracer could not see how the broker writes in 3 of 3 starts with held syncs: msync."
    )


def test_whether_confirms_wait_is_reported():
    run = msgspec.structs.replace(RUN, profiles=("qpid",), settings={"persistence": True})
    row = held("QPID-PERS-03", CLEAN, run=run)

    assert Verdict.OBSERVED == row.verdict
    assert row.reason.startswith("Observed here: 0 of 300 persistent messages were confirmed before a")


DEFAULT = msgspec.structs.replace(
    RUN, adapter="artemis", absent=("sync_non_transactional",), changed={"journal_buffer_ms": 5, "data_sync": True}
)


@pytest.mark.parametrize(("configuration", "base"), [("", "stock"), ("broker.xml", "the configuration that was given")])
def test_a_default_differs_from_its_opposite(configuration, base):
    """The weakened control is the opposite setting, and the key is shown to be absent."""
    run = msgspec.structs.replace(DEFAULT, configuration=configuration)
    row = held("ARTEMIS-SEND-10", CLEAN, BROKEN, run=run)

    assert Verdict.HOLDS == row.verdict, row.reason
    assert "The opposite setting (sync_non_transactional=false) failed in 3 of 3" in row.reason
    assert row.reason.endswith(
        f"Absent from the effective configuration: sync_non_transactional. Changed from {base}: journal_buffer_ms=5, "
        "data_sync=true."
    )


def test_a_default_that_is_the_opposite_is_violated():
    row = held("ARTEMIS-SEND-10", BROKEN, run=msgspec.structs.replace(DEFAULT, changed={}))

    assert Verdict.VIOLATED == row.verdict
    assert row.reason.endswith("sync_non_transactional. Changed from stock: nothing.")


def test_a_setting_that_is_there_is_no_default():
    row = held("ARTEMIS-SEND-10", CLEAN, BROKEN)

    assert (Verdict.NOT_APPLICABLE, False) == (row.verdict, "Absent from" in row.reason)


FULL = under(DiskFull(7), ARTEMIS_SEND_09=Check("lost", "confirmed", Liar("liar")))


def test_a_failing_disk_alone_decides_nothing_of_the_disk():
    broken = evidence(FULL.id, CLEAN, [facts(offends={"lost": 1})], label="liar liar")
    row = next(r for r in rules.rows(CATALOGUE, {FULL.id: FULL}, broken, {}) if r.scenario)

    assert (Verdict.INCONCLUSIVE, "full disk") == (row.verdict, row.failure_model)
    assert row.reason.startswith(
        "A failing disk only: a held sync or a power loss shows whether answers wait for a disk"
    )


LOST_POWER = script("power", (Publish(9, window=3, until=PowerLoss(AT)), Restart()), ARTEMIS_SEND_09=LOST)


def both(at_disk, killed=CLEAN, died=LOSSY, run=RUN, power=(), second=KILLED):
    """The rows of one claim that was tried with a held sync, with a kill, and perhaps with a power loss."""
    trials, known = [], {}
    played = [(HELD, at_disk, BROKEN), (second, killed, died), (LOST_POWER, power, LOSSY)][: 3 if power else 2]
    for item, subject, control in played:
        found = evidence(item.id, subject, control, label=OFF.label, run=run)
        trials += [msgspec.structs.replace(each, trial=f"{item.id}.{each.trial}") for each in found.trials]
        known |= {f"{item.id}.{name}": counted for name, counted in found.facts.items()}
    rows = rules.rows(CATALOGUE, {item.id: item for item, _, _ in played}, tally.ClaimEvidence(run, trials, known), {})
    mine = [row for row in rows if row.claim == "ARTEMIS-SEND-09"]
    return mine, exits.exit_code(Judgement(run=run, rows=tuple(mine), self_checks=(), trials=()))


def test_decided_at_the_disk():
    """The kill alone decides nothing: its row stays inconclusive, names the stronger test, and changes no exit code."""
    (disk, kill), code = both(CLEAN)

    assert (Verdict.HOLDS, Verdict.INCONCLUSIVE, ExitCode.CONFORMANT) == (disk.verdict, kill.verdict, code)
    assert ("", "disk") == (disk.decided_by, kill.decided_by)
    assert kill.reason.endswith("Covered by a stronger test: disk.")


@pytest.mark.parametrize(
    ("at_disk", "killed", "died"),
    [
        ([], CLEAN, LOSSY),  # the disk was not tried
        (CLEAN[:2], CLEAN, LOSSY),  # too few trials there
        (CLEAN, [facts(exposed=0)] * 3, LOSSY),  # the kill has an obstacle of its own
        (CLEAN, CLEAN, CLEAN),  # and a control that was not seen to fail is one
    ],
)
def test_not_decided_at_the_disk(at_disk, killed, died):
    rows, code = both(at_disk, killed, died)

    assert ([""] * 2, ExitCode.INCONCLUSIVE) == ([row.decided_by for row in rows], code)
    assert not any("Covered by" in row.reason for row in rows)


FAILED = script(
    "failing",
    (Restart(clean=True, under=FailedSync(3)), Publish(9, window=3), Restart()),
    ARTEMIS_SEND_09=Check("lost", "confirmed", OFF),
)
MET_NOTHING = [facts(applies=0, exposed=0)] * 3


@pytest.mark.parametrize(
    ("subject", "control", "by"),
    [
        (MET_NOTHING, LOSSY, "disk"),
        ([*MET_NOTHING[:2], facts()], LOSSY, "disk"),  # the third met something, and did nothing wrong
        (MET_NOTHING, CLEAN, ""),  # a control that was not seen to fail
        ([*MET_NOTHING[:2], facts(exposed=0)], LOSSY, ""),  # it met something, and nothing was at risk
        ([facts(applies=0, exposed=0, was_settled=False), *MET_NOTHING[:2]], LOSSY, ""),  # the queue was not drained
    ],
)
def test_a_failing_disk_that_met_nothing_leaves_the_claim_decided(subject, control, by):
    """It says nothing for or against the claim; a kill that met nothing keeps it open."""
    (disk, failing), code = both(CLEAN, subject, control, second=FAILED)

    assert ("HOLDS", "INCONCLUSIVE", by) == (disk.verdict, failing.verdict, failing.decided_by)
    assert failing.reason.startswith(("The check applied to nothing in", "The queue was not drained"))
    assert (ExitCode.CONFORMANT if by else ExitCode.INCONCLUSIVE) == code
    assert "" == both(CLEAN, MET_NOTHING, control)[0][1].decided_by


def test_what_is_open_at_the_disk_keeps_the_others_open():
    """The claim holds with a held sync, but too few power losses leave it undecided."""
    rows, code = both(CLEAN, power=CLEAN[:2])

    assert ["HOLDS", "INCONCLUSIVE", "INCONCLUSIVE"] == [row.verdict for row in rows]
    assert ([""] * 3, ExitCode.INCONCLUSIVE) == ([row.decided_by for row in rows], code)
    assert ["", "disk", ""] == [row.decided_by for row in both(CLEAN, power=CLEAN)[0]]


def test_what_is_decided_at_the_disk_spares_no_violation():
    (_, kill), code = both(CLEAN, LOSSY)

    assert (Verdict.VIOLATED, ExitCode.VIOLATED) == (kill.verdict, code)


def test_decided_at_the_disk_as_the_user_requires():
    run = msgspec.structs.replace(RUN, profiles=("ems",), judged_as=("artemis",))
    (disk, kill), code = both(CLEAN, run=run)

    assert (True, "disk", ExitCode.CONFORMANT) == (disk.required and kill.required, kill.decided_by, code)


UNABLE = msgspec.structs.replace(RUN, unable={"held_sync": "no strace: apt-get install strace", "kill": "no pidfd."})


def test_a_fault_that_this_machine_cannot_do():
    why = "This machine cannot do held_sync: no strace: apt-get install strace."
    torn = msgspec.structs.replace(UNABLE, finished=False)

    for run in (UNABLE, torn):
        row = held("ARTEMIS-SEND-09", [], run=run)
        assert (Verdict.NOT_TRIED, why) == (row.verdict, row.reason)
    other = msgspec.structs.replace(UNABLE, unable={"held_sync": "no strace"})
    assert "The run has no trial of its scenario." == held("SOLCD-ACK-01", [], of=KILLED, run=other).reason


def test_a_fault_that_an_external_broker_has_no_command_for():
    """The reason names the field of the owner's file, not the machine."""
    commands = "external.pause.command and external.resume.command"
    run = msgspec.structs.replace(
        RUN,
        launcher="external",
        unable={fault: broker.why_not(External(), FAULTS[fault]) for fault in ("kill", "pause")},
    )
    killed = held("SOLCD-ACK-01", [], of=KILLED, run=run)
    halted = held("SOLCD-ACK-01", [], of=until(Pause(AT), SOLCD_ACK_01=LOST), run=run)

    assert (Verdict.NOT_TRIED, "external") == (killed.verdict, killed.launcher)
    assert killed.reason == (
        "No kill of an external broker: there is no command for it. Give external.kill.command in the broker's file "
        "(docs/how-to/external-brokers.md), and it is tried."
    )
    assert halted.reason.startswith(f"No pause of an external broker: there is no command for it. Give {commands} in")


def test_a_need_that_an_external_broker_has_no_command_for():
    run = msgspec.structs.replace(
        RUN, launcher="external", unable={CLEAN_RESTART.name: broker.why_not(External(), CLEAN_RESTART)}
    )
    steps = (Publish(9, window=3), Restart(clean=True), Publish(9, window=3))
    row = held("SOLCD-ACK-01", [], of=script("stopped", steps, SOLCD_ACK_01=LOST), run=run)

    assert row.reason.startswith("It needs a clean restart: there is no command for it. Give external.stop.command in")


def test_a_name_of_a_fault_with_two():
    halted = until(Pause(AT, then_kill=True), SOLCD_ACK_01=LOST)

    assert "This machine cannot do kill: no pidfd." == held("SOLCD-ACK-01", [], of=halted, run=UNABLE).reason


def test_a_machine_that_could_when_it_was_recorded():
    assert Verdict.HOLDS == held("ARTEMIS-SEND-09", CLEAN, BROKEN, run=UNABLE).verdict


@pytest.mark.parametrize(
    ("of", "claim", "units", "model"),
    [
        (until(PowerLoss(AT), SOLCD_ACK_01=LOST), "SOLCD-ACK-01", "1 trial", "no fault"),
        (until(PowerLoss(AT), ARTEMIS_SEND_09=LOST), "ARTEMIS-SEND-09", "1 power loss", "power loss"),
        (under(FailedSync(3), ARTEMIS_SEND_09=EARLY), "ARTEMIS-SEND-09", "1 trial with failed syncs", "failing disk"),
        (under(DiskFull(3), ARTEMIS_SEND_09=EARLY), "ARTEMIS-SEND-09", "1 full disk", "full disk"),
        (until(Cut(Frame("send", 3)), SOLCD_ACK_02=LOST), "SOLCD-ACK-02", "1 cut", "loss of the connection"),
        (until(HoldLink(Frame("send", 3)), SOLPUB_WIN_02=LOST), "SOLPUB-WIN-02", "1 held link", "link held for a time"),
        (until(Delay(20), SOLCD_SEND_04=LOST), "SOLCD-SEND-04", "1 slow link", "slow link"),
        (until(Pause(AT, then_kill=True), SOLCD_ACK_01=LOST), "SOLCD-ACK-01", "1 kill", "process halted, then killed"),
        (until(Pause(AT), EMS_STEP_02=LOST), "EMS-STEP-02", "1 trial", "no fault"),
        (until(Pause(AT), SOLPUB_WIN_01=LOST), "SOLPUB-WIN-01", "1 pause", "process halted for a time"),
    ],
)
def test_the_fault_that_decided_is_named(of, claim, units, model):
    counted = tally.count(evidence(of.id, CLEAN), CATALOGUE.claim(claim), of, of.decides[claim], {of.id: of})

    assert (units, model) == (reasons.units(counted, 1), reasons.failure_model(counted))


def test_of_two_faults_the_one_that_the_claim_names():
    two = script(
        "two",
        (Restart(under=HeldSync()), Publish(9, window=1, until=Kill(AT))),
        ARTEMIS_SEND_09=LOST,
        SOLCD_ACK_01=LOST,
    )
    claim = msgspec.structs.replace(CATALOGUE.claim("ARTEMIS-SEND-09"), faults=("held_sync",))
    slow = tally.count(evidence(two.id, CLEAN), claim, two, LOST, {two.id: two})
    dead = tally.count(evidence(two.id, CLEAN), CATALOGUE.claim("SOLCD-ACK-01"), two, LOST, {two.id: two})

    assert ("slow disk", "process death") == (reasons.failure_model(slow), reasons.failure_model(dead))


def test_every_fault_has_its_words_and_its_bit():
    """A disk that is only watched is not a fault."""
    words = {name: reasons.count_faults(name, 2) for name in FAULTS}

    assert ["watched"] == [name for name, said in words.items() if said == "2 trials"]
    assert len(set(words.values())) == len(FAULTS)
    assert len(FAULTS) == len({effective_mask(name) for name in FAULTS})
    assert {Throttle.name, Watched.name, PowerLoss.name} <= set(FAULTS)
