"""A real broker that the test has started is one that runs already: nothing but its address is given."""

import os
import re
import tomllib

import pytest
from owned_broker import recorded

from conformance import adapters, history, paths
from conformance.adapters import web
from conformance.adapters.distribution import fetch
from conformance.adapters.external import queues as run_queues
from conformance.adapters.file.launch_tables import Depth, QueuesTable
from conformance.clients.management import Management
from conformance.errors import UsageError
from conformance.frontend.cli import cli
from conformance.history import Op, Phase
from conformance.ledger import Ledger
from conformance.run import readiness_probe
from conformance.scenario.script import Drain, Publish

OWNED = "orders"
"""A queue of the broker's owner."""

PREFIX = "conformance-run-1-"
STEPS = (Publish(20, window=5), Drain(), Drain())
TEXTS = ("docs/how-to/brokers.md", "docs/how-to/external-brokers.md", "docker-compose.yml")
LINES = sorted(
    {
        words
        for name in TEXTS
        for words in re.findall(r"--adapter ([a-z0-9@.]+:external=[a-z]+://[^\s`]+)", (paths.root() / name).read_text())
    }
)
"""The words of every line of these texts that gives an address and nothing else."""

LACKS = fetch.not_installed(adapters.find("rabbitmq").file)


def _messages(folder, op):
    found = [event for path in folder.glob("*.jsonl") for event in history.read(path).events]
    return {event.message for event in found if (event.op, event.phase) == (op, Phase.OK) and event.message}


@pytest.fixture
def tried(tmp_path):
    """Start a broker natively, and play a trial at the addresses that the words then name.

    It returns what is left there. The queue of the owner, and the message in it, are untouched.
    """

    def run(name, spec, steps=STEPS, protocol="amqp"):
        adapter = adapters.find(name)
        with (
            Ledger(tmp_path / "theirs", "theirs") as ledger,
            adapter.prepare(tmp_path / "broker", adapter.effective(), [OWNED], ledger) as broker,
        ):
            broker.start()
            readiness_probe.ProbeClient(adapter, protocol).send(broker, OWNED)
            (record,) = recorded(tmp_path / "run", adapters.find(spec(broker)), steps, protocol=protocol)
            after = _names(name, broker)
            assert 1 == readiness_probe.depth_of(broker, OWNED)
        folder = tmp_path / "run" / "trials" / "odd.1"
        assert "" == record.void
        sent = {f"p1:{n}" for n in range(1, 21)}
        assert sent == _messages(folder, Op.SEND)
        assert (sent if Drain() in steps else set()) == _messages(folder, Op.DRAIN)
        left = [*adapters.leftovers(tmp_path / "run")]
        assert (PREFIX in after) == (name != "activemq" and bool(left))
        return left

    return run


def _names(name, broker):
    """The names of its queues, by its own word; Classic is asked by nothing that is here."""
    if name == "artemis":
        host, port = broker.endpoint("amqp")
        asked = Management(host, port, "activemq.management", broker.access("amqp"), "names", relayed=False)
        answer = asked.ask(
            {"_AMQ_ResourceName": "broker", "_AMQ_OperationName": "getQueueNames"}, "[]", within_s=30
        ).body
        asked.close()
        return answer
    paths_of = {"qpid": "api/latest/queue/default/default", "rabbitmq": "api/queues", "reference": "queues"}
    if name not in paths_of:
        return ""
    login = "guest:guest@" if name == "rabbitmq" else ""
    at = f"http://{login}127.0.0.1:{broker.service.endpoint('http')[1]}"
    return web.ask("GET", f"{at}/{paths_of[name]}", timeout_s=30)[1]


def _at(broker, name, *protocols):
    places = [f"{protocol}://127.0.0.1:{broker.endpoint(protocol)[1]}" for protocol in protocols]
    if "http" in adapters.find(name).file.ports:
        places.append(f"http://127.0.0.1:{broker.service.endpoint('http')[1]}")
    return f"{name}:external={','.join(places)}"


ARTEMIS_LINES = {
    tuple(url.partition("://")[0] for url in line.partition(":external=")[2].split(","))
    for line in LINES
    if line.startswith("artemis")
}
"""The protocols of the addresses in each line; two lines that differ in their hosts only are the same here."""


@pytest.mark.artemis
@pytest.mark.parametrize("protocols", sorted(ARTEMIS_LINES), ids="-".join)
def test_a_line_of_the_documentation_runs(tried, protocols):
    """Its addresses are those of the broker of the test, which has no queue of the run afterwards."""
    assert [] == tried("artemis", lambda broker: _at(broker, "artemis", *protocols))


