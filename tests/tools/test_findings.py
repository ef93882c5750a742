"""Findings are reproduced by their scripts, which use nothing of the suite."""

import contextlib
import os
import pathlib
import re
import subprocess
import sys

import pytest

from conformance import adapters, claims, paths, scenario
from conformance.adapters import web
from conformance.adapters.distribution import fetch
from conformance.adapters.file.placeholders import fill
from conformance.adapters.launch.process_tree import name_of
from conformance.faults.disk import injection
from conformance.faults.power import image
from conformance.faults.power.image import LossyDisk
from conformance.ledger import RUN_VARIABLE, Ledger
from conformance.report import questions

MOSQUITTO = adapters.find("mosquitto@2.0.11")
RABBITMQ, RABBITMQ_4 = adapters.find("rabbitmq"), adapters.find("rabbitmq@4.3.6")

SAID = {
    "artemis_acknowledgement_unanswered.py": [
        "rcv-settle-mode asked 1 (second), answered 0",
        "the acknowledgement was not answered within 3 s",
    ],
    "artemis_first_acquirer_absent.py": ["first delivery: first-acquirer False delivery-count 0"],
    "artemis_stomp_acknowledgement_in_transaction.py": ["after ABORT and a new connection: nothing within 3 s"],
    "artemis_stomp_auto_window.py": ["auto with a window: stops before the end", "auto with no window: all"],
    "artemis_selector_not_binds_first.py": [
        "NOT (word = 'plain') AND word LIKE 'z%': the message came",
        "NOT word = 'plain' AND word LIKE 'z%': nothing came within 5 s",
    ],
    "artemis_stomp_nack_discards.py": [
        "a consumer gets: MESSAGE",
        "the NACK gets: RECEIPT",
        "a later consumer gets: nothing within 3 s",
    ],
}

OVER_MQTT = {
    "artemis_mqtt_long_life_expires_at_once.py": [
        "Message Expiry Interval 2147483 s: confirmed, and came",
        "Message Expiry Interval 2147484 s: confirmed, and did not come within 3 s",
        "Message Expiry Interval 4294967 s: confirmed, and did not come within 3 s",
        "Message Expiry Interval 4294968 s: confirmed, and came",
        "Message Expiry Interval 4294967295 s: confirmed, and did not come within 3 s",
    ],
    "artemis_mqtt_session_of_a_month_ends.py": [
        "Session Expiry Interval 86400 s: the session is there after 10 s",
        "Session Expiry Interval 2147483 s: the session is there after 10 s",
        "Session Expiry Interval 2147484 s: the session is gone after 10 s",
        "Session Expiry Interval 2592000 s: the session is gone after 10 s",
        "Session Expiry Interval 4294967295 s: the session is there after 10 s",
    ],
    "artemis_mqtt_session_out_of_order.py": [
        "Receive Maximum 65535: messages after a later one of their publisher: none",
        "Receive Maximum 20: messages after a later one of their publisher: some",
    ],
    "artemis_mqtt_session_resumed_out_of_order.py": ["a message came before an earlier one: yes"],
}

THROUGH_ITS_CLIENT = {
    "artemis_confirmation_window_has_no_size.py": [
        "window of 1024 bytes: 320 of 320 sends of 65536 bytes acknowledged before the next was made",
        "window of 10485760 bytes: 320 of 320 sends of 65536 bytes acknowledged before the next was made",
    ],
    "artemis_redelivered_unmarked.py": ["marked as redelivered in each of 20 rounds: no"],
}
"""Scripts that call the vendor's client."""

ON_A_FULL_DISK = {
    "artemis_confirms_what_was_not_written.py": [
        "confirmed before the first ENOSPC; of those, there after a restart: all",
        "of what was in a write that returned ENOSPC, and in no other, confirmed: some",
        "of those, there after a restart: none",
    ],
}
"""Scripts that start the broker themselves, under a tracer."""

