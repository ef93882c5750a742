"""Each liar beside the honest broker: the same script, and exactly one difference.

Every script returns what it saw; `HONEST` and `LIES` are the two expected answers. A script is also run against every
other liar where that liar must not be seen: a liar is wrong in one way only.
"""

from __future__ import annotations

import pytest
from proton import Delivery

from conformance.reference.liars import LIARS

COUNT = 250


def answers(broker, client):
    """Which of 120 sends are never answered; the depth after them."""
    sent = client.send(120)
    link = sent[0].link
    client.wait(lambda: sum(d.settled for d in sent) >= 119)
    client.barrier()
    assert link.credit > 0
    return [n for n, d in enumerate(sent, 1) if not d.settled], broker.depth()


def drained(broker, client):
    """Which of 250 a drain does not deliver, and how deep the queue is then."""
    client.publish(COUNT)
    box = client.drain()
    return sorted(set(range(1, COUNT + 1)) - set(box.bodies)), broker.get("/queues/q")


def unacknowledged(broker, client):
    """Ten are delivered and none is acknowledged: what is left."""
    client.publish(10)
    client.receive(10)
    client.barrier()
    return broker.depth()


def one_of_ten(broker, client):
    """Ten are delivered and the fourth is acknowledged: what is left."""
    client.publish(10)
    box = client.receive(10)
    client.accept([box.got[3][1]])
    client.barrier()
    return broker.depth()


def all_acknowledged(broker, client):
    """250 are acknowledged and confirmed, the consumer goes away: what another gets."""
    client.publish(COUNT)
    box = client.inbox(COUNT)
    client.wait(lambda: len(box.got) >= COUNT - 2)
    client.accept(delivery for _, delivery in box.got)
    box.link.close()
    client.wait(lambda: bool(box.link.state & box.link.REMOTE_CLOSED))
    return [body for body in client.drain().bodies if body in box.bodies]


def first_delivery(broker, client):
    """delivery-count and first-acquirer of a first delivery."""
    client.publish(1)
    message = client.receive(1).got[0][0]
    return message.delivery_count, message.first_acquirer


def second_delivery(broker, client):
    """first-acquirer of a delivery after a release."""
    client.publish(1)
    client.outcome(client.receive(1).got[0][1], Delivery.RELEASED)
    return client.receive(1).got[0][0].first_acquirer


def dispositions(broker, client):
    """The answers to 250 sends that are not simply accepted and settled, in their order; the depth."""
    sent = client.send(COUNT)
    seen = {}

    def all_settled():
        for number, delivery in enumerate(sent, 1):
            states = seen.setdefault(number, [])
            now = (delivery.remote_state.name, delivery.settled) if delivery.remote_state else None
            if now is not None and states[-1:] != [now]:
                states.append(now)
        return all(d.settled for d in sent if d is not sent[49])

    client.wait(all_settled)
    return {n: s for n, s in seen.items() if s not in ([("ACCEPTED", True)], [])}, broker.depth()


TWICE = [("ACCEPTED", False), ("REJECTED", True)]

CASES = {
    "never-answers-one-send": (answers, ([], 120), ([50], 120)),
    "skips-every-hundredth-delivery": (
        drained,
        ([], {"depth": 250, "unacknowledged": 250}),
        ([100, 200], {"depth": 250, "unacknowledged": 248}),
    ),
    "removes-when-sending": (unacknowledged, 10, 0),
    "acknowledge-takes-later": (one_of_ten, 9, 3),
    "forgets-every-hundredth-acknowledgement": (all_acknowledged, [], [100, 200]),
    "counts-from-one": (first_delivery, (0, True), (1, True)),
    "always-first-acquirer": (second_delivery, False, True),
    "accepts-then-rejects": (dispositions, ({}, 250), ({100: TWICE, 200: TWICE}, 250)),
}


def test_every_liar_has_a_case():
    """No liar without a proof that it lies."""
    assert list(CASES) == list(LIARS)


@pytest.mark.parametrize("name", CASES)
def test_a_liar_is_seen_and_the_honest_broker_is_not(start, peer, name):
    """The same script tells the two apart."""
    script, honest, lies = CASES[name]
    with_honest, with_liar = start(data="honest"), start(f"--liar={name}", data="liar")

    assert script(with_honest, peer(with_honest)) == honest
    assert script(with_liar, peer(with_liar)) == lies


SEEN_BY_OTHERS = {
    # What is removed when it is sent cannot come back, so this script sees another liar's lie too.
    ("removes-when-sending", one_of_ten),
    ("removes-when-sending", second_delivery),
    ("removes-when-sending", drained),
    # Every send is answered but one, so a script that waits for all answers cannot end.
    ("never-answers-one-send", drained),
    ("never-answers-one-send", all_acknowledged),
    ("never-answers-one-send", dispositions),
    ("accepts-then-rejects", answers),
    ("accepts-then-rejects", drained),
    ("accepts-then-rejects", all_acknowledged),
    ("always-first-acquirer", second_delivery),
}


@pytest.mark.parametrize("name", CASES)
def test_a_liar_is_honest_in_everything_else(start, peer, name):
    """Every other script gives the honest answer."""
    for number, (other, (script, honest, _)) in enumerate(CASES.items()):
        if other == name or (name, script) in SEEN_BY_OTHERS:
            continue
        broker = start(f"--liar={name}", data=f"data-{number}")
        assert script(broker, peer(broker)) == honest, other


@pytest.mark.parametrize(
    ("name", "left"), [("removes-when-sending", 0), ("skips-every-hundredth-delivery", 10), ("counts-from-one", 10)]
)
def test_what_a_liar_removes_is_removed_durably(start, peer, name, left):
    """The removal when sending survives a kill, so that a restart does not undo the lie."""
    liar = start(f"--liar={name}")
    client = peer(liar)
    client.publish(10)
    client.receive(10)
    client.barrier()
    liar.kill()

    assert start().depth() == left


def test_a_skipped_message_is_skipped_after_a_restart_too(start, peer):
    """The number is stored with the message."""
    liar = start("--liar=skips-every-hundredth-delivery")
    peer(liar).publish(150)
    liar.kill()
    again = start("--liar=skips-every-hundredth-delivery")

    assert set(range(1, 151)) - set(peer(again).drain().bodies) == {100}
