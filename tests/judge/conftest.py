"""One Spark session for all tests of the judge, and the folder of their histories on the path."""

import pathlib
import sys

import pytest
from starts import starts_spark

from conformance.judge.spark import JudgeSession

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture(scope="session")
@starts_spark
def session():
    """A local session, started by the first test that uses it."""
    with JudgeSession.start() as started:
        yield started
