"""The options by which a client comes in: TLS and a login. A password is never one of them."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_FILE = click.Path(path_type=pathlib.Path)
_OPTIONS = (
    click.option("--user", default="", metavar="NAME", help="Who clients are: SASL PLAIN, STOMP login."),
    click.option("--password-env", default="", metavar="NAME", help="The environment variable with the password."),
    click.option("--password-file", type=_FILE, metavar="FILE", help="The file with the password, in one line."),
    click.option("--sasl", default="", metavar="WORD", help="SASL mechanism  [default: by what else is given]"),
    click.option("--tls", is_flag=True, help="TLS; any of the next four says so too."),
    click.option("--tls-ca", type=_FILE, metavar="FILE", help="Who may sign the broker's certificate, PEM."),
    click.option("--tls-cert", type=_FILE, metavar="FILE", help="The clients' own certificate, PEM."),
    click.option("--tls-key", type=_FILE, metavar="FILE", help="Its key, PEM, without a passphrase."),
    click.option("--tls-server-name", default="", metavar="NAME", help="The name in the broker's certificate."),
)


def coming_in(command: Command) -> Command:
    """Give a command these options; it gets one argument `access` (an `Access`) for them all."""

    @functools.wraps(command)
    def wrapped(*args: Any, **words: Any) -> Any:
        said = {name: words.pop(name) for name in _NAMES}
        return command(*args, access=access_of(**said), **words)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]


_NAMES = (
    "user",
    "password_env",
    "password_file",
    "sasl",
    "tls",
    "tls_ca",
    "tls_cert",
    "tls_key",
    "tls_server_name",
)


def access_of(
    *,
    user: str,
    password_env: str,
    password_file: pathlib.Path | None,
    sasl: str,
    tls: bool,
    tls_ca: pathlib.Path | None,
    tls_cert: pathlib.Path | None,
    tls_key: pathlib.Path | None,
    tls_server_name: str,
) -> Any:
    """What was typed, as an `Access`; `UsageError` for a word that is not known, or two that do not go together."""
    from conformance.adapters.access import MECHANISMS, Access, Secret, Tls
    from conformance.errors import UsageError

    if password_env and password_file:
        raise UsageError("--password-env and --password-file: give one of them")
    if bool(tls_cert) != bool(tls_key):
        raise UsageError("--tls-cert and --tls-key: give both or neither")
    if sasl and sasl.upper() not in MECHANISMS:
        raise UsageError.unknown("SASL mechanism", sasl.upper(), MECHANISMS)
    files = {
        name: _absolute(option, path)
        for name, option, path in (
            ("ca", "--tls-ca", tls_ca),
            ("certificate", "--tls-cert", tls_cert),
            ("key", "--tls-key", tls_key),
        )
    }
    secured = tls or tls_server_name or any(files.values())
    secret = Secret(env=password_env, file=_absolute("--password-file", password_file))
    return Access(
        user=user,
        password=secret if password_env or password_file else None,
        mechanism=sasl.upper(),
        tls=Tls(**files, server_name=tls_server_name) if secured else None,
    )


def _absolute(option: str, path: pathlib.Path | None) -> str:
    from conformance.errors import UsageError

    if path is None:
        return ""
    if not path.is_file():
        raise UsageError(f"{option} {path}: there is no such file")
    return str(path.absolute())
