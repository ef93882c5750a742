"""What users copy: the workflows of examples/ci parse, and the command line takes every command that is in them."""

from __future__ import annotations

import shlex

import click
import pytest
import yaml

from conformance import claims, paths
from conformance.frontend.cli import cli
from conformance.report import expectations

FOLDER = paths.root() / "examples" / "ci"
GITHUB = yaml.safe_load((FOLDER / "github-actions.yml").read_text())
GITLAB = yaml.safe_load((FOLDER / "gitlab-ci.yml").read_text())


def lines():
    """Every line that a job runs, by where it stands."""
    for job in GITHUB["jobs"].values():
        for step in job["steps"]:
            for line in step.get("run", "").splitlines():
                yield "github", line
    for job in GITLAB.values():
        for part in ("before_script", "script"):
            for line in job.get(part, []):
                yield "gitlab", line


def commands():
    """The words of each command of the suite."""
    for where, line in lines():
        words = shlex.split(line)
        if words[:1] == ["conformance"]:
            yield where, words


def understood(words):
    """Parse it as the command line would, down to its options and their types; run nothing."""
    command, context, rest = cli, click.Context(cli), words
    while isinstance(command, click.Group):
        _, found, rest = command.resolve_command(context, list(rest))
        command = found
        context = click.Context(command, parent=context)
    values, _, order = command.make_parser(context).parse_args(list(rest))
    for parameter in order:
        if parameter.name in values:
            parameter.type_cast_value(context, values[parameter.name])
    return values


@pytest.mark.parametrize(("where", "words"), list(commands()), ids=lambda one: one if isinstance(one, str) else one[1])
def test_the_command_line_takes_it(where, words):
    assert isinstance(understood(words[1:]), dict)


@pytest.mark.parametrize("words", [["run", "--adaptor", "artemis"], ["rum"], ["run", "--trials", "many"]])
def test_a_word_that_it_does_not_know(words):
    with pytest.raises(Exception) as caught:
        understood(words)

    assert isinstance(caught.value, click.UsageError) or "unknown" in str(caught.value)


def test_each_has_what_it_is_for():
    """Both run, with known failures, a report that is kept after every exit code, JUnit, and a cache of downloads."""
    (run,) = [understood(words[1:]) for where, words in commands() if where == "github" and words[1] == "run"]
    (other,) = [understood(words[1:]) for where, words in commands() if where == "gitlab" and words[1] == "run"]
    steps = GITHUB["jobs"]["conformance"]["steps"]
    kept = next(step for step in steps if "upload-artifact" in step.get("uses", ""))
    cached = next(step for step in steps if "actions/cache" in step.get("uses", ""))
    job = GITLAB["conformance"]

    assert run["known_failures"]
    assert other["known_failures"]
    assert "${{ !cancelled() }}" == kept["if"]
    files = ["report.html", "report.json", "junit.xml", "ctrf.json"]
    assert [f"report/{name}" for name in files] == kept["with"]["path"].split()
    assert ".cache/ack-conformance/dist" == cached["with"]["path"]
    assert ("always", "report/junit.xml") == (job["artifacts"]["when"], job["artifacts"]["reports"]["junit"])
    assert "report/report.html" in job["artifacts"]["paths"]
    assert ".cache/ack-conformance/dist" in job["cache"]["paths"]
    assert [2] == job["allow_failure"]["exit_codes"]


def test_the_known_failures_are_read():
    (known,) = expectations.read_known(FOLDER / "known-failures.toml", claims.load())

    assert "artemis" == known.adapter
