"""Sessions of pytest as users start them, each in a process of its own."""

import os
import subprocess
import sys

import pytest
from starts import starts_process

from conformance import paths


@pytest.fixture(scope="session")
def suites():
    """The folder of our scenarios."""
    return paths.suites()


@pytest.fixture(scope="session")
@starts_process
def run_python(tmp_path_factory):
    """Run a module to the end, with a state of its own; returns the completed process."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    state = str(tmp_path_factory.mktemp("state-of-sessions"))
    environment = {**os.environ, "XDG_STATE_HOME": state, "COLUMNS": "200"}

    def run(*words, cwd=elsewhere, timeout=300):
        command = [sys.executable, "-m", *map(str, words)]
        return subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )

    return run


@pytest.fixture(scope="session")
def run_pytest(run_python):
    """Run pytest to the end, without its cache unless `cache_dir` is set; returns the completed process."""

    def run(*words, **where):
        cached = any("cache_dir" in str(word) for word in words)
        return run_python("pytest", *([] if cached else ["-p", "no:cacheprovider"]), *words, **where)

    return run
