"""A trial again from what its run wrote down: the same script and numbers, and whether the same is seen."""

import functools
import json
import pathlib
import re
import shlex
import signal

import msgspec
import pytest
from reproductions import NAME, SCENARIOS, change

from conformance import adapters, campaign, records
from conformance.campaign import Watcher
from conformance.errors import ExitCode, FaultError, UsageError
from conformance.followup import replay
from conformance.followup.replay import ReplayRequest
from conformance.frontend.cli import cli
from conformance.frontend.plugin import claim_tests
from conformance.judge.rows import Judgement, Verdict
from conformance.records import RunRecord, TrialRecord
from conformance.report import model
from conformance.run.planning import drawn_for
from conformance.scenario import SYNC_OFF

pytestmark = pytest.mark.spark


def trial_file(folder, number=1):
    return folder / "trials" / f"{NAME}.subject.{number}" / "trial.json"


def wanted(folder, tmp_path, trial="1", **words):
    return ReplayRequest(folder, NAME, trial, out=tmp_path / "again", **words)


def honest(folder):
    """As if the run had tried the broker as stock."""
    run = records.read(folder / "run.json", RunRecord)
    stock = campaign.prepare(campaign.Options("reference")).selection.settings
    values, absent = dict(stock.values), tuple(sorted(stock.absent))
    records.save(msgspec.structs.replace(run, settings=values, absent=absent, changed={}), folder / "run.json")
    for path in folder.glob("trials/*/trial.json"):
        records.save(msgspec.structs.replace(records.read(path, TrialRecord), settings=values), path)


def test_seen_again(recorded, spark, impatient, tmp_path):
    """The same k and steps twice, judged by the same judge: the loss is there in both."""
    prepared = replay.prepare(wanted(recorded, tmp_path, times=2))
    outcome = replay.execute(prepared, Watcher())
    new = [records.read(path, TrialRecord) for path in sorted((tmp_path / "again").glob("trials/*/trial.json"))]
    row = next(row for row in outcome.judgement.rows if row.claim == "SOLCD-ACK-01" and row.trials)

    assert [(prepared.record.k, prepared.record.steps, prepared.record.seed)] * 2 == [
        (record.k, record.steps, record.seed) for record in new
    ]
    assert [f"{NAME}.subject.1.again-1", f"{NAME}.subject.1.again-2"] == [record.trial for record in new]
    assert (Verdict.VIOLATED, 2, 2, True) == (row.verdict, row.offended, row.trials, outcome.again)
    assert outcome.lines[0].startswith("SOLCD-ACK-01: seen again in 2 of 2: p"), outcome.lines
    assert "confirmed messages lost)" in outcome.lines[0]
    assert records.read(tmp_path / "again" / "run.json", RunRecord).command == (
        f"conformance replay run --scenario {NAME} --trial 1 --times 2"
    )


def test_what_every_trial_is_checked_for_is_compared(recorded, tmp_path):
    """Also for claims that the script does not decide: a row may say that another scenario has shown a violation."""
    prepared = replay.prepare(wanted(recorded, tmp_path))
    run = msgspec.structs.replace(records.read(recorded / "run.json", RunRecord), selected=())
    script = prepared.campaign.scenarios[NAME]
    found = replay._checks(prepared, Judgement(run=run, rows=(), self_checks=(), trials=(prepared.record,)))
    also = {claim for claims in found.values() for claim in claims} - set(script.decides)

    assert {"EXPECT-SENT-01", "EXPECT-ALIVE-01", "EXPECT-ASIDE-01"} <= also
    assert all(found.values())


def test_not_seen_again(copy, spark, tmp_path, capsys, request):
    """An honest broker does not lose the message again; one clean trial decides nothing."""
    request.addfinalizer(functools.partial(signal.signal, signal.SIGTERM, signal.getsignal(signal.SIGTERM)))
    honest(copy)
    words = ["replay", str(copy), "--scenario", NAME, "--trial", "1", "--out", str(tmp_path / "again"), "-q"]
    code = cli.main(words, standalone_mode=False)
    said = capsys.readouterr().out

    assert 2 == code, said
    assert re.search(
        r"^SOLCD-ACK-01: not seen again in 1; before: \d+ of \d+ confirmed messages lost$", said, re.MULTILINE
    ), said


