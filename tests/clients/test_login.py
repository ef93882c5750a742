"""Every client at a real broker behind TLS and a login: accepted logins, and the error of each refused one."""

import contextlib
import os
import re
import select
import socket
import ssl
import subprocess
import sys
import threading
import time

import certificates
import pytest
import stomp_peer
from proton import SASL
from starts import starts_process

from conformance.adapters import DepthProbe
from conformance.adapters.credentials import OPEN, Access, ClientTls, Secret
from conformance.clients.connecting import Login
from conformance.clients.management import DepthClient
from conformance.clients.roles.modes import AckHeader
from conformance.clients.roles.play import connect, run_job
from conformance.clients.session import Disconnected, pump_until
from conformance.errors import ClientError, LoginError, UsageError
from conformance.ledger import python_environment

CLIENTS = [("amqp", "library"), ("stomp", "library"), ("stomp", "raw")]
PATIENCE = 20.0


@pytest.fixture(scope="module")
@starts_process
def folder(tmp_path_factory):
    return certificates.make(tmp_path_factory.mktemp("certificates"))


@contextlib.contextmanager
def serving(folder, data, certificate="broker", login=()):
    """A reference broker with plain and TLS ports; their numbers by name."""
    words = [f"--{name}-port=0" for name in ("amqp", "amqps", "stomp", "stomps", "http")]
    words += [f"--tls-cert={certificate}.pem", f"--tls-key={certificate}.key", "--tls-ca=ca.pem", f"--data={data}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "conformance.reference", *words, *login],
        cwd=folder,
        env=python_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        word, *places = process.stdout.readline().split()
        assert word == "ready"
        yield {name: int(place.rpartition(":")[2]) for name, place in (one.split("=") for one in places)}
    finally:
        process.kill()
        process.wait(PATIENCE)
        process.stdout.close()


@pytest.fixture(scope="module")
def ports(folder, tmp_path_factory):
    """Of a broker that wants alice and her password, or a certificate of the authority."""
    data = tmp_path_factory.mktemp("data")
    with serving(folder, data, login=["--user=alice", "--password-file=password"]) as numbers:
        yield numbers


@contextlib.contextmanager
def peer(handle):
    """A listening socket whose one thread runs `handle`; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=handle, args=(server,))
        thread.start()
        yield server.getsockname()[1]
        thread.join(PATIENCE)


def served_by(folder):
    """The TLS context of a server with the broker's certificate."""
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(folder / "broker.pem", folder / "broker.key")
    return served


def job(protocol, client, port, access, **more):
    fields = {"client": client, "access": access, "ack_confirm": "disposition", "connect_s": PATIENCE}
    return stomp_peer.job(port, protocol, **{**fields, **more})


def exchange(wanted, size=1):
    """Send a message of that size and receive it; return its body."""
    session = connect(wanted, lambda: None)
    try:
        session.attach_sender("q")
        assert pump_until(session.pump, lambda: session.sendable() > 0, PATIENCE)
        session.send("m", b"x" * size, durable=True)
        assert pump_until(session.pump, lambda: bool(session.outcomes), PATIENCE)
        assert session.outcomes.popleft().phase == "ok"
        session.attach_receiver("q", 1, AckHeader.INDIVIDUAL)
        assert pump_until(session.pump, lambda: bool(session.incoming), PATIENCE)
        received = session.incoming.popleft()
        session.acknowledge([received], confirmed=True)
        assert pump_until(session.pump, lambda: bool(session.answers), PATIENCE)
        return received.body
    finally:
        session.close()


def login(folder, name="password", **tls):
    """Alice with the password of that file, over TLS."""
    trusted = {"ca": str(folder / "ca.pem"), **tls}
    return Access(user="alice", password=Secret(file=str(folder / name)), tls=ClientTls(**trusted))


def owned(folder, name):
    """A certificate and its key, for `ClientTls`."""
    return {"certificate": str(folder / f"{name}.pem"), "key": str(folder / f"{name}.key")}


@pytest.mark.parametrize(("protocol", "client"), CLIENTS)
def test_a_login_over_tls_and_without(ports, folder, protocol, client):
    """PLAIN over AMQP, login and passcode over STOMP. Three megabytes are 192 records, more than a socket takes at once."""
    secured = login(folder)

    assert exchange(job(protocol, client, ports[f"{protocol}s"], secured), 3 << 20) == b"x" * (3 << 20)
    plain = Access(user=secured.user, password=secured.password)
    assert exchange(job(protocol, client, ports[protocol], plain)) == b"x"


def test_a_certificate_is_a_login(ports, folder):
    """SASL EXTERNAL."""
    mine = Access(tls=ClientTls(ca=str(folder / "ca.pem"), server_name="broker.example", **owned(folder, "alice")))

    assert exchange(job("amqp", "library", ports["amqps"], mine)) == b"x"


def refused(wanted):
    """The error of a client that is refused, which comes at once."""
    began = time.monotonic()
    with pytest.raises((ClientError, UsageError)) as caught:
        exchange(wanted)
    assert time.monotonic() - began < PATIENCE / 2
    assert "\n" not in str(caught.value)
    assert certificates.PASSWORD not in str(caught.value)
    assert isinstance(caught.value, LoginError) == bool(re.search("login", str(caught.value))), caught.value
    return str(caught.value)


UNTRUSTED = "is signed by an authority that is not trusted; give its authority (--tls-ca, tls.ca)"
PLAINLY = "it answers in TLS: use amqps:// or stomp+ssl://"
IN_TLS = "does not speak TLS"


@pytest.mark.parametrize(("protocol", "client"), CLIENTS)
@pytest.mark.parametrize(
    ("port", "access", "said"),
    [
        ("{}s", lambda folder: login(folder, "wrong"), "the login of 'alice' was refused"),
        ("{}", lambda folder: OPEN, "give a login (--user|give --user and --password-env"),
        (
            "{}s",
            lambda folder: Access(user="alice", password=Secret(env="NOT_SET"), tls=ClientTls()),
            "NOT_SET is not set",
        ),
        ("{}s", lambda folder: login(folder, ca=str(folder / "stranger.pem")), UNTRUSTED),
        ("{}s", lambda folder: login(folder, ca=""), UNTRUSTED),
        ("{}s", lambda folder: login(folder, server_name="other.example"), "is for another host; give the name in it"),
        ("{}s", lambda folder: login(folder, ca="none.pem"), "tls.ca (--tls-ca): none.pem has no certificates"),
        ("{}s", lambda folder: login(folder, certificate="none.pem", key="none.key"), "are no certificate with its"),
        ("{}s", lambda folder: Access(user="alice", password=Secret(file=str(folder / "password"))), PLAINLY),
        ("{}s", lambda folder: OPEN, PLAINLY),
        ("{}", login, IN_TLS),
    ],
)
def test_a_refused_client_says_why(ports, folder, protocol, client, port, access, said):
    """With the field and the next step; the same for every client."""
    why = refused(job(protocol, client, ports[port.format(protocol)], access(folder)))

    assert any(one in why for one in said.split("|"))


@pytest.mark.parametrize(("protocol", "client"), CLIENTS)
def test_an_expired_certificate(folder, tmp_path, protocol, client):
    with serving(folder, tmp_path, "old") as numbers:
        why = refused(job(protocol, client, numbers[f"{protocol}s"], login(folder)))

    assert "has expired; give the broker a new one" in why


@pytest.mark.parametrize(("protocol", "client"), CLIENTS)
def test_a_certificate_that_the_broker_does_not_trust(ports, folder, protocol, client):
    """In TLS 1.3 the client learns it after its own handshake, and this broker (asyncio) sends no alert."""
    access = login(folder, **owned(folder, "mallory"))

    assert "refused the client's certificate" in refused(job(protocol, client, ports[f"{protocol}s"], access))


@pytest.mark.parametrize(("protocol", "client"), CLIENTS)
@pytest.mark.parametrize("mine", [None, "mallory"])
def test_the_alert_of_a_broker_that_wants_a_certificate(folder, protocol, client, mine):
    """Most servers send an alert (RFC 8446 section 6.2), and the client explains it."""
    served = served_by(folder)
    served.load_verify_locations(folder / "ca.pem")
    served.verify_mode = ssl.CERT_REQUIRED

    def refuse(server):
        line = server.accept()[0]
        with contextlib.suppress(ssl.SSLError):
            served.wrap_socket(line, server_side=True, do_handshake_on_connect=True)
        line.close()

    with peer(refuse) as port:
        access = login(folder, **(owned(folder, mine) if mine else {}))
        why = refused(job(protocol, client, port, access))

    assert "refused the client's certificate (tls" in why


@pytest.mark.skipif(SASL.extended(), reason="this proton has Cyrus SASL, and so SCRAM")
def test_a_mechanism_that_the_library_lacks(ports, folder):
    access = login(folder).merged(Access(mechanism="SCRAM-SHA-256"))

    assert "built without Cyrus SASL" in refused(job("amqp", "library", ports["amqps"], access))


@pytest.mark.parametrize(("protocol", "client"), CLIENTS)
def test_a_silent_peer(folder, protocol, client):
    """Without a handshake the time limit of the connection ends it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        why = refused(job(protocol, client, silent.getsockname()[1], login(folder), connect_s=0.3))

    assert "did not answer a handshake in time; is that a TLS port?" in why


def test_a_broker_that_dies_before_it_answers_has_not_refused():
    """An end of the stream alone is a disconnect, not a refused login or a TLS error."""

    def leave(server):
        for _ in range(2):  # the client, and its check whether that is a TLS port
            server.accept()[0].close()

    with peer(leave) as port, pytest.raises(Disconnected):
        exchange(job("amqp", "library", port, OPEN))


@pytest.mark.parametrize("client", ["library", "raw"])
def test_a_peer_that_quotes_the_passcode(folder, tmp_path, client):
    """An ERROR may repeat the frame that it refuses (STOMP 1.2, ERROR); a result and a history must not."""

    def quote(server):
        with server.accept()[0] as line:
            asked = line.recv(1 << 16).decode()
            passcode = re.search("passcode:(.*)", asked)[1]
            line.sendall(f"ERROR\nmessage:no {passcode}\n\n{asked}".encode())
            line.recv(1)

    with peer(quote) as port:
        access = Access(user="alice", password=Secret(file=str(folder / "password")))
        history = tmp_path / "history.jsonl"
        result = run_job(job("stomp", client, port, access, history=str(history)), ())

    assert "the login of 'alice' was refused: the broker sent ERROR: no <redacted>" in result.error
    assert certificates.PASSWORD not in result.error + history.read_text()


def test_a_depth_over_management_logs_in_like_any_client(ports, folder):
    """A gauge has a connection and a login of its own."""
    probe = DepthProbe(
        "amqp-management", address="", host="127.0.0.1", port=ports["amqps"], access=login(folder, "wrong")
    )
    ask_depth = DepthClient(probe, "depth")

    with pytest.raises(ClientError, match="SASL PLAIN: the login of 'alice' was refused"):
        ask_depth.ask("q")


def test_one_thread_may_read_while_another_writes(folder):
    """Both directions at once, more than the sockets hold; the end of the stream comes after all bytes."""
    served, sent, heard = served_by(folder), os.urandom(4 << 20), bytearray()

    def echo(server):
        with served.wrap_socket(server.accept()[0], server_side=True) as line:
            left = len(sent)
            while left:
                data = line.recv(1 << 16)
                line.sendall(data)
                left -= len(data)
            with contextlib.suppress(OSError):
                line.unwrap()

    with peer(echo) as port:
        line = Login("127.0.0.1", port, Access(tls=ClientTls(ca=str(folder / "ca.pem")))).dial(PATIENCE)

        def read():
            while data := line.recv(1 << 16):
                heard.extend(data)

        reading = threading.Thread(target=read)
        reading.start()
        at = 0
        while at < len(sent):
            at += line.send(sent[at : at + 100_000])
        reading.join(PATIENCE)
        line.close()  # the other side waits for it

    assert bytes(heard) == sent


def test_bytes_that_a_full_socket_refused_are_sent_once(folder):
    """After a BlockingIOError the caller gives the same bytes again; their record must not be made twice."""
    served, sent, heard, full = served_by(folder), os.urandom(8 << 20), bytearray(), threading.Event()

    def listen(server):
        with served.wrap_socket(server.accept()[0], server_side=True) as line:
            full.wait(PATIENCE)
            while len(heard) < len(sent) and (data := line.recv(1 << 16)):
                heard.extend(data)

    with peer(listen) as port:
        line = Login("127.0.0.1", port, Access(tls=ClientTls(ca=str(folder / "ca.pem")))).dial(PATIENCE)
        line.setblocking(False)
        at = 0
        while at < len(sent):
            try:
                at += line.send(sent[at : at + 100_000])
            except BlockingIOError:
                full.set()
                select.select([], [line], [], PATIENCE)
    line.close()

    assert full.is_set()
    assert bytes(heard) == sent
