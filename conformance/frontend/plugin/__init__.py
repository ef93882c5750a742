"""The pytest front: one class per scenario, one test per claim.

    pytest suites --adapter=reference -k SOLCD

pytest loads this module in every project that shares our environment. Without `--adapter` it adds one option and two
fixtures, and does nothing else. Each option is called `--conformance-NAME`. Its short name is added only with
`--adapter`, and only if no plugin and no conftest.py has it: a project may have its own `--seed`. `front` has the hooks
of a session, `claim_tests` its classes and tests, `fixtures` a broker for tests of the user's own.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Generator
from typing import Any

import pytest

from conformance.frontend.options import PYTEST, Option, options_of
from conformance.frontend.plugin.fixtures import _ack_sigterm, ack_broker, ack_broker_options

__all__ = ["_ack_sigterm", "ack_broker", "ack_broker_options"]  # pytest finds the fixtures of a plugin in its module

_CHOSEN = pytest.StashKey[str]()
"""The `--dist` of xdist that the user chose, before xdist writes its own default there."""

_TAKEN = pytest.StashKey[list[str]]()
"""The short names of our options that another plugin, or a conftest.py, has."""

_SWITCH, *_OTHERS = options_of(PYTEST)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--conformance-adapter`, which switches everything on.

    Its short name is not added, but read from the command line: a conftest.py that adds the same name later would fail,
    also in a project that does not use the suite.
    """
    group = parser.getgroup("conformance", "conformance of a message broker")
    _add(group, _SWITCH, help=f"{_SWITCH.help} {_SWITCH.flag} is short for it, unless another plugin has that name.")


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, object, object]:
    """Add the other options, beside `--adapter` and for the help, after every plugin and conftest has its own."""
    known = early_config.known_args_namespace
    if _SWITCH.flag in args:  # the word after it is no path, where pytest looks for a conftest.py
        known.file_or_dir[:] = parser.parse_known_args(_in_full(args), copy.copy(early_config.option)).file_or_dir
    outcome = yield
    if known.conformance_adapter is None and not known.help and args == _in_full(args):
        return outcome
    taken = [option.flag for option in options_of(PYTEST) if _taken(parser, option.flag)]
    if _SWITCH.flag not in taken:
        args[:] = _in_full(args)
    elif known.conformance_adapter is None and not known.help:
        return outcome  # the one that was typed is another plugin's
    early_config.stash[_CHOSEN] = "load" if getattr(known, "distload", False) else getattr(known, "dist", "no")
    early_config.stash[_TAKEN] = taken
    for option in _OTHERS:
        _add(parser.getgroup("conformance"), option, *{option.flag}.difference(taken))
    return outcome


def _in_full(args: list[str]) -> list[str]:
    """Return the words of a command line with the name in full of the option that switches everything on."""
    return [re.sub(rf"^{_SWITCH.flag}(?==|$)", _SWITCH.in_full, word) for word in args]


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say which options are reached by their names in full only."""
    if not (taken := config.stash.get(_TAKEN, [])):
        return None
    return f"conformance: {', '.join(taken)} of another plugin: here {_SWITCH.in_full.replace(_SWITCH.name, 'NAME')}"


def _add(group: pytest.OptionGroup, option: Option, *short: str, **changes: str) -> None:
    words: dict[str, Any] = {"dest": f"conformance_{option.name}", "help": option.help, **changes}
    if not option.metavar:
        words["action"] = "store_true"
    else:
        words |= {"metavar": option.metavar, "type": option.type, "default": option.unset}
    if option.repeatable:
        words |= {"action": "append", "default": []}
    group.addoption(option.in_full, *short, **words)


def _taken(parser: pytest.Parser, name: str) -> bool:
    """Whether another plugin has the option; argparse would exit instead of raising an error."""
    try:
        return not parser.parse_known_and_unknown_args([f"{name}=0"])[1]
    except pytest.UsageError:
        return True


def pytest_configure(config: pytest.Config) -> None:
    """Check every option, and load heavy modules only with `--adapter`."""
    if config.getoption("conformance_adapter", None) is None:
        return
    if _judges(config):
        from conformance.judge.spark import start_jvm

        config.add_cleanup(start_jvm())  # two seconds, while pytest collects
    from conformance.frontend.plugin.front import Front

    config.pluginmanager.register(Front(config, config.stash.get(_CHOSEN, "no")), "conformance-front")


def _judges(config: pytest.Config) -> bool:
    """Whether this process judges a run: with xdist that is the controller, once the workers have ended."""
    return not (config.option.collectonly or hasattr(config, "workerinput") or config.getoption("tx", None))
