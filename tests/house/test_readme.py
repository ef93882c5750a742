"""README and docs are executed: commands parse, words are known, figures are computed, links lead somewhere."""

import itertools
import json
import re
import runpy
import subprocess
import sys
import tomllib

import pytest
import typed_lines
from starts import starts_process
from typed_lines import PAGES, ROOT

import conformance
from conformance import adapters, claims, counting, paths
from conformance.frontend.cli import cli, group
from conformance.frontend.options import PYTEST, RUN, options_of
from conformance.judge.rows import Verdict
from conformance.report import expectations
from conformance.report.expectations import Expect
from tools import reference_pages

README = (ROOT / "README.md").read_text()
DOCS = ROOT / "docs"
VERDICTS = (DOCS / "explanation/verdicts.md").read_text()
SHOWN = list(typed_lines.shown())
OF_PYTEST = [words for _, complete, words in SHOWN if complete and words[0] == "pytest"]
FOREIGN = {"--upgrade", "--upgrade-package", "--events", "--force", "--format", "--grace-period", "--kills", "--strict"}
"""Options of other commands that a text names."""


@pytest.mark.process
@pytest.mark.parametrize(("where", "complete", "words"), SHOWN, ids=lambda one: one if isinstance(one, str) else None)
def test_every_command_is_one(where, complete, words):
    """Of the suite, with options, adapters, claims and scenarios that exist; of the justfile; or listed with the reason."""
    typed_lines.check(words, complete=complete)


def test_commands_are_found_everywhere():
    """In each kind of text; and what is listed as not run is there."""
    where = {name for name, complete, _ in SHOWN if complete}
    first = {words[0] for _, _, words in SHOWN}

    assert {
        "README.md",
        "docs/tutorial.md",
        "docs/how-to/ci.md",
        "docker-compose.yml",
        "Dockerfile",
        "action.yml",
    } <= where
    assert {"github-actions.yml", "gitlab-ci.yml", "conformance.yml"} <= where
    assert set(typed_lines.NOT_RUN) <= first
    assert len(SHOWN) > 100


@pytest.mark.parametrize(
    "line",
    [
        "conformance rum",
        "conformance run --adaptor artemis",
        "conformance run --adapter artmis",
        "conformance run --adapter artemis --claims NO-SUCH-*",
        "conformance run --adapter artemis --trials many",
        "conformance replay runs/x --scenario no-such --trial 1",
        "just nothing",
        "./dev nothing",
        "python -m no_such_module",
        "rm -rf x",
    ],
)
def test_a_command_that_is_none(line):
    (words,) = typed_lines.commands(line)
    with pytest.raises(Exception, match=r"."):
        typed_lines.check(words, complete=True)


def test_the_words_of_a_line():
    assert [["conformance", "fetch", "x", "--to", "d"], ["pip", "install", "y"]] == [
        *typed_lines.commands("A=1 conformance fetch x --to d > log && pip install y  # once")
    ]


