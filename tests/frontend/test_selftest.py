"""The suite on trial: a liar is convicted, one that is wrongly labelled is missed, and an accusation is counted."""

import contextlib
import dataclasses
import os
from types import SimpleNamespace

import msgspec
import psutil
import pytest
from click.testing import CliRunner

from conformance import processes
from conformance.errors import Interrupted, UsageError
from conformance.frontend import selftest
from conformance.frontend.cli import cli
from conformance.frontend.selftest import Played, Round, Score, Selftest
from conformance.judge.rows import Verdict
from conformance.reference.liars import LIARS
from conformance.report import questions

TRANSACTIONS = "Are transactions whole?"
FULL = "disk-full-while-publishing"


def run(*words):
    return CliRunner().invoke(cli, ["selftest", *words], standalone_mode=False)


def read(folder):
    return msgspec.json.decode((folder / "selftest.json").read_bytes(), type=Selftest)


@pytest.mark.usefixtures("spark_for_all", "impatient")
@pytest.mark.parametrize("liars", [selftest.REDUCED[:1], pytest.param(selftest.REDUCED, marks=pytest.mark.full)])
def test_the_reduced_form(tmp_path, monkeypatch, liars):
    """Every one of its liars is convicted, and the honest broker accused of nothing in the same scenarios."""
    monkeypatch.setattr(selftest, "REDUCED", liars)
    done = run("--quick", "--out", str(tmp_path))
    found = read(tmp_path)
    page = (tmp_path / "selftest.html").read_text()

    assert (0, None) == (done.return_value, done.exception), done.output
    assert set(liars) == {one.liar for one in found.convicted}
    assert (len(liars), len(liars)) == (found.asked, len([one for one in found.played if not one.liar]))
    assert all(one.claim in one.breaks and one.faults >= 1 and one.scenario for one in found.convicted)
    assert f"{len(liars)} of {len(liars)} brokers that lie were convicted" in page
    assert all(name in page for name in (*liars, "artemis-2092.toml", "halves of commits apart by 3 ms"))


@pytest.mark.usefixtures("spark_for_all")
def test_a_liar_that_no_check_sees_is_missed(tmp_path, monkeypatch):
    """No kill can show a missing sync, so the label is wrong: as a check would be that cannot fail."""
    liar = dataclasses.replace(LIARS["confirms-before-sync"], shows=("lost",), fault="kill")
    monkeypatch.setattr(selftest, "LIARS", {"confirms-before-sync": liar})
    monkeypatch.setattr(selftest, "SCRIPTS", (1,))
    monkeypatch.setattr(selftest, "TRIALS", 1)
    monkeypatch.setattr(selftest, "PROTOCOLS", ("amqp",))
    done = run("--rounds", "0", "--out", str(tmp_path))

    assert (3, None) == (done.return_value, done.exception), done.output
    assert ["confirms-before-sync"] == [one.liar for one in read(tmp_path).missed]
    assert "0 of 1 liars convicted, missed: confirms-before-sync" in done.output


def test_with_nothing_to_play_the_page_is_written_again(tmp_path):
    """Where a folder has a result; elsewhere it is an error."""
    words = ("--liar", "none", "--rounds", "0", "--out", str(tmp_path))
    assert "there is nothing to play: choose liars, or a round at least" == str(run(*words).exception)

    found = selftest._begun(tmp_path)
    found.rounds.append(Round(broker="Mine", protocol="amqp", rtt_ms=5.0, trials=9, accused=(), known=(), seconds=1.0))
    selftest.save(found, tmp_path).unlink()
    done = run(*words)
    assert (0, None) == (done.return_value, done.exception), done.output
    assert "in 9 trials of 1 whole runs" in (tmp_path / "selftest.html").read_text()


def test_liars_are_chosen_by_pattern():
    found = selftest.chosen_liars(["loses-*", "drops-failed"], reduced=False)

    assert {"loses-the-oldest", "drops-failed"} <= found.keys()
    assert all(name.startswith("loses-") or name == "drops-failed" for name in found)
    assert [*selftest.chosen_liars([], reduced=True)] == [name for name in LIARS if name in selftest.REDUCED]
    assert 3 == len(selftest.REDUCED)
    with pytest.raises(UsageError, match="unknown liar 'lose-the-oldest'"):
        selftest.chosen_liars(["lose-the-oldest"], reduced=False)


