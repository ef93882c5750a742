"""`conformance init`: a file from a command line, which `adapters check` passes."""

import os
import pty
import subprocess
import sys
import tomllib

import pytest

DEPTH = ("--depth-url", "http://127.0.0.1:{http_port}/queues/{queue}", "--depth-field", "depth")
BUNDLED = (
    sys.executable, "-m", "conformance.reference", "--amqp-port", "{amqp_port}", "--stomp-port", "{stomp_port}",
    "--http-port", "{http_port}", "--data", "{data_dir}",
)  # fmt: skip


@pytest.mark.process
def test_the_bundled_broker_given_by_its_command_line(typed, tmp_path):
    """Over both protocols: messages that were confirmed before a kill are found after it."""
    options = ("--env", "PYTHONPATH={python_path}", "--each-queue", "--queue {queue}", "--name", "mine")
    written = typed("init", "broker", "--out", "mine.toml", *options, *DEPTH, "--", *BUNDLED)
    checked = typed("adapters", "check", "./mine.toml")

    assert (0, 0) == (written.returncode, checked.returncode), written.stderr + checked.stderr
    assert "settings: none. Promises about storage are assumed" in written.stdout
    assert written.stdout.endswith("next: conformance adapters check ./mine.toml\n")
    assert "stomp: found again" in checked.stdout
    assert "because the file does not describe these settings:\n  SOLCD-ACK-01, " in checked.stdout


def test_what_is_not_sure_is_a_comment(typed, tmp_path):
    """The file promises what a kill can show, and names everything else with its meaning."""
    typed("init", "broker", *DEPTH, "--", "./mybroker {amqp_port} {http_port}")
    text = (tmp_path / "broker.toml").read_text()
    read = tomllib.loads(text)

    assert ["durable_queues", "individual_ack", "queues", "send_confirmed"] == read["capabilities"]
    assert (["amqp"], ["amqp", "http"]) == ([*read["protocols"]], read["ports"])
    assert ["./mybroker", "{amqp_port}", "{http_port}"] == read["start"]["command"]
    assert '  # "transactions",  # Several publishes can be committed or rolled back together.' in text


@pytest.mark.parametrize(
    ("protocol", "said"),
    [
        ("amqp", ['# ack_confirm = "disposition"']),
        ("amqp091", ['# ack_confirm = "transaction"']),
        ("mqtt", []),
        ("mqtt311", []),
    ],
)
def test_how_an_acknowledgement_may_be_answered_depends_on_the_protocol(typed, tmp_path, protocol, said):
    """A basic.ack has an answer in a transaction only, and a PUBACK has none."""
    typed("init", "broker", "--receipt-stores", *DEPTH, "--", f"./mybroker {{{protocol}_port}} {{http_port}}")
    lines = (tmp_path / "broker.toml").read_text().splitlines()

    assert said == [line.partition("  #")[0] for line in lines if line.startswith("# ack_confirm")]
    assert f"[protocols.{protocol}]" in lines


@pytest.fixture
def asked(tmp_path):
    """Type these lines at a terminal."""

    def answer(lines, *words):
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "conformance.frontend.cli", "init", "broker", *words]
        os.write(ours, lines.encode())
        done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, cwd=tmp_path, check=False)
        os.close(theirs)
        os.close(ours)
        return done

    return answer


@pytest.mark.process
def test_a_command_without_a_port_is_asked_for_again(asked, tmp_path):
    """The suite starts each broker at free ports."""
    done = asked("./mybroker --port 5672\n./mybroker {amqp_port}\n", *DEPTH)
    read = tomllib.loads((tmp_path / "broker.toml").read_text())

    assert (0, ["./mybroker", "{amqp_port}"]) == (done.returncode, read["start"]["command"]), done.stderr
    assert (
        "it takes no port: write {amqp_port}, {stomp_port}, {amqp091_port}, {mqtt_port} or {mqtt311_port} where it does"
        in done.stdout + done.stderr
    )


