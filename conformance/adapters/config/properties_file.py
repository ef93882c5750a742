"""Edit a file of lines `key = value` in place; `#` begins a comment."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence

from conformance.errors import UsageError

_LINE = re.compile(r"\s*(?P<key>[^\s=#]+)\s*=\s*(?P<value>.*?)\s*(?:\s#.*)?")


class KeysText:
    """The text of a file; each change returns a new one. Raises `UsageError` for a line that is not `key = value`."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        try:
            self._lines = data.decode("utf-8").splitlines(keepends=True)
        except UnicodeDecodeError as error:
            raise UsageError("it is not text in UTF-8") from error
        self._parsed = [_parsed(number, line) for number, line in enumerate(self._lines, 1)]

    def read(self, key: str) -> str | None:
        """The value of the last line with that key, which is in force; None if there is none."""
        return next(iter(reversed(self.values(key))), None)

    def values(self, key: str) -> list[str]:
        """The values of every line whose key matches, in order."""
        return [value for found, value in self._parsed if found and fnmatch.fnmatchcase(found, key)]

    def anywhere(self, key: str) -> Iterator[str]:
        """Yield the values of every line whose key matches; a file of keys has no depth."""
        yield from self.values(key)

    def rewritten(self, key: str, text: str | None, *, add: bool = False) -> KeysText:
        """Set the value wherever the key is in the file; None removes the lines. With `add` a missing key is added."""
        made = []
        for line, (found, value) in zip(self._lines, self._parsed, strict=True):
            if not found or not fnmatch.fnmatchcase(found, key) or value == text:
                made.append(line)
            elif text is not None:
                made.append(f"{found} = {text}\n")
        if add and self.read(key) is None:
            made = [*self._whole(made), f"{key} = {text}\n"]
        return KeysText("".join(made).encode())

    def with_value(self, key: str, text: str) -> KeysText:
        """Set the value; a missing key gets a line of its own."""
        return self.rewritten(key, text, add=True)

    @staticmethod
    def _whole(lines: Sequence[str]) -> list[str]:
        """End the last line."""
        return [*lines[:-1], lines[-1] if lines[-1].endswith("\n") else lines[-1] + "\n"] if lines else []


def _parsed(number: int, line: str) -> tuple[str, str]:
    """Key and value; two empty words for a comment or an empty line."""
    if not line.strip() or line.lstrip().startswith("#"):
        return "", ""
    found = _LINE.fullmatch(line.rstrip("\r\n"))
    if found is None:
        raise UsageError(f"line {number} is not `key = value`")
    return found["key"], found["value"]
