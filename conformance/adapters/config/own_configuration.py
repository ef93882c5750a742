"""Read a user's own configuration (`--config DIR|FILE`), check that it can be copied, and copy it for each broker.

    adapter = applied(adapters.find("artemis"), pathlib.Path("etc"))   # its settings are those of etc/broker.xml
    of(adapter).told(adapter.file, adapter.effective())                # how the copies will differ, line by line

The values of the file replace `stock`, so that conditions of claims, controls and `--set` start from them. The file
itself is never written. Each broker gets a copy, which differs only in what `[config]` of its `broker.toml` names.
The difference holds no secret, so it can be printed.
"""

from __future__ import annotations

import dataclasses
import difflib
import pathlib
import re
from collections.abc import Mapping, Sequence

from conformance.adapters.config.listeners import Picked, pick
from conformance.adapters.config.neighbours import fit, named_in
from conformance.adapters.config.neighbours import read as read_file
from conformance.adapters.config.properties_file import KeysText
from conformance.adapters.config.xml_editor import XmlText
from conformance.adapters.credentials import REDACTED
from conformance.adapters.file.config_table import Config
from conformance.adapters.file.model import BrokerFile, Setting
from conformance.adapters.file.placeholders import fill
from conformance.adapters.file.reading import uses
from conformance.adapters.file.settings import EffectiveSettings
from conformance.adapters.file_adapter import FileAdapter
from conformance.adapters.interface import Adapter
from conformance.adapters.launch import ports
from conformance.claims import Value
from conformance.errors import UsageError

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


def redacted(text: str) -> str:
    """Redact the values of keys with the name of a secret, and passwords in addresses.

    >>> redacted("ssl_options.password = s3cret")
    'ssl_options.password = <redacted>'
    >>> redacted("<acceptor>tcp://h:1?keyStorePassword=s3cret;sslEnabled=true</acceptor>")
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
    """A unified diff without context: everything else is the same, byte for byte."""
    before, after = (data.decode("utf-8", errors="replace").splitlines() for data in (yours, ran))
    lines = difflib.unified_diff(before, after, f"{name} (yours)", f"{to} (what ran)", n=0, lineterm="")
    return redacted("".join(f"{line}\n" for line in lines))


KEPT = "config"
"""The folder of a run with the user's files; it may hold secrets, and only its owner can read it."""

DIFF = "config.diff"

Text = XmlText | KeysText

_FORMATS: Mapping[str, type[Text]] = {"xml": XmlText, "keys": KeysText}
_BOOLS = {"true": True, "1": True, "false": False, "0": False}


@dataclasses.dataclass(frozen=True)
class OwnConfig:
    """What a user gave.

    `name` is the main file's, `text` what it says; `beside` are the further files, by their place in the instance;
    `not_taken` those of the folder that stay where they are. `base` is the broker as it is without all this, `stock`
    the settings as this file has them, and `notes` what of that a user should know. `listen` is the address that a copy
    listens on: in a container any, where what is published decides who comes.
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
        """The table of the broker."""
        assert self.base.config is not None  # `applied` has looked
        return self.base.config

    def copy(
        self, file: BrokerFile, settings: EffectiveSettings, queues: Sequence[str], words: Mapping[str, str]
    ) -> bytes:
        """The copy that runs: with rewritten places, the settings that differ, and the queues."""
        made = self.text
        for rewrite in self.rules.rewrite:
            text = None if rewrite.text is None else fill(rewrite.text, words, f"config.rewrite ({rewrite.at})")
            made = made.rewritten(rewrite.at, text, add=rewrite.add)
        for name, setting in file.settings.items():
            at, value = place(setting, self.rules), settings.values[name]
            if at and setting.settable and name not in settings.absent and value != setting.stock:
                made = made.with_value(at, setting.text(value))
        if not isinstance(made, XmlText):
            return made.data
        if self.picked is not None:
            made = self.picked.moved(made, words)
        told = {f"setting.{name}": entry.text(settings.values[name]) for name, entry in file.settings.items()}
        return (made.with_queues(file.xml, queues, told) if file.xml is not None else made).data

    def install(
        self, file: BrokerFile, settings: EffectiveSettings, queues: Sequence[str], words: Mapping[str, str]
    ) -> dict[str, str]:
        """Put the copy into `{instance}`, and `config.diff` beside that; returns what was rewritten, and why."""
        instance = pathlib.Path(words["instance"])
        ran = self.copy(file, settings, queues, words)
        for to, data in {**self.beside, self.rules.to: ran}.items():
            _write_private(instance / to, data)
        (instance.parent / DIFF).write_text(self._shown(ran))
        return self.why

    @property
    def outside(self) -> list[pathlib.Path]:
        """Files of this machine that it names and the copy does not hold: a container needs them mounted."""
        return named_in([self.text.data, *self.beside.values()])

    @property
    def why(self) -> dict[str, str]:
        """The places that are rewritten in this file, each with its reason."""
        rules, before = self.rules.rewrite, self.text
        differ = [one for one in rules if before.rewritten(one.at, one.text, add=one.add).data != before.data]
        found = {one.at.rsplit("/", 1)[-1]: one.why for one in differ}
        listeners = self.rules.listeners
        return found | ({listeners.at.rsplit("/", 1)[-1]: listeners.why} if listeners else {})

    def preview(self, file: BrokerFile, settings: EffectiveSettings) -> str:
        """The difference that every copy will have, with placeholders for the ports and folders of each copy."""
        queues = ["{queue}"] if file.xml is not None else []
        return self._shown(self.copy(file, settings, queues, _Braces(listen=self.listen)))

    def told(self, file: BrokerFile, settings: EffectiveSettings) -> list[str]:
        """What a user is told before a run, in lines."""
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

    def keep(self, folder: pathlib.Path, shown: str) -> None:
        """Keep the user's files in the folder of a run, for a replay, and the difference, for people."""
        kept = folder / KEPT
        kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        names = {one.to: one.file for one in self.rules.beside}
        for to, data in self.beside.items():
            _write_private(kept / names[to], data)
        _write_private(kept / self.rules.file, self.text.data)
        (folder / DIFF).write_text(shown)


