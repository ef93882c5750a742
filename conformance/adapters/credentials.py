"""The TLS settings and login of a client, and the places of its secrets. No secret is stored here.

    url = parse_url("amqps://alice@broker.example:5671")
    url.host, url.port                          # "broker.example", 5671
    url.access                                  # Access(user="alice", tls=Tls())
    more = url.access.merged(Access(password=Secret(env="BROKER_PASSWORD")))
    check(more, url.protocol)                   # UsageError if two options contradict each other
    redact_passwords(text, more)                # the text without the secret, in every known form

An `Access` travels as plain data: from a `broker.toml` (`credentials_table`), the command line or a URL to the process
of a client, which alone reads the secret, when it connects (`clients.connecting`). So no history, header, report or
command line can hold one; `redact_passwords` is for what a peer says, which may quote it.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import urllib.parse
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from conformance.errors import UsageError
from conformance.ledger import withhold
from conformance.protocols import SCHEMES, describe

ANONYMOUS, PLAIN, EXTERNAL = "ANONYMOUS", "PLAIN", "EXTERNAL"
SCRAM = ("SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (ANONYMOUS, PLAIN, EXTERNAL, *SCRAM)
"""SASL mechanisms (AMQP 1.0 section 5.3); a protocol without SASL has only a login."""

REDACTED = "<redacted>"


def write_private(path: pathlib.Path, data: bytes) -> None:
    """Write a file that only its owner can read: it may hold passwords."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_bytes(data)


class Secret(msgspec.Struct, frozen=True):
    """Where a secret is: the name of an environment variable, or a file whose one line it is. Exactly one of the two.

    >>> str(Secret(env="BROKER_PASSWORD"))
    'the environment variable BROKER_PASSWORD'
    """

    env: str = ""
    file: str = ""

    def __post_init__(self) -> None:
        """Keep the variable from child processes."""
        if self.env:
            withhold(self.env)

    def __str__(self) -> str:
        return f"the environment variable {self.env}" if self.env else f"the file {self.file}"

    def read(self) -> str:
        """The secret; raises `UsageError` that says where it was looked for."""
        if self.env:
            found = _GIVEN.get(self.env) or os.environ.get(self.env, "")
            if not found:
                raise UsageError(f"password: {self} is not set; export it before the run")
            return found
        try:
            found = _line_of(pathlib.Path(self.file)).removesuffix("\n").removesuffix("\r")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise UsageError(f"password: {self} cannot be read: {why}") from error
        if not found:
            raise UsageError(f"password: {self} is empty; its one line is the password")
        return found


_LONGEST = 1 << 16


def _line_of(path: pathlib.Path) -> str:
    """The text of a small regular file: the record of a run may name a device that never ends, or a pipe."""
    if path.exists() and not path.is_file():
        raise UsageError(f"password: {path} is not a file")
    with path.open("rb") as stream:
        data = stream.read(_LONGEST + 1)
    if len(data) > _LONGEST:
        raise UsageError(f"password: {path} has more than {_LONGEST} bytes; its one line is the password")
    return data.decode("utf-8")


_GIVEN: dict[str, str] = {}


def give(secrets: Mapping[str, str]) -> None:
    """Use these values of variables that this process did not inherit: its job has them, because it is a client."""
    _GIVEN.update(secrets)


