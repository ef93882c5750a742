"""Read a user's own configuration (`--config DIR|FILE`), check that it can be copied, and copy it for each broker.

The values of the file replace `stock`, so that conditions of claims, controls and `--set` start from them. The file
itself is never written. Each broker gets a copy, which differs only in what `[config]` of its `broker.toml` names.
The difference holds no secret, so it can be printed.

A copy keeps only the listeners that it needs to speak the protocols of the user's broker. Their parameters stay:
credits, prefixes and limits of an acceptor are part of what is tested.
"""

from __future__ import annotations

import dataclasses
import difflib
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from conformance.adapters import ports
from conformance.adapters.config.editors import KeysText, XmlText
from conformance.adapters.credentials import REDACTED, write_private
from conformance.adapters.file.model import Beside, BrokerFile, Config, Listeners, Protocol, Setting
from conformance.adapters.file.placeholders import MEANING, fill
from conformance.adapters.file.reading import uses
from conformance.adapters.file.settings import EffectiveSettings
from conformance.claims import Value
from conformance.errors import UsageError
from conformance.protocols import protocol_of_depth

_NAME = r"[\w.\-]*(?:pass(?:word|phrase|code|wd)?|secret|credential|token)s?(?:\.\d+)?"
_SECRETS = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        rf"(?P<before>^[+\-\s]*{_NAME}\s*=\s*)(?P<secret>.+)$",  # a key, whose value may hold anything
        rf"(?P<before>\b{_NAME}\s*=\s*)(?P<secret>\"[^\"]*\"|'[^']*'|[^\s;&<\"']+)",  # a parameter, an attribute
        rf"(?P<before><{_NAME}(?:\s[^>]*)?>)(?P<secret>[^<]*)",  # an element
        rf"(?P<before>\b(?:key|name)\s*=\s*[\"']{_NAME}[\"']\s+value\s*=\s*)(?P<secret>\"[^\"]*\"|'[^']*')",
        r"(?P<before>://[^\s/:@\"'<]*:)(?P<secret>[^\s/@\"'<]+)(?=@)",  # in an address
    )
)


def redact(text: str) -> str:
    """Redact the values of keys with the name of a secret, and passwords in addresses.

    >>> redact("ssl_options.password = s3cret")
    'ssl_options.password = <redacted>'
    >>> redact("<acceptor>tcp://h:1?keyStorePassword=s3cret;sslEnabled=true</acceptor>")
    '<acceptor>tcp://h:1?keyStorePassword=<redacted>;sslEnabled=true</acceptor>'
    """
    for pattern in _SECRETS:
        text = pattern.sub(_without, text)
    return text


def _without(found: re.Match[str]) -> str:
    """Keep the text before the secret, and its quotes."""
    quote = found["secret"][0] if found["secret"][:1] in ("'", '"') else ""
    return f"{found['before']}{quote}{REDACTED}{quote}"


def difference(yours: bytes, ran: bytes, name: str, to: str) -> str:
    """A unified diff without context, without secrets: everything else is the same, byte for byte."""
    before, after = (data.decode("utf-8", errors="replace").splitlines() for data in (yours, ran))
    lines = difflib.unified_diff(before, after, f"{name} (yours)", f"{to} (what ran)", n=0, lineterm="")
    return redact("".join(f"{line}\n" for line in lines))


KEPT = "config"
"""The folder of a run with the user's files; it may hold secrets, and only its owner can read it."""

DIFF = "config.diff"

Text = XmlText | KeysText

_FORMATS: Mapping[str, type[Text]] = {"xml": XmlText, "keys": KeysText}
_BOOLS = {"true": True, "1": True, "false": False, "0": False}

_ADDRESS = re.compile(r"(?P<before>\s*[A-Za-z][\w+.-]*://)(?P<place>[^?;\s<]*)(?P<after>.*)", re.DOTALL)
_PARAMETER = re.compile(r"[?;&]\s*(?P<name>[\w-]+)=(?P<value>[^;&\s<]*)")
_BINDS = re.compile(r"(?<=[?;&])(?:host|port)=[^;&<]*(?:;|&amp;|&)?")
_NOT_A_SOCKET = "vm://"