class _Braces(dict[str, str]):
    """Placeholders that stand for themselves."""

    def __missing__(self, key: str) -> str:
        return f"{{{key}}}"

    def __contains__(self, key: object) -> bool:
        return True

    def get(self, key: str, default: object = None) -> str:
        """Every placeholder has a value."""
        return self[key]


def applied(adapter: Adapter, path: pathlib.Path | None) -> Adapter:
    """The adapter whose brokers run with a copy of what is at `path`; itself for None.

    Raises `UsageError`, before anything is started: a launcher or a broker that cannot, a file that is none, one of
    another broker, one that would let its copy talk to others, a value that is not of the type of its setting.
    """
    if path is None:
        return adapter
    if not isinstance(adapter, FileAdapter) or adapter.file.config is None:
        raise UsageError(
            f"--config {path}: {adapter.name} has no [config] in its broker.toml, the table that says what of a "
            "configuration is a port or a path; docs/own-configuration.md has an example"
        )
    contained = adapter.launcher == "docker"
    why = "its owner configures it" if adapter.launcher == "external" else ""
    if why := why or (adapter.file.config.natively_only if contained else ""):
        raise UsageError(
            f"--config {path}: {adapter.spec}: {why}; a copy runs natively, --adapter {adapter.name}@{adapter.version}"
        )
    try:
        own = read(adapter.file, adapter.path.parent, path)
    except UsageError as error:
        raise error.within(f"--config {path}") from error
    own = dataclasses.replace(own, listen=ports.EVERYWHERE) if contained else own
    return dataclasses.replace(adapter, file=configured(own), own=own)


def of(adapter: Adapter) -> OwnConfig | None:
    """The configuration that was applied to it."""
    own = adapter.own if isinstance(adapter, FileAdapter) else None
    return own if isinstance(own, OwnConfig) else None


def told(adapter: Adapter, settings: EffectiveSettings) -> list[str]:
    """What a user is told of it before a run with these settings, in lines; nothing where it is stock."""
    own = of(adapter)
    return own.told(adapter.file, settings) if own else []


def kept_in(folder: pathlib.Path, adapter: Adapter, settings: EffectiveSettings) -> str:
    """Keep what the user gave in the folder of a run; returns the difference, which is empty where it is stock."""
    own = of(adapter)
    if own is None:
        return ""
    shown = own.preview(adapter.file, settings)
    own.keep(folder, shown)
    return shown


def kept(folder: pathlib.Path) -> pathlib.Path | None:
    """What a run kept of its user's configuration, for `applied`; None where it was run with stock."""
    return folder / KEPT if (folder / KEPT).is_dir() else None