class ClientTls(msgspec.Struct, frozen=True):
    """Files in PEM. An empty `ca` means the authorities of this machine, an empty `server_name` the host.

    `certificate` (with its chain) and `key` are the client's own. Verification cannot be switched off.
    """

    ca: str = ""
    certificate: str = ""
    key: str = ""
    server_name: str = ""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The credentials of a client. `mechanism_of` infers an absent `mechanism`; no `tls` means plain TCP."""

    user: str = ""
    password: Secret | None = None
    mechanism: str = ""
    tls: ClientTls | None = None

    def merged(self, over: Access) -> Access:
        """Override this with the keys that `over` has; the keys of `tls` one by one."""
        tls = self.tls
        if over.tls is not None:
            said = {key: value for key, value in msgspec.structs.asdict(over.tls).items() if value}
            tls = msgspec.structs.replace(tls or ClientTls(), **said)
        return Access(
            user=over.user or self.user,
            password=over.password or self.password,
            mechanism=over.mechanism or self.mechanism,
            tls=tls,
        )


OPEN = Access()
"""Plain TCP without a login."""


class Url(NamedTuple):
    """The address of an external broker. `protocol` is one of `PROTOCOLS`; TLS and user are in `access`."""

    protocol: str
    host: str
    port: int
    access: Access = OPEN

    def __str__(self) -> str:
        """Write it as a user types it; it has no secret."""
        scheme = scheme_of(self.protocol, secure=self.access.tls is not None)
        user = f"{urllib.parse.quote(self.access.user, safe='')}@" if self.access.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{user}{host}:{self.port}"


def scheme_of(protocol: str, *, secure: bool = False) -> str:
    """The scheme of the protocol's URLs; the protocol itself if there is none.

    >>> scheme_of("openwire")
    'openwire'
    """
    found = (one.name for one in describe(protocol).schemes if one.secure == secure)
    return next(found, protocol)


def parse_url(text: str) -> Url:
    """Parse a URL: a scheme of `SCHEMES`, optionally a user, a host, optionally a port.

    Raises `UsageError`. A password is refused, because every user of the machine sees command lines; no message
    repeats it.

    >>> str(parse_url("stomp+ssl://broker.example"))
    'stomp+ssl://broker.example:61614'
    """
    name, colon, _ = text.partition("://")
    if not colon:
        raise UsageError(f"a broker's URL is SCHEME://HOST:PORT, and this one has no scheme: {', '.join(SCHEMES)}")
    if name.lower() not in SCHEMES:
        raise UsageError.unknown("scheme", name, SCHEMES, of="a broker's URL")
    protocol, scheme = SCHEMES[name.lower()]
    try:
        parts = urllib.parse.urlsplit(text)
        host, port, user = parts.hostname, parts.port, urllib.parse.unquote(parts.username or "")
    except ValueError as error:
        raise UsageError(f"a broker's URL ({name}://) has a malformed host or port") from error
    if parts.password is not None:
        raise UsageError(
            f"a broker's URL ({name}://) has a password in it: leave it out, and give --password-env or --password-file"
        )
    shown = f"{name}://{parts.netloc.rpartition('@')[2]}"
    if not host:
        raise UsageError(f"{shown}: expected {name}://HOST:PORT, and there is no host")
    if port == 0:
        raise UsageError(f"{shown}: port 0 is not a port")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise UsageError(f"{shown}: expected {name}://HOST:PORT, and nothing after it")
    return Url(protocol, host, port or scheme.port, Access(user=user, tls=ClientTls() if scheme.secure else None))


def mechanism_of(access: Access) -> str:
    """The SASL mechanism: as given, or PLAIN for a user, EXTERNAL for a certificate without one, else ANONYMOUS."""
    if access.mechanism:
        return access.mechanism
    if access.user:
        return PLAIN
    return EXTERNAL if access.tls is not None and access.tls.certificate else ANONYMOUS


def check(access: Access, protocol: str) -> None:
    """Raise `UsageError`, with the next step, if two options contradict each other. It reads no secret and no file."""
    tls = access.tls or ClientTls()
    if access.mechanism and access.mechanism not in MECHANISMS:
        raise UsageError.unknown("SASL mechanism", access.mechanism, MECHANISMS)
    if access.mechanism and not describe(protocol).traits.sasl:
        raise UsageError(f"mechanism {access.mechanism} is one of SASL, and {protocol} has none: leave it out")
    if bool(tls.certificate) != bool(tls.key):
        raise UsageError("the client's certificate and its key: give both (--tls-cert and --tls-key) or neither")
    if bool(access.user) != bool(access.password):
        missing = "--password-env or --password-file" if access.user else "--user"
        raise UsageError(f"a login is a user and a password: give {missing} too")
    mechanism = mechanism_of(access)
    if mechanism == EXTERNAL and not tls.certificate:
        raise UsageError("SASL EXTERNAL is the client's certificate: give --tls-cert and --tls-key")
    if mechanism in (PLAIN, *SCRAM) and not access.user:
        raise UsageError(f"SASL {mechanism} is a login: give --user, and --password-env or --password-file")


def library_lacks(access: Access) -> str:
    """Say what the client library of this machine lacks for these credentials; empty if it has everything."""
    from proton import SASL

    if access.mechanism in SCRAM and not SASL.extended():
        return (
            f"mechanism {access.mechanism}: this python-qpid-proton was built without Cyrus SASL and has ANONYMOUS, "
            "PLAIN and EXTERNAL only; install libsasl2-dev and build it anew, or choose PLAIN over TLS"
        )
    return ""


def redact_passwords(text: str, *every: Access) -> str:
    """Redact the passwords of these, plain or as SASL, HTTP, a URL and JSON write them.

    A secret that cannot be read here cannot be found: then the text stays.
    """
    for form in sorted({form for access in every for form in forms(access)}, key=len, reverse=True):
        text = text.replace(form, REDACTED)
    return text


def forms(access: Access) -> set[str]:
    """The forms of its password in texts; empty without a password, or if it cannot be read here."""
    try:
        secret = access.password.read() if access.password else ""
    except UsageError:
        return set()
    if not secret:
        return set()
    said = [secret, f"\0{access.user}\0{secret}", f"{access.user}:{secret}"]
    encoded = {base64.b64encode(one.encode()).decode() for one in said}
    return {secret, urllib.parse.quote(secret, safe=""), json.dumps(secret)[1:-1], repr(secret)[1:-1], *encoded}
