"""A disk that is full for a while, and files that cannot be opened for a while: the broker, and those that lie."""

import contextlib
import resource
import socket
import time

import pytest
from proton import ConnectionException, Message
from proton.utils import BlockingConnection, SendException

pytestmark = pytest.mark.process

PATIENCE = 20
FULL_WHILE = """
import errno, os
real = files._write_all
def failing(file, data, offset):
    if any(data) and os.path.exists({path!r}):  # what is there already can be made zeros again
        raise OSError(errno.ENOSPC, "injected")
    real(file, data, offset)
files._write_all = failing
"""
LITTLE_WHILE = """
import os
files._free_share = lambda _: 0.01 if os.path.exists({path!r}) else 0.5
"""


def taken(broker, count):
    """How many of so many messages were confirmed."""
    connection = BlockingConnection(broker.amqp, timeout=PATIENCE)
    sender = connection.create_sender("q")
    confirmed = 0
    for _ in range(count):
        with contextlib.suppress(SendException):
            sender.send(Message(body=b"x" * 1000, durable=True))
            confirmed += 1
    connection.close()
    return confirmed


@pytest.fixture
def full(tmp_path):
    """The disk of the broker is full while this file is there."""
    return tmp_path / "full"


@pytest.fixture
def broker(start, full):
    """Start a broker on such a disk."""
    before = FULL_WHILE.format(path=str(full))
    return lambda liar="": start(*([f"--liar={liar}"] if liar else []), before=before)


def takes_again(broker, seconds):
    """Whether it confirms a message within that time."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if taken(broker, 1):
            return True
    return False


def test_it_refuses_on_a_full_disk_and_takes_again_afterwards(broker, full):
    running = broker()
    assert taken(running, 5) == 5
    full.touch()
    assert taken(running, 5) == 0
    full.unlink()
    assert takes_again(running, PATIENCE)


def test_a_liar_refuses_for_ever(broker, full):
    """For three times as long as the honest broker waits before it looks again."""
    running = broker("never-finds-space-again")
    full.touch()
    assert taken(running, 5) == 0
    full.unlink()
    assert not takes_again(running, 3)


@pytest.mark.parametrize(("liar", "there"), [("", 5), ("never-goes-on-after-little-space", 0)])
def test_a_liar_refuses_for_ever_after_little_space(start, full, liar, there):
    """An honest broker has no such limit."""
    running = start(*([f"--liar={liar}"] if liar else []), before=LITTLE_WHILE.format(path=str(full)))
    assert taken(running, 5) == 5
    full.touch()
    taken(running, 5)
    full.unlink()
    assert taken(running, 5) == there


def test_a_liar_confirms_what_it_has_not_stored(broker, full):
    running = broker("confirms-what-finds-no-space")
    assert taken(running, 5) == 5
    full.touch()
    assert taken(running, 5) == 5
    running.kill()
    full.unlink()
    assert broker().depth() == 5


@contextlib.contextmanager
def no_more_files(broker):
    """The broker cannot open one more file; a client is waiting for it to accept."""
    pid = broker.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        with socket.create_connection(("127.0.0.1", broker.port("amqp"))):
            yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def test_it_accepts_again_when_it_can(broker):
    running = broker()
    with no_more_files(running):
        pass
    assert taken(running, 5) == 5


def test_a_liar_listens_no_more(broker):
    running = broker("never-accepts-again")
    assert taken(running, 5) == 5
    with no_more_files(running):
        ends = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", running.port("amqp"))).close()
            except ConnectionRefusedError:
                break
            assert time.monotonic() < ends
    with pytest.raises(ConnectionException):
        taken(running, 1)
