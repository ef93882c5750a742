"""Each liar beside the honest broker: the same script, and exactly one difference.

Every script returns what it saw; `HONEST` and `LIES` are the two expected answers. A script is also run against every
other liar where that liar must not be seen: a liar is wrong in one way only.
"""

from __future__ import annotations

import pathlib

import pytest
from proton import Delivery

from conformance.reference.liars import LIARS, behaviour

COUNT = 250
_TRANSACTIONAL = 0x34
DISK_POINTS = {"answered", "ignores_failed_syncs", "ignores_full_disk", "records_rollbacks"}
AT_THE_DISK = [name for name, lie in LIARS.items() if lie.needs == "standard" and lie.overrides.keys() & DISK_POINTS]


def answers(broker, client):
    """Which of 120 sends are never answered; the depth after them."""
    sent = client.send(120)
    link = sent[0].link
    client.wait(lambda: sum(d.settled for d in sent) >= 119)
    client.barrier()
    assert link.credit > 0
    return [n for n, d in enumerate(sent, 1) if not d.settled], broker.depth(client.queue)


def drained(broker, client):
    """Which of 250 a drain does not deliver, and how deep the queue is then."""
    client.publish(COUNT)
    box = client.drain()
    told = broker.get(f"/queues/{client.queue}")
    depth = {name: told[name] for name in ("depth", "unacknowledged")}
    return sorted(set(range(1, COUNT + 1)) - set(box.bodies)), depth


def unacknowledged(broker, client):
    """Ten are delivered and none is acknowledged: what is left."""
    client.publish(10)
    client.receive(10)
    client.barrier()
    return broker.depth(client.queue)


def one_of_ten(broker, client):
    """Ten are delivered and the fourth is acknowledged: what is left."""
    client.publish(10)
    box = client.receive(10)
    client.accept([box.got[3][1]])
    client.barrier()
    return broker.depth(client.queue)


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
    return {n: s for n, s in seen.items() if s not in ([("ACCEPTED", True)], [])}, broker.depth(client.queue)


def sent_and_committed(broker, client):
    """What a drain delivers while the transaction is open, and what another does after the commit."""
    control = client.control()
    identity = control.begin()
    control.send(identity, [1, 2])
    client.barrier()
    before = client.drain().bodies
    control.end(identity)
    return before, client.drain().bodies


def settled_and_rolled_back(broker, client):
    """One of two is accepted in a transaction that is rolled back, the consumer goes away: what another gets."""
    client.publish(2)
    box = client.receive(2)
    control = client.control()
    identity = control.begin()
    control.settle(identity, [box.got[0][1]])
    control.end(identity, fail=True)
    box.link.close()
    client.wait(lambda: bool(box.link.state & box.link.REMOTE_CLOSED))
    return client.drain().bodies


def never_discharged(broker, client):
    """The control link ends: how deep the queue is afterwards."""
    control = client.control()
    control.send(control.begin(), [1])
    control.link.close()
    client.wait(lambda: bool(control.link.state & control.link.REMOTE_CLOSED))
    client.barrier()
    return broker.depth(client.queue)


def rolled_back(broker, client):
    """The answer to a rollback."""
    control = client.control()
    return control.end(control.begin(), fail=True)


def returned(state, **said):
    """A script: one message is given back; what comes again, with its delivery-count."""

    def script(broker, client):
        client.publish(1)
        client.outcome(client.receive(1).got[0][1], state, **said)
        return [(message.body, message.delivery_count) for message, _ in client.drain().got]

    return script


def undeliverable(broker, client):
    """What a link is sent that says undeliverable-here and gives credit for one more."""
    client.publish(1)
    box = client.receive(1)
    client.outcome(box.got[0][1], Delivery.MODIFIED, elsewhere=True)
    box.link.flow(1)
    client.barrier()
    return box.bodies


def sent_settled(broker, client):
    """Three are sent settled, the consumer goes away: what another gets."""
    client.publish(3)
    box = client.inbox(3, settled=True)
    client.wait(lambda: len(box.got) == 3)
    box.link.close()
    client.wait(lambda: bool(box.link.state & box.link.REMOTE_CLOSED))
    client.barrier()
    return client.drain().bodies


def sent_settled_only(broker, client):
    """Twenty are sent settled to a link with credit for 15, which goes away: what it got, and what another gets."""
    client.publish(20)
    box = client.inbox(15, settled=True)
    client.barrier()
    box.link.close()
    client.wait(lambda: bool(box.link.state & box.link.REMOTE_CLOSED))
    client.barrier()
    return box.bodies, client.drain().bodies


def left(broker, client):
    """A consumer acknowledges the first of three and goes away: what another gets."""
    client.publish(3)
    box = client.receive(1)
    client.outcome(box.got[0][1], Delivery.ACCEPTED)
    box.link.close()
    client.wait(lambda: bool(box.link.state & box.link.REMOTE_CLOSED))
    client.barrier()
    return client.drain().bodies


