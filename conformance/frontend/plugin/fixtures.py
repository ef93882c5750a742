"""The fixtures for tests of a user's own clients: `ack_broker` and `ack_broker_options`.

Both names begin with `ack_`, after this project: `broker` is the name of many a fixture of other plugins and projects.
Heavy modules are loaded when a test asks for a broker.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conformance.testing import LocalBroker


def end_session(number: int, frame: object) -> None:
    """End the session as Ctrl-C does, brokers and clients first.

    A worker of xdist may get Ctrl-C twice, from the terminal and from its controller; the second is ignored.
    """
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


@pytest.fixture(scope="session")
def _ack_sigterm() -> Iterator[None]:
    """Let SIGTERM end the fixtures too: by itself it ends Python at once, and the broker stays until the next run."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, end_session)
    yield
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@pytest.fixture
def ack_broker_options() -> Mapping[str, Any]:
    """What `ack_broker` starts: `queues`, `settings`, `own_disk`, `adapter`. Write a fixture of that name to choose."""
    return {}


@pytest.fixture
def ack_broker(
    ack_broker_options: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory, _ack_sigterm: None
) -> Iterator[LocalBroker]:
    """A running broker and its faults: see `conformance.testing`. With `own_disk`, skip where no power can be lost."""
    from conformance.faults.power import image
    from conformance.testing import running_broker

    if ack_broker_options.get("own_disk") and (why := image.cannot()):
        pytest.skip(why)
    with running_broker(**{"folder": tmp_path_factory.mktemp("ack_broker"), **ack_broker_options}) as broker:
        yield broker
