"""What is typed of queues: `--queue NAME:option=value,...`, and `--set` for all of them."""

from __future__ import annotations

import pytest

from conformance.errors import UsageError
from conformance.reference.settings import OPTIONS, QueueOptions, Settings, describe, parse, parse_queues

from .queue_rig import Rig


def test_a_name_alone_has_the_options_of_all():
    """Plain `--queue NAME`: what `--set` says, for every option."""
    chosen = parse(["max_length=7", "dead_letter=Dead", "durable=false"])

    assert parse_queues(["q"], chosen) == {"q": QueueOptions(durable=False, max_length=7, dead_letter="Dead")}


def test_an_option_of_a_queue_goes_before_the_option_of_all():
    """And those that it does not have stay."""
    chosen = parse(["max_length=7", "ttl_ms=5"])

    assert parse_queues(["q:max_length=9,max_deliveries=3"], chosen)["q"] == QueueOptions(
        max_length=9, max_deliveries=3, ttl_ms=5
    )


@pytest.mark.parametrize(
    ("word", "name", "letters"),
    [
        ("a:b", "a:b", "DLQ"),
        ("a:b:dead_letter=c:d", "a:b", "c:d"),
        ("a::dead_letter=x=y", "a:", "x=y"),
        ("https://h/q:dead_letter=x", "https://h/q", "x"),
        ("q=1", "q=1", "DLQ"),
    ],
)
def test_a_name_may_have_colons(word, name, letters):
    """It ends where an option follows."""
    assert [(key, options.dead_letter) for key, options in parse_queues([word], Settings()).items()] == [
        (name, letters)
    ]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["q:max_lenght=3"], "did you mean 'max_length'?"),
        (["q:persistence=false"], "unknown option of queue q 'persistence'"),
        (["q:max_length=-1"], "option of queue q max_length: '-1' is not a whole number"),
        (["q:max_length=\u0663"], "is not a whole number"),
        (["q:durable=no"], "is not true or false"),
        (["q:dead_letter="], "give its name"),
        (["q:dead_letter=" + "x" * 256], "255 bytes at most"),
        ([":ttl_ms=1"], "1 to 255 bytes"),
        (["\u00e4" * 128], "1 to 255 bytes"),
        (["q:ttl_ms=1", "q:ttl_ms=2"], "named twice"),
        (["q:ttl_ms=1,"], "unknown option of queue q ''"),
    ],
)
def test_a_wrong_word_says_what_is_right(words, hint):
    """An unknown option, a value of the wrong kind, a name that the journal cannot hold."""
    with pytest.raises(UsageError) as error:
        parse_queues(words, Settings())

    assert hint in str(error.value)


def test_every_option_of_a_queue_is_a_setting():
    """Each can be given for all, is described, and does not lose its capitals there."""
    assert all(f"\n  {name}=" in f"\n{describe()}" for name in OPTIONS)
    assert "dead_letter=DLQ\n" in describe()


def test_the_same_word_twice_is_one_queue():
    """As it always was."""
    assert list(parse_queues(["q", "r", "q"], Settings())) == ["q", "r"]


def test_a_queue_that_is_not_durable_is_forgotten():
    """Neither the queue nor its messages are on the disk, also if the messages are durable."""
    rig = Rig("q:durable=false", "kept")
    rig.send(durable=True)
    rig.send(durable=True, queue="kept")
    rig.disk()

    assert (rig.answers, rig.queue.depth) == (["done", "done"], 1)
    assert rig.on_disk() == [("kept", b"x", 0)]
    assert list(rig.again("other").broker.names()) == ["kept", "other"]


def test_a_durable_queue_cannot_become_another():
    """What it has would be in the journal for ever, and in no queue."""
    rig = Rig("q")
    with pytest.raises(UsageError, match="queue q: durable=false, and the data directory has it"):
        rig.again("q:durable=false")

    assert rig.again("r", durable=False).broker.known("q").durable


def test_the_largest_message():
    """One byte more than max_message_bytes is refused by the name of AMQP 1.0 section 2.8.17, and leaves nothing."""
    rig = Rig(max_message_bytes=5)
    rig.send(b"12345")
    rig.send(b"123456")
    rig.send(b"123456", rig.broker.begin())
    rig.disk()

    assert rig.answers == ["done", "amqp:link:message-size-exceeded", "amqp:link:message-size-exceeded"]
    assert (rig.bodies(), rig.queue.bytes, rig.queue.refused) == ([b"12345"], 5, 2)


@pytest.mark.parametrize("transacted", [False, True])
def test_a_queue_gets_copies_of_what_is_sent_to_another(transacted):
    """Each copy is a message of its own: to acknowledge one leaves the other, also after a restart."""
    queues = ("q", "r:copies_of=q", "s")
    rig = Rig(*queues)
    transaction = rig.broker.begin() if transacted else None
    for body in (b"1", b"2"):
        rig.send(body, transaction)
    if transaction is not None:
        rig.commits(transaction)
    rig.send(b"3", queue="r")
    rig.disk()
    link, _ = rig.link()
    rig.settle(link, 1)
    rig.disk()

    for each in (rig, rig.again(*queues)):
        assert ([b"2"], [b"1", b"2", b"3"], []) == (each.bodies(), each.bodies("r"), each.bodies("s"))