_NAMED = re.compile(rb"""(?<![\w:/.$}])/[^\s<>"'&;,?=()\[\]{}]+""")
_OF_THE_IMAGE = ("/bin/", "/dev/", "/lib", "/proc/", "/sbin/", "/sys/", "/usr/")
"""Folders of an image. A file of this machine in their place would break it."""


class Listener(NamedTuple):
    """One address: its number among the elements, its protocols (None means all), and whether it uses TLS."""

    number: int
    speaks: frozenset[str] | None
    tls: bool

    def knows(self, word: str) -> bool:
        """Whether it speaks the protocol with this name of the product."""
        return self.speaks is None or word.upper() in self.speaks


@dataclasses.dataclass(frozen=True)
class Picked:
    """The listeners that are kept: their port by number among the elements, and the port of each protocol."""

    rules: Listeners
    ports: Mapping[int, str]
    protocols: Mapping[str, str]

    def moved(self, text: XmlText, words: Mapping[str, str]) -> XmlText:
        """Move these listeners to the ports that `words` has, and remove all others."""
        count = len(text.elements(self.rules.at))
        for number in reversed(range(count)):  # from the end: a removal moves no element before it
            element = text.elements(self.rules.at)[number]
            if number in self.ports:
                text = text.with_raw(element, _at_port(text.raw(element), self.ports[number], words))
            elif not element.text.strip().startswith(_NOT_A_SOCKET):
                text = text.without(element)
        return text

    def ports_of(self, file: BrokerFile) -> dict[str, object]:
        """The changes of the broker's file: its ports, its protocols, and the ports at which it becomes ready."""
        kept: dict[str, Protocol] = {
            name: file.protocols[name].model_copy(update={"port": port}) for name, port in self.protocols.items()
        }
        ports = tuple(dict.fromkeys(self.protocols.values()))
        start = file.start.model_copy(update={"ready_port": ports[0], "ready_ports": ports})
        gone = {one.port for one in file.protocols.values()} - set(ports)
        return {
            "protocols": kept,
            "ports": tuple(dict.fromkeys([*(one for one in file.ports if one not in gone), *ports])),
            "start": start,
        }


