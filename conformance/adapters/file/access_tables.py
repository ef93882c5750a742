"""The table `[access]` of a `broker.toml`: the TLS and login of clients. It names secrets and never holds one."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import msgspec
import pydantic

from conformance.adapters.credentials import OPEN, Access, ClientTls, Secret
from conformance.adapters.file.placeholders import fill, placeholders
from conformance.adapters.file.table import Table
from conformance.protocols import PROTOCOLS, describe

_HERE = "here"
Mechanism = Literal["ANONYMOUS", "PLAIN", "EXTERNAL", "SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class SecretTable(Table):
    """Where a secret is: `env` names an environment variable, `file` a file with one line. Give one of the two."""

    env: str = ""
    file: str = ""

    @pydantic.model_validator(mode="after")
    def _one_source(self) -> SecretTable:
        if bool(self.env) == bool(self.file):
            raise ValueError("expected either env or file, where the password is")
        return self


class TlsTable(Table):
    """TLS to the broker; an empty table is enough.

    `ca` is a file of authorities (default: those of this machine), `certificate` and `key` are the client's own, all in
    PEM. `server_name` is the name in the broker's certificate if that is not its host.
    """

    ca: str = ""
    certificate: str = ""
    key: str = ""
    server_name: str = ""


class ProtocolAccess(Table):
    """The credentials of a client over one protocol. A key that is absent is taken from `[access]`.

    `user` and `password` are a login, `mechanism` is a SASL mechanism (AMQP). Without it a user means PLAIN, a
    certificate without a user EXTERNAL, and anything else ANONYMOUS. A `tls` of its own replaces the whole table.
    """

    user: str = ""
    password: SecretTable | None = None
    mechanism: Mechanism | None = None
    tls: TlsTable | None = None


_OWN_ACCESS = (*(name for name, each in PROTOCOLS.items() if each.schemes), "http")
"""The words of tables in `[access]`: a protocol whose address a user can give, and the management."""

if TYPE_CHECKING:
    _ProtocolTables = ProtocolAccess
else:
    _ProtocolTables = pydantic.create_model(
        "_ProtocolTables",
        __base__=ProtocolAccess,
        __module__=__name__,
        **dict.fromkeys(_OWN_ACCESS, (ProtocolAccess | None, None)),
    )


class AccessTable(_ProtocolTables):
    """The credentials of clients: `user`, `password`, `mechanism` and `tls`, and tables for single protocols.

    `http` is the broker's own interface, if [depth] and [queues] have an address of https: only its `tls` counts.
    Files may hold `{here}`, the folder of this file.
    """

    _typed: Access = OPEN

    @pydantic.model_validator(mode="after")
    def _only_here(self) -> AccessTable:
        for text in self._texts():
            for word in placeholders(text):
                if word != _HERE:
                    raise ValueError(f"{text}: {{{word}}} is unknown; this table knows only {{here}}")
        for name, own in self._own.items():
            if own is not None and own.mechanism is not None and not describe(name).traits.sasl:
                having = " or ".join(word for word, each in PROTOCOLS.items() if each.traits.sasl)
                raise ValueError(f"{name} has no SASL: a mechanism is for {having}")
        return self

    def typed(self, access: Access) -> AccessTable:
        """The same table, overridden by the options of a user, whose file names hold no placeholders."""
        made = self.model_copy()
        made._typed = access
        return made

    def of(self, protocol: str, here: pathlib.Path, at: Access = OPEN) -> Access:
        """The credentials for that protocol. `here` is the folder of the file; the address `at` overrides the file."""
        own = self._own.get(protocol)
        found = _plain(self, here)
        if own is not None:
            over = _plain(own, here)
            found = msgspec.structs.replace(found.merged(over), tls=over.tls or found.tls)
        found = found.merged(at).merged(self._typed)
        return found if describe(protocol).traits.sasl else msgspec.structs.replace(found, mechanism="")

    @property
    def _own(self) -> dict[str, ProtocolAccess | None]:
        return {name: getattr(self, name) for name in _OWN_ACCESS}

    def _texts(self) -> Iterator[str]:
        for each in (self, *self._own.values()):
            if each is not None and each.password is not None:
                yield each.password.file
            if each is not None and each.tls is not None:
                yield from (each.tls.ca, each.tls.certificate, each.tls.key)


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
