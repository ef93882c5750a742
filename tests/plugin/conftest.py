"""Sessions of pytest as users start them, each in a process of its own."""

import os
import subprocess
import sys

import pytest

from conformance import paths


@pytest.fixture(scope="session")
def suites():
    """The folder of our scenarios."""
    return paths.suites()


@pytest.fixture(scope="session")
def run_pytest(tmp_path_factory):
    """Run pytest to the end; returns the completed process."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(tmp_path_factory.mktemp("state-of-sessions")),
        "COLUMNS": "200",
    }

    def run(*words, cwd=elsewhere, timeout=300):
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *map(str, words)]
        if any("cache_dir" in str(word) for word in words):
            command = [word for word in command if word not in ("-p", "no:cacheprovider")]
        return subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )

    return run
