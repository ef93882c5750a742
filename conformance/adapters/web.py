"""Send one HTTP request to a broker's own interface, without the proxies that the environment names.

`hung_up_after` limits all reads of a connection together: a socket's own timeout starts anew with each byte.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import http.client
import json
import os
import socket
import ssl
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from conformance import limits
from conformance.adapters.credentials import OPEN, Access, ClientTls
from conformance.errors import UsageError

PORTS = {"http": 80, "https": 443}
_EXPECTED = "expected http://HOST:PORT/PATH or https://HOST:PORT/PATH"


@contextlib.contextmanager
def hung_up_after(line: socket.socket, seconds: float) -> Iterator[None]:
    """Shut the connection down and raise `TimeoutError` if the block takes longer than that."""
    late = threading.Event()
    end = socket.socket(fileno=os.dup(line.fileno()))  # TLS takes the descriptor of the other

    def hang_up() -> None:
        late.set()
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    except OSError as error:
        if late.is_set():
            raise TimeoutError(_too_late(seconds)) from error
        raise
    finally:
        timer.cancel()
        timer.join()
        end.close()
    if late.is_set():
        raise TimeoutError(_too_late(seconds))


def _too_late(seconds: float) -> str:
    return f"the answer did not end within {seconds:g} s"


def ask(
    verb: str,
    url: str,
    body: str = "",
    *,
    content_type: str = "application/json",
    timeout_s: float = 5.0,
    access: Access = OPEN,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Send one request; return the status of the answer, and its body as text.

    `user:password@` in the address is its basic authentication. With `user@` alone the password is that of `access`.
    The TLS of `access` is for an address of `https`, whose certificate and name are always verified; without one the
    authorities of this machine are used. `headers` are sent as well.

    Raises `OSError` if no HTTP answer comes, or if the whole answer takes longer than `timeout_s` or has more than
    `limits.HTTP_ANSWER` bytes; `UsageError` for a malformed address, or a password that cannot be read.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port or PORTS.get(parts.scheme, 80)
    except ValueError as error:
        raise UsageError(f"{url.rpartition('@')[2]}: {_EXPECTED}: {error}") from error
    if parts.scheme not in PORTS or not parts.hostname:
        raise UsageError(f"{url.rpartition('@')[2]}: {_EXPECTED}")
    sent = {**(headers or {}), **({"Content-Type": content_type} if body else {})}
    if parts.username is not None:
        inherited = access.password.read() if parts.password is None and access.password else ""
        password = inherited or urllib.parse.unquote(parts.password or "")
        secret = f"{urllib.parse.unquote(parts.username)}:{password}"
        sent["Authorization"] = f"Basic {base64.b64encode(secret.encode()).decode()}"
    target = parts.path or "/"
    connection = http.client.HTTPConnection(parts.hostname, port, timeout=timeout_s)
    if parts.scheme == "https":
        connection = _Secure(parts.hostname, port, access.tls or ClientTls(), timeout_s)
    try:
        connection.connect()
        with hung_up_after(connection.sock, timeout_s):
            connection.request(verb, f"{target}?{parts.query}" if parts.query else target, body.encode() or None, sent)
            answer = connection.getresponse()
            said = answer.read(limits.HTTP_ANSWER + 1)
        if len(said) > limits.HTTP_ANSWER:
            raise OSError(limits.limit_sentence("an answer in HTTP", limits.HTTP_ANSWER))
        return answer.status, said.decode(errors="replace")
    except ConnectionRefusedError as error:
        raise OSError("nothing listens there") from error
    except _TlsError:
        raise
    except (OSError, http.client.HTTPException) as error:  # reset, silent, or of another protocol
        why = limits.quote(f"{type(error).__name__} {error}".strip())
        raise OSError(f"no answer in HTTP: {why}") from error
    finally:
        connection.close()


class _TlsError(OSError):
    """The handshake failed, or a file of TLS cannot be used."""


class _Secure(http.client.HTTPSConnection):
    """A connection that verifies `tls.server_name` if that is not the host."""

    def __init__(self, host: str, port: int, tls: ClientTls, timeout_s: float) -> None:
        self._made, self._name, self._within_s = context(tls), tls.server_name or host, timeout_s
        super().__init__(host, port, timeout=timeout_s, context=self._made)

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        try:
            with hung_up_after(self.sock, self._within_s):
                self.sock = self._made.wrap_socket(self.sock, server_hostname=self._name)
        except ssl.SSLCertVerificationError as error:
            raise _TlsError(
                f"TLS: {error.verify_message}: name its authority (--tls-ca, [access.tls] ca), or its own name "
                "(--tls-server-name)"
            ) from error
        except ssl.SSLError as error:
            raise _TlsError(f"TLS: {error.reason or error}: is that a port of https?") from error


@functools.lru_cache(maxsize=8)
def context(tls: ClientTls, *, verified: bool = True) -> ssl.SSLContext:
    """Make a TLS context of a client; `OSError` names a file that cannot be used.

    It speaks TLS 1.2 or later and verifies certificate and name. One that is not `verified` only finds out who answers.
    """
    if verified:
        try:
            made = ssl.create_default_context(cafile=tls.ca or None)
        except (OSError, ValueError) as error:
            raise _TlsError(f"tls.ca (--tls-ca): {tls.ca} has no certificates of authorities: {error}") from error
    else:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    if tls.certificate:
        try:
            made.load_cert_chain(tls.certificate, tls.key, password=_no_passphrase)
        except (OSError, ValueError) as error:
            raise _TlsError(
                f"tls.certificate and tls.key (--tls-cert, --tls-key): {tls.certificate} and {tls.key} are no "
                f"certificate with its key: {error}"
            ) from error
    return made


def _no_passphrase() -> str:
    """Without this OpenSSL asks the terminal, and a run without a terminal waits forever."""
    raise ValueError("the key has a passphrase, which the suite cannot ask for; give a key without one")


def without_login(url: str) -> str:
    """The address without its user and password."""
    parts = urllib.parse.urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def field_of(text: str, path: str) -> str:
    """The value at `path` (`0.state`) of a JSON text, as text: a string bare, anything else in JSON.

    Raises `ValueError` if there is no such field, or no JSON.
    """
    try:
        value: Any = json.loads(text)
    except RecursionError as error:
        raise ValueError("JSON that is nested too deep") from error
    for step in path.split("."):
        try:
            value = value[int(step)] if isinstance(value, list) else value[step]
        except (LookupError, TypeError, ValueError) as error:
            raise ValueError(f"no field {path}") from error
    return value if isinstance(value, str) else json.dumps(value)
