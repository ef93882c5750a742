"""Which runs can be resumed, and which of their trials are recorded again."""

import msgspec
import pytest

from conformance import campaign, records
from conformance.errors import UsageError
from conformance.records import RunFile
from conformance.run import record
from conformance.run.record import RunWriter
from conformance.run.trial.described import INTERRUPTED, describe

ONE = ("broker-killed-while-sending-one-by-one",)


def options(**changes):
    words = {"claims": ("SOLCD-ACK-01",), "scenarios": ONE, "seed": 7}
    return campaign.Options("reference", **{**words, **changes})


@pytest.fixture
def begun(tmp_path):
    """The folder of a run that was planned, and interrupted before anything was recorded."""
    prepared = campaign.prepare(options(out=tmp_path / "out"))
    (tmp_path / "out").mkdir()
    run = campaign.run_record(prepared)
    RunWriter(tmp_path / "out", run).plan(prepared.trials)
    return tmp_path / "out"


def test_the_same_options_go_on_with_its_seed(begun):
    prepared = campaign.prepare(options(resume=begun, seed=None))

    assert 7 == prepared.selection.seed
    assert prepared.earlier.run == campaign.run_record(prepared).run
    assert set(ONE) == {trial.script.id for trial in prepared.trials}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"trials": 4}, "another run; give the options that it was started with, conformance run --adapter reference"),
        ({"out": "x"}, "--resume and --out"),
        ({"scenarios": ("broker-kiled",)}, "unknown scenario"),
    ],
)
def test_other_options_are_refused(begun, changes, said):
    with pytest.raises(UsageError, match=said):
        campaign.prepare(options(resume=begun, **changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"finished": True}, "the run is finished"), ({"plan": ()}, ""), ({"plan": "k"}, "has changed since")],
)
def test_only_an_unfinished_run_of_the_same_scripts(begun, changes, said):
    """A trial that the earlier part had not planned yet changes nothing."""
    run = records.read(begun / "run.json", RunFile)
    if changes.get("plan") == "k":
        changes = {"plan": tuple(msgspec.structs.replace(trial, k=1) for trial in run.plan)}
    records.save(msgspec.structs.replace(run, **changes), begun / "run.json")
    if not said:
        assert campaign.prepare(options(resume=begun)).earlier
        return
    with pytest.raises(UsageError, match=said):
        campaign.prepare(options(resume=begun))


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(UsageError, match="not the folder of a run"):
        record.read_interrupted(tmp_path)


def test_what_is_left(begun):
    """A void trial stays for any reason; one that was interrupted, or torn, is recorded again."""
    done, void, interrupted, torn, link, *_ = trials = campaign.prepare(options(resume=begun)).trials
    for trial, why in ((done, ""), (void, "the broker ended"), (interrupted, INTERRUPTED)):
        place = begun / "trials" / trial.id
        place.mkdir(parents=True)
        records.save(msgspec.structs.replace(describe(trial), void=why), place / "trial.json")
    (begun / "trials" / torn.id).mkdir()

    assert trials[2:] == record.not_recorded(begun, trials)
    assert {done.id, void.id} == {path.name for path in (begun / "trials").iterdir()}

    (begun / "trials" / link.id).symlink_to(begun / "trials" / done.id)
    with pytest.raises(UsageError, match="is a link"):
        record.not_recorded(begun, trials)
