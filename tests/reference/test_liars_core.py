"""Liars about queues and their journal, each beside the honest broker: the same script, and exactly one difference."""

from __future__ import annotations

import pytest

from conformance.reference.core import selector
from conformance.reference.core.settlement import SettlementEvent
from conformance.reference.liars import behaviour
from conformance.reference.settings import QueueOptions
from conformance.reference.stomp.message import store
from conformance.reference.store.commit import do_nothing

from .queue_rig import Rig, due_in

COUNT = 120


def bodies(numbers):
    return [b"%d" % number for number in numbers]


def sent(rig, count=COUNT):
    for number in range(1, count + 1):
        rig.send(b"%d" % number)
    rig.disk()


def after_a_kill(rig):
    """What 120 confirmed messages are after a restart."""
    sent(rig)
    assert rig.answers == ["done"] * COUNT
    return rig.again().bodies()


def a_thousand_after_a_kill(rig):
    """Which of 1,200 confirmed messages are missing after a restart."""
    sent(rig, 1200)
    return sorted(set(bodies(range(1, 1201))) - set(rig.again().bodies()))


def acknowledged_after_a_kill(rig):
    """What is back after twenty messages were acknowledged, and that was confirmed."""
    sent(rig, 20)
    link, got = rig.link()
    for tag in list(got):
        rig.settle(link, tag)
    rig.disk()
    assert rig.bodies() == []
    return rig.again().bodies()


def delivered_after_a_kill(rig):
    """How many are counted after a restart, and how many a consumer gets."""
    sent(rig, 10)
    restarted = rig.again()
    return restarted.queue.depth, len(restarted.link()[1])


def after_two_restarts(rig):
    """How many are counted after a restart, and how many a consumer gets; the same after a second one."""
    sent(rig, 10)
    first = rig.again()
    seen = (first.queue.depth, len(first.link()[1]))
    first.disk()
    second = first.again()
    return seen, (second.queue.depth, len(second.link()[1]))


def sent_after_a_restart(rig):
    """What is there after a second restart, of ten messages before the first and five after it."""
    sent(rig, 10)
    restarted = rig.again()
    for number in range(11, 16):
        restarted.send(b"%d" % number)
    restarted.disk()
    return restarted.again().bodies()


def delivered(rig):
    """What a consumer gets of 120."""
    sent(rig)
    return [body for body, _, _ in rig.link(1000)[1].values()]


def stored_twice(rig):
    """Which of 120 sends are there more than once."""
    sent(rig)
    found = rig.bodies()
    return sorted({body for body in found if found.count(body) > 1})


def five_seconds_later(rig):
    """What is left of ten messages without a time to live."""
    sent(rig, 10)
    rig.now += 5
    rig.broker.dispatch()
    rig.disk()
    return rig.bodies()


def two_seconds_later(rig):
    """What is left of messages that live for an hour and for a second, by ttl and by their end."""
    for lives_s in (3600, 1):
        rig.send(b"ttl %d" % lives_s, ttl=lives_s * 1000)
        rig.send(b"end %d" % lives_s, expires=int((rig.now + lives_s) * 1000))
    rig.disk()
    rig.now += 2
    rig.broker.dispatch()
    rig.disk()
    return rig.bodies()


def long_lives(rig):
    """What is left after two seconds of messages that live for 2^31 - 1 and 2^31 milliseconds."""
    for lives_ms in (2**31 - 1, 2**31):
        rig.send(b"%d" % lives_ms, ttl=lives_ms)
    rig.disk()
    rig.now += 2
    rig.broker.dispatch()
    rig.disk()
    return rig.bodies()


def filled_again(rig):
    """What a queue for one message takes: of two sends at first, and of one after it was emptied."""
    rig.queue.options = QueueOptions(max_length=1)
    rig.queue.limited = True
    for number in (1, 2):
        rig.send(b"%d" % number)
    rig.disk()
    link, _ = rig.link()
    rig.settle(link, 1)
    rig.disk()
    rig.send(b"3")
    rig.disk()
    return [answer == "done" for answer in rig.answers]


