"""Apply a user's TLS and login options to the broker of a run, and say what cannot be tried over TLS."""

from __future__ import annotations

import dataclasses
import os
import pathlib

from conformance import records
from conformance.adapters import Adapter
from conformance.adapters.credentials import OPEN, REDACTED, Access, ClientTls, forms
from conformance.adapters.external.addresses import places
from conformance.adapters.file.credentials_table import access_of, given
from conformance.adapters.vendor_clients import ClientFile
from conformance.clients.connecting import lacking
from conformance.errors import UsageError

_KEPT = "access.json"


def applied(adapter: Adapter, protocol: str, typed: Access, client: ClientFile | None = None) -> Adapter:
    """The adapter whose clients come in as its file says, and what was typed above that.

    Raises `UsageError`, before anything is started: two words do not go together, a secret is not where it should be,
    or the client library of this machine, or that of a vendor, has no such mechanism.
    """
    adapter = as_typed(adapter, typed)
    if client is not None and told(adapter, protocol) != OPEN:
        raise UsageError(f"--client {client.name}: no vendor's client comes in by TLS or a login; amqp and stomp do")
    access = access_of(adapter.file, adapter.path.parent, protocol, _at(adapter, protocol))
    if access.password is not None:
        access.password.read()
    if lacks := lacking(access):
        raise UsageError(lacks)
    return adapter


def as_typed(adapter: Adapter, typed: Access) -> Adapter:
    """The adapter with what was typed above what its file says; nothing is looked at, and no secret is read."""
    if typed == OPEN:
        return adapter
    if not dataclasses.is_dataclass(adapter):
        raise UsageError(f"{adapter.name} is a class of its own: its table says how clients come in, see [access]")
    return dataclasses.replace(adapter, file=given(adapter.file, typed))


def told(adapter: Adapter, protocol: str) -> Access:
    """How clients come in at a broker that is not prepared yet: by its file, its address and who typed. Unchecked."""
    return adapter.file.access.of(protocol, adapter.path.parent, _at(adapter, protocol))


def _at(adapter: Adapter, protocol: str) -> Access:
    """What the address of an external broker says of it."""
    rules = getattr(getattr(adapter, "place", None), "rules", None)
    found = places(rules.urls, adapter.file).get(protocol) if rules is not None else None
    return found.access if found is not None else OPEN


def unread(adapter: Adapter, protocol: str) -> str:
    """Why no link can tell the frames of this broker's clients; empty where it can."""
    if told(adapter, protocol).tls is None:
        return ""
    return "over TLS a link passes what it cannot read; run it over the plain port as well"


def words_of(typed: Access) -> list[str]:
    """The words of a command line that say the same. There is no secret among them."""
    tls, secret = typed.tls or ClientTls(), typed.password
    said = [
        ("--user", typed.user),
        ("--password-env", secret.env if secret else ""),
        ("--password-file", near(secret.file) if secret else ""),
        ("--sasl", typed.mechanism),
        ("--tls-ca", near(tls.ca)),
        ("--tls-cert", near(tls.certificate)),
        ("--tls-key", near(tls.key)),
        ("--tls-server-name", tls.server_name),
    ]
    words = [word for option, value in said if value for word in (option, value)]
    return ["--tls", *words] if typed.tls == ClientTls() else words


def near(path: str) -> str:
    """A path as people type it where they are: what is not below is told in full."""
    return os.path.relpath(path) if path and pathlib.Path(path).is_relative_to(pathlib.Path.cwd()) else path


def secrets(adapter: Adapter | None, protocol: str, folder: pathlib.Path) -> list[tuple[bytes, bytes]]:
    """What must not leave this machine with the run in that folder, and what stands for it, the longest first."""
    every = [kept(folder), *([told(adapter, protocol)] if adapter else [])]
    found = {form for access in every for form in forms(access)}
    return [(form.encode(), REDACTED.encode()) for form in sorted(found, key=len, reverse=True)]


def keep(folder: pathlib.Path, typed: Access) -> None:
    """Write down in the folder of a run what was typed: files of one machine, that a report must not name."""
    if typed != OPEN:
        records.save(typed, folder / _KEPT)


def kept(folder: pathlib.Path) -> Access:
    """What was typed for that run. A run of several processes has it in each of its parts."""
    for part in (folder, *sorted(folder.glob("workers/*"))):
        if (part / _KEPT).is_file():
            return records.read(part / _KEPT, Access)
    return OPEN
