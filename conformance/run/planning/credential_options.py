"""The TLS and login options of a user: one table for every front end.

A password is never one of them: a word names the variable, or the file, that has it. Fronts read the table before they
know what is asked of them, so it imports nothing heavy.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

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
