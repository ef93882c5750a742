"""Connect a client to a broker: socket, TLS, and the meaning of a refusal.

What is needed for that is plain data, `conformance.adapters.credentials`; the process of the client uses it here.
TLS is Python's own, for every client library alike: the bytes of a session stay in our hands, and one verification
with one set of messages serves all. `ssl` costs a start tens of milliseconds, and is imported where it is used.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

from conformance.adapters import web
from conformance.adapters.credentials import Access, ClientTls
from conformance.adapters.launch.greeting import TLS_RECORD, speaks_tls
from conformance.adapters.web import hung_up_after
from conformance.errors import ClientError

if TYPE_CHECKING:
    import ssl

_RECORD = 1 << 14
"""Plaintext of one TLS record (RFC 8446 section 5.1)."""

_IN_TLS = "it answers in TLS: use amqps:// or stomp+ssl:// (--tls-ca, [access.tls]), or take its plain port"
_LEAVES = (
    "ends each connection right after the handshake: it refused the client's certificate, or misses one; give one that "
    "it trusts (--tls-cert and --tls-key)"
)
_GREETS_S = 2.0

_VERIFIED = {
    9: "is not valid yet; look at the clocks of both sides",
    10: "has expired; give the broker a new one",
    62: "is for another host; give the name in it (--tls-server-name, tls.server_name)",
    64: "is for another address; give the name in it (--tls-server-name, tls.server_name)",
}
"""By OpenSSL's `X509_V_ERR_...`; all else is an authority that is not trusted."""

_UNTRUSTED = "is signed by nobody who is trusted; give its authority (--tls-ca, tls.ca)"


def dial(host: str, port: int, access: Access, connect_s: float) -> Line:
    """A connected socket, with TLS where it is asked for; `ClientError` that names what failed and the next step.

    `connect_s` is for the TCP connection, and again for the TLS handshake.
    """
    where = f"{host}:{port}"
    try:
        plain = socket.create_connection((host, port), timeout=connect_s)
    except OSError as error:
        raise ClientError(f"no connection to {where}: {error}") from error
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain if access.tls is None else _secured(plain, host, where, access.tls, connect_s)
    except BaseException:
        plain.close()
        raise


def _secured(plain: socket.socket, host: str, where: str, tls: ClientTls, within_s: float) -> TlsLine:
    import ssl

    try:
        with hung_up_after(plain, within_s):
            return TlsLine.over(plain, context(tls), tls.server_name or host)
    except ssl.SSLCertVerificationError as error:
        why = _VERIFIED.get(error.verify_code, _UNTRUSTED)
        raise ClientError(f"TLS: the certificate of {where} {why} ({error.verify_message.rstrip('.')})") from error
    except TimeoutError as error:
        raise ClientError(f"TLS: {where} did not answer a handshake in time; is that a port of TLS?") from error
    except ssl.SSLError as error:
        raise ClientError(f"TLS: {where} {told(error)}") from error
    except OSError as error:
        raise ClientError(
            f"TLS: {where} ended the handshake ({error or 'end of stream'}); is that a port of TLS? Does it want a "
            "client's certificate (--tls-cert, tls.certificate)?"
        ) from error


def context(tls: ClientTls) -> ssl.SSLContext:
    """For the side that connects: TLS 1.2 or later, certificate and name verified. `ClientError` names the file."""
    try:
        return web.context(tls)
    except OSError as error:
        raise ClientError(str(error)) from error


def told(error: ssl.SSLError) -> str:
    """What a failed handshake or an alert means, and the next step."""
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "wrong version number" in reason or "record layer failure" in reason or "http request" in reason:
        return f"does not speak TLS ({reason}); take its port of TLS, or leave TLS out (amqp://, stomp://)"
    if "alert" in reason and any(word in reason for word in ("certificate", "unknown ca", "access denied")):
        return f"refused the client's certificate ({reason}); give one that it trusts (--tls-cert and --tls-key)"
    return f"refused the TLS handshake ({reason})"


def answered_in_tls(said: bytes | bytearray) -> str:
    """What is wrong where the first bytes of a plain connection are TLS; empty where they are not."""
    return _IN_TLS if bytes(said[:2]) in TLS_RECORD else ""


def unanswered(host: str, port: int, access: Access, line: Line) -> str:
    """Why a peer that has said nothing at all may have ended the connection, where that can be shown; else empty.

    Of TLS 1.3 a client learns by an alert after its handshake that its certificate was refused. Who was spoken to
    plainly is asked for a handshake: a broker that has just died answers none.
    """
    if isinstance(line, TlsLine):
        alert = line.alert or _ends_at_once(host, port, access)
        return alert and f"TLS: it {alert}"
    return _IN_TLS if speaks_tls(host, port, _GREETS_S) else ""


def _ends_at_once(host: str, port: int, access: Access) -> str:
    """Whether it shakes hands once more and leaves although nobody said anything: not every server sends its alert."""
    try:
        line = dial(host, port, access, _GREETS_S)
    except ClientError:  # it is gone
        return ""
    try:
        return "" if line.recv(1) else _LEAVES
    except TimeoutError:
        return ""
    except OSError:
        return _LEAVES
    finally:
        line.close()


