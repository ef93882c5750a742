"""What `tools.compare_runs` calls a difference."""

import copy
import json

import pytest

from tools import compare_runs

ROW = {"claim": "A-1", "scenario": "s", "mode": "m", "verdict": "HOLDS", "trials": 3, "offended": 0, "void": 0}
ROW |= {"exposure": {"name": "sends", "total": 3}, "control": None, "bound": 0.63, "q": None, "reason": "0 of 3 lost"}
TRIAL = {"trial": "s.subject.1", "seed": 7, "k": 3, "settings": {"sync": True}, "seconds": 1.0}
REPORT = {"verdicts": [ROW], "self_checks": [], "trials": [TRIAL]}


@pytest.mark.parametrize(
    ("part", "field", "value", "exact", "verdicts"),
    [
        ("verdicts", "reason", "in other words", 0, 0),
        ("verdicts", "bound", 0.63 + 1e-12, 0, 0),
        ("verdicts", "verdict", "VIOLATED", 1, 1),
        ("verdicts", "exposure", {"name": "sends", "total": 4}, 1, 0),
        ("verdicts", "mode", "other", 2, 2),
        ("trials", "seconds", 9.0, 0, 0),
        ("trials", "k", 4, 1, 1),
        ("trials", "trial", "s.subject.2", 2, 2),
    ],
)
def test_differences(tmp_path, capsys, part, field, value, exact, verdicts):
    other = copy.deepcopy(REPORT)
    other[part][0][field] = value
    (tmp_path / "report.json").write_text(json.dumps(REPORT))
    (tmp_path / "other.json").write_text(json.dumps(other))

    for options, expected in (([], exact), (["--verdicts"], verdicts)):
        assert int(expected > 0) == compare_runs.main([*options, str(tmp_path), str(tmp_path / "other.json")])
        assert f"{expected} differences" == capsys.readouterr().out.splitlines()[-1]


def test_usage(capsys):
    assert 4 == compare_runs.main(["one"])
    assert "usage" in capsys.readouterr().err
