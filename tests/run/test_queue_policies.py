"""Queues whose policies drop or move messages: dead-letter and expiry queues are drained, the broker is not accused."""

import pytest

from conformance import adapters, history
from conformance.adapters import opening
from conformance.errors import ExitCode
from conformance.history import Op, Phase
from conformance.judge.rows import Verdict
from conformance.report import model
from conformance.scenario.script import SETTLE, Consume, ConsumerCrash, Kill, Nth, Publish, Restart

REFERENCE, ARTEMIS = adapters.find("reference"), adapters.find("artemis")
CRASH = (
    Publish(20, window=5),
    Consume("individual", prefetch=20, acknowledge=100, until=ConsumerCrash(Nth("process", 10))),
    *SETTLE,
)

BROKER_XML = """<configuration xmlns="urn:activemq">
   <core xmlns="urn:activemq:core">
      <journal-type>NIO</journal-type>
      <max-disk-usage>100</max-disk-usage>
      <acceptors>
         <acceptor name="all">tcp://127.0.0.1:61616?protocols=AMQP,STOMP</acceptor>
      </acceptors>
      <security-enabled>false</security-enabled>
      <address-settings>
         <address-setting match="#">
            <dead-letter-address>DEAD</dead-letter-address>
            POLICY
         </address-setting>
      </address-settings>
      <addresses>
         <address name="DEAD"><anycast><queue name="DEAD"/></anycast></address>
      </addresses>
   </core>
</configuration>
"""


def events_of(folder):
    return [event for path in sorted(folder.glob("*.jsonl")) for event in history.read(path).events]


def drained(folder, phase):
    return {
        event.message for event in events_of(folder) if (event.op, event.phase) == (Op.DRAIN, phase) and event.message
    }


def test_dead_letters_and_expired_messages_are_found(play, impatient):
    """The consumer dies with open deliveries: after their only attempt they are in the dead-letter queue."""
    record, folder = play(*CRASH, settings=REFERENCE.effective({"max_delivery_attempts": 1}))
    aside, back = drained(folder, Phase.INFO), drained(folder, Phase.OK)

    assert "" == record.void
    assert {f"p1:{n}" for n in range(1, 21)} == aside | back
    assert {f"p1:{n}" for n in range(1, 11)} <= aside
    assert set() == aside & back


@pytest.mark.parametrize("protocol", ["amqp", "stomp"])
def test_expired_messages_are_found_and_the_others_delivered(play, impatient, protocol):
    """The first publisher gives its messages a time to live, which is over when the second has sent its own."""
    steps = (Publish(30, window=5, lives_ms=100), Publish(10, window=1, every_ms=30), *SETTLE)
    record, folder = play(*steps, settings=REFERENCE.effective({"expiry_destination": "EXPIRED"}), protocol=protocol)

    assert "" == record.void
    assert {f"p1:{n}" for n in range(1, 31)} == drained(folder, Phase.INFO)
    assert {f"p2:{n}" for n in range(1, 11)} == drained(folder, Phase.OK)
    sends = [event for event in events_of(folder) if (event.op, event.phase) == (Op.SEND, Phase.INVOKE)]
    assert {("p1", 100), ("p2", None)} == {(event.message.partition(":")[0], event.count) for event in sends}


def test_a_stock_trial_drains_no_other_queue(play):
    record, folder = play(*CRASH)

    assert ("", set()) == (record.void, drained(folder, Phase.INFO))
    assert [] == list(folder.glob("collector*"))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("words", "claim", "verdict"),
    [
        pytest.param(("--set", "max_delivery_attempts=1"), "AMQP-SETTLE-02", "INCONCLUSIVE", marks=pytest.mark.full),
        pytest.param(
            ("--set", "message_ttl_ms=1", "--set", "expiry_destination=EXPIRED"),
            "AMQP-DUR-01",
            "INCONCLUSIVE",
            marks=pytest.mark.full,
        ),
        pytest.param(("--set", "message_ttl_ms=1"), "AMQP-DUR-01", "NOT_APPLICABLE", marks=pytest.mark.full),
    ],
)
def test_an_honest_broker_with_policies_is_not_accused(conformance, tmp_path, words, claim, verdict):
    """Counter-example: each message that the policy had moved or removed counted as gone or lost."""
    done = conformance(
        "run", "--adapter", "reference", *words, "--claims", claim, "--quick", "--seed", "1", "--out", tmp_path / "out"
    )
    rows = [
        row for row in model.read_json(tmp_path / "out" / "report.json").verdicts if row.claim == claim and row.trials
    ]

    assert rows, done.stdout + done.stderr
    assert {verdict} == {row.verdict for row in rows}


