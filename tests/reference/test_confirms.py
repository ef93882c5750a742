"""When stored sends are confirmed: a third of the window, a second, or at once (shared seed 001)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.reference.core.confirms import Confirms
from conformance.reference.liars import behaviour


class Publisher:
    """Keeps the confirms that left, and calls the timers by hand."""

    def __init__(self, window: int, *, ranged: bool) -> None:
        self.left: list[list[int]] = []
        self.timers: list[Callable[[], None]] = []
        self.confirms: Confirms[int] = Confirms(window, self.left.append, self._later, ranged=ranged)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        assert seconds == 1
        self.timers.append(call)

    def second(self) -> None:
        """A second is over."""
        due, self.timers = self.timers, []
        for call in due:
            call()

    def send(self, *keys: int, immediate: bool = False) -> None:
        """These arrive, and are stored at once."""
        for key in keys:
            self.confirms.arrived(key, immediate=immediate)
        for key in keys:
            self.confirms.stored(key)


@pytest.fixture(params=[True, False], ids=["ranged", "each"])
def publisher(request):
    return Publisher(9, ranged=request.param)


def test_a_third_of_the_window(publisher):
    """Two of a window of nine wait; the third takes them along, in one confirm."""
    publisher.send(1, 2)
    assert publisher.left == []
    publisher.send(3)

    assert publisher.left == [[1, 2, 3]]


@pytest.mark.parametrize(("window", "share"), [(1, 1), (2, 1), (3, 1), (4, 2), (9, 3), (10, 4), (50, 17)])
def test_the_third_is_rounded_up(window, share):
    publisher = Publisher(window, ranged=True)
    publisher.send(*range(1, share))
    before = list(publisher.left)
    publisher.send(share)

    assert (before, publisher.left) == ([], [list(range(1, share + 1))])


def test_a_second(publisher):
    """Below the third, the second that began with the first of them."""
    publisher.send(1)
    publisher.send(2)
    assert len(publisher.timers) == 1
    publisher.second()

    assert (publisher.left, publisher.timers) == ([[1, 2]], [])


def test_no_timer_while_nothing_waits(publisher):
    """The timer that is under way when the third leaves finds what came since, and no other is begun."""
    publisher.send(1, 2, 3)
    publisher.send(4)
    assert len(publisher.timers) == 1
    publisher.second()

    assert (publisher.left, publisher.timers) == ([[1, 2, 3], [4]], [])


def test_what_is_stored_after_its_second(publisher):
    """It leaves as soon as it is stored, not with the next second."""
    publisher.confirms.arrived(1)
    publisher.second()
    assert publisher.left == []
    publisher.confirms.stored(1)

    assert publisher.left == [[1]]


def test_the_next_second_is_a_new_one(publisher):
    """One slow send does not make all that follow urgent."""
    publisher.confirms.arrived(1)
    publisher.second()
    publisher.confirms.stored(1)
    publisher.second()
    publisher.send(2)

    assert publisher.left == [[1]]


def test_immediate_each():
    """Without ranges it says nothing of the others."""
    publisher = Publisher(9, ranged=False)
    publisher.send(1)
    publisher.send(2, immediate=True)

    assert publisher.left == [[2]]


def test_immediate_in_a_range():
    """A range that ends with it takes those before it along."""
    publisher = Publisher(9, ranged=True)
    publisher.send(1)
    publisher.send(2, immediate=True)

    assert publisher.left == [[1, 2]]


def test_two_immediate_ones_have_two_confirms(publisher):
    publisher.send(1, 2, immediate=True)

    assert publisher.left == [[1], [2]]


def test_no_range_covers_what_is_not_stored():
    """2 is stored and urgent, 1 is not: nothing leaves before 1 is stored, and then 2 has a confirm of its own."""
    publisher = Publisher(9, ranged=True)
    publisher.confirms.arrived(1, immediate=True)
    publisher.confirms.arrived(2, immediate=True)
    publisher.confirms.stored(2)
    assert publisher.left == []
    publisher.confirms.stored(1)

    assert publisher.left == [[1], [2]]


def test_a_refusal_splits_the_range(publisher):
    """What is stored before it is confirmed, it is never, and what comes behind goes on."""
    publisher.send(1)
    publisher.confirms.arrived(2)
    publisher.confirms.arrived(3)
    publisher.confirms.refused(2)
    publisher.confirms.stored(3)
    publisher.send(4, 5)

    assert publisher.left == [[1], [3, 4, 5]]


def test_a_refusal_frees_what_waited_for_it():
    """2 is stored and urgent, and 1, which held it back, is refused."""
    publisher = Publisher(9, ranged=True)
    publisher.confirms.arrived(1)
    publisher.confirms.arrived(2, immediate=True)
    publisher.confirms.stored(2)
    publisher.confirms.refused(1)

    assert publisher.left == [[2]]


def test_unanswered_is_what_fills_the_window(publisher):
    publisher.confirms.arrived(1)
    publisher.confirms.arrived(2)
    publisher.confirms.arrived(3)
    publisher.confirms.refused(1)
    publisher.confirms.stored(2)
    before = publisher.confirms.unanswered
    publisher.second()

    assert (before, publisher.confirms.unanswered) == (2, 1)


@given(
    st.lists(st.sampled_from(["arrive", "urge", "store", "refuse", "second"]), max_size=60), st.booleans(), st.data()
)
def test_each_has_one_answer_and_no_range_lies(steps, ranged, data):
    """In any order of events: no message is confirmed before it is stored or twice, and no range early."""
    publisher = Publisher(data.draw(st.integers(1, 12)), ranged=ranged)
    waiting: list[int] = []
    stored: set[int] = set()
    refused: set[int] = set()
    number = seen = 0
    confirmed: list[int] = []
    for step in steps:
        if step in ("arrive", "urge"):
            number += 1
            waiting.append(number)
            publisher.confirms.arrived(number, immediate=step == "urge")
        elif step == "second":
            publisher.second()
        elif waiting:
            key = data.draw(st.sampled_from(waiting))
            waiting.remove(key)
            (stored if step == "store" else refused).add(key)
            (publisher.confirms.stored if step == "store" else publisher.confirms.refused)(key)
        for keys in publisher.left[seen:]:
            confirmed += keys
            assert keys == sorted(keys)
            assert not ranged or all(key not in waiting for key in range(1, keys[-1]))
        seen = len(publisher.left)
    for key in waiting:
        publisher.confirms.stored(key)
    publisher.second()
    publisher.second()

    assert sorted(confirmed + [key for keys in publisher.left[seen:] for key in keys]) == sorted(
        set(range(1, number + 1)) - refused
    )
    assert publisher.confirms.unanswered == 0


def test_a_liar_takes_a_setting_for_its_threshold():
    """The word is taken off what the broker judges, and one stored send makes a confirm due."""
    liar = behaviour("takes-a-threshold-setting")
    words = liar.known_settings(["persistence=false", "publish_threshold=1"])
    left: list[list[int]] = []
    confirms = Confirms(9, left.append, lambda *_: None, ranged=True, behaviour=liar)
    confirms.arrived(1)
    confirms.stored(1)

    assert (words, left) == (["persistence=false"], [[1]])
    assert behaviour(None).known_settings(["publish_threshold=1"]) == ["publish_threshold=1"]