def test_accusations_are_counted(tmp_path):
    """In the scenario of a liar, and in a whole run; the bound is that of all trials of a broker in whole runs."""
    about = {
        "does": "",
        "guarantee": TRANSACTIONS,
        "breaks": (),
        "fault": "kill",
        "protocol": "amqp",
        "scenarios": ("broker-killed",),
    }
    rounds = [Round(broker="Mine 1.0", protocol="amqp", rtt_ms=5.0, trials=150, accused=(), known=(), seconds=1.0)] * 2
    rounds.insert(1, msgspec.structs.replace(rounds[0], broker="Yours 1.0", known=("EMS-STEP-01",), seconds=3.0))
    found = Selftest(version="1", machine="2 cores", started="now", asked=1, rounds=rounds)
    page = selftest.save(found, tmp_path).read_text()

    assert [(300, [], [], 1.0), (150, [], ["EMS-STEP-01"], 3.0)] == [
        (one.trials, one.accused, one.known, one.seconds) for one in found.honest
    ]
    assert [pytest.approx(0.00994, abs=1e-5), pytest.approx(0.01977, abs=1e-5)] == [one.most for one in found.honest]
    assert "No honest broker was accused in 450 trials of 3 whole runs." in page
    assert '<td class="c">2</td><td class="c">300</td><td>nothing</td><td class="c">0.99 %</td>' in page
    assert "convicted of a known bug by EMS-STEP-01" in page

    found.played = [Played(liar="", others=("SOLCD-ACK-01",), **about), Played(liar="lies", **about)]
    found.rounds = [msgspec.structs.replace(rounds[0], accused=("EMS-STEP-04",))]
    page = selftest.save(found, tmp_path).read_text()

    assert (["EMS-STEP-04", "SOLCD-ACK-01"], [1.0]) == (found.accusations, [one.most for one in found.honest])
    assert "Missed: lies." in page
    assert "An honest broker was accused of EMS-STEP-04, SOLCD-ACK-01." in page
    assert "the honest broker in broker-killed: ACCUSED of SOLCD-ACK-01" == selftest.line(found.played[0])
    assert "lies: MISSED by 1 scenarios (kill); 0 s" == selftest.line(found.played[1])


def test_the_score_of_a_guarantee():
    about = {"does": "", "breaks": (), "fault": "kill", "protocol": "amqp", "scenarios": ()}
    kinds = [("lies", "SOLCD-TX-03", 3, 2, 4.0), ("cheats", "SOLCD-TX-01", 3, 3, 6.0), ("evades", "", 0, 0, 9.0)]
    found = Selftest(version="1", machine="2 cores", started="now", asked=3)
    found.played = [
        Played(liar=liar, guarantee=TRANSACTIONS, claim=claim, faults=faults, offended=seen, seconds=seconds, **about)
        for liar, claim, faults, seen, seconds in kinds
    ]
    found.played.append(Played(liar="", guarantee=TRANSACTIONS, **about))

    assert [Score(TRANSACTIONS, 3, 2, 6, 5, 5.0, 6.0)] == found.scores
    assert TRANSACTIONS == questions.question_of(LIARS["recovers-half-a-transaction"].shows[0])


@pytest.mark.parametrize("name", [name for name, liar in LIARS.items() if liar.shows])
def test_every_liar_breaks_a_claim_and_a_guarantee_of_the_report(name):
    assert selftest.broken_by(name, LIARS[name])
    assert questions.question_of(LIARS[name].shows[0])


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("commits-one-queue", "EXPECT-QUEUES-01"),
        ("drops-released", "AMQP-REL-01 RMQ-AMQP-03"),
        ("lazy-acknowledge-takes-neighbours", "EMS-EXDUP-02"),
        ("loses-at-compaction", "SOLCD-ACK-01"),
    ],
)
def test_the_claims_that_a_liar_breaks(name, broken):
    """Derived from the anomalies that it shows, in scenarios with its fault or with it as their control."""
    assert set(broken.split()) <= {*selftest.broken_by(name, LIARS[name])}


@pytest.mark.process
def test_the_machine_is_busy_until_the_end(tmp_path):
    """A process a core and one that writes; none is left, and none outlives a parent that was killed."""
    before = set(psutil.Process().children())  # Spark's, of another test
    with selftest.busy(tmp_path / "written"):
        children = set(psutil.Process().children()) - before
        while not (tmp_path / "written").exists():
            os.sched_yield()
        running = [child for child in children if child.is_running()]

    assert 1 + processes.cores() == len(running)
    assert not any(child.is_running() for child in children)


