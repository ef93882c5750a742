"""`reproduce.py` for every script of the suite: it is right, or it is not written and the bundle says why."""

import ast
import dataclasses
import re
import subprocess
import sys

import pytest
from reproductions import SCENARIOS, judged, written

from conformance.followup.bundle import script
from conformance.scenario import Scenario
from conformance.scenario.script import (
    SETTLE,
    Consume,
    ConsumerCrash,
    Cut,
    DiskFull,
    Frame,
    HeldSync,
    HoldLink,
    Kill,
    Nth,
    PowerLoss,
    Publish,
    Recovery,
    Restart,
    Together,
)

ALLOWED = {
    *("argparse", "ctypes", "fcntl", "json", "os", "re", "select", "shlex", "signal", "socket", "struct", "subprocess"),
    *("sys", "threading", "time", "uuid"),
}
LIBRARIES = {"amqp": {"proton"}, "amqp091": {"decimal", "pika"}, "stomp": set(), "mqtt": set(), "mqtt311": set()}


@pytest.mark.parametrize("protocol", LIBRARIES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario(name, protocol):
    """Python that imports nothing of this project, or a reason; what it does not decide is named."""
    made = written(SCENARIOS[name], protocol)

    assert made.text or made.missing
    if made.text:
        tree = ast.parse(made.text)
        found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        found |= {node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert found <= ALLOWED | LIBRARIES[protocol]
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert found - LIBRARIES[protocol] <= used
    for anomaly in set(judged(SCENARIOS[name])) - set(script.ANOMALIES):
        assert f"it does not decide `{anomaly}`" in made.missing


def test_the_numbers_are_those_of_the_trial():
    """Drawn from its seed: k is in the script as it was recorded."""
    item = SCENARIOS["broker-killed-while-publishing"]
    triggers = [step.until.at for step in item.drawn(5).steps if isinstance(step, Publish) and step.until]
    when = [f"confirm={at.k}" if isinstance(at, Nth) else f"ms={at.parts[0].ms}, confirm=1" for at in triggers]

    assert {"confirm", "ms"} == {each.partition("=")[0] for each in when}
    for each in when:
        assert f"fault = Fault(lambda: broker.signal(signal.SIGKILL), {each})" in written(item).text


def test_a_paced_publisher_without_a_fault_sends_one_by_one():
    """What is stored before the kill has to be there; how many of its sends are unanswered does not matter."""
    text = written(SCENARIOS["broker-killed-while-publishing"]).text

    assert 1 == text.count("count=80, window=1, size=256, every_ms=7.5)")


def test_a_kill_comes_as_late_as_in_the_trial():
    """Its delay is drawn from the seed too."""
    item = SCENARIOS["broker-killed-during-commit"]
    fault = item.drawn(5).steps[0].until
    late = f"time.sleep({fault.delay_percent / 100} * sorted(fault.answers)[len(fault.answers) // 2])"

    assert 0 < fault.delay_percent <= 200
    assert f"lambda: ({late}, broker.signal(signal.SIGKILL)), commit_written={fault.at.k}" in written(item).text


def test_what_it_cannot_do_is_not_written():
    """No script rather than a wrong one."""
    made = written(SCENARIOS["deliveries-refused"])

    assert "" == made.text
    assert any("nothing that was judged here" in each for each in made.missing), made.missing


@pytest.mark.parametrize(
    "step",
    [
        Consume("transacted", acknowledge=5, until=ConsumerCrash(Nth("before_commit", 2))),
        Consume("individual", refuse=("released",), refuse_every=3),
        Consume("individual", until=ConsumerCrash(Nth("ack_written", 2))),
        Publish(9, window=5, every_ms=10, until=Kill(Nth("confirm", 2))),
        Publish(9, window=5, unasked_every=2),
        Publish(9, window=5, batch=3, peek=True),
        Publish(9, window=5, batch=3, durable=False),
        Publish(9, window=5, until=ConsumerCrash(Nth("committed", 2))),
        Publish(9, window=5, until=Cut(Frame("send", 2), how="half_open")),
        Publish(9, window=5, until=HoldLink(Frame("send", 2))),
        Publish(9, window=5, size=5000, until=Cut(Frame("send", 2))),
        Restart(until=Kill(Nth("confirm", 2))),
        Together((Consume("individual", stop=5), Publish(9, window=5))),
        Restart(beside=(Publish(9, window=5),)),
        Publish(9, window=5, size=0),
        (Restart(under=DiskFull(2)), Publish(9, window=5, batch=3)),
        (Restart(under=DiskFull(2)), Restart(under=DiskFull(2))),
        (Restart(under=DiskFull(2)), Restart(until=Kill(Recovery(2)))),
        (Publish(9, window=5, until=PowerLoss(Nth("confirm", 2))), Restart(until=Kill(Recovery(2)))),
    ],
)
def test_steps_without_words(step):
    """Each alone is enough to write nothing."""
    steps = step if isinstance(step, tuple) else (step,)
    made = written(Scenario("s", "", "", steps, {}), anomalies=["lost"])

    assert ("", True) == (made.text, bool(made.missing))


def test_torn_writes_are_named():
    """It loses everything that was not synced, which is more than the trial did."""
    assert any("tears no writes" in each for each in written(SCENARIOS["power-lost-with-torn-writes"]).missing)


def test_the_headers_of_the_broker_are_in_the_script():
    """Artemis routes by a header, and counts its prefetch in bytes."""
    text = written(SCENARIOS["consumer-killed-under-individual"], "stomp", "artemis").text

    assert "SEND = {'destination-type': 'ANYCAST'}" in text
    assert "'consumer-window-size': '{prefetch_bytes}'" in text


def test_sends_that_are_answered_at_the_commit_are_not_waited_for_before_it():
    """As the client of the trial does where the adapter says so; elsewhere each is waited for."""
    item = SCENARIOS["broker-killed-after-commit"]
    at_commit, at_once = (written(item, "stomp", name).text for name in ("rabbitmq", "artemis"))

    waits = [
        'answered([receipts[0], client.ask("BEGIN", after)])',
        "answered([receipt] if back else [receipt, *receipts])",
    ]
    assert waits == [
        line.split("  #")[0].strip() for line in at_commit.splitlines() if line.strip().startswith("answered(")
    ]
    assert ["answered(receipts)", "answered([receipt])"] == [
        line.strip() for line in at_once.splitlines() if line.strip().startswith("answered(")
    ]


@pytest.mark.process
def test_power_needs_root_and_says_what_to_type(tmp_path):
    """Called without a disk of its own it prints the commands, and tries nothing."""
    made = written(SCENARIOS["power-lost-while-publishing"], "stomp")
    (tmp_path / "reproduce.py").write_text(made.text)
    done = subprocess.run(
        [sys.executable, tmp_path / "reproduce.py", "--start", "x"], capture_output=True, text=True, check=False
    )

    assert (True, 2) == (made.root, done.returncode)
    assert "mkfs.ext4" in done.stdout
    assert "FS_IOC_SHUTDOWN" in done.stdout
    assert "Fault(broker.cut_power, dark=True, confirm=" in made.text  # answers read later are unknown


def test_held_syncs_name_the_tracer():
    """The command that holds every sync of the journal for as long as the trial did."""
    steps = (Publish(2, window=1), Restart(clean=True, under=HeldSync(0.3)), Publish(4, window=1), Restart(clean=True))
    text = written(Scenario("s", "", "", steps, {}), anomalies=["confirmed_before_sync"]).text

    assert re.search(r'"inject=\?fdatasync,\?fsync,.*:delay_enter=300000"\]', text)
    assert 1 == text.count("hold=0.3)")
    assert re.search(r"publish\(.*count=2, window=1, size=256\)\n *broker.restart\(clean=True, before=hurt_disk", text)


@pytest.mark.parametrize("protocol", sorted(LIBRARIES.keys() - {"mqtt311"}))
def test_messages_are_those_of_the_trial(reproduce, protocol):
    """Their time to live and properties too: a broker that ends a life of 49 days at once is seen by them alone."""
    said = Publish(40, window=10, lives_ms=49 * 86_400_000, headers=True)
    item = dataclasses.replace(SCENARIOS["broker-killed-while-publishing"], steps=(said, *SETTLE))
    text = written(item, protocol, anomalies=["lost"]).text
    lied, honest = reproduce(text, protocol, ["--liar", "ends-long-lives-at-once"], [])

    assert "lives_ms=4233600000, properties={'text': 'zwölf \U0001d11e', 'empty': '', 'signs': " in text
    assert (1, True) == (lied.returncode, "LOST 40 of 40" in lied.stdout), lied.stdout + lied.stderr
    assert 0 == honest.returncode, honest.stdout + honest.stderr


def test_a_client_that_gets_nothing_does_not_accuse(reproduce):
    """A message is seen through the broker first: one that takes and never gives back cannot be tried."""
    text = written(SCENARIOS["broker-killed-while-publishing"], "stomp").text
    blind = text.replace('headers.get("reproduce-id", "")', '""')
    (done,) = reproduce(blind, "stomp", [])

    assert blind != text
    assert (2, True) == (done.returncode, "did not come back" in done.stdout), done.stdout


def test_a_fault_that_does_not_fire_is_no_answer(reproduce):
    """Too few confirms for the kill: 2, never 0."""
    text = written(SCENARIOS["broker-killed-while-publishing"], "stomp").text.replace("count=50000", "count=20")
    (done,) = reproduce(text, "stomp", [])

    assert (2, True) == (done.returncode, "the fault did not fire" in done.stdout), done.stdout
