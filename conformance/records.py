"""What a run writes beside its histories: what was asked, and what each trial was.

`run.json` holds a `RunRecord`; every folder below `trials/` holds a `TrialRecord` (`trial.json`) and one history file
per process.
"""

from __future__ import annotations

import pathlib
from typing import TypeVar

import msgspec

from conformance.errors import HistoryError, UsageError

Record = TypeVar("Record", bound=msgspec.Struct)


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked of a run, before anything happened. `finished` is False until every trial was recorded.

    `settings` are the effective settings of the subject, `absent` those whose key is nowhere in its configuration,
    `changed` what differs from stock, `deviations` what the harness itself changed so that the broker runs headless.
    `selected` are the ids of the claims asked for, `required` those judged although their conditions are not met;
    `judged_as` names vendors whose sentences the user wants applied although they bind other products. `unable` says
    which faults this machine cannot take, and what of a scenario the adapter has no words for, and why.
    """

    run: str
    started: str
    command: str
    seed: int
    adapter: str
    version: str
    launcher: str
    protocol: str
    client: str
    title: str
    profiles: tuple[str, ...]
    capabilities: tuple[str, ...]
    settings: dict[str, bool | int | str]
    absent: tuple[str, ...]
    changed: dict[str, bool | int | str]
    deviations: dict[str, str]
    versions: dict[str, str]
    selected: tuple[str, ...]
    required: tuple[str, ...]
    judged_as: tuple[str, ...] = ()
    unable: dict[str, str] = {}
    finished: bool = False
    interrupted: bool = False
    floor_seconds: float = 0.0
    seconds: float = 0.0


class TrialRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One trial: which script, which arm, and whether anything of ours went wrong.

    `arm` is `subject` or `control`; `control` is the label of the control that it ran (`Control.label`). `k` is the
    number that the seed drew for the trigger. `void` says why nothing may be concluded from it: a fault that did not
    take effect, a process that died by itself, a broker that did not start. `floor_seconds` is what the restarts and
    waits of this trial took by themselves. `script` has the drawn steps, in words that a replay must find again.
    """

    trial: str
    scenario: str
    arm: str
    control: str
    index: int
    seed: int
    k: int | None
    adapter: str
    settings: dict[str, bool | int | str]
    script: tuple[str, ...] = ()
    void: str = ""
    void_log: tuple[str, ...] = ()
    floor_seconds: float = 0.0
    seconds: float = 0.0


def save(record: msgspec.Struct, path: pathlib.Path) -> None:
    """Write a record so that a reader sees the old file or the new one, never half of one."""
    part = path.with_suffix(".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
    part.replace(path)


def read(path: pathlib.Path, kind: type[Record]) -> Record:
    """Read a record of that kind; raises `HistoryError` where it is missing or not one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError) as error:
        raise HistoryError(f"{path}: {error}") from error


def check_run(folder: pathlib.Path) -> None:
    """Raise `UsageError` where the folder is none of a run; it names the run where the folder is a part of one."""
    if not (folder / "run.json").is_file():
        above = next((each for each in folder.absolute().parents if (each / "run.json").is_file()), None)
        hint = f"; its run is {above.name}, some folders up" if above else ""
        raise UsageError(f"{folder} is not the folder of a run: it has no run.json{hint}")
