"""The table `[config]` of a `broker.toml`: how the copy of a user's own configuration differs from the original.

The copy must not write to the folders of the original, listen on its ports, or connect to its peers. So ports, bind
addresses and paths are rewritten, and an element that connects to other systems is refused. Nothing else changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import pydantic

from conformance.adapters.file.table import Inside, Pattern, Table, Word


class Rewrite(Table):
    """One place that a copy must not share with the original: a port, a bind address, a path.

    `at` is the path of an element or attribute (`core/journal-directory`), or a key, in which `*` stands for any
    characters. If the file has it, it gets `text`, or is removed if there is no `text`. With `add` it is added if the
    file does not have it.
    """

    at: str
    text: str | None = None
    add: bool = False
    why: str

    @pydantic.model_validator(mode="after")
    def _one_place(self) -> Rewrite:
        if self.add and (self.text is None or "*" in self.at):
            raise ValueError("add needs a text, and an `at` without *")
        return self


class Refuse(Table):
    """An element or key that would let a copy connect to other systems. It is an error, which gives `why`.

    `at` is as in `rewrite`, at any depth of an xml file. A value that matches `unless` is allowed, and so is an element
    that has neither children nor text.
    """

    at: str
    unless: Pattern = ""
    why: str


class Beside(Table):
    """A further file of the user's folder. If it is there, it is copied unchanged to `to` of the instance.

    `refuses` are patterns that must not match in it, each with the reason. Text from `comment`, outside of quotes, to
    the end of the line is skipped.
    """

    file: str
    to: Inside
    comment: str = ""
    refuses: Mapping[Pattern, str] = {}


class Listeners(Table):
    """The listeners of an xml file: elements with an address `tcp://HOST:PORT?protocols=A,B;...` as their text.

    `speaks` is the name of each of our protocols there. Of the elements at `at` the first that speaks a protocol is
    kept with all its parameters, one without TLS before one with TLS. It gets one of our ports. The others are removed.
    An address without `protocols` speaks all of them.
    """

    at: str
    speaks: Mapping[Word, str]
    why: str


class Config(Table):
    """A user's own configuration: which files are copied, what is rewritten, and what is refused.

    `file` is the name of the main file, and `to` its place in the instance. `expects` is an element or a key that it
    must have: a file without it belongs to another broker. `keeps` names the `[deviations]` that apply to it too. Edits
    of `[xml]`, and template files with the same `to`, do not apply. `natively_only` is why no copy runs in a container.
    """

    file: str
    to: Inside
    format: Literal["xml", "keys"]
    expects: str = ""
    beside: tuple[Beside, ...] = ()
    rewrite: tuple[Rewrite, ...] = ()
    refuses: tuple[Refuse, ...] = ()
    listeners: Listeners | None = None
    keeps: tuple[str, ...] = ()
    natively_only: str = ""

    @pydantic.model_validator(mode="after")
    def _of_its_format(self) -> Config:
        if self.listeners is not None and self.format != "xml":
            raise ValueError("listeners need format xml; a file of keys has rewrite")
        return self
