"""The pytest front: one class per scenario, one test per claim.

    pytest suites --adapter=reference -k SOLCD

pytest loads this module in every project that shares our environment. Without `--adapter` it adds that one option and
two fixtures, and does nothing else. The other options are added only with it, so that a project may have its own
`--seed`. `front` has the hooks of a session, `claim_tests` its classes and tests, `fixtures` a broker for tests of the
user's own.
"""

from __future__ import annotations

from typing import Any

import pytest

from conformance.frontend.options import PYTEST, Option, options_of
from conformance.frontend.plugin.fixtures import _ack_sigterm, ack_broker, ack_broker_options

__all__ = ["_ack_sigterm", "ack_broker", "ack_broker_options"]  # pytest finds the fixtures of a plugin in its module

_CHOSEN = pytest.StashKey[str]()
"""The `--dist` of xdist that the user chose, before xdist writes its own default there."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--adapter`, which switches everything on."""
    _add(parser.getgroup("conformance", "conformance of a message broker"), options_of(PYTEST)[0])


@pytest.hookimpl(trylast=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser) -> None:
    """Add the other options, beside `--adapter` and for the help, after every plugin and conftest has its own."""
    known = early_config.known_args_namespace
    if known.conformance_adapter is None and not known.help:
        return
    early_config.stash[_CHOSEN] = "load" if getattr(known, "distload", False) else getattr(known, "dist", "no")
    group = parser.getgroup("conformance")
    for option in options_of(PYTEST)[1:]:
        if not _taken(parser, option.flag):
            _add(group, option)
        elif known.conformance_adapter is not None:
            raise pytest.UsageError(f"{option.flag}: another plugin or a conftest.py has an option of that name")


def _add(group: pytest.OptionGroup, option: Option) -> None:
    words: dict[str, Any] = {"dest": f"conformance_{option.name}", "help": option.help}
    if not option.metavar:
        words["action"] = "store_true"
    else:
        words |= {"metavar": option.metavar, "type": option.type, "default": option.unset}
    if option.repeatable:
        words |= {"action": "append", "default": []}
    group.addoption(option.flag, **words)


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
