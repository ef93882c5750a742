"""The Spark of all tests under the name that the judge gives it, and the folder of their histories on the path."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture(scope="session")
def session(spark_for_all):
    """A local session, started by the first test that uses it."""
    return spark_for_all