def test_the_lines_are_those_that_are_run():
    """One that names another broker needs a case of its own; that of EMS needs a client that is not here."""
    compose = {"activemq", "qpid", "rabbitmq"}
    assert {line.partition(":")[0].partition("@")[0] for line in LINES} == {"artemis", "ems"} | compose
    assert len(LINES) >= 7


@pytest.mark.process
def test_the_bundled_broker_needs_its_management(tried):
    """Without it the next step is said."""
    assert [] == tried("reference", lambda broker: _at(broker, "reference", "amqp"))


@pytest.mark.process
@pytest.mark.parametrize("name", ["reference", pytest.param("artemis", marks=pytest.mark.artemis)])
def test_a_queue_that_still_holds_messages_is_removed_with_them(tried, name):
    """A trial that was void has drained nothing."""
    assert [] == tried(name, lambda broker: _at(broker, name, "amqp"), STEPS[:1])


@pytest.mark.process
def test_a_queue_that_the_broker_does_not_remove_is_emptied_and_reported(tried, monkeypatch):
    """A broker whose answer is no: it is there afterwards."""
    monkeypatch.setattr(run_queues, "remove_queue", lambda how, _: f"DELETE {how.request.url} answered 403")
    (line,) = tried("reference", lambda broker: _at(broker, "reference", "amqp"), STEPS[:1])

    assert "2 queues of this run are left, empty: DELETE http:" in line


@pytest.mark.activemq
def test_classic_removes_queues_by_its_jolokia(tried):
    """At the address of its web console, with the stock login."""
    assert [] == tried("activemq", lambda broker: _at(broker, "activemq", "amqp"), STEPS[:1])


@pytest.mark.full
@pytest.mark.qpid
def test_broker_j_is_asked_by_its_management(tried):
    assert [] == tried("qpid", lambda broker: _at(broker, "qpid", "amqp"))


@pytest.mark.qpid
def test_a_virtual_host_of_another_name_needs_the_file_of_the_page(tried, tmp_path):
    """The file of docs/how-to/external-brokers.md, with the names of the virtual host there."""

    def spec(broker):
        page = (paths.root() / "docs/how-to/external-brokers.md").read_text()
        text = page.split("```toml")[1].split("```")[0].replace("NODE/HOST", "default/default")
        text = text.replace("broker.example:5672", f"127.0.0.1:{broker.endpoint('amqp')[1]}")
        (tmp_path / "mine.toml").write_text(
            text.replace("broker.example:8080", f"127.0.0.1:{broker.service.endpoint('http')[1]}")
        )
        return f"qpid:external={tmp_path}/mine.toml"

    assert [] == tried("qpid", spec)


@pytest.mark.process
@pytest.mark.skipif(bool(LACKS), reason=LACKS)
def test_rabbitmq_is_asked_by_its_management(tried):
    assert [] == tried("rabbitmq", lambda broker: _at(broker, "rabbitmq", "amqp"))


def test_a_management_stands_at_its_usual_port():
    """Of a product that has one; an address that is given goes before."""
    usual = adapters.find("rabbitmq:external=amqp://broker.example:5672").launcher.rules.urls
    given = adapters.find("qpid:external=amqp://broker.example:5672,http://other:1").launcher.rules.urls

    assert "http://broker.example:15672" == usual["http"]
    assert "http://other:1" == given["http"]
    assert {"amqp"} == adapters.find("artemis:external=amqp://broker.example:5672").launcher.rules.urls.keys()


@pytest.mark.parametrize(
    ("name", "given", "missing"),
    [
        ("reference", "amqp://broker.example:5672", "of the management is missing: .+ over HTTP .+,http://HOST:PORT"),
        ("artemis", "stomp://broker.example:61613", "for AMQP is missing: .+ over AMQP .+,amqp://HOST:PORT"),
    ],
)
def test_the_address_by_which_a_depth_is_asked_for_is_needed(tmp_path, name, given, missing):
    """The error says what is missing and the words that have it; a first file is not written without it."""
    with pytest.raises(UsageError, match=rf"the address {missing}$") as caught:
        adapters.find(f"{name}:external={given}")
    assert f"Give it as well: --adapter {name}:external={given}," in str(caught.value)
    with pytest.raises(UsageError, match=rf"^external=: the address {missing}$"):
        cli.main(["init", "external", name, given, "--out", str(tmp_path / "mine.toml")], standalone_mode=False)
    assert not (tmp_path / "mine.toml").exists()


