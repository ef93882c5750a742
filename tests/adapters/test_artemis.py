"""The real Artemis, fetched once into the cache: started, killed, and asked what it kept."""

from __future__ import annotations

import pathlib
import signal
import socket
from collections.abc import Iterator

import pytest

from conformance import adapters
from conformance.adapters import Broker
from conformance.ledger import Ledger

pytestmark = pytest.mark.artemis


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "run", f"artemis-{tmp_path.name}") as book:
        yield book


def _broker(tmp_path: pathlib.Path, ledger: Ledger, **overrides: bool | int) -> Broker:
    artemis = adapters.find("artemis")
    return artemis.prepare(tmp_path / "broker", artemis.effective(overrides), ["orders"], ledger)


class Stomp:
    """Just enough STOMP to see that a message is kept."""

    def __init__(self, broker: Broker) -> None:
        self._socket = socket.create_connection(broker.endpoint("stomp"), timeout=10)
        self._stream = self._socket.makefile("rwb")
        self.ask("CONNECT\naccept-version:1.2\nhost:localhost\n\n")

    def ask(self, frame: str) -> str:
        self._stream.write(frame.encode() + b"\0")
        self._stream.flush()
        answer = bytearray()
        while (byte := self._stream.read(1)) not in (b"\0", b""):
            answer += byte
        return answer.decode().lstrip()

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


def test_a_confirmed_message_is_in_its_durable_queue_after_a_kill(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    with _broker(tmp_path, ledger) as broker:
        broker.start()
        first = Stomp(broker)
        receipt = first.ask("SEND\ndestination:orders\ndestination-type:ANYCAST\npersistent:true\nreceipt:1\n\nhello")
        with broker.pidfds() as descriptors:
            assert len(descriptors) == 1  # the pid that was started is the JVM
            signal.pidfd_send_signal(descriptors[0], signal.SIGKILL)
        assert broker.wait_gone(10)
        first.close()
        broker.start()
        second = Stomp(broker)
        message = second.ask("SUBSCRIBE\nid:1\ndestination:orders\nsubscription-type:ANYCAST\nack:client\n\n")
        second.close()
        broker.stop()

    assert receipt.startswith("RECEIPT\nreceipt-id:1\n")
    assert message.startswith("MESSAGE\n")
    assert message.endswith("hello")
    assert broker.epoch == 2


def test_settings_are_in_the_configuration_and_absent_ones_are_not(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    with _broker(tmp_path, ledger, sync_non_transactional=False, journal_buffer_ms=500, data_sync=False) as broker:
        text = (broker.folder / "instance/etc/broker.xml").read_text()
        broker.start()  # it validates the file against its schema

    assert "<journal-sync-non-transactional>false</journal-sync-non-transactional>" in text
    assert "<journal-buffer-timeout>500000000</journal-buffer-timeout>" in text
    assert "<journal-datasync>false</journal-datasync>" in text
    assert "journal-sync-transactional" not in text
    assert "0.0.0.0:" not in text


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
