"""What users copy or name in their CI: examples/ci, the action and the component.

Their scripts are run by bash, with commands that only write down what they were given; test_readme checks each command.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import subprocess
import sys
import tomllib

import pytest
import yaml
from typed_lines import ROOT, understood

from conformance import claims
from conformance.report import expectations

FOLDER = ROOT / "examples" / "ci"
GITHUB = yaml.safe_load((FOLDER / "github-actions.yml").read_text())["jobs"]["conformance"]["steps"]
GITLAB = yaml.safe_load((FOLDER / "gitlab-ci.yml").read_text())["conformance"]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
SPEC, COMPONENT = yaml.safe_load_all((ROOT / "templates" / "conformance.yml").read_text())
(JOB,) = COMPONENT.values()

GIVEN = {
    "adapter": "artemis:external=amqp://127.0.0.1:5672,http://127.0.0.1:8161",
    "arguments": "--quick --claims SOLCD-* --seed 7",
    "out": "my report",
    "package": "a folder/suite",
}
"""The inputs of a user: with a comma, a pattern that matches a file in the folder of the job, and a space."""
PATTERN = re.compile(r"\$(?:\{\{|\[\[) inputs\.(\w+) (?:\}\}|\]\])")


def filled(variables, inputs):
    """The variables of a step or a job, with the inputs in them."""
    named = {name: inputs[name].get("default", "") for name in inputs} | GIVEN
    return {name: PATTERN.sub(lambda found: named[found[1]], str(text)) for name, text in variables.items()}


@pytest.fixture
def played(tmp_path):
    """Run a script as the service does, and return the words of each command that would install or test something."""
    stub = f"#!{sys.executable}\nimport json, os, sys\nwith open(os.environ['CALLS'], 'a') as file:\n"
    stub += "    print(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]), file=file)\n"
    (tmp_path / "bin").mkdir()
    for name in ("conformance", "pip", "python", "sudo", "apt-get", "git"):
        (tmp_path / "bin" / name).write_text(stub)
        (tmp_path / "bin" / name).chmod(stat.S_IRWXU)
    (tmp_path / "SOLCD-a-file-of-the-job").touch()
    calls = tmp_path / "calls"
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    known = {
        "PATH": path,
        "CALLS": str(calls),
        "GITHUB_ACTION_PATH": "/a suite",
        "GITHUB_OUTPUT": str(tmp_path / "out"),
    }

    def run(script, variables):
        calls.write_text("")
        assert not PATTERN.search(script), "an input is part of a script: its text would be run"
        subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=tmp_path, env={**known, **variables}, check=True)
        return [json.loads(line) for line in calls.read_text().splitlines()]

    return run


def steps_played(played, steps, inputs):
    return [
        call for step in steps if "run" in step for call in played(step["run"], filled(step.get("env", {}), inputs))
    ]


def job_played(played, job, inputs):
    return played("\n".join([*job["before_script"], *job["script"]]), filled(job["variables"], inputs))


def the_run(calls):
    """Return the options of the only `conformance run` call, and the words of the only `pip install` call."""
    (run,) = [words for words in calls if words[:2] == ["conformance", "run"]]
    (installed,) = [words[-1] for words in calls if "pip" in words and "install" in words]
    assert ["conformance", "doctor"] in calls
    return understood(run[1:])[1], installed


@pytest.mark.process
@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_an_example_runs_the_suite_with_known_failures(played, kind):
    calls = steps_played(played, GITHUB, {}) if kind == "github" else job_played(played, GITLAB, {})
    values, installed = the_run(calls)

    assert ("artemis@2.56.0",) == values["adapter"]
    assert ("./ack-conformance", True) == (installed, bool(values["known_failures"]))
    if kind == "github":  # what is installed was checked out before: the suite is on no package index
        assert ["ack-conformance"] == [step["with"]["path"] for step in GITHUB if "repository" in step.get("with", {})]
    else:
        (cloned,) = [words[-1] for words in calls if words[:2] == ["git", "clone"]]
        assert cloned.endswith("/ack-conformance.git")


@pytest.mark.process
@pytest.mark.parametrize("kind", ["action", "component"])
def test_inputs_reach_the_command_line_as_they_are(played, kind):
    """No input is split, but the arguments at their spaces; no pattern becomes the name of a file."""
    if kind == "action":
        calls = steps_played(played, ACTION["runs"]["steps"], ACTION["inputs"])
    else:
        calls = job_played(played, JOB, SPEC["spec"]["inputs"])
    values, installed = the_run(calls)

    assert ((GIVEN["adapter"],), ("SOLCD-*",), 7, True) == tuple(
        values[k] for k in ("adapter", "claims", "seed", "quick")
    )
    assert {"action": ("/a suite", "my report"), "component": ("a folder/suite", "report")}[kind] == (
        installed,
        str(values["out"]),
    )


@pytest.mark.process
def test_the_key_of_the_cache_has_no_comma(played, tmp_path):
    """The service refuses one in a key, and an external broker has it between its addresses."""
    step = step_of_action("cache")
    keys = []
    for project, python in (("one", "3.12"), ("two", "3.12"), ("two", "3.13")):
        (tmp_path / "pyproject.toml").write_text(project)
        (tmp_path / "out").unlink(missing_ok=True)
        played(
            step["run"],
            {**filled(step["env"], ACTION["inputs"]), "PYTHON": python, "GITHUB_ACTION_PATH": str(tmp_path)},
        )
        keys.append((tmp_path / "out").read_text())

    assert [True] * 3 == [
        bool(re.fullmatch(r"key=conformance-\d+-\d+\npip=conformance-pip-\d+-\d+\n", key)) for key in keys
    ]
    assert 3 == len(set(keys))  # what pip has kept is of this Python, and of these dependencies


@pytest.mark.process
@pytest.mark.parametrize("code", [0, 1])
def test_the_outputs_of_the_action(played, tmp_path, code):
    """They are there after a violation too, and the step ends as the run has ended."""
    step = step_of_action("run")
    (tmp_path / "bin" / "conformance").write_text(f"#!/bin/sh\nexit {code}\n")
    with pytest.raises(subprocess.CalledProcessError) if code else contextlib.nullcontext():
        played(step["run"], filled(step["env"], ACTION["inputs"]))
    written = dict(line.split("=", 1) for line in (tmp_path / "out").read_text().splitlines())

    assert {"exit-code": str(code), "report": "my report/report.html"} == written
    assert {f"${{{{ steps.run.outputs.{name} }}}}" for name in written} == {
        output["value"] for output in ACTION["outputs"].values()
    }
    assert ACTION["outputs"].keys() == written.keys()


def step_of_action(name):
    (step,) = [step for step in ACTION["runs"]["steps"] if step.get("id") == name]
    return step


@pytest.mark.parametrize(("steps", "out"), [(GITHUB, "report"), (ACTION["runs"]["steps"], "${{ inputs.out }}")])
def test_github_keeps_the_report_and_the_downloads(steps, out):
    """After every exit code."""
    kept = next(step for step in steps if "upload-artifact" in step.get("uses", ""))
    cached = next(step for step in steps if "actions/cache" in step.get("uses", ""))

    assert "${{ !cancelled() }}" == kept["if"]
    files = ["report.html", "report.json", "junit.xml", "ctrf.json"]
    assert [f"{out}/{name}" for name in files] == kept["with"]["path"].splitlines()
    assert ".cache/ack-conformance/dist" == cached["with"]["path"]


@pytest.mark.parametrize("job", [GITLAB, JOB], ids=["example", "component"])
def test_gitlab_keeps_the_report_and_the_downloads(job):
    """After every exit code; undecided is a warning."""
    assert ("always", "report/junit.xml") == (job["artifacts"]["when"], job["artifacts"]["reports"]["junit"])
    assert "report/report.html" in job["artifacts"]["paths"]
    assert ".cache/ack-conformance/dist" in job["cache"]["paths"]
    assert [2] == job["allow_failure"]["exit_codes"]


def test_every_step_of_the_action_names_its_shell():
    """A composite action needs it."""
    assert [] == [step for step in ACTION["runs"]["steps"] if ("run" in step) != (step.get("shell") == "bash")]


def test_the_inputs_of_the_page_are_those_of_the_files():
    page = (ROOT / "docs/how-to/ci.md").read_text()
    (outputs,) = re.findall(r"Its outputs are (`.*?), the path", page)

    assert list(ACTION["outputs"]) == re.findall(r"`([\w-]+)`", outputs)
    action, component = re.findall(r"Its inputs\s+are (`adapter`.*?)\. ?", page, re.DOTALL)

    assert list(ACTION["inputs"]) == re.findall(r"`(\w+)`", action)
    assert list(SPEC["spec"]["inputs"]) == re.findall(r"`(\w+)`", component)


def test_the_known_failures_are_read():
    (known,) = expectations.read_known(FOLDER / "known-failures.toml", claims.load())

    assert "artemis" == known.adapter


def test_the_workflow_runs_the_recipes_on_each_python():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"]
    claimed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    lines = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    recipes = re.findall(r"^([a-z-]+)(?: [^:=]*)?:", (ROOT / "justfile").read_text(), re.MULTILINE)

    assert {"lint": ["./dev lint"], "tests": ["./dev test"], "whole": ["sudo .ci/run"]} == lines
    assert {"lint", "test"} <= {*recipes}
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert jobs["tests"]["strategy"]["matrix"]["python"] == [
        found for line in claimed if (found := line.removeprefix("Programming Language :: Python :: ")).startswith("3.")
    ]
    assert all(job["timeout-minutes"] for job in jobs.values())
