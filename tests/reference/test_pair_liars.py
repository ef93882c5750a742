"""Each liar of a pair beside the honest pair: the same script, and exactly one difference."""

from __future__ import annotations

import pytest
from proton import Delivery, Timeout
from starts import starts_process

from conformance.errors import UsageError
from conformance.reference import liars
from conformance.reference.command import main
from conformance.reference.honest import Honest
from conformance.reference.liars.pair import PAIRED

from .pair_rig import ACTIVE, OUT_OF_STEP, Pair


@pytest.fixture
@starts_process
def pair(tmp_path, request):
    """Makes one pair in which both members are the given liar, or honest for None."""
    made = []

    def one(liar):
        made.append(Pair(tmp_path, *([f"--liar={liar}"] if liar else [])))
        return made[-1]

    yield one
    for each in made:
        each.end()


def bodies(broker, client):
    return [message.body for message, _ in client(broker).drain().got]


def confirmed(pair, client):
    """Three sends are confirmed, and the active member dies at once: what the other one has."""
    one, two = pair.both()
    client(one).publish(3)
    one.kill()
    return bodies(two.serves(), client)


def acknowledged(pair, client):
    """Two of three are acknowledged and confirmed: what comes from the other member."""
    one, two = pair.both()
    talk = client(one)
    talk.publish(3)
    talk.accept(delivery for _, delivery in talk.receive(2).got)
    one.kill()
    return bodies(two.serves(), client)


def out_of_step(pair, client):
    """The standby was dead while the active member confirmed; then it starts alone: what it has, if it serves."""
    one, two = pair.both()
    two.kill()
    one.await_line(OUT_OF_STEP.format(2))
    client(one).publish(3)
    one.kill()
    two = pair.start(2)
    if two.await_line(f"{ACTIVE.format(2)}|.*does not take over.*")[0] != ACTIVE.format(2):
        return "waits"
    two._next = 0
    return bodies(two.serves(), client)


def committed(pair, client):
    """A transaction of four sends is committed: what of it is there."""
    one, two = pair.both()
    control = client(one).control()
    identity = control.begin()
    control.send(identity, [1, 2, 3, 4])
    assert control.end(identity)[0] == Delivery.ACCEPTED
    one.kill()
    return bodies(two.serves(), client)


def missed(pair, client):
    """The standby dies, misses three sends, and comes back; then it takes over: what it has."""
    one, two = pair.both()
    two.kill()
    one.await_line(OUT_OF_STEP.format(2))
    client(one).publish(3)
    two = pair.start(2).follows()
    one.kill()
    return bodies(two.serves(), client)


def alone(pair, client):
    """The standby dies, and the active member is sent a message: whether it is confirmed."""
    one, two = pair.both()
    two.kill()
    one.await_line(OUT_OF_STEP.format(2))
    talk = client(one)
    sent = talk.send(1)
    try:
        talk.connection.wait(lambda: sent[0].settled, timeout=1)
    except Timeout:
        return "silent"
    return "confirmed"


CASES = {
    "confirms-nothing-alone": (alone, "confirmed", "silent"),
    "in-step-without-what-it-missed": (missed, [1, 2, 3], []),
    "confirms-before-its-replica": (confirmed, [1, 2, 3], []),
    "forgets-acknowledgements-at-failover": (acknowledged, [3], [1, 2, 3]),
    "stale-replica-takes-over": (out_of_step, "waits", []),
    "replicates-half-a-transaction": (committed, [1, 2, 3, 4], [1]),
}


NOWHERE_HONEST = ("confirms-before-its-replica", "confirms-nothing-alone")
"""One sends nothing in time, and one confirms nothing without a standby: these show in other scripts too."""


@pytest.mark.parametrize("name", CASES)
def test_the_honest_pair(pair, peer, name):
    script, honest, _ = CASES[name]

    assert script(pair(None), peer) == honest


@pytest.mark.parametrize("name", CASES)
def test_a_liar_shows_its_defect(pair, peer, name):
    script, _, lie = CASES[name]

    assert script(pair(name), peer) == lie


@pytest.mark.parametrize(
    ("name", "other"),
    [(name, other) for name in CASES if name not in NOWHERE_HONEST for other in CASES if name != other],
)
def test_a_liar_is_wrong_in_one_way(pair, peer, name, other):
    """In the script of another liar it is honest."""
    script, honest, _ = CASES[other]

    assert script(pair(name), peer) == honest


def test_every_liar_of_a_pair_has_a_case():
    assert set(CASES) == set(PAIRED)


@pytest.mark.parametrize("name", PAIRED)
def test_a_liar_of_a_pair_needs_a_pair(name):
    with pytest.raises(UsageError, match=f"--liar {name} lies as a member of a pair: give --pair too"):
        liars.behaviour(name)
    assert type(liars.behaviour(name, in_pair=True)) is Honest


PAIR_WORDS = ("--member=1", "--replication=127.0.0.1:1", "--peer=127.0.0.1:2")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--pair=x"], "--pair, --member, --replication and --peer: give all four or none"),
        (PAIR_WORDS, "--pair, --member, --replication and --peer: give all four or none"),
        (["--pair=x", *PAIR_WORDS, "--peer=nowhere"], "nowhere is no address: expected HOST:PORT"),
        (["--pair=x", *PAIR_WORDS, "--member=3"], "--member"),
        (["--pair=x", *PAIR_WORDS, "--replication-s=0"], "--replication-s 0.0: expected seconds above 0"),
        (["--liar=stale-replica-takes-over"], "give --pair too"),
    ],
)
def test_a_wrong_word_about_a_pair_is_4(tmp_path, capsys, words, hint):
    """One line says what was expected."""
    try:
        code = main([f"--data={tmp_path}", *words])
    except SystemExit as ended:
        code = ended.code

    assert (code, hint in capsys.readouterr().err) == (4, True)
