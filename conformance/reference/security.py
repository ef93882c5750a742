"""The login of a client, and TLS. Functions import `ssl` when they need it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from conformance.errors import LaunchError

if TYPE_CHECKING:
    import ssl


class Guard(NamedTuple):
    """The login that the broker requires. With a `user`, a client needs that name and password, or a certificate."""

    user: str | None = None
    password: bytes = b""

    def knows(self, user: bytes, password: bytes) -> bool:
        """Whether these are the user's; it takes as long for a wrong password as for the right one."""
        import hmac

        ours, theirs = (self.user or "").encode() + b"\0" + self.password, user + b"\0" + password
        return self.user is not None and hmac.compare_digest(ours, theirs)


OPEN = Guard()
"""No login is required."""


class ServerTls(NamedTuple):
    """Files in PEM: certificate (with its chain) and key of the broker, and those who may sign peers' certificates."""

    certificate: Path
    key: Path
    authorities: Path | None = None


def context(tls: ServerTls) -> ssl.SSLContext:
    """For the listening side: TLS 1.2 or later; a peer is asked for a certificate where there are authorities.

    A client without a certificate may connect (ANONYMOUS, or PLAIN); an untrusted certificate ends the handshake.
    Raises `LaunchError` for a file that cannot be used.
    """
    import ssl

    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        made.load_cert_chain(tls.certificate, tls.key)
    except (OSError, ValueError) as error:
        raise LaunchError(f"TLS: {tls.certificate} and {tls.key} are no certificate with its key: {error}") from error
    if tls.authorities is not None:
        try:
            made.load_verify_locations(tls.authorities)
        except (OSError, ValueError) as error:
            raise LaunchError(f"TLS: {tls.authorities} has no certificates of authorities: {error}") from error
        made.verify_mode = ssl.CERT_OPTIONAL
    return made


def subject(certificate: dict[str, Any] | None) -> str | None:
    """The subject of a verified certificate as Python's `getpeercert` gives it, in the order of RFC 4514.

    >>> subject({"subject": ((("organizationName", "Acme"),), (("commonName", "alice"),))})
    'commonName=alice,organizationName=Acme'
    """
    if not certificate:
        return None
    return ",".join("+".join(f"{name}={value}" for name, value in part) for part in reversed(certificate["subject"]))
