"""A broker that runs already is asked what its queues do with messages, before the first trial."""

import contextlib
import dataclasses

import pytest

from conformance import adapters
from conformance.adapters import opening, web
from conformance.adapters.distribution import fetch
from conformance.errors import ClientError, ExitCode
from conformance.ledger import Ledger
from conformance.report import model
from conformance.run import policies, readiness_probe

LACKS = fetch.not_installed(adapters.find("rabbitmq").file)
BROKER_XML = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
  <journal-type>NIO</journal-type>
  <max-disk-usage>100</max-disk-usage>
  <acceptors><acceptor name="all">tcp://127.0.0.1:61616?protocols=AMQP,STOMP</acceptor></acceptors>
  <security-enabled>false</security-enabled>
  <address-settings><address-setting match="#">
    <max-delivery-attempts>2</max-delivery-attempts>
    <address-full-policy>DROP</address-full-policy>
    <expiry-delay>700</expiry-delay>
    <default-non-destructive>true</default-non-destructive>
  </address-setting></address-settings>
</core></configuration>
"""


@pytest.fixture
def asked(tmp_path):
    """Start a broker, and ask for the policies of a queue as a run at its address does."""

    @contextlib.contextmanager
    def ask(adapter, *, settings=None, before=lambda broker: None, change=lambda file: file):
        with (
            Ledger(tmp_path / "theirs", "theirs") as ledger,
            adapter.prepare(tmp_path / "broker", adapter.effective(settings), ["unused"], ledger) as theirs,
            Ledger(tmp_path / "run", "run-1") as ours,
        ):
            theirs.start()
            before(theirs)
            http = f",http://127.0.0.1:{theirs.service.endpoint('http')[1]}" if "http" in adapter.file.ports else ""
            found = adapters.find(f"{adapter.name}:external=amqp://127.0.0.1:{theirs.endpoint('amqp')[1]}{http}")
            outside = dataclasses.replace(found, file=change(found.file))
            with outside.prepare(
                tmp_path / "here", outside.effective(), [], ours, client=readiness_probe.ProbeClient(outside, "amqp")
            ) as broker:
                broker.start()
                known, unread = policies.read(broker, outside.file, outside.effective())
                assert isinstance(hash(known), int)  # a run groups its trials by their settings
        yield outside.effective().values, known, unread

    return ask


STOCK_ARTEMIS = """{"addressFullMessagePolicy":"PAGE","maxSizeBytes":-1,"maxReadPageBytes":20971520,
  "maxReadPageMessages":-1,"pageLimitBytes":-1,"pageLimitMessages":-1,"maxSizeMessages":-1,"pageSizeBytes":10485760,
  "messageCounterHistoryDayLimit":10,"redeliveryDelay":0,"deadLetterAddress":"DLQ","expiryAddress":"ExpiryQueue",
  "autoCreateQueues":true,"autoDeleteQueues":false,"autoCreateAddresses":true,"autoDeleteAddresses":false}"""
"""What Artemis 2.56.0 answers with the broker.xml that `artemis create` writes: no key that is not set there."""

YOUNG_QUEUE = '{"arguments": {"x-max-length": 10}, "durable": true, "name": "q", "state": "running", "vhost": "/"}'
"""What RabbitMQ answers some milliseconds after the queue was declared; 3.10.8, shortened."""


def known_from(name, text, settings=None):
    file = adapters.find(name).file
    return policies.in_force(text, file.policies, file, adapters.find(name).effective(settings))


def asked_for(name, *answers):
    """The answer that is taken, and the number of times that the broker was asked."""
    left = list(answers)
    return policies.complete(lambda: left.pop(0), adapters.find(name).file.policies), len(answers) - len(left)


def test_the_stock_answer_of_artemis_is_complete_and_its_absent_keys_are_defaults():
    """If the suite waited for a key that is not set, every policy would stay unknown, and excuse every loss."""
    stock = adapters.find("artemis").effective()

    assert (STOCK_ARTEMIS, 1) == asked_for("artemis", STOCK_ARTEMIS)
    assert stock.values == known_from("artemis", STOCK_ARTEMIS).values
    assert stock.absent == known_from("artemis", STOCK_ARTEMIS).absent - {"full_queue_policy"}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("artemis", "{}", {"max_delivery_attempts": 10, "message_ttl_ms": -1, "full_queue_policy": "page"}),
        ("artemis", '{"maxDeliveryAttempts": 3}', {"max_delivery_attempts": 3, "message_ttl_ms": -1}),
        ("artemis", '{"expiryDelay": null, "defaultRingSize": 5}', {"message_ttl_ms": -1, "ring_size": 5}),
        ("qpid", "{}", {"max_delivery_attempts": -1, "message_ttl_ms": 0, "full_queue_policy": "page"}),
        ("qpid", '{"overflowPolicy": "RING"}', {"full_queue_policy": "discard", "non_destructive": False}),
        ("rabbitmq", YOUNG_QUEUE, {"full_queue_policy": "discard", "message_ttl_ms": -1}),
    ],
)
def test_a_policy_that_the_answer_does_not_name_has_its_default(name, text, expected):
    """Also one for which the owner's file has another value: the broker knows better."""
    known = known_from(name, text, {"message_ttl_ms": 700} if name != "rabbitmq" else None)

    assert expected == {setting: known.values[setting] for setting in expected}


