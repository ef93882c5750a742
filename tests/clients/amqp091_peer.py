"""A scripted peer of AMQP 0-9-1 in a thread. pika puts its frames together, which the codec's own tests do by hand."""

import struct

import msgspec
from pika import frame, spec
from stomp_peer import Peer, job

from conformance.protocols.amqp091.options import Amqp091Options
from conformance.protocols.amqp091.sessions.session import Amqp091Session

OWN = msgspec.structs.asdict(Amqp091Options())


def said(method, channel=1):
    """The frame of a method."""
    return frame.Method(channel, method).marshal()


def carried(method, body=b"p1:1 body", channel=1, **properties):
    """The frames of a message in one body."""
    props = spec.BasicProperties(**{"message_id": "p1:1", "correlation_id": "p1:1", **properties})
    head = frame.Header(channel, len(body), props).marshal()
    return said(method, channel) + head + (frame.Body(channel, body).marshal() if body else b"")


def delivery(tag, channel=1, *, again=False, **properties):
    return carried(spec.Basic.Deliver("c", tag, again, "", "q"), channel=channel, **properties)


ANSWERS = {
    spec.Channel.Open: spec.Channel.OpenOk,
    spec.Channel.Close: spec.Channel.CloseOk,
    spec.Basic.Qos: spec.Basic.QosOk,
    spec.Basic.Consume: lambda: spec.Basic.ConsumeOk("c"),
    spec.Confirm.Select: spec.Confirm.SelectOk,
    spec.Tx.Select: spec.Tx.SelectOk,
    spec.Tx.Commit: spec.Tx.CommitOk,
    spec.Tx.Rollback: spec.Tx.RollbackOk,
    spec.Connection.Close: spec.Connection.CloseOk,
}


class Amqp091Peer(Peer):
    """`script` gets this peer in a thread of its own, once the connection is open. `methods` are those that it read."""

    def __init__(self, script):
        self.methods = []
        super().__init__(lambda peer: peer.serve(script), greeting=b"")

    def read(self, count=1):
        """The next methods; content goes into `frames`."""
        found = []
        while len(found) < count:
            if self._rest[:4] == b"AMQP" and len(self._rest) >= 8:
                self._rest = self._rest[8:]
                return []
            size, one = frame.decode_frame(self._rest)
            self._rest = self._rest[size:]
            if one is None:
                data = self.socket.recv(65536)
                if not data:
                    raise EOFError
                self._rest += data
            elif isinstance(one, frame.Method):
                found.append(one.method)
            else:
                self.frames.append(one)
        self.methods += found
        return found

    def until(self, kind, *, answer=True):
        """Read until a method of this kind, answer it and those before it that have an answer, and return it."""
        while True:
            (found,) = self.read()
            if type(found) in ANSWERS and (answer or not isinstance(found, kind)):
                self.write(said(ANSWERS[type(found)](), 0 if isinstance(found, spec.Connection.Close) else 1))
            if isinstance(found, kind):
                return found

    def serve(self, script):
        about = {"product": "Scripted", "version": "1.0"}
        self.write(said(spec.Connection.Start(0, 9, about, "PLAIN", "en_US"), 0))
        self.read()
        self.write(said(spec.Connection.Tune(2047, 131072, 60), 0))
        self.read(2)
        self.write(said(spec.Connection.OpenOk(), 0))
        script(self)


def opened(port, **fields):
    """A session with that peer."""
    return Amqp091Session(job(port, "amqp091", own=OWN, **fields), lambda: None)


def head(kind, size, channel=1):
    """The head of a frame."""
    return struct.pack(">BHI", kind, channel, size)
