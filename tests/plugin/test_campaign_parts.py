"""A run in parts: what is asked of it, narrowed to what remained, and joined from several processes."""

import msgspec
import pytest

from conformance import campaign, records
from conformance.errors import UsageError
from conformance.plugin import parts
from conformance.records import RunRecord

OPTIONS = campaign.Options(adapter="artemis", claims=("SOLCD-ACK-*",), judge_as=("ems", "solace"), seed=3)


def test_judged_as_is_in_the_command():
    """Whoever repeats the run applies the same sentences."""
    prepared = campaign.prepare(OPTIONS)

    assert "--judge-as ems --judge-as solace" in campaign.command(prepared)
    assert frozenset({"ems", "solace"}) == prepared.selection.judged_as


def test_unknown_vendor():
    """A word that no claim binds."""
    with pytest.raises(UsageError, match="unknown vendor 'solac': did you mean 'solace'"):
        campaign.prepare(campaign.Options(adapter="artemis", judge_as=("solac",)))


def test_narrowed_to_what_remains():
    """The command asks for the claims that are left, and for nothing else; the plan keeps its numbers."""
    whole = campaign.prepare(OPTIONS)
    part = campaign.narrowed(whole, {"SOLCD-ACK-02"})

    assert "--claims SOLCD-ACK-02" in campaign.command(part)
    assert part.trials
    assert {trial.id: trial.k for trial in part.trials}.items() <= {t.id: t.k for t in whole.trials}.items()


def test_narrowed_to_everything_is_the_same_run():
    """Nothing was deselected: the command stays as the user typed it."""
    whole = campaign.prepare(OPTIONS)
    part = campaign.narrowed(whole, {claim.id for claim in whole.selection.claims})

    assert campaign.command(whole) == campaign.command(part)


def part(folder, name, trials, **changes):
    """A part of a run on disk; each of its trials says which part recorded it."""
    run = RunRecord(
        run=f"run-{name}", started="2026-11-21T10:00:00+00:00", command="conformance run", seed=7, adapter="reference",
        version="1", launcher="native", protocol="amqp", client="c", title="t", profiles=(), capabilities=(),
        settings={}, absent=(), changed={}, deviations={}, versions={}, selected=(), required=(), finished=True,
    )  # fmt: skip
    for trial in trials:
        (folder / "workers" / name / "trials" / trial).mkdir(parents=True)
        (folder / "workers" / name / "trials" / trial / "trial.json").write_text(name)
    records.save(msgspec.structs.replace(run, **changes), folder / "workers" / name / "run.json")


def test_merged(tmp_path):
    """The trials of all, under one record."""
    part(tmp_path, "gw0", ["a"], seconds=3.0)
    part(tmp_path, "gw1", ["b"], seconds=5.0)

    assert parts.merge(tmp_path)
    assert {"a", "b"} == {path.name for path in (tmp_path / "trials").iterdir()}
    run = records.read(tmp_path / "run.json", RunRecord)
    assert (True, 5.0) == (run.finished, run.seconds)


def test_merged_with_a_part_that_died(tmp_path):
    """The finished part counts where a scenario was begun twice, and the whole is not finished: it is no pass."""
    part(tmp_path, "gw0", ["a", "c"], finished=False)
    part(tmp_path, "gw1", ["a"])
    parts.merge(tmp_path)

    assert "gw1" == (tmp_path / "trials" / "a" / "trial.json").read_text()
    assert not records.read(tmp_path / "run.json", RunRecord).finished


def test_nothing_to_merge(tmp_path):
    """No worker has recorded anything."""
    assert not parts.merge(tmp_path)
