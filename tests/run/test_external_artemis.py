"""An external Artemis that its owner made with `artemis create`, and kills and starts with its `artemis-service`."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest

from conformance import adapters
from conformance.adapters import ports
from conformance.adapters.launch import java
from conformance.ledger import Ledger
from conformance.run import policies, readiness_probe

COMMANDS = """urls = {{ amqp = "amqp://127.0.0.1:{port}" }}
kill = ["owned/bin/artemis-service", "force-stop"]
start = ["owned/bin/artemis-service", "start"]
stop = {{ command = ["owned/bin/artemis-service", "stop"], seconds = 60 }}
"""


@pytest.fixture
def owned(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Make a broker with these options of its own tool, and return the words of its owner's file: a run starts it."""
    monkeypatch.setenv("JAVA_HOME", str(java.find_java().home))
    home = adapters.find("artemis").install()
    service = tmp_path / "owned" / "bin" / "artemis-service"

    def made(*options: str) -> str:
        reserved = ports.Ports(["main"])
        port = reserved["main"]
        reserved.close()
        create: list[str | pathlib.Path] = [
            home / "bin" / "artemis",
            "create",
            tmp_path / "owned",
            "--user",
            "u",
            "--password",
            "p",
            "--silent",
        ]
        one_port = [f"--no-{name}-acceptor" for name in ("amqp", "stomp", "mqtt", "hornetq")]
        more = ["--allow-anonymous", "--no-web", "--host", "127.0.0.1", "--default-port", str(port)]
        subprocess.run([*create, *more, *one_port, *options], check=True, env=dict(os.environ), capture_output=True)
        (tmp_path / "mine.toml").write_text(COMMANDS.format(port=port))
        return "artemis:external=mine.toml"

    yield made
    with contextlib.suppress(FileNotFoundError):
        subprocess.run([service, "force-stop"], check=False, capture_output=True)


@pytest.mark.artemis
@pytest.mark.skipif(not shutil.which("ps"), reason="ps is not on PATH: artemis-service finds its broker with it")
@pytest.mark.parametrize(
    "options", [["--disable-persistence"], pytest.param([], marks=pytest.mark.full)], ids=["stores nothing", "stock"]
)
def test_the_policies_of_a_broker_of_its_own_tool_are_known(
    owned: Callable[..., str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    """If they were unknown, they would excuse each loss of a broker that stores nothing."""
    monkeypatch.chdir(tmp_path)
    adapter = adapters.find(owned(*options))
    client = readiness_probe.ProbeClient(adapter, "amqp")
    with (
        Ledger(tmp_path / "run", "run-1") as ledger,
        adapter.prepare(tmp_path / "broker", adapter.effective(), [], ledger, client=client) as broker,
    ):
        broker.start()
        known, unread = policies.read(broker, adapter.file, adapter.effective())

        greeting = client.greeting(broker, broker.service.queue_of(adapters.READY_QUEUE))

    assert ("", adapter.effective().values) == (unread, known.values)
    assert f"apache-activemq-artemis {adapter.version}" == greeting
    assert not (tmp_path / "broker" / "left.txt").exists()
