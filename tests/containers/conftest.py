"""The pretended engine, and, for the tests that want one, a real engine where one answers."""

import pytest
from pretend_engine import PretendEngine, pretend

from conformance.adapters.container import engine
from conformance.errors import LaunchError
from conformance.ledger import Ledger

__all__ = ["PretendEngine", "pretend"]


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "run", f"run-{tmp_path.name}") as book:
        yield book


@pytest.fixture(scope="session")
def real():
    """The engine that answers; the tests are skipped, with the reason, where there is none.

    None is started here: one that starts beside the tests of power losses holds their mounts in a namespace of its own,
    and a lost file system (xfs) is then shown again, dead, by the next mount.
    """
    engine.connect.cache_clear()
    try:
        yield engine.connect()
    except LaunchError as error:
        pytest.skip(f"{error} (here: COMMAND is `python -m pytest tests/containers`)")
    finally:
        engine.connect.cache_clear()