WITH_LIBAIO = {
    "artemis_confirms_what_was_not_synced.py": ["a sync of the journal failed: yes", "confirmed after that: some"],
}
"""The same, of a journal that is written through libaio."""

AFTER_A_POWER_LOSS = {
    "artemis_paged_messages_unreachable_after_power_loss.py": [
        "confirmed and gone after a power loss: some",
        "the start passed over a page folder with an empty address.txt: yes",
    ],
}
"""Scripts that start the broker themselves, on a file system of their own."""

ON_RABBITMQ = {
    "rabbitmq_acknowledgement_ends_the_session.py": [
        "accepted with settled=false: disposition, settled True",
        "accepted with no settled, which means false: nothing",
    ],
    "rabbitmq_modified_ends_the_session.py": [
        "outcomes offered: amqp:accepted:list amqp:rejected:list amqp:released:list",
        "after modified: amqp:invalid-field Unrecognised state:",
    ],
    "rabbitmq_refused_message_ends_the_connection.py": [
        "message 1: 36",
        "message 2: 36",
        "message 3: 36",
        "message 4: Connection amqp://BROKER disconnected: Condition('amqp:connection:framing-error', 'connection aborted')",
    ],
    "rabbitmq_message_without_queue_accepted.py": ["a message to no queue: accepted", "a receiver gets: nothing"],
    "rabbitmq_stomp_message_without_queue_answered.py": ["a SEND to no queue: RECEIPT", "a SUBSCRIBE to it: ERROR"],
    "rabbitmq_stomp_send_answered_at_commit.py": [
        "after SEND: nothing within 3 s",
        "after COMMIT: answer to COMMIT, answer to SEND",
        "after SEND: nothing within 3 s",
        "after ABORT: answer to ABORT, nothing within 3 s",
    ],
    "rabbitmq_filter_answered_and_ignored.py": [
        "the answer to the attach has the filter: yes",
        "a consumer of red messages gets: blue",
    ],
}
STARTED_THERE = {
    "rabbitmq_new_queue_forgotten.py": [
        "killed 0 s after the last confirm: 0 of 10 came back, and nothing for 30 s",
        "killed 3 s after the last confirm: 10 of 10 came back",
    ],
}
"""Scripts that start RabbitMQ themselves."""

WITH_QUEUES_OF_ITS_OWN = {
    "rabbitmq_mqtt_wildcard_gets_no_retained_message.py": [
        "PUBACK",
        "retained messages: 1 for q/1, 0 for q/+",
    ],
    "rabbitmq_quorum_acknowledgements_forgotten.py": [
        "classic, the channel is closed first: none comes again",
        "classic, the connection is closed first: none comes again",
        "quorum, the channel is closed first: none comes again",
        "quorum, the connection is closed first: some come again",
    ],
}

FROM_AMQP_TO_STOMP = {"rabbitmq_stomp_header_is_not_utf8.py": ["not UTF-8: x-amqp-1.0-properties"]}
"""A script that takes the addresses of both."""

THROUGH_ITS_ONE_PORT = {
    "rabbitmq_amqp091_decimal_ends_its_consumer.py": [
        "a header that is a text: came",
        "a header that is a decimal: two consumers were ended",
    ]
}
"""A script that speaks two protocols to the same address."""

ON_RABBITMQ_4 = {"rabbitmq_confirms_before_sync.py": ["100 confirmed one by one; 0 calls that sync in that time"]}

FILLED = {
    "activemq_confirmed_messages_gone_after_full_disk.py": [
        "accepted before the disk was full: some; when it had space again: some",
        "of those, there after a restart: none",
    ],
    "rabbitmq_serves_no_more_after_full_disk.py": [
        "takes messages before the disk is full: yes",
        "takes messages within 60 s of the end: no",
    ],
}
"""Scripts that fill the file system of the broker."""

FULL = '{"durable": true, "arguments": {"x-max-length": 3, "x-overflow": "reject-publish"}}'
"""A queue of RabbitMQ that refuses the fourth message."""

