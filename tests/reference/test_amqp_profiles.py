"""What an AMQP peer may ask for under a profile: docs/reference/profiles.md."""

from __future__ import annotations

import pytest
from proton import Delivery

from conformance.reference.amqp.attach import is_urgent
from conformance.reference.honest import LAZY_S
from conformance.reference.liars import behaviour

from .amqp_rig import Rig, accept, closed


def stored(rig, link, *bodies, **annotations):
    """Deliveries of messages that are on the disk."""
    found = rig.send(link, *bodies, **annotations)
    rig.disk()
    return found


def test_one_disposition_for_a_third():
    """Two of nine wait; the third takes them along, in one range, and the credit comes back with it."""
    rig = Rig("solace")
    link = rig.sender(publish_window=9, ack_event_mode="windowed")
    granted = link.credit
    stored(rig, link, 1, 2)
    assert (rig.dispositions(), link.credit) == ([], 7)
    stored(rig, link, 3)

    assert (granted, rig.dispositions(), link.credit) == (9, [(0, 2)], 9)


def test_per_message_has_a_disposition_each():
    """The default: all at the same time, each by itself."""
    rig = Rig("solace")
    link = rig.sender(publish_window=9)
    stored(rig, link, 1, 2, 3)

    assert rig.dispositions() == [(0, 0), (1, 1), (2, 2)]


def test_after_a_second():
    rig = Rig("solace")
    link = rig.sender(publish_window=9, ack_event_mode="windowed")
    stored(rig, link, 1, 2)
    rig.second()

    assert rig.dispositions() == [(0, 1)]


def test_fifty_where_nothing_is_said():
    assert Rig("solace").sender().credit == 50


def test_the_window_is_the_credit():
    """A peer has sent all it may; nothing is confirmed, and it gets no credit."""
    rig = Rig("solace")
    link = rig.sender(publish_window=4)
    rig.send(link, 1, 2, 3, 4)
    rig.second()
    before = link.credit
    rig.disk()

    assert (before, link.credit) == (0, 4)


def test_ack_immediately_has_a_disposition_of_its_own():
    """Two urgent ones are in no range together, nor with a third that was sent before them."""
    rig = Rig("solace")
    link = rig.sender(publish_window=9, ack_event_mode="windowed")
    stored(rig, link, 1)
    stored(rig, link, 2, 3, x_opt_ack_immediately=True)

    assert rig.dispositions() == [(1, 1), (2, 2)]


def test_ack_immediately_that_is_false():
    rig = Rig("solace")
    link = rig.sender(publish_window=9)
    stored(rig, link, 1, x_opt_ack_immediately=False)

    assert rig.dispositions() == []


def test_the_word_in_a_body_asks_for_nothing():
    rig = Rig("solace")
    link = rig.sender(publish_window=9)
    stored(rig, link, "x-opt-ack-immediately")

    assert rig.dispositions() == []


def test_annotations_without_a_value_ask_for_nothing():
    """The word is in the section before, and the message ends with the descriptor of its annotations."""
    word = b"x-opt-ack-immediately"
    pair = b"\xa3" + bytes((len(word),)) + word + b"\x41"

    assert is_urgent(b"\x00\x53\x71\xc1" + bytes((len(pair) + 1, 2)) + pair + b"\x00\x53\x72") is False


def test_a_refusal_is_in_no_range():
    """A queue for two: the confirms of what is stored before it, then it, rejected, by itself."""
    rig = Rig("solace", max_length=2)
    link = rig.sender(publish_window=50, ack_event_mode="windowed")
    stored(rig, link, 1, 2)
    refused = stored(rig, link, 3)[0]

    assert (rig.dispositions(), refused.remote_state, link.credit) == ([(0, 1), (2, 2)], Delivery.REJECTED, 50)


def test_other_profiles_know_no_windows():
    rig = Rig("artemis")
    link = rig.sender(publish_window="nine")
    stored(rig, link, 1)

    assert (rig.dispositions(), link.credit > 100) == ([(0, 0)], True)


@pytest.mark.parametrize(
    ("profile", "words"),
    [("solace", {"publish_window": 0}), ("solace", {"ack_event_mode": "all"}), ("solace", {"publish_window": -1})],
)
def test_a_wrong_word_of_a_publisher(profile, words):
    """The attach is refused, with the condition that says so."""
    assert closed(Rig(profile).sender(**words)) == "amqp:invalid-field"


def consumer(rig, count, credit, **words):
    """A receiver, and what it has got of so many messages."""
    stored(rig, rig.sender(), *range(count))
    link = rig.receiver(credit, **words)
    return link, rig.received(link)


