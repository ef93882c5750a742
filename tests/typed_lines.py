"""Every command that a text of the project shows, by where it stands; and whether it is one."""

from __future__ import annotations

import fnmatch
import importlib.util
import itertools
import pathlib
import re
import shlex
from collections.abc import Iterator

import click
import yaml

from conformance import adapters, claims, paths, scenario
from conformance.frontend.cli import cli
from conformance.reference import command, profiles, settings

ROOT = paths.root()
PAGES = [
    *(path for path in sorted(ROOT.glob("*.md")) if path.name != "CHANGELOG.md"),
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / "fixtures").glob("*/README.md"),
    ROOT / "reports/examples/README.md",
    *sorted((ROOT / ".github").rglob("*.yml")),
]
JOBS = [*sorted((ROOT / "examples/ci").glob("*.yml")), ROOT / "action.yml", ROOT / "templates/conformance.yml"]
HEADED = [ROOT / "docker-compose.yml", ROOT / "Dockerfile"]
"""Files that begin with commands in their comments."""

NOT_RUN = {
    "apt-get": "it needs root and changes the machine; CI installs the packages of the README",
    "docker": "it needs an engine; tests/containers runs the image and the compose file",
    "export": "of the shell",
    "git": "it reads a repository of the user's; tests/house/test_ci_examples.py plays the job with it",
    "set": "of the shell",
    "exit": "of the shell",
    "echo": "of the shell",
    "pip": "it installs; `just release` installs the wheel",
    "sed": "it edits a copy of a file",
    "sudo": "it needs root and changes the machine",
    "zensical": "tests/house/test_site.py builds the site",
}
"""Commands that no test parses, each with the reason."""

YOURS = re.compile(r"\.toml\b|\.py\b|native=/|\b[A-Z]{4}|\$")
"""An adapter that only the reader has: a file, a folder, a placeholder."""


def shown() -> Iterator[tuple[str, bool, list[str]]]:
    """Yield where a command stands, whether it is complete (of a block), and its words."""
    for path in PAGES:
        where, text = str(path.relative_to(ROOT)), path.read_text()
        for kind, block in re.findall(r"^```(sh|yaml)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            lines = block.splitlines() if kind == "sh" else jobs(yaml.safe_load(block))
            yield from ((where, True, words) for line in lines for words in commands(line))
        spans = re.findall(r"(?<!`)`([^`]+)`(?!`)", prose(path))
        inline = [one for one in spans if re.match(r"(conformance|pytest|just|\./dev|python -m) [^=]", one)]
        yield from ((where, False, words) for one in inline for words in commands(one))
    for path in JOBS:
        for document in yaml.safe_load_all(path.read_text()):
            yield from ((path.name, True, words) for line in jobs(document) for words in commands(line))
    for path in HEADED:
        head = itertools.takewhile(lambda line: line.startswith("#"), path.read_text().splitlines())
        found = (
            part for line in head for part in re.split(r"  +", line) if re.match(r"(conformance|docker|export) ", part)
        )
        yield from ((path.name, True, words) for line in found for words in commands(line.partition(" (")[0]))


def prose(page: pathlib.Path) -> str:
    """Return the text of a page without its blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def jobs(node: object) -> Iterator[str]:
    """Yield each line that a job or an action runs."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("run", "script", "before_script"):
                yield from (line for one in ([value] if isinstance(value, str) else value) for line in one.splitlines())
            else:
                yield from jobs(value)
    elif isinstance(node, list):
        for value in node:
            yield from jobs(value)


def commands(line: str) -> Iterator[list[str]]:
    """Yield the words of each command of a line, without redirections and variables before it.

    >>> list(commands("A=1 conformance fetch artemis@1 --to d > log && pip install x  # once"))
    [['conformance', 'fetch', 'artemis@1', '--to', 'd'], ['pip', 'install', 'x']]
    """
    line = re.split(r"(?:^|\s)#", line)[0].replace("$(conformance suites)", "suites")
    line = line.replace("$ARGUMENTS", "")  # of a user; test_ci_examples gives some
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();|&")
    lexer.whitespace_split, lexer.commenters = True, ""
    for operator, words in itertools.groupby(lexer, key=lambda word: set(word) <= set("();|&")):
        typed = list(itertools.dropwhile(lambda word: re.match(r"\w+=", word), words))
        typed = list(itertools.takewhile(lambda word: word not in (">", ">>"), typed))
        if typed and not operator:
            yield typed


def understood(words: list[str]) -> tuple[click.Command, dict[str, object]]:
    """Return the command of the suite and the values of its parameters, as it would read them; run nothing."""
    found, rest = _command(words)
    return found, found.make_context("conformance", list(rest)).params


def check(words: list[str], *, complete: bool) -> None:
    """Raise an error if the command, an option, a broker, a claim or a scenario of it does not exist."""
    if words[0] == "conformance" and complete:
        _check_values(words, *understood(words[1:]))
    elif words[0] == "conformance":
        assert {word for word in words if word.startswith("-")} <= options_of(_command(words[1:])[0])
    elif words[0] in ("./dev", "just"):
        assert words[1] in {*recipes(), "--list"}, words
    elif words[:2] == ["python", "-m"]:
        assert importlib.util.find_spec(words[2]), words
    elif words[0] == "pytest":
        assert not complete or {"suites", "tests"} & set(words)  # its options: where its help is read
    else:
        assert words[0] in NOT_RUN, f"{words}: nothing checks it; if nothing can, NOT_RUN says why"


def recipes() -> set[str]:
    return set(re.findall(r"^([a-z-]+)[^:\n]*:\s*$", (ROOT / "justfile").read_text(), re.MULTILINE))


def options_of(found: click.Command) -> set[str]:
    """The options of a command; of a group, those of its commands too."""
    inner = itertools.chain(*map(options_of, found.commands.values())) if isinstance(found, click.Group) else ()
    more = command.parser()._option_string_actions if found.name == "broker" and len(found.params) == 1 else ()
    return {"--help", "--version", *more, *inner, *(name for param in found.params for name in param.opts)}


def _command(words: list[str]) -> tuple[click.Command, list[str]]:
    found: click.Command = cli
    while isinstance(found, click.Group) and words and not words[0].startswith("-") and words[0] != "COMMAND":
        _, found, words = found.resolve_command(click.Context(found), words)
        assert found is not None
    return found, words


def _check_values(words: list[str], found: click.Command, values: dict[str, object]) -> None:
    if words[1] == "broker" and "--liars" not in words:
        typed = command.parser().parse_args(words[2:])
        settings.parse_queues(typed.queue, settings.parse(typed.set))
        assert typed.profile in profiles.PROFILES
    catalogue = claims.load()
    for pattern in (one for key in ("claims", "require", "require_tried") for one in values.get(key) or ()):
        claims.select(pattern.split(","), catalogue)
    assert set(values.get("judge_as") or ()) <= {*itertools.chain(*(one.binds for one in catalogue.claims.values()))}
    for pattern in re.findall(r"(?:--scenario |#)([a-z*-]+)", " ".join(words)):
        assert fnmatch.filter(scenario.load(catalogue), pattern), pattern
    named = itertools.chain(*map(_several, (values.get(key) for key in ("adapter", "new"))))
    for one, word in itertools.product(named, str(values.get("protocol") or "").split(",")):
        if found.name in ("run", "upgrade", "check", "fetch") and not YOURS.search(one):
            asked = adapters.BrokerRequest(one, word, str(values.get("client") or ""), values.get("set") or ())
            adapters.open_broker(asked)


def _several(value: object) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, tuple) else ()
