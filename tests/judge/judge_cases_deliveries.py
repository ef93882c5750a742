"""Deliveries, acknowledgements, refusals, sessions, and what no broker may do in any trial."""

from judge_histories import (
    ack_refused,
    ack_sent,
    acked,
    acked_in,
    began,
    came,
    case,
    committed,
    confirmed,
    crashed,
    fired,
    given_back,
    handed,
    kept,
    killed,
    limited,
    processed,
    rolled_back,
    sent,
    set_aside,
    settled,
    silent,
    starved,
    stuck,
    took,
    unasked,
)

C = "consumer-1"

DELIVERIES = {
    "gone": {
        "delivered, unacknowledged, and away": case(2, 1, kept(1, 2), handed(1), handed(2), crashed(), settled(2)),
        "delivered, unacknowledged, and back": case(1, 0, kept(1), handed(1), crashed(), settled(1)),
        "an acknowledgement that left excuses the broker": case(
            0, 0, kept(1), handed(1), ack_sent(1), crashed(), settled()
        ),
        "gone is not decided before the queue is silent": case(0, 0, kept(1), handed(1), crashed(), silent(1)),
        "a dead-lettered message is not gone, and its neighbour is": case(
            1, 1, kept(1, 2), handed(1), handed(2), crashed(), settled(), set_aside(1)
        ),
        "a delivery that was given back may be discarded": case(
            0, 0, kept(1), handed(1), given_back(1, "rejected"), crashed(), settled()
        ),
    },
    "gone_after_acknowledge": {
        "the acknowledge took a later message": case(
            1, 1, kept(1, 2), handed(1), acked(1), handed(2), crashed(), settled()
        ),
        "the later message came back": case(1, 0, kept(1, 2), handed(1), acked(1), handed(2), crashed(), settled(2)),
        "a message before the acknowledge is another sentence's matter": case(
            0, 0, kept(1, 2), handed(1), handed(2), acked(2), crashed(), settled()
        ),
        "a later delivery that was given back may be discarded": case(
            0, 0, kept(1, 2), took(1), handed(2), given_back(2, "rejected"), crashed(), settled()
        ),
    },
    "unprocessed_gone": {
        "unprocessed and gone": case(
            1, 1, kept(1, 2), handed(1), began(1), handed(2), processed(2), crashed(), settled()
        ),
        "on its way and back": case(1, 0, kept(1), crashed(), settled(1)),
    },
    "delivered_after_acknowledgement": {
        "delivered again after its acknowledgement was settled": case(
            2, 1, kept(1, 2), took(1), took(2), crashed(), settled(2, epoch=1)
        ),
        "delivered twice before its acknowledgement": case(
            1, 0, kept(1), handed(1), took(1), crashed(), settled(epoch=1)
        ),
        "an acknowledgement without an answer promises nothing": case(
            0, 0, kept(1), handed(1), ack_sent(1), crashed(), settled(1, epoch=1)
        ),
        "again only after a restart is not again in the same run": case(
            1, 0, kept(1), took(1), killed("consumer-1"), settled(1, epoch=2)
        ),
    },
    "delivered_after_restart": {
        "delivered again after a restart": case(
            2, 1, kept(1, 2), took(1), took(2), killed("consumer-1"), settled(2, epoch=2)
        ),
        "again in the same run is not again after a restart": case(
            1, 0, kept(1), took(1), crashed(), settled(1, epoch=1)
        ),
    },
    "came_back": {
        "delivered again without acknowledgement": case(1, 1, kept(1), handed(1), crashed(), settled(1)),
        "not delivered again": case(1, 0, kept(1), handed(1), crashed(), settled()),
        "delivered again as it was given back": case(0, 0, kept(1), handed(1), given_back(1), crashed(), settled(1)),
    },
    "processed_again": {
        "processed before the cut, and delivered again": case(
            1,
            1,
            kept(1, 2),
            handed(1),
            processed(1),
            ack_sent(1),
            handed(2),
            fired("cut"),
            came(1, epoch=1),
            came(2, epoch=1),
        ),
        "processed before the cut, and not delivered again": case(
            1, 0, kept(1), handed(1), handed(1), processed(1), fired("cut"), settled(epoch=1)
        ),
        "its acknowledgement confirmed, and again after the cut": case(
            0, 0, kept(1), took(1), fired("cut"), settled(1, epoch=1)
        ),
        "processed only after the fault": case(0, 0, kept(1), killed(), handed(1), processed(1), came(1)),
    },
    "answered_acknowledgement": {
        "an acknowledgement that was answered": case(2, 1, kept(1, 2), handed(1), acked(1), handed(2), ack_sent(2)),
        "acknowledgements that were not answered": case(
            2, 0, kept(1, 2), handed(1), ack_sent(1), acked_in("t1", 2), committed("t1", by="consumer-1")
        ),
    },
    "counted_at_first": {
        "a first delivery counted as one": case(2, 1, kept(1, 2), handed(1, count=1), handed(2)),
        "a second delivery may count": case(1, 0, kept(1), handed(1), handed(1, count=1)),
        "a first sight after the crash may have been transferred before": case(
            0, 0, kept(1), crashed(), settled(1, epoch=1)
        ),
    },
    "first_acquirer_twice": {
        "first acquirer on a second link": case(
            1, 1, kept(1), handed(1), crashed(), settled(1, epoch=1, first_acquirer=True)
        ),
        "first acquirer claimed by the second link only": case(
            1, 1, kept(1), handed(1, first_acquirer=False), crashed(), settled(1, epoch=1, first_acquirer=True)
        ),
        "the second link does not claim": case(1, 0, kept(1), handed(1), crashed(), settled(1, epoch=1)),
        "one link may claim twice": case(0, 0, kept(1), handed(1), handed(1)),
        "claims after a restart are not judged": case(
            0, 0, kept(1), handed(1), killed("consumer-1"), settled(1, epoch=2, first_acquirer=True)
        ),
    },
    "many_unacknowledged": {
        "a thousand and one at once": case(1001, 1, [e for n in range(1, 1002) for e in handed(n)]),
        "a thousand and one, one after another": case(
            1001, 0, [e for n in range(1, 1002) for e in handed(n) + ack_sent(n)]
        ),
    },
    "unmarked": {
        "delivered again without its mark": case(
            2,
            1,
            kept(1, 2),
            handed(1),
            handed(2),
            crashed(),
            came(1, epoch=1, redelivered=False),
            came(2, epoch=1, redelivered=True),
        ),
        "delivered again, and the client sees no mark at all": case(
            1, 0, kept(1), handed(1), crashed(), came(1, epoch=1)
        ),
        "only prefetched before": case(0, 0, kept(1), crashed(), came(1, epoch=1, redelivered=False)),
        "without its mark after a restart": case(
            0, 0, kept(1), handed(1), killed("consumer-1"), came(1, redelivered=False)
        ),
        "given back and without a mark": case(
            0, 0, kept(1), handed(1), given_back(1), crashed(), came(1, epoch=1, redelivered=False)
        ),
    },
    "over_prefetch": {
        "three where two were asked for": case(3, 1, limited("consumer-1", 2), handed(1), handed(2), handed(3)),
        "a third after an acknowledgement": case(
            3, 0, limited("consumer-1", 2), handed(1), handed(2), ack_sent(1), handed(3)
        ),
        "a second after the first was given back": case(
            2, 0, limited("consumer-1", 1), handed(1), given_back(1), handed(2)
        ),
    },
    "starved": {
        "withheld from a consumer with nothing open": case(2, 1, kept(1, 2), took(1), starved(), came(2)),
        "withheld from a consumer with a delivery open": case(2, 0, kept(1, 2), handed(1), starved(), came(1), came(2)),
        "nothing came because nothing was there": case(1, 0, kept(1), took(1), starved(), silent(1)),
        "sent only after the wait": case(2, 0, kept(1), took(1), starved(), kept(2), came(2)),
        "a message that never came was lost, not withheld": case(2, 0, kept(1, 2), took(1), starved(), settled()),
    },
    "phantom": {
        "a message that was not sent": case(2, 1, kept(1), killed(), settled(1, 2)),
        "a message that was sent": case(1, 0, kept(1), killed(), settled(1)),
    },
    "corrupt": {
        "a message that arrived altered": case(2, 1, kept(1, 2), came(1, intact=False), came(2)),
        "a message that arrived as it was sent": case(1, 0, kept(1), came(1)),
    },
    "released_gone": {
        "released and gone": case(
            2, 1, kept(1, 2), handed(1), given_back(1), handed(2), given_back(2), settled(2, epoch=1)
        ),
        "released, come again and taken": case(1, 0, kept(1), handed(1), given_back(1), took(1), settled(epoch=1)),
        "rejected and gone": case(0, 0, kept(1), handed(1), given_back(1, "rejected"), settled(epoch=1)),
        "released, and the queue not silent yet": case(0, 0, kept(1), handed(1), given_back(1), silent(1)),
    },
    "failed_gone": {
        "failed and gone": case(
            2,
            1,
            kept(1, 2),
            handed(1),
            given_back(1, "failed"),
            handed(2),
            given_back(2, "failed"),
            settled(2, epoch=1),
        ),
        "failed, come again and taken": case(
            1, 0, kept(1), handed(1), given_back(1, "failed"), took(1), settled(epoch=1)
        ),
        "released and gone is another's": case(0, 0, kept(1), handed(1), given_back(1), settled(epoch=1)),
        "failed, and the queue not silent yet": case(0, 0, kept(1), handed(1), given_back(1, "failed"), silent(1)),
    },
    "release_counted": {
        "a release that counts": case(
            2, 1, handed(1), given_back(1), handed(1, count=1), handed(2, count=3), given_back(2), handed(2, count=3)
        ),
        "a release that leaves the count of earlier failures": case(
            1, 0, handed(1, count=2), given_back(1), handed(1, count=2)
        ),
        "a higher count at another consumer may be a failure between": case(
            0, 0, handed(1), given_back(1), handed(1, consumer=2, count=1)
        ),
        "a higher count at the drain may be a failure between": case(
            0, 0, handed(1), given_back(1), came(1, epoch=1, count=1)
        ),
        "a third delivery says nothing about the release": case(
            0, 0, handed(1), given_back(1), handed(1), handed(1, count=1)
        ),
        "a failure may count": case(0, 0, handed(1), given_back(1, "failed"), handed(1, count=1)),
    },
    "failure_uncounted": {
        "a failure that does not count": case(
            2, 1, handed(1), given_back(1, "failed"), handed(1), handed(2), given_back(2, "failed"), handed(2, count=1)
        ),
        "no count that the client could see": case(
            1, 0, handed(1, count=None), given_back(1, "failed"), handed(1, count=None)
        ),
        "the same count at another consumer": case(0, 0, handed(1), given_back(1, "failed"), handed(1, consumer=2)),
        "a release need not count": case(0, 0, handed(1), given_back(1), handed(1)),
    },
    "failure_unmarked": {
        "a failure that comes again unmarked": case(
            2,
            1,
            handed(1),
            given_back(1, "failed"),
            handed(1, redelivered=False),
            handed(2, redelivered=False),
            given_back(2, "failed"),
            handed(2, redelivered=True),
        ),
        "a mark that could not be seen": case(1, 0, handed(1), given_back(1, "failed"), handed(1, redelivered=None)),
    },
    "undeliverable_again": {
        "undeliverable here and here again": case(
            2, 1, handed(1), given_back(1, "undeliverable"), handed(1), handed(2), given_back(2, "undeliverable")
        ),
        "undeliverable here and given to another": case(
            1, 0, handed(1), given_back(1, "undeliverable"), handed(1, consumer=2)
        ),
    },
    "rejected_again": {
        "rejected and delivered again": case(
            2, 1, handed(1), given_back(1, "rejected"), handed(2), given_back(2, "rejected"), came(1, epoch=1)
        ),
        "rejected and discarded": case(1, 0, handed(1), given_back(1, "rejected"), settled(epoch=1)),
        "released and delivered again": case(0, 0, handed(1), given_back(1), came(1, epoch=1)),
    },
    "refused_again": {
        "refused and delivered again": case(
            2, 1, handed(1), given_back(1, "failed"), handed(2), given_back(2, "rejected"), handed(1, consumer=2)
        ),
        "refused and discarded": case(1, 0, handed(1), given_back(1, "failed"), settled(epoch=1)),
    },
    "delivered_twice": {
        "acknowledged, confirmed, and delivered after a kill": case(
            2, 1, kept(1, 2), took(1), took(2), killed(C), settled(1)
        ),
        "acknowledged, confirmed, and delivered by the same run": case(
            1, 1, kept(1), took(1), crashed(), settled(1, epoch=1)
        ),
        "acknowledged, not confirmed, and delivered after a kill": case(
            1, 0, kept(1), handed(1), ack_sent(1), killed(C), settled(1)
        ),
        "handed over, not acknowledged, and delivered to a drain": case(
            1, 0, kept(1), handed(1), crashed(), settled(1, epoch=1)
        ),
        "in two drains": case(
            2, 1, kept(1, 2), came(1), came(2), silent(1), came(1, drain=2, epoch=3), silent(2), silent(3)
        ),
        "in a drain that ended with a depth above zero, and in the next": case(
            1, 0, kept(1), came(1), stuck(1), came(1, drain=2, epoch=3), silent(2), silent(3)
        ),
        "twice in one drain": case(1, 1, kept(1), came(1), came(1), silent(1), silent(2)),
        "twice to one consumer": case(1, 1, kept(1), handed(1), handed(1), settled()),
        "once each to two consumers": case(1, 0, kept(1), handed(1), crashed(), handed(1, consumer=2), settled()),
        "given back, and again to the same consumer": case(
            0, 0, kept(1), handed(1), given_back(1), handed(1), acked(1), settled()
        ),
        "rolled back, and again to the same consumer": case(
            0,
            0,
            kept(1),
            acked_in("t1", 1),
            rolled_back("t1", by=C),
            acked_in("t2", 1),
            committed("t2", by=C),
            settled(),
        ),
        "its acknowledgement refused, and again": case(
            0, 0, kept(1), handed(1), ack_sent(1), ack_refused(1), handed(1), settled()
        ),
    },
    "two_owners": {
        "given to a second consumer while the first is live": case(
            2, 1, kept(1), handed(1), handed(1, consumer=2), kept(2), handed(2), settled()
        ),
        "given to a second consumer after the first has acknowledged": case(
            2, 1, kept(1), took(1), handed(1, consumer=2), kept(2), handed(2), settled()
        ),
        "given to two consumers, one after the other": case(
            3, 0, kept(1, 2), handed(1), handed(2), handed(1, consumer=2), kept(3), handed(3, consumer=2), settled()
        ),
        "released, and given to a second consumer": case(
            1, 0, kept(1), handed(1), given_back(1), handed(1, consumer=2), kept(2), handed(2), settled()
        ),
        "rolled back, and given to a second consumer": case(
            1,
            0,
            kept(1),
            acked_in("t1", 1),
            rolled_back("t1", by=C),
            handed(1, consumer=2),
            kept(2),
            handed(2),
            settled(),
        ),
        "given to a second consumer after the first was killed": case(
            2, 0, kept(1), handed(1), crashed(), handed(1, consumer=2), kept(2), handed(2, consumer=2), settled()
        ),
        "given to a second consumer after a restart": case(
            2,
            0,
            kept(1),
            handed(1),
            killed(C),
            handed(1, consumer=2, epoch=2),
            kept(2),
            handed(2, consumer=2, epoch=2),
            settled(),
        ),
        "given to a second consumer after the connection of the first was cut, which waits in vain": case(
            2, 0, kept(1), handed(1), fired("cut"), handed(1, consumer=2), kept(2), handed(2, consumer=2), starved()
        ),
        "given to a second consumer while the first only takes what it had prefetched": case(
            2, 0, kept(1, 2), handed(1), handed(1, consumer=2), handed(2), settled()
        ),
        "shared by two live consumers": case(
            3, 0, kept(1, 2), handed(1), handed(2, consumer=2), kept(3), handed(3), acked(1, 3), settled()
        ),
    },
    "drained_twice": {
        "accepted by a drain, and got by a later one": case(
            2, 1, kept(1, 2), came(1), came(2), silent(1), came(1, drain=2, epoch=3), silent(2), silent(3)
        ),
        "got twice by one drain": case(1, 1, kept(1), came(1), came(1), silent(1), silent(2)),
        "its acknowledge() returned, and a drain gets it after a kill": case(
            1, 0, kept(1, 2), took(1), took(2), killed(C), settled(1)
        ),
        "got by a drain that ended with a depth above zero, and by the next": case(
            1, 0, kept(1), came(1), stuck(1), came(1, drain=2, epoch=3), silent(2), silent(3)
        ),
    },
    "overtaken": {
        "a message after a later one of its producer": case(
            3, 1, kept(1, 2, 3), handed(1), handed(3), handed(2), settled()
        ),
        "messages in their order": case(3, 0, kept(1, 2, 3), handed(1), handed(2), handed(3), settled()),
        "a message after one of another producer": case(2, 0, kept("p2:5", 1), handed("p2:5"), handed(1), settled()),
        "a drain out of order": case(2, 1, kept(1, 2), settled(2, 1)),
        "a drain out of order after a consumer": case(
            3, 0, kept(1, 2, 3), handed(1), crashed(), settled(3, 2, epoch=1)
        ),
        "a message that was given back comes after a later one": case(
            1, 0, kept(1, 2), handed(1), given_back(1), handed(2), handed(1), settled()
        ),
    },
    "lost": {
        "lost from the prefetch of a dead consumer": case(
            4, 2, kept(1, 2, 3, 4), took(1), crashed(), settled(3, epoch=1)
        ),
    },
    "acknowledged_late": {
        "acknowledged after processing began": case(
            2, 1, handed(1), began(1), ack_sent(1), handed(2), ack_sent(2), began(2)
        ),
        "processed and never acknowledged": case(1, 1, handed(1), began(1), processed(1)),
        "cut short before either": case(1, 0, handed(1), crashed()),
    },
    "over_window": {
        "three sends unanswered where two may be": case(3, 1, limited("publisher-1", 2), sent(1, 2, 3)),
        "a third send after an answer": case(3, 0, limited("publisher-1", 2), sent(1, 2), confirmed(1), sent(3)),
        "sends that ask for no answer take no room": case(
            4, 0, limited("publisher-1", 1), unasked(1), sent(2), unasked(3), confirmed(2), sent(4)
        ),
    },
}