@pytest.mark.process
def test_a_depth_may_come_from_a_command(asked, tmp_path):
    done = asked("./mybroker {amqp_port}\n\n./depth --of {queue}\n")
    depth = tomllib.loads((tmp_path / "broker.toml").read_text())["depth"]

    assert 0 == done.returncode, done.stderr
    assert {"method": "command", "command": ["./depth", "--of", "{queue}"], "pattern": r"(\d+)"} == depth


@pytest.mark.process
def test_without_a_depth_there_is_no_file(asked, tmp_path):
    """It was asked for without an end."""
    done = asked("./mybroker {amqp_port}\n\n\n")

    assert (4, True) == (done.returncode, "no depth: without it the suite cannot tell" in done.stderr), done.stderr
    assert not (tmp_path / "broker.toml").exists()


@pytest.mark.process
@pytest.mark.parametrize(("answer", "declared"), [("y", ["confirm_means_stored"]), ("n", None)])
def test_what_a_receipt_means_is_asked(asked, tmp_path, answer, declared):
    done = asked(f"./mybroker {{stomp_port}}\n{answer}\n", *DEPTH)
    read = tomllib.loads((tmp_path / "broker.toml").read_text())

    assert declared == read["protocols"]["stomp"].get("capabilities"), done.stderr
    assert (declared is None) == ("a loss there is INCONCLUSIVE" in done.stdout)


@pytest.mark.process
def test_a_terminal_is_asked_for_what_is_missing(asked, tmp_path):
    """In the order of the file; what was given is not asked for."""
    done = asked("./mybroker {amqp_port}\nhttp://127.0.0.1:{http_port}/{queue}\n", "--depth-field", "depth")
    read = tomllib.loads((tmp_path / "broker.toml").read_text())

    assert (0, ["./mybroker", "{amqp_port}"]) == (done.returncode, read["start"]["command"]), done.stderr
    assert "http://127.0.0.1:{http_port}/{queue}" == read["depth"]["url"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            (),
            "missing: COMMAND (Command line that starts the broker, with {amqp_port}, {stomp_port}, {amqp091_port}, {mqtt_port} or {mqtt311_port}); --depth-url ",
        ),
        (("--", "./mybroker"), "missing: --depth-url "),
        (
            (*DEPTH, "--", "./mybroker"),
            "no protocol: write {amqp_port}, {stomp_port}, {amqp091_port}, {mqtt_port} or {mqtt311_port} where the command line takes",
        ),
        (
            (*DEPTH, "--protocol", "amqp", "--", "./mybroker", "5672"),
            "the command line takes no {amqp_port}: the suite",
        ),
        (
            ("--", "./mybroker", "{amqp_port}"),
            "or --depth-command (Command that prints how many messages {queue} holds)",
        ),
        ((*DEPTH, "--", "./mybroker", "{amqp_port}", "{dta_dir}"), "'dta_dir': did you mean 'data_dir'?"),
        ((*DEPTH, "--protocol", "amqq", "--", "./mybroker"), "unknown protocol 'amqq': did you mean 'amqp'?"),
        ((*DEPTH, "--env", "HOME", "--", "./mybroker", "{amqp_port}"), "--env 'HOME': expected NAME=VALUE"),
        (("--out", "no/x.toml", *DEPTH, "--", "./mybroker", "{amqp_port}"), "no/x.toml: cannot be written: No such"),
        (("--out", "there.toml", *DEPTH, "--", "./mybroker", "{amqp_port}"), "there.toml: it exists"),
    ],
)
def test_words_that_make_no_file(typed, tmp_path, words, line):
    """One line, and nothing is written."""
    (tmp_path / "there.toml").write_text("mine")
    done = typed("init", "broker", *words)

    assert (4, 1, True) == (done.returncode, done.stderr.count("\n"), line in done.stderr), done.stderr
    assert ["mine"] == [path.read_text() for path in tmp_path.glob("*.toml")]