def failed(rig):
    """What is left of a message whose consumer failed."""
    sent(rig, 1)
    link, _ = rig.link(1)
    rig.settle(link, 1, SettlementEvent.FAILED)
    rig.disk()
    return rig.bodies()


def abandoned(rig):
    """What its queue and the dead-letter queue have of a message whose consumer went away at the first delivery."""
    sent(rig, 1)
    rig.broker.queue("DLQ")
    link, _ = rig.link(1)
    rig.broker.unsubscribe(link)
    rig.disk()
    return rig.bodies(), rig.bodies("DLQ")


def rolled_back(rig):
    """What is there of a send that was rolled back."""
    transaction = rig.broker.begin()
    rig.send(b"1", transaction)
    rig.broker.rollback(transaction, do_nothing)
    rig.disk()
    return rig.bodies()


def of_three_priorities(rig):
    """What a consumer gets of messages of the priorities 4, 9, none and 0, in that order."""
    for bare, said in ((b"4", b"\x50\x04"), (b"9", b"\x50\x09"), (b"none", b"\x40"), (b"0", b"\x50\x00")):
        rig.send(bare, rest=said + b"\x40")
    rig.disk()
    return [body for body, _, _ in rig.link()[1].values()]


def before_the_time(rig):
    """How many of two messages a consumer gets of which one is not due."""
    for seconds in (0, 60):
        rig.send(due_in(rig, seconds))
    rig.disk()
    return len(rig.link()[1])


def before_the_time_after_a_restart(rig):
    """How many messages that are not due a consumer gets, with one from before a restart."""
    rig.send(due_in(rig, 60))
    rig.disk()
    rig = rig.again()
    rig.send(due_in(rig, 60))
    rig.disk()
    return len(rig.link()[1])


def given_back(rig):
    """What a second consumer gets of four messages of which the first one had three when it ended."""
    sent(rig, 4)
    link, _ = rig.link(credit=3)
    rig.broker.unsubscribe(link)
    rig.disk()
    return [body for body, _, _ in rig.link()[1].values()]


def given_to_two(rig):
    """Which of thirty messages two consumers got at once."""
    links = [rig.link()[1] for _ in range(2)]
    sent(rig, 30)
    rig.broker.dispatch()
    first, second = ({body for body, _, _ in got.values()} for got in links)
    return sorted(first & second)


def acknowledged_by_one_of_two(rig):
    """What is stored when one receiver of a connection has acknowledged its message, and another holds one."""
    sent(rig, 2)
    link, _ = rig.link(credit=1)
    rig.link(credit=1)
    rig.settle(link, 1)
    rig.disk()
    return rig.bodies()


def passed_over(rig):
    """What a consumer of blue messages is sent of two red ones, and how many of them are left."""
    for _ in range(2):
        rig.send(store({"colour": "red"}, b"1").bare)
    rig.disk()
    _, got = rig.link(selector=selector.parse("colour = 'blue'"))
    rig.disk()
    return len(got), len(rig.bodies())


def matched_after_not(rig):
    """What a consumer with NOT before its AND, and one with parentheses there, are sent of a red message."""
    rig.send(store({"colour": "red"}, b"1").bare)
    rig.disk()
    texts = ("NOT colour = 'blue' AND colour = 'red'", "NOT (colour = 'blue') AND colour = 'red'")
    links = [rig.link(selector=selector.parse(text))[1] for text in texts]
    rig.disk()
    return [len(got) for got in links]


def sent_to_a_topic(rig):
    """What two durable subscriptions have of a message when the client of one of them is away."""
    attended, left = (rig.broker.subscription("t", "client", name).name for name in ("a", "b"))
    rig.link(credit=0, queue=attended)
    rig.send(b"1", topic="t")
    rig.disk()
    assert rig.answers == ["done"]
    return rig.bodies(attended), rig.bodies(left)


