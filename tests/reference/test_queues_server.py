"""Queues of a broker in a process of its own: what its timer does, and what its command line says."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

from proton import Delivery, Message

import conformance.errors
from conformance.reference.command import main

ROOT = str(Path(conformance.errors.__file__).parents[1])


def events(broker, path="/queues/q"):
    """What the port tells, as often as it is asked."""
    return (broker.get(path) for _ in itertools.count())


def test_the_timer_removes_what_expires_without_a_consumer(start, peer):
    """No client and no consumer: the depth falls by itself, at the end of the time and not before."""
    broker = start()
    client = peer(broker)
    begun = time.time()
    delivery = client.sender().send(Message(body=1, durable=True, ttl=0.4))
    client.wait(lambda: delivery.settled)
    client.publish(1)
    client.close()
    shown = next(each for each in events(broker) if each["depth"] == 1)

    assert time.time() - begun >= 0.4
    assert shown["expired"] == 1
    broker.kill()
    assert start().depth() == 1


def test_what_expired_while_the_broker_was_down_is_not_delivered(start, peer):
    """The end is a time of day, and is stored."""
    broker = start()
    client = peer(broker)
    delivery = client.sender().send(Message(body=1, durable=True, ttl=0.2))
    client.wait(lambda: delivery.settled)
    client.publish(1, first=2)
    end = time.time() + 0.2
    broker.kill()
    again = start()
    while time.time() <= end:
        assert again.get("/queues")
    late = peer(again)

    assert late.drain().bodies == [2]


def test_a_message_that_fails_too_often_is_in_the_dead_letter_queue_after_a_kill(start, peer):
    """`max_deliveries` and `dead_letter` as they are typed."""
    words = ("--queue=bad:max_deliveries=2,dead_letter=Dead",)
    broker = start(*words)
    client = peer(broker, "bad")
    client.publish(1)
    for _ in range(2):
        client.outcome(client.receive(1).got[0][1], Delivery.MODIFIED, failed=True)
    assert (broker.depth("bad"), broker.depth("Dead")) == (0, 1)
    broker.kill()
    again = start(*words)

    assert (again.depth("bad"), again.depth("Dead")) == (0, 1)
    assert [m.delivery_count for m, _ in peer(again).receive(1, "Dead").got] == [2]


def test_a_repeated_message_is_accepted_and_not_stored(start, peer):
    """Over the wire, by the application property, before a kill and after it."""
    broker = start()
    for _ in range(2):
        client = peer(broker)
        sent = [client.sender().send(Message(body=n, durable=True, properties={"_AMQ_DUPL_ID": "x"})) for n in (1, 2)]
        client.wait(lambda sent=sent: all(delivery.settled for delivery in sent))
        assert {delivery.remote_state for delivery in sent} == {Delivery.ACCEPTED}
        assert broker.depth() == 1
        broker.kill()
        broker = start()


def test_a_wrong_option_is_4(capsys, tmp_path):
    """With the closest that there is; nothing was started, nothing was made."""
    code = main(["--amqp-port=0", f"--data={tmp_path / 'data'}", "--queue=q:max_deliverys=3"])

    assert (code, "did you mean 'max_deliveries'?" in capsys.readouterr().err) == (4, True)
    assert not (tmp_path / "data").exists()


def test_a_durable_queue_asked_for_as_another_is_4(start, tmp_path):
    """The data directory is left as it was."""
    start().stop()
    words = ["--amqp-port=0", f"--data={tmp_path / 'data'}", "--queue=q:durable=false"]
    command = [sys.executable, "-m", "conformance.reference", *words]
    environment = {**os.environ, "PYTHONPATH": ROOT}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)

    assert (done.returncode, "queue q: durable=false" in done.stderr, done.stderr.count("\n")) == (4, True, 1)
    assert start().depth() == 0
