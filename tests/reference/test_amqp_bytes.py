"""A connection without a socket, on a disk that stores when it is told to."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest

from conformance.reference.amqp.connection import MAX_EVENTS, OPEN_S, AmqpConnection
from conformance.reference.amqp.links import MAX_UNSTORED
from conformance.reference.peers import MAX_UNSENT
from tests.reference.amqp_raw import (
    BEGIN,
    DETACH,
    DISPOSITION,
    END,
    HEADER,
    MESSAGE,
    NULL,
    TRUE,
    attaching,
    beginning,
    described,
    flow,
    frame,
    opening,
    text,
    transfer,
    uint,
)
from tests.reference.queue_rig import Rig

DECLARE = b"\x00\x53\x77" + described(0x31, NULL)
ROLLBACK = b"amqp:transaction:rollback"
CONFIRM = b"\x00\x53\x15"
LIMIT = b"amqp:resource-limit-exceeded"


class Talk:
    """One connection to a rig; what it says is kept in `heard`."""

    def __init__(self, rig, *said):
        self.rig = rig
        self.later = []
        self.connection = AmqpConnection(rig.broker, lambda: None, lambda seconds, call: self.later.append(call))
        self.heard = b""
        for data in said:
            self.say(data)

    def say(self, data=b""):
        """Bytes in, a turn, and what came out of it."""
        self.connection.receive(data)
        self.rig.broker.dispatch()
        return self.turn()

    def turn(self):
        """What is said now."""
        said = self.connection.output()
        self.heard += said
        return said


def large(size):
    """A durable message of about so many bytes."""
    return b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x75\xb0" + size.to_bytes(4, "big") + bytes(size)


def state(identity, *outcome):
    """A transactional-state."""
    return described(0x34, text(identity, 0xA0), *outcome)


def transacted(rig):
    """A transaction with a send and an acknowledgement: the talk, and its id."""
    control = attaching("c", 0, target=described(0x30, NULL))
    receiver = attaching("r", 2, receives=True) + flow(2, 5)
    talk = Talk(rig, opening() + beginning() + control + attaching("s", 1) + receiver)
    said = talk.say(transfer(0, 0, DECLARE))
    identity = said[said.index(b"\x00\x53\x33") :].split(b"\xa0\x08")[1][:8]
    flags = [NULL, NULL, NULL]
    talk.say(
        frame(0x14, uint(1), uint(1), text("t", 0xA0), uint(0), *flags, state(identity), payload=MESSAGE)
        + frame(DISPOSITION, TRUE, uint(0), uint(0), NULL, state(identity, described(0x24)))
    )
    return talk, identity


def test_a_refused_commit_is_a_rollback():
    """No room on the disk: rejected with amqp:transaction:rollback; nothing is sent, nothing acknowledged."""
    rig = Rig("q")
    rig.send(b"\x00\x53\x77\x40")
    rig.disk()
    talk, identity = transacted(rig)
    discharge = b"\x00\x53\x77" + described(0x32, text(identity, 0xA0), b"\x42")
    talk.say(transfer(0, 2, discharge))
    assert ROLLBACK not in talk.heard
    rig.no_room()
    talk.turn()

    assert talk.heard.count(ROLLBACK) == 1
    assert (rig.queue.depth, rig.queue.unacknowledged) == (1, 1)
    assert b"amqp:transaction:unknown-id" in talk.say(transfer(0, 3, discharge))


def test_what_waits_for_the_disk_is_bounded():
    """Beyond it the peer is not read; it is again when its messages are stored, each of them confirmed."""
    rig = Rig("q")
    talk = Talk(rig, opening() + beginning() + attaching("s", 0))
    sent = itertools.takewhile(lambda _: not talk.connection.choked, range(400))
    count = len([talk.say(transfer(0, n, large(100_000))) for n in sent])
    assert MAX_UNSTORED <= count * 101_060 < MAX_UNSTORED + 202_000
    assert CONFIRM not in talk.heard
    rig.disk()
    talk.turn()

    assert not talk.connection.choked
    assert rig.queue.depth == count
    assert CONFIRM in talk.heard


def test_what_is_not_taken_from_it_is_bounded():
    """With credit for all of 10 MB: no more than the bound at a time, all of it in the end, and nothing while paused."""
    rig = Rig("q")
    for _ in range(100):
        rig.send(large(100_000)[7:])
    rig.disk()
    talk = Talk(rig, opening(max_frame=1 << 18) + beginning() + attaching("r", 0, receives=True) + flow(0, 1000))
    sizes = []
    for _ in range(60):
        sizes.append(len(talk.turn()))
        rig.broker.dispatch()
    assert max(sizes) < MAX_UNSENT + 200_000
    assert rig.queue.unacknowledged == 100
    rig.send(large(10)[7:])
    rig.disk()
    talk.connection.pause()
    rig.broker.dispatch()
    assert talk.turn() == b""
    talk.connection.resume()
    rig.broker.dispatch()
    assert len(talk.turn()) > 10


def test_what_a_session_window_holds_back_is_unsent():
    """A peer that takes one frame at a time is not written for beyond the bound either."""
    rig = Rig("q")
    for _ in range(100):
        rig.send(large(100_000)[7:])
    rig.disk()
    talk = Talk(rig, opening(max_frame=1 << 18) + beginning(window=1) + attaching("r", 0, receives=True))
    talk.say(frame(0x13, uint(0), uint(1), uint(0), uint(1 << 30), uint(0), uint(0), uint(1000)))
    for _ in range(20):
        talk.turn()
        rig.broker.dispatch()

    assert rig.queue.unacknowledged < 10


def test_a_drain_waits_for_room():
    """All that is there comes before the credit is given up, however much it is (section 2.6.7)."""
    rig = Rig("q")
    for _ in range(20):
        rig.send(large(100_000)[7:])
    rig.disk()
    talk = Talk(rig, opening(max_frame=1 << 18) + beginning() + attaching("r", 0, receives=True))
    talk.say(frame(0x13, uint(0), uint(1 << 30), uint(0), uint(1 << 30), uint(0), uint(0), uint(50), NULL, TRUE))
    for _ in range(20):
        rig.broker.dispatch()
        talk.turn()

    given_up = talk.heard.rindex(b"\x00\x53\x13")
    assert rig.queue.unacknowledged == 20
    assert talk.heard.rindex(b"\x00\x53\x14") < given_up


def test_a_peer_that_is_not_read_is_not_silent():
    """The idle time-out does not run while the disk is what it waits for; afterwards it does."""
    rig = Rig("q", idle_timeout_ms=1000)
    talk = Talk(rig, opening() + beginning() + attaching("s", 0))
    talk.connection.tick(100.0)
    for n in range(180):
        talk.say(transfer(0, n, large(100_000)))
    assert talk.connection.choked
    talk.connection.tick(150.0)
    talk.connection.tick(200.0)
    assert (talk.turn(), talk.connection.closed) == (b"", False)
    rig.disk()
    assert not talk.connection.choked
    talk.connection.tick(201.0)
    talk.say(b"\x00\x00\x00\x08\x02\x00\x00\x00")
    talk.connection.tick(202.0)
    assert not talk.connection.closed
    talk.connection.tick(205.0)

    assert LIMIT in talk.turn()
    assert talk.connection.closed


HELD = 500


def holding(rig):
    """A receiver that holds so many messages, with two transactions: the talk, and the ids of the transactions."""
    for _ in range(HELD):
        rig.send(MESSAGE[7:])
    rig.disk()
    receiver = attaching("r", 1, receives=True) + flow(1, HELD)
    talk = Talk(
        rig, opening(max_frame=1 << 18) + beginning() + receiver + attaching("c", 0, target=described(0x30, NULL))
    )
    said = talk.say(transfer(0, 0, DECLARE)) + talk.say(transfer(0, 1, DECLARE))
    return talk, [part[:8] for part in said.split(b"\xa0\x08")[1:]]


def outcome_of_all(*fields):
    return frame(DISPOSITION, TRUE, uint(0), uint(HELD - 1), *fields)


def test_a_flood_of_ranges_leaves_others_their_turn():
    """Of 100 ranges over 500 deliveries in one read, those of one turn; and in the end all, in the order they came."""
    rig = Rig("q")
    talk, _ = holding(rig)
    talk.say(outcome_of_all() * 100 + outcome_of_all(NULL, described(0x24)))
    turns = 0
    while talk.connection.choked:
        turns += 1
        talk.later.pop()()
        talk.turn()
        assert rig.queue.unacknowledged == HELD or not talk.connection.choked
    rig.disk()

    assert turns == HELD * 100 // MAX_EVENTS
    assert rig.queue.depth == 0


def test_an_outcome_that_is_given_again_is_kept_once():
    """In one transaction after the other: the last has it, and 200 ranges take no more memory than two."""
    rig = Rig("q")
    talk, identities = holding(rig)
    accepted = [outcome_of_all(NULL, state(identity, described(0x24))) for identity in identities]
    sizes = []
    tracemalloc.start()
    try:
        for times in (1, 100):
            for said in accepted * times:
                talk.say(said)
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sizes[1] - sizes[0] < 100_000
    for number, depth in enumerate((HELD, 0)):
        talk.say(transfer(0, 2 + number, b"\x00\x53\x77" + described(0x32, text(identities[number], 0xA0), b"\x42")))
        rig.disk()
        assert rig.queue.depth == depth


NULLS = b"\xd0\x00\x00\x14\x04\x00\x00\x14\x00" + b"\x40" * 0x1400
"""A list of 5,120 nulls. The engine takes 400 KB for it."""


def wide(small):
    """The same frame, with the code of its performative in eight bytes."""
    return (len(small) + 7).to_bytes(4, "big") + small[4:8] + b"\x00\x80" + small[10].to_bytes(8, "big") + small[11:]


@pytest.mark.parametrize(
    "large",
    [
        attaching("a", 9, source=described(0x28, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULLS)),
        attaching("a" * 6000, 9),
        outcome_of_all(NULL, b"\x00\x53\x34" + NULLS),
        wide(outcome_of_all(NULL, b"\x00\x53\x34" + NULLS)),
    ],
    ids=["attach", "name", "state", "state, wide code"],
)
def test_what_the_engine_keeps_is_bounded(large):
    """It keeps an attach as long as its link, and a state with every delivery that the range names."""
    talk, _ = holding(Rig("q", max_links=5))

    assert LIMIT in talk.say(large)


def test_links_that_are_detached_are_not_counted():
    """Nor are those of a session that has ended."""
    talk, _ = holding(Rig("q", max_links=5))
    for number in range(50):
        talk.say(attaching(f"{number}" + "x" * 250, 9, channel=0) + frame(DETACH, uint(9), TRUE))
        talk.say(beginning(channel=1) + attaching(f"{number}" + "y" * 250, 0, channel=1) + frame(END, channel=1))

    assert LIMIT not in talk.heard


def test_sessions_that_end_in_one_read_give_their_channels_back():
    """More than 256 of them, each on the same channel of the peer."""
    talk = Talk(Rig("q"), opening() + (beginning(channel=1) + frame(END, channel=1)) * 300 + beginning())

    assert talk.heard.count(b"\x00\x53\x17") == 300
    assert not talk.connection.closed


def test_a_link_that_the_peer_has_no_handle_for_ends_the_connection(capfd):
    """Its begin allows one handle, and it attaches two links. The engine writes nothing more."""
    begin = frame(BEGIN, NULL, uint(0), uint(1 << 30), uint(1 << 30), uint(0))
    talk = Talk(Rig("q"), opening() + begin + attaching("a", 0) + attaching("b", 1))

    assert talk.connection.closed
    assert capfd.readouterr().err == ""


def test_nothing_is_kept_of_a_peer_that_speaks_another_protocol():
    """Until it has closed its end it may say more."""
    talk = Talk(Rig("q"))
    tracemalloc.start()
    try:
        for _ in range(20):
            talk.say(bytes(100_000))
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert talk.connection.closed
    assert kept < 1_000_000


@pytest.mark.parametrize("said", [b"", b"AMQP", HEADER])
def test_a_connection_has_to_be_opened(said):
    """Within a time, or it is closed, with a word if it has come as far as AMQP."""
    talk = Talk(Rig("q"), said)
    assert talk.connection.tick(100.0) == 100.0 + OPEN_S
    talk.connection.tick(100.0 + OPEN_S)
    heard = talk.turn()

    assert talk.connection.closed
    assert (b"amqp:connection:forced" in heard) == (said == HEADER)


def test_an_open_connection_has_time():
    """No limits at all where none are asked for."""
    talk = Talk(Rig("q"), opening())
    talk.connection.tick(100.0)

    assert talk.connection.tick(10_000.0) is None
    assert not talk.connection.closed
