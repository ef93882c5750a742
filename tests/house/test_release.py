"""What a release refuses and what its wheel holds, without a build or network; `just release --draft` in CI makes one."""

import contextlib
import inspect
import json
import pathlib
import re
import sys

import pytest
from hatchling.builders.wheel import WheelBuilder

import conformance
from conformance import paths
from conformance.frontend.cli import cli
from tools import release


def test_the_changes_of_a_version():
    text = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-01-02\n\n- More.\n\n## [0.1.0]\n\n- First.\n"

    assert ["", "- More.", "- First.", ""] == [
        release.changes(text, name) for name in ("Unreleased", "0.2.0", "0.1.0", "9")
    ]


def test_a_version_without_changes_is_no_release(monkeypatch, tmp_path):
    """Nothing is made, and the text says what to do."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["release"])
    monkeypatch.setattr(conformance, "__version__", "9.9")
    with pytest.raises(SystemExit, match=r"no changes of 9\.9: give .Unreleased. that name"):
        release.main()

    assert [] == list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def held():
    """By its path in the wheel, each file that the wheel is made of."""
    return {file.distribution_path: file.path for file in WheelBuilder(str(paths.root())).recurse_included_files()}


def test_the_wheel_has_every_file_of_the_data_folders(held):
    """Each folder of `conformance.paths`: a template that the wheel lacks is missed only after all trials of a run."""
    folders = [each() for name, each in vars(paths).items() if inspect.isfunction(each) and not name.startswith("_")]
    folders = [path for path in folders if path.is_relative_to(paths.root()) and path != paths.root()]
    files = {path for folder in folders for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}

    assert {"docs", "fixtures", "suites", "templates"} == {path.name for path in folders}
    assert {f"conformance/_data/{path.relative_to(paths.root())}" for path in files} - held.keys() == set()


def test_the_package_opens_nothing_else(held):
    """Only its data folders: the root is used to take it out of the texts of a bundle. A named page is in the wheel."""
    texts = {name: pathlib.Path(path).read_text() for name, path in held.items() if name.endswith(".py")}
    package = {name: text for name, text in texts.items() if "/_data/" not in name}
    pages = {page for text in package.values() for page in re.findall(r"\bdocs/[a-z/-]+\.(?:md|json)", text)}

    assert {"conformance/followup/bundle/archive.py"} == {
        name for name, text in package.items() if "paths.root(" in text
    }
    assert {"docs/how-to/broker-file.md", "docs/how-to/external-brokers.md"} <= pages
    assert {f"conformance/_data/{page}" for page in pages} - held.keys() == set()


def test_each_command_that_writes_a_page_is_run_from_the_wheel():
    """`replay` writes its report as `run` does; the others write no page."""
    without = {"adapters", "broker", "claims", "doctor", "fetch", "init", "replay", "scenarios", "suites"}

    assert set(cli.commands) - without == set(release.PAGES)


@pytest.mark.process
@pytest.mark.parametrize(
    ("does", "why"),
    [
        (": >page", ""),
        ("exit 3", "conformance run of the installed wheel ended with 3 and did not write page"),
        (": >page; exit 2", "conformance run of the installed wheel ended with 2 and wrote page"),
        ("true", "conformance run of the installed wheel ended with 0 and did not write page"),
    ],
    ids=["written", "failed", "undecided", "not written"],
)
def test_a_wheel_that_writes_no_page_is_no_release(monkeypatch, tmp_path, does, why):
    command = tmp_path / "bin" / "conformance"
    command.parent.mkdir()
    command.write_text(f"#!/bin/sh\n{does}\n")
    command.chmod(0o755)
    monkeypatch.setattr(release, "PAGES", {"run": ("--out out", "page")})
    with pytest.raises(SystemExit, match=why) if why else contextlib.nullcontext():
        release.write_pages(command.parent, tmp_path / "empty")


CLEAN = {"name": "good", "version": "1", "vulns": []}
OWN = {"name": "ack-conformance", "skip_reason": "not found"}
BAD = {"name": "bad", "version": "1", "vulns": [{"id": "CVE-2026-1"}]}
UNKNOWN = {"name": "unknown", "skip_reason": "not found"}


@pytest.fixture
def says(monkeypatch, tmp_path):
    """Put a pip-audit on PATH which prints this and ends so; return the folder of a release's commands."""
    (tmp_path / "env/lib/python3/site-packages").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(tmp_path))

    def put(text, code=0):
        answer = f"import sys\nprint({text!r})\nprint('x\\nno way to its service', file=sys.stderr)\nsys.exit({code})\n"
        (tmp_path / "pip-audit").write_text(f"#!{sys.executable}\n{answer}")
        (tmp_path / "pip-audit").chmod(0o755)
        return tmp_path / "env/bin"

    return put


def listed(*packages):
    return json.dumps({"dependencies": packages, "fixes": []})


@pytest.mark.process
def test_an_audit_without_a_finding(says):
    assert "audited: no known vulnerability" == release.audited(says(listed(CLEAN, OWN)))


@pytest.mark.process
def test_a_known_vulnerability_is_no_release(says):
    """Even beside a package that the service does not know."""
    with pytest.raises(SystemExit, match="known vulnerabilities: bad: CVE-2026-1"):
        release.audited(says(listed(UNKNOWN, BAD), code=1))


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "code", "why"),
    [
        ("", 1, "no way to its service"),
        (listed(CLEAN, UNKNOWN), 0, "1 of 2 packages were skipped: unknown"),
        (listed(), 0, "0 of 0 packages were skipped"),
    ],
    ids=["the service is not reached", "it skips a package", "it saw none"],
)
def test_an_audit_that_was_none(says, text, code, why):
    """The release says so first of all, with the reason."""
    said = release.audited(says(text, code))

    assert said.startswith("NOT AUDITED: ")
    assert why in said


def test_no_audit_without_its_tool(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    assert "pip-audit is not installed" == release.audit()
