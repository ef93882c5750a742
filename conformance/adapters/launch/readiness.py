"""The checks that a started broker must pass before it is ready, the cheapest first.

All launchers use these checks. An open port of a container proves nothing: the engine's proxy accepts connections
before the broker listens, and closes them again. So the container's list of listening sockets is read as well.
"""

from __future__ import annotations

import pathlib
import re
import socket
from collections.abc import Callable, Iterable, Mapping

from conformance import limits
from conformance.adapters import web
from conformance.adapters.file.placeholders import fill
from conformance.adapters.file.reading import uses
from conformance.adapters.file.settings import stored
from conformance.adapters.launch import greeting, ports
from conformance.adapters.launch.prepared import Plan


class WrongProtocolError(Exception):
    """Something else answers at a port of the broker: waiting longer is useless."""


class Readiness:
    """The conditions of `[start]`, each with its key.

    Args:
        plan: The broker.
        numbers: Its ports by name.
        listening: The addresses and numbers at which its processes listen, to say where they do instead.
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
        self._own_log = pathlib.Path(plan.words.get("log_file", ""))
        self._seen = 0

    def begins(self) -> None:
        """Begin a start: the present content of `{log_file}` is of an earlier one."""
        self._seen = self._own_log.stat().st_size if self._own_log.is_file() else 0

    def said(self, log: pathlib.Path) -> bytes:
        """Return the log of this start: its output in `log`, and its part of `{log_file}`, at most the end of each."""
        size = self._own_log.stat().st_size if self._own_log.is_file() else 0
        # A log that became shorter was begun anew: then all of it is of this start.
        return _end_of(log, 0) + _end_of(self._own_log, self._seen if size >= self._seen else 0)

    def logged(self, log: pathlib.Path) -> bool:
        """Whether the pattern was logged; true if none is asked for."""
        wanted = self._start.ready_log
        return not wanted or re.search(wanted.encode(), self.said(log), re.MULTILINE) is not None

    def lacks(self, log: pathlib.Path) -> str:
        """The first condition that is not met, in words; empty if it is ready. Raises `WrongProtocolError`."""
        if not self.logged(log):
            return f"start.ready_log: its log has no {self._start.ready_log!r}"
        return self.unreached() or self._http()

    def unstored(self) -> str:
        """Of its queues, once they are declared, the first that a kill would take with it, in words; empty for none."""
        for key, wanted in stored(self._plan.source.file, self._plan.settings).items():
            held = [file.read_bytes() for file in pathlib.Path(self._plan.words["data_dir"]).glob(wanted.files)]
            for queue in self._plan.queues:
                pattern = fill(wanted.pattern, {"queue": re.escape(queue)}, f"{key}.pattern").encode()
                if not any(re.search(pattern, data) for data in held):
                    return f"{key}: no file {wanted.files} has {wanted.pattern!r} of queue {queue}"
        return ""

    def unreached(self) -> str:
        """The first port at which it does not answer as it should; empty if there is none."""
        file = self._plan.source.file
        for name in self._start.ready_ports:
            number = self._numbers[name]
            spoken = [word for word, one in file.protocols.items() if one.port == name and word in greeting.KNOWN]
            if not spoken and not self._listens(name):
                return f"start.ready_port: nothing listens on {ports.HOST}:{number} ({name}){self._elsewhere(name)}"
            for protocol in spoken:
                tls = file.access.of(protocol, self._plan.source.here).tls
                what, final = greeting.wrong(protocol, ports.HOST, number, tls=tls)
                if final:
                    raise WrongProtocolError(f"protocols.{protocol}.port: {name}, {what}")
                if what:
                    hint = self._elsewhere(name) if what.startswith("nothing") or self._inside else ""
                    return f"start.ready_port: {what} ({name}){hint}"
        return ""

    def _listens(self, name: str) -> bool:
        if self._inside is not None and self._inside[name] not in self._reachable():
            return False
        return _takes(self._numbers[name])

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
        asked = f"start.ready_http: GET {web.shown(url)}"
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


def _end_of(log: pathlib.Path, start: int) -> bytes:
    """What a log has after `start`, and of that no more than the last `limits.LOG` bytes; nothing without a log."""
    if not log.is_file():
        return b""
    with log.open("rb") as stream:
        stream.seek(max(start, stream.seek(0, 2) - limits.LOG))
        return stream.read(limits.LOG)


def _takes(port: int) -> bool:
    try:
        with socket.create_connection((ports.HOST, port), timeout=1):
            return True
    except OSError:
        return False
