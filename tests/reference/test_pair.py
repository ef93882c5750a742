"""A synchronous pair: what one member has confirmed comes from the other when it dies, as after a restart."""

from __future__ import annotations

import signal
import socket

import pytest
from blackbox.stomp import Line, frame
from proton import Delivery
from starts import starts_process

from .pair_rig import OUT_OF_STEP, Pair, free_port

NOT_IN_STEP = "member {} does not take over: it is out of step, and waits for member {}"


@pytest.fixture
@starts_process
def pair(tmp_path):
    """Makes pairs; each process ends with the test."""
    made = []

    def one(*words):
        made.append(Pair(tmp_path, *words))
        return made[-1]

    yield one
    for each in made:
        each.end()


def play(broker, client):
    """Something of each kind, confirmed: 12 sends, the first 4 acknowledged, 3 delivered; and three transactions.

    Of the transactions the first is committed with two sends and an acknowledgement. The second is rolled back. The
    third is open.
    """
    one = client(broker)
    one.publish(12)
    box = one.receive(8)
    one.accept(delivery for _, delivery in box.got[:4])
    control = one.control()
    first, second, third = (control.begin() for _ in range(3))
    for identity, bodies in ((first, [101, 102]), (second, [201, 202]), (third, [301, 302])):
        control.send(identity, bodies)
    control.settle(first, [box.got[4][1]])
    assert control.end(first)[0] == Delivery.ACCEPTED
    control.end(second, fail=True)
    control.settle(third, [box.got[5][1]])
    return one


def left(broker, client):
    """Body, first-acquirer and delivery-count of all that a drain brings; the depth."""
    got = client(broker).drain().got
    return [(m.body, m.first_acquirer, m.delivery_count) for m, _ in got], broker.depth()


def test_what_was_confirmed_comes_from_the_other_member(pair, peer, start):
    """It is what a single broker has after a kill and a restart, with the same marks."""
    alone = start()
    play(alone, peer)
    alone.kill()
    expected = left(start(), peer)

    one, two = pair().both()
    play(one, peer)
    one.kill()

    assert left(two.serves(), peer) == expected
    assert [body for body, *_ in expected[0]] == [*range(6, 13), 101, 102]


def test_a_killed_member_comes_back_and_takes_over_in_turn(pair, peer):
    both = pair()
    one, two = both.both()
    client = peer(one)
    client.publish(5)
    client.accept(delivery for _, delivery in client.receive(2).got)
    one.kill()
    peer(two.serves()).publish(5, first=6)
    again = both.start(1).follows()
    client = peer(two)
    client.publish(2, first=11)
    client.accept([client.receive(1).got[0][1]])
    two.kill()

    assert [body for body, *_ in left(again.serves(), peer)[0]] == [*range(4, 13)]
    assert both.in_sync == "1\n"


def test_stomp_sees_a_takeover_as_a_restart(pair, start):
    """Receipts for sends and acknowledgements; what was not acknowledged is redelivered."""
    alone = start()
    stomp_play(alone)
    alone.kill()
    expected = stomp_left(start())

    one, two = pair().both()
    stomp_play(one)
    one.kill()

    assert stomp_left(two.serves()) == expected == [(b"2", "true"), (b"3", "true"), (b"4", "true")]


def stomp_play(broker):
    line = Line(broker.port("stomp"))
    for number in range(1, 5):
        line.say(frame("SEND", b"%d" % number, destination="q", persistent="true", receipt=f"s{number}"))
        assert line.hear().command == "RECEIPT"
    line.say(frame("SUBSCRIBE", id="1", destination="q", ack="client-individual", receipt="subscribed"))
    heard = [line.hear() for _ in range(5)]
    message = next(each for each in heard if each.body == b"1")
    line.say(frame("ACK", id=message.headers["ack"], receipt="acknowledged"))
    assert line.hear().headers["receipt-id"] == "acknowledged"