released, failed = returned(Delivery.RELEASED), returned(Delivery.MODIFIED, failed=True)
rejected = returned(Delivery.REJECTED)
DONE = (Delivery.ACCEPTED, None)
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
    "delivers-before-commit": (sent_and_committed, ([], [1, 2]), ([1, 2], [])),
    "acknowledges-before-commit": (settled_and_rolled_back, [1, 2], [2]),
    "commits-when-link-closes": (never_discharged, 0, 1),
    "refuses-rollbacks": (rolled_back, DONE, (Delivery.REJECTED, "amqp:internal-error")),
    "drops-released": (released, [(1, 0)], []),
    "counts-releases": (released, [(1, 0)], [(1, 1)]),
    "requeues-rejected": (rejected, [], [(1, 0)]),
    "never-counts-failures": (failed, [(1, 1)], [(1, 0)]),
    "ignores-undeliverable-here": (undeliverable, [1], [1, 1]),
    "requeues-settled": (sent_settled, [], [1, 2, 3]),
    "drops-some-of-what-it-sends-settled": (
        sent_settled_only,
        ([*range(1, 16)], [*range(16, 21)]),
        ([*range(1, 10), *range(11, 17)], [*range(17, 21)]),
    ),
    "empties-a-queue-without-consumers": (left, [2, 3], []),
    "never-marks-redelivered": (failed, [(1, 1)], [(1, 0)]),
}

RECOVERED = {"recovers-half-a-transaction", "commits-half-of-its-acknowledgements", "commits-one-queue"}
"""Seen after a restart only: see `test_half_a_transaction_is_recovered`, and those after it."""

REFUSING = {"hides-refusals-in-transactions", "refuses-outside-the-transaction"}
"""Seen at a full queue only: see `test_a_refusal_in_a_transaction_is_part_of_it`."""

# What lies about the disk has its cases in `test_liars_storing`.

OVER_STOMP = {
    "client-ack-is-individual",
    "individual-ack-is-cumulative",
    "answers-every-hundredth-frame-twice",
    "ignores-prefetch",
    "never-refills-prefetch",
}
"""Their scripts stand with the tests of STOMP."""


def test_every_liar_has_a_case():
    """No liar without a proof that it lies."""
    here = pathlib.Path(__file__)
    others = "".join(path.read_text() for path in here.parent.glob("test_*.py") if path.name != here.name)

    assert {*CASES, *RECOVERED, *REFUSING, *OVER_STOMP, *AT_THE_DISK} <= set(LIARS)
    shown = {name for name in LIARS if f'"{name}"' in others}
    assert {*CASES, *RECOVERED, *REFUSING, *OVER_STOMP, *shown} == set(LIARS)


@pytest.mark.parametrize("name", CASES)
def test_a_liar_is_seen_and_the_honest_broker_is_not(start, for_all, peer, name):
    """The same script tells the two apart."""
    script, honest, lies = CASES[name]
    liar = start(f"--liar={name}")

    assert script(for_all, peer(for_all, name)) == honest
    assert script(liar, peer(liar)) == lies


SEEN_BY_OTHERS = {
    ("requeues-settled", sent_settled_only),
    ("removes-when-sending", left),
    # These scripts end one consumer before the next.
    ("empties-a-queue-without-consumers", settled_and_rolled_back),
    ("empties-a-queue-without-consumers", sent_settled_only),
    # What is removed when it is sent cannot come back, so this script sees another liar's lie too.
    ("removes-when-sending", one_of_ten),
    ("removes-when-sending", second_delivery),
    ("removes-when-sending", drained),
    # Every send is answered but one, so a script that waits for all answers cannot end.
    ("never-answers-one-send", drained),
    ("never-answers-one-send", all_acknowledged),
    ("never-answers-one-send", dispositions),
    ("never-answers-one-send", sent_settled_only),  # the fiftieth send since the start
    ("accepts-then-rejects", answers),
    ("accepts-then-rejects", drained),
    ("accepts-then-rejects", all_acknowledged),
    ("always-first-acquirer", second_delivery),
    ("removes-when-sending", settled_and_rolled_back),
    ("removes-when-sending", released),
    ("removes-when-sending", failed),
    ("removes-when-sending", undeliverable),
    ("drops-released", second_delivery),
    ("drops-released", released),
    ("counts-releases", released),
    ("counts-from-one", released),
    ("counts-from-one", failed),
    ("never-counts-failures", failed),
    ("never-marks-redelivered", failed),
    # What is offered at once does not wait for the control link either.
    ("delivers-before-commit", never_discharged),
}

LONG = (answers, drained, all_acknowledged, dispositions)
"""Scripts long enough to meet a lie that comes once in 100; all others together send fewer than 50."""

