"""The files of `fixtures/bugs`, and the table and the exit code of `tools.bugs`."""

import dataclasses
import json

import pytest

from conformance import campaign, claims, scenario
from conformance.errors import UsageError
from conformance.report import questions
from conformance.run import planning
from tools import bugs

SCENARIOS = scenario.load(claims.load())

FILE = """
title = "BROKER-1"
link = "https://example.org/1"
says = "A confirmed message is lost."
adapter = "artemis"
bad = "2.18.0"
good = "2.19.0"
claims = ["AMQP-ACC-02"]
scenarios = ["every-trial"]
"""


def bug(**changes):
    words = {"title": "T-1", "link": "l", "says": "s", "adapter": "a", "bad": "1", "good": "2", **changes}
    return bugs.Bug(**words)


def report(*verdicts):
    return {"verdicts": [{"claim": claim, "verdict": verdict} for claim, verdict in verdicts]}


@pytest.mark.parametrize("path", sorted(bugs.FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_every_file_is_read_and_listed(path):
    found = bugs.read(path)

    assert path.stem == found.title.lower().replace(" ", "-")
    assert found.link.startswith("https://")
    assert path.name in (bugs.FOLDER / "README.md").read_text()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("adapter", "adaptor", "missing required field `adapter`|unknown field `adaptor`"),
        ('good = "2.19.0"', 'good = "2.19.0"\nshows = []', "unknown field `shows`"),
        ("AMQP-ACC-02", "AMQP-ACC-99", "unknown claim 'AMQP-ACC-99': did you mean"),
        ("every-trial", "every-trail", "unknown scenario 'every-trail': did you mean 'every-trial'"),
        ('claims = ["AMQP-ACC-02"]', "", "give claims and scenarios"),
        ('"artemis"', '"artmis"', "did you mean 'artemis'"),
        ("2.19.0", "2.19.0\nx", "1.toml"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, old, new, said):
    path = tmp_path / "1.toml"
    path.write_text(FILE.replace(old, new))

    with pytest.raises(UsageError, match=said):
        bugs.read(path)


@pytest.mark.parametrize("one", questions.problems(), ids=lambda one: one.name)
def test_a_default_run_plays_what_has_convicted_a_broker(one):
    """Of that version, over that protocol, with all faults; counter-example: Artemis 2.56.0 on a full disk was green.

    A machine may lack a fault, and then the run says so.
    """
    settings = [f"{name}={bugs._word(value)}" for name, value in one.settings.items()]
    for version in one.versions if one.scenarios else ():
        options = campaign.Options(
            f"{one.adapter}@{version}", protocol=one.protocol, client=one.client, settings=settings
        )
        chosen = dataclasses.replace(campaign.prepare(options).selection, unable={})
        played = {
            name
            for name in one.scenarios
            if SCENARIOS[name].standing or planning.wanted_checks(SCENARIOS[name], chosen)
        }
        assert set(one.scenarios) == played, version


def test_an_unknown_setting_is_refused(tmp_path):
    path = tmp_path / "1.toml"
    path.write_text(FILE + "[settings]\njournal_bufer_ms = 3\n")

    with pytest.raises(UsageError, match="journal_bufer_ms"):
        bugs.read(path)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([("A", "HOLDS"), ("A", "VIOLATED"), ("B", "HOLDS")], "VIOLATED"),
        ([("B", "VIOLATED"), ("A", "HOLDS"), ("A", "INCONCLUSIVE")], "INCONCLUSIVE"),
        ([("A", "HOLDS"), ("A", "HARNESS_ERROR"), ("A", "NOT_TRIED")], "HARNESS_ERROR"),
        ([("A", "NOT_TRIED"), ("A", "NOT_TRIED"), ("A", "INCONCLUSIVE")], "INCONCLUSIVE"),
        ([("B", "HOLDS")], "NOT_TRIED"),
    ],
)
def test_the_worst_verdict_of_the_claims_counts(verdicts, expected):
    assert expected == bugs.worst(report(*verdicts), ["A"])


@pytest.mark.parametrize(
    ("changes", "bad", "good", "wrong", "said"),
    [
        ({}, "VIOLATED", "HOLDS", False, ["a 1: convicted", "2: acquitted"]),
        ({}, "VIOLATED", "INCONCLUSIVE", False, ["a 1: convicted", "2: not accused (INCONCLUSIVE)"]),
        ({}, "HOLDS", "HOLDS", True, ["a 1: not shown (HOLDS)", "2: acquitted"]),
        ({}, "VIOLATED", "VIOLATED", True, ["a 1: convicted", "2: accused"]),
        ({"not_shown": "no step"}, "HOLDS", "HOLDS", False, ["a 1: not shown (HOLDS)", "x: no step"]),
        ({"not_shown": "no step"}, "VIOLATED", "HOLDS", False, ["x: it is shown now"]),
        ({"not_shown": "no step"}, None, None, False, ["a 1: not played", "2: not played", "x: no step"]),
        ({"good": ""}, "VIOLATED", None, False, ["a 1: convicted", "none"]),
    ],
)
def test_table(changes, bad, good, wrong, said):
    answers = [verdict and bugs.Played(verdict, 7.2) for verdict in (bad, good)]
    row = bugs.Row("x", bug(**changes), *answers)
    lines = "\n".join(bugs.table([row]))

    assert wrong == row.wrong
    assert [words for words in said if words not in lines] == []
    assert lines.endswith(
        f"{int(bad == 'VIOLATED')} of 1 bad versions convicted, {int(good == 'VIOLATED')} good versions accused"
    )


@pytest.mark.parametrize(("verdict", "code"), [("HOLDS", 0), ("VIOLATED", 1)])
def test_exit_code(tmp_path, monkeypatch, capsys, verdict, code):
    (tmp_path / "t-1.toml").write_text(FILE)
    monkeypatch.setattr(bugs, "FOLDER", tmp_path)
    found = {"2.18.0": "VIOLATED", "2.19.0": verdict}

    def played(bug, version, out):
        out.mkdir(parents=True)
        path = out / "report.json"
        path.write_text(json.dumps(report(("AMQP-ACC-02", found[version]))))
        return bugs.Played(bugs.worst(json.loads(path.read_text()), bug.claims), 3.0)

    monkeypatch.setattr(bugs, "play", played)

    assert code == bugs.main(["--out", str(tmp_path / "runs"), "t-1"])
    assert f"1 of 1 bad versions convicted, {code} good versions accused" in capsys.readouterr().out


def test_an_unknown_name_is_a_usage_error(capsys):
    assert 4 == bugs.main(["artemis-0"])
    assert "unknown bug 'artemis-0'" in capsys.readouterr().err
