"""Each version that a broker's file lists: it starts with its defaults, takes a message and stops."""

from __future__ import annotations

import pathlib

import pytest

from conformance import adapters
from conformance.adapters.distribution import debian, fetch
from conformance.adapters.opening import choose_protocol
from conformance.ledger import Ledger
from conformance.run.readiness_probe import ProbeClient

FILES = [file for file in (adapters.find(name).file for name in adapters.names()) if not file.is_external]
LISTED = [f"{file.name}@{version}" for file in FILES for version in file.versions]


def test_every_default_version_is_listed() -> None:
    """The bundled broker has no other version, and lists none."""
    lists = {file.name: file.versions for file in FILES}

    assert {"activemq", "artemis", "hivemq", "mosquitto", "openmq", "qpid", "rabbitmq", "reference"} == {*lists}
    assert [file.name for file in FILES if file.default_version not in file.versions] == ["reference"]


@pytest.mark.full
@pytest.mark.parametrize("spec", LISTED)
def test_a_listed_version_starts_with_its_defaults(spec: str, tmp_path: pathlib.Path, ledger: Ledger) -> None:
    """The start compares the version in its log with the one asked for."""
    adapter = adapters.find(spec)
    if fetch.suite_of(adapter.file, adapter.version) and (reason := debian.cannot_make()):
        pytest.skip(reason)
    protocol = choose_protocol("", adapter)
    with adapter.prepare(tmp_path / "broker", adapter.effective(), ["orders"], ledger) as broker:
        broker.start()
        ProbeClient(adapter, protocol).exchange(broker, broker.queue_of("orders"))
        greeting = ProbeClient(adapter, protocol).greeting(broker, broker.queue_of("orders"))
        broker.stop()

    assert spec == f"{adapter.name}@{adapter.version}"
    assert not adapter.file.version.greeted or adapter.version in greeting
    assert broker.gone()
