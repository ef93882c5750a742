"""Calls in a thread of their own: in order, with what they find told to another thread."""

import queue
import threading

import pytest

from conformance.clients.jms.calls import Calls
from conformance.errors import ClientError

PATIENCE = 10


@pytest.fixture
def calls():
    found = Calls("calls of a test")
    yield found
    found.end(PATIENCE)


@pytest.fixture
def gate(calls):
    """A call that is under way until the gate is opened; it is opened at the end of a test in any case."""
    begun, opened = threading.Event(), threading.Event()

    def wait():
        begun.set()
        opened.wait(PATIENCE)

    calls.later(wait)
    assert begun.wait(PATIENCE)
    yield opened
    opened.set()


def nothing():
    pass


def test_calls_are_made_in_the_order_in_which_they_were_asked_for(calls):
    """One after the other, and all in one thread, which has the name that it was given."""
    made = []
    for number in range(100):
        calls.later(lambda number=number: made.append((number, threading.current_thread().name)))
    calls.now(nothing, PATIENCE, "the last")

    assert [(number, "calls of a test") for number in range(100)] == made


def test_who_asks_for_later_does_not_wait(calls, gate):
    """The call before it has not returned yet."""
    made = []
    calls.later(lambda: made.append(1))

    assert [] == made
    gate.set()
    calls.now(nothing, PATIENCE, "the last")
    assert [1] == made


def test_now_returns_what_the_call_returns(calls):
    """Which was made in the other thread."""
    assert threading.current_thread() is not calls.now(threading.current_thread, PATIENCE, "a thread")


def test_now_raises_what_the_call_raises(calls):
    """To who asked, and to nobody else; the next call is made all the same."""
    with pytest.raises(ZeroDivisionError):
        calls.now(lambda: 1 / 0, PATIENCE, "a quotient")

    assert 7 == calls.now(lambda: 7, PATIENCE, "a number")
    assert calls.reports.empty()


def test_now_raises_what_ends_a_process_as_well(calls):
    """The thread of calls lives on."""
    with pytest.raises(SystemExit):
        calls.now(lambda: exec("raise SystemExit"), PATIENCE, "an end")

    assert 7 == calls.now(lambda: 7, PATIENCE, "a number")


def test_a_call_that_does_not_return_is_an_error_that_names_it(calls, gate):
    """After the time that it was given."""
    with pytest.raises(ClientError, match=r"^a producer did not return within 0\.05 s$"):
        calls.now(nothing, 0.05, "a producer")


def test_an_exception_of_a_later_call_is_told(calls):
    """In its place among what others find, and the calls behind it are made."""
    calls.later(lambda: calls.reports.put("before"))
    calls.later(lambda: 1 / 0)
    calls.later(lambda: calls.reports.put("after"))
    told = [calls.reports.get(timeout=PATIENCE) for _ in range(3)]

    assert ["before", ZeroDivisionError, "after"] == [told[0], type(told[1]), told[2]]


def test_idle_is_who_has_nothing_waiting(calls, gate):
    """The call that is under way may go on then; with another behind it, it should not."""
    assert calls.idle
    calls.later(nothing)
    assert not calls.idle
    gate.set()
    calls.now(nothing, PATIENCE, "the last")
    assert calls.idle


def test_the_end_comes_behind_what_was_asked_for(calls):
    """And nothing is done that was asked for after it."""
    made = []
    calls.later(lambda: made.append("before"))

    assert calls.end(PATIENCE)
    calls.later(lambda: made.append("after"))
    assert calls.end(PATIENCE)
    assert ["before"] == made


def test_the_end_of_a_thread_whose_call_does_not_return(calls, gate):
    """It has not ended; and has, once the call returns."""
    assert not calls.end(0.05)
    gate.set()
    assert calls.end(PATIENCE)


def test_nothing_is_told_where_nothing_was_found(calls):
    """What a call returns is nobody's where it was asked for later."""
    calls.later(lambda: 7)
    calls.now(nothing, PATIENCE, "the last")

    with pytest.raises(queue.Empty):
        calls.reports.get_nowait()