@dataclasses.dataclass(frozen=True)
class OwnConfig:
    """The configuration that a user gave.

    `name` is the name of the main file, `text` its content. `beside` are the further files, by their place in the
    instance; `not_taken` are files of the folder that are not copied. `base` is the broker without this configuration,
    `stock` the settings in it, and `notes` are remarks about them for the user. `listen` is the address that a copy
    listens on: in a container any, because only published ports can be reached.
    """

    name: str
    text: Text
    beside: Mapping[str, bytes]
    not_taken: tuple[str, ...]
    base: BrokerFile
    stock: Mapping[str, Value | None]
    notes: tuple[str, ...]
    picked: Picked | None
    listen: str = ports.HOST

    @property
    def rules(self) -> Config:
        assert self.base.config is not None  # `with_configuration` has looked
        return self.base.config

    @property
    def configured(self) -> BrokerFile:
        """The broker of that configuration: its values are stock, and only the `[deviations]` of `keeps` hold."""
        file, rules = self.base, self.rules
        settings = {
            name: setting.model_copy(update={"stock": self.stock[name]}) if name in self.stock else setting
            for name, setting in file.settings.items()
        }
        update: dict[str, object] = {
            "title": f"{file.title} (own configuration)",
            "settings": settings,
            "deviations": {name: why for name, why in file.deviations.items() if name in rules.keeps},
        }
        if file.xml is not None:
            update["xml"] = file.xml.model_copy(update={"edits": ()})
        if file.template is not None:
            files = tuple(one for one in file.template.files if (one.to or one.file) != rules.to)
            update["template"] = file.template.model_copy(update={"files": files})
        return file.model_copy(update={**update, **(self.picked.ports_of(file) if self.picked else {})})

    def copy(
        self, file: BrokerFile, settings: EffectiveSettings, queues: Sequence[str], words: Mapping[str, str]
    ) -> bytes:
        """The text of the copy: with rewritten places, the settings that differ, and the queues."""
        made = self.text
        for rewrite in self.rules.rewrite:
            text = None if rewrite.text is None else fill(rewrite.text, words, f"config.rewrite ({rewrite.at})")
            made = made.rewritten(rewrite.at, text, add=rewrite.add)
        for name, setting in file.settings.items():
            at, value = place_of(setting, self.rules), settings.values[name]
            if at and setting.settable and name not in settings.absent and value != setting.stock:
                made = made.with_value(at, setting.text(value))
        if not isinstance(made, XmlText):
            return made.data
        if self.picked is not None:
            made = self.picked.moved(made, words)
        filled = {f"setting.{name}": entry.text(settings.values[name]) for name, entry in file.settings.items()}
        return (made.with_queues(file.xml, queues, filled) if file.xml is not None else made).data

    def install(
        self, file: BrokerFile, settings: EffectiveSettings, queues: Sequence[str], words: Mapping[str, str]
    ) -> dict[str, str]:
        """Put the copy into `{instance}`, and `config.diff` beside that; returns what was rewritten, and why."""
        instance = pathlib.Path(words["instance"])
        ran = self.copy(file, settings, queues, words)
        for to, data in {**self.beside, self.rules.to: ran}.items():
            write_private(instance / to, data)
        (instance.parent / DIFF).write_text(self._shown(ran))
        return self.why

    @property
    def outside(self) -> list[pathlib.Path]:
        """Files of this machine that it names and the copy does not hold: a container needs them mounted."""
        return _named_in([self.text.data, *self.beside.values()])

    @property
    def why(self) -> dict[str, str]:
        rules, before = self.rules.rewrite, self.text
        differ = [one for one in rules if before.rewritten(one.at, one.text, add=one.add).data != before.data]
        found = {one.at.rsplit("/", 1)[-1]: one.why for one in differ}
        listeners = self.rules.listeners
        return found | ({listeners.at.rsplit("/", 1)[-1]: listeners.why} if listeners else {})

    def preview(self, file: BrokerFile, settings: EffectiveSettings) -> str:
        """The difference that every copy will have, with placeholders for the ports and folders of each copy."""
        queues = ["{queue}"] if file.xml is not None else []
        words = unfilled_words(file) | {"listen": self.listen}
        return self._shown(self.copy(file, settings, queues, words))

    def summary(self, file: BrokerFile, settings: EffectiveSettings) -> list[str]:
        """The lines for the user before a run: how each copy will differ, and the notes."""
        legend = "{NAME_port} is a free port" + (", {queue} each queue of the run" if file.xml is not None else "")
        found = [f"your {self.name} is run as a copy that differs in this; {legend}:"]
        found += self.preview(file, settings).splitlines()
        found += [f"left where they are: {', '.join(self.not_taken)}"] if self.not_taken else []
        return [*found, *self.notes]

    def _shown(self, ran: bytes) -> str:
        """The difference, and the names of the further files, which do not differ."""
        names = {one.to: one.file for one in self.rules.beside}
        beside = [f"# {names[to]} (yours): run as it is, as {to}\n" for to in sorted(self.beside)]
        return difference(self.text.data, ran, self.name, self.rules.to) + "".join(beside)

    def keep(self, folder: pathlib.Path, file: BrokerFile, settings: EffectiveSettings) -> str:
        """Keep the user's files in the folder of a run, for a replay. Keep the difference too, and return it."""
        kept = folder / KEPT
        kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        names = {one.to: one.file for one in self.rules.beside}
        for to, data in self.beside.items():
            write_private(kept / names[to], data)
        write_private(kept / self.rules.file, self.text.data)
        shown = self.preview(file, settings)
        (folder / DIFF).write_text(shown)
        return shown


