"""Placeholders such as `{python}` in a `broker.toml`: which there are, where each is allowed, and its value.

One table serves the check of the file and the filling of its texts.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from conformance.adapters.file.external_table import queue_texts
from conformance.errors import UsageError

_PACKAGE = pathlib.Path(__file__).resolve().parents[3]
_WORD = re.compile(r"(?<!\$)\{([a-z][a-z0-9_]*(?:\.[A-Za-z0-9_-]+)?)\}")
"""`${word}` is a shell's or a product's own, and stays."""


def fill(text: str, words: Mapping[str, str], field: str = "") -> str:
    """`text` with its placeholders filled in; every other brace stays.

    Raises `UsageError` that names one that does not exist, the closest that does, and the `field` of the file.
    """
    for name in placeholders(text):
        if name not in words:
            error = UsageError.unknown("placeholder", name, words)
            raise UsageError(f"{field}: {error}") if field else error
    return fill_known(text, words)


def fill_known(text: str, words: Mapping[str, str]) -> str:
    """The same where a word that does not exist is no mistake: a product's configuration is full of braces.

    >>> fill_known("port={amqp_port} {depth} ${amqp_port} {{amqp_port}}", {"amqp_port": "5672"})
    'port=5672 {depth} ${amqp_port} {{amqp_port}}'
    """

    def one(found: re.Match[str]) -> str:
        return words.get(found[1], found[0]) if _is_ours(found) else found[0]

    return _WORD.sub(one, text)


def placeholders(text: str) -> Iterator[str]:
    """The words in braces of a text, in order."""
    return (found[1] for found in _WORD.finditer(text) if _is_ours(found))


def _is_ours(found: re.Match[str]) -> bool:
    """Doubled braces are those of other template languages."""
    text, first, last = found.string, found.start(), found.end()
    return not (text[first - 1 : first] == "{" and text[last : last + 1] == "}")


def python_words() -> dict[str, str]:
    """The words of brokers written in Python; `{python_path}` lets a child find this very package."""
    inherited = os.environ.get("PYTHONPATH")
    search = os.pathsep.join([str(_PACKAGE), *([inherited] if inherited else [])])
    return {"python": sys.executable, "python_path": search}


if TYPE_CHECKING:
    from conformance.adapters.file.model import BrokerFile

MEANING = {
    "home": "the folder of the unpacked distribution",
    "here": "the folder of this file",
    "instance": "the folder of this one broker, made for it",
    "data_dir": "what `data.path` says",
    "log_file": "a log of its own, beside what it prints; `ready_log` is looked for there too",
    "listen": "the address to listen on",
    "python": "the Python that the suite runs in",
    "python_path": "a PYTHONPATH by which that Python finds the suite",
    "java": "the Java that was found",
    "java_home": "its home",
    "archive": "the JVM option of a class archive, or nothing",
}
"""Everywhere; so are `{NAME_port}` of each of `ports`, and `{setting.NAME}`, a setting as the product reads it."""

_QUEUE = ("queue",)
_SETTING = ("name", "value")
_STOMP = ("queue", "prefetch", "prefetch_bytes")


def check(file: BrokerFile, here: pathlib.Path) -> None:
    """Raise `UsageError` that names field, word and the closest that there is; `here` is the folder of the file."""
    for wanted in file.template.files if file.template else ():
        for name, value in wanted.when.items():
            if name not in file.settings:
                raise UsageError(f"template.files.when: {UsageError.unknown('setting', name, file.settings)}")
            if not file.settings[name].takes(value):
                raise UsageError(f"template.files.when: {name} is never {value!r}")
    check_texts(file, _texts(file))
    used = uses(file, here)
    for name, setting in [
        *file.settings.items(),
        *(one for each in file.variants.values() for one in each.settings.items()),
    ]:
        filled = f"setting.{name}" in used
        if not any([filled, setting.fixed, setting.follows, setting.xml, setting.argument, file.is_external]):
            raise UsageError(
                f"settings.{name}: needs one of xml, argument, follows or fixed = true, or {{setting.{name}}} somewhere"
            )
        if filled and setting.stock is None and setting.settable:
            raise UsageError(
                f"settings.{name}: {{setting.{name}}} is always filled, so its key is never absent: say what is `stock`"
            )


def check_texts(file: BrokerFile, every: Iterable[tuple[str, Iterable[str], tuple[str, ...]]]) -> None:
    """The same for some texts only: field, texts, and the words that these have beside those of everywhere."""
    known = _everywhere(file)
    for field, texts, more in every:
        for text in texts:
            for word in placeholders(text):
                if word not in known and word not in more:
                    raise UsageError(f"{field}: {UsageError.unknown('placeholder', word, {*known, *more})}")


def uses(file: BrokerFile, here: pathlib.Path) -> set[str]:
    """Every word that stands somewhere in the file, or in a file of its template: there only words that are known.

    A setting that decides which files are copied counts as well.
    """
    found = {word for _, texts, _ in _texts(file) for text in texts for word in placeholders(text)}
    known = _everywhere(file)
    for wanted in file.template.files if file.template else ():
        found |= {f"setting.{name}" for name in wanted.when}
        with contextlib.suppress(OSError):  # it is told when it is to be copied
            text = (here / wanted.file).read_text(encoding="utf-8", errors="replace")
            found |= known & set(placeholders(text))
    return found


def _everywhere(file: BrokerFile) -> set[str]:
    settings = {*file.settings, *(name for variant in file.variants.values() for name in variant.settings)}
    return {*MEANING, *(f"{name}_port" for name in file.ports), *(f"setting.{name}" for name in settings)}


def _texts(file: BrokerFile) -> Iterator[tuple[str, Iterable[str], tuple[str, ...]]]:
    """Each field that holds texts, and the words that it has beside those of everywhere."""
    start, template, xml, queues = file.start, file.template, file.xml, file.queues
    yield "start.command", start.command, ()
    yield "start.each_queue", start.each_queue, _QUEUE
    yield "start.liar", start.liar, ("liar",)
    yield "start.offer", start.offer, _SETTING
    yield "start.environment", start.environment.values(), ()
    yield "start.folder", [start.folder], ()
    yield "start.pid_file", [start.pid_file], ()
    if start.ready_http is not None:
        yield "start.ready_http", [start.ready_http.url], ()
    for name, setting in file.settings.items():
        yield f"settings.{name}.argument", setting.argument, _SETTING
        for value, choice in setting.choices.items():
            if choice.stored is not None:
                yield f"settings.{name}.choices.{value}.stored", [choice.stored.pattern], _QUEUE
    if template is not None:
        yield "template.command", template.command, ()
    if xml is not None:
        for edit in xml.edits:
            yield f"xml.edits ({edit.path})", [edit.text or "", edit.content or ""], ()
    if queues is not None:
        yield from queue_texts("queues", queues)
    if file.external is not None:
        yield from file.external.texts()
    for rewrite in file.config.rewrite if file.config else ():
        yield f"config.rewrite ({rewrite.at})", [rewrite.text or ""], ()
    if file.depth is not None:
        yield "depth", file.depth.texts, _QUEUE
    if file.policies is not None:
        yield "policies", file.policies.texts, _QUEUE
    yield "data.path", [file.data.path], ()
    yield "journal.path", [file.journal.path], ()
    yield "logs.paths", file.logs.paths, ()
    for name, protocol in file.protocols.items():
        yield f"protocols.{name}", [protocol.destination, *protocol.send.values(), *protocol.subscribe.values()], _STOMP
