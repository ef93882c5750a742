"""The reasons of verdicts, word for word, on counted trials: no Spark."""

import msgspec
import pytest
from judge_evidence import CATALOGUE, facts, rule
from judge_histories import RUN

from conformance.claims import Kind
from conformance.judge import reasons

KILL, AUTO, HELD = "broker-killed-while-publishing", "consumer-killed-under-auto", "sync-held-while-sending"
WEAK = msgspec.structs.replace(RUN, settings={**RUN.settings, "sync_non_transactional": False})
SYNCS = msgspec.structs.replace(RUN, capabilities=(*RUN.capabilities, "confirm_means_synced"))
QPID = msgspec.structs.replace(RUN, profiles=("qpid",), settings={"persistence": True})
CLEAN, IDLE = [facts()] * 3, [facts(applies=0)] * 3
SYNCED = "0 of 300 persistent messages were confirmed before a sync of their record had returned"
LATE = {"unanswered_send": 1}
TEN_KILLS = {"met_confirmed_in_window": 0b1111111111}


def lost(first=None, last=None, **counts):
    """A trial that lost the messages of the times 5 and 6, and kept those from `first` to `last`."""
    return facts(offends={"lost": 3}, kept_first_lost=first, kept_last_lost=last, **counts)


ALL, PREFIX, MIDDLE, TAIL = lost(), lost(7, 9), lost(1, 9), lost(1, 2)


@pytest.mark.parametrize(
    ("words", "expected"),
    [("no port was free", "no port was free."), ("no port was free.", "no port was free."), ("queue X.", "queue X.")],
)
def test_a_sentence_ends_with_one_full_stop(words, expected):
    assert expected == reasons.sentence(words)


def test_a_claim_that_holds_without_a_fault():
    row = rule("EMS-STEP-02", AUTO, CLEAN, [facts(offends=LATE)] * 3, "liar never-answers-one-send")

    assert row.reason == (
        "0 of 300 persistent sends left without an answer in 3 trials (at least 50 exposed in each). Up to 63 % of "
        "trials could still violate the claim (95 % confidence, if they are independent). The check was seen to "
        "fail on the liar never-answers-one-send (3 of 3), which proves the check, not the exposure. Failure model: no fault."
    )


def test_a_claim_that_holds_in_one_trial_of_many_kills():
    row = rule(
        "SOLCD-ACK-01",
        KILL,
        [facts(met_100_confirmed_in_window=0b1111, **TEN_KILLS)],
        [facts(offends={"lost": 3}, tail=True)] * 3,
    )

    assert row.reason.startswith(
        "0 of 100 confirmed messages lost in 10 kills of 1 trial (at least 50 at risk in each)."
    )
    assert (
        "would have lost messages in at least 0, 0 or 4 of these 10 kills. A loss in one of ten would have been seen with "
        "65 %, in one of a hundred with 10 %."
    ) in row.reason


def test_an_orderly_stop_shows_no_late_storing():
    """The broker stores what it has answered before it ends, so the same figures say nothing of a delay."""
    stopped = facts(met_100_confirmed_in_window=0b1111, **TEN_KILLS)
    row = rule("SOLCD-ACK-01", "broker-stopped-while-publishing", [stopped] * 3, [ALL] * 3, label="persistence=false")

    assert "HOLDS" == row.verdict
    assert "would have lost" not in row.reason


def test_an_orderly_stop_of_nodes_shows_none_either():
    stopped = facts(met_100_confirmed_in_window=0b1111, exposed=400, **TEN_KILLS)
    asked, run = (
        "EXPECT-FAILOVER-01",
        msgspec.structs.replace(RUN, required=("EXPECT-FAILOVER-01",), settings={"nodes": 3}),
    )
    label = "liar in-step-without-what-it-missed"
    row = rule(asked, "nodes-restarted-in-turn", [stopped] * 3, [ALL] * 3, label=label, run=run)

    assert ("HOLDS", "stop_nodes") == (row.verdict, row.fault)
    assert "would have lost" not in row.reason


