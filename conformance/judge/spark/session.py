"""One Spark session, started in the background while the first broker starts."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from conformance.errors import JudgeError
from conformance.judge.spark.gateway import NAME, Gateway, local_master, stop_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from conformance.judge.plan.relations import Check


class JudgeSession:
    """A Spark session and, where it is a local one, the JVM below it. `start` makes one; `stop` ends both."""

    def __init__(self, spark: SparkSession, gateway: Gateway | None, *, guest: bool = False) -> None:
        self.spark = spark
        self._gateway = gateway
        self._guest_only = guest

    @classmethod
    def start(cls, *, master: str = "", remote: str = "", warm: Sequence[Check] = ()) -> JudgeSession:
        """Start a session: local, on a cluster (`master`), or over Spark Connect (`remote`).

        The plan of the checks in `warm_up` runs once on trials of three messages, so that the first judgement does not
        pay for cold code. Raises `JudgeError` where Spark cannot start.
        """
        try:
            session = cls._remote(remote) if remote else cls._guest() or cls._local(master or local_master())
        except JudgeError:
            raise
        except Exception as error:
            raise JudgeError(f"Spark did not start: {_line(error)}") from error
        if warm:
            from conformance.judge.spark.warm_up import warm_up

            try:
                warm_up(session.spark, warm)
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
        """One more session in the Spark of this process, where it has one: PySpark allows no second JVM."""
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
    """A session that is on its way; nothing of it is shown before `result` is asked for.

    With `later` its way begins there: for who may turn out not to need one.
    """

    def __init__(self, *, master: str = "", remote: str = "", warm: Sequence[Check] = (), later: bool = False) -> None:
        self._future: concurrent.futures.Future[JudgeSession] = concurrent.futures.Future()
        self._stopped = threading.Event()
        words = (master, remote, warm)
        self._thread = threading.Thread(target=self._start, args=words, name="spark-start", daemon=True)
        self._begun = threading.Lock()
        if not later:
            self._begin()

    def _begin(self) -> None:
        if self._begun.acquire(blocking=False):
            self._thread.start()

    def _start(self, master: str, remote: str, warm: Sequence[Check]) -> None:
        try:
            session = JudgeSession.start(master=master, remote=remote, warm=warm)
        except BaseException as error:
            self._future.set_exception(error)
            return
        self._future.set_result(session)
        if self._stopped.is_set():
            session.stop()

    def result(self) -> JudgeSession:
        """The session, when it is ready; raises `JudgeError` where it could not start."""
        self._begin()
        return self._future.result()

    @property
    def spark(self) -> SparkSession:
        """That of `result`."""
        return self.result().spark

    def stop(self) -> None:
        """End the session, or whatever of it has started; does not raise."""
        self._stopped.set()
        if self._thread.ident is None:
            return  # nobody asked for it: what else runs in this process is another's
        if self._future.done():
            with contextlib.suppress(Exception):
                self._future.result().stop()
        else:
            stop_all()


def start_in_background(warm: Sequence[Check] = (), *, master: str = "", remote: str = "") -> StartingSession:
    """Start a session in a thread, warmed by the plan of the checks that it will run; none: it is wanted at once."""
    return StartingSession(master=master, remote=remote, warm=warm)


def start_when_asked(*, master: str = "", remote: str = "") -> StartingSession:
    """A session that is started by who first asks for it."""
    return StartingSession(master=master, remote=remote, later=True)


def _line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
