"""The base of every table of a `broker.toml`: frozen, strictly typed, unknown keys refused."""

from __future__ import annotations

import pathlib
import re
import typing
from collections.abc import Iterator
from typing import Annotated, Any

import pydantic

from conformance.errors import UsageError


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error
    return text


def _relative(path: str) -> str:
    parts = pathlib.PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts:
        raise ValueError(f"{path!r} is not inside the folder: a relative path without '..' is")
    return path


Word = Annotated[str, pydantic.StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$")]
Seconds = Annotated[float, pydantic.Field(gt=0, strict=True)]
Pattern = Annotated[str, pydantic.AfterValidator(_pattern)]
Inside = Annotated[str, pydantic.AfterValidator(_relative)]
"""A path that does not lead out of its folder."""


class Table(pydantic.BaseModel):
    """A table of the file: frozen, and every key known."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


_BRANCHES = ("bool", "int", "str")
"""What pydantic adds to the place of an error for each type that a value may have."""


def problems(error: pydantic.ValidationError, table: type[Table], *more: str) -> str:
    """Everything that is wrong with a table, and what a caller found beside it: one line, or a line for each."""
    found: dict[tuple[int | str, ...], str] = {}
    missing = set()
    for each in error.errors(include_url=False, include_context=False):
        place = each["loc"][:-1] if each["loc"] and each["loc"][-1] in _BRANCHES else each["loc"]
        found.setdefault(place, _problem(each["type"], each["msg"], place, table))
        missing |= {place} if each["type"] == "missing" else set()
    for place in missing:  # one that is misspelt is told once
        if any(f"did you mean {place[-1]!r}" in said for at, said in found.items() if at[:-1] == place[:-1]):
            del found[place]
    lines = [*found.values(), *more]
    return lines[0] if len(lines) == 1 else "".join([f"{len(lines)} errors", *(f"\n  {line}" for line in lines)])


def _problem(kind: str, said: str, place: tuple[int | str, ...], table: type[Table]) -> str:
    where = ".".join(map(str, place))
    if kind == "extra_forbidden":
        *above, key = map(str, place)
        unknown = UsageError.unknown("key", key, _table_at(place[:-1], table).model_fields)
        return f"{'.'.join(above)}: {unknown}" if above else str(unknown)
    return f"{where or 'file'}: {said.removeprefix('Value error, ').replace('valid tuple', 'list, in brackets')}"


def _table_at(place: tuple[int | str, ...], table: type[Table]) -> type[Table]:
    """The model of the table at that place: names of a table's own (of a setting, of a protocol) lead nowhere else."""
    for part in place:
        if part in table.model_fields:
            table = next(_tables_in(table.model_fields[str(part)].annotation), table)
    return table


def _tables_in(annotation: Any) -> Iterator[type[Table]]:
    if isinstance(annotation, type) and issubclass(annotation, Table):
        yield annotation
    for inner in typing.get_args(annotation):
        yield from _tables_in(inner)
