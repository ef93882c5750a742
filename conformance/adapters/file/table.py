"""The base class of every table of a `broker.toml`, the types that tables share, and what is wrong with a table."""

from __future__ import annotations

import pathlib
import re
import tomllib
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeVar

import pydantic
from pydantic_core import core_schema

from conformance.errors import UsageError


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from error
    return text


def _relative(path: str) -> str:
    parts = pathlib.PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts:
        raise ValueError(f"{path!r} is not inside the folder: expected a relative path without '..'")
    return path


Value = pydantic.StrictBool | pydantic.StrictInt | pydantic.StrictStr
Word = Annotated[str, pydantic.StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$")]
Seconds = Annotated[float, pydantic.Field(gt=0, strict=True)]
Pattern = Annotated[str, pydantic.AfterValidator(_pattern)]
Inside = Annotated[str, pydantic.AfterValidator(_relative)]
"""A path that does not lead out of its folder."""


class Table(pydantic.BaseModel):
    """A table of the file. It is frozen, and an unknown key is an error."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class ByName:
    """Of a field that maps names to tables: those names whose tables have more keys than the others."""

    def __init__(self, tables: Mapping[str, type[Table]]) -> None:
        self.tables = tables

    def __get_pydantic_core_schema__(
        self, source: Any, handler: pydantic.GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        (common,) = _tables_in(source)
        fields = {
            name: core_schema.typed_dict_field(handler(table), required=False) for name, table in self.tables.items()
        }
        return core_schema.typed_dict_schema(fields, extras_schema=handler(common), extra_behavior="allow")


def read_toml(path: pathlib.Path) -> dict[str, Any]:
    """Read a TOML file; `UsageError` names the file and the reason."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: not TOML: {error}") from error


_T = TypeVar("_T", bound=Table)


def read_file(path: pathlib.Path, table: type[_T]) -> _T:
    """Read a file that holds this table at its top; `UsageError` names the file and everything that is wrong."""
    try:
        return table.model_validate(read_toml(path))
    except pydantic.ValidationError as error:
        raise together(problems(error, table)).within(str(path)) from error


_BRANCHES = ("bool", "int", "str")
"""What pydantic adds to the place of an error for each type that a value may have."""


def problems(error: pydantic.ValidationError, table: type[Table]) -> list[str]:
    """Describe every error that pydantic found in a table, one line each."""
    found: dict[tuple[int | str, ...], str] = {}
    missing = set()
    for each in error.errors(include_url=False, include_context=False):
        place = each["loc"][:-1] if each["loc"] and each["loc"][-1] in _BRANCHES else each["loc"]
        found.setdefault(place, _problem(each["type"], each["msg"], place, table))
        missing |= {place} if each["type"] == "missing" else set()
    for place in missing:  # a misspelt key is both unknown and missing: report it once
        if any(f"did you mean {place[-1]!r}" in line for at, line in found.items() if at[:-1] == place[:-1]):
            del found[place]
    return list(found.values())


def together(lines: Iterable[str]) -> UsageError:
    """One error that has every line."""
    every = list(lines)
    text = every[0] if len(every) == 1 else "\n  ".join([f"{len(every)} errors", *every])
    return UsageError(text, code="faulty-file", errors=every)


def _problem(kind: str, message: str, place: tuple[int | str, ...], table: type[Table]) -> str:
    where = ".".join(map(str, place))
    if kind == "extra_forbidden":
        *above, key = map(str, place)
        unknown = UsageError.unknown("key", key, _table_at(place[:-1], table).model_fields)
        return f"{'.'.join(above)}: {unknown}" if above else str(unknown)
    said = message.removeprefix("Value error, ").replace("valid tuple", "list, in brackets").replace("Tuple", "List")
    return f"{where or 'file'}: {said}"


def _table_at(place: tuple[int | str, ...], table: type[Table]) -> type[Table]:
    """The class of the table at that place. The name of a setting leads to no other class."""
    by_name: Mapping[str, type[Table]] = {}
    for part in place:
        if part in by_name:
            table = by_name[str(part)]
        elif part in table.model_fields:
            field = table.model_fields[str(part)]
            by_name = next((each.tables for each in field.metadata if isinstance(each, ByName)), {})
            table = next(_tables_in(field.annotation), table)
    return table


def _tables_in(annotation: Any) -> Iterator[type[Table]]:
    if isinstance(annotation, type) and issubclass(annotation, Table):
        yield annotation
    for inner in typing.get_args(annotation):
        yield from _tables_in(inner)
