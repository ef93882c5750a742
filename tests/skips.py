"""Which tests were skipped and why, held against the list in `skips.toml`.

A skip must not look like a pass: a reason that the list does not know fails the session. With `--complete`, as CI says,
so does a skip whose reason has no `ci` there: CI installs what such a test needs.
"""

import pathlib
import re
import tomllib

LIST = pathlib.Path(__file__).with_name("skips.toml")


class Skips:
    """Collects the skips of a session; `known` are the entries of `skips.toml`."""

    def __init__(self, known, *, complete=False, file=None):
        self.known, self.complete, self.file = known, complete, file
        self.found = {}

    def pytest_runtest_logreport(self, report):
        if report.skipped and not hasattr(report, "wasxfail"):
            self.found[report.nodeid] = reason_of(report)

    def pytest_collectreport(self, report):
        if report.skipped:
            self.found[report.nodeid] = reason_of(report)

    def pytest_sessionfinish(self, session):
        if self.file:
            pathlib.Path(self.file).write_text("".join(f"{node}\n" for node in self.found))
        if self.refused() and session.exitstatus == 0:
            session.exitstatus = 1

    def pytest_terminal_summary(self, terminalreporter):
        if refused := self.refused():
            terminalreporter.section("skips that tests/skips.toml does not allow", red=True)
            for node, why in refused.items():
                terminalreporter.line(f"{node}: {why}")

    def refused(self):
        """Test id -> reason, of the skips that are not allowed here."""
        return {node: why for node, why in self.found.items() if not self._allowed(why)}

    def _allowed(self, why):
        return any(re.search(entry["reason"], why) and (entry.get("ci") or not self.complete) for entry in self.known)


def reason_of(report):
    """The words after `Skipped: `."""
    words = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return words.removeprefix("Skipped: ")


def known():
    """The entries of the list: `reason`, a pattern; `needs`, what the tests lack; `ci`, why CI cannot have it."""
    return tomllib.loads(LIST.read_text())["skip"]