ON_QPID = {
    "qpid_first_acquirer_absent.py": ["first delivery: first-acquirer False delivery-count 0"],
    "qpid_full_queue_detaches.py": [
        "no outcomes named: accepted, detached, amqp:resource-limit-exceeded",
        "accepted and rejected named: rejected, rejected",
    ],
    "qpid_amqp091_rejected_comes_again.py": [
        "basic.get: redelivered=False; basic.reject, requeue=False",
        *["basic.get: redelivered=True; basic.reject, requeue=False"] * 2,
        "on another connection: redelivered=True",
    ],
    "qpid_amqp091_rollback_delivers_twice.py": [
        "delivered before the rollback: one two three",
        "delivered after it, on the same channel: one, redelivered=False",
        "delivered after it, on the same channel: two, redelivered=True",
        "delivered after it, on the same channel: three, redelivered=True",
        "delivered after it, on the same channel: one, redelivered=True",
        "acknowledged by its first tag, and committed: two",
        "on another connection: one two three",
    ],
    "qpid_amqp091_unknown_tag_taken.py": [
        "basic.ack of a tag that was never delivered: the channel goes on",
        "basic.ack of a tag that was acknowledged: the channel goes on",
    ],
}

ON_CLASSIC = {
    "activemq_full_queue_reorders.py": ["of 500 messages of one sender, overtaken by a later one: some"],
    "activemq_removes_settled_messages_without_credit.py": [
        "AtMostOnce: 20 credits, 20 of 30 received; a later receiver gets 5; gone: 5",
        "AtLeastOnce: 20 credits, 20 of 30 received; a later receiver gets 10; gone: 0",
    ],
}

OVER_TWO_PROTOCOLS = {
    "activemq_stomp_acknowledgement_of_amqp_message_ends_connection.py": [
        "message-id None over AMQP: the ACK over STOMP gets a RECEIPT",
        "message-id 'order-1' over AMQP: the ACK over STOMP gets the end of the connection",
    ],
    "qpid_amqp091_decimal_ends_the_broker.py": [
        "a header of 1: received {'part': int32(1)}",
        "a header of Decimal('0.5'): the connection of the receiver ends",
        "the next connection is refused",
    ],
    "qpid_amqp091_text_deleted.py": [
        "'zwölf \U0001d11e': nothing within 10 s, in the queue: 1",
        "within a minute, with the receiver attached, in the queue: 0",
        "'zwölf': received 'zwölf'",
        "'\U0001d11e': received '\U0001d11e'",
    ],
}

ACROSS_A_RESTART = {
    "activemq_stored_stomp_header_is_not_utf8_over_amqp.py": [
        "sent 7a 77 c3 b6 6c 66, received 7a 77 c3 b6 6c 66",
        "sent f0 9d 84 9e, received ed a0 b4 ed b4 9e",
    ],
    "hivemq_received_packet_taken_for_new.py": [
        "of 10 messages that were sent again under their identifiers: 20 delivered; the broker kept the session"
    ],
    "mosquitto_released_packet_published_again.py": [
        "of 10 messages that were released: 10 published again, 0 released again"
    ],
}

DAMAGED = {"artemis_damaged_body_delivered.py": ["19 of 20 as they were sent, 1 altered"]}

BY_CHANCE = [
    "activemq_waits_for_the_expiry_task.py",
    "artemis_pair_forgets_what_both_nodes_had.py",
    "artemis_stomp_message_stays_behind.py",
    "openmq_stomp_acknowledgements_of_a_dead_client_stay_behind.py",
    "qpid_settled_deliveries_stay_counted.py",
]
"""Scripts that need many rounds or minutes, too long for a test."""

