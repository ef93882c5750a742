"""Effective settings: the value of each setting, the keys that are absent, and the changes from stock."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping

from conformance.adapters.file.launch_tables import order
from conformance.adapters.file.model import LIAR, VARIANT, BrokerFile, Choice, QueueFiles, Setting
from conformance.adapters.file.placeholders import fill, python_words
from conformance.claims import Value
from conformance.errors import UsageError
from conformance.ledger import child_environment

_WORDS = {"true": True, "false": False}
_LIST_S = 30.0


@dataclasses.dataclass(frozen=True)
class EffectiveSettings:
    """The settings that a broker is started with.

    `values` has every setting; an absent key has its documented default there. `absent` are the names whose key is
    not in the configuration at all (a claim's condition `"absent"`). `changed` are those that differ from stock: an
    explicit value is a change even where it equals the default, since stock says nothing.
    """

    values: dict[str, Value]
    absent: frozenset[str]
    changed: dict[str, Value]

    def __hash__(self) -> int:
        """Hash the content: a run groups its trials by broker and effective settings."""
        return hash((tuple(sorted(self.values.items())), self.absent))


def parse_assignments(assignments: Iterable[str], file: BrokerFile) -> dict[str, Value]:
    """`["sync_non_transactional=false"]` as values of the declared types.

    Raises `UsageError`: an unknown setting (with the closest known one), a missing `=`, a value of another type, a
    setting that cannot be chosen, or one that is assigned twice.
    """
    chosen: dict[str, Value] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise UsageError(f"setting {assignment!r}: expected NAME=VALUE")
        setting = _settable(name, file)
        if name in chosen:
            raise UsageError(f"setting {name!r} is assigned twice")
        chosen[name] = _value(name, setting, text, file)
    return chosen


def effective(file: BrokerFile, overrides: Mapping[str, Value]) -> EffectiveSettings:
    """Stock with these overrides; raises `UsageError` for an unknown name, a fixed one or a value of another type."""
    values: dict[str, Value] = {}
    absent: set[str] = set()
    for name, value in overrides.items():
        setting = _settable(name, file)
        if setting.choices and not setting.takes(value):
            raise UsageError.unknown(name, str(value), setting.choices, of=file.name, code="unknown-value")
        if not setting.takes(value):
            raise UsageError(f"setting {name!r}: {value!r} is not of type {setting.type}")
        if why := setting.choices[str(value)].refused if setting.choices else "":
            raise UsageError(f"{name}={value} of {file.name} cannot be put on trial: {why}")
    for name, setting in file.settings.items():
        values[name] = overrides.get(name, setting.default if setting.stock is None else setting.stock)
        if name not in overrides and setting.stock is None and setting.settable:
            absent.add(name)
    for name, setting in file.settings.items():
        if setting.follows is not None:
            values[name] = values[setting.follows]
    if against := _required(file, values):
        raise UsageError(against)
    for name, beside in _idle(file, values).items():
        if name in overrides:
            raise UsageError(f"setting {name!r} of {file.name} is of no effect with {beside}")
    changed = {name: value for name, value in overrides.items() if value != file.settings[name].stock}
    return EffectiveSettings(values, frozenset(absent), changed)


def _required(file: BrokerFile, values: Mapping[str, Value]) -> str:
    """Why one of these values contradicts another setting; empty if they are consistent."""
    for name, choice in _choices(file, values):
        for other, value in choice.requires.items():
            if values[other] != value:
                said = f"{other}={_typed(value)}, not {_typed(values[other])}"
                return f"setting {name!r} of {file.name}: {values[name]} goes with {said}"
    return ""


def _idle(file: BrokerFile, values: Mapping[str, Value]) -> dict[str, str]:
    """The settings that have no effect with these values, each with the assignment that is the reason."""
    return {other: f"{name}={values[name]}" for name, choice in _choices(file, values) for other in choice.without}


def _choices(file: BrokerFile, values: Mapping[str, Value]) -> list[tuple[str, Choice]]:
    """The chosen value of each setting that has choices."""
    words = [(name, setting.choices.get(str(values[name]))) for name, setting in file.settings.items()]
    return [(name, choice) for name, choice in words if choice is not None]


def _typed(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def weaken(
    file: BrokerFile, wanted: Mapping[str, Value], chosen: Mapping[str, Value], version: str = ""
) -> dict[str, Value]:
    """The settings of a control that this broker has, with the changes that `off_with` adds.

    A setting that follows another is changed there. A setting that the broker lacks, that is fixed, or that has no
    effect here is left out. If nothing is left, there is no such control. The same holds if the product refuses them
    together with the settings that the user has chosen.
    """
    values = {
        name: setting.default if setting.stock is None else setting.stock for name, setting in file.settings.items()
    }
    spare = _idle(file, {**values, **chosen})
    found: dict[str, Value] = {}
    for name, value in wanted.items():
        setting = file.settings.get(name)
        deciding = setting.follows or name if setting else name
        if deciding in file.settings and file.settings[deciding].settable and deciding not in spare:
            found[deciding] = value
    found = {**_beside(file, found, version), **found}
    return {} if _required(file, {**values, **chosen, **found}) else found


def _beside(file: BrokerFile, found: Mapping[str, Value], version: str) -> dict[str, Value]:
    """The settings that this version needs as well (`off_with`) when these are switched off."""
    off = [file.settings[name].off_with for name, value in found.items() if value is False]
    due = [one for one in off if one and version and order(version) < order(one.before)]
    return {name: value for one in due for name, value in one.settings.items()}


def explicit(file: BrokerFile, settings: EffectiveSettings) -> dict[str, Setting]:
    """The settings whose key the configuration must have, by name."""
    return {
        name: setting for name, setting in file.settings.items() if setting.settable and name not in settings.absent
    }


def _settable(name: str, file: BrokerFile) -> Setting:
    setting = file.settings.get(name)
    if setting is None and name in (LIAR, VARIANT):
        raise UsageError(f"{file.name} has no {name}: only the reference broker has {name}s to choose from")
    if setting is None:
        raise UsageError.unknown("setting", name, file.settings, of=file.name)
    if setting.follows:
        raise UsageError(f"setting {name!r} of {file.name} cannot be set: it follows {setting.follows!r}")
    if setting.fixed:
        raise UsageError(f"setting {name!r} of {file.name} cannot be set: {setting.description}")
    return setting


def _value(name: str, setting: Setting, text: str, file: BrokerFile) -> Value:
    if setting.type == "word":
        known = words(name, setting, file)
        if not any(_fits(text, word) for word in known):
            raise UsageError.unknown(name, text, known, of=file.name, code="unknown-value")
        return text
    if setting.type == "text":
        return text
    if setting.type == "bool":
        if text.lower() not in _WORDS:
            raise UsageError(f"setting {name!r}: {text!r} is not a bool: true or false")
        return _WORDS[text.lower()]
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise UsageError(f"setting {name!r}: {text!r} is not an int: a whole number")
    return int(text)


def _fits(text: str, word: str) -> bool:
    """Whether a value is this word; an N between two dashes stands for a number.

    >>> _fits("lies-3-times", "lies-N-times"), _fits("lies-0-times", "lies-N-times"), _fits("lies", "lies")
    (True, False, True)
    """
    parts = re.split("(?<=-)N(?=-)", word)
    return re.fullmatch("[1-9][0-9]{0,5}".join(map(re.escape, parts)), text) is not None


def words(name: str, setting: Setting, file: BrokerFile) -> tuple[str, ...]:
    """The values that a setting of type `word` may have; `UsageError` if the broker cannot list them."""
    if setting.choices:
        return tuple(setting.choices)
    if name == VARIANT:
        return tuple(dict.fromkeys([str(setting.default), *file.variants]))
    environment = {key: fill(text, python_words()) for key, text in file.start.environment.items()}
    command = [fill(part, python_words()) for part in setting.words]
    try:
        listed = subprocess.run(
            command,
            env={**child_environment(), **environment},
            capture_output=True,
            text=True,
            timeout=_LIST_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"setting {name!r} of {file.name}: its values cannot be listed: {error}") from error
    return tuple(listed.stdout.splitlines())


def ignored_setting(file: BrokerFile, settings: EffectiveSettings, said: str) -> str:
    """Why a log contradicts these settings: the broker uses another value than the configured one. Else empty.

    Why the log is read: Artemis with journal-type ASYNCIO on a machine without libaio only warns, and runs with NIO
    (2.56.0, measured).
    """
    for name, setting in file.settings.items():
        wanted = settings.values[name]
        for taken, choice in setting.choices.items():
            if taken != wanted and choice.logged and choice.logged in said:
                needs = setting.choices[str(wanted)].needs
                return f"runs with {name}={taken}, not with {wanted}" + (f", which needs {needs}" if needs else "")
    return ""


def untraced(file: BrokerFile, settings: EffectiveSettings) -> str:
    """Why a tracer cannot make the journal's writes and syncs fail with these settings; empty if it can."""
    if not file.journal.files:
        return f"the file of {file.name} has no journal.files: other files and sockets would fail too"
    return unwritten(file, settings) or _said(file, settings, lambda choice: choice.untraced)


def unwritten(file: BrokerFile, settings: EffectiveSettings) -> str:
    """Why a trial sees no access to the journal with these settings; empty if it sees them."""
    return _said(file, settings, lambda choice: choice.unwritten)


def _said(file: BrokerFile, settings: EffectiveSettings, what: Callable[[Choice], str]) -> str:
    """What the first choice that is in force says, after its setting; empty if none says it."""
    found = ((name, what(choice)) for name, choice in _choices(file, settings.values))
    return next((f"{name}={settings.values[name]}: {why}" for name, why in found if why), "")


def queue_files(file: BrokerFile, settings: EffectiveSettings) -> dict[str, QueueFiles]:
    """The files in which queues are stored with these settings, by the key of the file that names them."""
    return {
        f"settings.{name}.choices.{settings.values[name]}.stored": choice.stored
        for name, choice in _choices(file, settings.values)
        if choice.stored
    }


def show(folder: pathlib.Path, settings: EffectiveSettings) -> None:
    """Write the settings beside the broker's logs, for people who read the folder of a run."""
    lines = [f"{name} = {str(value).lower()}" for name, value in sorted(settings.values.items())]
    lines += [f"# absent: {name}" for name in sorted(settings.absent)]
    (folder / "settings.toml").write_text("\n".join(lines) + "\n")
