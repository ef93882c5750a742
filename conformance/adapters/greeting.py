"""Whether a broker greets in its own protocol, in another, or not at all: three answers, since a user needs the second.

An open port is no proof: something else may listen there, or the broker has not begun to read.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping

from conformance.adapters.access import Tls

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


def wrong(protocol: str, host: str, port: int, timeout_s: float = 1.0, *, tls: Tls | None = None) -> tuple[str, bool]:
    """What is wrong with the greeting of whoever listens, and whether waiting is no use; nothing where it is right.

    `timeout_s` is for the connection and for each of its bytes. Silence, an end and a refused connection may be those
    of a broker that is still starting; bytes of another protocol are final. With `tls` it is asked in TLS; nothing is
    verified, which is what clients are for.
    """
    question, right, enough = _ASKED[protocol]
    said = b""
    try:
        with _dialled(host, port, timeout_s, tls) as line:
            line.sendall(question)
            while not right.match(said) and len(said.lstrip(b"\r\n")) < enough and len(said) < _LONGEST:
                more = line.recv(_LONGEST)
                if not more:
                    break
                said += more
    except ConnectionRefusedError:
        return f"nobody listens on {host}:{port}", False
    except OSError:  # silence, or a reset: what was said before it decides
        pass
    if right.match(said):
        return "", False
    if said.strip(b"\r\n"):
        return f"{host}:{port} answers {said[:_LONGEST]!r}, which is not {_TITLES[protocol]}", True
    return f"{host}:{port} takes connections and says nothing in {_TITLES[protocol]}", False


def _dialled(host: str, port: int, timeout_s: float, tls: Tls | None) -> socket.socket:
    line = socket.create_connection((host, port), timeout=timeout_s)
    if tls is None:
        return line
    import ssl

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        if tls.certificate:
            context.load_cert_chain(tls.certificate, tls.key)
        return context.wrap_socket(line, server_hostname=tls.server_name or host)
    except BaseException:
        line.close()
        raise


_TITLES = {"amqp": "AMQP 1.0", "stomp": "STOMP"}