class _Stream:
    """The TLS of one connection; what touches it holds the lock, and nobody waits for a peer with the lock held."""

    def __init__(self, made: ssl.SSLContext, name: str) -> None:
        import ssl

        self.lock = threading.Lock()
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = made.wrap_bio(self.incoming, self.outgoing, server_hostname=name)
        self.output = bytearray()
        self.taken = 0
        self.ended = False
        self.alert = ""


class TlsLine:
    """A socket with TLS, as far as sessions use one: one thread may read while another writes.

    OpenSSL allows no two threads in one connection, and Python's own TLS socket of 3.11 has no lock: a reader thread
    as stomp.py has one would meet our writes in there. `recv` returns all that can be decrypted, so that a poll on
    the descriptor tells the truth: nothing is left behind it. It may be more than was asked for.

    Raises `BlockingIOError` and `OSError` as a socket does; an alert of the peer is an `ssl.SSLError`, which is one.
    """

    def __init__(self, plain: socket.socket, stream: _Stream) -> None:
        self._plain, self._stream = plain, stream

    @classmethod
    def over(cls, plain: socket.socket, made: ssl.SSLContext, name: str) -> TlsLine:
        """After the handshake, as the side that connects; the socket's timeout is for each of its reads."""
        import ssl

        stream = _Stream(made, name)
        while True:
            try:
                stream.tls.do_handshake()
            except ssl.SSLWantReadError:
                plain.sendall(stream.outgoing.read())
                more = plain.recv(_RECORD)
                if not more:
                    raise ConnectionResetError("end of stream") from None
                stream.incoming.write(more)
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    plain.sendall(stream.outgoing.read())  # our alert says why
                raise
            else:
                plain.sendall(stream.outgoing.read())
                return cls(plain, stream)

    def send(self, data: bytes | bytearray | memoryview, flags: int = 0) -> int:
        """Encrypt at most one record of it and send that; how many bytes of `data` have left.

        After a `BlockingIOError` it must be called again with data that begins with the same bytes: the record is
        made already, and only the rest of it is sent.
        """
        stream = self._stream
        with stream.lock:
            if not stream.taken:
                stream.taken = stream.tls.write(bytes(memoryview(data)[:_RECORD]))
                stream.output += stream.outgoing.read()
            self._flush(flags)
            sent, stream.taken = stream.taken, 0
            return sent

    def recv(self, size: int) -> bytes:
        """What has come and can be read; empty at the end of the stream."""
        stream = self._stream
        while True:
            with stream.lock:  # what came with the handshake, before anything is waited for
                found = self._decrypted()
            if found or stream.ended:
                return found
            more = self._plain.recv(size)
            with stream.lock:
                if more:
                    stream.incoming.write(more)
                else:
                    stream.ended = True

    @property
    def alert(self) -> str:
        """What the peer's alert, or what is no TLS, means, and the next step; empty where there was none."""
        return self._stream.alert

    def dup(self) -> TlsLine:
        """The same connection under a descriptor of its own."""
        return TlsLine(self._plain.dup(), self._stream)

    def fileno(self) -> int:
        """Of the socket below; -1 when it is closed."""
        return self._plain.fileno()

    def setsockopt(self, level: int, name: int, value: int) -> None:
        """On the socket below."""
        self._plain.setsockopt(level, name, value)

    def setblocking(self, flag: bool) -> None:
        """On the socket below."""
        self._plain.setblocking(flag)

    def getsockname(self) -> object:
        """Of the socket below."""
        return self._plain.getsockname()

    def shutdown(self, how: int) -> None:
        """Of the socket below: who waits in `recv` wakes up."""
        self._plain.shutdown(how)

    def close(self) -> None:
        """Say goodbye as far as that goes without waiting, and close the socket below."""
        if self._plain.fileno() >= 0:
            with contextlib.suppress(OSError), self._stream.lock:
                self._farewell()
        self._plain.close()

    def _farewell(self) -> None:
        """Our close_notify; the peer's is not waited for (RFC 8446 section 6.1)."""
        import ssl

        with contextlib.suppress(ssl.SSLError):
            self._stream.tls.unwrap()
        self._stream.output += self._stream.outgoing.read()
        self._flush(socket.MSG_DONTWAIT)

    def _flush(self, flags: int = 0) -> None:
        output = self._stream.output
        while output:
            del output[: self._plain.send(output, flags)]

    def _decrypted(self) -> bytes:
        import ssl

        stream, found = self._stream, bytearray()
        try:
            while data := stream.tls.read(_RECORD):
                found += data
            stream.ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:  # the peer's close_notify
            stream.ended = True
        except ssl.SSLError as error:
            stream.alert = told(error)
            if not found:
                raise
            stream.ended = True  # what came before it is handed over
        if stream.ended and found:
            with contextlib.suppress(OSError):
                self._plain.shutdown(socket.SHUT_RD)  # readable from now on: the end is told by the next read
        stream.output += stream.outgoing.read()  # an answer to a key update
        if stream.output and not stream.taken:
            with contextlib.suppress(BlockingIOError):
                self._flush(socket.MSG_DONTWAIT)
        return bytes(found)


Line = socket.socket | TlsLine
