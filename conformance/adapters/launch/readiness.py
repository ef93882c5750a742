"""The checks that a started broker must pass before it is ready, the cheapest first.

All launchers use these checks. An open port of a container proves nothing: the engine's proxy accepts connections
before the broker listens, and closes them again. So the container's list of listening sockets is read as well.

An open port is no proof anywhere: something else may listen there, or the broker has not begun to read. So a port is
asked to greet in its protocol.
"""

from __future__ import annotations

import contextlib
import pathlib
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping

from conformance import limits
from conformance.adapters import ports, web
from conformance.adapters.broker_log import end_of
from conformance.adapters.credentials import ClientTls
from conformance.adapters.distribution.versions import logged_version
from conformance.adapters.file.placeholders import fill
from conformance.adapters.file.reading import uses
from conformance.adapters.file.settings import queue_files
from conformance.adapters.launch.plan import Plan
from conformance.adapters.launch.queue_declaration import lasting
from conformance.errors import BlockedError, ClientError, LoginError
from conformance.protocols import PROTOCOLS
from conformance.protocols.model import Greeting


class WrongProtocolError(Exception):
    """Something else answers at a port of the broker: waiting longer is useless."""


LOGIN_S = 5.0
"""How long a broker that has just started may refuse a login: it may not have read its users yet."""


class RefusedLogins:
    """Decides when a refused login, or an alarm, is final: it has been the only answer for `within_s`."""

    def __init__(self, within_s: float) -> None:
        self._within_s = within_s
        self._since: float | None = None

    def final(self, error: ClientError) -> bool:
        if not isinstance(error, LoginError | BlockedError):
            self._since = None
            return False
        self._since = time.monotonic() if self._since is None else self._since
        return time.monotonic() - self._since >= self._within_s


