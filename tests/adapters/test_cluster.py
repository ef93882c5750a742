"""Brokers of several nodes: who serves, who takes over, and what is left where a node does not join."""

import dataclasses
import signal

import pytest

from conformance import adapters
from conformance.adapters import BrokerRequest, open_broker, vendor_clients
from conformance.adapters.distribution import fetch
from conformance.adapters.file.nodes_table import NODES, Links
from conformance.adapters.launch import cluster, native
from conformance.adapters.launch.links import between
from conformance.adapters.system import BrokerUnderTest
from conformance.errors import FaultError, LaunchError, UsageError
from conformance.faults.possible import ThisMachine
from conformance.followup import contract
from conformance.ledger import Ledger
from conformance.processes import is_stopped, send_all, wait_stopped
from conformance.run.readiness_probe import ProbeClient
from conformance.scenario.needs import ANOTHER_NODE, GOES_ON
from conformance.scenario.script import KillNodes, Nth, PowerLoss

LACKS = fetch.not_installed(adapters.find("rabbitmq").file)
AT = Nth("confirm", 1)


def opened(name, nodes, protocol="amqp"):
    return open_broker(BrokerRequest(name, protocol, overrides={NODES: nodes}))


def prepared(tmp_path, request, change=None):
    adapter = request.adapter
    adapter = dataclasses.replace(adapter, file=adapter.file.model_copy(update=change)) if change else adapter
    settings, client = adapter.effective(request.overrides), ProbeClient(adapter, request.protocol)
    return adapter.prepare(tmp_path / "b", settings, ["q"], Ledger(tmp_path, "cluster"), client=client), client


def kill(processes):
    with processes.armed("kill") as handles:
        send_all(handles, signal.SIGKILL)
    assert processes.wait_gone(10)


@pytest.mark.process
def test_another_node_takes_over_with_what_was_confirmed(tmp_path):
    """The dead one returns by the next start, and takes over in its turn; so does either when both have died."""
    broker, client = prepared(tmp_path, opened("reference", 2))
    with broker:
        broker.start()
        first = broker.node
        client.send(broker, "q")

        kill(broker.met("serving"))
        broker.start()
        second = broker.node
        assert second is not first
        assert first.gone()
        assert client.depth(broker, "q") == 1

        broker.start()  # the dead one returns, beside the one that serves
        assert broker.node is second
        assert not first.gone()

        kill(broker.met("another"))
        assert first.gone()
        client.send(broker, "q")
        kill(broker.met("all"))
        broker.start()
        assert broker.node is second, "the one that was away serves without what was confirmed meanwhile"
        assert client.depth(broker, "q") == 2
        assert broker.epoch == 4

        broker.stop()
        assert broker.met("all").gone()


@pytest.mark.process
def test_a_node_that_missed_messages_while_parted_does_not_serve_without_them(tmp_path):
    """The node that serves goes on alone. It dies at the end, and the one that was away waits for it."""
    request = opened("reference", 2)
    start = request.adapter.file.start
    soon = start.model_copy(update={"command": (*start.command, "--replication-s", "0.5")})
    broker, client = prepared(tmp_path, request, {"start": soon})
    with broker:
        broker.start()
        first = broker.node
        with broker.parting("serving") as links:
            between.part(links)
            client.send(broker, "q")
            kill(broker.met("serving"))
        broker.start()

        assert broker.node is first
        assert not any(node.gone() for node in broker.nodes)
        assert client.depth(broker, "q") == 1


@pytest.mark.process
def test_a_node_that_was_halted_goes_on_when_the_client_died(tmp_path):
    """It may have missed something: so the other one, which then dies, is started too."""
    broker, _ = prepared(tmp_path, opened("reference", 2))
    with broker:
        broker.start()
        first, another = broker.node, broker.met("another")
        with broker.halting("another"), another.armed() as handles:
            send_all(handles, signal.SIGSTOP)
            assert wait_stopped(handles, 5)
        assert not any(is_stopped(pid) for pid in another.processes())

        kill(broker.met("serving"))
        broker.start()
        assert not first.gone()


