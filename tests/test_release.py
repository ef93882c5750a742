"""What a release refuses before it builds anything; `just release --draft` in CI makes one."""

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
