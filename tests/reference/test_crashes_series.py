"""A series of crashes under load, and that it finds what is wrong: in the books, and in brokers that lie.

`CONFORMANCE_CRASHES=full` plays 200 SIGKILLs and 20 power losses.
"""

from __future__ import annotations

import os

import pytest
from blackbox.accounts import Accounts, Fact, Fault, What
from blackbox.load import body
from blackbox.series import CALM, Series

from conformance.faults.power import image

FULL = os.environ.get("CONFORMANCE_CRASHES") == "full"
KILLS, POWERS = (200, 20) if FULL else (10, 3)
SEED = 20_261_121
needs_power = pytest.mark.skipif(bool(image.cannot()), reason=image.cannot() or "it can")


def facts(*lines):
    """Facts one after the other: what, what is stored, what is removed, the transaction."""
    return [Fact(number, What[word.upper()], *rest) for number, (word, *rest) in enumerate(lines)]


def found(*lives, lost_ns=None):
    """The faults of lives, each with its facts and what the census after it finds."""
    accounts = Accounts()
    for lines, present in lives:
        accounts.epoch(facts(*lines), lost_ns)
        accounts.census(present, len(present))
    return [fault for fault, _ in accounts.faults]


SENT = [("send", ("a",)), ("sent", ("a",))]
REMOVED = [("delivered", ("a",)), ("ack", (), ("a",)), ("acked", (), ("a",))]
COMMIT = ("commit", ("b", "c"), ("a",), "t")
COMMITTED = ("committed", (), (), "t")


@pytest.mark.parametrize(
    ("lives", "faults"),
    [
        ([(SENT, ["a"])], []),
        ([(SENT, [])], [Fault.LOST]),
        ([(SENT, ["a"]), ([], [])], [Fault.LOST]),
        ([(SENT, ["a", "a"])], [Fault.TWICE]),
        ([(SENT[:1], ["a"])], []),
        ([(SENT[:1], [])], []),
        ([(SENT[:1], []), ([], ["a"])], [Fault.BACK]),
        ([(SENT[:1], ["a"]), ([], [])], [Fault.LOST]),
        ([(SENT + REMOVED, [])], []),
        ([(SENT + REMOVED, ["a"])], [Fault.BACK]),
        ([(SENT + REMOVED, []), (REMOVED[:1], [])], [Fault.BACK]),
        ([(SENT + REMOVED[:2], [])], []),
        ([(SENT + REMOVED[:2], ["a"])], []),
        ([(SENT + REMOVED[:1] * 2, ["a"])], [Fault.TWICE]),
        ([([*SENT, REMOVED[0], ("release", (), ("a",)), REMOVED[0]], ["a"])], []),
        ([(SENT, ["a", "x"])], [Fault.LEAKED]),
        ([([*SENT, ("delivered", ("x",))], ["a"])], [Fault.LEAKED]),
        ([([*SENT, COMMIT], ["a"])], []),
        ([([*SENT, COMMIT], ["b", "c"])], []),
        ([([*SENT, COMMIT], ["a", "b", "c"])], [Fault.HALF]),
        ([([*SENT, COMMIT], ["b"])], [Fault.HALF]),
        ([([*SENT, COMMIT], [])], [Fault.HALF]),
        ([([*SENT, COMMIT, ("delivered", ("b",)), ("ack", (), ("b",))], ["c"])], []),
        ([([*SENT, COMMIT, COMMITTED], ["b", "c"])], []),
        ([([*SENT, COMMIT, COMMITTED], ["a", "b"])], [Fault.BACK, Fault.LOST]),
    ],
)
def test_the_books(lives, faults):
    """Each rule by the shortest story that shows it."""
    assert found(*lives) == faults


def test_what_is_read_after_the_power_was_lost_confirms_nothing():
    """It was asked for before, so it may be there or not."""
    lives = [(SENT, [])]

    assert found(*lives, lost_ns=1) == []
    assert found(*lives, lost_ns=2) == [Fault.LOST]


def test_what_was_delivered_too_late_does_not_halve_a_transaction():
    """The power went between a commit and the delivery of what it had stored, whose removal was stored as well."""
    story = [*SENT, COMMIT, ("delivered", ("b",)), ("ack", (), ("b",))]

    assert found((story, ["c"]), lost_ns=3) == []
    assert found((story[:-1], ["c"]), lost_ns=3) == [Fault.HALF]


def test_the_broker_s_own_depth_is_compared():
    """A message that is counted and cannot be received."""
    accounts = Accounts()
    accounts.epoch(facts(*SENT))
    accounts.census(["a"], 2)

    assert [fault for fault, _ in accounts.faults] == [Fault.STUCK]


def test_every_body_is_another():
    """Swapped bodies are seen."""
    assert len({body(name) for name in ("1-ap-1", "1-ap-2", "1-sp-1")}) == 3


PUBLISHER = {What.SEND, What.SENT, What.COMMIT, What.COMMITTED}
CONSUMER = {What.DELIVERED, What.ACK, What.ACKED, What.COMMIT, What.COMMITTED}
DOES = {"ap": PUBLISHER, "sp": PUBLISHER, "ac": CONSUMER, "sc": CONSUMER}


def assert_played(series, crashes, *, every_kind=True):
    """All of it, with something owed and something in doubt, and each kind of client has done what it does."""
    counts = series.accounts.counts
    print(*series.lines(), sep="\n")

    assert series.accounts.faults == []
    assert series.done == crashes
    assert min(counts["owed"], counts["in doubt"]) > 0
    assert not every_kind or set(series.noted) >= {(kind, what) for kind, each in DOES.items() for what in each}


@pytest.mark.process
def test_kills_lose_nothing(tmp_path):
    """At random moments, with plain sends, acknowledgements and transactions of both protocols under way."""
    series = Series(tmp_path, KILLS, SEED)
    series.run()

    assert_played(series, KILLS)


@pytest.mark.process
@needs_power
def test_power_losses_lose_nothing(tmp_path):
    """The same on a disk that forgets what was not synced."""
    series = Series(tmp_path, POWERS, SEED, powers=True, calm=CALM if FULL else 0.0)
    series.run()

    assert_played(series, POWERS, every_kind=FULL)


@pytest.mark.process
@pytest.mark.parametrize(
    ("liar", "faults"),
    [
        ("confirms-before-storing", {Fault.LOST}),
        ("acknowledges-before-storing", {Fault.BACK}),
        ("recovers-half-a-transaction", {Fault.LOST}),
    ],
)
def test_kills_find_a_liar(tmp_path, liar, faults):
    """Within a few."""
    series = Series(tmp_path, 20, SEED, words=(f"--liar={liar}",), until_fault=True)

    assert {fault for fault, _ in series.run().faults} & faults


@pytest.mark.process
@needs_power
@pytest.mark.parametrize("liar", ["confirms-before-sync", "commits-before-sync"])
def test_power_losses_find_a_liar(tmp_path, liar):
    """One that no kill can find: what it had written is in the page cache, which outlives every process."""
    words = (f"--liar={liar}",)
    killed = Series(tmp_path / "killed", 2, SEED, words=words, calm=1.0)
    (tmp_path / "killed").mkdir()
    (tmp_path / "lost").mkdir()
    lost = Series(tmp_path / "lost", 30, SEED, powers=True, words=words, calm=1.0, until_fault=True)

    assert killed.run().faults == []
    assert Fault.LOST in {fault for fault, _ in lost.run().faults}