def test_a_policy_is_absent_only_if_the_answer_does_not_name_it():
    known = known_from("artemis", '{"redeliveryDelay": 0}', {"max_delivery_attempts": 3})

    assert {"max_delivery_attempts", "full_queue_policy"} < known.absent
    assert "redelivery_delay_ms" not in known.absent


def test_rabbitmq_is_asked_until_its_answer_has_the_policy():
    whole = YOUNG_QUEUE.replace("{", '{"effective_policy_definition": {"expires": 900000}, ', 1)

    assert (whole, 3) == asked_for("rabbitmq", YOUNG_QUEUE, YOUNG_QUEUE, whole, "never asked")
    assert known_from("rabbitmq", whole).values["purge_without_consumers"] is True


def test_an_answer_that_is_never_complete_is_not_taken(monkeypatch):
    monkeypatch.setattr(policies, "_COMPLETE_S", 0.0)
    with pytest.raises(ClientError, match="the answer has no effective_policy_definition after 0 s"):
        asked_for("rabbitmq", YOUNG_QUEUE, YOUNG_QUEUE)


@pytest.mark.parametrize("name", ["artemis", "qpid", "rabbitmq"])
@pytest.mark.parametrize("text", ["AMQ229069: no operation getAddressSettingsAsJSON/1", "[]", "null", "[" * 100_000])
def test_an_answer_that_is_no_object_says_nothing_about_policies(name, text):
    """Else a refusal would be a list of defaults, and the broker would be accused of what its policies do."""
    with pytest.raises(ClientError, match="the answer is no JSON object: "):
        asked_for(name, text)


@pytest.mark.artemis
def test_artemis_says_its_address_settings(asked, tmp_path):
    file = tmp_path / "broker.xml"
    file.write_text(BROKER_XML)
    with asked(opening.with_configuration(adapters.find("artemis"), file)) as (before, known, unread):
        changed = {
            "max_delivery_attempts": 2,
            "full_queue_policy": "discard",
            "message_ttl_ms": 700,
            "non_destructive": True,
        }

        assert ("", {**before, **changed}) == (unread, known.values)
        assert known.absent.isdisjoint(changed)


@pytest.mark.qpid
def test_broker_j_says_the_attributes_of_a_queue(asked):
    policy = {
        "max_delivery_attempts": 3,
        "full_queue_policy": "discard",
        "message_ttl_ms": 700,
        "non_destructive": True,
    }
    with asked(adapters.find("qpid"), settings=policy) as (before, known, unread):
        assert ("", {**before, **policy}) == (unread, known.values)


