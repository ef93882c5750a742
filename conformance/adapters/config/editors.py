"""Edit an XML file, or a file of lines `key = value`, in place: every other byte stays, so a diff shows only the edits.

A parser that writes its tree back joins lines, changes quotes and drops blanks in the whole file.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple
from xml.parsers import expat
from xml.sax import saxutils

from conformance.adapters.file.launch_tables import Xml
from conformance.adapters.file.placeholders import fill
from conformance.errors import UsageError

DEPTH = 100
"""Levels of elements. No broker's configuration has 20; without a bound a file of 20,000 exhausts the stack."""

_STEP = "   "
_STEPS = re.compile(r"(?:[^/\[]|\[[^\]]*\])+")


_CLASS = re.compile(r"(?:.+-)?class(?:-name)?")
_CLASS_NAME = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*")


class Occurrence(NamedTuple):
    """One place in the file: its line, its value, and the names of the classes that it loads."""

    line: int
    value: str
    classes: tuple[str, ...] = ()


@dataclasses.dataclass
class Element:
    """One element: `start` and `end` are its first byte and the one after its last, `inner` those of its content.

    `empty` means `<name/>`. `text` is its own text, decoded.
    """

    name: str
    attributes: dict[str, str]
    start: int
    inner: tuple[int, int] = (0, 0)
    end: int = 0
    empty: bool = False
    text: str = ""
    children: list[Element] = dataclasses.field(default_factory=list)

    def every(self) -> Iterator[Element]:
        yield self
        for child in self.children:
            yield from child.every()

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes that it or an element in it names."""
        named = [
            value
            for one in self.every()
            for name, value in ((one.name.rpartition(":")[2], one.text.strip()), *one.attributes.items())
            if _CLASS.fullmatch(name) and _CLASS_NAME.fullmatch(value)
        ]
        return tuple(dict.fromkeys(named))


class XmlText:
    """The text of an XML file and its tree; each change returns a new one. Raises `UsageError` if it cannot be read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.root = _parse(data)

    def read(self, path: str) -> str | None:
        """The value of the first element or attribute at the path below the root; None if there is none."""
        return next(iter(self.values(path)), None)

    def values(self, path: str) -> list[str]:
        """The values of all elements or attributes at the path below the root."""
        place, _, attribute = path.partition("/@")
        found = _at([self.root], _steps(place))
        if attribute:
            return [one.attributes[attribute] for one in found if attribute in one.attributes]
        return [one.text.strip() for one in found]

    def line(self, path: str) -> int:
        """The line of the value that `read` returns."""
        place, _, attribute = path.partition("/@")
        found = _at([self.root], _steps(place))
        return self._line_of(next(one for one in found if not attribute or attribute in one.attributes))

    def _line_of(self, element: Element) -> int:
        return self.data.count(b"\n", 0, element.start) + 1

    def anywhere(self, path: str) -> Iterator[Occurrence]:
        """Yield the values at the path from any element: empty for an element that has only children.

        An element that has neither children nor text is left out.
        """
        place, _, attribute = path.partition("/@")
        first, *others = _steps(place)
        for one in _at([each for each in self.root.every() if _is(each, first)], others):
            if attribute and attribute in one.attributes:
                yield Occurrence(self._line_of(one), one.attributes[attribute], one.classes)
            elif not attribute and (one.children or one.text.strip()):
                yield Occurrence(self._line_of(one), one.text.strip(), one.classes)

    def elements(self, path: str) -> list[Element]:
        return _at([self.root], _steps(path))

    def rewritten(self, path: str, text: str | None, *, add: bool = False) -> XmlText:
        """Set the text at the path wherever it is in the file; None removes it. With `add` a missing one is added."""
        if add and not self.values(path):
            return self.with_value(path, text or "")
        made = self
        place, _, attribute = path.partition("/@")
        for number in range(len(self.elements(place))):
            one = made.elements(place)[0 if text is None and not attribute else number]
            if attribute:
                made = made._with_attribute(one, attribute, text) if attribute in one.attributes else made
            elif text is None:
                made = made.without(one)
            elif one.text.strip() != text:
                made = made._filled(one, saxutils.escape(text))
        return made

    def with_value(self, path: str, text: str) -> XmlText:
        """Set the text at the path; what is missing of the path is added."""
        place, _, attribute = path.partition("/@")
        made, steps = self, _steps(place)
        for depth in range(1, len(steps) + 1):
            if not _at([made.root], steps[:depth]):
                name, key, value = _parts(steps[depth - 1])
                condition = f" {key}={saxutils.quoteattr(value)}" if key else ""
                made = made.appended("/".join(steps[: depth - 1]), [f"<{name}{condition}></{name}>"])
        one = _at([made.root], steps)[0]
        if attribute:
            return made._with_attribute(one, attribute, text)
        return made if one.text.strip() == text else made._filled(one, saxutils.escape(text))

    def with_content(self, path: str, content: str) -> XmlText:
        """Replace the content of the element at the path by this XML; what is missing of the path is added."""
        made = self if self.elements(path) else self.with_value(path, "")
        return made._filled(made.elements(path)[0], content)

    def with_queues(
        self,
        rules: Xml,
        queues: Sequence[str],
        words: Mapping[str, str],
        copies: Mapping[str, str] = MappingProxyType({}),
    ) -> XmlText:
        """Add the queues; `copies` are those that get what is sent to another name."""
        lines = []
        for queue in queues:
            names = {"queue": queue, **({"address": copies[queue]} if queue in copies else {})}
            escaped = {name: saxutils.escape(text, {'"': "&quot;"}) for name, text in names.items()}
            lines.append(fill(rules.copy_of if queue in copies else rules.queue, {**words, **escaped}, "xml.queue"))
        made = self if self.elements(rules.queues_at) else self.with_value(rules.queues_at, "")
        return made.appended(rules.queues_at, lines) if lines else self

    def appended(self, path: str, lines: Sequence[str]) -> XmlText:
        """Add these lines of XML at the end of the element at the path, which must exist."""
        one = _at([self.root], _steps(path))[0] if path else self.root
        if one.empty:
            return self._filled(one, "\n" + "\n".join(lines) + "\n")
        close = one.inner[1]
        line = self.data.rfind(b"\n", 0, close) + 1
        before = self.data[line:close]
        if line < one.inner[0] or before.strip():  # the element is on one line
            return self._spliced(close, close, "".join(lines))
        indent = before.decode("ascii") + _STEP
        return self._spliced(line, line, "".join(f"{indent}{text}\n" for text in lines))

    def without(self, element: Element) -> XmlText:
        """Remove the element, and the line that it leaves empty."""
        start = self.data.rfind(b"\n", 0, element.start) + 1
        stop = self.data.find(b"\n", element.end) + 1 or len(self.data)
        alone = not self.data[start : element.start].strip() and not self.data[element.end : stop].strip()
        return self._spliced(*((start, stop) if alone else (element.start, element.end)), "")

    def raw(self, element: Element) -> str:
        """The bytes between its tags, decoded as Latin-1 so that none changes."""
        return self.data[slice(*element.inner)].decode("latin-1")

    def with_raw(self, element: Element, raw: str) -> XmlText:
        """Replace the bytes between its tags; the counterpart of `raw`."""
        return XmlText(self.data[: element.inner[0]] + raw.encode("latin-1") + self.data[element.inner[1] :])

    def _filled(self, element: Element, content: str) -> XmlText:
        if not element.empty:
            return self._spliced(*element.inner, content)
        tag = self.data[element.start : element.end].decode("latin-1").removesuffix("/>").rstrip()
        opened = f"{tag}>{_ascii(content).decode()}</{element.name}>".encode("latin-1")
        return XmlText(self.data[: element.start] + opened + self.data[element.end :])

    def _with_attribute(self, element: Element, name: str, text: str | None) -> XmlText:
        stop = element.end if element.empty else element.inner[0]
        tag = self.data[element.start : stop].decode("latin-1")
        new = f" {name}={saxutils.quoteattr(text)}" if text is not None else ""
        old = re.compile(rf"\s+{re.escape(name)}\s*=\s*(\"[^\"]*\"|'[^']*')")
        if old.search(tag):
            changed = old.sub(lambda _: new, tag, count=1)
        else:
            end = "/>" if element.empty else ">"
            changed = tag.removesuffix(end).rstrip() + new + end
        return XmlText(self.data[: element.start] + changed.encode("latin-1") + self.data[stop:])

    def _spliced(self, start: int, stop: int, text: str) -> XmlText:
        return XmlText(self.data[:start] + _ascii(text) + self.data[stop:])