@pytest.mark.process
def test_a_node_that_was_not_started_may_be_the_one_that_serves(tmp_path):
    """Too few are left, so what died is started; and the one that was left takes over meanwhile."""
    pair = opened("reference", 2)
    rules = pair.adapter.file.nodes
    assert rules is not None
    broker, client = prepared(tmp_path, pair, {"nodes": rules.model_copy(update={"enough": 2})})
    with broker:
        broker.start()
        first = broker.node
        client.send(broker, "q")
        kill(broker.met("serving"))
        broker.start()

        assert broker.node is not first
        assert not first.gone()
        assert client.depth(broker, "q") == 1


@pytest.mark.process
def test_the_node_that_serves_after_a_partition_is_found(tmp_path):
    """The one that served has given up, and another one has taken over: clients go there."""
    broker, client = prepared(tmp_path, opened("reference", 2))
    with broker:
        broker.start()
        first = broker.find_serving()
        assert (broker.node, broker.epoch) == (first, 1)
        kill(broker.met("serving"))
        (standby,) = [node for node in broker.nodes if node is not first]
        standby.wait_until(standby.missing, anew=True)

        assert broker.find_serving() is standby
        assert (broker.node, broker.epoch) == (standby, 2)
        client.send(broker, "q")


@pytest.mark.process
def test_a_broker_of_one_node_or_without_links_cannot_be_parted(tmp_path):
    one = opened("reference", 1).adapter
    single = one.prepare(tmp_path / "one", one.effective({}), ["q"], Ledger(tmp_path / "one", "one"))
    with single, pytest.raises(FaultError, match="the broker has one node"):
        single.parting("serving")
    with pytest.raises(FaultError, match="the broker has one node"):
        single.halting("serving")

    pair = opened("reference", 2)
    rules = pair.adapter.file.nodes
    assert rules is not None
    broker, _ = prepared(tmp_path, pair, {"nodes": rules.model_copy(update={"links": None})})
    with broker, pytest.raises(FaultError, match=r"no \[nodes.links\]"), broker.parting("serving"):
        pass
    with pytest.raises(UsageError, match=r"nodes\.links: unknown ports: core"):
        wrong = rules.model_copy(update={"links": Links(ports=("core",))})
        prepared(tmp_path / "wrong", pair, {"nodes": wrong})


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("reference", 2),
        pytest.param("activemq", 2, marks=pytest.mark.activemq),
        pytest.param("qpid", 3, marks=[pytest.mark.qpid, pytest.mark.full]),
        pytest.param("artemis", 2, marks=[pytest.mark.artemis, pytest.mark.full]),
    ],
)
def test_a_check_forms_the_nodes_and_kills_one(tmp_path, name, nodes):
    request = opened(name, nodes)
    steps = []
    with Ledger(tmp_path, "check") as ledger:
        contract.check(request.adapter, tmp_path / "b", ledger, steps.append, overrides=request.overrides)

    names = [step.name for step in steps]
    assert names[-3:] == ["the node that died returns", "stop", "nothing is left"]
    assert "another node takes over" in names


@pytest.mark.process
def test_a_node_that_does_not_join_is_named_and_nothing_is_left(tmp_path):
    request = opened("reference", 2)
    start = request.adapter.file.start
    wrong = start.model_copy(update={"command": (*start.command, "--no-such-option")})
    broker, _ = prepared(tmp_path, request, {"start": wrong})

    with broker, pytest.raises(LaunchError, match=r"2 nodes .*ended with status .*node-[12]/start-1\.log"):
        broker.start()

    assert broker.met("all").gone()


@pytest.mark.process
def test_a_process_beside_a_node_must_listen(tmp_path):
    request = opened("reference", 2)
    rules = request.adapter.file.nodes
    assert rules is not None
    beside = {"command": ["true"], "port": "http"}
    nodes = type(rules).model_validate({**rules.model_dump(), "beside": beside})
    broker, _ = prepared(tmp_path, request, {"nodes": nodes})

    with broker, pytest.raises(LaunchError, match=r"nodes\.beside\.command: true ended by itself.*beside\.log"):
        broker.start()


