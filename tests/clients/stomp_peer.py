"""A scripted STOMP peer in a thread: what it writes and reads is written out, byte for byte."""

import contextlib
import re
import socket
import struct
import threading

from job_rig import make_job

CONNECTED = b"CONNECTED\nversion:1.2\n\n\0"


def job(port, protocol="stomp", **fields):
    """The job of a session that connects to this port."""
    return make_job(port=port, protocol=protocol, **{"connect_s": 5.0, **fields})


def receipt(number):
    return b"RECEIPT\nreceipt-id:receipt-%d\n\n\0" % number


def message(name, ack="a1", more=b"", body=b"body"):
    return b"MESSAGE\nsubscription:1\nmessage-id:%s\ndestination:q\nack:%s\nconformance_id:%s\n%s\n%s\0" % (
        name.encode(),
        ack.encode(),
        name.encode(),
        more,
        body,
    )


class Peer:
    """`script` gets this peer in a thread of its own, after CONNECT was read and answered."""

    def __init__(self, script, greeting=CONNECTED):
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.go = threading.Event()
        self.frames, self.failed = [], []
        self._rest = b""
        self._script, self._greeting = script, greeting
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def read(self, count=1):
        """The next frames: (command, headers, body)."""
        found = []
        while len(found) < count:
            while b"\0" not in self._rest:
                data = self.socket.recv(65536)
                if not data:
                    raise EOFError
                self._rest += data
            raw, _, self._rest = self._rest.partition(b"\0")
            head, _, body = raw.partition(b"\n\n")
            command, *lines = head.decode().split("\n")
            found.append((command, dict(re.split(":", line, maxsplit=1) for line in lines), body))
        self.frames += found
        return found

    def write(self, *parts):
        for part in parts:
            self.socket.sendall(part)

    def reset(self):
        """End with RST instead of FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def _run(self):
        self.socket, _ = self.listening.accept()
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(20)
        try:
            self.read()
            self.write(self._greeting)
            self._script(self)
        except Exception as error:
            self.failed.append(error)
        finally:
            with contextlib.suppress(OSError):
                self.socket.close()

    def close(self):
        self.go.set()
        self._thread.join(20)
        self.listening.close()
