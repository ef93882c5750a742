"""A connection that shows the end of a broker: it is young, so that no impatience with a silent peer ended it."""

from __future__ import annotations

import socket
import time
from types import TracebackType
from typing import Self

from conformance.errors import LaunchError

_YOUNG_S = 2.0
"""Brokers close a connection that says nothing, after 10 s and more: it is made anew long before."""

_CONNECT_S = 5.0


class WitnessConnection:
    """Open from the beginning of its `with`; `LaunchError` where nobody takes the connection."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        try:
            self._line = socket.create_connection(address, _CONNECT_S)
        except OSError as error:
            raise LaunchError(f"{address[0]}:{address[1]} takes no connection: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._line.close()

    def lost(self, within_s: float) -> bool:
        """Whether a connection that was open, and young, is ended by the peer, or a new one refused, in that time."""
        deadline = time.monotonic() + within_s
        while (left := deadline - time.monotonic()) > 0:
            self._line.settimeout(min(left, _YOUNG_S))
            try:
                if not self._line.recv(4096):
                    return True
            except TimeoutError:
                if not self._renewed():
                    return True
            except OSError:
                return True
        return False

    def _renewed(self) -> bool:
        """The new one is open before the old one is closed, so that no end falls between them."""
        try:
            line = socket.create_connection(self._address, _CONNECT_S)
        except ConnectionRefusedError:
            return False
        except OSError:  # slow to take it: the old one still stands
            return True
        self._line.close()
        self._line = line
        return True
