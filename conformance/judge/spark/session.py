"""Start one Spark session, in the background while the first broker starts."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from conformance.errors import JudgeError
from conformance.judge.spark.gateway import NAME, Gateway, local_master, stop_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    WarmUp = Callable[[SparkSession], object]


class JudgeSession:
    """A Spark session and, if it is local, its JVM. `start` makes one; `stop` ends both."""

    def __init__(self, spark: SparkSession, gateway: Gateway | None, *, guest: bool = False) -> None:
        self.spark = spark
        self._gateway = gateway
        self._guest_only = guest

    @classmethod
    def start(cls, *, master: str = "", remote: str = "", warm_up: WarmUp | None = None) -> JudgeSession:
        """Start a session: local, on a cluster (`master`), or over Spark Connect (`remote`).

        `warm_up` runs once in the new session, so that the first judgement does not pay for cold code. Raises
        `JudgeError` if Spark cannot start.
        """
        try:
            session = cls._remote(remote) if remote else cls._guest() or cls._local(master or local_master())
        except JudgeError:
            raise
        except Exception as error:
            raise JudgeError(f"Spark did not start: {_line(error)}") from error
        if warm_up is not None:
            try:
                warm_up(session.spark)
            except Exception as error:
                session.stop()
                raise JudgeError(f"Spark started, and cannot run the judge: {_line(error)}") from error
        return session

    @classmethod
    def _remote(cls, url: str) -> JudgeSession:
        from pyspark.sql import SparkSession

        return cls(SparkSession.builder.remote(url).appName(NAME).create(), None)

    @classmethod
    def _guest(cls) -> JudgeSession | None:
        """Open one more session in the Spark of this process, if it has one: PySpark allows no second JVM."""
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        context = SparkContext._active_spark_context
        if context is None:
            return None
        spark = SparkSession(context).newSession()
        spark.conf.set("spark.sql.adaptive.enabled", "false")
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        return cls(spark, None, guest=True)

    @classmethod
    def _local(cls, master: str) -> JudgeSession:
        gateway = Gateway()
        try:
            return cls(gateway.session(master), gateway)
        except BaseException:
            gateway.stop()
            raise

    def stop(self) -> None:
        """End the session and its JVM; a second call does nothing."""
        spark, self.spark = getattr(self, "spark", None), None  # type: ignore[assignment]
        if spark is None:
            return
        if self._gateway is not None:
            self._gateway.stop(spark)
        elif not self._guest_only:
            spark.stop()

    def __enter__(self) -> JudgeSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class StartingSession:
    """A session that starts in a thread; `result` waits for it. With `later` the start waits for `result`."""

    def __init__(
        self, *, master: str = "", remote: str = "", warm_up: WarmUp | None = None, later: bool = False
    ) -> None:
        self._future: concurrent.futures.Future[JudgeSession] = concurrent.futures.Future()
        self._stopped = threading.Event()
        options = {"master": master, "remote": remote, "warm_up": warm_up}
        self._thread = threading.Thread(target=self._start, kwargs=options, name="spark-start", daemon=True)
        self._begun = threading.Lock()
        if not later:
            self._begin()

    def _begin(self) -> None:
        if self._begun.acquire(blocking=False):
            self._thread.start()

    def _start(self, **options: Any) -> None:
        try:
            session = JudgeSession.start(**options)
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
        """The Spark session; waits for it as `result` does."""
        return self.result().spark

    def stop(self) -> None:
        """End the session, or the part of it that has started; does not raise."""
        self._stopped.set()
        if self._thread.ident is None:
            return  # the start was never asked for: any JVM of this process belongs to another session
        if self._future.done():
            with contextlib.suppress(Exception):
                self._future.result().stop()
        else:
            stop_all()


def start_in_background(warm_up: WarmUp | None = None, *, master: str = "", remote: str = "") -> StartingSession:
    """Start a session in a thread; `warm_up` runs in it before it is ready."""
    return StartingSession(master=master, remote=remote, warm_up=warm_up)


def start_when_asked(*, master: str = "", remote: str = "") -> StartingSession:
    """Return a session that starts when it is first asked for."""
    return StartingSession(master=master, remote=remote, later=True)


def _line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
