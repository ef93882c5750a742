"""Receive and acknowledge with a simulated JMS client: which calls are made, and when."""

# ruff: noqa: N802 - JMS calls them so

import threading
import types

import pytest

from conformance.errors import ClientError
from conformance.protocols.jms.sessions.jvm import Calls
from conformance.protocols.jms.sessions.liars import LIARS
from conformance.protocols.jms.sessions.receiving import JmsReceiver
from conformance.protocols.jms.sessions.session import JmsSession

PATIENCE = 10
JPYPE = types.SimpleNamespace(JException=ArithmeticError)


class Message:
    """One of JMS without bytes; its session remembers what was acknowledged."""

    def __init__(self, number, session):
        self.number, self.session = number, session

    def getJMSCorrelationID(self):
        return f"p1:{self.number}"

    def getJMSRedelivered(self):
        return False

    def getIntProperty(self, name):
        return 1

    def getDeliveryTag(self):
        return self.number

    def acknowledge(self):
        self.session.said.append(("message", self.number))

    def acknowledgeThisMessage(self):
        self.session.said.append(("this message", self.number))


class Session:
    """Records its calls; as a consumer, it has the messages that are left."""

    def __init__(self, count):
        self.said = []
        self.left = [Message(number, self) for number in range(1, count + 1)]

    def receive(self, within_ms):
        return self.left.pop(0) if self.left else None

    def acknowledge(self):
        self.said.append(("session", None))

    def acknowledgeMessage(self, tag, multiple):
        self.said.append((tag, multiple))


@pytest.fixture
def calls():
    found = Calls("calls of a test")
    yield found
    found.end(PATIENCE)


def fails(error, what):
    raise AssertionError(what) from error


def receiving(calls, mode, *, liar="", on_session=False, count=30):
    """A consumer with `receive()`, and its session."""
    session = Session(count)
    kind = LIARS.get(liar, JmsSession).receiver
    return kind(session, mode, calls, JPYPE, fails, session if on_session else None), session


def take(calls, found):
    """The next message, as the application gets it."""
    assert found.wants()
    found.fetch()
    return calls.reports.get(timeout=PATIENCE)


def test_the_session_acknowledges_where_it_is_asked_to(calls):
    """Once for all messages, by its own call and not by that of a message."""
    by_session, session = receiving(calls, "client", on_session=True)
    by_message, other = receiving(calls, "client")
    for found in (by_session, by_message):
        found.acknowledge([take(calls, found), take(calls, found)], confirmed=False)

    assert [("session", None)] == session.said
    assert [("message", 2)] == other.said


def test_each_message_acknowledges_itself_by_the_method_of_the_client(calls):
    session = Session(3)
    found = JmsReceiver(session, "individual", calls, JPYPE, fails, None, "acknowledgeThisMessage")
    found.acknowledge([take(calls, found), take(calls, found)], confirmed=False)

    assert [("this message", 1), ("this message", 2)] == session.said


def test_a_client_that_acknowledges_by_itself_is_not_called(calls):
    found, session = receiving(calls, "pre")
    found.acknowledge([take(calls, found)], confirmed=False)

    assert [] == session.said


def test_a_session_that_sets_the_flag(calls):
    """Each tenth acknowledgement covers all messages before it."""
    found, session = receiving(calls, "auto", liar="sets-the-multiple-flag", on_session=True)
    for _ in range(25):
        found.acknowledge([take(calls, found)], confirmed=False)

    assert [(10, True), (20, True)] == session.said


def test_a_session_that_acknowledges_on_arrival_keeps_one_back(calls):
    """From the first message on, receive() of an AUTO session has acknowledged one more than was delivered."""
    found, session = receiving(calls, "auto", liar="acknowledges-on-arrival", count=5)

    assert ["p1:1", "p1:2"] == [take(calls, found).message for _ in range(2)]
    assert [4, 5] == [message.number for message in session.left]


class Listener:
    """The client's side: its thread calls the listener, one message after the other."""

    def __init__(self, calls, mode, liar="", count=3):
        self.found = LIARS.get(liar, JmsSession).listener(None, mode, calls, JPYPE, fails)
        self.ends = []
        session = Session(count)
        self.thread = threading.Thread(target=self._deliver, args=(session.left,), daemon=True)
        self.thread.start()

    def _deliver(self, messages):
        for message in messages:
            try:
                self.found.onMessage(message)
            except ClientError:
                self.ends.append("threw")
            else:
                self.ends.append("returned")

    def ended(self):
        self.thread.join(PATIENCE)
        return self.ends


def test_a_listener_under_pre_returns_when_the_next_one_is_wanted(calls):
    """Its message was acknowledged before; the processing ends when the application asks for the next one."""
    listener = Listener(calls, "pre")
    found = listener.found
    got = []
    for number in range(3):
        got.append(calls.reports.get(timeout=PATIENCE))
        found.acknowledge(got[-1:], confirmed=False)
        assert number == len(listener.ends)
        assert found.wants()
        assert not found.wants()  # once: the next one must not return by itself
        found.fetch()

    assert ["p1:1", "p1:2", "p1:3"] == [each.message for each in got]
    assert ["returned"] * 3 == listener.ended()


def test_a_listener_under_pre_throws_when_the_application_ends(calls):
    listener = Listener(calls, "pre", count=1)
    listener.found.acknowledge([calls.reports.get(timeout=PATIENCE)], confirmed=False)
    listener.found.stop()

    assert ["threw"] == listener.ended()


@pytest.mark.parametrize(("mode", "liar"), [("auto", ""), ("pre", "acknowledges-after-processing")])
def test_a_listener_that_acknowledges_returns_when_it_was_processed(calls, mode, liar):
    """The next one need not be asked for; a wrong PRE session behaves like an AUTO session."""
    listener = Listener(calls, mode, liar, count=2)
    for _ in range(2):
        received = calls.reports.get(timeout=PATIENCE)
        assert not listener.found.wants()
        listener.found.acknowledge([received], confirmed=False)

    assert ["returned"] * 2 == listener.ended()


def test_a_session_receives_from_its_consumers_in_turn(calls):
    """One acknowledge() covers what it got of both."""
    found, session = receiving(calls, "client", count=2)
    found.add(Session(2))
    came = [take(calls, found) for _ in range(4)]
    found.acknowledge(came, confirmed=False)

    assert [0, 0, 1, 1] == sorted(received.receiver for received in came)
    assert ["1", "2", "3", "4"] == [received.delivery for received in came]
    assert 1 == len(session.said) + sum(len(other.said) for other in found._consumers[1:])