@pytest.mark.process
@pytest.mark.skipif(bool(LACKS), reason=LACKS)
def test_a_majority_of_three_goes_on(tmp_path):
    """RabbitMQ: of three one may die, and when two have died all must be there again."""
    broker, client = prepared(tmp_path, opened("rabbitmq", 3, "amqp091"))
    with broker:
        broker.start()
        assert broker.beside is not broker.service
        first = client.send(broker, "q")
        kill(broker.met("serving"))
        broker.start()
        assert [node.gone() for node in broker.nodes].count(True) == 1
        second = client.send(broker, "q")
        kill(broker.met("serving"))
        broker.start()

        assert not any(node.gone() for node in broker.nodes)
        client.receive(broker, "q", first)
        client.receive(broker, "q", second)


def test_faults_of_nodes_need_several_and_those_of_a_disk_one():
    one, pair = (opened("reference", nodes) for nodes in (1, 2))
    systems = [BrokerUnderTest(each.adapter, "amqp", each.adapter.effective(each.overrides)) for each in (one, pair)]
    dies, power = KillNodes(AT, "serving"), PowerLoss(AT)

    assert "--set nodes=N" in dies.available(systems[0], ThisMachine())
    assert dies.available(systems[1], ThisMachine()) == ""
    assert systems[0].lacks(power) == ""
    assert "with one node" in systems[1].lacks(power)


def test_clients_are_at_another_node_only_where_each_serves():
    lacks = {}
    for name, nodes in (("reference", 1), ("reference", 2), ("rabbitmq", 3)):
        each = opened(name, nodes)
        lacks[name, nodes] = BrokerUnderTest(each.adapter, "amqp", each.adapter.effective(each.overrides)).lacks(
            ANOTHER_NODE
        )

    assert "--set nodes=N" in lacks["reference", 1]
    assert lacks["reference", 2] == "one of its nodes serves all clients"
    assert lacks["rabbitmq", 3] == ""


def test_a_client_goes_on_at_another_node_only_if_its_file_says_how():
    each, lacks = opened("artemis", 2), {}
    for name in ("qpid-jms", "artemis-jms"):
        client = vendor_clients.find(name)
        seen = vendor_clients.with_client(each.adapter, client)
        lacks[name] = BrokerUnderTest(seen, "jms", seen.effective(each.overrides), client).lacks(GOES_ON)

    assert lacks["qpid-jms"] == ""
    assert "(`several`)" in lacks["artemis-jms"]
    own = BrokerUnderTest(each.adapter, "amqp", each.adapter.effective(each.overrides))
    assert "--protocol jms" in own.lacks(GOES_ON)


@pytest.mark.process
def test_a_class_archive_is_made_with_one_node_only(tmp_path, monkeypatch):
    """A node alone has no peers to be configured with. What is there is used."""
    monkeypatch.setattr(native, "archive_path", lambda *words: tmp_path / "classes.jsa")
    made = []
    monkeypatch.setattr(native, "_make_class_archive", lambda *words: made.append(words))
    monkeypatch.setattr(native, "prepare", lambda *words: words[2])
    monkeypatch.setattr(cluster, "prepare", lambda *words: words[2])
    pair, one = (opened("artemis", nodes) for nodes in (2, 1))

    for request in (pair, one):
        adapter, settings = request.adapter, request.adapter.effective(request.overrides)
        options = adapter.prepare(tmp_path / "b", settings, ["q"], Ledger(tmp_path, "archive"))
        assert options == ""
        assert bool(made) == (request is one)

    (tmp_path / "classes.jsa").touch()
    settings = pair.adapter.effective(pair.overrides)
    assert "classes.jsa" in pair.adapter.prepare(tmp_path / "b", settings, ["q"], Ledger(tmp_path, "archive"))


def test_several_nodes_are_not_started_in_containers():
    request = opened("reference:docker", 2)

    with pytest.raises(UsageError, match=r"nodes=2: several nodes run natively only, without :docker"):
        request.adapter.effective(request.overrides)


def test_a_number_of_nodes_that_the_file_does_not_have_is_refused():
    with pytest.raises(UsageError, match=r"nodes.*3"):
        opened("reference", 3)
    with pytest.raises(UsageError, match="nodes"):
        opened("mosquitto", 2, "mqtt")
