"""What a run is told, before anything starts."""

import shlex

import pytest

from conformance import campaign
from conformance.adapters import ports
from conformance.campaign import open_run
from conformance.errors import LaunchError, UsageError
from conformance.frontend.cli import cli
from conformance.frontend.options import each_run, prepare

OPTIONS = campaign.Options(
    adapter="artemis",
    settings=("sync_transactional=false",),
    claims=("SOLCD-*", "AMQP-DUR-01"),
    required=("SOLCD-ACK-01",),
    trials=4,
    thorough=True,
    budget_s=600,
)


def test_command_repeats_the_run():
    first = campaign.prepare(OPTIONS)
    name, *words = shlex.split(campaign.command(first))[1:]
    again, _ = prepare(*each_run(cli.commands[name].make_context(name, words).params))

    assert first.trials == again.trials
    assert (first.options.budget_s, first.selection) == (again.options.budget_s, again.selection)


def test_command_names_no_folder(tmp_path):
    """Reports with the command leave this machine."""
    options = campaign.Options(adapter="reference", out=tmp_path / "out", seed=1)

    assert str(tmp_path) not in campaign.command(campaign.prepare(options))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--budget", "ten"), "--budget ten: give a whole number with s, m or h, such as 10m"),
        (("--budget", "1.5h"), "give a whole number"),
        (("--quick", "--thorough"), "--quick and --thorough: give one of them"),
    ],
)
def test_words_that_no_run_can_have(words, why):
    with pytest.raises(UsageError, match=why):
        prepare(*each_run(cli.commands["run"].make_context("run", ["--adapter", "reference", *words]).params))


@pytest.mark.parametrize("trials", [0, -1])
def test_no_trials_are_refused(trials):
    with pytest.raises(UsageError, match="at least 1"):
        campaign.prepare(campaign.Options(adapter="reference", trials=trials))


def test_a_broker_that_is_not_there_ends_a_run_before_its_first_trial(tmp_path):
    free = ports.Ports(["amqp", "http"])
    place = f"reference:external=amqp://127.0.0.1:{free['amqp']},http://127.0.0.1:{free['http']}"
    prepared = campaign.prepare(campaign.Options(place, claims=("AMQP-ACC-01",), out=tmp_path / "run"))

    with pytest.raises(LaunchError, match=r"external\.urls\.amqp: nothing listens"):
        campaign.execute(prepared, campaign.Watcher())
    free.close()
    assert not (tmp_path / "run" / "trials").exists()


@pytest.mark.parametrize(("trials", "said"), [(1, ["--trials 1"]), (2, ["--trials 2"]), (3, [])])
def test_too_few_trials_are_named_before_the_first(tmp_path, monkeypatch, trials, said):
    """Counter-example: a whole run of one trial each, and everything in it INCONCLUSIVE without a word before."""
    prepared = campaign.prepare(campaign.Options("reference", trials=trials, out=tmp_path / "run"))
    notes: list[str] = []
    monkeypatch.setattr(open_run, "clients_of", lambda _: pytest.fail("the first trial is near"))
    with pytest.raises(pytest.fail.Exception), campaign.session(prepared, campaign.Watcher(note=notes.append)):
        pass
    found = [note for note in notes if "HOLDS needs 3 faults" in note]

    assert said == [note.partition(":")[0] for note in found]
