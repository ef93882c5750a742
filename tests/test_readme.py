"""The README is executed: its commands parse, its words are known, its figures are computed."""

import re
import shlex

import pytest

from conformance import adapters, claims, paths
from conformance.cli import cli
from conformance.judge import confidence
from conformance.judge.rows import Verdict

README = (paths.root() / "README.md").read_text()
COMMANDS = [
    shlex.split(line.split("  #")[0].strip().removeprefix("- "))
    for block in re.findall(r"```(?:sh|yaml)\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
    if "conformance " in line and "install" not in line
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_commands_parse(words):
    """Every command line of the README is one of ours, with options, adapters and claims that exist."""
    name, *rest = words[1:]
    parsed = cli.commands[name].make_context(name, rest)
    if name == "run":
        adapter = adapters.find(parsed.params["adapter"])
        adapters.parse_assignments(parsed.params["settings"], adapter.file)
        claims.select(parsed.params["claims"].split(","), claims.load())
        claims.select(parsed.params["require"], claims.load())


def test_dev_recipes_exist():
    """`./dev NAME` is a recipe of the justfile."""
    recipes = set(re.findall(r"^([a-z]+)[^:\n]*:\s*$", (paths.root() / "justfile").read_text(), re.MULTILINE))
    named = set(re.findall(r"^\./dev (\w+)", README, re.MULTILINE))

    assert (True, True) == (bool(named), named <= recipes)
    assert len(recipes) <= 10


def test_every_verdict_is_explained():
    """The table says what each word means and does not mean."""
    assert [word for word in Verdict if word not in README] == []


def test_figures():
    """63 % for three kills, 26 % for ten, q 0.029 for 3 of 3."""
    assert ["63 %", "26 %"] == [f"{confidence.bound(n):.0%}".replace("%", " %") for n in (3, 10)]
    assert "0.029" == f"{confidence.miss_probability(failed=3, trials=3, clean=3):.3f}"


def test_map_is_true():
    """Every folder of the map is there."""
    folders = re.findall(r"^\| `([a-z/]+/)`", README, re.MULTILINE)

    assert ([], True) == ([name for name in folders if not (paths.root() / name).is_dir()], len(folders) >= 7)
