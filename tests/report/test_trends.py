"""Runs of one broker in a row: what changed, in which order, and which runs count together."""

import msgspec
import pytest
from click.testing import CliRunner
from report_rows import judgement, row, trial

from conformance.errors import UsageError
from conformance.frontend.cli import cli
from conformance.judge.rows import Course, Histogram, Verdict
from conformance.report import model, trends

CLAIM = "SOLCD-ACK-01"
SHORT = {"H": Verdict.HOLDS, "V": Verdict.VIOLATED, "I": Verdict.INCONCLUSIVE, "-": Verdict.NOT_TRIED}


def run(day, *rows, version="2.56.0", **changes):
    """The report of a run that started on that day of November."""
    rows = [msgspec.structs.replace(one, version=version) for one in rows]
    about = {"run": f"r{day}", "started": f"2026-11-{day:02}T10:00:00+00:00", "version": version}
    return model.report(judgement(*rows, trials=[trial()], **about, **changes))


def of(offended, faults, scenario="killed", **changes):
    verdict = Verdict.VIOLATED if offended else Verdict.HOLDS
    return row(CLAIM, verdict, scenario=scenario, fault="kill", faults=faults, offended_faults=offended, **changes)


@pytest.mark.parametrize(
    ("answers", "change"),
    [
        ("HHV", "new violation"),
        ("H-V", "new violation"),
        ("VHV", "new violation"),
        ("--V", "new violation"),
        ("HVV", ""),
        ("VIV", ""),
        ("VVH", "fixed"),
        ("VIH", "fixed"),
        ("IIH", ""),
        ("HHI", "newly undecided"),
        ("HII", ""),
        ("HH-", "newly missing"),
        ("VV-", "newly missing"),
        ("H--", ""),
        ("HHH", ""),
    ],
)
def test_what_changed(answers, change):
    """A violation that an undecided run hid is not new, and is fixed only by a run that decides."""
    reports = [run(day, row(CLAIM, SHORT[answer])) for day, answer in enumerate(answers, 1)]
    found = trends.compare(reports).trends

    assert [change] == [one.change for one in found]
    assert answers == "".join({None: "-", **{v: k for k, v in SHORT.items()}}[each] for each in found[0].answers)


def test_three_runs_come_in_the_order_of_their_start_and_two_as_given():
    new, old, oldest = run(3, row(CLAIM, Verdict.VIOLATED)), run(2, row(CLAIM)), run(1, row(CLAIM), version="2.55.0")
    lines = list(trends.compare([new, oldest, old]).lines)

    assert ["run 1: ", "run 2: ", "run 3: "] == [line[:7] for line in lines[:3]]
    assert ["2.55.0", "2.56.0", "2.56.0"] == [line.split()[4] for line in lines[:3]]
    assert f"{CLAIM}: HOLDS, HOLDS, VIOLATED: new violation" == lines[3]
    assert [1, 0] == [trends.compare(pair).expectations.exit_code for pair in ([old, new], [new, old])]


def test_scenarios_are_not_pooled():
    """Simpson's counter-example over three runs: rare in one scenario, frequent in the other, in every run alike.

    The last run tries the frequent one ten times as often: pooled it would be 29 of 130 before, and 91 of 110 after.
    """
    earlier = [run(1, of(10, 100, "rare"), of(9, 10, "often")), run(2, of(1, 10, "rare"), of(9, 10, "often"))]
    pooled = trends.compare([*earlier, run(3, of(1, 10, "rare"), of(90, 100, "often"))]).pooled

    assert [f"{CLAIM} in rare: 11 of 110 kills, now 1 of 10", f"{CLAIM} in often: 18 of 20 kills, now 90 of 100"] == [
        line.partition(": the rate may be the same")[0] for line in pooled
    ]


@pytest.mark.parametrize(
    "other",
    [{"version": "2.55.0"}, {"settings": {"persistence": False}}, {"client": "Qpid JMS"}, {"mode": "transacted"}],
)
def test_only_equal_conditions_are_pooled(other):
    """Three kills in a row of equal runs count together, and 300 of another version, setting, client or mode do not."""
    version = other.pop("version", "2.56.0")
    reports = [run(1, of(0, 300, **other), version=version), *[run(day, of(0, 3)) for day in (2, 3)]]
    (line,) = trends.compare([*reports, run(4, of(2, 3))]).pooled

    assert line.startswith(f"{CLAIM} in killed: 0 of 6 kills, now 2 of 3: the rate may be the same")


def test_a_run_that_was_judged_twice_counts_once():
    twice, last = run(1, of(0, 3)), run(3, of(3, 3))

    assert [] == trends.compare([twice, twice, last]).pooled
    (line,) = trends.compare([twice, twice, run(2, of(0, 3)), last]).pooled
    assert line.startswith(f"{CLAIM} in killed: 0 of 6 kills, now 3 of 3: more often (p = 0.012")


def test_other_brokers_are_refused():
    with pytest.raises(UsageError, match=r"about artemis over amqp, this run about qpid over amqp"):
        trends.compare([run(1, of(0, 3)), run(2, of(0, 3)), run(3, of(0, 3), adapter="qpid")])


def test_one_sentence_a_difference():
    """Counter-example: "regressions: ... VIOLATED now", and in another line of the same scenario "no difference is shown".

    The counterexample is new, and that it is more frequent is not shown.
    """
    _, _, line, ending = trends.compare([run(1, of(0, 30)), run(2, of(1, 30))]).lines

    assert (
        f"new violations: {CLAIM} in killed: HOLDS in the baseline, VIOLATED now; 0 of 30 kills, now 1 of 30: the rate "
        "may be the same, a change of 20% could have shown (p = 1, 95 %: -8% to +17%)"
    ) == line
    assert ending == "exit code 1: at least one claim was violated that was not violated in the baseline"


def test_the_page(tmp_path):
    """It has each answer with its run, the change, the rates and the times; words of others stay words."""
    histogram = Histogram(of="answer", paced=True, messages=3, seconds=1.0, longest_ms=40.0, counts={352: 3})
    parts = dict.fromkeys(("sent", "confirmed", "delivered", "median_ms", "longest_ms", "down"), (3,))
    course = Course(trial="t0001", seconds=1.0, faults=0, starts_ms=(), times=(histogram,), **parts)
    for day, offended in ((1, 0), (2, 0), (3, 2)):
        report = msgspec.structs.replace(run(day, of(offended, 3), title="<b>Artemis"), courses=(course,))
        (tmp_path / f"{day}.json").write_bytes(msgspec.json.encode(report))
    names = [str(tmp_path / f"{day}.json") for day in (1, 2, 3)]
    done = CliRunner().invoke(cli, ["diff", *names, "--html", str(tmp_path / "diff.html")], standalone_mode=False)
    page = (tmp_path / "diff.html").read_text()

    assert 1 == done.return_value
    assert ["run 1", "run 2", "run 3"] == [line[:5] for line in done.output.splitlines()[:3]]
    assert 2 == page.count("</span> HOLDS</span>")
    assert 1 == page.count("</span> VIOLATED</span>")
    assert "<b>new violation</b>" in page
    assert "0 of 6 kills, now 2 of 3" in page
    assert "&lt;b&gt;Artemis" in page
    assert "3: 2.56.0, 2026-11-03<small>no fault inside, in 1 trial</small>" in page


def test_one_run_is_no_comparison(tmp_path):
    with pytest.raises(UsageError, match="name at least two runs"):
        CliRunner().invoke(cli, ["diff", str(tmp_path)], standalone_mode=False, catch_exceptions=False)