ON_OPENMQ = {
    "openmq_messages_of_a_second_consumer_stay_behind.py": [
        "after a session with 1 consumer(s): 200 of 200 come",
        "after a session with 2 consumer(s): 125 of 200 come",
    ],
    "openmq_stomp_individual_acknowledgement_answered_by_error.py": [
        "the ACK of ack:client gets: RECEIPT",
        "the ACK of ack:client-individual gets: ERROR BSS4028",
        "a later consumer gets: nothing within 3 s",
    ],
}

ON_MOSQUITTO = {
    "mosquitto_receive_maximum_exceeded.py": [
        "unacknowledged with a Receive Maximum of 20: 20",
        "after one PUBACK 39, after two 58",
    ]
}

OF_ITS_DISK = {**ON_A_FULL_DISK, **WITH_LIBAIO, **AFTER_A_POWER_LOSS}
EVERY = [
    *SAID,
    *OVER_MQTT,
    *THROUGH_ITS_CLIENT,
    *OF_ITS_DISK,
    *ON_RABBITMQ,
    *ON_RABBITMQ_4,
    *FROM_AMQP_TO_STOMP,
    *THROUGH_ITS_ONE_PORT,
    *FILLED,
    *STARTED_THERE,
    *WITH_QUEUES_OF_ITS_OWN,
    *ON_QPID,
    *ON_OPENMQ,
    *ON_CLASSIC,
    *ON_MOSQUITTO,
    *OVER_TWO_PROTOCOLS,
    *ACROSS_A_RESTART,
    *DAMAGED,
    *BY_CHANCE,
]


def test_every_script_has_its_words():
    """And its line in the README beside it."""
    folder = paths.fixtures() / "findings"

    assert sorted(EVERY) == sorted(path.name for path in folder.glob("*.py"))
    assert [name for name in EVERY if name not in (folder / "README.md").read_text()] == []


