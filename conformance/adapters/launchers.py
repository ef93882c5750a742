"""The launcher in an adapter's name: `native[=FOLDER]`, `docker`, `external[=URL,...]` or `external=FILE.toml`."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator

from conformance.adapters.external.addresses import places, with_management, words_of
from conformance.adapters.file import external_table
from conformance.adapters.file.external_table import External
from conformance.adapters.file.model import BrokerFile
from conformance.adapters.file.placeholders import placeholders
from conformance.adapters.file.reading import check_external
from conformance.errors import UsageError

NATIVE, DOCKER, EXTERNAL = "native", "docker", "external"
LAUNCHERS = (NATIVE, DOCKER, EXTERNAL)


@dataclasses.dataclass(frozen=True)
class Launcher:
    """`word` is one of `LAUNCHERS`, `at` what stood after its `=`.

    `home` is the folder with the distribution, where it was named; `rules` those of an external broker, and `here` the
    folder that they were written in.
    """

    word: str = NATIVE
    at: str = ""
    home: pathlib.Path | None = None
    rules: External | None = None
    here: pathlib.Path = pathlib.Path()

    def __str__(self) -> str:
        return f"{self.word}={self.at}" if self.at else self.word


HERE = Launcher()
"""Natively, from the distribution that is fetched."""


LEFT = "left.txt"
"""What an external broker was left with, and why, a line each: a file in its folder."""


def left(folder: pathlib.Path) -> Iterator[str]:
    """What the brokers of the run in `folder` were left with, for its user: a line for each of them."""
    for path in sorted(folder.glob(f"brokers/*/{LEFT}")):
        first, *more = path.read_text().splitlines()
        yield first + (f" (all lines are in {path})" if more else "")


def read(file: BrokerFile, asked: str | None, path: pathlib.Path) -> Launcher:
    """The launcher that a user asked for; None is `external` for a file that says where its broker is, else `native`.

    `path` is the file of the broker. Raises `UsageError` that names the word, key or address, and the next step.
    """
    outside = file.external is not None and bool(file.external.urls)
    word, equals, at = (asked or (EXTERNAL if outside else NATIVE)).partition("=")
    if word not in LAUNCHERS:
        raise UsageError.unknown("launcher", word, LAUNCHERS)
    if equals and not at:
        raise UsageError(f"{word}=: nothing stands after it")
    if word == EXTERNAL:
        return _external(file, at, path)
    if file.is_external:
        raise UsageError(f"{file.name} has no [start]: it is reached from outside only, by its [external]")
    if word == DOCKER:
        if at or file.container is None:
            raise UsageError(f"{file.name} has no [container]: it runs natively only" if not at else f"{asked}: docker")
        return Launcher(DOCKER)
    return Launcher(NATIVE, at, _home(file, pathlib.Path(at))) if at else HERE


def _external(file: BrokerFile, at: str, path: pathlib.Path) -> Launcher:
    base = file.external or External()
    if at.endswith(".toml"):
        rules, here, where = base.under(external_table.load(pathlib.Path(at))), pathlib.Path(at).absolute().parent, at
    elif at or base.urls:
        rules, here, where = base.under(External(urls={**base.urls, **words_of(at)})), path.parent, file.name
    else:
        raise UsageError(
            f"{file.name}:external: where is it? {file.name}:external=amqp://HOST:PORT, or external=FILE.toml with "
            "its addresses and the commands for its faults"
        )
    try:
        places(rules.urls, file)
        rules = rules.model_copy(update={"urls": with_management(rules.urls, rules.management_port)})
        if not (rules.declare or file.queues or rules.creates_queues or rules.queues):
            raise UsageError(
                'nothing says how a queue comes to be: say declare = { command = [..., "{queue}"], remove = [...] }, '
                'creates_queues = true, or queues = ["existing", "others"], in a file: external=FILE.toml (see '
                "docs/external-brokers.md)"
            )
        check_external(file, rules)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    return Launcher(EXTERNAL, at, rules=rules, here=here)


def _home(file: BrokerFile, folder: pathlib.Path) -> pathlib.Path:
    """The folder of the distribution: the one that was named, or what its archive unpacks to in there."""
    if not folder.is_dir():
        raise UsageError(f"native={folder}: no such folder; name the one that the distribution was unpacked to")
    inside = [one for one in sorted(folder.iterdir()) if one.is_dir()]
    wanted = list(_programs(file))
    for home in (folder, *inside):
        if all((home / program).exists() for program in wanted):
            return home.absolute()
    raise UsageError(
        f"native={folder}: it holds no {wanted[0]}, nor does a folder in it; name the one that the distribution of "
        f"{file.name} was unpacked to"
    )


def _programs(file: BrokerFile) -> Iterator[str]:
    """What must be in `{home}`: the programs that the file calls there, by their paths in it."""
    commands = [file.start.command, file.template.command if file.template else ()]
    for command in commands:
        if command and command[0].startswith("{home}/") and list(placeholders(command[0])) == ["home"]:
            yield command[0].removeprefix("{home}/")