def test_the_reference_is_that_of_the_code():
    """After a change: python -m tools.reference_pages."""
    stale = [name for name, text in reference_pages.pages().items() if text != (ROOT / name).read_text()]

    assert [] == stale


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    """To a file that is there; a link into a page to one of its headings."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", typed_lines.prose(page)):
        name, _, anchor = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        if "://" not in target and not (there.exists() and (not anchor or anchor in headings(there))):
            broken.append(target)

    assert broken == []


def headings(page):
    lines = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", line.lower()).strip().replace(" ", "-") for line in lines}


def test_the_readme_is_short():
    assert len(README.split()) <= 950


@pytest.fixture(scope="module")
@starts_process
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
    assert (ROOT / words[1]) == paths.suites()


def test_every_option_that_is_named_exists(pytest_options):
    """In the texts as well: of a command, or of pytest."""
    ours = typed_lines.options_of(cli) | {"--conformance-adapter"}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", "".join(map(typed_lines.prose, PAGES)))) - FOREIGN
    known = {name.replace("-", "") for name in ours | pytest_options}  # pytest's help writes --junit-xml

    assert set() == {name for name in named if name.replace("-", "") not in known}
    assert {"--protocol", "--quick", "--judge-as", "--baseline", "--strict-verdicts"} <= named
    assert {option.flag for option in options_of(PYTEST)} <= pytest_options
    theirs = {option.flag for option in options_of(RUN)} - {option.flag for option in options_of(PYTEST)}
    assert {
        "--budget",
        "--plan",
        "--scenario",
        "--resume",
        "--quiet",
        "--verbose",
    } == theirs  # docs/how-to/pytest.md names them


def test_the_known_failures_are_read(tmp_path):
    """The example is a file that `--known-failures` takes, and its comments say what the keys do."""
    (example,) = re.findall(r"```toml\n(.*?)```", (DOCS / "how-to/ci.md").read_text(), re.DOTALL)
    path = tmp_path / "known.toml"
    path.write_text(example)
    (known,) = expectations.read_known(path, claims.load())

    assert (True, Expect.ALWAYS) == (known.adapter in adapters.names(), known.expect)
    assert expectations.in_range(adapters.find(known.adapter).version, known.versions)
    assert [word for word in Expect if f'"{word}"' not in example] == []


def test_the_options_in_a_file_are_read():
    (example,) = re.findall(r"```toml\n(.*?)```", (DOCS / "how-to/runs.md").read_text(), re.DOTALL)
    for name, values in tomllib.loads(example).items():
        assert set(values) == set(group._by_name(cli.commands[name], values, "the page"))


def test_claims_that_only_the_bundled_broker_decides():
    """The README names each claim that no product can be tried by."""
    named = re.findall(r"SOLPUB-\w+-\d+", README.partition("of the bundled broker only")[2].partition("\n\n")[0])

    assert named == [claim.id for claim in claims.load().claims.values() if claim.of_profile]


def test_reading_order():
    """The package names every stage, in the order that the imports obey."""
    stages = runpy.run_path(str(ROOT / "tests" / "house" / "test_tidy.py"))["STAGES"]

    assert stages == re.findall(r"^`(\w+)`  ", conformance.__doc__ or "", re.MULTILINE)


def test_the_interface_of_developers_is_small():
    assert len(typed_lines.recipes()) <= 10


def test_every_verdict_is_explained():
    """The tables say what each word means and does not mean."""
    assert [word for word in Verdict for text in (README, VERDICTS) if f"{word}" not in text] == []


def test_figures():
    """63 % for three kills, 26 % for ten, q 0.029 for 3 of 3."""
    three, ten = (f"{counting.upper_bound(n):.0%}".replace("%", " %") for n in (3, 10))

    assert f"Three kills bound the rate only at {three}, ten at {ten};" in VERDICTS
    q = counting.miss_probability(failed=3, trials=3, clean=3)
    assert counting.chance_of_control(q) in VERDICTS.replace("\n", " ")


def test_the_story_of_the_concepts_is_that_of_the_example():
    """Each figure of the page is one of the published run."""
    page = " ".join((DOCS / "explanation/concepts.md").read_text().split())
    report = json.loads((ROOT / "reports/examples/rabbitmq/4.3.6/amqp/report.json").read_text())
    rows = {(row["claim"], row["scenario"]): row for row in report["verdicts"]}
    lost = rows["EXPECT-SYNC-01", "power-lost-while-publishing"]
    kept = rows["AMQP-DUR-01", "broker-killed-while-publishing"]
    at = {(event["op"], event["phase"], event["epoch"]): event["at_ms"] for event in lost["witnesses"][0]["timeline"]}
    fired = at["fault", "fired", 1]
    waited = (
        f"{at['send', 'ok', 1] - at['send', 'invoke', 1]:.0f} ms later",
        f"{fired - at['send', 'ok', 1]:.0f} ms after",
    )
    started = f"{(at['broker', 'ok', 2] - fired) / 1000:.1f} s after the loss"
    exposed = lost["exposure"]

    assert ("VIOLATED", "HOLDS", "p1:1") == (lost["verdict"], kept["verdict"], lost["witnesses"][0]["message"])
    assert [] == [text for text in (*waited, started, f"`{lost['control']['label'].split()[1]}`") if text not in page]
    assert lost["reason"].startswith(f"{exposed['confirmed']:,} of {exposed['confirmed']:,} confirmed messages lost")
    assert f"the {exposed['confirmed']:,} messages that the broker had confirmed in three such trials" in page
    assert f"at least {exposed['minimum']} messages had been confirmed in the tenth of a second" in page
    assert kept["reason"].startswith(
        "0 of 22,890 confirmed messages lost in 44 kills of 3 trials (at least 2,949 at risk"
    )
    assert all(
        text in page for text in ("0 of 22,890 confirmed", "HOLDS (44 kills)", "At least 2,949", "less than 7 %")
    )
    assert ("persistence=false", 3, 3) == tuple(kept["control"][name] for name in ("label", "failed", "trials"))
    assert f"less than {counting.upper_bound(44):.0%}".replace("%", " %") in page


def test_map_is_true():
    """Every folder of the map is there."""
    folders = re.findall(r"^\| `([a-z/]+/)`", README, re.MULTILINE)

    assert ([], True) == ([name for name in folders if not (ROOT / name).is_dir()], len(folders) >= 7)