COUNTED = {
    "never-answers-one-send",
    "skips-every-hundredth-delivery",
    "forgets-every-hundredth-acknowledgement",
    "accepts-then-rejects",
    "confirms-every-tenth-before-storing",
}
"""Liars that count: with them a long script has a broker of its own, so that it meets the lie where it expects it."""


@pytest.mark.parametrize("name", [*CASES, *(name for name in AT_THE_DISK if name.endswith("before-storing"))])
def test_a_liar_is_honest_in_everything_else(start, peer, name):
    """Every other script gives the honest answer, on a queue of its own."""
    shared = start(f"--liar={name}", data="shared")
    for other, (script, honest, _) in CASES.items():
        if other == name or (name, script) in SEEN_BY_OTHERS:
            continue
        alone = script in LONG and name in COUNTED
        broker = start(f"--liar={name}", data=other) if alone else shared
        assert script(broker, peer(broker, other)) == honest, other


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


@pytest.mark.parametrize(
    ("liar", "bodies"), [((), [1, 2, 3, 4, 5]), (("--liar=recovers-half-a-transaction",), [1, 2, 3])]
)
def test_half_a_transaction_is_recovered(start, peer, liar, bodies):
    """While it lives the whole transaction is there; after a kill, only what was sent first."""
    broker = start(*liar)
    client = peer(broker)
    control = client.control()
    identity = control.begin()
    control.send(identity, range(1, 6))

    assert control.end(identity) == DONE
    assert client.drain().bodies == [1, 2, 3, 4, 5]
    broker.kill()
    assert peer(start()).drain().bodies == bodies


def test_a_commit_to_one_queue_is_whole_and_one_to_two_is_not():
    """Of one queue the liar stores everything."""
    lie = behaviour("commits-one-queue")

    assert [lie.stores_send(place, 4, first_queue=True) for place in range(4)] == [True] * 4
    assert [lie.stores_send(place, 4, first_queue=place % 2 == 0) for place in range(4)] == [True, False] * 2


@pytest.mark.parametrize(("liar", "bodies"), [((), []), (("--liar=commits-half-of-its-acknowledgements",), [3, 4])])
def test_half_of_the_acknowledgements_is_recovered(start, peer, liar, bodies):
    """While it lives all four are gone; after a kill the half that was acknowledged last comes again."""
    broker = start(*liar)
    client = peer(broker)
    client.publish(4)
    box = client.receive(4)
    control = client.control()
    identity = control.begin()
    control.settle(identity, [delivery for _, delivery in box.got])

    assert control.end(identity) == DONE
    assert broker.depth() == 0
    broker.kill()
    assert peer(start()).drain().bodies == bodies


@pytest.mark.parametrize(
    ("liar", "told"),
    [
        ((), (_TRANSACTIONAL, Delivery.REJECTED, "amqp:resource-limit-exceeded")),
        (("--liar=refuses-outside-the-transaction",), (Delivery.REJECTED, None, "amqp:resource-limit-exceeded")),
        (("--liar=hides-refusals-in-transactions",), (_TRANSACTIONAL, Delivery.ACCEPTED, None)),
    ],
)
def test_a_refusal_in_a_transaction_is_part_of_it(start, peer, liar, told):
    """The third of three sends finds a full queue; the commit takes the two others."""
    client = peer(start("--set=max_length=2", *liar))
    control = client.control()
    identity = control.begin()
    refused = control.send(identity, [1, 2, 3])[2].remote

    inner, named = None, refused.condition and refused.condition.name
    if refused.data:
        of, outcome = refused.data
        assert bytes(of) == identity
        inner, errors = int(outcome.descriptor), list(outcome.value)
        named = errors[0].value[0] if errors else None
    assert (refused.type, inner, named) == told
    assert control.end(identity) == DONE
    assert client.drain().bodies == [1, 2]


@pytest.mark.parametrize(("liar", "bodies"), [((), [1]), (("--liar=commits-when-link-closes",), [2])])
def test_what_is_committed_by_the_end_of_a_connection_has_its_acknowledgements(start, peer, liar, bodies):
    """The liar commits the whole transaction: the consumer's link ends after it."""
    broker = start(*liar)
    client, other = peer(broker), peer(broker)
    client.publish(1)
    box = client.receive(1)
    control = client.control()
    identity = control.begin()
    control.send(identity, [2])
    control.settle(identity, [box.got[0][1]])
    client.close()
    other.barrier()

    assert other.drain().bodies == bodies


def test_a_skipped_message_is_skipped_after_a_restart_too(start, peer):
    """The number is stored with the message."""
    liar = start("--liar=skips-every-hundredth-delivery")
    peer(liar).publish(150)
    liar.kill()
    again = start("--liar=skips-every-hundredth-delivery")

    assert set(range(1, 151)) - set(peer(again).drain().bodies) == {100}
