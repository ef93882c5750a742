"""A table of a `broker.toml`: frozen, of strict types, and every key known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import pydantic

Word = Annotated[str, pydantic.StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$")]
Seconds = Annotated[float, pydantic.Field(gt=0, strict=True)]


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
