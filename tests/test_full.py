"""`just full`: what it tries, and that an interrupted one goes on."""

import full


def test_every_broker_under_each_of_its_launchers():
    """Natively, and in a container where its file says how; over each protocol that it speaks."""
    pairs = full.runs()

    assert len(pairs) == len(set(pairs))
    assert {("artemis:docker", "amqp"), ("rabbitmq:native", "stomp"), ("qpid:native", "amqp091")} <= set(pairs)
    assert not any(spec.startswith(("ems", "solace")) for spec, _ in pairs)


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

    first, _ = full.run("artemis:native", "amqp", folder, ["--quick"])
    said = folder.with_suffix(".log").read_text()
    second, _ = full.run("artemis:native", "amqp", folder, ["--quick"])

    assert (first, second) == (2, 0)
    assert said == f"run --adapter artemis:native --protocol amqp --out {folder} --quick\n"
    assert folder.with_suffix(".log").read_text() == f"judge {folder}\n"
    assert not (folder / "torn").exists()
