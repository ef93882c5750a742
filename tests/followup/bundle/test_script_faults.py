"""`reproduce.py` with every kind of fault, also at the link and the disk: it sees what is wrong, and nothing else."""

import argparse
import dataclasses
import re
import signal
import sys

import pytest
from reproductions import SCENARIOS, names_of, written

from conformance import adapters
from conformance.faults.disk import injection
from conformance.faults.disk.access import JournalAccess
from conformance.scenario import Scenario
from conformance.scenario.script import Cut, DiskFull, Drain, FailedSync, Frame, HeldSync, Publish, Restart

UNSYNCED = ["--set", "sync_non_transactional=false", "--set", "sync_transactional=false"]
SLOWED = "nice -n 19 "
"""A recovery takes some 20 ms: beside others' work the script has to be the one of the two that gets the processor."""

SLOWLY = [*UNSYNCED, "--set", "journal_buffer_ms=500"]


def replaced(pattern, by, rounds=1):
    """A change of the script that keeps its fault from firing, in each of its rounds."""

    def change(text):
        changed, count = re.subn(pattern, by, text)
        assert rounds == count
        return changed

    return change


CASES = {
    "consumer-killed-under-individual amqp": (["--liar", "removes-when-sending"], r"GONE \d\d+ of", None, ""),
    "consumer-killed-under-individual amqp091": (["--liar", "removes-when-sending"], r"GONE \d\d+ of", None, ""),
    "broker-killed-during-commit amqp091": (["--liar", "recovers-half-a-transaction"], r"HALF \d+ of", None, ""),
    "broker-halted-then-killed amqp091": (
        SLOWLY,
        r"LOST \d+ of \d+ confirmed",
        replaced(r"count=50000", "count=20"),
        "the fault did not fire: {'confirm': 20",
    ),
    "consumer-killed-under-individual mqtt": (["--liar", "removes-when-sending"], r"GONE \d\d+ of", None, ""),
    "session-of-a-month mqtt": (["--liar", "ends-sessions-of-a-month"], r"GONE \d+ of", None, ""),
    "broker-stopped-while-publishing mqtt311": (["--set", "persistence=false"], r"LOST \d\d+ of", None, ""),
    "broker-halted-then-killed mqtt": (
        SLOWLY,
        r"LOST \d+ of \d+ confirmed",
        replaced(r"count=50000", "count=20"),
        "the fault did not fire: {'confirm': 20",
    ),
    "publisher-killed-in-transaction amqp": (
        ["--liar", "commits-when-link-closes"],
        r"UNCOMMITTED \d+ of 40",
        None,
        "",
    ),
    "broker-killed-during-commit stomp": (["--liar", "recovers-half-a-transaction"], r"HALF \d+ of", None, ""),
    "broker-stopped-while-publishing stomp": (["--set", "persistence=false"], r"LOST \d\d+ of", None, ""),
    "cut-in-transaction amqp": (
        ["--liar", "commits-when-link-closes"],
        r"UNCOMMITTED (1[2-9]|20) of 40 messages",
        replaced(r"'send', 4\d", "'send', 4000", rounds=4),
        "the fault did not fire: 300 of 4000 send frames",
    ),
    "cut-before-acknowledgement stomp": (["--liar", "removes-when-sending"], r"GONE \d\d+ of \d+ messages", None, ""),
    "broker-killed-in-recovery stomp": (
        SLOWLY,
        r"LOST \d+ of \d+ confirmed",
        replaced(r"kill_in_recovery\(words, broker, \d\)", "kill_in_recovery(words, broker, 40000)"),
        "the fault did not fire: the recovery was over at",
    ),
    "broker-halted-then-killed stomp": (
        SLOWLY,
        r"LOST \d+ of \d+ confirmed",
        replaced(r"count=50000", "count=20"),
        "the fault did not fire: {'confirm': 20",
    ),
    "sync-fails-while-publishing amqp": (
        ["--liar", "confirms-after-failed-sync"],
        r"UNSTORED (\d+) of \1 messages",
        replaced(r"when=\d+", "when=4000"),
        "the fault did not fire: the disk failed none of",
    ),
    "disk-full-while-publishing stomp": (
        ["--liar", "confirms-although-disk-full"],
        r"LOST \d+ of 400 confirmed",
        replaced(r"when=\d+", "when=4000"),
        "the fault did not fire: the disk failed none of",
    ),
    "sync-held-while-sending stomp": (
        UNSYNCED,
        r"EARLY 3 of 3 answers",
        replaced(r"FILES = \(.*\)", "FILES = ('another.log',)"),
        "no call on a file of the journal",
    ),
}
"""Scenario and protocol: the words of a broker that is wrong, what is seen of it, and the fault that does not fire."""