@pytest.mark.parametrize("name", EVERY)
def test_every_finding_has_its_product_and_versions(name):
    """As in its line of the README, and the scenarios and claims that show it are named there too, or below the table."""
    text = (paths.fixtures() / "findings" / "README.md").read_text()
    (row,) = (line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
    (one,) = (each for each in questions.problems() if each.name == name)
    broker, product = row.split("|")[2], adapters.find(one.adapter).file
    catalogue = claims.load()
    scripts = scenario.load(catalogue)

    assert product.title.removeprefix("Apache ").removeprefix("Eclipse ").removeprefix("ActiveMQ ") in broker
    assert set(one.versions) == set(re.findall(r"\b\d+(?:\.\d+)+\b", re.sub(r"\(.*?\)", "", broker)))
    assert [each for each in one.scenarios if f"`{each}`" not in row + text.partition("\nSo far ")[2]] == []
    assert bool(one.scenarios) == bool(one.claims)
    always = {claim for item in scripts.values() if item.standing for claim in item.decides}
    assert {*one.claims} <= always.union(*(scripts[each].decides for each in one.scenarios))
    assert [each for each in one.scenarios if not {*one.claims} & (always | scripts[each].decides.keys())] == []
    assert one.settings.keys() <= product.settings.keys()


@pytest.mark.parametrize("name", EVERY)
def test_every_finding_says_what_is_known_upstream(name):
    """The issue that tells of it, or the day on which none was found; and whether the release is still supported."""
    text = (paths.fixtures() / "findings" / "README.md").read_text()
    (row,) = (line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
    _, broker, _, _, upstream = (cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1])

    assert re.match(r"[\w.-]+/[\w.-]+ #\d+|None found on \d{4}-\d\d-\d\d", upstream), upstream
    assert ("RabbitMQ 3.10" in broker) == ("3.10 is out of support" in broker), broker


@pytest.mark.parametrize("name", EVERY)
def test_nothing_of_the_suite_is_used(name):
    """A broker's maintainer needs only proton, a socket, or the client itself."""
    assert "conformance" not in (paths.fixtures() / "findings" / name).read_text()


@pytest.fixture
def prepared(tmp_path):
    """Prepare a broker with these queues and settings."""
    with Ledger(tmp_path, f"findings-{os.getpid()}") as ledger, contextlib.ExitStack() as stack:
        yield lambda adapter, queues, **settings: stack.enter_context(
            adapter.prepare(tmp_path / "broker", adapter.effective(settings), list(queues), ledger)
        )


@pytest.fixture
def disk_of(tmp_path):
    """Put the data of a broker on a file system of its own; end the broker before that goes."""

    @contextlib.contextmanager
    def made(broker):
        data = broker.node.facts.data
        with Ledger(tmp_path / "disk", "disk") as ledger, LossyDisk.make(ledger, tmp_path / "disk.img", data):
            try:
                yield data
            finally:
                broker.close()

    return made


def said(name, *words, **options):
    """Run the script of a finding; return the lines that it prints."""
    command = [sys.executable, paths.fixtures() / "findings" / name, *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=300, **options
    ).stdout.splitlines()


NEEDS_RABBITMQ = pytest.mark.skipif(bool(fetch.not_installed(RABBITMQ.file)), reason=fetch.not_installed(RABBITMQ.file))


@pytest.mark.artemis
def test_reproduced(prepared):
    """On the version that the README names, as all others."""
    broker = prepared(adapters.find("artemis@2.56.0"), "abcdef")
    broker.start()
    address = "{}:{}".format(*broker.endpoint("amqp"))  # one port speaks all protocols

    assert SAID == {name: said(name, address, queue) for queue, name in zip("abcdef", SAID, strict=True)}
    assert OVER_MQTT == {name: said(name, address, "a") for name in OVER_MQTT}


@pytest.mark.full
@pytest.mark.artemis
@pytest.mark.parametrize("name", THROUGH_ITS_CLIENT)
def test_reproduced_through_its_client(prepared, name):
    """The distribution has the clients' jars."""
    pytest.importorskip("jpype", reason="needs JPype1: pip install 'ack-conformance[jms]'")
    broker = prepared(adapters.find("artemis@2.56.0"), "a")
    broker.start()
    address = "{}:{}".format(*broker.endpoint("amqp"))  # the core protocol as well

    assert THROUGH_ITS_CLIENT[name] == said(name, address, "a", pathlib.Path(broker.plan.words["home"]) / "lib")


@pytest.mark.full
@NEEDS_RABBITMQ
@pytest.mark.parametrize("name", STARTED_THERE)
def test_reproduced_on_a_rabbitmq_of_its_own(tmp_path, name):
    assert STARTED_THERE[name] == said(name, tmp_path / "broker")


@pytest.mark.full
@NEEDS_RABBITMQ
def test_reproduced_on_rabbitmq(prepared):
    """The queues d and e are never declared."""
    broker = prepared(RABBITMQ, "abfgh")
    broker.start()
    port, seen = broker.service.endpoint("http")[1], {}
    status, _ = web.ask("PUT", f"http://guest:guest@127.0.0.1:{port}/api/queues/%2F/c", FULL)
    for queue, name in zip("abcdefg", ON_RABBITMQ, strict=True):
        address = "{}:{}".format(*broker.endpoint("stomp" if "stomp" in name else "amqp"))
        seen[name] = [line.replace(address, "BROKER") for line in said(name, address, queue)]

    assert (201, ON_RABBITMQ) == (status, seen)
    both = ["{}:{}".format(*broker.endpoint(name)) for name in ("amqp", "stomp")]
    assert FROM_AMQP_TO_STOMP == {name: said(name, *both, "h") for name in FROM_AMQP_TO_STOMP}


@pytest.mark.full
@NEEDS_RABBITMQ
@pytest.mark.parametrize("name", WITH_QUEUES_OF_ITS_OWN)
def test_reproduced_on_rabbitmq_in_its_own_queues(prepared, name):
    broker = prepared(RABBITMQ, "")
    broker.start()

    protocol = "mqtt311" if "mqtt" in name else "amqp091"
    assert WITH_QUEUES_OF_ITS_OWN[name] == said(name, "{}:{}".format(*broker.endpoint(protocol)), "q")


@pytest.mark.full
@pytest.mark.skipif(bool(injection.cannot()), reason=injection.cannot())
@pytest.mark.skipif(bool(fetch.not_installed(RABBITMQ_4.file)), reason=fetch.not_installed(RABBITMQ_4.file))
def test_reproduced_on_rabbitmq_4(prepared):
    """Traced from outside: classic queues, as they are by default."""
    broker = prepared(RABBITMQ_4, "ab")
    broker.start()
    (pid,) = (pid for pid in broker.processes() if name_of(pid) == "beam.smp")
    address = "{}:{}".format(*broker.endpoint("amqp"))

    assert ON_RABBITMQ_4 == {name: said(name, address, "/queues/a", str(pid)) for name in ON_RABBITMQ_4}
    assert THROUGH_ITS_ONE_PORT == {name: said(name, address, "b") for name in THROUGH_ITS_ONE_PORT}


@pytest.mark.full
@pytest.mark.skipif(bool(image.cannot()), reason=image.cannot())
def test_reproduced_on_a_disk_of_its_own(prepared, disk_of):
    name = "rabbitmq_serves_no_more_after_full_disk.py"
    if why := fetch.not_installed(RABBITMQ_4.file):
        pytest.skip(why)
    broker = prepared(RABBITMQ_4, "a")
    with disk_of(broker) as data:
        broker.start()

        assert FILLED[name] == said(name, data, "{}:{}".format(*broker.endpoint("amqp")), "/queues/a")


@pytest.mark.full
@pytest.mark.skipif(bool(image.cannot()), reason=image.cannot())
def test_reproduced_on_a_disk_of_its_own_and_after_a_restart(prepared, disk_of, tmp_path):
    name = "activemq_confirmed_messages_gone_after_full_disk.py"
    broker = prepared(adapters.find("activemq@6.1.7"), "a")
    with disk_of(broker) as data:
        broker.start()
        found = said(name, "send", data, "{}:{}".format(*broker.endpoint("amqp")), "a", tmp_path / "noted")
        broker.stop()
        broker.start()
        found += said(name, "receive", "-", "{}:{}".format(*broker.endpoint("amqp")), "a", tmp_path / "noted")

    assert FILLED[name] == found


@pytest.mark.skipif(bool(fetch.not_installed(MOSQUITTO.file)), reason=fetch.not_installed(MOSQUITTO.file))
def test_reproduced_on_mosquitto(prepared):
    broker = prepared(MOSQUITTO, "")
    broker.start()
    address = "{}:{}".format(*broker.endpoint("mqtt"))

    assert ON_MOSQUITTO == {name: said(name, address, "a") for name in ON_MOSQUITTO}


@pytest.mark.full
@pytest.mark.openmq
def test_reproduced_on_openmq(prepared):
    """Its client needs the Java of the broker, and the distribution has the client's jars."""
    pytest.importorskip("jpype", reason="needs JPype1: pip install 'ack-conformance[jms]'")
    broker, seen = prepared(adapters.find("openmq@6.7.0"), "ab"), {}
    broker.start()
    environment = {**os.environ, "JAVA_HOME": broker.plan.words["java_home"]}
    for queue, name in zip("ab", ON_OPENMQ, strict=True):
        address = "{}:{}".format(*broker.endpoint("stomp" if "stomp" in name else "imq"))
        words = [] if "stomp" in name else [pathlib.Path(broker.plan.words["home"]) / "lib"]
        seen[name] = said(name, address, queue, *words, env=environment)

    assert ON_OPENMQ == seen


@pytest.mark.full
@pytest.mark.activemq
@pytest.mark.parametrize(("limit", "overtaken"), [("100000", "some"), ("0", "none")])
def test_reproduced_on_classic(prepared, limit, overtaken):
    """A queue without a limit of its own keeps the order."""
    broker = prepared(adapters.find("activemq@6.1.7"), "ab", queue_memory_bytes=limit)
    broker.start()
    address = "{}:{}".format(*broker.endpoint("amqp"))
    words = {name: [line.replace("some", overtaken) for line in ON_CLASSIC[name]] for name in ON_CLASSIC}

    assert words == {name: said(name, address, queue) for queue, name in zip("ab", ON_CLASSIC, strict=True)}


@pytest.mark.qpid
def test_reproduced_on_qpid(prepared):
    """Each script also gets the address of its queue in the management."""
    broker = prepared(adapters.find("qpid@10.1.0"), "abcde")
    broker.start()
    address = "{}:{}".format(*broker.endpoint("amqp"))
    queues = zip("abcde", ON_QPID, strict=True)

    assert ON_QPID == {name: said(name, address, queue, broker.depth_probe(queue).url) for queue, name in queues}


@pytest.mark.full
@pytest.mark.artemis
@pytest.mark.skipif(bool(injection.cannot() or image.cannot()), reason=injection.cannot() or image.cannot())
@pytest.mark.parametrize("name", OF_ITS_DISK)
def test_reproduced_of_its_disk(prepared, name):
    """What the script starts bears the mark of the ledger, should it hang."""
    journal = {"journal_type": "ASYNCIO"} if name in WITH_LIBAIO else {}
    broker = prepared(adapters.find("artemis@2.56.0"), "", **journal)
    words = broker.plan.words
    environment = {key: fill(text, words) for key, text in broker.plan.source.file.start.environment.items()}
    environment = {**os.environ, **environment, RUN_VARIABLE: f"findings-{os.getpid()}"}
    address = "{}:{}".format(*broker.endpoint("stomp"))

    assert OF_ITS_DISK[name] == said(name, words["instance"], address, env=environment)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "spec"), [*zip(OVER_TWO_PROTOCOLS, ("activemq@6.1.7", "qpid@10.1.0", "qpid@10.1.0"), strict=True)]
)
def test_reproduced_over_two_protocols(prepared, name, spec):
    broker = prepared(adapters.find(spec), "a")
    broker.start()
    amqp = "{}:{}".format(*broker.endpoint("amqp"))
    more = "{}:{}".format(*broker.endpoint("stomp")) if "stomp" in name else broker.depth_probe("a").url

    assert OVER_TWO_PROTOCOLS[name] == said(name, amqp, "a", more)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "spec", "first", "before", "after"),
    [
        *zip(
            ACROSS_A_RESTART,
            ("activemq@6.1.7", "hivemq", "mosquitto"),
            ("send", "send", "take"),
            ("stomp", "mqtt", "mqtt"),
            ("amqp", "mqtt", "mqtt"),
            strict=True,
        )
    ],
)
def test_reproduced_across_a_restart(prepared, name, spec, first, before, after):
    product = adapters.find(spec)
    if why := fetch.not_installed(product.file):
        pytest.skip(why)
    broker = prepared(product, "a")
    broker.start()
    sent = said(name, first, "{}:{}".format(*broker.endpoint(before)), "a")
    broker.stop()
    broker.start()

    assert ([], ACROSS_A_RESTART[name]) == (sent, said(name, "receive", "{}:{}".format(*broker.endpoint(after)), "a"))


@pytest.mark.artemis
@pytest.mark.parametrize("name", DAMAGED)
def test_reproduced_on_damaged_data(prepared, name):
    product = adapters.find("artemis@2.56.0")
    if why := fetch.not_installed(product.file):
        pytest.skip(why)
    broker = prepared(product, "a")
    broker.start()
    address = "{}:{}".format(*broker.endpoint("amqp"))
    sent = said(name, "send", address, "a")
    broker.stop()
    flipped = said(name, "flip", str(broker.node.facts.data))
    broker.start()

    assert ([], ["one bit of activemq-data-1.amq flipped"]) == (sent, flipped)
    assert DAMAGED[name] == said(name, "receive", address, "a")
