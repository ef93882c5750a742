"""What a release refuses, without a build and without a network; `just release --draft` in CI makes one."""

import json
import sys

import pytest

import conformance
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
    with pytest.raises(SystemExit, match=f"no changes of {conformance.__version__}: give .Unreleased. that name"):
        release.main()

    assert [] == list(tmp_path.iterdir())


def test_the_package_names_pages():
    """Otherwise the check that the wheel has them checks nothing."""
    assert {"brokers-toml.md", "external-brokers.md"} <= release.named()


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


def test_an_audit_without_a_finding(says):
    assert "audited: no known vulnerability" == release.audited(says(listed(CLEAN, OWN)))


def test_a_known_vulnerability_is_no_release(says):
    """Even beside a package that the service does not know."""
    with pytest.raises(SystemExit, match="known vulnerabilities: bad: CVE-2026-1"):
        release.audited(says(listed(UNKNOWN, BAD), code=1))


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