def _ascii(text: str) -> bytes:
    """Encode with character references: these are right in any encoding that the file declares."""
    return text.encode("ascii", "xmlcharrefreplace")


def _steps(path: str) -> list[str]:
    return _STEPS.findall(path)


def _parts(step: str) -> tuple[str, str, str]:
    name, _, condition = step.removesuffix("]").partition("[")
    key, _, value = condition.partition("=")
    return name, key, value


def _is(element: Element, step: str) -> bool:
    """Compare the name without its prefix: brokers differ in which one they read."""
    name, key, value = _parts(step)
    return element.name.rpartition(":")[2] == name and (not key or element.attributes.get(key) == value)


def _at(found: Sequence[Element], steps: Sequence[str]) -> list[Element]:
    for step in steps:
        found = [child for one in found for child in one.children if _is(child, step)]
    return list(found)


def _parse(data: bytes) -> Element:
    parser = expat.ParserCreate()
    top = Element("", {}, 0)
    stack = [top]

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(stack) > DEPTH:
            raise UsageError(
                f"its elements are nested more than {DEPTH} levels deep; no broker's configuration needs that"
            )
        begins = parser.CurrentByteIndex
        stop = _tag_end(data, begins)
        one = Element(name, attributes, begins, (stop, stop), stop, empty=data[stop - 2 : stop] == b"/>")
        stack[-1].children.append(one)
        stack.append(one)

    def end(_: str) -> None:
        one = stack.pop()
        if not one.empty:
            closes = parser.CurrentByteIndex
            one.inner, one.end = (one.inner[0], closes), data.index(b">", closes) + 1

    def text(words: str) -> None:
        stack[-1].text += words

    def doctype(*_: object) -> None:
        raise UsageError("it has a DOCTYPE, whose entities may come from other files; write their text where they are")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = text, doctype
    if b"\0" in data:
        raise UsageError("it is not XML in UTF-8 (nor in another encoding that has ASCII in it)")
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise UsageError(f"it is not XML: line {error.lineno}: {expat.ErrorString(error.code)}") from error
    return top.children[0]