@pytest.mark.qpid
def test_policies_that_are_refused_are_not_taken_to_be_stock(asked):
    """A management that does not answer leaves them unknown, and says why."""

    def elsewhere(file):
        url = file.policies.url.replace("/api/", "/nothing/")
        return file.model_copy(update={"policies": file.policies.model_copy(update={"url": url})})

    with asked(adapters.find("qpid"), change=elsewhere) as (before, known, unread):
        assert before == known.values
        assert "/nothing/latest/queue/default/default/conformance-" in unread
        assert "answered 404" in unread


@pytest.mark.full
@pytest.mark.qpid
@pytest.mark.spark
def test_a_run_at_an_address_is_judged_by_what_the_broker_says(conformance, tmp_path):
    """The owner's time to live is not on the command line; the broker reports it."""
    qpid = adapters.find("qpid")
    with (
        Ledger(tmp_path / "theirs", "theirs") as ledger,
        qpid.prepare(tmp_path / "broker", qpid.effective({"message_ttl_ms": 2500}), ["unused"], ledger) as theirs,
    ):
        theirs.start()
        amqp, http = (theirs.service.endpoint(name)[1] for name in ("amqp", "http"))
        at = f"qpid:external=amqp://127.0.0.1:{amqp},http://127.0.0.1:{http}"
        words = ["run", "--adapter", at, "--claims", "AMQP-SETTLE-02", "--quick", "--seed", "1"]
        done = conformance(*words, "--out", tmp_path / "out")
    report = model.read_json(tmp_path / "out" / "report.json")
    row = next(row for row in report.verdicts if row.claim == "AMQP-SETTLE-02" and row.trials)

    assert ("NOT_APPLICABLE", ExitCode.NOTHING_RAN) == (row.verdict, done.returncode), done.stdout + done.stderr
    assert "message_ttl_ms is 2500, expiry_destination is empty: an expired message is discarded" in row.reason


def _policy(definition):
    def put(broker):
        url = f"http://guest:guest@127.0.0.1:{broker.service.endpoint('http')[1]}/api/policies/%2F/all"
        status, said = web.ask("PUT", url, f'{{"pattern": ".*", "definition": {definition}, "apply-to": "queues"}}')
        assert status in (201, 204), said

    return put


@pytest.mark.process
@pytest.mark.skipif(bool(LACKS), reason=LACKS)
@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ("", {}),
        ('{"message-ttl": 700, "expires": 900000}', {"message_ttl_ms": 700, "purge_without_consumers": True}),
        pytest.param('{"max-length": 10}', {"full_queue_policy": "discard"}, marks=pytest.mark.full),
        ('{"max-length": 10, "overflow": "reject-publish"}', {"full_queue_policy": "refuse"}),
        # of quorum queues only: RabbitMQ leaves it out of a classic one's policy
        pytest.param('{"delivery-limit": 2}', {}, marks=pytest.mark.full),
    ],
)
def test_rabbitmq_says_the_policy_of_a_queue(asked, definition, expected):
    put = _policy(definition) if definition else lambda broker: None
    with asked(adapters.find("rabbitmq"), before=put) as (before, known, unread):
        assert ("", {**before, **expected}) == (unread, known.values)


def test_a_run_without_the_address_for_policies_goes_on_and_says_why(tmp_path):
    """A file that gives another way to ask for a depth needs no address for AMQP."""
    file = tmp_path / "mine.toml"
    depth = '[depth]\nmethod = "command"\ncommand = ["echo", "{queue}", "0"]\npattern = \'(\\d+)$\'\n'
    file.write_text(f'urls = {{ stomp = "stomp://127.0.0.1:1" }}\n{depth}')
    found = adapters.find(f"artemis:external={file}")
    with Ledger(tmp_path / "run", "run-1") as ledger:
        broker = found.prepare(tmp_path / "here", found.effective(), [], ledger)
        known, unread = policies.read(broker, found.file, found.effective())

    assert known == found.effective()
    assert unread == "no address for amqp: artemis was given at stomp only; add amqp://HOST:PORT to external="
