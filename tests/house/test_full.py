"""`just full`: what it tries, and that an interrupted one goes on."""

import full
import pytest


@pytest.mark.process
def test_every_broker_under_each_of_its_launchers():
    """Natively, and in a container where its file says how; over each protocol that it speaks. No external one."""
    runs = full.runs()
    names = [str(run) for run in runs]

    assert len(names) == len(set(names))
    assert {"artemis-docker-amqp", "rabbitmq-native-stomp", "qpid-native-amqp091"} <= set(names)
    assert not any(name.startswith(("ems", "solace")) for name in names)


@pytest.mark.process
def test_each_vendors_client_natively():
    """With each broker that speaks its protocol."""
    through = {(run.spec, run.client) for run in full.runs() if run.client}

    assert {
        ("artemis:native", "artemis-jms"),
        ("artemis:native", "qpid-jms"),
        ("rabbitmq:native", "qpid-jms"),
    } <= through
    assert ("qpid:native", "artemis-jms") not in through
    assert not any("docker" in spec for spec, _ in through)


@pytest.mark.process
def test_a_run_that_is_there_is_only_judged_again(tmp_path, monkeypatch):
    """And what an interrupted one has left is removed before it is made anew."""
    command = tmp_path / "bin" / "conformance"
    command.parent.mkdir()
    command.write_text(
        '#!/bin/sh\necho "$@"\ncase "$1" in run) mkdir -p "$7" && touch "$7/report.json"; exit 2;; esac\n'
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(command.parent), prepend=":")
    folder = tmp_path / "out" / "artemis-native-amqp"
    folder.mkdir(parents=True)
    (folder / "torn").touch()

    run = full.Run("artemis:native", "amqp")
    first, _ = full.play(run, folder, ["--quick"])
    said = folder.with_suffix(".log").read_text()
    second, _ = full.play(run, folder, ["--quick"])

    assert (first, second) == (2, 0)
    assert said == f"run --adapter artemis:native --protocol amqp --out {folder} --quick\n"
    assert folder.with_suffix(".log").read_text() == f"judge {folder} --again\n"
    assert not (folder / "torn").exists()
