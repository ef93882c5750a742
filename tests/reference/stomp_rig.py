"""A broker without a socket for STOMP: bytes in, bytes out, and a disk that is asked when the test says so."""

from __future__ import annotations

import itertools

from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.honest import Honest
from conformance.reference.profiles import PROFILES
from conformance.reference.settings import Settings
from conformance.reference.stomp import connection as stomp
from conformance.reference.stomp.frames import SERVER, Decoder, encode
from conformance.reference.store.commit import GroupCommit
from conformance.reference.store.journal import Journal
from conformance.reference.store.recovery import recover


class Rig:
    """One broker; nothing reaches its disk before `disk`."""

    def __init__(self, chosen=None, profile="standard", **settings):
        self.commit = GroupCommit(Journal(recover({})))
        self.broker = ReferenceBroker(
            Settings(**settings), chosen or Honest(), self.commit, recover({}), profile=PROFILES[profile]
        )
        self.numbers = itertools.count(1)
        self.timers = []

    def later(self, seconds, call):
        self.timers.append((seconds, call))

    def second(self):
        """A second is over: what was to be called within it is."""
        due = [call for seconds, call in self.timers if seconds <= 1]
        self.timers = [timer for timer in self.timers if timer[0] > 1]
        for call in due:
            call()

    def client(self, version="1.2", **headers):
        client = Client(self)
        client.say("CONNECT", {"accept-version": version, "host": "h", **headers})
        assert [f.command for f in client.heard()] == ["CONNECTED"]
        client.decoder.version = client.version = version
        return client

    def disk(self):
        while self.commit.has_waiting:
            self.commit.take()
            self.commit.finished()

    def depth(self, queue="q"):
        return self.broker.queue(queue).depth


class Client:
    """Writes frames, and reads what it is answered."""

    def __init__(self, rig):
        self.rig = rig
        self.version = "1.2"
        self.connection = stomp.StompConnection(rig.broker, lambda: None, rig.numbers, rig.later)
        self.decoder = Decoder(SERVER)

    def say(self, command, headers, body=b""):
        self.connection.receive(encode(command, headers.items(), body, self.version))

    def heard(self, *, stored=True):
        """The frames that came since, after all was stored and sent."""
        frames = []
        while True:
            if stored:
                self.rig.disk()
            self.rig.broker.dispatch()
            data = self.connection.output()
            if not data:
                return frames
            frames += self.decoder.feed(data)

    def publish(self, count, queue="q", **headers):
        """Persistent messages with the numbers from 1 as bodies, answered."""
        for n in range(1, count + 1):
            self.say(
                "SEND", {"destination": queue, "persistent": "true", "receipt": f"s{n}", **headers}, str(n).encode()
            )
        assert [f.headers["receipt-id"] for f in self.heard()] == [f"s{n}" for n in range(1, count + 1)]

    def subscribe(self, ack="client-individual", queue="q", id="0", **headers):
        headers = {key.replace("_", "-"): value for key, value in headers.items()}
        self.say("SUBSCRIBE", {"id": id, "destination": queue, "ack": ack, **headers})
        return self.heard()

    def asks(self, command, **headers):
        """Whether the frame is answered with its receipt and with nothing else; the frames else."""
        self.say(command, {**headers, "receipt": "r"})
        heard = self.heard()
        return [(f.command, f.headers) for f in heard] == [("RECEIPT", {"receipt-id": "r"})] or heard

    def acks(self, message, **headers):
        """Whether an ACK is answered."""
        return self.asks("ACK", id=message.headers["ack"], **headers)


def bodies(frames):
    return [int(f.body) for f in frames if f.command == "MESSAGE"]


def refusal(client):
    """The headers that matter of the ERROR that ended a connection."""
    (error,) = client.heard()
    assert (error.command, client.connection.closed) == ("ERROR", True)
    assert error.body.decode().splitlines()[0] == error.headers["message"]
    assert int(error.headers["content-length"]) == len(error.body)
    return error.headers["message"], error.headers.get("receipt-id")
