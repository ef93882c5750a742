"""Ask whether a port greets in the expected protocol, in another one, or not at all.

An open port is no proof: something else may listen there, or the broker has not begun to read.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

from conformance import limits
from conformance.adapters.credentials import ClientTls
from conformance.adapters.web import hung_up_after

if TYPE_CHECKING:
    import ssl

_LONGEST = 64

_HEADER = re.compile(rb"AMQP[\x00\x02\x03]\x01\x00\x00")
"""AMQP 1.0 section 5.3.1. A broker of AMQP 0-9-1 answers `AMQP 0 0 9 1`: the first four bytes prove nothing."""

_FRAME = re.compile(rb"[\r\n]*(CONNECTED|ERROR)\r?\n")
"""STOMP 1.2: the answer to CONNECT, where a refused login is one too."""

_ASKED: Mapping[str, tuple[bytes, re.Pattern[bytes], int]] = {
    "amqp": (b"AMQP\x03\x01\x00\x00", _HEADER, 8),
    "stomp": (b"CONNECT\naccept-version:1.0,1.1,1.2\nhost:localhost\n\n\0", _FRAME, 12),
}
"""What is said first, the answer that is right, and how many bytes decide."""

KNOWN = tuple(_ASKED)
"""The protocols that can be asked."""

TLS_RECORD = (b"\x15\x03", b"\x16\x03")
"""How an alert and a handshake begin (RFC 8446 section 5.1): the answer of a TLS port to a client without TLS."""

_NOT_TLS = ("wrong version number", "record layer failure", "http request", "unknown protocol")
"""What OpenSSL calls an answer that is no TLS."""


class _Wrong(Exception):
    """What is wrong, and `final` if waiting is no use."""

    def __init__(self, what: str, *, final: bool = False) -> None:
        super().__init__(what)
        self.final = final


def wrong(
    protocol: str, host: str, port: int, timeout_s: float = 1.0, *, tls: ClientTls | None = None
) -> tuple[str, bool]:
    """What is wrong with the greeting at that port, and whether waiting is useless; empty if it is right.

    `timeout_s` is for the connection and for each of its bytes. Silence, an end and a refused connection may be those
    of a broker that is still starting; bytes of another protocol are final, and so is TLS where none was to be spoken,
    or none if it was. With `tls` it is asked in TLS; nothing is verified, which is what clients are for.
    """
    try:
        with _dialled(host, port, timeout_s, tls) as line:
            said = _answer(line, protocol)
    except _Wrong as error:
        return str(error), error.final
    if _ASKED[protocol][1].match(said):
        return "", False
    if tls is None and (said[:2] in TLS_RECORD or (not said and speaks_tls(host, port, timeout_s))):
        return f"{host}:{port} answers in TLS: say so ([access.tls], --tls, a URL of TLS), or take its plain port", True
    if said.strip(b"\r\n"):
        return f"{host}:{port} answers {said[:_LONGEST]!r}, which is not {_TITLES[protocol]}", True
    return f"{host}:{port} takes connections and says nothing in {_TITLES[protocol]}", False


def speaks_tls(host: str, port: int, timeout_s: float) -> bool:
    """Whether a server that is silent without TLS answers a handshake: some send no alert to ask for one."""
    import ssl

    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        asking.wrap_bio(incoming, outgoing, server_hostname=host).do_handshake()
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as line:
            line.sendall(outgoing.read())
            return line.recv(2) in TLS_RECORD
    except OSError:
        return False


def unreached(host: str, port: int, error: OSError) -> str:
    """Why no connection came to be, in words."""
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens on {host}:{port}"
    if isinstance(error, socket.gaierror):
        return f"{host} is no host that is known here: {error.strerror}"
    return f"{host}:{port} takes no connection: {error.strerror or type(error).__name__}"


def _answer(line: socket.socket, protocol: str) -> bytes:
    """As much as decides; silence and a reset end it, and what was said before them counts."""
    question, right, enough = _ASKED[protocol]
    said = b""
    with contextlib.suppress(OSError):
        line.sendall(question)
        while not right.match(said) and len(said.lstrip(b"\r\n")) < enough and len(said) < _LONGEST:
            more = line.recv(_LONGEST)
            if not more:
                break
            said += more
    return said


def _dialled(host: str, port: int, timeout_s: float, tls: ClientTls | None) -> socket.socket:
    context = None if tls is None else _context(tls)
    try:
        line = socket.create_connection((host, port), timeout=timeout_s)
    except OSError as error:
        raise _Wrong(unreached(host, port, error)) from error
    if tls is None or context is None:
        return line
    try:
        with hung_up_after(line, limits.HANDSHAKE_S):
            return context.wrap_socket(line, server_hostname=tls.server_name or host)
    except OSError as error:
        line.close()
        raise _no_tls(f"{host}:{port}", error) from error
    except BaseException:
        line.close()
        raise


def _context(tls: ClientTls) -> ssl.SSLContext:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if tls.certificate:
        try:
            context.load_cert_chain(tls.certificate, tls.key, password=_no_passphrase)
        except (OSError, ValueError) as error:
            what = f"{tls.certificate} and {tls.key} are no certificate with its key: {error}"
            raise _Wrong(f"tls.certificate and tls.key (--tls-cert, --tls-key): {what}", final=True) from error
    return context


def _no_passphrase() -> str:
    """Without it OpenSSL asks the terminal, and waits."""
    raise ValueError("the key has a passphrase, and there is nobody to ask; give one without")


def _no_tls(where: str, error: OSError) -> _Wrong:
    """A handshake that failed: an end or silence may be those of a broker that is starting."""
    import ssl

    reason = (getattr(error, "reason", None) or "").replace("_", " ").lower()
    if any(word in reason for word in _NOT_TLS):
        what = f"{where} answers, and not in TLS ({reason}): take its port of TLS, or leave TLS out"
        return _Wrong(what, final=True)
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return _Wrong(f"{where} refuses the TLS handshake ({reason or error})")
    return _Wrong(f"{where} takes connections and answers no TLS handshake")


_TITLES = {"amqp": "AMQP 1.0", "stomp": "STOMP"}
