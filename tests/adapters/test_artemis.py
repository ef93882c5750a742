"""The real Artemis, fetched once into the cache: started, killed, and asked what it kept."""

from __future__ import annotations

import pathlib
import signal

import pytest
from stomp_line import Stomp

from conformance import adapters
from conformance.adapters import Broker, ports
from conformance.adapters.distribution import fetch
from conformance.followup import contract
from conformance.followup.upgrade.broker import UpgradeAdapter
from conformance.ledger import Ledger

pytestmark = pytest.mark.artemis


def _broker(tmp_path: pathlib.Path, ledger: Ledger, **overrides: bool | int) -> Broker:
    artemis = adapters.find("artemis")
    return artemis.prepare(tmp_path / "broker", artemis.effective(overrides), ["orders"], ledger)


def test_it_keeps_the_contract_of_an_adapter(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    """A message that it has confirmed over a protocol is found there again after a kill."""
    steps: list[contract.Step] = []
    contract.check(adapters.find("artemis"), tmp_path / "broker", ledger, steps.append)

    assert {"amqp: found again", "stomp: found again", "stop"} <= {step.name for step in steps if step.tried}


def test_settings_are_in_the_configuration_and_absent_ones_are_not(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    with _broker(tmp_path, ledger, sync_non_transactional=False, journal_buffer_ms=500, data_sync=False) as broker:
        text = (broker.folder / "instance/etc/broker.xml").read_text()
        broker.start()  # it validates the file against its schema
        with broker.target.armed("kill") as descriptors:
            assert len(descriptors) == 1  # the pid that was started is the JVM
        heard = {address.removeprefix("::ffff:") for address, _ in ports.listening(broker.processes())}

    assert "<journal-sync-non-transactional>false</journal-sync-non-transactional>" in text
    assert "<journal-buffer-timeout>500000000</journal-buffer-timeout>" in text
    assert "<journal-datasync>false</journal-datasync>" in text
    assert "journal-sync-transactional" not in text
    assert "0.0.0.0:" not in text
    assert heard == {"127.0.0.1"}


def test_stock_lacks_the_keys_that_the_adapter_says_are_absent(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    artemis = adapters.find("artemis")
    with _broker(tmp_path, ledger) as broker:
        text = (broker.folder / "instance/etc/broker.xml").read_text()

    for name, setting in artemis.file.settings.items():
        if setting.xml is not None:
            element = setting.xml.rsplit("/", 1)[-1]
            assert (f"<{element}>" in text) == (setting.stock is not None), name


def test_every_path_of_the_copy_is_its_own(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    with _broker(tmp_path, ledger, max_delivery_attempts=-1) as broker:
        files = [path for path in (broker.folder / "instance").rglob("*") if path.is_file()]

        assert not [path for path in files if b"/instances/" in path.read_bytes()]
        assert "acceptors" in broker.deviations
        broker.start()
        assert broker.depth_probe("orders").properties["_AMQ_ResourceName"] == "queue.orders"


@pytest.mark.parametrize("version", ["2.17.0", "2.18.0", "2.19.0", "2.21.0", "2.26.0"])
def test_a_version_that_lies_without_a_sum_is_pinned(version: str) -> None:
    """Maven Central has no .sha512 beside these: without a pin they could not be fetched."""
    (file,) = adapters.find(f"artemis@{version}").artifacts

    assert file.sha512
    assert file.path.startswith("org/apache/activemq/apache-artemis/")


def test_the_group_of_a_version() -> None:
    """The top-level project has its own; 2.44.0 is still under the old one."""
    groups = {word: adapters.find(f"artemis@{word}").artifacts[0].path for word in ("2.44.0", "2.56.0")}

    assert groups["2.44.0"].startswith("org/apache/activemq/")
    assert groups["2.56.0"].startswith("org/apache/artemis/")


@pytest.mark.parametrize("version", ["2.19.0", "2.44.0"])
def test_the_data_of_an_older_version(tmp_path: pathlib.Path, ledger: Ledger, version: str) -> None:
    """A message that it has confirmed is delivered by the newest one, started on what a kill has left."""
    old, new = adapters.find(f"artemis@{version}"), adapters.find("artemis")
    if not (fetch.dist() / f"apache-artemis-{version}").is_dir():
        pytest.skip(f"{version} is not in the cache: conformance fetch artemis@{version}")
    pair = UpgradeAdapter(old, new, trial="t.1")
    with pair.prepare(tmp_path / "run" / "brokers" / "01", pair.effective(), ["orders"], ledger) as broker:
        broker.start()
        first = Stomp(broker)
        first.ask("SEND\ndestination:orders\ndestination-type:ANYCAST\npersistent:true\nreceipt:1\n\nhello")
        with broker.target.armed("kill") as descriptors:
            signal.pidfd_send_signal(descriptors[0], signal.SIGKILL)
        assert broker.target.wait_gone(10)
        first.close()
        broker.start()
        second = Stomp(broker)
        message = second.ask("SUBSCRIBE\nid:1\ndestination:orders\nsubscription-type:ANYCAST\nack:client\n\n")
        second.close()
        said = broker.facts.log.read_text()

    assert message.endswith("hello")
    assert "2.56.0" in said
    assert "new" == broker.facts.log.parent.name
