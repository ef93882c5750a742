"""Put this folder on the path, and share one fixture."""

import contextlib
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture
def raw():
    """Opens a raw STOMP session on a scripted peer, `session.peer`; both are closed at the end."""
    from stomp_peer import Peer, job

    from conformance.clients.stomp.raw_session import RawStompSession

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