def unfilled_words(file: BrokerFile) -> dict[str, str]:
    """The placeholders of the file, each of which stands for itself."""
    own = [*(f"{port}_port" for port in file.ports), *(f"setting.{name}" for name in file.settings)]
    return {name: f"{{{name}}}" for name in (*MEANING, *own)}


def kept_configuration(folder: pathlib.Path) -> pathlib.Path | None:
    """The user's configuration that a run kept, for a replay; None if it ran with stock."""
    return folder / KEPT if (folder / KEPT).is_dir() else None


def public(file: BrokerFile, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of an instance that others may see, by place: without login files, and without secrets."""
    rules = file.config
    if rules is None:
        return dict(files)
    shown = {name: data for name, data in files.items() if name not in {one.to for one in rules.beside}}
    if rules.to in shown:
        shown[rules.to] = redact(shown[rules.to].decode("utf-8", "replace")).encode()
    return shown


def read(file: BrokerFile, here: pathlib.Path, path: pathlib.Path, *, contained: bool = False) -> OwnConfig:
    """Read the file or folder at `path`; `UsageError` with every reason if no copy of it may run.

    `here` is the folder of the broker's file, `contained` whether the copy runs in a container.
    """
    rules = file.config
    assert rules is not None  # the caller has looked
    main, folder = _main(rules, path)
    try:
        text: Text = _FORMATS[rules.format](_read_bytes(main))
        _expected(rules, text)
    except UsageError as error:
        raise UsageError(f"{main.name}: {error}" if folder else str(error)) from error
    problems = list(_harmful(rules, text))
    stock, notes = _stock(file, here, rules, text, problems)
    picked: Picked | None = None
    if rules.listeners and isinstance(text, XmlText):
        try:
            picked = _pick(rules.listeners, file, text)
        except UsageError as error:
            problems.append(RefusalReason(str(error)))
    problems = [one._replace(text=f"{main.name}: {one.text}") for one in problems] if folder else problems
    wanted = [one for one in rules.beside if folder and (folder / one.file).is_file()]
    beside = {one.to: _read_beside(main.parent, one, problems) for one in wanted}
    if problems:
        raise _refusal(problems, "folder" if folder else "file")
    named = {main.name, *(one.file for one in rules.beside)}
    return OwnConfig(
        name=main.name,
        text=text,
        beside=beside,
        not_taken=tuple(sorted(one.name for one in folder.iterdir() if one.name not in named)) if folder else (),
        base=file,
        stock=stock,
        notes=tuple(notes),
        picked=picked,
        listen=ports.EVERYWHERE if contained else ports.HOST,
    )


def place_of(setting: Setting, rules: Config) -> str | None:
    return setting.xml if rules.format == "xml" else setting.key


def value_of(setting: Setting, said: str, at: str, name: str) -> Value:
    """The value of a text of the file, the inverse of `Setting.text`; `UsageError` if it is not of the setting's type.

    A number that `scale` does not divide becomes the nearest: `artemis create` writes the value that it measured on its
    disk, such as 3333333 ns, so nearly every file has one.
    """
    plain = next((ours for ours, theirs in setting.texts.items() if theirs == said), said)
    plain = next((ours for theirs, ours in setting.reads.items() if re.fullmatch(theirs, said)), plain)
    if setting.type == "bool" and plain.lower() in _BOOLS:
        return _BOOLS[plain.lower()]
    if setting.type == "int" and re.fullmatch(r"[+-]?[0-9]{1,18}", plain):
        return round(int(plain) / setting.scale)
    if setting.type == "text":
        return plain
    if setting.type == "word" and (not setting.choices or plain in setting.choices):
        return plain
    if setting.choices:
        raise UsageError(f"{at}: {UsageError.unknown(name, said, setting.choices, code='unknown-value')}")
    raise UsageError(f"{at} is {said!r}, and setting {name} is of type {setting.type}")


def _main(rules: Config, path: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path | None]:
    """The main file, and the folder of the further files; None if `path` is a file."""
    if not path.exists():
        raise UsageError("there is no such file or folder")
    if not path.is_dir():
        return path, None
    for found in (path / rules.file, path / rules.to):
        if found.is_file():
            return found, found.parent
    raise UsageError(f"the folder has no {rules.file}; name the folder that has it, or the file")


def _expected(rules: Config, text: Text) -> None:
    if rules.expects and not text.values(rules.expects):
        root = f"; its root element is <{text.root.name}>" if isinstance(text, XmlText) else ""
        raise UsageError(f"it has no {rules.expects}, so it is the configuration of another broker{root}")


class RefusalReason(NamedTuple):
    """A reason why no copy may run. `remove` says that the user has to take it out of the file of that kind."""

    text: str
    remove: str = ""


def _refusal(problems: Sequence[RefusalReason], whole: str) -> UsageError:
    """Return the error with every reason; the `whole` is what the user gave, a file or a folder."""
    if len(problems) == 1:
        text, remove = problems[0]
        return UsageError(f"{text}; take it out of a copy of the {remove}, and give that" if remove else text)
    reasons = "".join(f"\n    {one.text}" for one in problems)
    return UsageError(
        f"{len(problems)} reasons to refuse it; change each in a copy of the {whole}, and give that:{reasons}"
    )


def _harmful(rules: Config, text: Text) -> Iterator[RefusalReason]:
    """Yield what would let a copy reach other systems. The value may be a secret, so only its classes are named."""
    for refuse in rules.refuses:
        for line, value, classes in text.anywhere(refuse.at):
            if not (refuse.unless and re.search(refuse.unless, value)):
                named = f" ({', '.join(classes)})" if classes else ""
                yield RefusalReason(f"line {line}: {refuse.at}{named}: {refuse.why}", "file")


def first_in_force(setting: Setting, read: Sequence[tuple[str, str]], name: str) -> tuple[str, str] | None:
    """The first of these places, each with its text, whose value differs from the default; else the first place."""
    other = [(at, said) for at, said in read if value_of(setting, said, at, name) != setting.default]
    return next(iter([*other, *read]), None)


def _unreadable(setting: Setting, text: Text, read: Sequence[tuple[str, str]], name: str) -> Iterator[RefusalReason]:
    """Yield the places of a setting whose value is not of its type."""
    for at, said in read:
        try:
            value_of(setting, said, at, name)
        except UsageError as error:
            yield RefusalReason(f"line {text.line(at)}: {error}")


def _stock(
    file: BrokerFile, here: pathlib.Path, rules: Config, text: Text, problems: list[RefusalReason]
) -> tuple[dict[str, Value | None], list[str]]:
    """The value of each setting that the file can have, None if its key is absent; and notes for the user.

    What cannot be read is added to the `problems`.
    A setting that a text of the broker's file fills keeps its stock if the key is absent: it is never absent there.
    """
    used = uses(file, here)
    found: dict[str, Value | None] = {}
    notes = []
    for name, setting in file.settings.items():
        at = place_of(setting, rules)
        if not at or not setting.settable:
            continue
        read = [(one, said) for one in (at, *setting.also) if (said := text.read(one)) is not None]
        if wrong := list(_unreadable(setting, text, read, name)):
            problems += wrong
            continue
        chosen = first_in_force(setting, read, name)
        if chosen is None:
            found |= {} if f"setting.{name}" in used else {name: None}
            continue
        at, said = chosen
        found[name] = value_of(setting, said, at, name)
        if setting.exists and found[name] and not text.values(setting.exists.format(value=found[name])):
            notes.append(f"{at} is {said}, and the file has no such queue; conditions of claims see no {name}")
            found[name] = ""
        if setting.scale > 1 and int(said) % setting.scale:
            exact = int(said) / setting.scale
            notes.append(f"{at} is {said}, which is {name}={exact:.2f}; conditions of claims see {found[name]}")
    return found, notes


def _read_bytes(path: pathlib.Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"it cannot be read: {error.strerror}") from error


def _read_beside(folder: pathlib.Path, rules: Beside, problems: list[RefusalReason]) -> bytes:
    """Read a further file. What would let a copy connect to other systems, or bind their addresses, is a problem."""
    data = _read_bytes(folder / rules.file)
    looked_at = _uncommented(data, rules.comment.encode()) if rules.comment else data
    reported: list[range] = []
    for pattern, why in rules.refuses.items():
        for found in re.finditer(pattern.encode(), looked_at, re.MULTILINE):
            if any(found.start() < one.stop and one.start < found.end() for one in reported):
                continue  # two patterns may match one place
            reported.append(range(*found.span()))
            line = looked_at.count(b"\n", 0, found.end() - len(found[0].lstrip())) + 1
            word = " ".join(found[0].decode(errors="replace").split())
            problems.append(RefusalReason(f"{rules.file}: line {line}: {word}: {why}", "folder"))
    return data


def _uncommented(data: bytes, mark: bytes) -> bytes:
    """Remove the comments of a text of Erlang terms. A mark in a string, an atom or a character begins no comment.

    Why comments are skipped: the `advanced.config` of the package has every key in a comment.
    """
    tokens = rb""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\$\\?.|""" + re.escape(mark) + rb"[^\n]*"
    return re.sub(tokens, lambda found: b"" if found[0].startswith(mark) else found[0], data, flags=re.DOTALL)


def _named_in(texts: Iterable[bytes]) -> list[pathlib.Path]:
    """The files of this machine that these texts name by absolute paths, such as key stores and certificates.

    Folders are left out: a folder that the broker writes to is rewritten, and no other is shared.
    """
    found = {pathlib.Path(name[0].decode(errors="replace")) for text in texts for name in _NAMED.finditer(text)}
    return sorted(path for path in found if not str(path).startswith(_OF_THE_IMAGE) and path.is_file())


def _pick(rules: Listeners, file: BrokerFile, text: XmlText) -> Picked:
    """Choose the listeners to keep; `UsageError` if none speaks a protocol of the suite."""
    there = [_listener(number, one.text) for number, one in enumerate(text.elements(rules.at))]
    ports: dict[int, str] = {}
    protocols: dict[str, str] = {}
    for name, word in rules.speaks.items():
        fitting = [one for one in there if one is not None and one.knows(word)]
        if name not in file.protocols or not fitting:
            continue
        chosen = min(fitting, key=lambda one: (one.tls, one.number not in ports, one.number))
        protocols[name] = ports.setdefault(chosen.number, name if ports else file.protocols[name].port)
    asked = protocol_of_depth(file.depth.method) if file.depth is not None else ""
    if not protocols or (asked and asked not in protocols):
        wanted = rules.speaks[asked] if asked else " or ".join(rules.speaks.values())
        why = ", by which the depth of a queue is asked for" if asked else ""
        raise UsageError(f"{rules.at}: none speaks {wanted}{why}; add one to a copy of the file")
    return Picked(rules, ports, protocols)


def _listener(number: int, address: str) -> Listener | None:
    """Parse an address; None if it is not a socket."""
    if not _ADDRESS.fullmatch(address) or address.strip().startswith(_NOT_A_SOCKET):
        return None
    said = {found["name"].lower(): found["value"] for found in _PARAMETER.finditer(address)}
    speaks = said.get("protocols", said.get("protocol"))
    words = frozenset(word.strip().upper() for word in speaks.split(",")) if speaks else None
    return Listener(number, words, said.get("sslenabled", "").lower() == "true")


def _at_port(raw: str, port: str, words: Mapping[str, str]) -> str:
    """Move the address to one of our ports; parameters that bind another host or port are removed."""
    found = _ADDRESS.fullmatch(raw)
    if found is None:
        raise UsageError(f"the address {raw.strip()!r} is not one of the form tcp://HOST:PORT?...")
    return f"{found['before']}{words['listen']}:{words[f'{port}_port']}{_BINDS.sub('', found['after'])}"