SMALL_AND_FULL = "<max-size-bytes>60000</max-size-bytes><address-full-policy>DROP</address-full-policy>"
LOST, BACK = "AMQP-DUR-01", "AMQP-ACC-02"


@pytest.mark.full
@pytest.mark.artemis
@pytest.mark.spark
@pytest.mark.parametrize(
    ("policy", "named", "given_up"),
    [
        ("<max-delivery-attempts>1</max-delivery-attempts>", "", ()),
        ("<redelivery-delay>1500</redelivery-delay>", "", ()),
        ("<expiry-delay>500</expiry-delay>", "message_ttl_ms is 500, expiry_destination is empty", (LOST,)),
        (SMALL_AND_FULL, "full_queue_policy is discard", (LOST,)),
        ("<default-ring-size>10</default-ring-size>", "ring_size is 10", (LOST,)),
        ("<default-non-destructive>true</default-non-destructive>", "non_destructive is true", (LOST, BACK)),
    ],
)
def test_artemis_is_not_accused_of_what_its_owner_configured(conformance, tmp_path, policy, named, given_up):
    file = tmp_path / "broker.xml"
    file.write_text(BROKER_XML.replace("POLICY", policy))
    words = ["run", "--adapter", "artemis", "--config", file, "--claims", f"AMQP-SETTLE-02,{LOST},{BACK}", "--quick"]
    done = conformance(*words, "--seed", "1", "--out", tmp_path / "out", timeout=1500)  # 12 to 78 s a trial
    rows = [row for row in model.read_json(tmp_path / "out" / "report.json").verdicts if row.trials or row.void]

    assert done.returncode in (ExitCode.CONFORMANT, ExitCode.INCONCLUSIVE, ExitCode.NOTHING_RAN), done.stdout
    assert {LOST, BACK, "AMQP-SETTLE-02"} <= {row.claim for row in rows}
    assert Verdict.VIOLATED not in {row.verdict for row in rows}
    for row in rows:
        if row.claim in given_up:
            assert (Verdict.NOT_APPLICABLE, True) == (row.verdict, named in row.reason), row


GIVEN_BACK = (
    Publish(30, window=5),
    Consume("individual", prefetch=10, refuse=("failed",), refuse_every=3, until_silent=True),
    *SETTLE,
)
"""A consumer gives ten messages back as failed, and accepts the others, and those that come again."""

KILLED = (Publish(30, window=5, until=Kill(Nth("confirm", 30))), Restart(), *SETTLE)
"""A start of the broker takes longer than the messages of the test live."""


@pytest.mark.artemis
@pytest.mark.parametrize(
    ("policy", "steps", "moved"),
    [
        ("<max-delivery-attempts>1</max-delivery-attempts>", GIVEN_BACK, 10),
        ("<redelivery-delay>1500</redelivery-delay>", GIVEN_BACK, 0),
        ("<expiry-delay>500</expiry-delay><expiry-address>DEAD</expiry-address>", KILLED, 30),
    ],
)
def test_artemis_with_a_configuration_of_its_owner(play, impatient, tmp_path, policy, steps, moved):
    """Moved messages are found in their queue, and the drain waits for delayed ones: none is missing."""
    file = tmp_path / "broker.xml"
    file.write_text(BROKER_XML.replace("POLICY", policy))
    mine = opening.with_configuration(ARTEMIS, file)
    record, folder = play(*steps, adapter=mine, settings=mine.effective())
    aside = drained(folder, Phase.INFO)
    accepted = {event.message for event in events_of(folder) if (event.op, event.phase) == (Op.ACK, Phase.INVOKE)}

    assert ("", moved) == (record.void, len(aside))
    assert {f"p1:{n}" for n in range(1, 31)} == aside | accepted | drained(folder, Phase.OK)
    assert [] == [event for event in events_of(folder) if event.detail == "stuck"]
