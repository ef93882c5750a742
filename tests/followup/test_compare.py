"""Whether the anomalies of a recording are in its replay."""

import pytest

from conformance.followup.trial_anomalies import TrialAnomaly, compare


def seen(count):
    return {"lost": TrialAnomaly("lost", count, 9, tuple(f"p1:{n}" for n in range(1, count + 1)))}


@pytest.mark.parametrize(
    ("then", "now", "line", "again"),
    [
        (
            7,
            [7, 0],
            "C-1: seen again in 1 of 2: p1:1, p1:2, p1:3, p1:4, p1:5 and 2 more (7 of 9 confirmed messages lost)",
            False,
        ),
        (2, [1, 1], "C-1: seen again in 2 of 2: p1:1 (1 of 9 confirmed messages lost)", True),
        (2, [0], "C-1: not seen again in 1; before: 2 of 9 confirmed messages lost", False),
        (2, [], "C-1: not seen again in 0; before: 2 of 9 confirmed messages lost", False),
        (0, [2], "C-1: new, seen in 1 of 1: p1:1, p1:2 (2 of 9 confirmed messages lost)", False),
        (5, [5], "C-1: seen again in 1 of 1: p1:1, p1:2, p1:3, p1:4, p1:5 (5 of 9 confirmed messages lost)", True),
        (0, [0], "no anomaly in the first recording, and none in the new one", False),
    ],
)
def test_what_is_said_of_it(then, now, line, again):
    """How often, which messages, and how many."""
    found = compare({"lost": ["C-1"]}, seen(then), [seen(count) for count in now])

    assert ([line], again) == found


def test_a_broker_that_does_not_start_again_either():
    """How, instead of messages."""
    dead = {"not_recovered": TrialAnomaly("not_recovered", 1, 1, (), "not recovered: it ended with status 1")}
    line = "EXPECT-RECOVER-01: seen again in 1 of 1: not recovered: it ended with status 1"

    assert ([line], True) == compare({"not_recovered": ["EXPECT-RECOVER-01"]}, dead, [dead])


def test_each_anomaly_is_compared():
    """One that only the replay shows is no repetition; an anomaly that is not checked is left out."""
    checks = {"lost": ["C-1", "C-2"], "delivered_twice": ["C-3", "C-4"]}
    again = TrialAnomaly("delivered_twice", 1_234, 5_678, ("p1:1", "p1:2", "p1:3", "p1:4", "p1:5", "p1:6"))
    now = [{**seen(2), "delivered_twice": again, "phantom": again}]
    lines = [
        "C-1, C-2: seen again in 1 of 1: p1:1, p1:2 (2 of 9 confirmed messages lost)",
        f"C-3, C-4: new, seen in 1 of 1: p1:1, p1:2, p1:3, p1:4, p1:5 and 1,229 more ({again.figures})",
    ]

    assert (lines, True) == compare(checks, seen(1), now)
    assert (list(reversed(lines)), True) == compare(dict(reversed(checks.items())), seen(1), now)
    assert ("1,234 of 5,678 ", False) == (again.figures[:15], compare(checks, {}, now)[1])