@pytest.mark.parametrize(
    ("name", "urls", "said"),
    [
        ("artemis", "amqp://127.0.0.1:5672,stomp://127.0.0.1:61613", "creates_queues = true"),
        ("rabbitmq", "amqp://127.0.0.1:5672", 'http = "http://127.0.0.1:15672"'),
        ("reference", "amqp://[::1]:5672,http://[::1]:80", "creates_queues = true"),
    ],
)
def test_a_first_file_is_written_and_can_be_read(tmp_path, capsys, name, urls, said):
    """It is one that `--adapter NAME:external=FILE` takes, and no file is overwritten."""
    out = tmp_path / "mine.toml"
    cli.main(["init", "external", name, urls, "--out", str(out)], standalone_mode=False)

    assert said in out.read_text()
    assert "external" == adapters.find(f"{name}:external={out}").launcher.word
    assert f"next: conformance adapters check {name}:external={out}" in capsys.readouterr().out
    with pytest.raises(UsageError, match="it exists"):
        cli.main(["init", "external", name, urls, "--out", str(out)], standalone_mode=False)


URLS = {"ems": "tcp://127.0.0.1:7222", "openmq": "stomp://127.0.0.1:61613"}
"""Where an address of AMQP and one of the management are not the ones to give."""


@pytest.mark.parametrize("name", sorted({*adapters.names()} - {"ems", "hivemq", "mosquitto"}))
def test_the_first_file_of_each_product_is_complete(tmp_path, monkeypatch, name):
    """The suite can declare a queue and ask for its depth with what the file says, and nothing else.

    Over MQTT there is no depth to ask for: brokers of MQTT alone need none.
    A file may name the program that runs containers, which this machine need not have: it is looked for, and not run.
    """
    program = tmp_path / "programs" / "docker"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    out = tmp_path / "mine.toml"
    urls = URLS.get(name, "amqp://127.0.0.1:5672,http://127.0.0.1:8080")
    cli.main(["init", "external", name, urls, "--out", str(out)], standalone_mode=False)
    adapter = adapters.find(f"{name}:external={out}")
    with (
        Ledger(tmp_path / "run", "run-1") as ledger,
        adapter.prepare(tmp_path / "broker", adapter.effective(), ["q"], ledger) as broker,
    ):
        probe = broker.service.depth_probe("q-1")

    assert urls == ",".join(adapter.launcher.rules.urls.values())
    assert any("q-1" in text for text in (probe.url, probe.address, *probe.properties.values(), *probe.command))


def test_the_first_file_of_ems_has_what_a_run_without_a_client_needs(tmp_path):
    """No client of the suite speaks its protocol, so it is asked for no depth, and its run reports NOT_TRIED."""
    out = tmp_path / "mine.toml"
    cli.main(["init", "external", "ems", URLS["ems"], "--out", str(out)], standalone_mode=False)

    assert {"urls", "declare"} == tomllib.loads(out.read_text()).keys()
    assert adapters.find(f"ems:external={out}").launcher.rules.declare == adapters.find("ems").file.external.declare


def test_the_file_of_a_product_with_a_tool_of_its_own_shows_how_it_is_run(tmp_path):
    """Only its owner knows where the tool is and where the administration listens."""
    out = tmp_path / "mine.toml"
    cli.main(["init", "external", "openmq", URLS["openmq"], "--out", str(out)], standalone_mode=False)
    written = tomllib.loads(out.read_text())
    own = adapters.find("openmq").file.external

    assert {"urls", "declare", "depth"} == written.keys()
    assert own.depth == Depth.model_validate(written["depth"])
    assert own.declare == QueuesTable.model_validate(written["declare"])


def test_a_way_of_the_product_that_needs_a_broker_of_the_suite_is_refused(tmp_path):
    """The error names the text, the placeholder, and the table that replaces it."""
    text = (paths.fixtures() / "brokers" / "openmq" / "broker.toml").read_text()
    own, out = tmp_path / "own" / "broker.toml", tmp_path / "mine.toml"
    own.parent.mkdir()
    own.write_text(text.partition("[external.declare]")[0] + text[text.index("[deviations]") :])
    out.write_text('urls = { stomp = "stomp://h:1" }\ncreates_queues = true\nkill = ["{java}"]')

    with pytest.raises(UsageError) as caught:
        adapters.find(f"{own}:external={out}")
    no_value = "{java} has a value only at a broker that the suite starts. Give another external"
    page = "in its file (docs/how-to/external-brokers.md)"
    assert str(caught.value).splitlines() == [
        f"{out}: 2 errors",
        f"  external.depth.command: {no_value}.depth {page}",
        f"  external.kill.command: {no_value}.kill {page}",
    ]
