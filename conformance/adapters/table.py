"""A table of a `broker.toml`: frozen, of strict types, and every key known."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import pydantic


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


class UnknownKeyError(Exception):
    """Carries an unknown key and its table out of pydantic, which would only say that it is extra."""

    def __init__(self, key: str, known: Iterable[str]) -> None:
        super().__init__(key)
        self.key = key
        self.known = tuple(known)


class Table(pydantic.BaseModel):
    """A table of the file: frozen, and every key known."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    @pydantic.model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        for key in data if isinstance(data, Mapping) else ():
            if key not in cls.model_fields:
                raise UnknownKeyError(str(key), cls.model_fields)
        return data
