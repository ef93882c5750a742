"""TLS and passwords on real sockets: who is let in, and by which mechanism."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import sys

import pytest
from blackbox.server import ROOT, Server
from proton import ConnectionException
from proton.utils import BlockingConnection
from starts import starts_process

from tests.reference.amqp_raw import PATIENCE
from tests.reference.test_amqp_handshake import OK, REFUSED, SASL_HEADER, init

MODULE = [sys.executable, "-m", "conformance.reference"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def openssl(folder, *words):
    """Makes keys and certificates."""
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
@starts_process
def certificates(tmp_path_factory):
    """An authority, what it has signed for the broker and for alice, and a stranger's."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command to make certificates")
    folder = tmp_path_factory.mktemp("certificates")
    key = ["req", "-newkey", "rsa:2048", "-nodes"]
    for name, subject in (("ca", "/CN=authority"), ("stranger", "/CN=mallory")):
        openssl(folder, *key, "-x509", "-days", "2", "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", subject)
    for name, subject in (("broker", "/CN=127.0.0.1"), ("alice", "/O=Acme/CN=alice")):
        openssl(folder, *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject)
        signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"]
        openssl(folder, "x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.pem")
    (folder / "password").write_text("sec ret\n")
    return folder


@pytest.fixture(scope="module")
def secured(certificates, tmp_path_factory):
    """The places, by name, of a broker with TLS ports: one for each set of other options."""
    pair = [f"--tls-cert={certificates / 'broker.pem'}", f"--tls-key={certificates / 'broker.key'}"]
    started = {}

    def one(*words):
        if words not in started:
            data = tmp_path_factory.mktemp("secured") / "data"
            started[words] = Server(data, "--amqps-port=0", "--stomps-port=0", *pair, *words)
        return started[words].places

    one.ca = f"--tls-ca={certificates / 'ca.pem'}"
    one.alice = ("--user=alice", f"--password-file={certificates / 'password'}")
    yield one
    for server in started.values():
        server.kill()


def dialled(place, folder, mine=None):
    """A TLS socket; with the certificate `mine` of the folder, or none."""
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    context.check_hostname = False
    if mine is not None:
        context.load_cert_chain(folder / f"{mine}.pem", folder / f"{mine}.key")
    host, port = place.split(":")
    return context.wrap_socket(socket.create_connection((host, int(port)), timeout=PATIENCE))


def said(peer, data):
    """What is answered until the outcome, or the end."""
    peer.sendall(data)
    heard = b""
    while OK not in heard and REFUSED not in heard:
        more = peer.recv(4096)
        if not more:
            break
        heard += more
    return heard


@pytest.mark.parametrize(
    ("mine", "mechanism", "outcome", "offered"),
    [
        ("alice", "EXTERNAL", OK, True),
        (None, "EXTERNAL", REFUSED, False),
        (None, "ANONYMOUS", OK, False),
    ],
)
def test_external_only_with_a_certificate(secured, certificates, mine, mechanism, outcome, offered):
    """One that the authority has signed; without one EXTERNAL is neither offered nor accepted."""
    with dialled(secured(secured.ca)["amqps"], certificates, mine) as peer:
        heard = said(peer, SASL_HEADER + init(mechanism))

    assert (heard.endswith(outcome), b"EXTERNAL" in heard) == (True, offered)


def test_the_authorization_identity_is_the_subject(secured, certificates):
    """In the order of RFC 4514, and of no other certificate."""
    place = secured(secured.ca)["amqps"]
    heard = []
    for identity in (b"commonName=alice,organizationName=Acme", b"commonName=root"):
        with dialled(place, certificates, "alice") as peer:
            heard.append(said(peer, SASL_HEADER + init("EXTERNAL", identity))[-8:])

    assert heard == [OK, REFUSED]


def test_a_strangers_certificate_ends_the_handshake(secured, certificates):
    """TLS 1.3 tells the client with its first bytes; no byte of ours comes."""
    heard = b""
    with (
        contextlib.suppress(ssl.SSLError, ConnectionError),
        dialled(secured(secured.ca)["amqps"], certificates, "stranger") as peer,
    ):
        heard = said(peer, SASL_HEADER + init("ANONYMOUS"))

    assert heard == b""


def test_without_authorities_a_certificate_says_nothing(secured, certificates):
    """The certificate was not verified."""
    with dialled(secured()["amqps"], certificates, "alice") as peer:
        assert b"EXTERNAL" not in said(peer, SASL_HEADER + init("ANONYMOUS"))


def test_stomp_over_tls(secured, certificates):
    """The same, on a port of its own."""
    with dialled(secured()["stomps"], certificates) as peer:
        peer.sendall(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
        assert peer.recv(4096).startswith(b"CONNECTED\n")


@pytest.mark.parametrize(("password", "let_in"), [("sec ret", True), ("secret", False), ("", False)])
def test_a_proton_client_with_a_password(secured, password, let_in):
    """PLAIN as proton sends it; the line's end is not part of the password."""
    place = secured(*secured.alice)["amqp"]
    options = {"user": "alice", "password": password, "allowed_mechs": "PLAIN", "allow_insecure_mechs": True}
    if let_in:
        BlockingConnection(f"amqp://{place}", timeout=PATIENCE, **options).close()
    else:
        with pytest.raises(ConnectionException):
            BlockingConnection(f"amqp://{place}", timeout=PATIENCE, **options)


def test_a_broker_with_a_password_refuses_anonymous_clients(secured):
    """By SASL or without it."""
    place = secured(*secured.alice)["amqp"]
    for options in ({"allowed_mechs": "ANONYMOUS"}, {"sasl_enabled": False}):
        with pytest.raises(ConnectionException):
            BlockingConnection(f"amqp://{place}", timeout=PATIENCE, **options)


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--amqps-port=0"], 4, "need --tls-cert and --tls-key"),
        (["--tls-cert=x"], 4, "give the first two together"),
        (["--user=alice"], 4, "give both or neither"),
        (["--user=alice", "--password-file=/nowhere"], 4, "/nowhere: No such file"),
        (["--amqps-port=0", "--tls-cert=/nowhere", "--tls-key=/nowhere"], 3, "no certificate with its key"),
    ],
)
def test_words_that_lack_their_other_half(tmp_path, words, code, message):
    """One line, and the exit code."""
    command = [*MODULE, "--amqp-port=0", "--http-port=0", f"--data={tmp_path / 'data'}", *words]
    ended = subprocess.run(command, check=False, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE)

    assert (ended.returncode, message in ended.stderr, ended.stderr.count("\n")) == (code, True, 1)


@pytest.mark.process
@pytest.mark.parametrize(("mine", "offered"), [("alice", b"EXTERNAL PLAIN"), (None, b"PLAIN")])
def test_mechanisms_of_amqp_091_over_tls(secured, certificates, mine, offered):
    """connection.start offers EXTERNAL to a peer with a certificate, and nothing without a login to any."""
    places = secured("--amqps091-port=0", secured.ca, *secured.alice)
    with dialled(places["amqps091"], certificates, mine) as peer:
        peer.sendall(b"AMQP\x00\x00\x09\x01")
        start = peer.recv(4096)

    assert start[7:11] == b"\x00\x0a\x00\x0a"
    assert len(offered).to_bytes(4, "big") + offered + b"\x00\x00\x00\x05en_US" in start
