"""Sessions on scripted peers, for protocols whose tests send the same few messages."""

import contextlib


@contextlib.contextmanager
def on_peers(peer_of, opened):
    """Yields what opens a session on `peer_of(script)`, or on one that greets; both are closed at the end."""
    with contextlib.ExitStack() as undo:

        def start(script=lambda peer: None, *, greeting=None, **fields):
            peer = peer_of(script) if greeting is None else peer_of(script, greeting)
            undo.callback(peer.close)
            made = opened(peer.port, **fields)
            undo.callback(made.close)
            made.peer = peer
            return made

        yield start


def sent(session, count=3):
    """Send so many messages, unanswered."""
    session.attach_sender("q")
    for number in range(1, count + 1):
        session.send(f"p1:{number}", b"body", durable=True)


def outcomes_of(session):
    return [(each.message, each.phase.value, each.detail) for each in session.outcomes]
