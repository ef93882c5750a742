"""Duplicate detection by the id that a sender gave: `_AMQ_DUPL_ID`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Message, symbol

from conformance.reference.core.duplicates import Identities, identity
from conformance.reference.core.sections import parse
from conformance.reference.liars import behaviour
from conformance.reference.stomp.message import store

from .queue_rig import Rig, identified

FULL = "amqp:resource-limit-exceeded"


def bare(**properties):
    """A message as proton encodes it, without its header."""
    return parse(bytes(Message(body="_AMQ_DUPL_ID", id="i", subject="s", **properties).encode())).bare


def test_the_same_id_is_stored_once():
    """The second is answered as accepted; another queue knows nothing of it."""
    rig = Rig("q", "other")
    rig.send(identified("a"))
    rig.send(identified("a", b"again"))
    rig.send(identified("b"))
    rig.send(identified("a"), queue="other")
    rig.disk()
    rig.send(identified("a"))

    assert rig.answers == ["done"] * 5
    assert (rig.bodies(), len(rig.bodies("other"))) == ([identified("a"), identified("b")], 1)
    assert (rig.queue.duplicates, len(rig.on_disk())) == (2, 3)


def test_a_duplicate_is_answered_only_when_the_first_copy_is_on_the_disk():
    """Both wait for the same write."""
    rig = Rig()
    rig.send(identified("a"))
    rig.send(identified("a"))
    assert rig.answers == [None, None]
    rig.disk()

    assert rig.answers == ["done", "done"]


def test_a_duplicate_of_what_could_not_be_stored_is_refused_too():
    """Else it would be confirmed, and neither is there; a third may then be stored."""
    rig = Rig()
    rig.send(identified("a"))
    rig.send(identified("a"))
    rig.no_room()
    rig.disk()
    assert rig.answers == [FULL, FULL]
    rig.commit.room(True)
    rig.send(identified("a"))
    rig.disk()

    assert (rig.answers[2], len(rig.on_disk())) == ("done", 1)


def test_a_duplicate_needs_no_room():
    """It is not stored: neither a full queue nor a full disk refuses it."""
    rig = Rig("q:max_length=1")
    rig.send(identified("a"))
    rig.disk()
    rig.commit.room(False)
    rig.send(identified("a"))
    rig.send(identified("b"))

    assert rig.answers == ["done", "done", FULL]


def test_ids_survive_a_restart_also_of_what_was_consumed():
    """The record of the message has its id, and outlives it."""
    rig = Rig()
    rig.send(identified("a"))
    rig.disk()
    link, _ = rig.link()
    rig.settle(link, 1)
    rig.disk()
    again = rig.again("q")
    again.send(identified("a"))

    assert (again.answers, again.queue.depth, again.queue.duplicates) == (["done"], 0, 1)


def test_an_id_is_remembered_no_longer_than_its_message_could_be():
    """What is not durable is gone after a restart: to call its second copy a duplicate would lose both."""
    rig = Rig()
    rig.send(identified("a"), durable=False)
    rig.send(identified("a"), durable=False)
    assert rig.queue.depth == 1
    again = rig.again("q")
    again.send(identified("a"), durable=False)

    assert again.queue.depth == 1


@pytest.mark.parametrize(("limit", "stored"), [(0, 4), (1, 4), (2, 3), (3, 3)])
def test_only_the_last_ids_are_remembered(limit, stored):
    """`duplicate_ids=N`: a, b, c and a again; before a restart and after it."""
    rig = Rig(f"q:duplicate_ids={limit}")
    for name in "ab":
        rig.send(identified(name))
        rig.disk()
    rig.send(identified("a"))
    rig.disk()
    again = rig.again(f"q:duplicate_ids={limit}")
    again.send(identified("c"))
    again.disk()
    again.send(identified("b"))
    again.disk()

    known = {0: 5, 1: 5, 2: 3, 3: 3}
    assert again.queue.depth == known[limit]
    assert len(again.queue.identities or ()) <= limit


def test_a_transaction_brings_its_ids_with_its_commit():
    """Not before, and not after a rollback; one record holds both."""
    rig = Rig()
    undone, done = rig.broker.begin(), rig.broker.begin()
    rig.send(identified("a"), undone)
    rig.broker.rollback(undone, lambda: None)
    rig.send(identified("a"), done)
    rig.send(identified("a", b"twice"), done)
    rig.send(identified("b"), done)
    rig.commits(done)
    rig.disk()
    rig.send(identified("a"))
    rig.send(identified("b"))

    assert rig.bodies() == [identified("a"), identified("b")]
    assert (rig.queue.duplicates, rig.queue.arriving, len(rig.on_disk())) == (3, 0, 2)
    again = rig.again("q")
    again.send(identified("b"))
    assert (again.answers, again.queue.depth) == (["done"], 2)


def test_a_commit_leaves_out_what_was_stored_in_the_meantime():
    """And stores the rest."""
    rig = Rig()
    transaction = rig.broker.begin()
    rig.send(identified("a", b"inside"), transaction)
    rig.send(identified("b", b"inside"), transaction)
    rig.send(identified("a", b"outside"))
    rig.disk()
    rig.commits(transaction)
    rig.disk()

    assert rig.bodies() == [identified("a", b"outside"), identified("b", b"inside")]
    assert rig.answers == ["done"] * 4


@pytest.mark.parametrize("room", [True, False])
def test_a_commit_waits_for_a_first_copy_that_is_on_its_way(room):
    """If that one is refused, the commit has the message; if it is stored, the commit leaves it out."""
    rig = Rig()
    transaction = rig.broker.begin()
    rig.send(identified("a", b"inside"), transaction)
    rig.send(identified("a", b"outside"))
    rig.commits(transaction)
    if not room:
        rig.no_room()
        rig.commit.room(True)
    rig.disk()

    assert rig.bodies() == [identified("a", b"outside" if room else b"inside")]
    assert rig.answers == ["done", "done" if room else FULL, "done"]


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("liar", [None, "mistakes-duplicate-ids"])
def test_a_transaction_that_is_sent_again_is_stored_once(liar, stored):
    """Whether the power went after its commit or before it; the liar has it twice, or not at all."""
    rig = Rig(behaviour=behaviour(liar))
    transaction = rig.broker.begin()
    rig.send(identified("a"), transaction)
    if stored:
        rig.commits(transaction)
    rig.disk()
    again = rig.again("q")
    transaction = again.broker.begin()
    again.send(identified("a"), transaction)
    again.commits(transaction)
    again.disk()

    assert (again.answers, again.queue.depth) == (["done", "done"], 1 if liar is None else 2 * stored)


@given(st.text(min_size=1, max_size=300))
def test_both_protocols_name_it_alike(name):
    """An application property of AMQP, a header of STOMP: the same id, of any length."""
    over_amqp = identity(bare(properties={"n": 1, "_AMQ_DUPL_ID": name, "l": [1, {"x": b"y"}]}))
    over_stomp = identity(store({"x": "y", "_AMQ_DUPL_ID": name, "content-type": "text/plain"}, b"body").bare)

    assert over_amqp == over_stomp != None  # noqa: E711
    assert len(over_amqp) <= 128


def test_ids_of_one_text_are_one_id_and_others_are_not():
    """Text, symbol and bytes are compared by their bytes; a number is not the text of it."""
    same = {identity(bare(properties={"_AMQ_DUPL_ID": value})) for value in ("7", b"7", symbol("7"))}
    numbers = {identity(bare(properties={"_AMQ_DUPL_ID": value})) for value in (7, 8)}

    assert (same, len(numbers), same & numbers) == ({b"7"}, 2, set())
    assert identity(bare(properties={"_AMQ_DUPL_ID": "x" * 300})) != identity(
        bare(properties={"_AMQ_DUPL_ID": "x" * 301})
    )


@pytest.mark.parametrize(
    "encoded",
    [
        bare(),
        bare(properties={"other": "_AMQ_DUPL_ID"}),
        bare(annotations={symbol("_AMQ_DUPL_ID"): "x"}),
        b"_AMQ_DUPL_ID",
        b"\x00\x53\x74\xc1\xff\x02_AMQ_DUPL_ID",
        b"\x00",
    ],
)
def test_a_message_without_one_has_none(encoded):
    """Where the name stands elsewhere, in a body or in what cannot be read."""
    assert identity(encoded) is None


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_have_an_id_or_none(before, after):
    """Never an exception, and never a walk without an end."""
    for head in (b"", b"\x00\x53\x74\xc1", b"\x00\x53\x74\xd1"):
        identity(head + before + b"_AMQ_DUPL_ID" + after)


def test_deep_nesting_is_no_id():
    """A hundred thousand described values in each other end in none, not in a broken broker."""
    assert identity(b"\x00" * 100_000 + b"_AMQ_DUPL_ID") is None


def test_the_window_holds_no_more_than_its_limit():
    """However many pass."""
    window = Identities(10)
    for n in range(1000):
        window.arrives(b"%d" % n)
        window.stored(b"%d" % n)

    assert (len(window), window.known(b"989"), window.known(b"990")) == (10, False, True)
