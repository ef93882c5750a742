"""The claims and scenarios that reports are about."""

import pytest

from conformance import claims, scenario


@pytest.fixture(scope="session")
def catalogue():
    return claims.load()


@pytest.fixture(scope="session")
def scenarios(catalogue):
    return scenario.load(catalogue)
