"""The documented lines for a broker that runs already, as whole commands of a user against real brokers."""

import contextlib
import json

import compose_brokers
import pytest

from conformance import adapters, paths
from conformance.adapters import web
from conformance.adapters.distribution import fetch
from conformance.ledger import Ledger

COMPOSE = (paths.root() / "docker-compose.yml").read_text()
LACKS = fetch.not_installed(adapters.find("rabbitmq").file)
MARKS = {
    "artemis": pytest.mark.artemis,
    "qpid": pytest.mark.qpid,
    "activemq": pytest.mark.activemq,
    "rabbitmq": pytest.mark.skipif(bool(LACKS), reason=LACKS),
}
PRODUCTS = [pytest.param(name, marks=[pytest.mark.full, MARKS[name]]) for name in compose_brokers.PRODUCTS]


@contextlib.contextmanager
def _running(adapter, folder):
    with (
        Ledger(folder / "theirs", f"theirs-{folder.name}") as ledger,
        adapter.prepare(folder / "broker", adapter.effective(), [], ledger) as broker,
    ):
        broker.start()
        yield broker


def _moved(line, broker):
    """The line with the addresses of this broker; what it does not name stays unnamed."""
    words = line.split()
    at = words.index("--adapter") + 1
    name, _, urls = words[at].partition(":external=")
    found = [url.partition("://")[0] for url in urls.split(",")]
    words[at] = f"{name}:external=" + ",".join(f"{one}://127.0.0.1:{broker.service.endpoint(one)[1]}" for one in found)
    return words


def _rows(folder):
    report = json.loads((folder / "report.json").read_text())
    tried = [row for row in report["verdicts"] if row["verdict"] not in ("NOT_TRIED", "NOT_APPLICABLE")]
    return {(row["claim"], row["verdict"]) for row in tried}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_line_of_the_compose_file(conformance, tmp_path, monkeypatch, name):
    """With the login of the service, against the native broker with its configuration. Nothing is left but at Classic."""
    monkeypatch.setenv("PASSWORD", "conformance")
    adapter = compose_brokers.adapter_of(name, tmp_path / "files")
    with _running(adapter, tmp_path) as broker:
        line = _moved(compose_brokers.line_of(name, COMPOSE), broker)
        done = conformance(*line, "--claims", "AMQP-SETTLE-02", "--out", "out", timeout=580)

    assert 0 == done.returncode, done.stdout + done.stderr
    assert {("AMQP-SETTLE-02", "HOLDS")} == _rows(tmp_path / "out")
    left = [*adapters.leftovers(tmp_path / "out")]
    assert (name == "activemq") == bool(left)
    assert all("left, empty" in each for each in left)


def test_the_line_of_the_bundled_broker(conformance, tmp_path):
    """Its AMQP address and that of its management, as docs/how-to/external-brokers.md says."""
    adapter = adapters.find("reference")
    with _running(adapter, tmp_path) as broker:
        line = _moved("run --adapter reference:external=amqp://HOST:5672,http://HOST:8080", broker)
        done = conformance(*line, "--claims", "AMQP-MOD-01", "--out", "out")
        _, names = web.ask("GET", f"http://127.0.0.1:{broker.service.endpoint('http')[1]}/queues")

    assert 0 == done.returncode, done.stdout + done.stderr
    assert {("AMQP-MOD-01", "HOLDS")} == _rows(tmp_path / "out")
    assert ([], []) == ([*adapters.leftovers(tmp_path / "out")], json.loads(names)["queues"])


@pytest.mark.full
@pytest.mark.activemq
def test_classic_without_its_plugin_is_an_error_at_once(conformance, tmp_path, monkeypatch):
    """A stock one has none, and answers no depth: one line says what to add, before any trial."""
    monkeypatch.setenv("PASSWORD", "conformance")
    adapter = compose_brokers.adapter_of("activemq", tmp_path / "files")
    config = tmp_path / "files/activemq/activemq.xml"
    config.write_text(config.read_text().replace("<statisticsBrokerPlugin/>", ""))
    with _running(adapter, tmp_path) as broker:
        line = _moved(compose_brokers.line_of("activemq", COMPOSE), broker)
        done = conformance("adapters", "check", *line[2:])

    assert 3 == done.returncode
    assert "put <statisticsBrokerPlugin/> into <plugins> of activemq.xml" in done.stdout + done.stderr
