"""Choose which of a user's listeners a copy of the configuration keeps, and give them free ports.

A copy keeps only the listeners that it needs to speak the protocols of the user's broker. Their parameters stay:
credits, prefixes and limits of an acceptor are part of what is tested.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import NamedTuple

from conformance.adapters.config.xml_editor import XmlText
from conformance.adapters.file.config_table import Listeners
from conformance.adapters.file.model import BrokerFile, Protocol
from conformance.errors import UsageError

_ADDRESS = re.compile(r"(?P<before>\s*[A-Za-z][\w+.-]*://)(?P<place>[^?;\s<]*)(?P<after>.*)", re.DOTALL)
_PARAMETER = re.compile(r"[?;&]\s*(?P<name>[\w-]+)=(?P<value>[^;&\s<]*)")
_BINDS = re.compile(r"(?<=[?;&])(?:host|port)=[^;&<]*(?:;|&amp;|&)?")
_NOT_A_SOCKET = "vm://"


class Listener(NamedTuple):
    """One address: its place among the elements, what it speaks (None means everything), and whether it uses TLS."""

    number: int
    speaks: frozenset[str] | None
    tls: bool

    def knows(self, word: str) -> bool:
        """Whether it speaks the protocol that the product calls by this word."""
        return self.speaks is None or word.upper() in self.speaks


@dataclasses.dataclass(frozen=True)
class Picked:
    """The listeners that are kept: their port by place among the elements, and the port of each protocol."""

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


def pick(rules: Listeners, file: BrokerFile, text: XmlText) -> Picked:
    """Choose the listeners to keep; `UsageError` if none speaks a protocol of the suite."""
    there = [_listener(number, one.text) for number, one in enumerate(text.elements(rules.at))]
    ports: dict[int, str] = {}
    protocols: dict[str, str] = {}
    for name, word in rules.speaks.items():
        able = [one for one in there if one is not None and one.knows(word)]
        if name not in file.protocols or not able:
            continue
        chosen = min(able, key=lambda one: (one.tls, one.number not in ports, one.number))
        protocols[name] = ports.setdefault(chosen.number, name if ports else file.protocols[name].port)
    asked = file.depth is not None and file.depth.method == "amqp-management"
    if not protocols or (asked and "amqp" not in protocols):
        wanted = rules.speaks["amqp"] if asked else " or ".join(rules.speaks.values())
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