class Readiness:
    """The conditions of `[start]`, each with its key.

    Args:
        plan: The broker.
        numbers: Its ports by name.
        listening: The addresses and ports at which its processes listen, for a hint if one of its ports is missing.
        inside: Its ports in the container; `listening` are ports of the container then.
    """

    def __init__(
        self,
        plan: Plan,
        numbers: Mapping[str, int],
        listening: Callable[[], Iterable[tuple[str, int]]],
        inside: Mapping[str, int] | None = None,
    ) -> None:
        self._plan, self._numbers, self._listening, self._inside = plan, numbers, listening, inside
        self._start = plan.source.file.start
        self._own_log = pathlib.Path(plan.words["log_file"])
        self._seen = 0

    def begins(self) -> None:
        """Begin a start: the present content of `{log_file}` is of an earlier one."""
        self._seen = self._own_log.stat().st_size if self._own_log.is_file() else 0

    def said(self, log: pathlib.Path) -> bytes:
        """Return the log of this start: its output in `log`, and its part of `{log_file}`, at most the end of each."""
        return end_of(log) + end_of(self._own_log, self._own_start)

    def said_first(self, log: pathlib.Path) -> str:
        """Return the same, at most the beginning of each: a broker says there what it is."""
        read = _beginning_of(log, 0) + _beginning_of(self._own_log, self._own_start)
        return read.decode(errors="replace")

    @property
    def _own_start(self) -> int:
        """Where this start begins in `{log_file}`. All of a log that became shorter is of this start."""
        size = self._own_log.stat().st_size if self._own_log.is_file() else 0
        return self._seen if size >= self._seen else 0

    def logged(self, log: pathlib.Path) -> bool:
        """Whether `start.ready_log` was logged; true if the file has none."""
        return not self._start.ready_log or self.has(self._start.ready_log, log)

    def has(self, pattern: str, log: pathlib.Path) -> bool:
        """Whether the log of this start has the pattern."""
        return re.search(pattern.encode(), self.said(log), re.MULTILINE) is not None

    def lacks(self, log: pathlib.Path) -> str:
        """Describe the first condition that is not met; empty if it is ready. Raises `WrongProtocolError`."""
        if not self.logged(log):
            return f"start.ready_log: its log has no {self._start.ready_log!r}"
        return self.unreached() or self._http() or self._unversioned(log)

    def unstored(self) -> str:
        """Describe the first declared queue that a kill would lose; empty if there is none, or if none is to last."""
        if not lasting(self._plan):
            return ""
        for key, wanted in queue_files(self._plan.source.file, self._plan.settings).items():
            found = pathlib.Path(self._plan.words["data_dir"]).glob(wanted.files)
            held = [file.read_bytes() for file in found if file.is_file()]
            for queue in self._plan.queues:
                pattern = fill(wanted.pattern, {"queue": re.escape(self._plan.named(queue))}, f"{key}.pattern").encode()
                if not any(re.search(pattern, data) for data in held):
                    return f"{key}: no file {wanted.files} has {wanted.pattern!r} of queue {queue}"
        return ""

    def unreached(self) -> str:
        """Describe the first port at which it does not answer as it should; empty if there is none."""
        file = self._plan.source.file
        for name in self._start.ready_ports:
            number = self._numbers[name]
            spoken = [word for word, one in file.protocols.items() if one.port == name and word in GREETED]
            if not spoken and not self._listens(name):
                return f"start.ready_port: nothing listens on {ports.HOST}:{number} ({name}){self._elsewhere(name)}"
            for protocol in spoken:
                tls = file.access.of(protocol, self._plan.source.here).tls
                what, final = greeting_error(protocol, ports.HOST, number, tls=tls)
                if final:
                    raise WrongProtocolError(f"protocols.{protocol}.port: {name}, {what}")
                if what:
                    hint = self._elsewhere(name) if what.startswith("nothing") or self._inside else ""
                    return f"start.ready_port: {what} ({name}){hint}"
        return ""

    def _unversioned(self, log: pathlib.Path) -> str:
        file = self._plan.source.file
        if not file.version.logged or logged_version(file, self.said_first(log)):
            return ""
        return f"version.logged: its log has no {file.version.logged!r}"

    def _listens(self, name: str) -> bool:
        if self._inside is not None and self._inside[name] not in self._reachable():
            return False
        return _accepts(self._numbers[name])

    def _reachable(self) -> set[int]:
        """The ports at which other hosts, or the engine, reach it."""
        return {number for address, number in self._listening() if not address.startswith("127.") and address != "::1"}

    def _elsewhere(self, name: str) -> str:
        """The other ports at which its processes listen, and whether the file gives the broker its port."""
        numbers = self._inside or self._numbers
        every = {number for _, number in self._listening()}
        found = every - set(numbers.values())
        given = f"{name}_port" in uses(self._plan.source.file, self._plan.source.here)
        hints = [f"its processes listen on {', '.join(map(str, sorted(found)))}"] if found else []
        if self._inside and numbers[name] in every - self._reachable():
            hints.append(f"inside it listens on 127.0.0.1:{numbers[name]}, out of reach: let it listen on {{listen}}")
        elif not given and not self._inside:  # an image may know its ports
            hints.append(f"{{{name}_port}} is not in the file, so the broker does not know its port")
        return "".join(f"; {hint}" for hint in hints)

    def _http(self) -> str:
        wanted = self._start.ready_http
        if wanted is None:
            return ""
        url = fill(wanted.url, self._plan.words, "start.ready_http")
        asked = f"start.ready_http: GET {web.without_login(url)}"
        try:
            status, body = web.ask("GET", url, timeout_s=2.0, access=self._plan.http_access)
        except OSError as error:
            return f"{asked}: {error}"
        if status != wanted.status:
            return f"{asked} answered {status}, not {wanted.status}"
        if not wanted.field:
            return ""
        try:
            found = web.field_of(body, wanted.field)
        except ValueError as error:
            return f"{asked}: {error} in {body[:200]!r}"
        return "" if found == wanted.value else f"{asked}: {wanted.field} is {found!r}, not {wanted.value!r}"


def _beginning_of(log: pathlib.Path, start: int) -> bytes:
    if not log.is_file():
        return b""
    with log.open("rb") as stream:
        stream.seek(start)
        return stream.read(limits.LOG)


def _accepts(port: int) -> bool:
    try:
        with socket.create_connection((ports.HOST, port), timeout=1):
            return True
    except OSError:
        return False


