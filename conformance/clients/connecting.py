"""Connect a client to a broker: socket, TLS, and the meaning of a refusal.

The settings are plain data in `conformance.adapters.credentials`; the client process uses them here. Every client
library uses Python's own TLS: sessions keep control of their bytes, and one verification serves all. `ssl` adds tens of
milliseconds to the start of a process, so it is imported where it is used.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

from conformance import limits
from conformance.adapters import web
from conformance.adapters.credentials import Access, ClientTls, redact_passwords
from conformance.adapters.launch.readiness import TLS_RECORD, speaks_tls
from conformance.adapters.web import hung_up_after
from conformance.errors import ClientError

if TYPE_CHECKING:
    import ssl

_RECORD = 1 << 14
"""Plaintext of one TLS record (RFC 8446 section 5.1)."""

_IN_TLS = "it answers in TLS: use amqps:// or stomp+ssl:// (--tls-ca, [access.tls]), or use its plain port"
_LEAVES = (
    "ends each connection right after the handshake: it refused the client's certificate, or requires one; give one "
    "that it trusts (--tls-cert and --tls-key)"
)
_GREETS_S = 2.0

_VERIFIED = {
    9: "is not valid yet; look at the clocks of both sides",
    10: "has expired; give the broker a new one",
    62: "is for another host; give the name in it (--tls-server-name, tls.server_name)",
    64: "is for another address; give the name in it (--tls-server-name, tls.server_name)",
}
"""By OpenSSL's `X509_V_ERR_...`; every other error means an authority that is not trusted."""

_UNTRUSTED = "is signed by an authority that is not trusted; give its authority (--tls-ca, tls.ca)"


class Login:
    """Where the broker is, and the TLS and login of one connection to it. It reads the secret when it is made.

    Raises:
        UsageError: The secret is not where it should be.
    """

    def __init__(self, host: str, port: int, access: Access) -> None:
        self._host, self._port, self.access = host, port, access
        self.where = f"{host}:{port}"
        self.server_name = (access.tls and access.tls.server_name) or host
        self.password = access.password.read() if access.password is not None else ""

    def dial(self, connect_s: float) -> Line:
        """Return a connected socket, with TLS if `access` asks for it.

        `connect_s` limits the TCP connection, and again the TLS handshake. `ClientError` names what failed and what to
        do.
        """
        try:
            plain = socket.create_connection((self._host, self._port), timeout=connect_s)
        except OSError as error:
            raise ClientError(f"no connection to {self.where}: {error}") from error
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return plain if self.access.tls is None else self._secured(plain, self.access.tls, connect_s)
        except BaseException:
            plain.close()
            raise

    def _secured(self, plain: socket.socket, tls: ClientTls, within_s: float) -> TlsLine:
        import ssl

        where = self.where
        try:
            with hung_up_after(plain, within_s):
                return TlsLine.over(plain, _context(tls), self.server_name)
        except ssl.SSLCertVerificationError as error:
            why = _VERIFIED.get(error.verify_code, _UNTRUSTED)
            raise ClientError(f"TLS: the certificate of {where} {why} ({error.verify_message.rstrip('.')})") from error
        except TimeoutError as error:
            raise ClientError(f"TLS: {where} did not answer a handshake in time; is that a TLS port?") from error
        except ssl.SSLError as error:
            raise ClientError(f"TLS: {where} {explain(error)}") from error
        except OSError as error:
            raise ClientError(
                f"TLS: {where} ended the handshake ({error or 'end of stream'}); is that a TLS port? Does it require a "
                "client's certificate (--tls-cert, tls.certificate)?"
            ) from error

    @property
    def where_to_look(self) -> str:
        """Return where the user and the password were given: options, or keys of a broker file."""
        secret = self.access.password
        option = "--password-env" if secret and secret.env else "--password-file"
        return f"look at the user (--user, access.user) and at {secret} ({option}, access.password)"

    def turned_away(self, said: str) -> str:
        """Say that the broker refused the login, by its own words, and what to do."""
        if self.access.password is None:
            return f"{self.where}: {said}; if it requires a login, give --user and --password-env"
        return f"{self.where}: the login of {self.access.user!r} was refused: {said}; {self.where_to_look}"

    def clean(self, text: str) -> str:
        """Return words of the peer without the secret, which it may quote, and cut to a bounded length."""
        return limits.quote(redact_passwords(text, self.access))

    def unanswered(self, line: Line) -> str:
        """Return why a peer that sent nothing may have ended the connection, if that can be shown; else empty.

        With TLS 1.3 a client learns by an alert after its handshake that its certificate was refused. If the connection
        is plain, try a TLS handshake on a second one: a broker that has just died answers none.
        """
        if isinstance(line, TlsLine):
            alert = line.alert or self._ends_at_once()
            return alert and f"TLS: it {alert}"
        return _IN_TLS if speaks_tls(self._host, self._port, _GREETS_S) else ""

    def _ends_at_once(self) -> str:
        """Return the reason if a second connection ends right after its handshake: not every server sends an alert."""
        try:
            line = self.dial(_GREETS_S)
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


