"""The addresses of an external broker, one a protocol and one of its management, and checks of the answer there."""

from __future__ import annotations

import socket
import time
import urllib.parse
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from conformance.adapters.credentials import OPEN, Access, ClientTls, Url, parse_url, scheme_of
from conformance.adapters.file.model import BrokerFile
from conformance.adapters.launch.readiness import GREETED, connect_error, greeting_error
from conformance.adapters.web import PORTS
from conformance.errors import LaunchError, UsageError
from conformance.protocols import SCHEMES, WIRES

HTTP = "http"
_CONNECT_S = 2.0
_WITNESS_S = 5.0
_YOUNG_S = 2.0
"""A broker may close a silent connection after 10 s; the witness is renewed long before."""


class Place(Url):
    """An address with its TLS and login. `protocol` is a word of `[protocols]`, or `http`."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def wrong(self, tls: ClientTls | None = None) -> tuple[str, bool]:
        """What is wrong with the answer there, and whether waiting is useless; see `greeting_error`.

        `tls` is that of the clients, which may be more than the address says. A management is only connected to.
        """
        if self.protocol in GREETED:
            return greeting_error(self.protocol, self.host, self.port, _CONNECT_S, tls=tls or self.access.tls)
        try:
            self._connect()
        except OSError as error:
            return connect_error(self.host, self.port, error), False
        return "", False

    @property
    def refuses(self) -> bool:
        """Whether nothing listens there; a broker that is slow to answer does listen."""
        try:
            self._connect()
        except OSError as error:
            return isinstance(error, ConnectionRefusedError)
        return False

    def _connect(self) -> None:
        socket.create_connection((self.host, self.port), _CONNECT_S).close()


class WitnessConnection:
    """A connection that shows that a broker ended, open from the beginning of its `with`.

    It is new, so the broker did not close it for being idle. `LaunchError` if no broker accepts it.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        try:
            self._line = socket.create_connection(address, _WITNESS_S)
        except OSError as error:
            raise LaunchError(f"{address[0]}:{address[1]} accepts no connection: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._line.close()

    def lost(self, within_s: float) -> bool:
        """Whether a connection that was open, and young, is ended by the peer, or a new one refused, in that time."""
        deadline = time.monotonic() + within_s
        while (left := deadline - time.monotonic()) > 0:
            self._line.settimeout(min(left, _YOUNG_S))
            try:
                if not self._line.recv(4096):
                    return True
            except TimeoutError:
                if not self._renewed():
                    return True
            except OSError:
                return True
        return False

    def _renewed(self) -> bool:
        """The new one is open before the old one is closed, so that no end falls between them."""
        try:
            line = socket.create_connection(self._address, _WITNESS_S)
        except ConnectionRefusedError:
            return False
        except OSError:  # slow to take it: the old one still stands
            return True
        self._line.close()
        self._line = line
        return True


def urls_by_protocol(urls: str) -> dict[str, str]:
    """`URL,URL` as a table of addresses by protocol; `UsageError` for two of one protocol."""
    found: dict[str, str] = {}
    for url in filter(None, (part.strip() for part in urls.split(","))):
        protocol = _place(url).protocol
        if protocol in found:
            raise UsageError(f"external={urls}: two addresses for {protocol}")
        found[protocol] = url
    return found


def places(urls: Mapping[str, str], file: BrokerFile) -> dict[str, Place]:
    """The addresses by protocol; `UsageError` if one is malformed, or is for another protocol than its key."""
    found: dict[str, Place] = {}
    for name, url in urls.items():
        if name != HTTP and name not in file.protocols:
            words = ", ".join([*examples(file), f"{HTTP}://HOST:PORT"])
            raise UsageError(f"external.urls: {url}: {file.name} speaks no {name}; its addresses are {words}")
        try:
            found[name] = _place(url)
        except UsageError as error:
            raise UsageError(f"external.urls.{name}: {error}") from error
        if found[name].protocol != name:
            raise UsageError(f"external.urls.{name}: {url} is an address for {found[name].protocol}")
    if not set(found) & set(file.protocols):
        raise UsageError(
            f"an external broker needs the address of a protocol: external={examples(file)[0]}, or external.urls"
        )
    return found


def with_management(urls: Mapping[str, str], port: int) -> dict[str, str]:
    """The addresses; if none is given for the management, its usual port is added, if there is one."""
    if not port or HTTP in urls or not urls:
        return dict(urls)
    host = _place(next(iter(urls.values()))).host
    return {**urls, HTTP: f"http://{f'[{host}]' if ':' in host else host}:{port}"}


def numbers_of(found: Mapping[str, Place], file: BrokerFile) -> dict[str, int]:
    """The ports of the file that have an address, by name."""
    numbers = {file.protocols[name].port: place.port for name, place in found.items() if name != HTTP}
    return {**numbers, **({HTTP: found[HTTP].port} if HTTP in found else {})}


def at_its_host(url: str, found: Mapping[str, Place], user: str = "") -> str:
    """Move an address of the file, which has its broker at 127.0.0.1, to the host of this broker.

    With `user` its login becomes that user, without a password.
    """
    parts = urllib.parse.urlsplit(url)
    place = found.get(HTTP)
    if place is None or parts.hostname != "127.0.0.1":
        return url
    login, at, _ = parts.netloc.rpartition("@")
    if user:
        login, at = urllib.parse.quote(user, safe=""), "@"
    host = f"[{place.host}]" if ":" in place.host else place.host
    scheme = "https" if place.access.tls is not None else parts.scheme
    return parts._replace(scheme=scheme, netloc=f"{login}{at}{host}:{parts.port or PORTS[parts.scheme]}").geturl()


def _place(url: str) -> Place:
    if url.startswith(("http://", "https://")):
        parts = urllib.parse.urlsplit(url)
        try:
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise UsageError(f"{url}: expected {parts.scheme}://HOST:PORT: {error}") from error
        if not host or parts.username is not None or parts.path not in ("", "/") or parts.query:
            raise UsageError(f"{url.rpartition('@')[2]}: expected {parts.scheme}://HOST:PORT, and nothing else")
        access = Access(tls=ClientTls()) if parts.scheme == "https" else OPEN
        return Place(HTTP, host, port or PORTS[parts.scheme], access)
    return Place(*parse_url(url))


def examples(file: BrokerFile) -> list[str]:
    """Return an address for each protocol that has a scheme; of a broker that has none, one of the default protocol."""
    known = [scheme_of(one) for one in file.protocols if scheme_of(one) in SCHEMES]
    return [f"{scheme}://HOST:PORT" for scheme in known or [scheme_of(WIRES[0])]]
