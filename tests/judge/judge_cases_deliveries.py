"""Deliveries, acknowledgements, refusals, sessions, and what no broker may do in any trial."""

DELIVERIES = """
[gone]
2 1 delivered, unacknowledged, and away: kept 1 2, handed 1 2, crashed, settled 2
1 0 delivered, unacknowledged, and back: kept 1, handed 1, crashed, settled 1
1 1 acknowledged in vain, delivered again, and away: kept 1, handed 1, ack_sent 1, ack_refused 1, handed 1, crashed, settled
0 0 an acknowledgement that left excuses the broker: kept 1, handed 1, ack_sent 1, crashed, settled
2 1 two consumers at a kill, and one acknowledgement in flight: kept 1 2 p2:1, handed 1 2, handed p2:1 consumer=2, ack_sent 1,
    killed, settled 2
0 0 gone is not decided before the queue is silent: kept 1, handed 1, crashed, silent 1
1 1 a dead-lettered message is not gone, and its neighbour is: kept 1 2, handed 1 2, crashed, settled, set_aside 1
0 0 a delivery that was given back may be discarded: kept 1, handed 1, given_back 1 rejected, crashed, settled

[lost_unacknowledged]
3 2 two producers and two consumers at a kill, of what was given to a client and of what was not: kept 1 2 3 p2:1, handed 1 2,
    handed p2:1 consumer=2, ack_sent 1, sent p2:2, killed, no_answer p2:2, settled 3
3 0 two producers and two consumers at a kill, and all is back: kept 1 2 3 p2:1, handed 1 2, handed p2:1 consumer=2,
    ack_sent 1, sent p2:2, killed, no_answer p2:2, settled 2 3 p2:1
0 0 given back and gone is another sentence's matter: kept 1, handed 1, given_back 1 rejected, killed, settled
0 0 it is not decided before the second drain: kept 1, handed 1, killed, silent 1
2 1 the depth still counts one of two that are not there: kept 1 2, handed 1 2, killed, silent 1, stuck 2

[gone_after_acknowledge]
1 1 the acknowledge took a later message: kept 1 2, handed 1, acked 1, handed 2, crashed, settled
1 0 the later message came back: kept 1 2, handed 1, acked 1, handed 2, crashed, settled 2
0 0 a message before the acknowledge is another sentence's matter: kept 1 2, handed 1 2, acked 2, crashed, settled
0 0 a later delivery that was given back may be discarded: kept 1 2, took 1, handed 2, given_back 2 rejected, crashed,
    settled

[unprocessed_gone]
1 1 unprocessed and gone: kept 1 2, handed 1, began 1, handed 2, processed 2, crashed, settled
1 0 on its way and back: kept 1, crashed, settled 1

[delivered_after_acknowledgement]
2 1 delivered again after its acknowledgement was settled: kept 1 2, took 1 2, crashed, settled 2 epoch=1
1 0 delivered twice before its acknowledgement: kept 1, handed 1, took 1, crashed, settled epoch=1
0 0 an acknowledgement without an answer promises nothing: kept 1, handed 1, ack_sent 1, crashed, settled 1 epoch=1
1 0 again only after a restart is not again in the same run: kept 1, took 1, killed consumer-1, settled 1 epoch=2

[returned_after_close]
2 1 acknowledged without an answer by a client that closed, and delivered again: kept 1 2, handed 1 2, ack_sent 1 2,
    settled 2 epoch=1
1 0 acknowledged without an answer before a restart that brings it again: kept 1, handed 1, ack_sent 1, settled 1
0 0 acknowledged without an answer on a connection that was cut later: kept 1, handed 1, ack_sent 1, fired cut,
    settled 1 epoch=1
0 0 acknowledged without an answer by a client that was killed: kept 1, handed 1, ack_sent 1, crashed, settled 1 epoch=1
0 0 acknowledged without an answer while the broker was killed: kept 1, handed 1, ack_sent 1, killed consumer-1, settled 1
1 0 acknowledged without an answer, given back later: kept 1, handed 1, ack_sent 1, given_back 1, settled 1 epoch=1
0 0 acknowledged by a client that closed, and after a restart by one that was killed: kept 1, handed 1, ack_sent 1,
    handed 1 epoch=2, of consumer-1 ACK INVOKE p1:1 epoch=2, of consumer-1 FAULT FIRED fault=consumer_crash epoch=2,
    came 1, silent 1, silent 2 epoch=3
0 0 acknowledged in a transaction that stays open: kept 1, acked_in t1 1, settled 1 epoch=1
0 0 acknowledged on a connection that ended by itself: kept 1, handed 1, ack_sent 1, ack_lost 1, settled 1 epoch=1

[set_aside_early]
2 1 a message that no consumer had is set aside: kept 1 2, settled 2 epoch=1, set_aside 1
1 1 an unacknowledged delivery is set aside: kept 1, handed 1, crashed, settled epoch=1, set_aside 1
0 0 an expired message is set aside: kept 1 lives=5, pause 9, settled epoch=1, set_aside 1
1 0 a message that its consumer gave back is set aside: kept 1, handed 1, given_back 1 failed, settled epoch=1, set_aside 1
1 0 an acknowledged message is set aside: kept 1, took 1, settled epoch=1, set_aside 1
1 0 a copy of a message that came is set aside: kept 1, settled 1 epoch=1, set_aside 1
0 0 a message that was not confirmed is set aside: sent 1, settled epoch=1, set_aside 1
1 1 a message is set aside, and the queue is not silent yet: kept 1, silent 1 epoch=1, set_aside 1

[delivered_after_restart]
2 1 delivered again after a restart: kept 1 2, took 1 2, killed consumer-1, settled 2 epoch=2
1 1 again after a kill, beside one whose acknowledgement was in flight: kept 1 2 p2:1, took 1, handed 2, handed p2:1 consumer=2,
    ack_sent 2, killed, settled 1 2 p2:1
1 0 again in the same run is not again after a restart: kept 1, took 1, crashed, settled 1 epoch=1

[came_back]
1 1 delivered again without acknowledgement: kept 1, handed 1, crashed, settled 1
1 0 not delivered again: kept 1, handed 1, crashed, settled
0 0 delivered again as it was given back: kept 1, handed 1, given_back 1, crashed, settled 1

[processed_again]
1 1 processed before the cut, and delivered again: kept 1 2, handed 1, processed 1, ack_sent 1, handed 2, fired cut,
    came 1 epoch=1, came 2 epoch=1
1 0 processed before the cut, and not delivered again: kept 1, handed 1 1, processed 1, fired cut, settled epoch=1
0 0 its acknowledgement confirmed, and again after the cut: kept 1, took 1, fired cut, settled 1 epoch=1
0 0 processed only after the fault: kept 1, killed, handed 1, processed 1, came 1

[answered_acknowledgement]
2 1 an acknowledgement that was answered: kept 1 2, handed 1, acked 1, handed 2, ack_sent 2
2 0 acknowledgements that were not answered: kept 1 2, handed 1, ack_sent 1, acked_in t1 2, committed t1 by=consumer-1

[counted_at_first]
2 1 a first delivery counted as one: kept 1 2, handed 1 count=1, handed 2
1 0 a second delivery may count: kept 1, handed 1, handed 1 count=1
0 0 a first sight after the crash may have been transferred before: kept 1, crashed, settled 1 epoch=1

[first_acquirer_twice]
1 1 first acquirer on a second link: kept 1, handed 1, crashed, settled 1 epoch=1 first_acquirer=True
1 1 first acquirer claimed by the second link only: kept 1, handed 1 first_acquirer=False, crashed,
    settled 1 epoch=1 first_acquirer=True
1 0 the second link does not claim: kept 1, handed 1, crashed, settled 1 epoch=1
0 0 one link may claim twice: kept 1, handed 1 1
0 0 claims after a restart are not judged: kept 1, handed 1, killed consumer-1, settled 1 epoch=2 first_acquirer=True

[many_unacknowledged]
1001 1 a thousand and one at once: many_handed 1001
1001 0 a thousand and one, one after another: taken_in_turn 1001

[unmarked]
2 1 delivered again without its mark: kept 1 2, handed 1 2, crashed, came 1 epoch=1 redelivered=False,
    came 2 epoch=1 redelivered=True
1 1 delivered again, and the client sees no mark at all: kept 1, handed 1, crashed, came 1 epoch=1
1 0 delivered again with its mark: kept 1, handed 1, crashed, came 1 epoch=1 redelivered=True
0 0 only prefetched before: kept 1, crashed, came 1 epoch=1 redelivered=False
0 0 without its mark after a restart: kept 1, handed 1, killed consumer-1, came 1 redelivered=False
0 0 given back and without a mark: kept 1, handed 1, given_back 1, crashed, came 1 epoch=1 redelivered=False

[over_prefetch]
3 1 three where two were asked for: limited consumer-1 2, handed 1 2 3
3 0 a third after an acknowledgement: limited consumer-1 2, handed 1 2, ack_sent 1, handed 3
2 0 a second after the first was given back: limited consumer-1 1, handed 1, given_back 1, handed 2

[starved]
2 1 withheld from a consumer with nothing open: kept 1 2, took 1, starved, came 2
2 0 withheld from a consumer with a delivery open: kept 1 2, handed 1, starved, came 1, came 2
1 0 nothing came because nothing was there: kept 1, took 1, starved, silent 1
2 0 sent only after the wait: kept 1, took 1, starved, kept 2, came 2
2 0 a message that never came was lost, not withheld: kept 1 2, took 1, starved, settled

[phantom]
2 1 a message that was not sent: kept 1, killed, settled 1 2
1 0 a message that was sent: kept 1, killed, settled 1

[corrupt]
2 1 a message that arrived altered: kept 1 2, came 1 intact=False, came 2
1 0 a message that arrived as it was sent: kept 1, came 1

[released_gone]
2 1 released and gone: kept 1 2, handed 1, given_back 1, handed 2, given_back 2, settled 2 epoch=1
1 0 released, come again and taken: kept 1, handed 1, given_back 1, took 1, settled epoch=1
0 0 rejected and gone: kept 1, handed 1, given_back 1 rejected, settled epoch=1
0 0 released, and the queue not silent yet: kept 1, handed 1, given_back 1, silent 1

[failed_gone]
2 1 failed and gone: kept 1 2, handed 1, given_back 1 failed, handed 2, given_back 2 failed, settled 2 epoch=1
1 0 failed, come again and taken: kept 1, handed 1, given_back 1 failed, took 1, settled epoch=1
0 0 released and gone is another's: kept 1, handed 1, given_back 1, settled epoch=1
0 0 failed, and the queue not silent yet: kept 1, handed 1, given_back 1 failed, silent 1

[given_back_nowhere]
2 1 of two messages that were given back one is in no queue: kept 1 2, handed 1 2, given_back 1, given_back 2, settled 1
1 0 a message that was dead-lettered after it was given back is kept: kept 1, handed 1, given_back 1,
    set_aside 1 queue=DLQ, settled
1 1 a message that came again, was given back again and is in no queue: kept 1, handed 1, given_back 1, handed 1,
    given_back 1, settled
0 0 a message that was given back and then acknowledged may go: kept 1, handed 1, given_back 1, took 1, settled
0 0 a message that was rejected at last may go: kept 1, handed 1, given_back 1, handed 1, given_back 1 rejected, settled
0 0 a message that was given back in a queue that is not drained is not judged: kept 1, handed 1, given_back 1, silent 1

[unselected]
2 1 one of two deliveries is for another selector: kept 1 2, handed 1, handed 2 detail="not selected"
1 0 a drain without a selector gets everything: kept 1 2, handed 1, settled 2
0 0 nothing was delivered to a consumer that selects: kept 1, settled 1

[overlooked]
3 1 of two that came after a wait one was selected before: kept 1 2 3, starved, handed 1 detail="passed over",
    came 2 detail="selected in vain", came 3 detail="passed over"
2 0 no consumer waited: kept 1 2, handed 1 detail="passed over", came 2 detail="selected in vain"
2 0 it came before the wait, and again: kept 1 2, handed 1 detail="passed over", starved,
    came 1 detail="selected in vain", came 2 detail="passed over"
0 0 the consumers had no selectors: kept 1 2, starved, handed 1, came 2

[release_counted]
2 1 a release that counts: handed 1, given_back 1, handed 1 count=1, handed 2 count=3, given_back 2, handed 2 count=3
1 0 a release that leaves the count of earlier failures: handed 1 count=2, given_back 1, handed 1 count=2
0 0 a higher count at another consumer may be a failure between: handed 1, given_back 1, handed 1 consumer=2 count=1
0 0 a higher count at the drain may be a failure between: handed 1, given_back 1, came 1 epoch=1 count=1
0 0 a third delivery says nothing about the release: handed 1, given_back 1, handed 1, handed 1 count=1
0 0 a failure may count: handed 1, given_back 1 failed, handed 1 count=1

[failure_uncounted]
2 1 a failure that does not count: handed 1, given_back 1 failed, handed 1 2, given_back 2 failed, handed 2 count=1
1 0 no count that the client could see: handed 1 count=None, given_back 1 failed, handed 1 count=None
0 0 the same count at another consumer: handed 1, given_back 1 failed, handed 1 consumer=2
0 0 a release need not count: handed 1, given_back 1, handed 1

[failure_unmarked]
2 1 a failure that comes again unmarked: handed 1, given_back 1 failed, handed 1 redelivered=False,
    handed 2 redelivered=False, given_back 2 failed, handed 2 redelivered=True
1 0 a mark that could not be seen: handed 1, given_back 1 failed, handed 1 redelivered=None

[delivered_early]
2 1 one before its time, and one after it: kept 1 2 delay=500, handed 1, pause 600, handed 2
1 0 before its time by less than a tenth of a second: kept 1 delay=500, pause 450, handed 1
1 1 one that a drain received before its time: kept 1 delay=500, settled 1 epoch=1
1 1 before its time, and again after it: kept 1 delay=500, handed 1, pause 600, crashed, settled 1 epoch=1
1 1 one that was never confirmed, before its time: sent 1 delay=500, handed 1
0 0 one without a delay: kept 1, handed 1
0 0 one that was sent again: kept 1 delay=500, sent 1, handed 1
0 0 one that never came: kept 1 delay=500, settled

[delivered_expired]
2 1 a message given to a consumer that attached after its end, and one that was not: kept 1 2 lives=5, pause 9,
    limited consumer-1 9, handed 1
1 1 a message given once more, to a consumer that attached after its end: limited consumer-1 9, kept 1 lives=5, handed 1,
    crashed, pause 9, limited consumer-2 9, handed 1 consumer=2
1 0 a message that its consumer had prefetched: limited consumer-1 9, kept 1 lives=5, pause 9, handed 1,
    limited consumer-2 9
1 0 a message given to a consumer that attached just at its end: kept 1 lives=5, pause 4, limited consumer-1 9, handed 1,
    limited consumer-2 9
0 0 a consumer attached just at the end of a message that it got: kept 1 lives=5, pause 4, limited consumer-1 9, handed 1
0 0 a publisher that attaches later receives nothing: limited consumer-1 9, kept 1 lives=5, pause 9,
    limited publisher-2 9, handed 1
0 0 a message without an end, given to a later consumer: kept 1, pause 9, limited consumer-1 9, handed 1
0 0 a message whose arrival was not confirmed: sent 1 lives=5, pause 9, limited consumer-1 9, handed 1

[undeliverable_again]
2 1 undeliverable here and here again: handed 1, given_back 1 undeliverable, handed 1 2, given_back 2 undeliverable
1 0 undeliverable here and given to another: handed 1, given_back 1 undeliverable, handed 1 consumer=2

[rejected_again]
2 1 rejected and delivered again: kept 1 2, handed 1, given_back 1 rejected, handed 2, given_back 2 rejected, came 1 epoch=1
1 0 rejected and discarded: kept 1, handed 1, given_back 1 rejected, settled epoch=1
0 0 released and delivered again: kept 1, handed 1, given_back 1, came 1 epoch=1

[refused_again]
2 1 refused and delivered again: handed 1, given_back 1 failed, handed 2, given_back 2 rejected, handed 1 consumer=2
1 0 refused and discarded: handed 1, given_back 1 failed, settled epoch=1

[delivered_twice]
2 1 acknowledged, confirmed, and delivered after a kill: kept 1 2, took 1 2, killed consumer-1, settled 1
1 1 acknowledged, confirmed, and delivered by the same run: kept 1, took 1, crashed, settled 1 epoch=1
1 0 acknowledged, not confirmed, and delivered after a kill: kept 1, handed 1, ack_sent 1, killed consumer-1, settled 1
1 0 handed over, not acknowledged, and delivered to a drain: kept 1, handed 1, crashed, settled 1 epoch=1
2 1 in two drains: kept 1 2, came 1, came 2, silent 1, came 1 drain=2 epoch=3, silent 2, silent 3
1 0 in a drain that ended with a depth above zero, and in the next: kept 1, came 1, stuck 1, came 1 drain=2 epoch=3,
    silent 2, silent 3
1 1 twice in one drain: kept 1, came 1, came 1, silent 1, silent 2
1 1 twice to one consumer: kept 1, handed 1 1, settled
1 0 once each to two consumers: kept 1, handed 1, crashed, handed 1 consumer=2, settled
1 0 once each to consumers 1 and 65: kept 1, handed 1, crashed, handed 1 consumer=65, settled
0 0 given back, and again to the same consumer: kept 1, handed 1, given_back 1, handed 1, acked 1, settled
0 0 rolled back, and again to the same consumer: kept 1, acked_in t1 1, rolled_back t1 by=consumer-1, acked_in t2 1,
    committed t2 by=consumer-1, settled
0 0 its acknowledgement refused, and again: kept 1, handed 1, ack_sent 1, ack_refused 1, handed 1, settled

[two_owners]
2 1 given to a second consumer while the first is live: kept 1, handed 1, handed 1 consumer=2, kept 2, handed 2, settled
2 1 given to a second consumer after the first has acknowledged: kept 1, took 1, handed 1 consumer=2, kept 2, handed 2,
    settled
2 1 given to consumer 65 while the first is live: kept 1, handed 1, handed 1 consumer=65, kept 2, handed 2, settled
3 0 given to two consumers, one after the other: kept 1 2, handed 1 2, handed 1 consumer=2, kept 3, handed 3 consumer=2,
    settled
1 0 released, and given to a second consumer: kept 1, handed 1, given_back 1, handed 1 consumer=2, kept 2, handed 2,
    settled
1 0 rolled back, and given to a second consumer: kept 1, acked_in t1 1, rolled_back t1 by=consumer-1,
    handed 1 consumer=2, kept 2, handed 2, settled
2 0 given to a second consumer after the first was killed: kept 1, handed 1, crashed, handed 1 consumer=2, kept 2,
    handed 2 consumer=2, settled
2 0 given to a second consumer after a restart: kept 1, handed 1, killed consumer-1, handed 1 consumer=2 epoch=2,
    kept 2, handed 2 consumer=2 epoch=2, settled
3 0 two consumers at a kill, and each message to another one after it: kept 1 p2:1, handed 1, handed p2:1 consumer=2, killed,
    handed 1 consumer=4 epoch=2, handed p2:1 consumer=3 epoch=2, kept p3:1, handed p3:1 consumer=3 epoch=2, settled
2 0 given to a second consumer after the connection of the first was cut, which waits in vain: kept 1, handed 1,
    fired cut, handed 1 consumer=2, kept 2, handed 2 consumer=2, starved
2 0 given to a second consumer while the first only takes what it had prefetched: kept 1 2, handed 1,
    handed 1 consumer=2, handed 2, settled
3 0 shared by two live consumers: kept 1 2, handed 1, handed 2 consumer=2, kept 3, handed 3, acked 1 3, settled

[drained_twice]
2 1 accepted by a drain, and got by a later one: kept 1 2, came 1, came 2, silent 1, came 1 drain=2 epoch=3, silent 2,
    silent 3
1 1 got twice by one drain: kept 1, came 1, came 1, silent 1, silent 2
1 0 its acknowledge() returned, and a drain gets it after a kill: kept 1 2, took 1 2, killed consumer-1, settled 1
1 0 got by a drain that ended with a depth above zero, and by the next: kept 1, came 1, stuck 1, came 1 drain=2 epoch=3,
    silent 2, silent 3

[overtaken]
3 1 a message after a later one of its producer: kept 1 2 3, handed 1 3 2, settled
3 0 messages in their order: kept 1 2 3, handed 1 2 3, settled
2 0 a message after one of another producer: kept p2:5 1, handed p2:5 1, settled
3 1 a message after a later one of its producer, with one of another in between: kept 1 2 p2:5, handed 2 p2:5 1, settled
4 0 two producers, a kill, and each in its order: kept 1 2 p2:1, handed p2:1 1, sent p2:2, killed, no_answer p2:2,
    settled 2 p2:2
2 1 a drain out of order: kept 1 2, settled 2 1
3 0 a drain out of order after a consumer: kept 1 2 3, handed 1, crashed, settled 3 2 epoch=1
1 0 a message that was given back comes after a later one: kept 1 2, handed 1, given_back 1, handed 2 1, settled

[reordered_by_restart]
4 3 in reverse after a kill, and one was acknowledged before: kept 1 2 3 4 5, took 1, killed consumer-1, settled 5 4 3 2
4 0 in order after a kill, and one was acknowledged before: kept 1 2 3 4 5, took 1, killed consumer-1, settled 2 3 4 5
2 1 in reverse in a transaction: put t1 1 2 3, committed t1, handed 1, killed, settled 1 3 2
0 0 in reverse without a restart: kept 1 2 3, handed 1, crashed, settled 3 2 epoch=1
1 0 in reverse, and a consumer had one of them: kept 1 2 3, handed 1 3, killed, settled 3 2
2 0 one after the other, in two drains: kept 1 2, killed, came 2, silent 1, came 1 drain=2 epoch=3, silent 2, silent 3
2 0 in reverse of two producers: kept 1 p2:1, killed, settled p2:1 1
1 0 in reverse, and one was sent with a delay: kept 1 delay=9, kept 2, killed, settled 2 1
1 0 in reverse, and one was sent again: kept 1 2, sent 1, killed, no_answer 1, settled 2 1

[reordered_by_rollback]
3 2 in reverse after a rollback: kept 1 2 3, acked_in t1 1 2 3, rolled_back t1 by=consumer-1, settled 3 2 1 epoch=1
3 0 in order after a rollback: kept 1 2 3, acked_in t1 1 2 3, rolled_back t1 by=consumer-1, settled 1 2 3 epoch=1
0 0 in reverse after a commit without an effect: kept 1 2, acked_in t1 1 2, committed t1 by=consumer-1, settled 2 1 epoch=1
1 0 in reverse, and one was acknowledged in two transactions: kept 1 2, acked_in t1 1 2, rolled_back t1 by=consumer-1,
    acked_in t2 2, rolled_back t2 by=consumer-1, settled 2 1 epoch=1
0 0 rolled back, and handed again to the consumer that held them at its end: kept 1 2, acked_in t1 1 2,
    rolled_back t1 by=consumer-1, handed 1 2, crashed, settled 2 1 epoch=1
2 0 rolled back in two transactions, one after the other: kept 1 2, acked_in t1 1, rolled_back t1 by=consumer-1,
    acked_in t2 2, rolled_back t2 by=consumer-1, settled 2 1 epoch=1
0 0 in reverse, and the rollback had no answer: kept 1 2, acked_in t1 1 2, rolled_back t1 None by=consumer-1, killed,
    settled 2 1
2 0 in reverse, and of two priorities: kept 1 priority=0, kept 2 priority=9, acked_in t1 2 1,
    rolled_back t1 by=consumer-1, settled 2 1 epoch=1
2 0 in the order in which they were sent, by two processes: kept 2, kept 1, acked_in t1 2 1,
    rolled_back t1 by=consumer-1, settled 2 1 epoch=1
2 0 rolled back, and in reverse of two producers: kept 1 p2:1, acked_in t1 1 p2:1, rolled_back t1 by=consumer-1, settled p2:1 1 epoch=1

[outranked]
3 1 the lowest priority before the highest: kept 1 priority=0, kept p2:1 p2:2 priority=9, handed p2:1 1 p2:2, settled
3 0 the highest first: kept 1 priority=0, kept p2:1 p2:2 priority=9, handed p2:1 p2:2 1, settled
2 0 of one priority a later one first: kept 1 priority=7, kept p2:1 priority=7, handed p2:1 1, settled
2 1 no priority before a high one: kept 1, kept p2:1 priority=5, handed 1 p2:1, settled
2 0 no priority before one that is as good: kept 1, kept p2:1 priority=4, handed 1 p2:1, settled
1 0 the high one was confirmed after the first delivery: kept 1 priority=0, handed 1, kept p2:1 priority=9, handed p2:1,
    settled
1 0 the high one came twice: kept 1 priority=0, kept p2:1 priority=9, handed 1 p2:1, crashed, settled p2:1 epoch=1
1 0 the low one was prefetched when the high one was sent: kept 1 priority=0, limited consumer-1 10,
    kept p2:1 priority=9, handed 1 p2:1, settled
1 0 a drain had prefetched the low one when the high one was sent: kept 1 priority=0, limited drain-1 10,
    kept p2:1 priority=9, came 1 epoch=1, came p2:1 epoch=1, silent 1, silent 2
0 0 the high one was prefetched by another consumer, which died: kept 1 priority=0, kept p2:1 priority=9,
    limited consumer-2 1, limited consumer-1 1, handed 1, crashed, handed p2:1, settled

[lost]
3 1 two producers and two consumers at a kill, and one acknowledgement in flight: kept 1 2 p2:1, handed 1,
    handed p2:1 consumer=2, ack_sent 1, sent p2:2, killed, no_answer p2:2, settled p2:1
4 2 lost from the prefetch of a dead consumer: kept 1 2 3 4, took 1, crashed, settled 3 epoch=1

[acknowledged_late]
2 1 acknowledged after processing began: handed 1, began 1, ack_sent 1, handed 2, ack_sent 2, began 2
1 1 processed and never acknowledged: handed 1, began 1, processed 1
1 0 cut short before either: handed 1, crashed

[event_for_several]
4 2 an answer to two sends, beside two answers: sent 1 2 3 4, ranged 1 2, confirmed 3 4
2 0 an answer to each of two sends: sent 1 2, confirmed 1 2

[over_window]
3 1 three sends unanswered where two may be: limited publisher-1 2, sent 1 2 3
3 0 a third send after an answer: limited publisher-1 2, sent 1 2, confirmed 1, sent 3
4 0 sends that ask for no answer take no room: limited publisher-1 1, unasked 1, sent 2, unasked 3, confirmed 2, sent 4
"""