def _context(tls: ClientTls) -> ssl.SSLContext:
    """Return a client's context: TLS 1.2 or later, certificate and name verified. `ClientError` names the file."""
    try:
        return web.context(tls)
    except OSError as error:
        raise ClientError(str(error)) from error


def explain(error: ssl.SSLError) -> str:
    """Say what a failed handshake or an alert means, and what to do."""
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "wrong version number" in reason or "record layer failure" in reason or "http request" in reason:
        return f"does not speak TLS ({reason}); use its TLS port, or connect without TLS (amqp://, stomp://)"
    if "alert" in reason and any(word in reason for word in ("certificate", "unknown ca", "access denied")):
        return f"refused the client's certificate ({reason}); give one that it trusts (--tls-cert and --tls-key)"
    return f"refused the TLS handshake ({reason})"


def answered_in_tls(said: bytes | bytearray) -> str:
    """Return what to do if the first bytes of a plain connection are TLS; empty if they are not."""
    return _IN_TLS if bytes(said[:2]) in TLS_RECORD else ""


class _Stream:
    """The TLS state of one connection. Hold the lock to touch it, and never wait for the peer with the lock held."""

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
    """A socket with TLS, with the methods that sessions use: one thread may read while another writes.

    OpenSSL does not allow two threads in one connection, and Python's own TLS socket of 3.11 has no lock: stomp.py's
    reader thread would collide with our writes. `recv` returns everything that can be decrypted, even more than was
    asked for: so no decrypted byte waits behind a descriptor that poll reports as empty.

    Raises `BlockingIOError` and `OSError` as a socket does; an alert of the peer is an `ssl.SSLError`, which is one.
    """

    def __init__(self, plain: socket.socket, stream: _Stream) -> None:
        self._plain, self._stream = plain, stream

    @classmethod
    def over(cls, plain: socket.socket, made: ssl.SSLContext, name: str) -> TlsLine:
        """Do the client's handshake and return the line. The socket's timeout limits each of its reads."""
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
        """Encrypt and send at most one record; return how many bytes of `data` that were.

        After a `BlockingIOError` call it again with data that begins with the same bytes: the record exists already,
        and only the rest of it is sent.
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
        """Wait for data and return all that can be decrypted; empty at the end of the stream."""
        stream = self._stream
        while True:
            with stream.lock:  # data that arrived with the handshake is read without waiting
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
        """Explanation of the peer's alert, or of bytes that are no TLS; empty if there were none."""
        return self._stream.alert

    def dup(self) -> TlsLine:
        """Return the same connection under a second descriptor."""
        return TlsLine(self._plain.dup(), self._stream)

    def fileno(self) -> int:
        """Return the descriptor of the socket below; -1 if it is closed."""
        return self._plain.fileno()

    def setsockopt(self, level: int, name: int, value: int) -> None:
        self._plain.setsockopt(level, name, value)

    def setblocking(self, flag: bool) -> None:
        self._plain.setblocking(flag)

    def getsockname(self) -> object:
        return self._plain.getsockname()

    def shutdown(self, how: int) -> None:
        """Shut down the socket below: a thread that waits in `recv` wakes up."""
        self._plain.shutdown(how)

    def close(self) -> None:
        """Send close_notify if that needs no waiting, and close the socket below."""
        if self._plain.fileno() >= 0:
            with contextlib.suppress(OSError), self._stream.lock:
                self._notify_close()
        self._plain.close()

    def _notify_close(self) -> None:
        """Send close_notify; do not wait for the peer's (RFC 8446 section 6.1)."""
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
            stream.alert = explain(error)
            if not found:
                raise
            stream.ended = True  # return the data before it first
        if stream.ended and found:
            with contextlib.suppress(OSError):
                self._plain.shutdown(socket.SHUT_RD)  # poll stays readable: the next read reports the end
        stream.output += stream.outgoing.read()  # for example the answer to a key update
        if stream.output and not stream.taken:
            with contextlib.suppress(BlockingIOError):
                self._flush(socket.MSG_DONTWAIT)
        return bytes(found)


Line = socket.socket | TlsLine
