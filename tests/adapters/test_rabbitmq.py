"""RabbitMQ as Debian packages it: which version runs, how its queues are called, and what a restart keeps."""

from __future__ import annotations

import contextlib
import json
import pathlib
import signal
from collections.abc import Iterator
from typing import Any

import proton
import pytest
from job_rig import make_job

from conformance import adapters
from conformance.adapters import READY_QUEUE, Broker, web
from conformance.adapters.distribution import fetch
from conformance.adapters.file.model import BrokerFile
from conformance.adapters.file.settings import weaken
from conformance.clients.roles.modes import AckHeader
from conformance.errors import LaunchError, UsageError
from conformance.ledger import Ledger
from conformance.protocols.amqp.sessions import session as amqp_session
from conformance.run import readiness_probe

RABBITMQ = adapters.find("rabbitmq")
SYNC_OFF = {"sync_non_transactional": False, "sync_transactional": False, "journal_buffer_ms": 500}
LACKS = fetch.not_installed(RABBITMQ.file)
needs_it = pytest.mark.skipif(bool(LACKS), reason=LACKS)


def finding(version: str) -> BrokerFile:
    """The file where that version is installed; where none is, with an empty one."""
    table = fetch.Installed(command=("echo", version), pattern="(.+)", needs="apt-get it")
    return RABBITMQ.file.model_copy(update={"installed": table})


# which version


@pytest.mark.process
def test_what_is_installed_is_what_is_tried() -> None:
    assert fetch.installed_version(finding("3.9"), None, native=True) == "3.9"
    assert fetch.installed_version(finding("3.9"), "3.9", native=True) == "3.9"


@pytest.mark.process
def test_another_version_is_refused_and_the_next_step_is_named() -> None:
    with pytest.raises(UsageError, match=r"rabbitmq@4\.1: version 3\.9 is installed here.*rabbitmq@4\.1:docker"):
        fetch.installed_version(finding("3.9"), "4.1", native=True)


@pytest.mark.process
def test_a_version_in_another_suite_of_debian_needs_no_installed_one() -> None:
    file = finding("3.9")
    assert file.installed is not None
    file = file.model_copy(update={"installed": file.installed.model_copy(update={"suites": {"4.1": "trixie"}})})

    assert fetch.installed_version(file, "4.1", native=True) == "4.1"
    assert fetch.suite_of(file, "4.1") == "trixie"
    assert fetch.suite_of(file, "3.9") == ""
    with pytest.raises(UsageError, match=r"take 3\.9 or 4\.1, install 4\.0"):
        fetch.installed_version(file, "4.0", native=True)


def test_a_version_is_asked_for_its_health_at_an_address_that_it_has() -> None:
    asked = {
        version: adapters.find(f"rabbitmq@{version}:docker").file.start.ready_http for version in ("3.8.9", "4.0.5")
    }

    assert {version: http and http.url.partition("/api/")[2] for version, http in asked.items()} == {
        "3.8.9": "healthchecks/node",
        "4.0.5": "health/checks/virtual-hosts",
    }
    assert asked["4.0.5"] is not None
    assert asked["4.0.5"].field == ""


def test_four_has_an_amqp_of_its_own() -> None:
    """What is said of 4.0 is laid over the file, and nothing of it counts for 3.10."""
    older, newer = (adapters.find(f"rabbitmq@{version}:docker").file.protocols for version in ("3.10.8", "4.0.5"))

    assert ("/amq/queue/{queue}", "/queues/{queue}") == (older["amqp"].destination, newer["amqp"].destination)
    assert "modified" not in older["amqp"].outcomes
    assert "modified" in newer["amqp"].outcomes
    assert older["stomp"] == newer["stomp"]


def test_only_before_khepri_the_name_of_a_classic_queue_is_waited_for() -> None:
    files = [adapters.find(f"rabbitmq@{version}:docker").file for version in ("3.10.8", "4.0.5", "4.3.6")]
    kinds = [file.settings["queue_type"].choices for file in files]

    assert [choices["classic"].stored is not None for choices in kinds] == [True, True, False]
    assert all(choices["quorum"].stored for choices in kinds)


def test_a_container_has_any_version() -> None:
    assert fetch.installed_version(finding("3.9"), "4.1", native=False) == "4.1"
    assert fetch.installed_version(finding("3.9"), None, native=False) == RABBITMQ.file.default_version


@pytest.mark.process
def test_a_machine_without_it_gets_the_words_to_install_it(tmp_path: pathlib.Path) -> None:
    adapter = adapters.FileAdapter.of(finding(""), None, None, path=RABBITMQ.path)

    assert adapter.version == RABBITMQ.file.default_version
    with (
        Ledger(tmp_path, "none") as ledger,
        pytest.raises(LaunchError, match="RabbitMQ is not installed here: apt-get"),
    ):
        adapter.prepare(tmp_path / "broker", adapter.effective(), [], ledger)


