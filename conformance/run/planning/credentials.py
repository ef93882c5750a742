"""The TLS and login options of a user: one table for every front end, and how they apply to the broker of a run.

A password is never an option: an option names the variable, or the file, that holds it. Front ends read the table at
every start, so this module imports nothing heavy.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from conformance import records
from conformance.adapters import Adapter
from conformance.adapters.credentials import OPEN, REDACTED, Access, ClientTls, forms
from conformance.adapters.external.addresses import places
from conformance.adapters.file.credentials_table import access_of, given
from conformance.adapters.vendor_clients import ClientFile
from conformance.clients.connecting import lacking
from conformance.errors import UsageError

if TYPE_CHECKING:
    from conformance.adapters.credentials import Access

FILE = "FILE"
"""The `metavar` of a path."""


class Word(NamedTuple):
    """An `option` as it is typed, what stands after it (`metavar`; empty for a flag), and what `help` says of it."""

    option: str
    metavar: str
    help: str

    @property
    def name(self) -> str:
        """As an identifier."""
        return self.option.removeprefix("--").replace("-", "_")


WORDS = (
    Word("--user", "NAME", "Who clients are: SASL PLAIN, STOMP login."),
    Word("--password-env", "NAME", "The environment variable with the password."),
    Word("--password-file", FILE, "The file with the password, in one line."),
    Word("--sasl", "WORD", "SASL mechanism  [default: by what else is given]"),
    Word("--tls", "", "TLS; any of the next four says so too."),
    Word("--tls-ca", FILE, "Who may sign the broker's certificate, PEM."),
    Word("--tls-cert", FILE, "The clients' own certificate, PEM."),
    Word("--tls-key", FILE, "Its key, PEM, without a passphrase."),
    Word("--tls-server-name", "NAME", "The name in the broker's certificate."),
)


def typed(said: Mapping[str, Any]) -> Access:
    """What was typed, by `Word.name`, as an `Access`; what is empty or None was not typed.

    Raises `UsageError` for a word that is not known, a file that is not there, or two words that do not go together.
    """
    from conformance.adapters.credentials import MECHANISMS, Access, ClientTls, Secret
    from conformance.errors import UsageError

    given = {word.name: said[word.name] or "" for word in WORDS}
    if given["password_env"] and given["password_file"]:
        raise UsageError("--password-env and --password-file: give one of them")
    if bool(given["tls_cert"]) != bool(given["tls_key"]):
        raise UsageError("--tls-cert and --tls-key: give both or neither")
    mechanism = given["sasl"].upper()
    if mechanism and mechanism not in MECHANISMS:
        raise UsageError.unknown("SASL mechanism", mechanism, MECHANISMS)
    files = {word.name: _absolute(word.option, given[word.name]) for word in WORDS if word.metavar == FILE}
    secret = Secret(env=given["password_env"], file=files["password_file"])
    tls = ClientTls(files["tls_ca"], files["tls_cert"], files["tls_key"], given["tls_server_name"])
    return Access(
        user=given["user"],
        password=secret if secret != Secret() else None,
        mechanism=mechanism,
        tls=tls if given["tls"] or tls != ClientTls() else None,
    )


def _absolute(option: str, path: str | pathlib.Path) -> str:
    from conformance.errors import UsageError

    if not path:
        return ""
    if not pathlib.Path(path).is_file():
        raise UsageError(f"{option} {path}: there is no such file")
    return str(pathlib.Path(path).absolute())


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