@pytest.mark.parametrize(
    ("subject", "seen", "parts"),
    [
        ([ALL], "seen in 1 of 1 kill", ["all confirmed messages"]),
        ([TAIL, TAIL], "seen in 2 of 2 kills", ["the last confirmed messages in 2 kills"]),
        (
            [ALL, PREFIX, MIDDLE, TAIL],
            "seen in 4 of 4 kills",
            [
                "all confirmed messages in 1 kill",
                "the first confirmed messages in 1 kill",
                "confirmed messages in the middle in 1 kill",
                "the last confirmed messages in 1 kill",
            ],
        ),
        ([lost(**TEN_KILLS)], "seen once in 10 kills", []),
    ],
    ids=["one trial", "one part", "each part", "ten kills in a trial"],
)
def test_a_loss(subject, seen, parts):
    number, affected = len(subject), f" Affected: {', '.join(parts)}." if parts else ""

    assert (
        f"{3 * number} of {100 * number} confirmed messages lost: {seen}.{affected} First: p1:7 in subject.1."
        == rule("SOLCD-ACK-01", KILL, subject).reason
    )


def test_what_was_late_or_stuck_beside_a_loss():
    row = rule("SOLCD-ACK-01", KILL, [lost(all_late=2), lost(was_stuck=True, all_late=1)])

    assert (
        " in 2 kills. In addition, 3 others came only after another restart (late) and in 1 kill the queue kept a depth "
        "above zero (stuck). First: "
    ) in row.reason


def test_what_is_late_is_not_named_beside_what_is_stuck():
    row = rule("EMS-STEP-03", AUTO, [facts(offends={"stuck": 1}, was_stuck=True, all_late=1)] * 3)

    assert "In addition" not in row.reason


@pytest.mark.parametrize(
    ("claim", "scenario", "subject", "run", "before", "after"),
    [
        (
            *("ARTEMIS-SEND-11", KILL, IDLE, WEAK),
            "0 of 0 confirmed messages missing after the fault, in 3 kills.",
            " No message could have shown it.",
        ),
        (
            *("QPID-PERS-03", HELD, [facts(hidden_at_disk="no path X.")] * 3, QPID),
            f"Observed here: {SYNCED} in 3 starts with held syncs.",
            " The tracer could not see how the broker writes in 3 of 3 starts with held syncs: no path X.",
        ),
        (
            *("EXPECT-SYNC-01", HELD, [facts(hidden_at_disk="io_uring"), *CLEAN[:2]], SYNCS),
            f"An expectation of this suite, not seen to fail in 3 starts with held syncs: {SYNCED}.",
            " The tracer could not see how the broker writes in 1 of 3 starts with held syncs: io_uring.",
        ),
    ],
)
def test_what_is_only_reported(claim, scenario, subject, run, before, after):
    undocumented = msgspec.structs.replace(CATALOGUE.claims[claim], documented=False)
    catalogue = msgspec.structs.replace(CATALOGUE, claims={claim: undocumented})

    assert before + after == rule(claim, scenario, subject, run=run, catalogue=catalogue).reason


def test_the_figures_of_an_expectation():
    figures = {f"figure_lost_though_old_{number}": 12.0 for number in range(4)}

    assert rule("EXPECT-STALE-01", KILL, [facts(**figures)] * 3, run=WEAK).reason.endswith(
        " lost. Medians of the trials: lost 12 % of those up to 10 ms old, 12 % of those up to 100 ms, 12 % of those up "
        "to 1 s, the oldest lost was 12 ms old."
    )


def test_why_a_run_is_incomplete():
    run = msgspec.structs.replace(RUN, finished=False, incomplete="its time was over")

    assert "The run is incomplete: its time was over." == rule("SOLCD-ACK-01", KILL, [], run=run).reason


@pytest.mark.parametrize(
    ("kind", "absent"),
    [
        (Kind.DEFAULT, "Absent from the effective configuration: sync_non_transactional, page_size. Changed"),
        (Kind.SAFETY, ""),
    ],
)
def test_only_a_default_names_the_keys_that_are_absent(kind, absent):
    keys = ("sync_non_transactional", "page_size")
    claim = msgspec.structs.replace(
        CATALOGUE.claims["ARTEMIS-SEND-10"], kind=kind, when={"persistence": True} | dict.fromkeys(keys, "absent")
    )
    run = msgspec.structs.replace(RUN, adapter="artemis", absent=("persistence", *keys))
    row = rule(claim.id, HELD, CLEAN, run=run, catalogue=msgspec.structs.replace(CATALOGUE, claims={claim.id: claim}))

    assert (absent in row.reason, bool(absent)) == (True, "Absent" in row.reason), row.reason