def not_served(error: ClientError) -> str:
    """Return how a broker does not serve the suite for good: it refuses the login, or an alarm blocks producers."""
    return f"refuses the login of the suite: {error}" if isinstance(error, LoginError) else f"is blocked: {error}"


_LONGEST = 64

GREETED: Mapping[str, Greeting] = {name: each.greeting for name, each in PROTOCOLS.items() if each.greeting}
"""The protocols that can be asked, and how."""

TLS_RECORD = (b"\x15\x03", b"\x16\x03")
"""How an alert and a handshake begin (RFC 8446 section 5.1): the answer of a TLS port to a client without TLS."""

_NOT_TLS = ("wrong version number", "record layer failure", "http request", "unknown protocol")
"""OpenSSL's words for an answer that is not TLS."""


class _GreetingError(Exception):
    """The greeting is wrong; `final` if waiting is useless."""

    def __init__(self, what: str, *, final: bool = False) -> None:
        super().__init__(what)
        self.final = final


def greeting_error(
    protocol: str, host: str, port: int, timeout_s: float = 1.0, *, tls: ClientTls | None = None
) -> tuple[str, bool]:
    """Return what is wrong with the greeting at that port, and whether waiting is useless; empty if it is right.

    `timeout_s` is for the connection and for each of its bytes. A broker that is still starting may be silent, close
    the connection or refuse it. Bytes of another protocol are final, and so is TLS that was not expected, or expected
    and missing. With `tls` the port is asked in TLS. Nothing is verified: the clients do that.
    """
    try:
        with _dialled(host, port, timeout_s, tls) as line:
            said = _answer(line, protocol)
    except _GreetingError as error:
        return str(error), error.final
    if GREETED[protocol].answer.match(said):
        return "", False
    title = PROTOCOLS[protocol].title
    if tls is None and (said[:2] in TLS_RECORD or (not said and speaks_tls(host, port, timeout_s))):
        return f"{host}:{port} answers in TLS: say so ([access.tls], --tls, a URL of TLS), or use its plain port", True
    if said.strip(b"\r\n"):
        return f"{host}:{port} answers {said[:_LONGEST]!r}, which is not {title}", True
    return f"{host}:{port} accepts connections and says nothing in {title}", False


def speaks_tls(host: str, port: int, timeout_s: float) -> bool:
    """Whether a server that is silent without TLS answers a handshake: some send no alert to ask for one."""
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


def connect_error(host: str, port: int, error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens on {host}:{port}"
    if isinstance(error, socket.gaierror):
        return f"the host {host} is unknown: {error.strerror}"
    return f"{host}:{port} accepts no connection: {error.strerror or type(error).__name__}"


def _answer(line: socket.socket, protocol: str) -> bytes:
    """Read as much as decides. Silence and a reset end it; the bytes before them count."""
    question, right, enough = GREETED[protocol]
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
    try:
        context = web.context(tls, verified=False) if tls else None
    except OSError as error:
        raise _GreetingError(str(error), final=True) from error
    try:
        line = socket.create_connection((host, port), timeout=timeout_s)
    except OSError as error:
        raise _GreetingError(connect_error(host, port, error)) from error
    if tls is None or context is None:
        return line
    try:
        with web.hung_up_after(line, limits.HANDSHAKE_S):
            return context.wrap_socket(line, server_hostname=tls.server_name or host)
    except OSError as error:
        line.close()
        raise _no_tls(f"{host}:{port}", error) from error
    except BaseException:
        line.close()
        raise


def _no_tls(where: str, error: OSError) -> _GreetingError:
    """A handshake that failed: an end or silence may be those of a broker that is starting."""
    reason = (getattr(error, "reason", None) or "").replace("_", " ").lower()
    if any(word in reason for word in _NOT_TLS):
        what = f"{where} does not answer in TLS ({reason}): use its TLS port, or leave TLS out"
        return _GreetingError(what, final=True)
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return _GreetingError(f"{where} refuses the TLS handshake ({reason or error})")
    return _GreetingError(f"{where} accepts connections and answers no TLS handshake")
