"""A test that starts a process has the marker `process`, and `./dev check` leaves those tests out.

Where they are left out, a start in another test fails: its marker is missing.

A fixture says it once for all its users, by a decorator. The markers of Spark and of the brokers bring `process` with them.
"""

import contextlib
import sys

import pytest

from conformance.faults import possible

IMPLY_PROCESS = ("spark", "activemq", "artemis", "openmq", "qpid")
_EVENTS = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty")


def starts_process(fixture):
    """Mark the tests that use a fixture: `@pytest.fixture` stands above it."""
    fixture.marker_of_users = "process"
    return fixture


def starts_spark(fixture):
    fixture.marker_of_users = "spark"
    return fixture


class Starts:
    """Marks tests by their fixtures. With `left_out` marked ones are left out, and no other may start a process."""

    def __init__(self, *, left_out):
        self._left_out, self._refused = left_out, None
        if left_out:
            sys.addaudithook(self._hear)

    def pytest_sessionstart(self):
        """Find out what this machine can do, which starts processes once, before tests ask for it."""
        for cannot in possible.MEANS.values() if self._left_out else ():
            cannot()

    @pytest.hookimpl(tryfirst=True)  # before `-m` selects
    def pytest_collection_modifyitems(self, items):
        for item in items:
            for marker in {*map(marker_of_users, fixtures_of(item))} - {None}:
                item.add_marker(marker)
            if any(map(item.get_closest_marker, IMPLY_PROCESS)):
                item.add_marker("process")

    def _hear(self, event, args):
        if self._refused is not None and event in _EVENTS:
            self._refused.append(str(args[0]))
            raise RuntimeError(f"a test without the marker `process` starts {args[0]}")

    @contextlib.contextmanager
    def _watched(self, item):
        self._refused = [] if self._left_out and not item.get_closest_marker("process") else None
        try:
            yield
        finally:
            refused, self._refused = self._refused, None
            if refused:
                pytest.fail(f"it starts {refused[0]}: give it the marker `process`, or start nothing", pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item):
        with self._watched(item):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        with self._watched(item):
            return (yield)


def fixtures_of(item):
    """The functions of the fixtures that a test uses; a doctest has none."""
    known = getattr(item, "_fixtureinfo", None)
    return (
        [known.name2fixturedefs[name][-1].func for name in item.fixturenames if name in known.name2fixturedefs]
        if known
        else []
    )


def marker_of_users(fixture):
    return getattr(fixture, "marker_of_users", None)
