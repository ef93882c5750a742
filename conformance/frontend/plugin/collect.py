"""Collect scenarios: a file, a class for each scenario, and a test for each claim that it decides.

Ids come from scenario and claim. Those of the bundled suites begin with `suites/` in every installation, so that a
history of results stays valid.
"""

from __future__ import annotations

import ast
import inspect
import pathlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import pytest

from conformance import paths, scenario
from conformance.campaign import Campaign
from conformance.claims import Claim
from conformance.errors import CatalogueError
from conformance.frontend.plugin import tell
from conformance.frontend.plugin.tell import ClaimAnswer
from conformance.scenario import Scenario


class ClaimSession(Protocol):
    """The session that answers for every claim; `plugin.front` has it."""

    config: pytest.Config
    campaign: Campaign
    strict: bool

    def answer(self, item: ClaimItem) -> ClaimAnswer:
        """Record and judge the scenario of that test, if it was not yet, and return the row of its claim."""


def defines_scenarios(path: pathlib.Path) -> bool:
    """Whether a class of the module has the decorator `scenario`; nothing is imported to find out."""
    if path.suffix != ".py":
        return False
    text = path.read_bytes()
    if b"scenario" not in text:
        return False
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return False  # pytest reports it
    return any(isinstance(node, ast.ClassDef) and any(map(_registers, node.decorator_list)) for node in tree.body)


def _registers(decorator: ast.expr) -> bool:
    name = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
    return name == "scenario"


def make_file(path: pathlib.Path, parent: pytest.Collector, front: ClaimSession) -> ScenarioFile:
    """The collector of a module that defines scenarios."""
    words: dict[str, Any] = {"path": path}
    if path.is_relative_to(paths.suites()):
        words["nodeid"] = f"suites/{path.relative_to(paths.suites()).as_posix()}"
    made: ScenarioFile = ScenarioFile.from_parent(parent, **words)
    made.front = front
    return made


class ScenarioFile(pytest.Module):
    """A module with scenarios. A bundled one is loaded already: a second import would define them twice."""

    front: ClaimSession

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Yield what pytest finds in it, then its scenarios."""
        loaded = [each for each in sys.modules.values() if getattr(each, "__file__", None) == str(self.path)]
        if loaded:
            self.obj = loaded[0]
        yield from super().collect()
        try:
            known = scenario.load(self.front.campaign.catalogue)
        except CatalogueError as error:
            raise self.CollectError(str(error)) from error
        for name, cls in vars(self.obj).items():
            identity = scenario.slug(name)
            if inspect.isclass(cls) and cls.__module__ == self.obj.__name__ and identity in known:
                yield ScenarioClass.make(self, name, cls, known[identity])


class ScenarioClass(pytest.Collector):
    """A scenario; its trials are recorded when its first test runs."""

    parent: ScenarioFile
    scenario: Scenario
    line: int
    timing: bool

    @classmethod
    def make(cls, parent: ScenarioFile, name: str, defined: type[Any], found: Scenario) -> ScenarioClass:
        """The collector of a registered class."""
        made: ScenarioClass = cls.from_parent(parent, name=name)
        made.scenario, made.timing = found, getattr(defined, "timing", False)
        made.line = inspect.getsourcelines(defined)[1]
        return made

    def collect(self) -> Iterator[ClaimItem]:
        """A test for each claim that the user selected."""
        front = self.parent.front
        selected = {claim.id for claim in front.campaign.selection.claims}
        for claim_id in self.scenario.decides:
            if claim_id in selected:
                yield ClaimItem.make(self, front.campaign.catalogue.claims[claim_id], front)


class ClaimItem(pytest.Item):
    """One claim in one scenario. It reads its row from the judge, and decides nothing."""

    parent: ScenarioClass
    front: ClaimSession
    answer: ClaimAnswer

    @classmethod
    def make(cls, parent: ScenarioClass, claim: Claim, front: ClaimSession) -> ClaimItem:
        """Make the test of a claim, with the markers for `-m` and Allure."""
        item: ClaimItem = cls.from_parent(parent, name=claim.id)
        item.front = front
        for word in ("conformance", str(claim.kind), str(claim.scope)):
            item.add_marker(word)
        if front.config.pluginmanager.hasplugin("allure_pytest"):
            for marker in tell.allure_markers(claim, front.campaign.catalogue.document_title(claim)):
                item.add_marker(marker)
        return item

    @property
    def group(self) -> ScenarioClass:
        """The scenario."""
        return self.parent

    def setup(self) -> None:
        """Record the scenario if needed, and read the row; an error of the suite is an error of the set-up."""
        self.answer = self.front.answer(self)

    def runtest(self) -> None:
        """Pass, skip, fail or xfail, by the verdict and the expectations of the user."""
        tell.raise_for(self.answer, self.front.campaign.folder, strict=self.front.strict)

    def reportinfo(self) -> tuple[pathlib.Path, int, str]:
        """The scenario's place in its file."""
        return self.path, self.parent.line - 1, f"{self.parent.name}.{self.name}"
