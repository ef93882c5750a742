"""The table `[access]` of a `broker.toml`: TLS and login. It names secrets and never holds one.

`access_of` makes of it what one protocol needs; `given` puts what a user typed above it.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import msgspec
import pydantic

from conformance.adapters.credentials import OPEN, Access, ClientTls, Secret, check, redacted
from conformance.adapters.file.placeholders import fill, placeholders
from conformance.adapters.file.table import Table
from conformance.errors import UsageError

if TYPE_CHECKING:
    from conformance.adapters.file.model import BrokerFile

_HERE = "here"
Mechanism = Literal["ANONYMOUS", "PLAIN", "EXTERNAL", "SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class SecretTable(Table):
    """Where a secret is: `env` names an environment variable, `file` a file whose one line it is. One of the two."""

    env: str = ""
    file: str = ""

    @pydantic.model_validator(mode="after")
    def _one_source(self) -> SecretTable:
        if bool(self.env) == bool(self.file):
            raise ValueError("one of env and file says where the password is")
        return self


class TlsTable(Table):
    """TLS to the broker; an empty table is enough.

    `ca` is a file of authorities (default: those of this machine), `certificate` and `key` are the client's own, all in
    PEM. `server_name` is the name in the broker's certificate where that is not its host.
    """

    ca: str = ""
    certificate: str = ""
    key: str = ""
    server_name: str = ""


class ProtocolAccess(Table):
    """How a client comes in over one protocol. What is not said here is what `[access]` says.

    `user` and `password` are a login, `mechanism` is one of SASL (AMQP): without it PLAIN for a user, EXTERNAL for a
    certificate without one, else ANONYMOUS. A `tls` of its own replaces the whole table.
    """

    user: str = ""
    password: SecretTable | None = None
    mechanism: Mechanism | None = None
    tls: TlsTable | None = None


class AccessTable(ProtocolAccess):
    """How clients come in at the broker: `user`, `password`, `mechanism` and `tls`, and for one protocol otherwise.

    `http` is the broker's own interface, where [depth] and [queues] have an address of https: only its `tls` counts.
    Files may hold `{here}`, the folder of this file.
    """

    amqp: ProtocolAccess | None = None
    stomp: ProtocolAccess | None = None
    jms: ProtocolAccess | None = None
    http: ProtocolAccess | None = None
    _typed: Access = OPEN

    @pydantic.model_validator(mode="after")
    def _only_here(self) -> AccessTable:
        for text in _texts(self):
            for word in placeholders(text):
                if word != _HERE:
                    raise ValueError(f"{text}: only {{here}} is known in this table, and {{{word}}} is not")
        for name in ("stomp", "jms", "http"):
            own = self._own(name)
            if own is not None and own.mechanism is not None:
                raise ValueError(f"{name} has no SASL: a mechanism is for amqp")
        return self

    def typed(self, access: Access) -> AccessTable:
        """The same with what a user typed above all of it; its files are no templates."""
        made = self.model_copy()
        made._typed = access
        return made

    def of(self, protocol: str, here: pathlib.Path, at: Access = OPEN) -> Access:
        """What a client of that protocol needs; `here` is the folder of the file, `at` what an address says."""
        own = self._own(protocol)
        found = _plain(self, here)
        if own is not None:
            said = _plain(own, here)
            found = msgspec.structs.replace(found.merged(said), tls=said.tls or found.tls)
        found = found.merged(at).merged(self._typed)
        return found if protocol == "amqp" else msgspec.structs.replace(found, mechanism="")

    def _own(self, protocol: str) -> ProtocolAccess | None:
        return {"amqp": self.amqp, "stomp": self.stomp, "jms": self.jms, "http": self.http}.get(protocol)


def access_of(file: BrokerFile, here: pathlib.Path, protocol: str, at: Access = OPEN) -> Access:
    """How a client of that protocol comes in at this broker: what the file says, its address `at`, and who typed.

    The later one wins. Raises `UsageError` where two words do not go together.
    """
    found = file.access.of(protocol, here, at)
    try:
        check(found, protocol)
    except UsageError as error:
        raise error.within(f"access of {file.name} over {protocol}") from error
    return found


def given(file: BrokerFile, access: Access) -> BrokerFile:
    """The file with what a user typed above its `[access]`."""
    return file.model_copy(update={"access": file.access.typed(access)})


def clean(text: str, file: BrokerFile, here: pathlib.Path) -> str:
    """What this broker said, without the secrets of its clients: a log may have them."""
    return redacted(text, *(file.access.of(protocol, here) for protocol in file.protocols))


def _plain(table: ProtocolAccess, here: pathlib.Path) -> Access:
    def filled(text: str) -> str:
        return fill(text, {_HERE: str(here.absolute())})

    secret, tls = table.password, table.tls
    return Access(
        user=table.user,
        password=Secret(env=secret.env, file=filled(secret.file)) if secret else None,
        mechanism=table.mechanism or "",
        tls=ClientTls(filled(tls.ca), filled(tls.certificate), filled(tls.key), tls.server_name) if tls else None,
    )


def _texts(table: AccessTable) -> Iterator[str]:
    for each in (table, table.amqp, table.stomp, table.jms, table.http):
        if each is not None and each.password is not None:
            yield each.password.file
        if each is not None and each.tls is not None:
            yield from (each.tls.ca, each.tls.certificate, each.tls.key)
