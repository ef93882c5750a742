"""Calls in one thread of their own: their order, their results, and the reports for another thread."""

import threading

import pytest

from conformance.errors import ClientError
from conformance.protocols.jms.sessions.jvm import Calls

PATIENCE = 10


@pytest.fixture
def calls():
    found = Calls("calls of a test")
    yield found
    found.end(PATIENCE)


@pytest.fixture
def gate(calls):
    """A call that is in progress until the gate is opened; the end of a test always opens it."""
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
    """One after the other, all in one thread with the given name."""
    made = []
    for number in range(100):
        calls.later(lambda number=number: made.append((number, threading.current_thread().name)))
    calls.now(nothing, PATIENCE, "the last")

    assert [(number, "calls of a test") for number in range(100)] == made


def test_later_does_not_wait(calls, gate):
    """The call before it is still in progress."""
    made = []
    calls.later(lambda: made.append(1))

    assert [] == made
    gate.set()
    calls.now(nothing, PATIENCE, "the last")
    assert [1] == made


def test_now_returns_what_the_call_returns(calls):
    """The call was made in the other thread."""
    assert threading.current_thread() is not calls.now(threading.current_thread, PATIENCE, "a thread")


@pytest.mark.parametrize(("raises", "error"), [("1 / 0", ZeroDivisionError), ("raise SystemExit", SystemExit)])
def test_now_raises_what_the_call_raises(calls, raises, error):
    """It raises in the caller only; the next call is made all the same."""
    with pytest.raises(error):
        calls.now(lambda: exec(raises), PATIENCE, "a result")

    assert 7 == calls.now(lambda: 7, PATIENCE, "a number")
    assert calls.reports.empty()


def test_a_call_that_does_not_return_is_an_error_that_names_it(calls, gate):
    """After its time limit."""
    with pytest.raises(ClientError, match=r"^a producer did not return within 0\.05 s$"):
        calls.now(nothing, 0.05, "a producer")


def test_an_exception_of_a_later_call_is_reported(calls):
    """In its place among the reports; a result is not, and the calls behind it are made."""
    calls.later(lambda: 7)
    calls.later(lambda: calls.reports.put("before"))
    calls.later(lambda: 1 / 0)
    calls.later(lambda: calls.reports.put("after"))
    found = [calls.reports.get(timeout=PATIENCE) for _ in range(3)]

    assert ["before", ZeroDivisionError, "after"] == [found[0], type(found[1]), found[2]]
    assert calls.reports.empty()


def test_idle_means_that_no_call_waits(calls, gate):
    """One call may be in progress."""
    assert calls.idle
    calls.later(nothing)
    assert not calls.idle
    gate.set()
    calls.now(nothing, PATIENCE, "the last")
    assert calls.idle


def test_the_end_comes_after_the_waiting_calls(calls):
    """Later calls are not made."""
    made = []
    calls.later(lambda: made.append("before"))

    assert calls.end(PATIENCE)
    calls.later(lambda: made.append("after"))
    assert calls.end(PATIENCE)
    assert ["before"] == made


def test_the_end_of_a_thread_whose_call_does_not_return(calls, gate):
    """It ends once the call returns."""
    assert not calls.end(0.05)
    gate.set()
    assert calls.end(PATIENCE)
