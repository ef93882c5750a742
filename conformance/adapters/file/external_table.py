"""The table `[external]` of a `broker.toml`: a broker that runs already, and what the suite may do with it.

The same table is a file of its own for a broker of this package: `--adapter NAME:external=FILE.toml`.
"""

from __future__ import annotations

import pathlib
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import pydantic

from conformance.adapters.file.start_table import Depth, QueuesTable, Remove
from conformance.adapters.file.table import Seconds, Table, Word, problems
from conformance.errors import UsageError

COMMANDS = ("kill", "start", "stop", "pause", "resume", "wait_ready")
"""The commands that a user can give, by their keys."""

NEVER_HERE = "none: it is external"
"""The command of a file that says only how its broker is reached."""

_QUEUES = frozenset({"declare", "creates_queues", "queues", "drain_queues"})
"""Ways to a queue: a user who gives one of them replaces all of the product's."""

_ASKED = ("queue", "http_port")
"""Words of a request: a product whose own broker has no HTTP port may have one outside."""

_OUTSIDE: Mapping[str, Mapping[str, Any]] = {
    "start": {"command": [NEVER_HERE]},
    "data": {"path": "{instance}/data"},
    "journal": {"path": "{instance}/data"},
}


class Command(Table):
    """A command line of the user's, without a shell, run in the folder of its file.

    It ends with 0 within `seconds`, and has done by then what it is for. A mere list is `command`.
    """

    command: tuple[str, ...] = pydantic.Field(min_length=1)
    seconds: Seconds = 30.0

    @pydantic.model_validator(mode="before")
    @classmethod
    def _bare(cls, data: Any) -> Any:
        return {"command": data} if isinstance(data, list | tuple) else data


class External(Table):
    """A broker that runs already: where, with what settings, whose queues, and which faults its owner has commands for.

    `urls` are addresses by protocol, and `http` of its management. `management_port` is the usual port of that: it is
    used at the host of the first address where no `http` address is given. `settings` is what it runs with, in the
    words of the product's settings; what is not said here is taken to be as the product documents it. `kill` ends it at
    once, `stop` in order; `start` starts it again, and without one it comes back by itself. `pause` halts every process
    of it until `resume`. `wait_ready` ends when it is ready; a message in and out again proves it in any case.

    Queues: `declare` is how one is made and removed (default: `queues` of the file), `creates_queues` says that the
    broker makes what a client names. `queues` are existing ones for users who may make none: two or more, empty, and
    nobody else's while the run lasts; the last is for the proof that the broker is ready. One that holds something is
    passed over; with `drain_queues` whatever is in one is consumed before it is used.

    `remove` takes a queue of the run away again where `declare` has no `remove`. `depth` replaces the product's own
    [depth]. `same_login`: the management takes the login of the clients instead of the one in the product's addresses.
    """

    urls: Mapping[Word, str] = {}
    management_port: int = pydantic.Field(default=0, ge=0, le=65535)
    settings: Mapping[str, pydantic.StrictBool | pydantic.StrictInt | pydantic.StrictStr] = {}
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
            raise ValueError("pause and resume belong together: what is halted must be let go on")
        if len(self.queues) == 1 or len(set(self.queues)) < len(self.queues):
            raise ValueError("queues are at least two different ones: the last is for the proof that it is ready")
        if self.drain_queues and not self.queues:
            raise ValueError("drain_queues is about existing queues: name them (queues = [...])")
        if sum([self.declare is not None, self.creates_queues, bool(self.queues)]) > 1:
            raise ValueError("queues are declared, created by the broker or existing: one of the three")
        return self

    def under(self, owner: External) -> External:
        """What the owner of a broker says, and of this product's own table what it leaves open."""
        said = owner.model_fields_set
        kept = self.model_fields_set - said - (_QUEUES if said & _QUEUES else set())
        return owner.model_copy(update={name: getattr(self, name) for name in kept})

    def command(self, name: str) -> Command | None:
        """The command of that key; None where the user gave none."""
        found: Command | None = getattr(self, name) if name in COMMANDS else None
        return found

    def texts(self) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
        """Each field that may hold words in braces, its texts, and the words that it has beside those of everywhere."""
        for name in COMMANDS:
            if found := self.command(name):
                yield f"external.{name}", found.command, ()
        if self.declare is not None:
            yield from queue_texts("external.declare", self.declare)
        if (how := self.remove) is not None:
            texts = (how.url, how.address, how.body, *how.headers.values(), *how.properties.values())
            yield "external.remove", texts, _ASKED
        if self.depth is not None:
            yield "external.depth", self.depth.texts, _ASKED


def queue_texts(field: str, queues: QueuesTable) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """The same of a table that declares queues."""
    remove = (queues.remove,) if isinstance(queues.remove, str) else queues.remove
    texts = {"url": (queues.url,), "remove": remove, "lasting": (queues.lasting,)}
    for key, found in texts.items():
        yield f"{field}.{key}", found, ("queue",)
    yield f"{field}.body", (queues.body,), ("queue", "options")
    yield f"{field}.command", queues.command, ("queue", "options")
    yield f"{field}.options", tuple(queues.options.values()), ("queue", "value")


def outside(data: Any) -> Any:
    """A file with `[external]` needs no word about a start, data or a journal: none of them is here."""
    return {**_OUTSIDE, **data} if isinstance(data, Mapping) and "external" in data else data


def load(path: pathlib.Path) -> External:
    """Read a file that holds this table at its top; `UsageError` names file, key and the closest known key."""
    try:
        return External.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
    except pydantic.ValidationError as error:
        raise UsageError(f"{path}: {problems(error, External)}") from error
