"""Every file of a run, changed in every way after the run: it is refused, or the trial is void and nothing holds."""

import os
import shutil

import msgspec
import pytest
from judge_histories import CLEAN, LOSSY, RUN, close, record, write
from judge_tampering import KILL, KINDS, WAYS
from judge_tampering import recorded as recorded_of_kill

from conformance import records
from conformance.errors import HistoryError
from conformance.judge.input import folder
from conformance.records import RunFile

TRIALS = ("subject.1", "subject.2")


def recorded(place, run):
    for index, trial in enumerate(TRIALS, 1):
        write(place / "trials" / trial, LOSSY, record(trial, index=index), run=run.run)
    close(place, run)
    records.save(records.read(place / "run.json", RunFile).sealed, place / "run.json")
    return place


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return recorded(tmp_path_factory.mktemp("whole") / "run", RUN)


@pytest.fixture
def run(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


FILES = ("trial.json", "publisher-1.jsonl", "orchestrator.jsonl", "drain-1.jsonl", "drain-2.jsonl")


def refused(run):
    """Whether the folder is refused, or is incomplete without its second trial."""
    try:
        found = folder.read(run)
    except HistoryError as error:
        return str(run) in str(error)
    voids = {about.trial for _, about in found.trials if about.void}
    return not found.run.finished and "subject.2" in found.run.incomplete and "subject.2" in voids


def test_the_files_of_a_trial_are_these(run):
    found = folder.read(run)

    assert (True, "") == (found.run.finished, found.run.incomplete)
    assert sorted(FILES) == sorted(path.name for path in records.evidence(run / "trials" / "subject.2"))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_changed(run, name, way):
    """Its time is as it was."""
    path = run / "trials" / "subject.2" / name
    before = path.stat()
    path.write_bytes(WAYS[way](path.read_bytes()))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert refused(run)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("source", ["nothing", "the other trial", "another run"])
def test_a_file_that_is_another(run, tmp_path, name, source):
    """The record of a trial does not name its run: that of another run with the same plan is the same."""
    path = run / "trials" / "subject.2" / name
    other = recorded(tmp_path / "other", msgspec.structs.replace(RUN, run="other"))
    path.unlink()
    if source != "nothing":
        place = run / "trials" / "subject.1" if source == "the other trial" else other / "trials" / "subject.2"
        shutil.copyfile(place / name, path)

    assert refused(run) or (name, source) == ("trial.json", "another run")


@pytest.mark.parametrize("way", WAYS)
def test_the_file_of_the_run_that_was_changed(run, way):
    """What says the same with other blanks, or in another order, is no change."""
    path = run / "run.json"
    before = path.read_bytes()
    path.write_bytes(WAYS[way](before))
    try:
        found = folder.read(run).run
    except HistoryError as error:
        assert str(path) in str(error)
    else:
        same = msgspec.json.decode(before) == msgspec.json.decode(path.read_bytes())
        assert (same, not same) == (found.finished, found.incomplete.startswith(folder.EDITED))


@pytest.mark.parametrize("field", [name for name in RunFile.__struct_fields__ if name != "seal"])
def test_a_field_of_the_run_that_was_edited(run, field):
    """As if it had never been said: a setting, a deviation, the plan, a checksum."""
    path = run / "run.json"
    fields = msgspec.json.decode(path.read_bytes())
    was = fields.get(field)
    if isinstance(was, bool):
        fields[field] = not was
    elif isinstance(was, int | float | str):
        fields[field] = type(was)(f"{was}9")
    else:
        fields[field] = {} if was else {"persistence": "false"}
    path.write_bytes(msgspec.json.encode(fields))
    try:
        found = folder.read(run).run
    except HistoryError as error:
        assert "run.json" in str(error)
    else:
        assert (False, True) == (found.finished, found.incomplete.startswith(folder.EDITED))


@pytest.fixture(scope="module")
def passed(tmp_path_factory):
    """A run of one scenario that holds; it was judged, so that its trials are packed."""
    only = msgspec.structs.replace(RUN, selected=("SOLCD-ACK-01",))
    place = recorded_of_kill(tmp_path_factory.mktemp("passed") / "run", [CLEAN] * 3, only, controls=5)
    records.save(records.read(place / "run.json", RunFile).sealed, place / "run.json")
    return place


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_tampering_is_seen(passed, tmp_path, kind):
    """When the folder is read, before Spark is asked: such a run is never finished, and an unfinished run is no pass."""
    run = shutil.copytree(passed, tmp_path / "run")
    KINDS[kind](run)
    try:
        found = folder.read(run).run
    except HistoryError as error:
        assert str(run) in str(error)
    else:
        assert not found.finished


@pytest.mark.spark
def test_the_run_that_is_tampered_with_was_a_pass(typed, session, passed):
    """Else none of the kinds below shows anything."""
    judged = typed("judge", passed)

    assert 0 == judged.returncode, judged.stdout + judged.stderr
    assert 50 <= len(KINDS)
    assert KILL in (passed / "report.json").read_text()


# Each takes a judgement: of each fifteen one is tried in every run of the tests.
@pytest.mark.spark
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.full] if place % 15 else []) for place, kind in enumerate(KINDS)]
)
def test_no_kind_of_tampering_is_called_a_pass(typed, session, passed, tmp_path, kind):
    """By the command, as a user judges a folder again."""
    run = shutil.copytree(passed, tmp_path / "run")
    KINDS[kind](run)
    judged = typed("judge", run)

    assert judged.returncode != 0, judged.stdout + judged.stderr
    assert "Traceback" not in judged.stderr
