"""HTTP and TLS with a broker that does not end its answer."""

import contextlib
import socket
import threading
import time

import pytest

from conformance import limits
from conformance.adapters import DepthProbe, web
from conformance.adapters.credentials import Access, ClientTls
from conformance.adapters.launch.readiness import greeting_error
from conformance.clients.connecting import Login
from conformance.clients.management import DepthClient
from conformance.errors import ClientError


@pytest.fixture
def serve():
    """Starts a listener that gives each connection what `parts` makes, one after another, until its peer goes."""
    with contextlib.ExitStack() as undo:

        def start(parts):
            listening = undo.enter_context(socket.create_server(("127.0.0.1", 0)))
            over = threading.Event()

            def run():
                with contextlib.suppress(OSError):
                    while not over.is_set():
                        line, _ = listening.accept()
                        with line, contextlib.suppress(OSError):
                            line.recv(1 << 16)
                            for part in parts(over):
                                line.sendall(part)

            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            undo.callback(thread.join, 20)
            undo.callback(listening.shutdown, socket.SHUT_RDWR)
            undo.callback(over.set)
            return listening.getsockname()[1]

        yield start


def drip(first, each=b"x"):
    """A byte now and then: a timeout that begins anew with each never ends it."""

    def parts(over):
        yield first
        while not over.wait(0.1):
            yield each

    return parts


def flood(over):
    """A body without end."""
    yield b"HTTP/1.0 200 OK\r\n\r\n"
    while not over.is_set():
        yield b"x" * (1 << 16)


@pytest.mark.parametrize("first", [b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.0 200 OK\r\nA: "], ids=["body", "header"])
def test_an_answer_that_drips_ends_in_time(serve, first):
    """The time is for the whole answer."""
    port = serve(drip(first))
    began = time.monotonic()

    with pytest.raises(OSError, match=r"the answer did not end within 0\.5 s"):
        web.ask("GET", f"http://127.0.0.1:{port}/", timeout_s=0.5)

    assert time.monotonic() - began < 10


def test_an_answer_without_end_is_not_kept(serve, monkeypatch):
    """It ends with the limit in words."""
    monkeypatch.setattr(limits, "HTTP_ANSWER", 1 << 20)
    port = serve(flood)

    with pytest.raises(OSError, match="an answer in HTTP of more than 1,048,576 bytes"):
        web.ask("GET", f"http://127.0.0.1:{port}/", timeout_s=20)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"n": ' + "9" * 5_000 + "}", '{"n": "' + "9" * 5_000 + '"}'])
def test_a_depth_that_is_no_number_is_said_in_few_words(serve, text):
    """Neither a deep document nor a long number is an error of ours."""
    port = serve(lambda over: [b"HTTP/1.0 200 OK\r\n\r\n", text.encode()])
    ask_depth = DepthClient(DepthProbe("http", f"http://127.0.0.1:{port}/", "n"), "d")

    with pytest.raises(ClientError, match="gives no number") as told:
        ask_depth.ask("q")

    assert len(str(told.value)) < 700


def test_a_tls_handshake_that_drips_ends_in_time(serve, monkeypatch):
    """A record of 16 KiB, byte by byte; the probe and the client both give up."""
    monkeypatch.setattr(limits, "HANDSHAKE_S", 0.5)
    port = serve(drip(b"\x16\x03\x03\x3f\xff\x02", b"\0"))

    with pytest.raises(ClientError, match="did not answer a handshake in time"):
        Login("127.0.0.1", port, Access(tls=ClientTls())).dial(0.5)
    what, final = greeting_error("amqp", "127.0.0.1", port, tls=ClientTls())

    assert (False, True) == (final, "answers no TLS handshake" in what)
