"""The options by which a client comes in: TLS and a login, for every command that talks to a broker."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import Any, TypeVar

import click

from conformance.run.planning.credential_options import FILE, WORDS, Word, typed

Command = TypeVar("Command", bound=Callable[..., Any])


def credentials(command: Command) -> Command:
    """Give a command these options; it gets one argument `access` (an `Access`) for them all."""

    @functools.wraps(command)
    def wrapped(*args: Any, **words: Any) -> Any:
        said = {word.name: words.pop(word.name) for word in WORDS}
        return command(*args, access=typed(said), **words)

    for word in reversed(WORDS):
        wrapped = _option(word)(wrapped)
    return wrapped  # type: ignore[return-value]


def _option(word: Word) -> Callable[[Any], Any]:
    if not word.metavar:
        return click.option(word.option, is_flag=True, help=word.help)
    if word.metavar == FILE:
        return click.option(word.option, type=click.Path(path_type=pathlib.Path), metavar=word.metavar, help=word.help)
    return click.option(word.option, default="", metavar=word.metavar, help=word.help)