RACES = pytest.mark.full
"""A recovery of 20 ms, which a machine that is busy with other tests can give to the broker alone."""


@pytest.fixture(scope="module")
def tried(request, tries):
    """Each case that was asked for: the broker that is wrong, the honest one, and the fault that did not fire."""
    found = {}
    asked = {item.callspec.params.get("case") for item in request.session.items if hasattr(item, "callspec")}
    for case, (words, _, change, _) in CASES.items():
        if case not in asked:
            continue
        name, protocol = case.split()
        text, before = written(SCENARIOS[name], protocol).text, ""
        if "recovery" in name:
            text, before = replaced(r"confirm=\d+", "confirm=1500")(text), SLOWED
        found[case] = [tries(text, protocol, each, "0.5", before) for each in (words, [])]
        found[case] += [tries(change(text), protocol, [], "0.5", before)] if change else []
    return found


@pytest.mark.parametrize("case", [pytest.param(case, marks=RACES if "recovery" in case else ()) for case in CASES])
def test_it_sees_what_is_wrong_and_nothing_else(tried, case):
    """1 against a broker that is wrong in this way, 0 against the honest one, 2 where the fault met nothing."""
    if (reason := injection.cannot()) and ("sync" in case or "disk" in case):
        pytest.skip(reason)
    _, says, _, why = CASES[case]
    lied, honest, *idle = [future.result() for future in tried[case]]

    assert 1 == lied.returncode, lied.stdout + lied.stderr
    assert re.search(says, lied.stdout), lied.stdout
    assert 0 == honest.returncode, honest.stdout + honest.stderr
    assert re.search(r"no [A-Z]+ among [1-9]\d* ", honest.stdout), honest.stdout
    for done in idle:
        assert (2, True) == (done.returncode, "could not be tried: " in done.stdout and why in done.stdout), done


@pytest.mark.parametrize("fault", [HeldSync(0.25), FailedSync(7), DiskFull(9)])
def test_the_disk_fails_as_in_the_trial(fault):
    """The same calls, the same numbers, in the words of strace; the files are those of the broker's journal."""
    steps = (Restart(clean=True, under=fault), Publish(4, window=1), Restart(clean=True), Drain())
    made = written(Scenario("s", "", "", steps, {}), anomalies=["lost"])
    own = injection._injection(fault, JournalAccess(), narrowed=True)[1].partition("=")[2].split(":")
    injected = re.search(r'"inject=(.*)"\]', made.text)[1].split(":")

    assert (set(own[0].split(",")), own[1:]) == (set(injected[0].split(",")), injected[1:])
    assert "FILES = ('{n:08d}.journal',)" in made.text
    assert {"strace", "journal"} < made.needs
    assert "strace" in made.text.split('"""')[1]
    assert 1 == made.text.count("        prove_disk_hurt(notes)\n")


def test_a_broker_whose_journal_has_no_names():
    """Nothing can be confined to it, and nothing is guessed."""
    adapter = adapters.find("reference")
    nameless = adapter.file.model_copy(update={"journal": adapter.file.journal.model_copy(update={"files": ()})})
    item = SCENARIOS["disk-full-while-publishing"]
    made = written(item, adapter=dataclasses.replace(adapter, file=nameless), anomalies=["lost"])

    assert ("", True) == (made.text, "what the journal's files are called" in made.missing[0])


@pytest.mark.parametrize(("anomaly", "under"), [("confirmed_before_sync", DiskFull(9)), ("confirmed_though_sync_failed", HeldSync(0.2)), ("confirmed_before_sync", None)])  # fmt: skip
def test_a_sentence_that_this_disk_does_not_decide(anomaly, under):
    """Its words would mean nothing in the script."""
    steps = (Restart(clean=True, under=under), Publish(4, window=1), Restart(clean=True))

    assert "" == written(Scenario("s", "", "", steps, {}), anomalies=[anomaly]).text


