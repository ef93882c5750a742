"""Put this folder on the path, and share two fixtures."""

import contextlib
import pathlib
import sys

import pytest
from job_rig import make_job

from conformance import history
from conformance.clients.roles import play as roles
from conformance.history import Ended, Recorder
from conformance.scenario.script import Drain

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture
def raw():
    """Opens a raw STOMP session on a scripted peer, `session.peer`; both are closed at the end."""
    from stomp_peer import Peer, job

    from conformance.protocols.stomp.sessions.raw_session import RawStompSession

    with contextlib.ExitStack() as undo:

        def start(script, **fields):
            peer = Peer(script)
            undo.callback(peer.close)
            session = RawStompSession(job(peer.port, **fields), lambda: None)
            undo.callback(session.close)
            undo.callback(peer.go.set)
            session.peer = peer
            return session

        yield start


@pytest.fixture
def play(tmp_path):
    """Plays a step on a session; returns its result and the recorded events. `depth` is the broker's answer."""

    def run(step, session, depth=0, **fields):
        path = tmp_path / "h.jsonl"
        job = make_job(step, **{"history": str(path), "silence_s": 0.0, "liveness_s": 0.05, **fields})
        recorder = Recorder(path, job.header)
        if isinstance(step, Drain):
            result = (roles.collect if job.work.collects else roles.drain)(job, session, recorder, lambda queue: depth)
        else:
            result = roles.play(job, session, recorder, [])
        recorder.close()
        history.close_history(path, Ended.FINISHED)
        return result, history.read(path).events

    return run
