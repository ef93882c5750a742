"""The login of an AMQP 1.0 connection: SASL by proton, and what it means where a peer refuses it."""

from __future__ import annotations

from typing import Any

from proton import SASL

from conformance.adapters.credentials import PLAIN, Access, mechanism_of, redacted
from conformance.clients.connecting import answered_in_tls, lacking
from conformance.errors import ClientError


class Login:
    """Reads the secret when it is made.

    Raises:
        UsageError: There is none where it should be.
        ClientError: This proton has no such mechanism.
    """

    def __init__(self, access: Access) -> None:
        if lacks := lacking(access):
            raise ClientError(lacks)
        self._access = access
        self._mechanism = mechanism_of(access)
        self._password = access.password.read() if access.password is not None else ""

    def prepare(self, transport: Any, connection: Any) -> None:
        """Before the two are bound: exactly this mechanism and no other.

        proton sees no TLS, which is below it: it would not say a password aloud. What carries it is the user's choice.
        """
        sasl = transport.sasl()
        sasl.allowed_mechs(self._mechanism)
        if self._mechanism == PLAIN:
            sasl.allow_insecure_mechs = True
        if self._access.user:
            connection.user, connection.password = self._access.user, self._password

    def refused(self, transport: Any, said: bytes | bytearray) -> str:
        """Why the connection cannot come to be, where the peer has shown it; empty where it may just have gone.

        `said` is what came and is no frame yet.
        """
        if wrong := answered_in_tls(said):
            return wrong
        condition = transport.condition
        outcome = transport.sasl().outcome
        unauthorized = condition is not None and condition.name == "amqp:unauthorized-access"
        if outcome in (None, SASL.OK) and not unauthorized:
            return ""
        who = f" of {self._access.user!r}" if self._access.user else ""
        offers = f" ({self.clean(condition.description)})" if condition is not None and condition.description else ""
        return f"SASL {self._mechanism}: the login{who} was refused{offers}; {self._next}"

    def done(self, transport: Any) -> bool:
        """Whether the peer has let us in."""
        return bool(transport.sasl().outcome == SASL.OK)

    def clean(self, text: str) -> str:
        """What a peer said, without the secret."""
        return redacted(text, self._access)

    def advice(self, condition: Any) -> str:
        """What to do where an endpoint was closed because of who we are; empty for another reason.

        Artemis takes SASL ANONYMOUS from everybody, and closes the connection at the first session of one whom it does
        not know (2.56.0, measured).
        """
        return f"; {self._next}" if condition.name == "amqp:unauthorized-access" else ""

    @property
    def _next(self) -> str:
        if self._access.password is not None:
            return f"look at the user and at {self._access.password}, and at the mechanisms that the broker takes"
        return (
            "give a login (--user with --password-env or --password-file) or a certificate (--tls-cert and --tls-key)"
        )
