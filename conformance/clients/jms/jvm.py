"""The Java virtual machine of a client process, and the jars in it.

There is one in a process, and it cannot be started twice: what a job needs later must be among the jars of the first.
"""

from __future__ import annotations

import contextlib
import pathlib
import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from conformance.adapters.launch.java import find_java
from conformance.errors import ClientError, LaunchError

_OPTIONS = ("-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xrs")
"""Small and quick to start. -Xrs: signals are this process's, not the machine's."""


SPENT = threading.Event()
"""Set when a call of a client does not come back: another job must not find its threads here."""


def jpype() -> Any:
    """The module that starts it; `ClientError` with the next step where it is not installed."""
    try:
        import jpype
    except ImportError as error:
        raise ClientError("a vendor's client needs JPype: pip install 'ack-conformance[jms]'") from error
    return jpype


def start(jars: Sequence[str], minimum: int, properties: Mapping[str, str] = MappingProxyType({})) -> Any:
    """The JVM with these jars and system properties, started if it is not; returns the module `jpype`.

    Raises `ClientError`: no Java that is new enough, one without a library to load, or a JVM that has other jars.
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
        found.startJVM(str(library), *_OPTIONS, *said, classpath=list(jars), convertStrings=True, interrupt=False)
    except (RuntimeError, OSError) as error:
        raise ClientError(f"the JVM of {java.home} did not start: {error}") from error
    return found


def text(error: Any) -> str:
    """What a Java exception says, in one line, with its class."""
    return " ".join(f"{name_of(error)}: {error.getMessage()}".split())


def name_of(error: Any) -> str:
    """The class of a Java exception, without its package."""
    return str(error.getClass().getSimpleName())


def chain(error: Any) -> list[str]:
    """The names of the classes of a Java exception and its causes, with their packages and what they derive from."""
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
