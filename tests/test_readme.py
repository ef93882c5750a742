"""The README is executed: its commands parse, its words are known, its figures are computed."""

import itertools
import re
import runpy
import shlex
import subprocess
import sys

import pytest

import conformance
from conformance import adapters, claims, paths, scenario
from conformance.frontend.cli import cli
from conformance.frontend.options import PYTEST, options_of
from conformance.judge import confidence
from conformance.judge.rows import Verdict
from conformance.reference import command, profiles, settings
from conformance.reference.liars import LIARS
from conformance.report import expectations
from conformance.report.expectations import Expect

README = (paths.root() / "README.md").read_text()
LINES = [
    shlex.split(line.split("  #")[0].strip().removeprefix("- ").replace("$(conformance suites)", "suites"))
    for block in re.findall(r"```(?:sh|yaml)\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
    if line.strip().removeprefix("- ").startswith(("conformance ", "pytest "))
]
COMMANDS = [words for words in LINES if words[0] == "conformance"]
OF_PYTEST = [words for words in LINES if words[0] == "pytest"]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_commands_parse(words):
    """Every command line of the README is one of the suite, with options, adapters and claims that exist."""
    name, *rest = words[1:]
    parsed = cli.commands[name].make_context(name, list(rest)).params
    if name == "broker" and "--liars" not in rest:
        typed = command.parser().parse_args(rest)
        settings.parse_queues(typed.queue, settings.parse(typed.set))
        assert typed.profile in profiles.PROFILES
    if name == "run":
        for one, protocol in itertools.product(parsed["adapter"], parsed["protocol"].split(",")):
            adapters.open_broker(adapters.BrokerRequest(one, protocol, parsed["client"], parsed["set"]))
        for pattern in (*parsed["claims"], *parsed["require"], *parsed["require_tried"]):
            claims.select(pattern.split(","), claims.load())
        assert set(parsed["judge_as"]) <= {vendor for claim in claims.load().claims.values() for vendor in claim.binds}


@pytest.fixture(scope="module")
def pytest_options():
    """Every option of pytest with our plugin and those of the extra `pytest`, from its own help."""
    done = subprocess.run([sys.executable, "-m", "pytest", "--help"], capture_output=True, text=True, check=True)
    return set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", done.stdout))


@pytest.mark.parametrize("words", OF_PYTEST, ids=" ".join)
def test_lines_of_pytest_parse(words, pytest_options):
    """Options that pytest has beside our plugin, a broker that is known, and words that select claims."""
    options = {word.partition("=")[0]: word.partition("=")[2] for word in words if word.startswith("-")}
    chosen = dict(itertools.pairwise(words)).get("-k", "")

    assert set() == set(options) - pytest_options
    assert options["--adapter"] in adapters.names()
    assert [] != [claim for claim in claims.load().claims if chosen in claim]
    assert (paths.root() / words[1]) == paths.suites()


def test_every_option_that_is_named_exists(pytest_options):
    """In the text as well: of a command, or of pytest."""
    ours = {name for each in cli.commands.values() for param in each.params for name in param.opts}
    ours |= set(re.findall(r"--[a-z][a-z-]*", command.parser().format_help()))
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", README))
    known = {name.replace("-", "") for name in ours | pytest_options}  # pytest's help writes --junit-xml

    assert set() == {name for name in named if name.replace("-", "") not in known}
    assert {"--protocol", "--quick", "--judge-as", "--baseline", "--strict-verdicts"} <= named
    assert {option.flag for option in options_of(PYTEST)} <= pytest_options


def test_the_known_failures_are_read(tmp_path):
    """The example is a file that `--known-failures` takes, and its comments say what the keys do."""
    (example,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    path = tmp_path / "known.toml"
    path.write_text(example)
    (known,) = expectations.read_known(path, claims.load())

    assert (True, Expect.ALWAYS) == (known.adapter in adapters.names(), known.expect)
    assert expectations.in_range(adapters.find(known.adapter).version, known.versions)
    assert [word for word in Expect if f'"{word}"' not in example] == []


def test_counts():
    """Scenarios, claims that they decide, claims in all, liars."""
    catalogue = claims.load()
    scenarios = scenario.load(catalogue)
    decided = {claim for item in scenarios.values() for claim in item.decides}

    assert f"{len(scenarios)} scenarios decide {len(decided)} of the {len(catalogue.claims)} claims" in README
    assert f"its {len(LIARS)} liars" in README


def test_reading_order():
    """The package names every stage, in the order that the imports obey."""
    stages = runpy.run_path(str(paths.root() / "tests" / "test_tidy.py"))["STAGES"]

    assert stages == re.findall(r"^`(\w+)`  ", conformance.__doc__ or "", re.MULTILINE)


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
