"""The table `[config]` of a `broker.toml`: how a user's own configuration is changed in the copy that runs.

A copy must never write where the original writes, listen where it listens, or talk to whom it talks. So ports, bind
addresses and paths are rewritten, and what would lead the copy to other systems is refused. Nothing else is changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

import pydantic

from conformance.adapters.file.table import Inside, Pattern, Table, Word


class Rewrite(Table):
    """One place that a copy must not share with the original: a port, a bind address, a path.

    `at` is the path of an element or attribute (`core/journal-directory`), or a key, in which `*` stands for any
    characters. Where the file has it, it gets `text`, or is taken out where there is none. With `add` it gets the text
    although the file does not have it.
    """

    at: str
    text: str | None = None
    add: bool = False
    why: str

    @pydantic.model_validator(mode="after")
    def _one_place(self) -> Rewrite:
        if self.add and (self.text is None or "*" in self.at):
            raise ValueError("add needs a text, and a place without *")
        return self


class Refuse(Table):
    """What would let a copy talk to other systems: an error that says so, and `why`.

    `at` is as in `rewrite`, at any depth of an xml file. A value that matches `unless` does no harm, and an element
    that has neither children nor text does none either.
    """

    at: str
    unless: Pattern = ""
    why: str


class Beside(Table):
    """A further file of the user's folder, copied as it is to `to` of the instance where it is there.

    `refuses` are patterns that may not be found in it, each with the reason; what follows `comment` outside of quotes,
    up to the end of its line, is not looked at.
    """

    file: str
    to: Inside
    comment: str = ""
    refuses: Mapping[Pattern, str] = {}


class Listeners(Table):
    """The elements of an xml file that listen, each with an address `tcp://HOST:PORT?protocols=A,B;...` as its text.

    `speaks` is what each of our protocols is called there. Of those at `at` the first that speaks a protocol is kept,
    one without TLS before one with it, with all its parameters; its port becomes one of ours. The others are taken out.
    An address without `protocols` speaks them all.
    """

    at: str
    speaks: Mapping[Word, str]
    why: str


class Config(Table):
    """A user's own configuration: what is taken of a folder, what is rewritten, and what is refused.

    `file` is the main file by its name; it comes to `to` of the instance. `expects` is an element or a key that it must
    have: without it, it is the file of another broker. `keeps` names the `[deviations]` that hold for it too; those of
    `[xml]` and of files of the template with the same `to` do not. `natively_only` is why no copy runs in a container.
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
            raise ValueError("listeners are those of an xml file; a file of keys has rewrite")
        return self

    def check(self, protocols: Collection[str], deviations: Collection[str]) -> None:
        """Raise `ValueError` for a name that the file, with these protocols and deviations, does not have."""
        listened = self.listeners.speaks if self.listeners else {}
        if unknown := sorted(listened.keys() - set(protocols)):
            raise ValueError(f"config.listeners.speaks names no protocol of the file: {', '.join(unknown)}")
        if unknown := sorted(set(self.keeps) - set(deviations)):
            raise ValueError(f"config.keeps names no deviation of the file: {', '.join(unknown)}")