@pytest.mark.parametrize(
    ("pattern", "says"), [("([", "is not a regular expression"), ("x", "needs one group"), ("(x)(y)", "one group")]
)
def test_a_pattern_without_its_group_is_refused(pattern: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        fetch.Installed(command=("true",), pattern=pattern, needs="it")


# its settings


def test_a_quorum_queue_is_always_durable() -> None:
    """`x-queue-type: quorum` with `durable: false` is refused by the product."""
    with pytest.raises(UsageError, match=r"queue_type.*quorum goes with persistence=true, not false"):
        RABBITMQ.effective({"queue_type": "quorum", "persistence": False})


def test_a_control_gives_up_storing_where_the_product_lets_it() -> None:
    """It has no switch for syncs; a quorum queue cannot be weakened at all."""
    assert weaken(RABBITMQ.file, SYNC_OFF, {}) == {"persistence": False}
    assert weaken(RABBITMQ.file, SYNC_OFF, {"queue_type": "classic"}) == {"persistence": False}
    assert weaken(RABBITMQ.file, SYNC_OFF, {"queue_type": "quorum"}) == {}


# how a queue is called


class Unconnected:
    """Enough of an `AmqpClientConnection` to attach links to."""

    name = "c"
    greeting = ""

    def __init__(self, *about: object, **more: object) -> None:
        self.connection = proton.Connection()

    def session(self) -> Any:
        return self.connection.session()

    def attach(self, link: Any) -> Any:
        return link


def test_amqp_links_have_the_address_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqp_session, "AmqpClientConnection", Unconnected)
    job = make_job(queue="orders", destination=RABBITMQ.file.protocols["amqp"].destination)
    session = amqp_session.AmqpSession(job, lambda: None)
    session.attach_sender("orders")
    session.attach_receiver("orders", 1, AckHeader.INDIVIDUAL)

    assert session._senders["orders"].target.address == "/amq/queue/orders"
    assert session._receivers[0].source.address == "/amq/queue/orders"
    assert session._senders["orders"].name == "sender-orders"  # our own names for links stay plain


# the real one


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "run", f"rabbitmq-{tmp_path.name}") as book:
        yield book


def asked(broker: Broker, path: str) -> list[dict[str, object]]:
    """What its management says."""
    status, text = web.ask("GET", f"http://guest:guest@127.0.0.1:{broker.service.endpoint('http')[1]}/api/{path}")
    assert status == 200
    found: list[dict[str, object]] = json.loads(text)
    return found


def killed(broker: Broker) -> None:
    with broker.target.armed("kill") as descriptors:
        for descriptor in descriptors:
            with contextlib.suppress(ProcessLookupError):  # its shells come and go
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    assert broker.wait_gone(20)


@pytest.mark.full
@needs_it
def test_quorum_queues_keep_what_was_confirmed_over_a_kill(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    """Over both protocols by its plain name. Not from one to the other: over STOMP the properties of a message that
    came over AMQP 1.0 are a header of raw bytes, which no parser of STOMP takes (3.10.8)."""
    settings = RABBITMQ.effective({"queue_type": "quorum"})
    with RABBITMQ.prepare(tmp_path / "broker", settings, ["orders"], ledger) as broker:
        broker.start()
        queues = {str(one["name"]): (one["type"], one["durable"]) for one in asked(broker, "queues/%2F")}
        first = readiness_probe.ProbeClient(RABBITMQ, "amqp").send(broker, "orders")
        readiness_probe.depth_of(broker, "orders", wanted=1)
        killed(broker)
        broker.start()
        readiness_probe.ProbeClient(RABBITMQ, "amqp").receive(broker, "orders", first)
        readiness_probe.ProbeClient(RABBITMQ, "stomp").exchange(broker, "orders")
        readiness_probe.depth_of(broker, "orders", wanted=0)
        names = {str(one["name"]) for one in asked(broker, "queues/%2F")}

    assert queues == {"orders": ("quorum", True), READY_QUEUE: ("quorum", True)}
    assert names == set(queues)  # no queue of another name exists


@pytest.mark.process
@needs_it
def test_a_queue_that_is_not_durable_is_there_again_and_empty(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    """The control: what was confirmed is gone, and the queue can be drained all the same."""
    settings = RABBITMQ.effective({"persistence": False})
    with RABBITMQ.prepare(tmp_path / "broker", settings, ["orders"], ledger) as broker:
        broker.start()
        readiness_probe.ProbeClient(RABBITMQ, "stomp").send(broker, "orders")
        readiness_probe.depth_of(broker, "orders", wanted=1)
        killed(broker)
        broker.start()
        queues = {str(one["name"]): (one["type"], one["durable"]) for one in asked(broker, "queues/%2F")}
        readiness_probe.depth_of(broker, "orders", wanted=0)

    assert queues["orders"] == ("classic", False)
    assert broker.gone()


@pytest.mark.process
@needs_it
def test_only_the_queue_of_the_suite_is_declared_again(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    """Counter-example: a power loss took the queue of the message that proves readiness, and no restart was ready."""
    client = readiness_probe.ProbeClient(RABBITMQ, "amqp")
    with RABBITMQ.prepare(tmp_path / "broker", RABBITMQ.effective({}), ["orders"], ledger, client=client) as broker:
        broker.start()
        for queue in ("orders", READY_QUEUE):
            port = broker.service.endpoint("http")[1]
            web.ask("DELETE", f"http://guest:guest@127.0.0.1:{port}/api/queues/%2F/{queue}")
        killed(broker)
        broker.start(ready_s=30)
        queues = {str(one["name"]) for one in asked(broker, "queues/%2F")}

    assert queues == {READY_QUEUE}
