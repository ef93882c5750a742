"""What is judged in every trial: messages that come twice, too late, altered, or that were never sent."""

from judge_histories import (
    ack_refused,
    ack_sent,
    acked,
    acked_in,
    came,
    committed,
    crashed,
    fired,
    given_back,
    handed,
    kept,
    killed,
    rolled_back,
    settled,
    silent,
    starved,
    stuck,
    took,
)

C = "consumer-1"

STANDING = {
    # delivered_twice
    "acknowledged, confirmed, and delivered after a kill": (
        "delivered_twice",
        kept(1, 2) + took(1) + took(2) + killed(C) + settled(1),
        2,
        1,
    ),
    "acknowledged, confirmed, and delivered by the same run": (
        "delivered_twice",
        kept(1) + took(1) + crashed() + settled(1, epoch=1),
        1,
        1,
    ),
    "acknowledged, not confirmed, and delivered after a kill": (
        "delivered_twice",
        kept(1) + handed(1) + ack_sent(1) + killed(C) + settled(1),
        1,
        0,
    ),
    "handed over, not acknowledged, and delivered to a drain": (
        "delivered_twice",
        kept(1) + handed(1) + crashed() + settled(1, epoch=1),
        1,
        0,
    ),
    "in two drains": (
        "delivered_twice",
        kept(1, 2) + came(1) + came(2) + silent(1) + came(1, drain=2, epoch=3) + silent(2) + silent(3),
        2,
        1,
    ),
    "in a drain that ended with a depth above zero, and in the next": (
        "delivered_twice",
        kept(1) + came(1) + stuck(1) + came(1, drain=2, epoch=3) + silent(2) + silent(3),
        1,
        0,
    ),
    "twice in one drain": ("delivered_twice", kept(1) + came(1) + came(1) + silent(1) + silent(2), 1, 1),
    "twice to one consumer": ("delivered_twice", kept(1) + handed(1) + handed(1) + settled(), 1, 1),
    "once each to two consumers": (
        "delivered_twice",
        kept(1) + handed(1) + crashed() + handed(1, consumer=2) + settled(),
        1,
        0,
    ),
    "given back, and again to the same consumer": (
        "delivered_twice",
        kept(1) + handed(1) + given_back(1) + handed(1) + acked(1) + settled(),
        0,
        0,
    ),
    "rolled back, and again to the same consumer": (
        "delivered_twice",
        kept(1) + acked_in("t1", 1) + rolled_back("t1", by=C) + acked_in("t2", 1) + committed("t2", by=C) + settled(),
        0,
        0,
    ),
    "its acknowledgement refused, and again": (
        "delivered_twice",
        kept(1) + handed(1) + ack_sent(1) + ack_refused(1) + handed(1) + settled(),
        0,
        0,
    ),
    # two_owners
    "given to a second consumer while the first is live": (
        "two_owners",
        kept(1) + handed(1) + handed(1, consumer=2) + kept(2) + handed(2) + settled(),
        2,
        1,
    ),
    "given to a second consumer after the first has acknowledged": (
        "two_owners",
        kept(1) + took(1) + handed(1, consumer=2) + kept(2) + handed(2) + settled(),
        2,
        1,
    ),
    "given to two consumers, one after the other": (
        "two_owners",
        kept(1, 2) + handed(1) + handed(2) + handed(1, consumer=2) + kept(3) + handed(3, consumer=2) + settled(),
        3,
        0,
    ),
    "released, and given to a second consumer": (
        "two_owners",
        kept(1) + handed(1) + given_back(1) + handed(1, consumer=2) + kept(2) + handed(2) + settled(),
        1,
        0,
    ),
    "rolled back, and given to a second consumer": (
        "two_owners",
        kept(1) + acked_in("t1", 1) + rolled_back("t1", by=C) + handed(1, consumer=2) + kept(2) + handed(2) + settled(),
        1,
        0,
    ),
    "given to a second consumer after the first was killed": (
        "two_owners",
        kept(1) + handed(1) + crashed() + handed(1, consumer=2) + kept(2) + handed(2, consumer=2) + settled(),
        2,
        0,
    ),
    "given to a second consumer after a restart": (
        "two_owners",
        kept(1)
        + handed(1)
        + killed(C)
        + handed(1, consumer=2, epoch=2)
        + kept(2)
        + handed(2, consumer=2, epoch=2)
        + settled(),
        2,
        0,
    ),
    "given to a second consumer after the connection of the first was cut, which waits in vain": (
        "two_owners",
        kept(1) + handed(1) + fired("cut") + handed(1, consumer=2) + kept(2) + handed(2, consumer=2) + starved(),
        2,
        0,
    ),
    "given to a second consumer while the first only takes what it had prefetched": (
        "two_owners",
        kept(1, 2) + handed(1) + handed(1, consumer=2) + handed(2) + settled(),
        2,
        0,
    ),
    "shared by two live consumers": (
        "two_owners",
        kept(1, 2) + handed(1) + handed(2, consumer=2) + kept(3) + handed(3) + acked(1, 3) + settled(),
        3,
        0,
    ),
    # drained_twice
    "accepted by a drain, and got by a later one": (
        "drained_twice",
        kept(1, 2) + came(1) + came(2) + silent(1) + came(1, drain=2, epoch=3) + silent(2) + silent(3),
        2,
        1,
    ),
    "got twice by one drain": ("drained_twice", kept(1) + came(1) + came(1) + silent(1) + silent(2), 1, 1),
    "its acknowledge() returned, and a drain gets it after a kill": (
        "drained_twice",
        kept(1, 2) + took(1) + took(2) + killed(C) + settled(1),
        1,
        0,
    ),
    "got by a drain that ended with a depth above zero, and by the next": (
        "drained_twice",
        kept(1) + came(1) + stuck(1) + came(1, drain=2, epoch=3) + silent(2) + silent(3),
        1,
        0,
    ),
    # overtaken
    "a message after a later one of its producer": (
        "overtaken",
        kept(1, 2, 3) + handed(1) + handed(3) + handed(2) + settled(),
        3,
        1,
    ),
    "messages in their order": ("overtaken", kept(1, 2, 3) + handed(1) + handed(2) + handed(3) + settled(), 3, 0),
    "a message after one of another producer": (
        "overtaken",
        kept("p2:5", 1) + handed("p2:5") + handed(1) + settled(),
        2,
        0,
    ),
    "a drain out of order": ("overtaken", kept(1, 2) + settled(2, 1), 2, 1),
    "a drain out of order after a consumer": (
        "overtaken",
        kept(1, 2, 3) + handed(1) + crashed() + settled(3, 2, epoch=1),
        3,
        0,
    ),
    "a message that was given back comes after a later one": (
        "overtaken",
        kept(1, 2) + handed(1) + given_back(1) + handed(2) + handed(1) + settled(),
        1,
        0,
    ),
    # lost
    "lost from the prefetch of a dead consumer": (
        "lost",
        kept(1, 2, 3, 4) + took(1) + crashed() + settled(3, epoch=1),
        4,
        2,
    ),
}