def test_recovery_is_compared(copy, spark, tmp_path):
    """The broker did not start again in the first recording, and does now: the replay says so, with any selection of claims."""
    honest(copy)
    folder, words = trial_file(copy).parent, "not recovered: it ended with status 1"
    for path in [*folder.glob("drain-*.jsonl"), *folder.glob("events.*")]:
        path.unlink()
    lines = (folder / "orchestrator.jsonl").read_text().splitlines()
    last = next(number for number, line in enumerate(lines) if '"op":"broker"' in line and '"detail":"start"' in line)
    lines[last + 1] = json.dumps({**json.loads(lines[last + 1]), "phase": "fail", "detail": words})
    footer = json.dumps({**json.loads(lines[-1]), "events": last + 1})
    (folder / "orchestrator.jsonl").write_text("\n".join([*lines[: last + 2], footer, ""]))

    outcome = replay.execute(replay.prepare(wanted(copy, tmp_path)), Watcher())

    assert (f"EXPECT-RECOVER-01: not seen again in 1; before: {words}",) == outcome.lines
    assert not outcome.again


def test_control(copy, spark, impatient, tmp_path):
    """A control is the same product, weakened as its label says; it is seen to fail again, and no row accuses it."""
    recorded = records.read(trial_file(copy), TrialRecord)
    honest(copy)
    steps = msgspec.to_builtins(SCENARIOS[NAME].drawn(recorded.seed, control=True).steps)  # no values are drawn for it
    change(trial_file(copy), arm="control", control=SYNC_OFF.label, settings=recorded.settings, steps=steps)
    for path in trial_file(copy).parent.glob("*.jsonl"):
        path.write_bytes(path.read_bytes().replace(b'"arm":"subject"', b'"arm":"control"'))
    prepared = replay.prepare(wanted(copy, tmp_path, arm="weakened"))
    outcome = replay.execute(prepared, Watcher())

    assert SYNC_OFF.label in prepared.title
    assert (False, 500) == tuple(
        prepared.campaign.chosen[0].settings.values[name] for name in ("sync_transactional", "journal_buffer_ms")
    )
    assert "seen again in 1 of 1" in outcome.lines[0]
    assert ExitCode.CONFORMANT is outcome.control_code
    assert set() == {row.claim for row in outcome.judgement.rows if row.verdict is Verdict.VIOLATED}


def test_every_violated_row_prints_a_line_that_works(recorded, tmp_path):
    """Typed in the folder of the run; the trial that it names is one that offended."""
    rows = [row for row in model.read_json(recorded / "report.json").verdicts if row.verdict is Verdict.VIOLATED]

    assert rows
    for row in rows:
        command, verb, folder, *words = shlex.split(row.replay)
        options = dict(zip(words[::2], words[1::2], strict=True))
        found = replay.prepare(
            ReplayRequest(recorded / folder, options["--scenario"], options["--trial"], out=tmp_path / "x")
        )
        assert ("conformance", "replay", ".") == (command, verb, folder)
        assert found.record.trial in {witness.trial for witness in row.witnesses}


def test_a_failed_test_prints_the_line(recorded):
    """With the folder as it was named; a worker's part is joined to the whole before a user can type it."""
    row = next(r for r in model.read_json(recorded / "report.json").verdicts if r.verdict is Verdict.VIOLATED)
    named, part = (claim_tests.violation(row, pathlib.Path(name)) for name in ("out", "out/workers/gw0"))

    assert f"again: conformance replay out --scenario {NAME} --trial 1" == named.splitlines()[-1]
    assert named == part


CONTROL = {"arm": "control", "index": 1}
STEPS = [{"step": "publish", "count": 7, "window": 1}, {"step": "drain"}]