@pytest.mark.process
@pytest.mark.parametrize(
    ("adapter", "claim", "scenario", "verdict", "accused", "known"),
    [
        ("reference", "EMS-STEP-04", "every-trial", Verdict.HOLDS, (), ()),
        ("reference", "EMS-STEP-04", "every-trial", Verdict.VIOLATED, ("EMS-STEP-04",), ()),
        ("artemis@2.56.0", "ARTEMIS-SEND-09", FULL, Verdict.VIOLATED, (), ("ARTEMIS-SEND-09",)),
        ("artemis@2.44.0", "ARTEMIS-SEND-09", FULL, Verdict.VIOLATED, ("ARTEMIS-SEND-09",), ()),
        ("artemis@2.56.0", "ARTEMIS-SEND-09", "broker-killed", Verdict.VIOLATED, ("ARTEMIS-SEND-09",), ()),
        ("artemis@2.56.0", "ARTEMIS-SEND-09", "power-lost-while-paging", Verdict.VIOLATED, (), ("ARTEMIS-SEND-09",)),
        # Known with other settings only: quorum queues.
        (
            "rabbitmq@4.3.6",
            "SOLCD-ACK-01",
            "broker-killed-soon-after-declaration",
            Verdict.VIOLATED,
            ("SOLCD-ACK-01",),
            (),
        ),
    ],
)
def test_a_whole_round(tmp_path, monkeypatch, adapter, claim, scenario, verdict, accused, known):
    """Of the subject alone, on a slow network and a busy machine; a run stays that accuses of more than known bugs.

    Two brokers a core beside one process that keeps it busy: one alone would get a third of what the machine has.
    """
    before, busy = set(psutil.Process().children()), 1 + processes.cores()
    if verdict is Verdict.VIOLATED:  # one busy machine is enough
        monkeypatch.setattr(selftest, "busy", contextlib.nullcontext)
        busy = 0

    def execute(made, watcher):
        assert {("subject", selftest.RTT_MS)} == {(trial.arm, trial.rtt_ms) for trial in made.trials}
        assert 2 * processes.cores() == made.jobs
        assert busy == len(set(psutil.Process().children()) - before)
        (made.folder / "trials").mkdir(parents=True)
        row = SimpleNamespace(claim=claim, scenario=scenario, verdict=verdict, required=False)
        trials = [SimpleNamespace(arm="subject", void=void) for void in ("", "", "the broker did not start")]
        run = SimpleNamespace(title="Mine", version="1.0", protocol="amqp")
        return SimpleNamespace(rows=[row], trials=trials, run=run)

    monkeypatch.setattr(selftest.campaign, "execute", execute)
    found = selftest._round(adapter, 7, tmp_path)

    assert ("Mine 1.0", 2, accused, known) == (found.broker, found.trials, found.accused, found.known)
    assert bool(accused) == bool([*tmp_path.glob("*/trials")])


@pytest.mark.process
def test_an_interrupted_round_stays_and_hinders_no_other(tmp_path, monkeypatch):
    def execute(made, watcher):
        (made.folder / "trials").mkdir(parents=True)
        raise Interrupted(f"stopped; what was recorded is in {made.folder}")

    monkeypatch.setattr(selftest, "busy", contextlib.nullcontext)
    monkeypatch.setattr(selftest.campaign, "execute", execute)
    for count in (1, 2):
        with pytest.raises(Interrupted):
            selftest._round("reference", 7, tmp_path)
        assert count == len([*tmp_path.glob("*/trials")])


def test_another_call_goes_on(tmp_path, monkeypatch):
    """A liar that was convicted is not played again, one that was missed is; rounds have other seeds."""
    about = {"does": "", "guarantee": TRANSACTIONS, "breaks": (), "fault": "kill", "protocol": "amqp", "scenarios": ()}
    claims, calls = {"lies": "SOLCD-TX-01", "evades": ""}, []

    def played(name, liar):
        calls.append(name)
        return Played(liar=name, claim=claims[name], **about)

    def whole(adapter, seed, folder):
        calls.append(seed)
        return Round(broker=adapter, protocol="amqp", rtt_ms=5.0, trials=1, accused=(), known=(), seconds=1.0)

    monkeypatch.setattr(selftest.JudgeSession, "start", contextlib.nullcontext)
    monkeypatch.setattr(selftest, "_played", played)
    monkeypatch.setattr(selftest, "_honest", lambda row, liar: Played(liar="", **about))
    monkeypatch.setattr(selftest, "_round", whole)

    def call(*liars, rounds=1):
        found = None
        for found in selftest.play(dict.fromkeys(liars), ("reference",), rounds, tmp_path, print):
            selftest.save(found, tmp_path)
        return found

    assert call(rounds=0) is None
    assert ["evades"] == [one.liar for one in call("lies", "evades").missed]
    again = call(rounds=0)
    assert (2, ["evades"]) == (again.asked, [one.liar for one in again.missed])
    claims["evades"] = "SOLCD-TX-03"
    found = call("evades")
    assert ["lies", "evades", selftest.SEED, "evades", selftest.SEED + 1] == calls
    assert (2, [], 2) == (found.asked, found.missed, len(found.rounds))
    assert call(rounds=0) == found == call("lies", rounds=0)

    selftest.save(msgspec.structs.replace(found, machine="64 cores"), tmp_path)
    with pytest.raises(UsageError, match="on 64 cores; choose another --out"):
        call("lies")
    (tmp_path / "selftest.json").write_text("{}")
    with pytest.raises(UsageError, match="missing required field"):
        call("lies")
