"""Mosquitto as the file says it is: its settings, what is not tried with them, and a session after a kill."""

import os
import signal

import pytest

from conformance.adapters import BrokerRequest, open_broker
from conformance.adapters.distribution import fetch
from conformance.adapters.system import BrokerUnderTest
from conformance.ledger import Ledger
from conformance.run.readiness_probe import ProbeClient
from conformance.scenario.needs import KILL_WHILE_STARTING, NON_PERSISTENT, REFUSES, SHARED, TRANSACTIONS, in_mode

LACKS = fetch.not_installed(open_broker(BrokerRequest("mosquitto")).adapter.file)
needs_it = pytest.mark.skipif(bool(LACKS), reason=LACKS)


def under_test(**settings):
    opened = open_broker(BrokerRequest("mosquitto", "mqtt", overrides=settings))
    return BrokerUnderTest(opened.adapter, "mqtt", opened.adapter.effective(settings))


@pytest.mark.parametrize(
    "need", [REFUSES, SHARED, TRANSACTIONS, NON_PERSISTENT, in_mode("no_ack"), in_mode("transacted")]
)
def test_what_mqtt_cannot_do_is_not_tried(need):
    assert "MQTT" in under_test().lacks(need)


def test_stock_it_writes_too_rarely_for_a_fault_of_the_disk():
    assert "each 1,800 s" in under_test().lacks(KILL_WHILE_STARTING)
    assert "" == under_test(autosave="each_change").lacks(KILL_WHILE_STARTING)


def test_capabilities_that_mqtt_has_with_no_broker():
    """Artemis declares them for all of its protocols."""
    artemis = open_broker(BrokerRequest("artemis", "mqtt")).adapter

    assert set() == {"transactions", "nack", "ack_confirmed"} & artemis.capabilities("mqtt")
    assert "transactions" in artemis.capabilities("stomp")


@needs_it
@pytest.mark.process
@pytest.mark.parametrize(("autosave", "kept"), [("interval", 0), ("each_change", 1)])
def test_a_kill_leaves_what_was_written(tmp_path, autosave, kept):
    """Stock takes the session and its message; it is made again, so that the next message has a place."""
    settings = {"autosave": autosave}
    opened = open_broker(BrokerRequest("mosquitto", "mqtt", overrides=settings))
    client = ProbeClient(opened.adapter, "mqtt")
    effective = opened.adapter.effective(settings)
    with opened.adapter.prepare(tmp_path, effective, ["q"], Ledger(tmp_path, "run"), client=client) as broker:
        broker.start()
        client.send(broker, "q")
        client.send(broker, "q")  # of the last one before a kill nothing is known
        for pid in broker.nodes[0].target.processes():
            os.kill(pid, signal.SIGKILL)
        assert broker.nodes[0].target.wait_gone(10)
        broker.start()

        assert bool(kept) == bool(client.depth(broker, "q"))
        client.exchange(broker, "q")
