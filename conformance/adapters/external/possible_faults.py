"""What an external broker can be made to do: what its owner has no command for is not tried, and said so."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.adapters.file.external_table import External
from conformance.scenario.script import CLEAN_RESTART, KILL_OF_HALTED, KILL_WHILE_STARTING

_FAULTS: Mapping[str, tuple[str, ...]] = {"kill": ("kill",), "stop": ("stop",), "pause": ("pause", "resume")}
"""The commands that a fault at its process needs."""

_NEEDS: Mapping[str, tuple[str, ...]] = {CLEAN_RESTART: ("stop",), KILL_OF_HALTED: ("pause", "kill")}
"""The commands that something else in a script needs (`Scenario.needs`)."""

PAGE = "docs/external-brokers.md"
"""Says what each command is for."""

_ITS_DISK = "the disk of an external broker is out of reach"
_NEVER: Mapping[str, str] = {
    **dict.fromkeys(("watched", "held_sync", "failed_sync", "disk_full"), f"{_ITS_DISK}: no tracer starts it"),
    "power_loss": f"{_ITS_DISK}: it cannot be taken away",
    KILL_WHILE_STARTING: "the journal of an external broker is out of reach, and so is the moment of its recovery",
}
"""What no command makes possible."""


def why_not(rules: External, word: str) -> str:
    """Why this fault, or need, is not possible; empty where it is."""
    if word in _NEVER:
        return _NEVER[word]
    missing = [name for name in (*_FAULTS.get(word, ()), *_NEEDS.get(word, ())) if rules.command(name) is None]
    if missing:
        fields = " and ".join(f"external.{name}.command" for name in missing)
        return f"there is no command for it. Give {fields} in the broker's file ({PAGE}), and it is tried"
    if word.startswith("a queue with"):
        return "queues of an external broker are declared without options"
    if word == "settings of any name":
        return "an external broker is not reconfigured"
    return ""
