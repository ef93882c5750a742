"""A broker that runs already is asked what its queues do with messages, before the first trial."""

import contextlib
import dataclasses

import pytest

from conformance import adapters
from conformance.adapters import opening, web
from conformance.adapters.distribution import fetch
from conformance.errors import ExitCode
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
