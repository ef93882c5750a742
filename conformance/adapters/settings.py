"""Effective settings: what the broker will do, which keys its configuration does not have, what differs from stock."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Iterable, Mapping

from conformance.adapters.model import BrokerFile, Setting
from conformance.errors import UsageError

_WORDS = {"true": True, "false": False}


@dataclasses.dataclass(frozen=True)
class EffectiveSettings:
    """The settings that a broker is started with.

    `values` has every setting; an absent key has its documented default there. `absent` are the names whose key is
    not in the configuration at all (a claim's condition `"absent"`). `changed` are those that differ from stock: an
    explicit value is a change even where it equals the default, since stock says nothing.
    """

    values: dict[str, bool | int]
    absent: frozenset[str]
    changed: dict[str, bool | int]

    def __hash__(self) -> int:
        """By content: a run groups its trials by broker and effective settings."""
        return hash((tuple(sorted(self.values.items())), self.absent))


def parse_assignments(assignments: Iterable[str], file: BrokerFile) -> dict[str, bool | int]:
    """`["sync_non_transactional=false"]` as values of the declared types.

    Raises `UsageError`: an unknown setting (with the closest known one), a missing `=`, a value of another type, a
    setting that cannot be chosen, or one that is assigned twice.
    """
    chosen: dict[str, bool | int] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise UsageError(f"setting {assignment!r}: expected NAME=VALUE")
        setting = _settable(name, file)
        if name in chosen:
            raise UsageError(f"setting {name!r} is assigned twice")
        chosen[name] = _value(name, setting, text)
    return chosen


def effective(file: BrokerFile, overrides: Mapping[str, bool | int]) -> EffectiveSettings:
    """Stock with these overrides; raises `UsageError` for an unknown name, a fixed one or a value of another type."""
    values: dict[str, bool | int] = {}
    absent: set[str] = set()
    for name, value in overrides.items():
        setting = _settable(name, file)
        if type(value).__name__ != setting.type:
            raise UsageError(f"setting {name!r}: {value!r} is not of type {setting.type}")
    for name, setting in file.settings.items():
        values[name] = overrides.get(name, setting.default if setting.stock is None else setting.stock)
        if name not in overrides and setting.stock is None and setting.settable:
            absent.add(name)
    for name, setting in file.settings.items():
        if setting.follows is not None:
            values[name] = values[setting.follows]
    changed = {name: value for name, value in overrides.items() if value != file.settings[name].stock}
    return EffectiveSettings(values, frozenset(absent), changed)


def explicit(file: BrokerFile, settings: EffectiveSettings) -> dict[str, Setting]:
    """The settings whose key the configuration must have, by name."""
    return {
        name: setting for name, setting in file.settings.items() if setting.settable and name not in settings.absent
    }


def _settable(name: str, file: BrokerFile) -> Setting:
    setting = file.settings.get(name)
    if setting is None:
        raise UsageError.unknown("setting", name, file.settings)
    if setting.follows:
        raise UsageError(f"setting {name!r} of {file.name} cannot be set: it follows {setting.follows!r}")
    if setting.fixed:
        raise UsageError(f"setting {name!r} of {file.name} cannot be set: {setting.description}")
    return setting


def _value(name: str, setting: Setting, text: str) -> bool | int:
    if setting.type == "bool":
        if text.lower() not in _WORDS:
            raise UsageError(f"setting {name!r}: {text!r} is not a bool: true or false")
        return _WORDS[text.lower()]
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise UsageError(f"setting {name!r}: {text!r} is not an int: a whole number")
    return int(text)


def show(folder: pathlib.Path, settings: EffectiveSettings) -> None:
    """Leave the settings beside the broker's logs, for people who look into the folder of a run."""
    lines = [f"{name} = {str(value).lower()}" for name, value in sorted(settings.values.items())]
    lines += [f"# absent: {name}" for name in sorted(settings.absent)]
    (folder / "settings.toml").write_text("\n".join(lines) + "\n")
