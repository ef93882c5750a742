"""Deliveries, their marks, and acknowledgements outside of transactions."""

from judge_histories import (
    ack_sent,
    acked,
    acked_in,
    began,
    came,
    committed,
    crashed,
    fired,
    given_back,
    handed,
    kept,
    killed,
    limited,
    processed,
    set_aside,
    settled,
    silent,
    starved,
    took,
)

DELIVERIES = {
    # gone
    "delivered, unacknowledged, and away": ("gone", kept(1, 2) + handed(1) + handed(2) + crashed() + settled(2), 2, 1),
    "delivered, unacknowledged, and back": ("gone", kept(1) + handed(1) + crashed() + settled(1), 1, 0),
    "an acknowledgement that left excuses the broker": (
        "gone",
        kept(1) + handed(1) + ack_sent(1) + crashed() + settled(),
        0,
        0,
    ),
    "gone is not decided before the queue is silent": ("gone", kept(1) + handed(1) + crashed() + silent(1), 0, 0),
    "a dead-lettered message is not gone, and its neighbour is": (
        "gone",
        kept(1, 2) + handed(1) + handed(2) + crashed() + settled() + set_aside(1),
        1,
        1,
    ),
    "the acknowledge took a later message": (
        "gone_after_acknowledge",
        kept(1, 2) + handed(1) + acked(1) + handed(2) + crashed() + settled(),
        1,
        1,
    ),
    "the later message came back": (
        "gone_after_acknowledge",
        kept(1, 2) + handed(1) + acked(1) + handed(2) + crashed() + settled(2),
        1,
        0,
    ),
    "a message before the acknowledge is another sentence's matter": (
        "gone_after_acknowledge",
        kept(1, 2) + handed(1) + handed(2) + acked(2) + crashed() + settled(),
        0,
        0,
    ),
    "a delivery that was given back may be discarded": (
        "gone",
        kept(1) + handed(1) + given_back(1, "rejected") + crashed() + settled(),
        0,
        0,
    ),
    "a later delivery that was given back may be discarded": (
        "gone_after_acknowledge",
        kept(1, 2) + took(1) + handed(2) + given_back(2, "rejected") + crashed() + settled(),
        0,
        0,
    ),
    "unprocessed and gone": (
        "unprocessed_gone",
        kept(1, 2) + handed(1) + began(1) + handed(2) + processed(2) + crashed() + settled(),
        1,
        1,
    ),
    "on its way and back": ("unprocessed_gone", kept(1) + crashed() + settled(1), 1, 0),
    # again
    "delivered again after its acknowledgement was settled": (
        "delivered_after_acknowledgement",
        kept(1, 2) + took(1) + took(2) + crashed() + settled(2, epoch=1),
        2,
        1,
    ),
    "delivered twice before its acknowledgement": (
        "delivered_after_acknowledgement",
        kept(1) + handed(1) + took(1) + crashed() + settled(epoch=1),
        1,
        0,
    ),
    "an acknowledgement without an answer promises nothing": (
        "delivered_after_acknowledgement",
        kept(1) + handed(1) + ack_sent(1) + crashed() + settled(1, epoch=1),
        0,
        0,
    ),
    "again only after a restart is not again in the same run": (
        "delivered_after_acknowledgement",
        kept(1) + took(1) + killed("consumer-1") + settled(1, epoch=2),
        1,
        0,
    ),
    "delivered again after a restart": (
        "delivered_after_restart",
        kept(1, 2) + took(1) + took(2) + killed("consumer-1") + settled(2, epoch=2),
        2,
        1,
    ),
    "again in the same run is not again after a restart": (
        "delivered_after_restart",
        kept(1) + took(1) + crashed() + settled(1, epoch=1),
        1,
        0,
    ),
    "delivered again without acknowledgement": ("came_back", kept(1) + handed(1) + crashed() + settled(1), 1, 1),
    "not delivered again": ("came_back", kept(1) + handed(1) + crashed() + settled(), 1, 0),
    "delivered again as it was given back": (
        "came_back",
        kept(1) + handed(1) + given_back(1) + crashed() + settled(1),
        0,
        0,
    ),
    "processed before the cut, and delivered again": (
        "processed_again",
        kept(1, 2)
        + handed(1)
        + processed(1)
        + ack_sent(1)
        + handed(2)
        + fired("cut")
        + came(1, epoch=1)
        + came(2, epoch=1),
        1,
        1,
    ),
    "processed before the cut, and not delivered again": (
        "processed_again",
        kept(1) + handed(1) + handed(1) + processed(1) + fired("cut") + settled(epoch=1),
        1,
        0,
    ),
    "its acknowledgement confirmed, and again after the cut": (
        "processed_again",
        kept(1) + took(1) + fired("cut") + settled(1, epoch=1),
        0,
        0,
    ),
    "processed only after the fault": (
        "processed_again",
        kept(1) + killed() + handed(1) + processed(1) + came(1),
        0,
        0,
    ),
    "an acknowledgement that was answered": (
        "answered_acknowledgement",
        kept(1, 2) + handed(1) + acked(1) + handed(2) + ack_sent(2),
        2,
        1,
    ),
    "acknowledgements that were not answered": (
        "answered_acknowledgement",
        kept(1, 2) + handed(1) + ack_sent(1) + acked_in("t1", 2) + committed("t1", by="consumer-1"),
        2,
        0,
    ),
    # headers
    "a first delivery counted as one": ("counted_at_first", kept(1, 2) + handed(1, count=1) + handed(2), 2, 1),
    "a second delivery may count": ("counted_at_first", kept(1) + handed(1) + handed(1, count=1), 1, 0),
    "a first sight after the crash may have been transferred before": (
        "counted_at_first",
        kept(1) + crashed() + settled(1, epoch=1),
        0,
        0,
    ),
    "first acquirer on a second link": (
        "first_acquirer_twice",
        kept(1) + handed(1) + crashed() + settled(1, epoch=1, first_acquirer=True),
        1,
        1,
    ),
    "first acquirer claimed by the second link only": (
        "first_acquirer_twice",
        kept(1) + handed(1, first_acquirer=False) + crashed() + settled(1, epoch=1, first_acquirer=True),
        1,
        1,
    ),
    "the second link does not claim": (
        "first_acquirer_twice",
        kept(1) + handed(1) + crashed() + settled(1, epoch=1),
        1,
        0,
    ),
    "one link may claim twice": ("first_acquirer_twice", kept(1) + handed(1) + handed(1), 0, 0),
    "claims after a restart are not judged": (
        "first_acquirer_twice",
        kept(1) + handed(1) + killed("consumer-1") + settled(1, epoch=2, first_acquirer=True),
        0,
        0,
    ),
    "a thousand and one at once": (
        "many_unacknowledged",
        [e for n in range(1, 1002) for e in handed(n)],
        1001,
        1,
    ),
    "a thousand and one, one after another": (
        "many_unacknowledged",
        [e for n in range(1, 1002) for e in handed(n) + ack_sent(n)],
        1001,
        0,
    ),
    # marks
    "delivered again without its mark": (
        "unmarked",
        kept(1, 2)
        + handed(1)
        + handed(2)
        + crashed()
        + came(1, epoch=1, redelivered=False)
        + came(2, epoch=1, redelivered=True),
        2,
        1,
    ),
    "delivered again, and the client sees no mark at all": (
        "unmarked",
        kept(1) + handed(1) + crashed() + came(1, epoch=1),
        1,
        0,
    ),
    "only prefetched before": ("unmarked", kept(1) + crashed() + came(1, epoch=1, redelivered=False), 0, 0),
    "without its mark after a restart": (
        "unmarked",
        kept(1) + handed(1) + killed("consumer-1") + came(1, redelivered=False),
        0,
        0,
    ),
    "given back and without a mark": (
        "unmarked",
        kept(1) + handed(1) + given_back(1) + crashed() + came(1, epoch=1, redelivered=False),
        0,
        0,
    ),
    # the prefetch limit
    "three where two were asked for": (
        "over_prefetch",
        limited("consumer-1", 2) + handed(1) + handed(2) + handed(3),
        3,
        1,
    ),
    "a third after an acknowledgement": (
        "over_prefetch",
        limited("consumer-1", 2) + handed(1) + handed(2) + ack_sent(1) + handed(3),
        3,
        0,
    ),
    "a second after the first was given back": (
        "over_prefetch",
        limited("consumer-1", 1) + handed(1) + given_back(1) + handed(2),
        2,
        0,
    ),
    "withheld from a consumer with nothing open": ("starved", kept(1, 2) + took(1) + starved() + came(2), 2, 1),
    "withheld from a consumer with a delivery open": (
        "starved",
        kept(1, 2) + handed(1) + starved() + came(1) + came(2),
        2,
        0,
    ),
    "nothing came because nothing was there": ("starved", kept(1) + took(1) + starved() + silent(1), 1, 0),
    "sent only after the wait": ("starved", kept(1) + took(1) + starved() + kept(2) + came(2), 2, 0),
    "what nobody ever got was lost, not withheld": ("starved", kept(1, 2) + took(1) + starved() + settled(), 2, 0),
    # what nobody sent
    "a message that nobody sent": ("phantom", kept(1) + killed() + settled(1, 2), 2, 1),
    "a message that arrived altered": ("corrupt", kept(1, 2) + came(1, intact=False) + came(2), 2, 1),
    "a message that somebody sent": ("phantom", kept(1) + killed() + settled(1), 1, 0),
    "a message that arrived as it was sent": ("corrupt", kept(1) + came(1), 1, 0),
}
