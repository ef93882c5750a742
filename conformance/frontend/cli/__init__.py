"""The command line. Every word is checked before anything starts; every error is one line and an exit code.

Exit codes: 0 nothing violated and nothing tried left undecided, 1 violated, 2 inconclusive, 3 harness error, 4 usage,
5 nothing was tried, 130 interrupted.

`group` has what the commands share, `runs` records and judges, `explore` draws scripts, `look` shows claims and the
machine, `adapters` lists and checks brokers, `init` writes a first file for one, `entry` turns errors into lines.
"""

from __future__ import annotations

from conformance.frontend.cli import adapters, explore, init, look, runs
from conformance.frontend.cli.entry import main
from conformance.frontend.cli.group import cli

__all__ = ["adapters", "cli", "explore", "init", "look", "main", "runs"]
