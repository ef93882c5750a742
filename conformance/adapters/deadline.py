"""A limit for all reads of a connection together: a socket's own timeout begins anew with each byte."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def hung_up_after(line: socket.socket, seconds: float) -> Iterator[None]:
    """Shut the connection down when the block takes longer than that; raise `TimeoutError` then."""
    late = threading.Event()
    end = socket.socket(fileno=os.dup(line.fileno()))  # TLS takes the descriptor of the other

    def hang_up() -> None:
        late.set()
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    except OSError as error:
        if late.is_set():
            raise TimeoutError(_told(seconds)) from error
        raise
    finally:
        timer.cancel()
        timer.join()
        end.close()
    if late.is_set():
        raise TimeoutError(_told(seconds))


def _told(seconds: float) -> str:
    return f"the answer did not end within {seconds:g} s"
