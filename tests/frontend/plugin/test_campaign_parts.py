"""A run in parts: what is asked of it, narrowed to what remained, and joined from several processes."""

import dataclasses
import os

import msgspec
import pytest
import verdict_rows

from conformance import campaign, records
from conformance.errors import UsageError
from conformance.records import Checksum, RunFile, RunRecord
from conformance.run.record import RunWriter
from conformance.run.trial.described import describe

OPTIONS = campaign.Options(adapter="artemis", claims=("SOLCD-ACK-*",), judge_as=("ems", "solace"), seed=3)


def test_judged_as_is_in_the_command():
    """A run that is repeated applies the same sentences."""
    prepared = campaign.prepare(OPTIONS)

    assert "--judge-as ems --judge-as solace" in campaign.command(prepared)
    assert frozenset({"ems", "solace"}) == prepared.selection.judged_as


def test_jobs_are_in_the_command_if_they_were_given():
    """They decide no verdict. An external broker plays one trial at a time, with any number."""
    given, default = (campaign.prepare(dataclasses.replace(OPTIONS, jobs=jobs)) for jobs in (5, None))
    external = campaign.prepare(campaign.Options("artemis:external=amqp://127.0.0.1:5672", jobs=5))

    assert ("--jobs 5" in campaign.command(given), "--jobs" in campaign.command(default)) == (True, False)
    assert (5, len(os.sched_getaffinity(0)), 1) == (given.jobs, default.jobs, external.jobs)
    assert given.trials == default.trials


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
    for trial in trials:
        (folder / "workers" / name / "trials" / trial).mkdir(parents=True)
        (folder / "workers" / name / "trials" / trial / "trial.json").write_text(name)
    records.save(
        msgspec.structs.replace(verdict_rows.RUN, run=f"run-{name}", **changes), folder / "workers" / name / "run.json"
    )


def test_merged(tmp_path):
    """The trials of all, under one record."""
    part(tmp_path, "gw0", ["a"], seconds=3.0)
    part(tmp_path, "gw1", ["b"], seconds=5.0)

    assert campaign.join_parts(tmp_path)
    assert {"a", "b"} == {path.name for path in (tmp_path / "trials").iterdir()}
    run = records.read(tmp_path / "run.json", RunRecord)
    assert (True, 5.0) == (run.finished, run.seconds)


def test_merged_with_a_part_that_died(tmp_path):
    """The finished part counts where a scenario was begun twice, and the whole is not finished: it is no pass."""
    part(tmp_path, "gw0", ["a", "c"], finished=False)
    part(tmp_path, "gw1", ["a"])
    campaign.join_parts(tmp_path)

    assert "gw1" == (tmp_path / "trials" / "a" / "trial.json").read_text()
    assert not records.read(tmp_path / "run.json", RunRecord).finished


def test_the_plans_are_merged(tmp_path):
    """A trial that two parts planned is that of the part whose folder counts, with its checksums."""
    first, second = (describe(trial) for trial in campaign.prepare(OPTIONS).trials[:2])
    again = msgspec.structs.replace(first, seed=1)
    part(tmp_path, "gw0", [first.trial], finished=False)
    part(tmp_path, "gw1", [first.trial, second.trial])
    for name, plan, size in (("gw0", (again,), 1), ("gw1", (first, second), 2)):
        path = tmp_path / "workers" / name / "run.json"
        sums = {trial.trial: {"trial.json": Checksum(size, name)} for trial in plan}
        run = msgspec.structs.asdict(records.read(path, RunRecord))
        records.save(RunFile(**run, plan=plan, checksums=sums), path)
    campaign.join_parts(tmp_path)
    whole = records.read(tmp_path / "run.json", RunFile)

    assert {first.trial: first, second.trial: second} == {trial.trial: trial for trial in whole.plan}
    assert {"gw1"} == {sums["trial.json"].sha256 for sums in whole.checksums.values()}


def test_the_plan_grows_with_what_is_recorded(tmp_path):
    """A trial is planned before it is recorded; its checksums are those of the first time that the run is closed."""
    part(tmp_path, "gw0", ["a"])
    first, second = campaign.prepare(OPTIONS).trials[:2]
    written = RunWriter(tmp_path, records.read(tmp_path / "workers" / "gw0" / "run.json", RunRecord))

    def read():
        whole = records.read(tmp_path / "run.json", RunFile)
        return whole.finished, [trial.trial for trial in whole.plan], list(whole.checksums)

    assert [] == read()[1]
    written.plan([first])
    assert (False, [first.id], []) == read()

    place = tmp_path / "trials" / first.id
    place.mkdir(parents=True)
    (place / "drain-1.jsonl").write_text("as it was recorded")
    written.close()
    recorded = records.read(tmp_path / "run.json", RunFile).checksums[first.id]
    (place / "drain-1.jsonl").write_text("changed later")
    written.plan([second])
    written.close(seconds=2.0)

    assert (True, [first.id, second.id], [first.id]) == read()
    assert recorded == records.read(tmp_path / "run.json", RunFile).checksums[first.id]


def test_nothing_to_merge(tmp_path):
    """No worker has recorded anything."""
    assert not campaign.join_parts(tmp_path)
