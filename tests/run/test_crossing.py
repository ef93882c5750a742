"""Clients of two protocols in one trial: which ones, by which id a message is known, and what must be the same."""

import itertools

import pytest
from planned_trials import CATALOGUE, SCENARIOS, selection
from trial_histories import events_of

from conformance import adapters
from conformance.adapters.system import BrokerUnderTest
from conformance.clients.job import Work
from conformance.history import CONFORMANCE_ID, Op, Phase
from conformance.judge import applicable
from conformance.run.planning import plan
from conformance.scenario.needs import ANOTHER_CONSUMER, ANOTHER_PROTOCOL
from conformance.scenario.options import headers, phrases
from conformance.scenario.reading import singles
from conformance.scenario.script import ANOTHER, SETTLE, Consume, Drain, Publish

ADAPTER = adapters.find("reference")
CROSSING = [item for item in SCENARIOS.values() if item.crosses]
PAIRS = list(itertools.permutations(("amqp", "amqp091", "stomp"), 2))


def crossed(play, sender, receiver, **changes):
    """Why the trial is void, and what a consumer of one protocol received of four messages of another."""
    publish = Publish(4, window=2, headers=True, over=sender)
    consume = Consume("auto", prefetch=2, over=receiver, stop=4)
    record, folder = play(publish, consume, Drain(), **{"protocol": "amqp", **changes})
    return record.void, received(folder)


def received(folder):
    return [e for e in events_of(folder, "consumer-1") if (e.op, e.phase) == (Op.DELIVER, Phase.OK)]


def spoken(trial):
    return {step.over for step in singles(trial.script.steps) if isinstance(step, Publish | Consume)} - {""}


def test_the_trials_of_a_scenario_speak_the_other_protocols_in_turn():
    trials = plan(selection("EXPECT-CROSSED-02"), SCENARIOS, CATALOGUE)
    sent = [trial for trial in trials if trial.script.id == "messages-sent-over-another-protocol"]

    assert [{"stomp"}, {"amqp091"}, {"stomp"}] == [spoken(trial) for trial in sent if trial.arm == "subject"]


@pytest.mark.parametrize(
    ("adapter", "protocol", "need", "why"),
    [
        ("artemis", "amqp", ANOTHER_CONSUMER, ""),
        ("artemis", "mqtt", ANOTHER_PROTOCOL, ""),
        ("artemis", "mqtt", ANOTHER_CONSUMER, "a session of MQTT is that of its client"),
        ("mosquitto", "mqtt", ANOTHER_PROTOCOL, "mosquitto has no other protocol on the queues of mqtt that we start"),
        ("rabbitmq", "stomp", ANOTHER_PROTOCOL, ""),
    ],
)
def test_a_broker_needs_another_protocol_on_the_same_queues(adapter, protocol, need, why):
    """A session of MQTT is a queue of its own: others fill it by its topic, and no other client receives from it."""
    found = adapters.find(adapter)

    assert why == BrokerUnderTest(found, protocol, found.effective()).lacks(need)


def test_other_protocols_fill_a_session_of_mqtt_by_a_topic():
    """Those whose topics the file of the broker describes, which AMQP 0-9-1's is not."""
    trials = plan(selection("EXPECT-CROSSED-02", protocol="mqtt"), SCENARIOS, CATALOGUE)
    sent = [trial for trial in trials if trial.script.id == "messages-sent-over-another-protocol"]

    assert [{"amqp"}, {"stomp"}, {"amqp"}] == [spoken(trial) for trial in sent if trial.arm == "subject"]


def test_no_other_claim_is_decided_by_clients_of_two_protocols():
    decided = {claim for item in CROSSING for claim in item.decides}

    assert 4 == len(CROSSING)
    assert {claim for claim in CATALOGUE.claims if claim.startswith("EXPECT-CROSSED-")} == decided
    assert all(applicable._EXCUSED[anomaly](item) for item in CROSSING for anomaly in ("corrupt", "overtaken"))
    assert not applicable._EXCUSED["corrupt"](SCENARIOS["messages-with-properties"])


@pytest.mark.process
@pytest.mark.parametrize(("sender", "receiver"), PAIRS)
def test_what_is_sent_over_one_is_received_over_another(play, sender, receiver):
    void, came = crossed(play, sender, receiver)

    assert ("", ["p1:1", "p1:2", "p1:3", "p1:4"]) == (void, [event.message for event in came])
    assert all(event.intact for event in came)


@pytest.mark.process
@pytest.mark.parametrize("sender", ["amqp", "stomp"])
@pytest.mark.parametrize(("changes", "intact"), [({}, True), ({"liar": "turns-true-to-false"}, False)])
def test_what_is_sent_to_a_topic_is_received_over_mqtt(play, sender, changes, intact):
    """By the session that has subscribed to it, with its properties."""
    void, came = crossed(play, sender, "", protocol="mqtt", **changes)

    assert ("", ["p1:1", "p1:2", "p1:3", "p1:4"]) == (void, [event.message for event in came])
    assert [intact] * 4 == [event.intact for event in came]


@pytest.mark.process
@pytest.mark.parametrize(("sender", "receiver"), PAIRS[::2])
def test_a_property_that_is_altered_on_the_way_is_seen(play, sender, receiver):
    void, came = crossed(play, sender, receiver, liar="turns-true-to-false")

    assert ("", [False] * 4) == (void, [event.intact for event in came])


@pytest.mark.process
@pytest.mark.parametrize("receiver", ["amqp091", "stomp"])
def test_a_property_without_a_value_may_be_left_out(play, receiver):
    record, folder = play(Publish(4, window=2, nulls=True), Consume("auto", prefetch=2, over=receiver, stop=4), *SETTLE)

    assert ("", [True] * 4) == (record.void, [event.intact for event in received(folder)])


def work_of(sender, receiver):
    """The work of a consumer of one protocol, of messages that were sent over another."""
    publisher = Publish(9, window=1, headers=True, over=sender)
    return Work(step=Consume("auto", over=receiver), queue="a", publishers=(publisher,), crosses=True)


def came(**changes):
    return {name: str(value).lower() for name, value in headers("p1:1").items()} | {CONFORMANCE_ID: "p1:1"} | changes


@pytest.mark.parametrize(
    ("sender", "properties", "expected"),
    [
        ("stomp", came(), False),
        ("", came(), True),  # its own protocol has types
        ("stomp", came(truth=True, number=1), False),
        ("stomp", came(truth="false"), True),
        ("stomp", came(number="1.0"), True),
        ("stomp", came(part="0"), False),  # a number with a point has several texts
        ("stomp", {name: value for name, value in came().items() if name != "empty"}, True),
    ],
)
def test_only_the_text_of_a_property_crosses(sender, properties, expected):
    assert expected == work_of(sender, "").are_altered("p1:1", properties)


def test_a_message_of_the_same_other_protocol_has_not_crossed():
    same = work_of("stomp", "stomp")

    assert (False, True) == (same.is_crossed("p1:1"), work_of("stomp", "").is_crossed("p1:1"))
    assert not same.is_crossed("foreign:1")


@pytest.mark.parametrize(
    ("over", "expected"), [(ANOTHER, "over another protocol on the same queues"), ("stomp", "over stomp"), ("", None)]
)
def test_its_words(over, expected):
    assert ([expected] if expected else []) == phrases(Consume("auto", over=over))