@pytest.mark.parametrize(
    ("asked", "fields", "code", "line"),
    [
        (("broker-killed-while-publshing", "1"), {}, "unknown-scenario", f"did you mean '{NAME}'?"),
        ((NAME, "9"), {}, "no-trial", "has no trial 9 of subject in copy; it has subject: 1, 2, 3"),
        ((NAME, f"{NAME}.subject.7"), {}, "unknown-trial", f"did you mean '{NAME}.subject."),
        ((NAME, "1", "weakend"), {}, "unknown-arm", f"unknown arm of {NAME} 'weakend'"),
        (
            (NAME, "1", "weakened"),
            {1: {**CONTROL, "control": "a=false"}, 2: {**CONTROL, "control": "b=false"}},
            "ambiguous-arm",
            "is in 2 arms: say --arm 'a=false' or 'b=false'",
        ),
        (
            (NAME, "1", "never_heard=of"),
            {1: {**CONTROL, "control": "never_heard=of"}},
            "control-gone",
            "no control 'never_heard=of'",
        ),
        (
            (NAME, "1"),
            {1: {"steps": STEPS}},
            "script-changed",
            "cannot be repeated: its scenario has changed since: step 1: count was 7, and is ",
        ),
        ((NAME, "1"), {1: {"steps": STEPS[1:]}}, "script-changed", "step 1 was Drain, and is Publish"),
        ((NAME, "1"), {1: {"client": "raw"}}, "script-changed", "client was 'raw', and is 'library'"),
        ((NAME, "1"), {1: {"queue": {"max_length": 9}}}, "script-changed", "max_length was 9, and is nothing"),
        (
            (NAME, "1"),
            {1: {"steps": None, "script": ["Publish(count=7, window=1)", "Drain()"]}},
            "script-not-recorded",
            "of the suite recorded it before trial.json had the steps as data",
        ),
        (("gone-since", "1"), {1: {"scenario": "gone-since"}}, "scenario-gone", "has no scenario gone-since"),
        (
            (NAME, "1"),
            {"settings": {"journal_buffer_ms": 7}},
            "setting-changed",
            "journal_buffer_ms was 7 in the run and would be 500",
        ),
        ((NAME, "1"), {"adapter": "homemade"}, "unknown-adapter", "--adapter NAME@VERSION"),
    ],
)
def test_a_trial_that_cannot_be_repeated(copy, monkeypatch, asked, fields, code, line):
    """It is never recorded as if it were the same: what there is, what is closest, and what has changed.

    `fields` are those of trials by number, or of the run.
    """
    monkeypatch.chdir(copy.parent)
    run = json.loads((copy / "run.json").read_text())
    for name, value in fields.items():
        if isinstance(name, int):
            change(trial_file(copy, name), **value)
        else:
            change(copy / "run.json", **{name: {**run[name], **value} if isinstance(value, dict) else value})
    with pytest.raises(UsageError) as caught:
        replay.prepare(ReplayRequest(pathlib.Path("copy"), *asked))

    assert code == caught.value.code
    assert line in str(caught.value)


def test_the_recorded_seed_draws(copy):
    """Not the one that the number of the trial would give: a replay has the seed of what it repeats."""
    item = drawn_for(SCENARIOS[NAME], 99, adapters.find("reference"), "amqp")
    change(trial_file(copy), seed=99, steps=msgspec.to_builtins(item.steps))
    chosen = replay.prepare(ReplayRequest(copy, NAME, "1")).campaign.chosen[0]

    assert (99, item.steps) == (chosen.seed, chosen.script.steps)


def test_another_version_of_the_suite(copy):
    """A note, where the script is still the same."""
    run = json.loads((copy / "run.json").read_text())
    change(copy / "run.json", versions={**run["versions"], "conformance": "0.0.9"})

    assert "recorded by version 0.0.9" in replay.prepare(ReplayRequest(copy, NAME, "1")).notes[0]


def test_a_fault_that_this_machine_cannot_take(copy, monkeypatch):
    """Its name and why."""
    monkeypatch.setattr("conformance.faults.possible.unable", lambda asked, node=None: {"kill": "not allowed"})
    with pytest.raises(FaultError, match="cannot take kill: not allowed"):
        replay.prepare(ReplayRequest(copy, NAME, "1"))


def test_a_replay_of_a_replay_keeps_its_name_short(copy):
    """`.again-1` is not repeated."""
    name = f"{NAME}.subject.1.again-1"
    change(trial_file(copy), trial=name)
    trial_file(copy).parent.rename(copy / "trials" / name)

    assert name == replay.prepare(ReplayRequest(copy, NAME, "1")).campaign.chosen[0].id
