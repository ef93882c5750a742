"""A request to a broker's own interface: an address that is none is a mistake in a file, told in one line."""

import contextlib
import http.server
import pathlib
import ssl
import sys
import threading

import pytest
from starts import starts_process

from conformance import adapters
from conformance.adapters import DepthProbe, web
from conformance.adapters.credentials import Access, ClientTls
from conformance.adapters.external.addresses import at_its_host, places
from conformance.clients.management import DepthClient
from conformance.errors import ClientError, UsageError
from conformance.ledger import Ledger
from conformance.run.trial.jobs import depth_probe

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "clients"))
import certificates


class Management(http.server.BaseHTTPRequestHandler):
    """Answers every GET with a depth."""

    def do_GET(self):
        """Three messages."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"depth": 3}')

    def log_message(self, *args):
        """Say nothing."""


class Server(http.server.ThreadingHTTPServer):
    """Shakes hands in the thread of the request, and says nothing of a client that turns away."""

    def handle_error(self, request, client_address):
        """The client says it."""


@pytest.fixture(scope="module")
@starts_process
def secure(tmp_path_factory):
    """A management over https on 127.0.0.1: its address, and the folder of the certificates."""
    folder = certificates.make(tmp_path_factory.mktemp("certificates"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "broker.pem", folder / "broker.key")
    with Server(("127.0.0.1", 0), Management) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"https://127.0.0.1:{server.server_address[1]}", folder
        server.shutdown()
        thread.join()


def test_a_depth_over_https(secure):
    """The certificate is verified by the authority that was named."""
    url, folder = secure
    tls = ClientTls(ca=str(folder / "ca.pem"))
    probe = DepthProbe("http", f"{url}/queues/q", "depth", access=Access(tls=tls))

    assert 3 == DepthClient(probe, "test").ask("q")
    assert (200, '{"depth": 3}') == web.ask(
        "GET", url, access=Access(tls=ClientTls(ca=tls.ca, server_name="broker.example"))
    )


@pytest.mark.parametrize(
    ("ca", "name", "says"),
    [
        ("", "", "name its authority"),
        ("stranger.pem", "", "name its authority"),
        ("ca.pem", "other.example", "other.example"),
        ("nothing.pem", "", "has no certificates of authorities"),
    ],
)
def test_a_certificate_that_cannot_be_trusted(secure, ca, name, says):
    """One line that says what to give; never a request without a check."""
    url, folder = secure
    tls = ClientTls(ca=str(folder / ca) if ca else "", server_name=name)

    with pytest.raises(OSError, match=says):
        web.ask("GET", url, access=Access(tls=tls))
    with pytest.raises(ClientError, match=says):
        DepthClient(DepthProbe("http", url, "depth", access=Access(tls=tls)), "test").ask("q")


def test_the_management_of_an_external_broker_over_https(secure, tmp_path):
    """Its address was refused. AMQP stays plain: only [access.http] names the authority."""
    url, folder = secure
    text = pathlib.Path(adapters.find("reference").path).read_text()
    ca = f'\n[access.http]\ntls = {{ ca = "{folder}/ca.pem" }}\n'
    (tmp_path / "mine.toml").write_text(text.replace("[external]", f"{ca}\n[external]"))
    adapter = adapters.find(f"{tmp_path}/mine.toml@1:external=amqp://127.0.0.1:1,{url}")
    with contextlib.ExitStack() as stack:
        ledger = stack.enter_context(Ledger(tmp_path / "l", "l"))
        broker = stack.enter_context(adapter.prepare(tmp_path / "b", adapter.effective(), [], ledger))
        probe = depth_probe(broker, "q")

        assert (f"{url}/queues/q", None) == (probe.url, broker.access("amqp").tls)
        assert 3 == DepthClient(probe, "test").ask("q")


def test_an_address_of_the_file_is_moved_to_where_the_broker_is():
    """With the scheme of the management's address, and the port of that scheme."""
    found = places({"amqp": "amqp://broker", "http": "https://broker"}, adapters.find("reference").file)

    assert 443 == found["http"].port
    assert "https://guest:x@broker:15671/q" == at_its_host("http://guest:x@127.0.0.1:15671/q", found)
    assert "https://a%40b@broker:15671/q" == at_its_host("http://guest:x@127.0.0.1:15671/q", found, "a@b")


@pytest.mark.parametrize("address", ["127.0.0.1:65536", "127.0.0.1:x", "[::1", ""])
def test_an_address_that_is_none(address):
    """Without the password that may be in it."""
    with pytest.raises(UsageError, match=r"expected http://HOST:PORT/PATH") as caught:
        web.ask("GET", f"http://guest:secret@{address}/api")

    assert "secret" not in str(caught.value)
