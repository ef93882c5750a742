"""What a port is asked before anybody believes that a broker is there: in TLS where clients will speak it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping

import pytest
from starts import starts_process

from conformance import adapters, paths
from conformance.adapters.credentials import Access, ClientTls, Secret
from conformance.adapters.external.addresses import Place
from conformance.adapters.launch.readiness import GREETED, greeting_error
from conformance.errors import LaunchError
from conformance.ledger import Ledger

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "clients"))
import certificates

HOST = "127.0.0.1"
NAMES = ("amqp", "amqps", "stomp", "stomps", "http")
SPOKEN = [name for name in GREETED if name in NAMES]


@pytest.fixture(scope="module")
@starts_process
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def numbers(folder: pathlib.Path) -> Iterator[Mapping[str, int]]:
    """The ports of a bundled broker, plain and over TLS, which wants alice and her password."""
    words = [
        *(f"--{name}-port=0" for name in NAMES),
        "--tls-cert=broker.pem",
        "--tls-key=broker.key",
        "--tls-ca=ca.pem",
    ]
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "conformance.reference",
            *words,
            "--data=data",
            "--user=alice",
            "--password-file=password",
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(paths.root())},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        word, *places = process.stdout.readline().split()
        assert word == "ready"
        yield {name: int(place.rpartition(":")[2]) for name, place in (one.split("=") for one in places)}
    finally:
        process.kill()
        process.wait(20)
        process.stdout.close()


@contextlib.contextmanager
def answering(certificate: pathlib.Path | None, said: bytes) -> Iterator[int]:
    """A server that greets each connection with this text, over TLS if it has a certificate; an empty text is silence."""
    listener = socket.create_server((HOST, 0))
    done = threading.Event()

    def serve() -> None:
        with contextlib.suppress(OSError):
            line, _ = listener.accept()
            if certificate is not None:
                context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
                context.load_cert_chain(certificate / "broker.pem", certificate / "broker.key")
                line = context.wrap_socket(line, server_side=True)
            with line:
                line.sendall(said)
                done.wait(20)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    done.set()
    listener.close()
    thread.join(20)


@pytest.mark.parametrize("protocol", SPOKEN)
def test_a_port_of_tls_is_asked_in_tls(numbers: Mapping[str, int], protocol: str) -> None:
    """And greets: nothing is wrong with it, with any certificate."""
    assert greeting_error(protocol, HOST, numbers[f"{protocol}s"], tls=ClientTls()) == ("", False)
    assert greeting_error(protocol, HOST, numbers[protocol]) == ("", False)


@pytest.mark.parametrize("protocol", SPOKEN)
def test_a_port_with_or_without_tls_is_recognised_at_once(numbers: Mapping[str, int], protocol: str) -> None:
    """Waiting is no use: TLS where none was to be spoken, and none where it was."""
    plain = greeting_error(protocol, HOST, numbers[f"{protocol}s"])
    secured = greeting_error("amqp", HOST, numbers["amqp"], tls=ClientTls())

    assert (plain[1], "answers in TLS: say so ([access.tls], --tls" in plain[0]) == (True, True), plain
    assert (secured[1], "does not answer in TLS (" in secured[0]) == (True, True), secured


def test_another_protocol_behind_tls_is_recognised(numbers: Mapping[str, int], folder: pathlib.Path) -> None:
    """An open port of TLS proves nothing: STOMP is no AMQP, and neither is a web server."""
    place = Place("amqp", HOST, numbers["stomps"], Access(tls=ClientTls()))
    with answering(folder, b"HTTP/1.1 400 Bad Request\r\n") as port:
        web = Place("amqp", HOST, port, Access(tls=ClientTls())).wrong()

    assert ("which is not AMQP 1.0" in place.wrong()[0], place.wrong()[1]) == (True, True)
    assert ("which is not AMQP 1.0" in web[0], web[1]) == (True, True)


def test_who_may_still_be_starting_is_waited_for(folder: pathlib.Path) -> None:
    """Silence before and behind TLS, and no listener."""
    with answering(None, b"") as port:
        silent = greeting_error("amqp", HOST, port, 0.3, tls=ClientTls())
    with answering(folder, b"") as port:
        no_client_reason = greeting_error("amqp", HOST, port, 0.3, tls=ClientTls())
    unheard = greeting_error("amqp", HOST, port, 0.3, tls=ClientTls())

    assert silent == (
        f"{HOST}:{silent[0].partition(' ')[0].rpartition(':')[2]} accepts connections and answers no TLS handshake",
        False,
    )
    assert ("says nothing in AMQP 1.0" in no_client_reason[0], no_client_reason[1]) == (True, False)
    assert unheard == (f"nothing listens on {HOST}:{port}", False)


def test_a_file_that_is_no_key_is_an_error_with_its_field(numbers: Mapping[str, int], folder: pathlib.Path) -> None:
    tls = ClientTls(certificate=str(folder / "alice.pem"), key=str(folder / "mallory.key"))
    told, final = greeting_error("amqp", HOST, numbers["amqps"], tls=tls)

    assert (told.startswith("tls.certificate and tls.key (--tls-cert, --tls-key): "), final) == (True, True)


def test_an_unknown_host() -> None:
    told, final = greeting_error("amqp", "nowhere.invalid", 1)

    assert (told.startswith("the host nowhere.invalid is unknown: "), final) == (True, False)


def external(numbers: Mapping[str, int], scheme: str, port: str, tmp_path: pathlib.Path, typed: Access) -> None:
    """Start what runs already: it is only looked at."""
    found = adapters.find(f"reference:external={scheme}://{HOST}:{numbers[port]},http://{HOST}:{numbers['http']}")
    assert isinstance(found, adapters.FileAdapter)
    adapter = dataclasses.replace(found, file=found.file.with_credentials(typed))
    with (
        Ledger(tmp_path / "run", "looked-at") as ledger,
        adapter.prepare(tmp_path / "broker", adapter.effective(), ["q"], ledger) as broker,
    ):
        broker.start()
        assert broker.epoch == 1


def test_an_external_broker_behind_tls_is_asked_in_tls(
    numbers: Mapping[str, int], folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """As its address says, or who typed; what is no AMQP behind TLS is told by the key of its address."""
    typed = Access(
        user="alice", password=Secret(file=str(folder / "password")), tls=ClientTls(ca=str(folder / "ca.pem"))
    )
    external(numbers, "amqps", "amqps", tmp_path / "url", Access())
    external(numbers, "amqp", "amqps", tmp_path / "typed", typed)
    with pytest.raises(LaunchError, match=r"external\.urls\.amqp: .* which is not AMQP 1\.0\. Correct the address"):
        external(numbers, "amqps", "stomps", tmp_path / "stomp", typed)
    with pytest.raises(LaunchError, match=r"external\.urls\.amqp: .* answers in TLS: say so"):
        external(numbers, "amqp", "amqps", tmp_path / "plain", Access())


def test_a_broker_that_is_started_behind_tls_is_ready_when_it_greets(
    folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Where its file says TLS; where it does not, the first answer says what is missing."""
    text = (paths.fixtures() / "brokers/reference/broker.toml").read_text()
    plain = '"--amqp-port", "{amqp_port}", "--amqp091-port", "{amqp091_port}",\n  "--stomp-port", "{stomp_port}",'
    secured = '"--amqps-port", "{amqp_port}", "--stomps-port", "{stomp_port}", "--amqp-port", "0", '
    assert text.count(plain) == 1
    text = text.replace(plain, f'{secured} "--tls-cert", "{folder}/broker.pem", "--tls-key", "{folder}/broker.key",')
    text = text.replace('ready_log = "^ready amqp="\n', "").replace(
        'ready_port = "amqp"', 'ready_port = ["amqp", "stomp"]'
    )

    def started(name: str, more: str) -> None:
        (tmp_path / name).write_text(text.replace("[start]\n", f"{more}[start]\n"))
        adapter = adapters.find(str(tmp_path / name))
        with (
            Ledger(tmp_path / f"run-{name}", name) as ledger,
            adapter.prepare(tmp_path / f"broker-{name}", adapter.effective(), ["q"], ledger) as broker,
        ):
            broker.start()

    started("tls.toml", "[access.tls]\n\n")
    with pytest.raises(LaunchError, match=r"protocols\.amqp\.port: amqp, .* answers in TLS: say so"):
        started("plain.toml", "")
