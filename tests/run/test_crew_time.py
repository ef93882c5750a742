"""A client that does not come back ends with its time, and all clients of a trial with the time of the trial."""

import socket
import subprocess
import sys
import types

import pytest

from conformance import limits
from conformance.clients.workers.pool import Child
from conformance.errors import ClientError
from conformance.history import bare_header
from conformance.run.clients import Abort, ClientRunner


@pytest.fixture
def client_runner(tmp_path):
    planned = types.SimpleNamespace(queue="q")
    return ClientRunner(planned, None, None, tmp_path, bare_header("p"), Abort())


def test_the_clients_of_a_trial_share_its_time(client_runner, tmp_path, monkeypatch):
    """The first may take as long as a client may; the last has what is left of the trial."""
    given = []

    class Given:
        log = tmp_path / "log"
        wait = staticmethod(given.append)

        def close(self):
            """Nothing is open."""

    child = Given()
    client_runner._wait(child)
    monkeypatch.setattr(client_runner, "_ends", client_runner._ends - limits.TRIAL_S + 100)
    client_runner._wait(child)
    monkeypatch.setattr(client_runner, "_ends", client_runner._ends - 1000)
    client_runner._wait(child)

    assert (600, 1) == (given[0], given[2])
    assert 90 < given[1] <= 100


def test_a_client_that_gives_no_result_is_ended(tmp_path):
    """The broker that keeps it busy is not waited for; the sentence names the limits."""
    ours, theirs = socket.socketpair()
    code = "import socket, sys; socket.socket(fileno=int(sys.argv[1])).recv(1)"
    with theirs:
        process = subprocess.Popen([sys.executable, "-c", code, str(theirs.fileno())], pass_fds=[theirs.fileno()])
    job = types.SimpleNamespace(header=bare_header("drain-1"))
    child = Child(job, process.pid, ours, tmp_path / "log")

    with pytest.raises(
        ClientError, match=r"drain-1 gave no result within .* a client has 600 s, the clients of a trial"
    ):
        child.wait(0.2)
    child.close()

    assert process.wait(20) is not None