@pytest.mark.process
def test_the_second_kill(tmp_path, python_path, started, monkeypatch):
    """The broker is killed before it answers; a recovery that is over by then is no answer.

    Eight thousand messages, because a recovery of 1,500 was over before a busy machine gave the script its turn.
    """
    names = names_of(SCENARIOS["broker-killed-in-recovery"])
    monkeypatch.chdir(tmp_path)
    for key, value in python_path.items():
        monkeypatch.setenv(key, value)
    ports, start = started(tmp_path, [])
    words = argparse.Namespace(address=f"127.0.0.1:{ports['stomp']}", start=SLOWED + start, pid=None, pid_file=None)
    words.ready, words.journal, words.queue, words.user = 30, str(tmp_path / "data"), "orders", None
    broker = names["Broker"](words)
    try:
        broker.start()
        names["publish"](words, names["Notes"](), count=8000, window=100, size=256)
        broker.signal(signal.SIGKILL)
        broker.wait_gone()
        names["kill_in_recovery"](words, broker, 2)
        ended = broker.process.returncode
        with pytest.raises(names["CannotTry"], match="the recovery was over at"):
            names["kill_in_recovery"](words, broker, 40_000)
        words.start = f"{sys.executable} -c pass"
        with pytest.raises(names["CannotTry"], match="ended by itself while it was starting"):
            names["kill_in_recovery"](words, broker, 40_000)
        words.journal = str(tmp_path / "nowhere")
        with pytest.raises(names["CannotTry"], match="nowhere cannot be watched: No such file"):
            names["kill_in_recovery"](words, broker, 2)
    finally:
        broker.end()

    assert -signal.SIGKILL == ended


END = "7 9.000000 +++ killed by SIGKILL +++\n"
WORKED = "7 1.000000 fdatasync(5) = 0 <0.500000>\n"
FAILED = "7 2.000000 fdatasync(5) = -1 EIO (Input/output error) (INJECTED) <0.100000>\n"
LATE = "8 3.200000 <... fdatasync resumed>) = 0 <0.100000>\n"
WROTE = '7 0.500000 write(5, ""..., 90) = 90 <0.000100>\n'


@pytest.mark.parametrize(
    ("trace", "sent", "confirmed", "wrong", "risk"),
    [
        ([WORKED, FAILED], 1.2, 2.5, 1, 1),  # sent while the last sync was at work: it may not cover it
        ([WORKED, FAILED], 0.9, 2.5, 0, 0),  # sent before it
        ([WORKED, FAILED], 1.2, 2.05, 0, 1),  # confirmed before the failure was returned
        ([WORKED, FAILED, LATE], 2.5, 3.5, 0, 0),  # another thread's sync began after it was sent
        ([WORKED, FAILED, LATE], 3.15, 3.5, 1, 1),  # that one had begun
        ([FAILED], 0.1, 2.5, 1, 1),
        ([WROTE, FAILED], 0.1, 2.5, 1, 1),  # a write that worked stores nothing
    ],
)
def test_what_no_sync_has_stored(tmp_path, monkeypatch, trace, sent, confirmed, wrong, risk):
    """Of one message, by the stamps of strace; a line that was resumed is stamped at its end."""
    names = names_of(SCENARIOS["sync-fails-while-publishing"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reproduce-strace.log").write_text("".join([*trace, END]))
    notes = names["Notes"]()
    notes.add("sent", 1)
    notes.add("confirmed", 1)
    notes.when = {("sent", 1): sent, ("confirmed", 1): confirmed}

    assert (wrong, risk) == tuple(map(len, names["unstored"](notes)))
    if risk:
        names["prove_disk_hurt"](notes)
    else:
        with pytest.raises(names["CannotTry"], match="nothing was sent after the last sync that worked"):
            names["prove_disk_hurt"](notes)


@pytest.mark.parametrize(
    ("trace", "why"),
    [
        ([FAILED], "strace ended before the broker"),
        ([END], "no call on a file of the journal"),
        ([WORKED, WROTE, END], "the disk failed none of 2 calls"),
        ([], "strace ended before the broker"),
    ],
)
def test_a_disk_that_was_not_hurt(tmp_path, monkeypatch, trace, why):
    """The trial has no answer, with any result of the client."""
    names = names_of(SCENARIOS["disk-full-while-publishing"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reproduce-strace.log").write_text("".join(trace))

    with pytest.raises(names["CannotTry"], match=why):
        names["prove_disk_hurt"](names["Notes"]())


def test_the_numbers_of_a_cut_are_those_of_the_trial():
    """Which frame, where in it, and how the connection ends."""
    steps = (Publish(90, window=5, until=Cut(Frame("answer", 17, at="middle"), how="fin")), Drain())
    text = written(Scenario("s", "", "", steps, {}), anomalies=["lost"]).text

    assert "fault = Cut(words, 'answer', 17, 'middle', 'fin')\n" in text
    assert "until_cut(fault, lambda: publish(fault.words, notes, count=90" in text