def stomp_left(broker):
    line = Line(broker.port("stomp"))
    line.say(frame("SUBSCRIBE", id="1", destination="q", ack="client-individual"))
    heard = [line.hear() for _ in range(3)]
    return [(each.body, each.headers["redelivered"]) for each in heard]


def test_a_member_that_was_out_of_step_does_not_take_over(pair, peer):
    """It waits for the other one, gets in step with it, and may take over then."""
    both = pair()
    one, two = both.both()
    peer(one).publish(2)
    two.kill()
    one.await_line(OUT_OF_STEP.format(2))
    peer(one).publish(2, first=3)
    assert both.in_sync == "1\n"
    one.kill()

    two = both.start(2)
    two.await_line(NOT_IN_STEP.format(2, 1))
    one = both.start(1).serves()
    assert [body for body, *_ in left(one, peer)[0]] == [1, 2, 3, 4]
    two.follows()
    assert both.in_sync == "1 2\n"
    one.kill()
    assert [body for body, *_ in left(two.serves(), peer)[0]] == [1, 2, 3, 4]


def test_a_silent_standby_is_left_out_before_the_active_confirms_alone(pair, peer):
    """It is stopped, not dead: its link is open. When it goes on it gets a snapshot, and is in step again."""
    both = pair("--replication-s=0.5")
    one, two = both.both()
    two.process.send_signal(signal.SIGSTOP)
    client = peer(one)
    client.publish(1)
    confirmed_with = both.in_sync
    one.await_line(OUT_OF_STEP.format(2))
    two.process.send_signal(signal.SIGCONT)
    two.follows()
    client.publish(1, first=2)
    one.kill()

    assert confirmed_with == "1\n"
    assert [body for body, *_ in left(two.serves(), peer)[0]] == [1, 2]


def test_a_standby_opens_no_client_port(pair):
    """Nor its replication port: there is nothing to get from it."""
    port = free_port()
    both = pair()
    both.start(1).serves()
    both.start(2, f"--mqtt-port={port}").follows()

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_a_clean_stop_hands_over(pair, peer):
    """The standby has the mark of the clean stop too, so it has nothing to warn of."""
    one, two = pair().both()
    peer(one).publish(3)
    assert one.stop() == 0
    two.serves()

    assert [body for body, *_ in left(two, peer)[0]] == [1, 2, 3]
    assert [line for line in two.lines if "journal" in line] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_standby_stops_in_order(pair, peer, number):
    one, two = pair().both()
    two.process.send_signal(number)
    assert two.ends() == 0
    one.await_line(OUT_OF_STEP.format(2))
    peer(one).publish(1)

    assert left(one, peer)[1] == 1


def test_a_second_member_of_one_number_is_refused(pair):
    """With the reason, and exit code 3."""
    both = pair()
    both.start(1).serves()
    other = Pair(both.folder)
    other._ports = {1: both._ports[2], 2: both._ports[1]}
    twin = other.start(1, f"--data={both.folder}/twin")
    twin.await_line("conformance broker: member 1 is active: start the other one with another --member")

    assert twin.ends() == 3


def test_many_segments_are_compacted_on_both_sides(pair, peer):
    """The standby deletes the segments that it needs no more, and has what is left."""
    both = pair()
    one, two = both.both()
    client = peer(one)
    for first in range(0, 60, 6):
        line = Line(one.port("stomp"))
        for number in range(first, first + 6):
            content = b"%d " % number + bytes(1 << 20)
            headers = {"destination": "big", "persistent": "true", "content_length": str(len(content))}
            line.say(frame("SEND", content, receipt=str(number), **headers))
            assert line.hear().command == "RECEIPT"
        client.accept(delivery for _, delivery in client.receive(5, "big").got)
        line.close()
    assert len([*(both.folder / "data-2").glob("*.journal")]) < 12
    one.kill()
    two.serves()

    assert [int(bytes(m.body).split()[0]) for m, _ in peer(two).drain("big").got] == [*range(50, 60)]
