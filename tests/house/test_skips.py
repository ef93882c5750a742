"""A skip must not look like a pass: its reason stands in tests/skips.toml, or the session fails."""

import pytest
import skips

pytest_plugins = ["pytester"]

ENTRIES = [{"reason": "needs strace", "needs": "strace"}, {"reason": "an engine", "needs": "Docker", "ci": "no room"}]
TESTS = """
    import pytest

    def test_passes(): pass

    def test_is_skipped(): pytest.skip({reason!r})
"""


@pytest.mark.parametrize(
    ("reason", "complete", "refused"),
    [
        ("needs strace 5.6", False, False),
        ("needs strace 5.6", True, True),
        ("an engine is missing", True, False),
        ("too tired", False, True),
    ],
)
def test_a_skip_fails_a_session_that_does_not_allow_it(pytester, reason, complete, refused):
    """Outside CI where no entry has its reason; in CI also where the entry says nothing of CI."""
    pytester.makepyfile(TESTS.format(reason=reason))
    found = skips.Skips(ENTRIES, complete=complete, file=pytester.path / "skipped.txt")

    outcome = pytester.inline_run("-p", "no:cacheprovider", plugins=[found])

    assert outcome.ret == (1 if refused else 0)
    assert list(found.refused().values()) == ([reason] if refused else [])
    assert (pytester.path / "skipped.txt").read_text().endswith("::test_is_skipped\n")


def test_every_entry_says_what_is_missing():
    """Each entry has a pattern and what the test needs."""
    assert all(entry.keys() <= {"reason", "needs", "ci"} for entry in skips.known())
    assert all(entry["reason"] and entry["needs"] for entry in skips.known())
