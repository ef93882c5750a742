"""The table `[external]` of a `broker.toml`: a broker that is running already, and what the suite may do with it.

The same table is a file of its own for a broker of this package: `--adapter NAME:external=FILE.toml`.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import pydantic

from conformance.adapters.file.start_table import Depth, QueuesTable, Remove
from conformance.adapters.file.table import Seconds, Table, Value, Word, problems, read_toml, together

COMMANDS = ("kill", "start", "stop", "pause", "resume", "wait_ready")
"""The keys of the commands that a user can give."""

NEVER_HERE = "none: it is external"
"""The start command of a file whose broker is only ever external."""

_QUEUES = frozenset({"declare", "creates_queues", "queues", "drain_queues"})
"""Ways to get a queue: a user who gives one of them replaces all of the product's."""

_OUTSIDE: Mapping[str, Mapping[str, Any]] = {
    "start": {"command": [NEVER_HERE]},
    "data": {"path": "{instance}/data"},
    "journal": {"path": "{instance}/data"},
}


class Command(Table):
    """A command line of the user, run without a shell in the folder of its file.

    It must end with exit code 0 within `seconds`, when its work is done. A list alone is short for `command`.
    """

    command: tuple[str, ...] = pydantic.Field(min_length=1)
    seconds: Seconds = 30.0

    @pydantic.model_validator(mode="before")
    @classmethod
    def _bare(cls, data: Any) -> Any:
        return {"command": data} if isinstance(data, list | tuple) else data


class External(Table):
    """A broker that is running already: its addresses, settings and queues, and the commands for its faults.

    `urls` are addresses by protocol, and `http` is the address of its management. `management_port` is the usual port
    of the management: it is used at the host of the first address if no `http` address is given. `settings` are the
    settings it runs with; any other setting is assumed to be as the product documents it. `kill` kills the broker,
    `stop` stops it cleanly. `start` starts it again; without `start` the broker restarts by itself. `pause` stops all
    of its processes until `resume`. `wait_ready` ends when the broker is ready; the suite sends and receives a message
    in any case.

    Queues: `declare` makes and removes one (default: `queues` of the file). `creates_queues` says that the broker
    creates a queue that a client names. `queues` are existing queues, for users who may create none: two or more, empty
    and used by this run only. The last one is for the readiness probe. A queue that holds messages is skipped; with
    `drain_queues` its messages are consumed before it is used.

    `remove` removes a queue of the run if `declare` has no `remove`. `depth` replaces the product's own [depth].
    With `same_login` the management gets the login of the clients instead of the one in the product's addresses.
    """

    urls: Mapping[Word, str] = {}
    management_port: int = pydantic.Field(default=0, ge=0, le=65535)
    settings: Mapping[str, Value] = {}
    kill: Command | None = None
    start: Command | None = None
    stop: Command | None = None
    pause: Command | None = None
    resume: Command | None = None
    wait_ready: Command | None = None
    declare: QueuesTable | None = None
    creates_queues: bool = False
    queues: tuple[str, ...] = ()
    drain_queues: bool = False
    remove: Remove | None = None
    depth: Depth | None = None
    same_login: bool = False

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> External:
        if (self.pause is None) != (self.resume is None):
            raise ValueError("pause and resume belong together: a paused broker must be resumed")
        if len(self.queues) == 1 or len(set(self.queues)) < len(self.queues):
            raise ValueError("queues needs at least two different ones: the last is for the readiness probe")
        if self.drain_queues and not self.queues:
            raise ValueError("drain_queues needs existing queues: name them (queues = [...])")
        if sum([self.declare is not None, self.creates_queues, bool(self.queues)]) > 1:
            raise ValueError("expected one of declare, creates_queues and queues")
        return self

    def under(self, owner: External) -> External:
        """The owner's table, with the keys of this one (the product's) that the owner leaves out."""
        said = owner.model_fields_set
        kept = self.model_fields_set - said - (_QUEUES if said & _QUEUES else set())
        return owner.model_copy(update={name: getattr(self, name) for name in kept})

    def command(self, name: str) -> Command | None:
        """The command of that key; None if the user gave none."""
        found: Command | None = getattr(self, name) if name in COMMANDS else None
        return found


def outside(data: Any) -> Any:
    """Add `[start]`, `[data]` and `[journal]` to a file with `[external]`, which needs none of them."""
    return {**_OUTSIDE, **data} if isinstance(data, Mapping) and "external" in data else data


def load(path: pathlib.Path) -> External:
    """Read a file that holds this table at its top; `UsageError` names the file and everything that is wrong."""
    try:
        return External.model_validate(read_toml(path))
    except pydantic.ValidationError as error:
        raise together(problems(error, External)).within(str(path)) from error
