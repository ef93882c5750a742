"""The login of a STOMP connection: what CONNECT says of who we are, and what it means where the answer is no."""

from __future__ import annotations

from collections.abc import Mapping

from conformance import limits
from conformance.adapters.credentials import REDACTED, Access, redacted
from conformance.clients.connecting import Line, dial, unanswered


class StompLogin:
    """Where the broker is and how one comes in; it reads the secret when it is made.

    Attributes:
        headers: `host`, and `login` and `passcode` where there is a user (STOMP 1.2, CONNECT or STOMP Frame).

    Raises:
        UsageError: The secret is not where it should be.
    """

    def __init__(self, host: str, port: int, access: Access) -> None:
        self.host, self.port, self.access = host, port, access
        self.headers = {"host": (access.tls and access.tls.server_name) or host}
        if access.password is not None:
            self.headers |= {"login": access.user, "passcode": access.password.read()}

    def dial(self, connect_s: float) -> Line:
        """See `access.dial`."""
        return dial(self.host, self.port, self.access, connect_s)

    def clean(self, text: str) -> str:
        """What a peer said, without the secret, and cut where it is too long."""
        return limits.quoted(redacted(text, self.access))

    def refused(self, told: str) -> str:
        """What an ERROR before CONNECTED means."""
        if self.access.password is None:
            return f"{self._where}: {told}, and no CONNECTED; where it wants a login, give --user and --password-env"
        who = f"the login of {self.access.user!r}"
        return f"{self._where}: {who} was refused: {told}; look at the user and at {self.access.password}"

    def lost(self, line: Line, reason: str) -> str:
        """What an end of the stream, or what is no STOMP, before CONNECTED means."""
        why = unanswered(self.host, self.port, self.access, line)
        return f"{self._where}: {why or f'the broker ended the connection before CONNECTED: {reason}'}"

    @property
    def _where(self) -> str:
        return f"{self.host}:{self.port}"


def without_secret(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Headers of a frame as others may see them."""
    return {**headers, "passcode": REDACTED} if "passcode" in headers else headers