ALL = bodies(range(1, COUNT + 1))
LONG = [b"ttl 3600", b"end 3600"]
CASES = {
    "treats-persistent-as-non-persistent": (after_a_kill, ALL, []),
    "loses-one-in-a-thousand": (a_thousand_after_a_kill, [], [b"500"]),
    "brings-acknowledged-back": (acknowledged_after_a_kill, [], [b"7", b"14"]),
    "loses-the-oldest": (after_a_kill, ALL, ALL[1:]),
    "loses-the-last-batch": (after_a_kill, ALL, ALL[:-10]),
    "recovers-in-reverse": (after_a_kill, ALL, ALL[::-1]),
    "stuck-after-recovery": (delivered_after_a_kill, (10, 10), (10, 0)),
    "late-after-recovery": (after_two_restarts, ((10, 10), (10, 10)), ((0, 0), (10, 10))),
    "forgets-at-the-second-start": (after_two_restarts, ((10, 10), (10, 10)), ((10, 10), (0, 0))),
    "keeps-early-sends-in-memory": (sent_after_a_restart, bodies(range(1, 16)), bodies(range(1, 11))),
    "stores-every-hundredth-twice": (stored_twice, [], [b"100"]),
    "gives-a-message-to-two-consumers": (given_to_two, [], [b"10", b"20", b"30"]),
    "acknowledges-for-another-receiver": (acknowledged_by_one_of_two, [b"2"], [b"1"]),
    "forgets-absent-subscribers": (sent_to_a_topic, ([b"1"], [b"1"]), ([b"1"], [])),
    "swaps-two-of-a-hundred": (delivered, ALL, [*ALL[:49], ALL[50], ALL[49], *ALL[51:]]),
    "forgets-after-half-a-second": (five_seconds_later, bodies(range(1, 11)), []),
    "counts-milliseconds-as-nanoseconds": (two_seconds_later, LONG, []),
    "ends-long-lives-at-once": (long_lives, [b"2147483647", b"2147483648"], [b"2147483647"]),
    "stays-full-once-full": (filled_again, [True, False, True], [True, False, False]),
    "never-expires": (two_seconds_later, LONG, [*LONG, b"ttl 1", b"end 1"]),
    "drops-failed": (failed, [b"1"], []),
    "dead-letters-at-once": (abandoned, ([b"1"], []), ([], [b"1"])),
    "drops-what-selectors-pass-over": (passed_over, (0, 2), (0, 0)),
    "delivers-in-the-order-of-sends": (
        of_three_priorities,
        [b"9", b"4", b"none", b"0"],
        [b"4", b"9", b"none", b"0"],
    ),
    "delivers-before-the-time": (before_the_time, 1, 2),
    "forgets-delivery-times-at-a-start": (before_the_time_after_a_restart, 0, 1),
    "gives-back-in-reverse": (given_back, bodies(range(1, 5)), [b"3", b"2", b"1", b"4"]),
    "ignores-selectors": (passed_over, (0, 2), (2, 2)),
    "matches-nothing-after-not": (matched_after_not, [1, 0], [0, 1]),
    "commits-rollbacks": (rolled_back, [], [b"1"]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_lie_and_the_truth(name):
    script, honest, lie = CASES[name]

    assert (script(Rig()), script(Rig(behaviour=behaviour(name)))) == (honest, lie)


def test_the_order_of_priorities_outlasts_a_restart():
    rig = Rig()
    of_three_priorities(rig)

    assert of_three_priorities(rig.again()) == [b"9", b"9", b"4", b"none", b"4", b"none", b"0", b"0"]


@pytest.mark.parametrize("name", CASES)
def test_it_is_wrong_in_one_way_only(name):
    """The scripts of the other liars find nothing wrong with it, but those whose answer rests on the same thing."""
    killed = {name for name, (script, _, _) in CASES.items() if script is after_a_kill}
    twice = {"late-after-recovery", "forgets-at-the-second-start", "keeps-early-sends-in-memory"}
    restarted = killed | {"loses-one-in-a-thousand", "stuck-after-recovery"} | twice
    also = {
        "swaps-two-of-a-hundred": killed,
        "stores-every-hundredth-twice": {*killed, "swaps-two-of-a-hundred"},
        "treats-persistent-as-non-persistent": restarted,
        "loses-the-oldest": restarted,
        "loses-the-last-batch": restarted,
        "recovers-in-reverse": restarted,
        "stuck-after-recovery": twice,
        "forgets-at-the-second-start": twice,
        "late-after-recovery": restarted,
        "dead-letters-at-once": {"gives-back-in-reverse"},
        "delivers-before-the-time": {"forgets-delivery-times-at-a-start"},
    }.get(name, set())
    same = {other for other, (script, _, _) in CASES.items() if script is CASES[name][0]}
    wrong = [
        other
        for other, (script, honest, _) in CASES.items()
        if other not in also | same and script(Rig(behaviour=behaviour(name))) != honest
    ]

    assert wrong == []


def test_a_send_that_is_dropped_is_answered():
    """Every tenth is kept nowhere; the others have their numbers."""
    rig = Rig(behaviour=behaviour("drops-every-tenth-send"))
    sent(rig, 25)

    assert rig.answers == ["done"] * 25
    assert rig.bodies() == bodies(number for number in range(1, 26) if number % 10)


def test_a_send_that_is_dropped_is_committed():
    """Every tenth of what was sent in a transaction is kept nowhere, and the commit is answered as done."""
    rig = Rig(behaviour=behaviour("drops-every-tenth-send"))
    transaction = rig.broker.begin()
    for number in range(1, 26):
        rig.send(b"%d" % number, transaction)
    rig.commits(transaction)
    rig.disk()

    assert rig.answers[-1] == "done"
    assert rig.bodies() == [b"%d" % number for number in range(1, 26) if number % 10]


def test_expired_messages_are_dropped_although_their_queue_has_another():
    """Without an expiry queue the honest broker removes them as well."""
    rig, honest = (Rig("q:expiry_queue=Late", behaviour=each) for each in (behaviour("drops-expired"), None))
    for each in (rig, honest):
        each.broker.queue("Late")
        two_seconds_later(each)

    assert (rig.bodies("Late"), honest.bodies("Late")) == ([], [b"ttl 1", b"end 1"])


def test_a_corrupt_body_has_its_length():
    """Over the wire only: what is stored is what was sent."""
    rig = Rig(behaviour=behaviour("corrupts-a-body"))
    sent(rig)
    message = next(m for m in rig.broker.browse(rig.queue) if m.number == 100)

    assert message.bare == b"100"
    assert rig.broker.encoded(message).endswith(b"101")
    assert Rig().broker.encoded(message).endswith(b"100")


def test_a_correlation_id_of_bytes_is_a_string():
    """Over the wire only, and no other type of it."""
    number, octets = b"p@@@@S\x05", b"p@@@@\xa0\x01x"
    broker = Rig(behaviour=behaviour("changes-correlation-ids")).broker

    assert [number, b"p@@@@\xa1\x01x"] == [broker.behaviour.body(1, bare) for bare in (number, octets)]


@pytest.mark.parametrize(
    ("rest", "kept"),
    [(b"\x50\x07\x40", b"\x40\x40"), (b"\x50\x09\x70\0\0\0\1", b"\x40\x70\0\0\0\1"), (b"\x40\x40", b"\x40\x40")],
)
def test_a_priority_is_forgotten_at_a_start(rest, kept):
    """The encoded ttl behind it stays."""
    assert kept == behaviour("forgets-priorities-at-a-start").restores(rest)


def test_a_property_that_is_true_is_false():
    """Over the wire only, and no other property."""
    broker = Rig(behaviour=behaviour("turns-true-to-false")).broker

    assert b"\xa1\x05truth\x42\xa1\x04late\x41" == broker.behaviour.body(1, b"\xa1\x05truth\x41\xa1\x04late\x41")
    assert b"truth\xa1\x04TRUE" == broker.behaviour.body(1, b"truth\xa1\x04true")


@pytest.mark.parametrize(("size", "altered"), [(100_000, 0), (100_001, 32_768)])
def test_the_end_of_a_large_message_is_lost(size, altered):
    """Over the wire only; the message keeps its length."""
    rig = Rig(behaviour=behaviour("cuts-large-messages"))
    rig.send(b"x" * size)
    rig.disk()
    message = next(rig.broker.browse(rig.queue))
    body = rig.broker.body(message)

    assert (message.bare, len(body)) == (b"x" * size, size)
    assert body == b"x" * (size - altered) + bytes(altered)


def test_a_message_is_delivered_under_a_name_that_was_never_sent():
    """Over the wire only: what is stored is what was sent."""
    rig = Rig(behaviour=behaviour("renames-a-message"))
    for number in range(1, COUNT + 1):
        rig.send(b"p1:%d" % number)
    rig.disk()
    message = next(m for m in rig.broker.browse(rig.queue) if m.number == 100)

    assert message.bare == b"p1:100"
    assert rig.broker.encoded(message).endswith(b"p9:100")


@pytest.mark.parametrize(
    ("name", "stopping", "left"),
    [
        (None, False, 10),
        (None, True, 10),
        ("loses-half-a-prefetch", False, 5),
        ("dead-letters-at-once", False, 0),  # and its queue has no other for what is rejected
        ("drops-held-deliveries-when-stopped", False, 10),
        ("drops-held-deliveries-when-stopped", True, 0),
    ],
)
def test_a_consumer_that_is_gone_leaves_what_it_held(name, stopping, left):
    """Ten were sent to it, and it acknowledged none; its link ends by itself, or because the broker is stopped."""
    rig = Rig(behaviour=behaviour(name))
    sent(rig, 10)
    link, got = rig.link()
    rig.broker.stopping = stopping
    rig.broker.unsubscribe(link)
    rig.disk()

    assert (len(got), len(rig.bodies())) == (10, left)


def test_a_start_with_messages_is_refused():
    """An empty journal is taken over, as the honest broker takes over each."""
    liar = behaviour("refuses-to-start-with-messages")

    assert [liar.starts_with(count) for count in (0, 1, 1000)] == [True, False, False]
    assert all(behaviour(None).starts_with(count) for count in (0, 1, 1000))


@pytest.mark.parametrize(("name", "outlives"), [("ends-at-the-first-consumer-after-recovery", False), (None, True)])
def test_a_consumer_after_a_recovery(name, outlives):
    """It ends the liar that has taken messages over; one without any serves it."""
    rig = Rig(behaviour=behaviour(name))
    sent(rig, 10)
    _, got = rig.link(credit=1)

    assert 1 == len(got)
    if outlives:
        assert 10 == len(rig.again().link()[1])
    else:
        with pytest.raises(SystemExit, match="10 messages were taken over"):
            rig.again().link()


@pytest.mark.parametrize(("name", "outlives"), [("ends-at-a-send", False), (None, True)])
def test_the_hundred_and_fiftieth_send(name, outlives):
    """It ends the liar, whose earlier sends are answered; the honest broker goes on."""
    rig = Rig(behaviour=behaviour(name))
    sent(rig, 149)
    assert ["done"] * 149 == rig.answers
    if outlives:
        sent(rig, 2)
        assert 151 == rig.queue.depth
    else:
        with pytest.raises(SystemExit, match=r"the 150\. send ended the broker"):
            rig.send()


@pytest.mark.parametrize(("name", "kept"), [("breaks-the-protocol", False), (None, True)])
def test_what_a_connection_writes(name, kept):
    """Once it is no frame of any protocol; the connections of the honest broker write what the protocol wants."""
    written = [behaviour(name).written(turn, b"frame") for turn in range(1, 21)]

    assert kept == (written == [b"frame"] * 20)
    assert written.count(b"frame") == (20 if kept else 19)


def test_each_queue_loses_its_oldest():
    """What an earlier start left in the journal of one queue must not hide the loss of another, start after start."""
    rig = Rig("a", "b", behaviour=behaviour("loses-the-oldest"))
    for queue in ("a", "b"):
        for number in (1, 2):
            rig.send(b"%s%d" % (queue.encode(), number), queue=queue)
        rig.disk()
        rig = rig.again("a", "b")
        rig = rig.again("a", "b")

    assert {"a": [b"a2"], "b": [b"b2"]} == {name: rig.bodies(name) for name in ("a", "b")}


def test_a_rollback_is_answered_before_its_record_is_synced():
    """The honest broker writes nothing for a rollback. What the liar writes is found again as nothing."""
    seen = {}
    for name in (None, "rolls-back-before-sync"):
        rig, said = Rig(behaviour=behaviour(name)), []
        transaction = rig.broker.begin()
        rig.send(b"1", transaction)
        rig.disk()
        rig.broker.rollback(transaction, lambda said=said: said.append("rolled back"))
        asked = list(said)
        batch = rig.commit.take() if rig.commit.has_waiting else None
        if batch:
            rig.commit.finished()
        late = len(rig.commit.postponed())
        seen[name] = (asked, batch and (len(batch.writes), batch.sync), said, late, rig.again().bodies())

    assert seen == {
        None: (["rolled back"], None, ["rolled back"], 0, []),
        "rolls-back-before-sync": ([], (1, False), ["rolled back"], 1, []),
    }


def test_a_commit_that_is_never_synced():
    """It is answered, and no batch of it asks for a sync, then or later."""
    syncs = {}
    for name in (None, "never-syncs-commits"):
        rig = Rig(behaviour=behaviour(name))
        transaction = rig.broker.begin()
        rig.send(b"1", transaction)
        rig.disk()
        rig.commits(transaction)
        batch = rig.commit.take()
        rig.commit.finished()
        syncs[name] = (batch.sync, rig.answers[-1], rig.commit.postponed())

    assert syncs == {None: (True, "done", []), "never-syncs-commits": (False, "done", [])}


def test_an_acknowledgement_before_its_sync():
    """It is answered when the removal is written. The one liar syncs that later, the other never."""
    syncs = {}
    for name in (None, "acknowledges-before-sync", "never-syncs-acknowledgements"):
        rig = Rig(behaviour=behaviour(name))
        rig.send(b"1")
        rig.disk()
        link, _ = rig.link()
        rig.settle(link, 1)
        batch = rig.commit.take()
        rig.commit.finished()
        syncs[name] = (batch.sync, rig.answers[-1], len(rig.commit.postponed()))

    assert syncs == {
        None: (True, "done", 0),
        "acknowledges-before-sync": (False, "done", 1),
        "never-syncs-acknowledgements": (False, "done", 0),
    }


def test_what_is_never_synced():
    """Ten sends are answered, and no batch of them asks for a sync."""
    syncs = {}
    for name in (None, "never-syncs-confirms"):
        rig = Rig(behaviour=behaviour(name))
        for number in range(10):
            rig.send(b"%d" % number)
        batch = rig.commit.take()
        rig.commit.finished()
        syncs[name] = (batch.sync, rig.answers, rig.commit.postponed())

    assert syncs == {None: (True, ["done"] * 10, []), "never-syncs-confirms": (False, ["done"] * 10, [])}
