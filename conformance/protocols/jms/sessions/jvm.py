"""The Java virtual machine of a client process, its jars, and a thread for its calls.

A process can start one JVM only, and only once: the first job must load the jars of all later ones.
"""

from __future__ import annotations

import contextlib
import pathlib
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from conformance.adapters.launch.java import find_java
from conformance.errors import ClientError, LaunchError

_OPTIONS = ("-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xrs")
"""Small and quick to start. -Xrs: Python handles the signals of this process, not the JVM."""

_RESTRICTS = 24
"""From this Java on the JVM warns of the native methods of JPype (JEP 472)."""

SPENT = threading.Event()
"""Set when a call of a client does not return: no other job may run beside its threads."""


def jpype() -> Any:
    try:
        import jpype
    except ImportError as error:
        raise ClientError("a vendor's client needs JPype: pip install 'ack-conformance[jms]'") from error
    return jpype


def start(jars: Sequence[str], minimum: int, properties: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Start the JVM with these jars and system properties, if it does not run; return the module `jpype`.

    Raises `ClientError`: no Java is new enough, it has no library to load, or the JVM has other jars.
    """
    found = jpype()
    if found.isJVMStarted():
        missing = set(jars) - set(found.java.lang.System.getProperty("java.class.path").split(":"))
        if missing:
            raise ClientError(f"the JVM of this process has other jars: {', '.join(sorted(missing))}")
        return found
    try:
        java = find_java(minimum)
    except LaunchError as error:
        raise ClientError(str(error)) from error
    library = next(java.home.rglob("libjvm.so"), None)
    if library is None:
        raise ClientError(f"{java.home} ({java.why}) has no libjvm.so, which a client in this process needs")
    if lacking := [jar for jar in jars if not pathlib.Path(jar).is_file()]:
        raise ClientError(f"{lacking[0]} is gone: `conformance run` fetches it again")
    try:
        said = [f"-D{name}={value}" for name, value in properties.items()]
        if java.major >= _RESTRICTS:
            said.append("--enable-native-access=ALL-UNNAMED")
        found.startJVM(str(library), *_OPTIONS, *said, classpath=list(jars), convertStrings=True, interrupt=False)
    except (RuntimeError, OSError) as error:
        raise ClientError(f"the JVM of {java.home} did not start: {error}") from error
    return found


def text(error: Any) -> str:
    """Return the class and message of a Java exception, in one line."""
    return " ".join(f"{name_of(error)}: {error.getMessage()}".split())


def name_of(error: Any) -> str:
    return str(error.getClass().getSimpleName())


def chain(error: Any) -> list[str]:
    """Return the full class names of a Java exception, its causes, and the superclasses of both."""
    found: list[str] = []
    while error is not None and len(found) < 100:
        kind = error.getClass()
        while kind is not None:
            found.append(str(kind.getName()))
            kind = kind.getSuperclass()
        linked = None
        with contextlib.suppress(AttributeError):
            linked = error.getLinkedException()
        error = linked if linked is not None else error.getCause()
    return found


class Calls:
    """A thread that makes calls in order: a JMS session belongs to one thread.

    Calls put their results into `reports`, which the recording thread reads. That thread never waits in a call: it must
    end a pause or fire a kill while `send()` does not return.
    """

    def __init__(self, name: str) -> None:
        self.reports: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._todo: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def idle(self) -> bool:
        """Whether no call waits behind the one in progress."""
        return self._todo.empty()

    def later(self, call: Callable[[], None]) -> None:
        self._todo.put(call)

    def now(self, call: Callable[[], Any], timeout_s: float, what: str) -> Any:
        """Return what the call returns, or raise what it raises; `ClientError` if it does neither in time."""
        done: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

        def called() -> None:
            try:
                done.put((call(), None))
            except BaseException as error:
                done.put((None, error))

        self.later(called)
        try:
            found, error = done.get(timeout=timeout_s)
        except queue.Empty:
            raise ClientError(f"{what} did not return within {timeout_s:g} s") from None
        if error is not None:
            raise error
        return found

    def end(self, timeout_s: float) -> bool:
        """Make the calls that wait and no further one; return whether the thread ended in time."""
        self._todo.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (call := self._todo.get()) is not None:
            try:
                call()
            except Exception as error:
                self.reports.put(error)
