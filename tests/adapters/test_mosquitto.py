"""Mosquitto as the file says it is: its settings, what is not tried with them, and a session after a kill."""

import os
import signal

import pytest

from conformance import adapters
from conformance.adapters import BrokerRequest, open_broker
from conformance.adapters.distribution import fetch
from conformance.adapters.system import BrokerUnderTest
from conformance.ledger import Ledger
from conformance.run.readiness_probe import ProbeClient
from conformance.scenario.needs import (
    KILL_WHILE_STARTING,
    NON_PERSISTENT,
    PROPERTIES,
    REFUSES,
    SHARED,
    TRANSACTIONS,
    UNDECLARED,
    in_mode,
)

LACKS = fetch.not_installed(open_broker(BrokerRequest("mosquitto")).adapter.file)
needs_it = pytest.mark.skipif(bool(LACKS), reason=LACKS)


def under_test(protocol="mqtt", **settings):
    opened = open_broker(BrokerRequest("mosquitto", protocol, overrides=settings))
    return BrokerUnderTest(opened.adapter, protocol, opened.adapter.effective(settings))


@pytest.mark.parametrize("protocol", ["mqtt", "mqtt311"])
@pytest.mark.parametrize(
    "need", [REFUSES, SHARED, TRANSACTIONS, NON_PERSISTENT, UNDECLARED, in_mode("no_ack"), in_mode("transacted")]
)
def test_what_mqtt_cannot_do_is_not_tried(need, protocol):
    assert "MQTT" in under_test(protocol).lacks(need)


def test_a_message_of_mqtt_3_1_1_has_no_properties():
    """A check of them would find that each was altered."""
    assert "no properties" in under_test("mqtt311").lacks(PROPERTIES)
    assert "" == under_test().lacks(PROPERTIES)


def test_stock_it_writes_too_rarely_for_a_fault_of_the_disk():
    assert "each 1,800 s" in under_test().lacks(KILL_WHILE_STARTING)
    assert "" == under_test(autosave="each_change").lacks(KILL_WHILE_STARTING)


def test_capabilities_that_mqtt_has_with_no_broker():
    """Artemis declares them for all of its protocols. 3.1.1 has neither reason codes nor a Receive Maximum."""
    artemis = open_broker(BrokerRequest("artemis", "mqtt")).adapter

    assert set() == {"transactions", "nack", "ack_confirmed"} & artemis.capabilities("mqtt")
    assert "transactions" in artemis.capabilities("stomp")
    assert {"explicit_rejections", "prefetch_in_messages"} == artemis.capabilities("mqtt") - artemis.capabilities(
        "mqtt311"
    )


@needs_it
@pytest.mark.process
@pytest.mark.parametrize("protocol", ["mqtt", "mqtt311"])
def test_at_its_address_it_is_asked_for_no_depth(tmp_path, protocol):
    """A drain over MQTT finds out by itself whether a session is empty."""
    own = open_broker(BrokerRequest("mosquitto", protocol)).adapter
    with own.prepare(tmp_path / "own", own.effective(), [], Ledger(tmp_path, "own")) as started:
        started.start()
        at = "{}:{}".format(*started.endpoint(protocol))
        adapter = adapters.find(f"mosquitto:external={protocol}://{at}")
        client, ledger = ProbeClient(adapter, protocol), Ledger(tmp_path, "there")
        with adapter.prepare(tmp_path / "there", adapter.effective(), ["q"], ledger, client=client) as broker:
            broker.wait_ready()
            client.exchange(broker, broker.service.queue_of("q"))


def test_at_its_address_it_discards_as_stock_does():
    """The suite has not written its configuration: sends that it confirms and discards accuse nothing."""
    adapter = adapters.find("mosquitto:external=mqtt://127.0.0.1:1")

    assert "discard" == adapter.effective().values["full_queue_policy"]
    assert "page" == adapters.find("mosquitto").effective().values["full_queue_policy"]


@needs_it
@pytest.mark.process
@pytest.mark.parametrize("protocol", ["mqtt", "mqtt311"])
@pytest.mark.parametrize(("autosave", "kept"), [("interval", 0), ("each_change", 1)])
def test_a_kill_leaves_what_was_written(tmp_path, autosave, kept, protocol):
    """Stock takes the session and its message; it is made again, so that the next message has a place."""
    settings = {"autosave": autosave}
    opened = open_broker(BrokerRequest("mosquitto", protocol, overrides=settings))
    client = ProbeClient(opened.adapter, protocol)
    effective = opened.adapter.effective(settings)
    with opened.adapter.prepare(tmp_path, effective, ["q"], Ledger(tmp_path, "run"), client=client) as broker:
        broker.start()
        client.send(broker, "q")
        client.send(broker, "q")  # of the last one before a kill nothing is known
        for pid in broker.node.target.processes():
            os.kill(pid, signal.SIGKILL)
        assert broker.node.target.wait_gone(10)
        broker.start()

        assert bool(kept) == bool(client.depth(broker, "q"))
        client.exchange(broker, "q")
