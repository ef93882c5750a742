"""What `conformance run --plan` says about a run, and that it plays nothing."""

from conformance import campaign
from conformance.frontend import plan
from conformance.run.planning import companies

SCENARIOS = ("broker-killed-*-commit*", "clients-on-a-narrow-link")


def test_each_fault_has_one_owner_and_each_trial_a_line():
    prepared = campaign.prepare(campaign.Options("reference", scenarios=SCENARIOS, seed=7))
    head, *blocks = "\n".join(plan.lines(prepared)).split("\n\n")
    trials = [line.strip() for block in blocks for line in block.splitlines()[1:]]
    shared = next(block for block in blocks if "broker-killed-during-commit.subject.1" in block)
    fired = [number for line in shared.splitlines()[1:] for number in line.partition("numbers ")[2].split(", ")]

    assert f"{len(prepared.trials)} trials" in head
    assert sorted(each.id for each in prepared.trials) == sorted(line.split(":")[0] for line in trials)
    assert [str(number) for number in range(1, 16)] == sorted(fired, key=int)
    assert "subject: kill 15 times, start 15 times, restart" in shared
    assert any("beside all others" in block for block in blocks)
    assert " min of recording on an idle machine" in head
    assert "; about " in shared.splitlines()[0]


def test_more_brokers_take_less_time():
    """What plays alone takes as long as before."""
    groups = companies(campaign.prepare(campaign.Options("reference", seed=7)).trials)
    alone = [members for members in groups if members[0].alone]

    assert 600 < plan.expected_s(groups, 2) < 900  # 755 s were measured, seed 7
    assert plan.expected_s(groups, 4) < plan.expected_s(groups, 2) < plan.expected_s(groups, 1)
    assert plan.expected_s(alone, 4) == plan.expected_s(alone, 1) > 0


def test_nothing_is_played(typed, tmp_path):
    done = typed("run", "--adapter", "reference", "--plan", "--out", tmp_path / "out", "--scenario", "deliveries-*")

    assert 0 == done.returncode
    assert "reference@0.1.0:native subject: restart" in done.stdout
    assert not (tmp_path / "out").exists()
