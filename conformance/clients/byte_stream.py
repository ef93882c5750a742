"""The bytes of one connection, for protocols whose library or codec leaves the socket to us."""

from __future__ import annotations

import abc
import contextlib
import select
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from conformance.clients.connecting import Login, answered_in_tls
from conformance.clients.session import Disconnected, pump_until
from conformance.errors import BrokenProtocolError, ClientError, LoginError

_REST_S = 5.0
_READ = 1 << 18

OwnLogin = TypeVar("OwnLogin", bound=Login)


class ByteStream(abc.ABC, Generic[OwnLogin]):
    """A connected socket, what waits to leave, and what has come and was not handled.

    Args:
        login: Where the broker is, and the credentials.
        before_write: Called right before bytes may leave.
        connect_s: Time limit of the TCP connection, and again of the TLS handshake, in seconds.

    Raises:
        ClientError: There is no connection.
    """

    def __init__(self, login: OwnLogin, before_write: Callable[[], None], connect_s: float) -> None:
        self._login, self._before_write = login, before_write
        self._input, self._output = bytearray(), bytearray()
        self._heard = self._opened = self._closed = False
        self._socket = login.dial(connect_s)
        self._socket.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    @abc.abstractmethod
    def pump(self, timeout_s: float | None) -> None:
        """Write, wait at most `timeout_s` for input (None: no limit), read, and handle it."""

    @abc.abstractmethod
    def _handle(self) -> object:
        """Handle what has come whole, each once, even if that raises."""

    def watch(self, descriptor: int) -> None:
        self._poll.register(descriptor, 0)  # POLLHUP is always reported

    def _await_open(self, connect_s: float, refusal: str) -> None:
        """Pump until it is open; `refusal` says of the broker what it did not do in time."""
        try:
            if not pump_until(self.pump, lambda: self._opened, connect_s):
                raise ClientError(f"the broker did not {refusal} within {connect_s:.0f} s")
        except BaseException:
            self._closed = True
            self._socket.close()
            raise

    def _write(self) -> None:
        if not self._output:
            return
        self._before_write()
        try:
            while self._output:
                del self._output[: self._socket.send(self._output)]
        except BlockingIOError:
            self._poll.modify(self._socket, select.POLLIN | select.POLLOUT)
            return
        except OSError as error:
            self._output.clear()
            self._read_rest()
            raise self._lost(error) from error
        self._poll.modify(self._socket, select.POLLIN)

    def _read(self) -> None:
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError as error:
            self._handle()
            raise self._lost(error) from error
        if not data:
            self._handle()
            raise self._lost()
        self._heard = True
        self._input += data

    def _read_rest(self) -> None:
        """Read what the broker had sent before a write failed: the socket may still hold answers."""
        deadline = time.monotonic() + _REST_S
        with contextlib.suppress(Disconnected, LoginError):
            while (left := deadline - time.monotonic()) > 0:
                if self._poll.poll(left * 1000):
                    self._read()
                    self._handle()

    def _lost(self, error: OSError | None = None) -> Exception:
        """Return the error of an ended stream: `ClientError` only if the broker refused us, not if it died."""
        self._closed = True
        why = answered_in_tls(self._input)
        if not (self._heard or why):
            why = self._login.unanswered(self._socket)
        return ClientError(f"{self._login.where}: {why}") if why else Disconnected(str(error or "end of stream"))

    def _broken(self, how: object) -> BrokenProtocolError:
        return BrokenProtocolError(self._login.clean(str(how)))
