"""Sessions of pytest as users start them, each in a process of its own."""

import pytest

from conformance import paths


@pytest.fixture(scope="session")
def suites():
    """The folder of our scenarios."""
    return paths.suites()


@pytest.fixture(scope="session")
def run_pytest(run_python):
    """Run pytest to the end, without its cache unless `cache_dir` is set; returns the completed process."""

    def run(*words, **where):
        cached = any("cache_dir" in str(word) for word in words)
        return run_python("pytest", *([] if cached else ["-p", "no:cacheprovider"]), *words, **where)

    return run
