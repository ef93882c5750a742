"""Liars whose defect has a size: wrong within it, and honest beyond it. Time is a number that the test sets."""

from __future__ import annotations

import pytest

from conformance.reference.liars import behaviour

from .queue_rig import Rig

WINDOWS = (3, 10, 100)
WHOLE = [1, 2, 3, 4, 5]


class Timed(Rig):
    """A rig in which what is postponed happens when its milliseconds are over."""

    ms = 0.0

    def disk(self):
        while self.commit.has_waiting:
            self.store(self.commit.take())
        self.postponed += [(self.ms + seconds * 1000, call) for seconds, call in self.commit.postponed()]

    def wait_until(self, ms):
        self.ms = ms
        for due, call in [each for each in self.postponed if each[0] <= ms]:
            self.postponed.remove((due, call))
            call()
        self.disk()

    def left(self):
        """What a kill leaves for an honest broker."""
        return [body[0] for _, body, _ in self.on_disk()]


def timed(name):
    return Timed(behaviour=behaviour(name))


def committed(rig, sends=5):
    transaction = rig.broker.begin()
    for body in range(1, sends + 1):
        rig.send(bytes([body]), transaction)
    rig.commits(transaction)
    rig.disk()
    return rig


@pytest.mark.parametrize("window", WINDOWS)
def test_a_confirmed_message_is_lost_within_the_window_only(window):
    rig = timed(f"confirms-{window}-ms-before-storing")
    rig.send(b"\1")
    rig.disk()
    seen = [rig.left()]
    for ms in (window - 0.5, window):
        rig.wait_until(ms)
        seen.append(rig.left())

    assert (rig.answers, seen) == (["done"], [[], [], [1]])


@pytest.mark.parametrize("window", WINDOWS)
def test_a_commit_is_lost_within_the_window_only(window):
    rig = committed(timed(f"commits-{window}-ms-before-storing"))
    answered, seen = rig.answers[-1], [rig.left()]
    for ms in (window - 0.5, window):
        rig.wait_until(ms)
        seen.append(rig.left())

    assert (answered, seen) == ("done", [[], [], WHOLE])


@pytest.mark.parametrize("window", WINDOWS)
def test_an_acknowledged_message_is_back_within_the_window_only(window):
    rig = timed(f"acknowledges-{window}-ms-before-storing")
    rig.send(b"\1")
    rig.disk()
    link, _ = rig.link()
    rig.settle(link, 1)
    rig.disk()
    seen = [rig.left()]
    for ms in (window - 0.5, window):
        rig.wait_until(ms)
        seen.append(rig.left())

    assert seen == [[1], [1], []]


@pytest.mark.parametrize("window", WINDOWS)
def test_half_a_commit_is_there_between_its_halves_only(window):
    """It is answered when all of it is stored."""
    rig = committed(timed(f"commits-in-two-halves-{window}-ms-apart"))
    seen = [(rig.left(), rig.answers[-1])]
    for ms in (window - 0.5, window):
        rig.wait_until(ms)
        seen.append((rig.left(), rig.answers[-1]))

    assert seen == [([1, 2, 3], None), ([1, 2, 3], None), (WHOLE, "done")]


@pytest.mark.parametrize(
    ("name", "sends", "left"),
    [(None, 5, WHOLE), ("commits-in-two-halves-3-ms-apart", 1, [1]), ("commits-in-two-halves-3-ms-apart", 2, [1])],
)
def test_a_commit_of_one_record_is_whole(name, sends, left):
    """The honest broker has no moment with a half; nor has the liar, if there is only one message."""
    rig = committed(timed(name), sends)

    assert (rig.left(), rig.answers[-1]) == (left, "done" if sends != 2 else None)


def test_an_orderly_stop_stores_both_halves():
    rig = committed(timed("commits-in-two-halves-100-ms-apart"))
    rig.store(rig.commit.take_last())

    assert (rig.left(), rig.answers[-1], rig.syncs[-1]) == (WHOLE, "done", True)


def test_a_disk_without_room_refuses_the_whole_commit():
    """As the honest broker does: nothing of it is stored, now or later."""
    rig = timed("commits-in-two-halves-3-ms-apart")
    transaction = rig.broker.begin()
    for body in WHOLE:
        rig.send(bytes([body]), transaction)
    rig.commits(transaction)
    rig.no_room()
    rig.wait_until(3)

    assert (rig.left(), rig.answers[-1], rig.postponed) == ([], "amqp:resource-limit-exceeded", [])


def stored(count, name=None):
    rig = Rig(behaviour=behaviour(name))
    for number in range(1, count + 1):
        rig.send(b"%d" % number)
    rig.disk()
    return rig


@pytest.mark.parametrize("one_in", [10, 100])
def test_the_share_of_kills_that_lose_messages(one_in):
    """A draw for each journal: over 2,000 of them the share is that of the name, give or take four deviations."""
    liar = behaviour(f"loses-at-one-in-{one_in}-kills")
    lost = sum(not liar.recovers(9, 10, crash) for crash in range(1, 2001))
    share, spread = 2000 / one_in, (2000 / one_in) ** 0.5

    assert share - 4 * spread < lost < share + 4 * spread
    assert all(liar.recovers(place, 10, crash) for place in range(5) for crash in range(1, 2001))


def test_a_start_after_a_kill_draws_once_and_loses_the_newer_half():
    """Every start on the same data draws the same; what is lost stays lost after an orderly stop."""
    name = "loses-at-one-in-3-kills"
    older = {count: [b"%d" % number for number in range(1, count // 2 + 1)] for count in range(10, 40)}
    lost, kept = [], []
    for count, half in older.items():
        rig = stored(count, name)
        first, second = rig.again(), rig.again()
        assert first.bodies() == second.bodies()
        (lost if first.bodies() == half else kept).append(count)
        found = first.bodies()
        first.store(first.commit.take_last())
        assert first.again().bodies() == found
        assert len(found) in (count, count // 2)

    assert lost
    assert kept


@pytest.mark.parametrize(("name", "left"), [(None, 10), ("loses-at-one-in-1-kills", 5)])
def test_only_a_kill_loses_messages(name, left):
    rig = stored(10, name)
    killed = len(rig.again().bodies())
    rig.store(rig.commit.take_last())

    assert (killed, len(rig.again().bodies())) == (left, 10)
