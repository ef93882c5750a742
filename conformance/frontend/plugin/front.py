"""The hooks of a pytest session with `--adapter`: the run opens at the first test and is reported at the end.

Under xdist each worker records its own run below the folder, and the controller joins and judges them. All tests of a
scenario go to one worker; the same seed gives the same trials with any number of workers.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
import signal
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import pytest

from conformance import campaign, claims, records, report, scenario
from conformance.campaign import OpenRun, Watcher
from conformance.claims import Kind, Scope
from conformance.errors import ConformanceError, Interrupted, UsageError, visible
from conformance.frontend.options import PYTEST, options_of, prepare
from conformance.frontend.plugin import claim_tests
from conformance.frontend.plugin.claim_tests import (
    ClaimAnswer,
    ClaimItem,
    HarnessError,
    ScenarioFile,
    defines_scenarios,
    make_file,
)
from conformance.frontend.plugin.fixtures import end_session
from conformance.judge.rows import Judgement, Verdict, VerdictRow
from conformance.report.expectations import ExpectationOutcome
from conformance.report.model import Standing, headline
from conformance.report.phrases import SIGNS
from conformance.run.planning import scenarios_sharing, wanted_checks
from conformance.run.record import Progress

_WHOLE = ("loadscope", "loadfile")
"""The values of `--dist` that keep the tests of a class together."""


class Front:
    """The session that tests a broker. Raises `pytest.UsageError` for an unknown word."""

    def __init__(self, config: pytest.Config, chosen: str) -> None:
        self.config = config
        self.sent: Mapping[str, Any] = getattr(config, "workerinput", {})
        self.strict = config.getoption("conformance_strict_verdicts")
        try:
            self.campaign, self.expected = prepare(self._values())
        except ConformanceError as error:
            raise pytest.UsageError(visible(str(error))) from error
        self.controller = not self.sent and bool(config.getoption("tx", None))
        if self.controller:
            _keep_scenarios_whole(config, chosen)
        self.judgement: Judgement | None = None
        self.outcome: ExpectationOutcome | None = None
        self.written: Mapping[str, pathlib.Path] = {}
        self.error: BaseException | None = None
        self._running: OpenRun | None = None
        self._stack = contextlib.ExitStack()
        self._rows: dict[tuple[str, str], VerdictRow] = {}
        self._logs: dict[str, list[pathlib.Path]] = {}
        self._module: pathlib.Path | None = None
        self._files: list[str] = []
        self._collected: set[str] = set()
        self._untried: set[str] = set()
        self._workers: dict[str, int] = {}
        for word in ("conformance", *Kind, *Scope):
            config.addinivalue_line("markers", f"{word}: a claim of the conformance suite")

    def _values(self) -> dict[str, Any]:
        """The options by name; a worker of xdist records into a folder of its own, with the seed of the controller."""
        values = {option.name: self.config.getoption(f"conformance_{option.name}") for option in options_of(PYTEST)}
        if self.sent:
            values |= {"out": pathlib.Path(self.sent["conformance_out"]), "seed": self.sent["conformance_seed"]}
            values["jobs"] = 1  # the other workers are the other jobs
        return values

    # collection

    def pytest_report_header(self) -> str:
        run = self.campaign
        return (
            f"conformance: {run.adapter.file.title} {run.adapter.version} ({run.adapter.launcher.word}) over "
            f"{run.selection.protocol}, seed {run.selection.seed}, into {run.folder}"
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makemodule(self, module_path: pathlib.Path, parent: pytest.Collector) -> ScenarioFile | None:
        if not defines_scenarios(module_path):
            return None
        self._module = module_path
        return make_file(module_path, parent, self)

    @pytest.hookimpl(trylast=True)
    def pytest_collect_file(self, file_path: pathlib.Path, parent: pytest.Collector) -> ScenarioFile | None:
        """Collect the scenarios of any other file; pytest has asked about its modules just before."""
        made, self._module = self._module, None
        if made == file_path or not defines_scenarios(file_path):
            return None
        return make_file(file_path, parent, self)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Leave out of the run what was deselected."""
        items = [item for item in session.items if isinstance(item, ClaimItem)]
        self._files = list(dict.fromkeys(str(item.path) for item in items))
        self._collected = {item.parent.scenario.id for item in items}
        self.campaign = campaign.narrowed(self.campaign, {item.name for item in items})
        selection = self.campaign.selection
        tried = {item.name for item in items if item.name in wanted_checks(item.parent.scenario, selection)}
        self._untried = set(self.expected.require_tried) - tried

    # tests

    def answer(self, item: ClaimItem) -> ClaimAnswer:
        """Return the row of a test; the first of a scenario records and judges it, and those that share its broker."""
        chosen = item.parent.scenario
        if chosen.timing and int(self.sent.get("workercount", 1)) > 1:
            raise HarnessError(f"{item.parent.name} measures time, which neighbours would spoil: run it without -n")
        try:
            row = self._row(chosen.id, item.name)
        except Interrupted as error:
            raise KeyboardInterrupt(str(error)) from error
        except ConformanceError as error:
            self.error = error
            raise HarnessError(str(error)) from error
        assert self._running is not None
        assert self.judgement is not None
        run = self._running.run
        answer = ClaimAnswer(row, self.expected.of(self.judgement), untried=item.name in self._untried)
        item.user_properties += claim_tests.properties(answer, run)
        if allure := self.config.pluginmanager.get_plugin("allure_listener"):
            logs, reporter = self._logs[chosen.id], allure.allure_logger
            claim_tests.report_to_allure(row, self.judgement, self.campaign.folder, logs, reporter)
        if row.verdict is Verdict.HARNESS_ERROR:
            raise HarnessError(claim_tests.harness_error(row, self.judgement.trials))
        return answer

    def _row(self, scenario_id: str, claim_id: str) -> VerdictRow:
        if (scenario_id, claim_id) not in self._rows:
            before, together = set(self._broker_logs()), self._together(scenario_id)
            with self._uncaptured():
                running = self._open()
                running.record(together)
                self.judgement = running.judge()
            fresh = [path for path in self._broker_logs() if path not in before]
            newest = list({path.parent: path for path in fresh}.values())  # of each broker
            self._logs |= dict.fromkeys(together, newest)
            rows = (*self.judgement.rows, *self.judgement.self_checks)
            self._rows |= {(row.scenario, row.claim): row for row in rows if row.scenario in together}
        return self._rows[scenario_id, claim_id]

    def _together(self, scenario_id: str) -> tuple[str, ...]:
        """Return the scenarios of this session that share a broker; a worker of xdist may not have all of them."""
        if self.sent:
            return (scenario_id,)
        trials = [trial for trial in self.campaign.trials if trial.script.id in self._collected]
        return scenarios_sharing(trials, scenario_id)

    def _uncaptured(self) -> contextlib.AbstractContextManager[None]:
        """Let the notes of a recording reach the terminal, not the report of one test."""
        capture = self.config.pluginmanager.get_plugin("capturemanager")
        if capture is None or self.config.get_verbosity() < 1:
            return contextlib.nullcontext()
        return capture.global_and_fixture_disabled()  # type: ignore[no-any-return]

    def _open(self) -> OpenRun:
        if self.error is not None:
            raise self.error  # the suite failed before: nothing more is recorded into this run
        if self._running is None:
            if threading.current_thread() is threading.main_thread():
                for number in (signal.SIGTERM, signal.SIGINT) if self.sent else (signal.SIGTERM,):
                    self._stack.callback(signal.signal, number, signal.signal(number, end_session))
            self._running = self._stack.enter_context(campaign.session(self.campaign, self._watcher()))
        return self._running

    def _broker_logs(self) -> list[pathlib.Path]:
        return sorted(self.campaign.folder.glob("brokers/*/*.log"), key=lambda path: path.stat().st_mtime_ns)

    def _watcher(self) -> Watcher:
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is None or self.config.get_verbosity() < 1:
            return Watcher()

        def progress(at: Progress) -> None:
            if at.record is not None:
                outcome = f"VOID: {at.record.void}" if at.record.void else f"recorded in {at.record.seconds:.1f} s"
                note(f"{at.done}/{at.total} {at.planned.id}: {outcome}")

        def note(text: str) -> None:
            terminal.write_line(visible(text))

        return Watcher(note=note, progress=progress)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Show the suite's text instead of a traceback, at the scenario's line."""
        made = yield
        if isinstance(item, ClaimItem) and call.excinfo is not None:
            path, line, _ = item.reportinfo()
            if made.skipped:
                made.longrepr = (str(path), line + 1, call.excinfo.value.args[0])
            elif isinstance(call.excinfo.value, pytest.fail.Exception | HarnessError):
                made.longrepr = claim_tests.without_traceback(call.excinfo.value)
        return made

    # the end

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Write no report after Ctrl-C or `pytest.exit`, as `conformance run` does."""
        self.error = KeyboardInterrupt(str(excinfo.value))
        for pid in self._workers.values():  # execnet would leave them five seconds of the ten that they have
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        try:
            if self.controller:
                self._join()
            elif self._running is not None:
                self._close(self._running)
            if self.judgement is not None and not self.sent and self.error is None:
                self._report(self.judgement)
        except ConformanceError as error:
            self.error = self.error or error
        if isinstance(self.error, ConformanceError) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
        if self._lines_of_untried() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED  # a claim that nothing tried may have no test to fail
        if self.sent:
            self.config.workeroutput["conformance_files"] = self._files  # type: ignore[attr-defined]

    def _close(self, running: OpenRun) -> None:
        with self._stack:
            if self.error is not None:
                raise self.error
            self.judgement = running.judge()

    def _lines_of_untried(self) -> list[str]:
        if self.sent or self.error is not None or self.config.option.collectonly:
            return []
        if self.outcome is None:
            return [f"{name}: this session has no test that tries anything." for name in self.expected.require_tried]
        return [item.line for item in self.outcome.expectations.of(Standing.UNTRIED)]

    def _report(self, judgement: Judgement) -> None:
        catalogue = claims.load()
        self.outcome = self.expected.of(judgement)
        reported = self.expected.in_report(self.outcome)
        self.written = report.write_all(judgement, catalogue, scenario.load(catalogue), self.campaign.folder, reported)
        if results := self.config.getoption("allure_report_dir", None):
            claim_tests.describe_to_allure(judgement.run, pathlib.Path(results))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        untried = self._lines_of_untried()
        if self.error is None and not self.written and not untried:
            return
        terminalreporter.section("conformance")
        for line in [*self._ending(), *(self.outcome.lines if self.outcome else untried)]:
            terminalreporter.write_line(visible(line))
        for kind, path in self.written.items():
            terminalreporter.write_line(visible(f"{kind}: {path}"))

    def _ending(self) -> Iterator[str]:
        if self.error is not None:
            why = str(self.error) or "interrupted"
            yield f"no report: {why}; what was recorded is in {self.campaign.folder}"
        if self.judgement is not None and self.written:
            words = [row.verdict for row in (*self.judgement.rows, *self.judgement.self_checks)]
            yield headline(self.judgement, self.campaign.catalogue)
            yield ", ".join(f"{words.count(word)} {word}" for word in SIGNS if word in words)

    # xdist

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give a worker the same run with its own folder."""
        folder = self.campaign.folder.absolute() / records.PARTS / node.workerinput["workerid"]
        node.workerinput["conformance_out"] = str(folder)
        node.workerinput["conformance_seed"] = self.campaign.selection.seed

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Download once for all workers."""
        if self.controller:
            try:
                self.campaign.adapter.install(None, offline=self.campaign.options.offline)
            except ConformanceError as error:
                raise pytest.UsageError(visible(str(error))) from error

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodeready(self, node: Any) -> None:
        """Remember the process of the worker, to interrupt it."""
        self._workers[node.gateway.id] = node.gateway._rinfo().pid

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Load the user's own scenarios that an ended worker has found: the report needs them."""
        self._workers.pop(node.gateway.id, None)
        for path in getattr(node, "workeroutput", {}).get("conformance_files", []):
            _load(pathlib.Path(path))

    def _join(self) -> None:
        if campaign.join_parts(self.campaign.folder) and self.error is None:
            (self.judgement,) = campaign.judge_folders([self.campaign.folder])


def _keep_scenarios_whole(config: pytest.Config, chosen: str) -> None:
    """Send all tests of a scenario to one worker, since they share its trials.

    `loadgroup` would write its group into the id of a test, and `--lf` and Allure would take it for another test.
    """
    if chosen == "no":
        config.option.dist = "loadscope"
    elif chosen not in _WHOLE:
        known = " or ".join(f"--dist {word}" for word in _WHOLE)
        raise pytest.UsageError(f"--dist {chosen}: the tests of a scenario share its trials; use {known}")


def _load(path: pathlib.Path) -> None:
    """Import a module of scenarios, unless it is loaded."""
    if any(getattr(module, "__file__", None) == str(path) for module in sys.modules.values()):
        return
    spec = importlib.util.spec_from_file_location(f"conformance_scenarios.{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be imported", code="faulty-file", file=path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