def public(file: BrokerFile, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Of the files of an instance, by place, what others may see: no login file, no secret of the main one."""
    rules = file.config
    if rules is None:
        return dict(files)
    shown = {name: data for name, data in files.items() if name not in {one.to for one in rules.beside}}
    if rules.to in shown:
        shown[rules.to] = redacted(shown[rules.to].decode("utf-8", "replace")).encode()
    return shown


def read(file: BrokerFile, here: pathlib.Path, path: pathlib.Path) -> OwnConfig:
    """What lies at `path`, a file or a folder; `UsageError` where no copy of it may be run. `here` is of the broker."""
    rules = file.config
    assert rules is not None  # the caller has looked
    main, folder = _main(rules, path)
    try:
        text: Text = _FORMATS[rules.format](read_file(main))
        _expected(rules, text)
        _harmless(rules, text)
        stock, notes = _stock(file, here, rules, text)
        picked = pick(rules.listeners, file, text) if rules.listeners and isinstance(text, XmlText) else None
    except UsageError as error:
        raise UsageError(f"{main.name}: {error}" if folder else str(error)) from error
    wanted = [one for one in rules.beside if folder and (folder / one.file).is_file()]
    named = {main.name, *(one.file for one in rules.beside)}
    return OwnConfig(
        name=main.name,
        text=text,
        beside={one.to: fit(main.parent, one) for one in wanted},
        not_taken=tuple(sorted(one.name for one in folder.iterdir() if one.name not in named)) if folder else (),
        base=file,
        stock=stock,
        notes=tuple(notes),
        picked=picked,
    )


def configured(own: OwnConfig) -> BrokerFile:
    """The broker of that configuration: what it says is what is stock, and no deviation of ours holds but for some."""
    file, rules = own.base, own.rules
    settings = {
        name: setting.model_copy(update={"stock": own.stock[name]}) if name in own.stock else setting
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
    return file.model_copy(update={**update, **(own.picked.ports_of(file) if own.picked else {})})


def place(setting: Setting, rules: Config) -> str | None:
    """The place of the setting in a file of that format."""
    return setting.xml if rules.format == "xml" else setting.key


def value_of(setting: Setting, said: str, at: str, name: str) -> Value:
    """What a text of the file means, the way back from `Setting.text`; `UsageError` where it is not of its type.

    A number that `scale` does not divide becomes the nearest: `artemis create` writes what it measured on its disk,
    such as 3333333 ns, and to refuse that would be to refuse nearly every file.
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
    """The main file, and the folder that further ones are taken from: of a mere file, none."""
    if not path.exists():
        raise UsageError("there is no such file or folder")
    if not path.is_dir():
        return path, None
    for found in (path / rules.file, path / rules.to):
        if found.is_file():
            return found, found.parent
    raise UsageError(f"the folder has no {rules.file}; name the folder that has it, or the file")


def _write_private(path: pathlib.Path, data: bytes) -> None:
    """Write a file that only its owner can read: it may hold passwords."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_bytes(data)


def _expected(rules: Config, text: Text) -> None:
    if rules.expects and not text.values(rules.expects):
        root = f"; its root element is <{text.root.name}>" if isinstance(text, XmlText) else ""
        raise UsageError(f"it has no {rules.expects}, so it is the configuration of another broker{root}")


def _harmless(rules: Config, text: Text) -> None:
    for refuse in rules.refuses:
        for value in text.anywhere(refuse.at):
            if not (refuse.unless and re.search(refuse.unless, value)):
                raise UsageError(f"{refuse.at}: {refuse.why}; take it out of a copy of the file, and give that")


def first_in_force(setting: Setting, read: Sequence[tuple[str, str]], name: str) -> tuple[str, str] | None:
    """The first of these places, each with its text, whose value differs from the default; else the first place."""
    other = [(at, said) for at, said in read if value_of(setting, said, at, name) != setting.default]
    return next(iter([*other, *read]), None)


def _in_force(setting: Setting, text: Text, at: str, name: str) -> tuple[str, str | None]:
    """The first place of a setting whose value differs from the default; else the first one in the file."""
    read = [(one, said) for one in (at, *setting.also) if (said := text.read(one)) is not None]
    return first_in_force(setting, read, name) or (at, None)


def _stock(
    file: BrokerFile, here: pathlib.Path, rules: Config, text: Text
) -> tuple[dict[str, Value | None], list[str]]:
    """What the file says of each setting that it can have, None where its key is absent; and what is to be told.

    One that is filled in elsewhere as well keeps its stock where the key is absent: then it is never absent there.
    """
    used = uses(file, here)
    found: dict[str, Value | None] = {}
    notes = []
    for name, setting in file.settings.items():
        at = place(setting, rules)
        if not at or not setting.settable:
            continue
        at, said = _in_force(setting, text, at, name)
        if said is None:
            found |= {} if f"setting.{name}" in used else {name: None}
            continue
        found[name] = value_of(setting, said, at, name)
        if setting.exists and found[name] and not text.values(setting.exists.format(value=found[name])):
            notes.append(f"{at} is {said}, and the file has no such queue; conditions of claims see no {name}")
            found[name] = ""
        if setting.scale > 1 and int(said) % setting.scale:
            exact = int(said) / setting.scale
            notes.append(f"{at} is {said}, which is {name}={exact:.2f}; conditions of claims see {found[name]}")
    return found, notes