def test_lazy_acknowledgements_are_answered_before_they_are_stored():
    rig = Rig("ems")
    _, got = consumer(rig, 1, 10, ack_mode="explicit-client-dups-ok")
    accept(got[0])
    rig.carry()
    waiting = rig.commit.has_waiting
    (seconds, store), *_ = rig.commit.postponed()
    store()

    assert (got[0].settled, waiting, seconds, rig.commit.has_waiting) == (True, False, LAZY_S, True)


def test_explicit_client_is_answered_when_stored():
    rig = Rig("ems")
    _, got = consumer(rig, 1, 10, ack_mode="explicit-client")
    accept(got[0])
    rig.carry()
    before = got[0].settled
    rig.disk()

    assert (before, got[0].settled) == (False, True)


@pytest.mark.parametrize("profile", ["ems", "qpid"])
def test_no_ack_removes_what_it_sends(profile):
    rig = Rig(profile)
    _, got = consumer(rig, 3, 10, ack_mode="no-ack")
    rig.disk()

    assert ([delivery.settled for delivery in got], rig.broker.queue("q").depth) == ([True] * 3, 0)


def test_the_prefetch_limit():
    """Ten messages, credit for ten, and two without an outcome at most."""
    rig = Rig("qpid")
    link, got = consumer(rig, 10, 10, ack_mode="client", prefetch=2)
    first = len(got)
    accept(got[0])
    rig.carry()
    rig.disk()

    assert (first, len(rig.received(link))) == (2, 1)


def test_an_unknown_mode_is_refused():
    rig = Rig("qpid")

    assert closed(rig.receiver(1, ack_mode="explicit-client")) == "amqp:invalid-field"


def test_standard_ignores_it_all():
    rig = Rig()
    link, got = consumer(rig, 3, 10, ack_mode="?", prefetch="?")

    assert (closed(link), len(got)) == (None, 3)


def test_a_liar_never_reopens_its_window():
    """Ten may be sent, and no more, however many are confirmed; the honest broker gives all credit back."""
    left = {}
    for name in (None, "never-reopens-window"):
        rig = Rig("solace", behaviour(name))
        link = rig.sender(publish_window=10)
        sent = [delivery for number in range(10) for delivery in stored(rig, link, number)]
        rig.second()
        left[name] = ([each.settled for each in sent].count(True), link.credit)

    assert left == {None: (10, 10), "never-reopens-window": (10, 0)}


def test_a_liar_hides_a_refusal_in_a_range():
    rig = Rig("solace", behaviour("range-hides-refusal"), max_length=2)
    link = rig.sender(publish_window=9, ack_event_mode="windowed")
    sent = stored(rig, link, 1, 2, 3)

    assert [each.remote_state for each in sent] == [Delivery.ACCEPTED] * 3
    assert rig.broker.queue("q").depth == 2


def test_a_liar_covers_what_is_not_stored():
    rig = Rig("solace", behaviour("range-covers-unstored"))
    link = rig.sender(publish_window=50, ack_event_mode="windowed")
    sent = rig.send(link, 1, 2)
    rig.second()

    assert [each.settled for each in sent] == [True, True]
    rig.disk()
    assert rig.broker.queue("q").depth == 2


@pytest.mark.parametrize(
    ("name", "answers", "left"),
    [
        (None, [Delivery.ACCEPTED] * 3, 0),
        ("refuses-out-of-order-acknowledgements", [Delivery.RELEASED, Delivery.ACCEPTED, Delivery.ACCEPTED], 1),
    ],
)
def test_a_liar_refuses_what_is_out_of_order(name, answers, left):
    """The third is acknowledged first, then the first and the second."""
    rig = Rig("ems", behaviour(name))
    _, got = consumer(rig, 3, 3, ack_mode="explicit-client")
    for place in (2, 0, 1):
        accept(got[place])
        rig.carry()
        rig.disk()

    assert ([got[place].remote_state for place in (2, 0, 1)], rig.broker.queue("q").depth) == (answers, left)


@pytest.mark.parametrize(("name", "left"), [(None, 2), ("explicit-acknowledge-takes-earlier", 0)])
def test_a_liar_takes_earlier_ones(name, left):
    """The third of three is acknowledged."""
    rig = Rig("ems", behaviour(name))
    _, got = consumer(rig, 3, 3, ack_mode="explicit-client")
    accept(got[2])
    rig.carry()
    rig.disk()

    assert rig.broker.queue("q").depth == left
