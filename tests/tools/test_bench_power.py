"""Detection power: the arithmetic, the table with given figures, and one liar that is really killed."""

import contextlib
import os
import re

import pytest

import benchmarks
from benchmarks import __main__ as command
from benchmarks import power
from benchmarks.power import AIMS, Share, wilson
from benchmarks.triggers import Bench
from conformance import claims, paths, scenario
from conformance.ledger import Ledger
from conformance.reference.liars import find

PAGE = (paths.root() / "docs" / "explanation" / "power.md").read_text("utf-8")
AIM = next(aim for aim in AIMS if aim.scenario == "broker-killed-while-sending-one-by-one")


@pytest.mark.parametrize(
    ("found", "kills", "low", "high"),
    [(0, 10, 0.0, 0.278), (1, 10, 0.018, 0.404), (9, 10, 0.596, 0.982), (10, 10, 0.722, 1.0), (15, 30, 0.331, 0.669)],
)
def test_the_interval_of_a_share(found, kills, low, high):
    """The figures of Wilson's formula, as textbooks have them."""
    assert wilson(found, kills) == (pytest.approx(low, abs=0.001), pytest.approx(high, abs=0.001))


@pytest.mark.parametrize(("found", "kills"), [(0, 0), (-1, 3), (4, 3)])
def test_no_share_has_no_interval(found, kills):
    with pytest.raises(ValueError, match=f"{found} of {kills} kills is no share"):
        wilson(found, kills)


@pytest.mark.parametrize(
    ("found", "trials", "share", "chance"),
    [(0, 30, 1, 0.0), (5, 1, 1, 0.5), (5, 3, 1, 0.875), (10, 10, 0.1, 0.651), (10, 30, 0.01, 0.26), (5, 1, 0.1, 0.05)],
)
def test_the_chance_of_several_kills(found, trials, share, chance):
    """Between the ends of its interval; a liar that lies at one in ten kills has a tenth of the chance of each."""
    got, low, high = Share(found, 10).chance(trials, share)

    assert got == pytest.approx(chance, abs=0.001)
    assert low <= got <= high


@pytest.mark.parametrize("aim", AIMS, ids=lambda aim: f"{aim.scenario}-{aim.claim}")
def test_each_liar_breaks_the_claim_that_its_scenario_decides(aim):
    script = scenario.load(claims.load())[aim.scenario]

    assert aim.claim in script.decides
    assert {fault.name for fault in script.faults} == {"kill"}
    assert all(script.decides[aim.claim].anomaly in find(liar).shows for liar, _ in aim.defects.values())


def test_no_scenario_decides_a_claim_that_its_kills_cannot_show():
    """Counter-example: ARTEMIS-TX-09 held by kills after the commit, of which 0 of 30 found halves 10 ms apart."""
    scripts, rows = scenario.load(claims.load()), re.findall(r"^\| ([a-z-]+) \| (.+?) \| (\d+) of ", PAGE, re.MULTILINE)
    liars = {words: find(liar) for aim in AIMS for words, (liar, _) in aim.defects.items() if words.endswith(" 10 ms")}
    powers = {(name, defect): int(found) for name, defect, found in rows if defect in liars}
    decides = {(name, check.anomaly) for name in scripts for check in scripts[name].decides.values()}

    assert len(powers) >= len(AIMS)
    blind = [(name, shown) for (name, defect), found in powers.items() for shown in liars[defect].shows if not found]
    assert ([("broker-killed-after-commit", "half_applied")], set()) == (blind, decides & {*blind})


def test_the_table(monkeypatch):
    """A line for each liar and each honest broker, then a row for each defect."""
    shares = {"": Share(0, 4), "confirms-3-ms-before-storing": Share(2, 4)}
    monkeypatch.setattr(power, "measured", lambda bench, aim, liar, kills: shares.get(liar, Share(kills, kills)))
    monkeypatch.setattr(power, "AIMS", (AIM,))
    monkeypatch.setattr(power, "Bench", lambda *_: contextlib.ExitStack())
    first, *lines = power.power(["--kills", "4"])

    assert "4 kills of each liar" in first
    assert [line.partition(";")[0] for line in lines[:2]] == [
        f"power: 1 of 5: {AIM.scenario}, the honest broker: SOLCD-ACK-01 violated in 0 of 4 kills",
        f"power: 2 of 5: {AIM.scenario}, confirms-3-ms-before-storing: SOLCD-ACK-01 violated in 2 of 4 kills",
    ]
    always = "100 % (51 to 100) 100 % (88 to 100) 100 % (>99 to 100) 100 % (>99 to 100)"
    assert [" ".join(line.split()) for line in lines[5:]] == [
        "scenario defect found 1 kill 3 kills 10 kills 30 kills",
        f"{AIM.scenario} sends stored late by 3 ms 2 of 4 50 % (15 to 85) 88 % (39 to >99) >99 % (80 to >99) >99 % (99 to 100)",
        f"{AIM.scenario} sends stored late by 10 ms 4 of 4 {always}",
        f"{AIM.scenario} sends stored late by 100 ms 4 of 4 {always}",
        f"{AIM.scenario} loss at one in 10 kills 4 of 4 that lose 10 % (5 to 10) 27 % (15 to 27) 65 % (41 to 65) 96 % (79 to 96)",
        f"{AIM.scenario} loss at one in 100 kills 4 of 4 that lose 1 % (1 to 1) 3 % (2 to 3) 10 % (5 to 10) 26 % (14 to 26)",
    ]


@pytest.mark.parametrize("words", [["--kills"], ["--kills", "0"], ["--kills", "ten"], ["--trials", "3"]])
def test_a_wrong_option_is_a_usage_error(words, capsys):
    assert command.main(["power", *words]) == 4
    assert "power takes --kills N, a whole number from 1 on" in capsys.readouterr().err


def test_it_is_not_played_with_all_others(monkeypatch, capsys):
    """It takes minutes; and other benchmarks have no options."""
    monkeypatch.setattr(power, "power", lambda words: iter([f"power with {' '.join(words)}"]))

    assert list(benchmarks.run("power", ["--kills", "3"])) == ["power with --kills 3"]
    assert ("power",) == benchmarks.LONG
    assert command.main(["link", "--kills", "3"]) == 4
    assert "link has no options" in capsys.readouterr().err


@pytest.mark.usefixtures("spark_for_all", "impatient")
@pytest.mark.parametrize(("liar", "found"), [("", 0), ("confirms-100-ms-before-storing", 2)])
def test_a_kill_tells_a_liar_from_the_honest_broker(tmp_path, liar, found):
    with Ledger(tmp_path, f"power-{os.getpid()}") as ledger, contextlib.closing(Bench(tmp_path, ledger, 1)) as bench:
        assert power.measured(bench, AIM, liar, 2) == Share(found, 2)