def _tag_end(data: bytes, start: int) -> int:
    """The byte after a start tag, whose quoted values may hold a `>`."""
    found = re.compile(rb"""<(?:[^>"']|"[^"]*"|'[^']*')*>""").match(data, start)
    assert found is not None  # the parser has read it
    return found.end()


_LINE = re.compile(r"\s*(?P<key>[^\s=#]+)\s*=\s*(?P<value>.*?)\s*(?:\s#.*)?")


class KeysText:
    """The text of a file of keys, where `#` begins a comment; each change returns a new one.

    Raises `UsageError` for a line that is not `key = value`.
    """

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
        return [one.value for one in self.anywhere(key)]

    def line(self, key: str) -> int:
        """The line of the value that `read` returns."""
        return [one.line for one in self.anywhere(key)][-1]

    def anywhere(self, key: str) -> Iterator[Occurrence]:
        """Yield every line whose key matches; a file of keys has no depth."""
        for number, (found, value) in enumerate(self._parsed, 1):
            if found and fnmatch.fnmatchcase(found, key):
                yield Occurrence(number, value)

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
        return [*lines[:-1], lines[-1] if lines[-1].endswith("\n") else lines[-1] + "\n"] if lines else []


def _parsed(number: int, line: str) -> tuple[str, str]:
    """Key and value; two empty words for a comment or an empty line."""
    if not line.strip() or line.lstrip().startswith("#"):
        return "", ""
    found = _LINE.fullmatch(line.rstrip("\r\n"))
    if found is None:
        raise UsageError(f"line {number} is not `key = value`")
    return found["key"], found["value"]
