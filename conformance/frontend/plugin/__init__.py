"""The pytest front: one class per scenario, one test per claim.

    pytest suites --adapter=reference -k SOLCD

pytest loads this module in every project that shares our environment. Without `--adapter` it claims that one word and
does nothing else: our other options are added only beside it, so that a project may have a `--seed` of its own.
`front` holds what happens then, `collect` the classes and tests, `expect` what the user expects, `tell` what they say.
"""

from __future__ import annotations

import pytest

from conformance.run.planning.credential_options import WORDS, Word

_CHOSEN = pytest.StashKey[str]()
"""The distribution of xdist that the user chose, before xdist writes its own default there."""

OPTIONS: tuple[tuple[str, dict[str, object]], ...] = (
    (
        "--protocol",
        {"metavar": "WORD", "default": "", "help": "amqp, stomp, jms or amqp091 (default: amqp, or what it speaks)."},
    ),
    ("--client", {"metavar": "NAME", "default": "", "help": "The vendor's client for jms or amqp091."}),
    ("--set", {"metavar": "NAME=VALUE", "action": "append", "default": [], "help": "A setting of the broker."}),
    (
        "--claims",
        {"metavar": "PATTERNS", "action": "append", "default": [], "help": "Claims to try, as 'AMQP-*'; repeatable."},
    ),
    (
        "--require",
        {
            "metavar": "CLAIM",
            "action": "append",
            "default": [],
            "help": "Judge it although this configuration gives it up.",
        },
    ),
    ("--trials", {"metavar": "N", "type": int, "default": 3, "help": "Trials of each scenario (default: 3)."}),
    ("--seed", {"metavar": "N", "type": int, "help": "Repeats a run: the same trigger points."}),
    (
        "--judge-as",
        {"metavar": "VENDOR", "action": "append", "default": [], "help": "Judge by this vendor's sentences too."},
    ),
    ("--known-failures", {"metavar": "FILE", "help": "Violations that do not fail a test (TOML)."}),
    ("--baseline", {"metavar": "REPORT", "help": "Fail only on what an earlier report has not."}),
    (
        "--require-tried",
        {"metavar": "PATTERNS", "action": "append", "default": [], "help": "Fail where a claim was not tried."},
    ),
    (
        "--quick",
        {"action": "store_true", "help": "At most ten claims, the strongest: a minute on an idle machine."},
    ),
    ("--offline", {"action": "store_true", "help": "Download nothing."}),
    ("--out", {"metavar": "DIR", "help": "Folder of the run (default: runs/<date>-<adapter>)."}),
    ("--strict-verdicts", {"action": "store_true", "help": "Fail what could not be decided, instead of skipping it."}),
)
"""Beside those by which clients come in (`WORDS`)."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one word that switches everything on."""
    parser.getgroup("conformance", "conformance of a message broker").addoption(
        "--adapter", dest="conformance_adapter", metavar="NAME[@VERSION][:LAUNCHER]", help="The broker to try."
    )


@pytest.hookimpl(trylast=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser) -> None:
    """The other options, beside `--adapter` and in the help; after every other plugin and conftest has its own."""
    known = early_config.known_args_namespace
    if known.conformance_adapter is None and not known.help:
        return
    early_config.stash[_CHOSEN] = "load" if getattr(known, "distload", False) else getattr(known, "dist", "no")
    group = parser.getgroup("conformance")
    for name, words in (*OPTIONS, *map(_of_access, WORDS)):
        if not _taken(parser, name):
            group.addoption(name, dest=f"conformance_{name[2:].replace('-', '_')}", **words)
        elif known.conformance_adapter is not None:
            raise pytest.UsageError(f"{name}: another plugin or a conftest.py has an option of that name")


def _of_access(word: Word) -> tuple[str, dict[str, object]]:
    said: dict[str, object] = {"metavar": word.metavar, "default": ""} if word.metavar else {"action": "store_true"}
    return word.option, {**said, "help": word.help}


def _taken(parser: pytest.Parser, name: str) -> bool:
    """Whether somebody has the option: argparse would only say so where nobody can catch it."""
    try:
        return not parser.parse_known_and_unknown_args([f"{name}=0"])[1]
    except pytest.UsageError:
        return True


def pytest_configure(config: pytest.Config) -> None:
    """Check every word that the user typed, and only then load what is heavy."""
    if config.getoption("conformance_adapter", None) is None:
        return
    from conformance.frontend.plugin.front import Front

    config.pluginmanager.register(Front(config, config.stash.get(_CHOSEN, "no")), "conformance-front")
