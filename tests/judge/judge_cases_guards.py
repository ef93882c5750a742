"""Histories that differ from others by one word: what an anomaly must leave out, or must not.

`test_mutants` found them: each tells a changed condition of its anomaly from the right one.
"""

GUARDS = """
[acknowledge_waited]
0 0 an acknowledge that waits for the liveness bound, without halted consumer-1: handed 1, ack_sent 1, pause LONG,
    resumed consumer-1, returned 1
1 1 an acknowledge that waits for the liveness bound, without returned 1: handed 1, halted consumer-1, ack_sent 1,
    pause LONG, resumed consumer-1
1 0 an acknowledge that returns in the pause, after the liveness bound, with ack_sent 1 later: handed 1, halted
    consumer-1, pause LONG, ack_sent 1, returned 1, resumed consumer-1

[acknowledged_after_processing]
0 0 acknowledged when the listener had returned, without transferred 1: kept 1, handed 1, processed 1, disposed 1

[acknowledged_at_all]
1 1 acknowledged before all of it had reached the client: kept 1, transferred 1, handed 1, disposed 1, reached 1 short=1

[acknowledged_in_bulk]
2 1 two by a frame of its own each, with handed 1 2 later: kept 1 2, brought 1, brought 2, acknowledged 1
    multiple=False, handed 1 2, acknowledged 2 multiple=False

[acknowledged_late]
1 1 acknowledged on link, without handed 3: kept 1 2 3, transferred 1 2, disposed 1, acked 3

[acknowledged_lazily]
0 0 acknowledged when the next one was processed, without transferred 1 2: kept 1 2, took_in_turn 1 2, disposed 1 2

[acknowledged_unreceived]
1 0 prefetched, never received, and left alone, beside a refusal: sent 8, refused 8, prefetched, disposed 1

[answered_afterwards]
2 0 sends halted, without kept 1: sent 2, halted, sent 3, kept 4, put t1 5, resumed, kept 6

[answered_late]
1 1 below a third and never answered, beside a refusal: sent 8, refused 8, window 9, sent 1, pause 30000, no_answer 1
    unanswered
0 0 a third of the window, rounded down, is another sentence's matter: window 5, sent 1, pause 30000,
    no_answer 1 unanswered
0 0 never answered in a transaction: window 9, sent 1 tx=t1, pause 30000, no_answer 1 unanswered

[answered_within_window]
0 0 two of them in one answer, without immediate 1 2: window 9, ranged 1 2

[asynchronous_send_waited]
0 0 a send in a transaction may return, by asynchronous send waited: halted, put t1 1, resumed
1 1 a send that waits for the liveness bound, without confirmed 1: halted, sent 1, pause LONG, resumed
1 0 a send with a listener that returns in the pause, after the liveness bound, with sent 1 later: halted, pause LONG,
    sent 1, back 1, resumed, confirmed 1

[available_undischarged]
0 0 a commit without an answer is a discharge, outside a transaction: kept 1, committed t1 INFO, killed, settled 1

[came_back]
0 0 received, without settled 3: took 1, kept 2

[came_otherwise_than_other]
0 0 the old one is gone, and the new one is not there, not durable: kept 1 durable=False, acked_in t1 1, forwarded t1
    p9:1, committed t1 INFO by=consumer-1, killed consumer-1, settled
0 0 prefetched by a client that was killed, without disposed 1 2: prefetched, crashed

[committed_before_sync]
0 0 a commit of what is not persistent: sent 1 tx=t1 durable=False, committed t1, wrote t1

[committed_missing]
0 0 two of them in one answer, without immediate 1 2, again: window 9, ranged 1 2
0 0 a committed message that was not durable is not lost, beside a refusal: sent 8, refused 8, sent 1 durable=False
    tx=t1, committed t1, killed, settled

[committed_though_sync_failed]
0 0 a commit answered although its sync had failed, without committed t1 None: put t1 1 2, wrote t1, sync_failed t1,
    answered COMMIT t1
0 0 a commit written again, synced, and then answered, without sync_failed t1: put t1 1, committed t1 None, wrote t1,
    synced t1, answered COMMIT t1
1 1 a commit written again, synced, and then answered, without wrote t1: put t1 1, committed t1 None, sync_failed t1,
    synced t1, answered COMMIT t1
1 1 a commit written again, synced, and then answered, without synced t1: put t1 1, committed t1 None, sync_failed t1,
    wrote t1, answered COMMIT t1
0 0 a failed commit whose writes could not be seen: put t1 1, committed t1 None, wrote t1, sync_failed t1,
    answered COMMIT t1, hidden
0 0 a failed commit of what is not persistent: sent 1 tx=t1 durable=False, committed t1 None, wrote t1, sync_failed t1,
    answered COMMIT t1
1 1 a failed commit of a message, and of one that was refused: put t1 1, sent 2 tx=t1, refused 2 tx=t1,
    committed t1 None, wrote t1, sync_failed t1, answered COMMIT t1
1 0 a commit that was synced before a later sync failed: put t1 1, committed t1 None, wrote t1, synced t1,
    sync_failed t1, answered COMMIT t1
0 0 a failed rollback: put t1 1, rolled_back t1 None, wrote t1, sync_failed t1, answered ROLLBACK t1
0 0 a failed commit after a rollback, where the disk does not say which record failed: kept 1, acked_in t1 1,
    rolled_back t1 by=consumer-1, acked_in t2 1, committed t2 None by=consumer-1, wrote t2, sync_failed t2,
    answered COMMIT t2 by=consumer-1

[confirmed_missing]
0 0 a confirm of a message that is not persistent is not judged, beside a refusal: sent 8, refused 8, kept 1
    durable=False, settled
0 0 a permission to lose is witnessed by a missing message, with killed later: kept 1 2, settled 2, killed

[confirmed_nowhere]
0 0 a confirmed message that the last depth counts is kept, in a transaction: put t9 1, silent 1, stuck 2

[confirmed_though_sync_failed]
0 0 commit sync failed, without committed t1 INFO: put t1 1 2, wrote t1, sync_failed t1, put t2 3, sync_failed 3,
    committed t2
0 0 a failed sync of what is not persistent: sent 1 durable=False, wrote 1, sync_failed 1, confirmed 1

[corrupt]
1 0 a message that arrived altered, without came 1 intact=False: kept 1 2, came 2

[counted_at_first]
0 0 a second delivery may count, without kept 1: handed 1, handed 1 count=1

[covered_wrongly]
0 0 a transaction without a request to commit is not judged, without killed consumer-1: kept 1, acked_in t1 1, settled
0 0 received, by covered wrongly: took 1, kept 2, settled 3

[delivered_after_acknowledgement]
1 1 acknowledged after a restart, and then delivered by the same run: kept 1, handed 1, killed consumer-1,
    of consumer-1 ACK INVOKE p1:1 epoch=2, of consumer-1 ACK OK p1:1 epoch=2, came 1

[delivered_twice]
1 0 acknowledged, confirmed, and delivered after a kill, without took 1 2: kept 1 2, killed consumer-1, settled 1

[drained_twice]
0 0 released and delivered again, without handed 1: given_back 1, came 1 epoch=1
0 0 acknowledged in a transaction without a commit, without kept 1: acked_in t1 1, settled 1

[failed_gone]
0 0 failed, come again and taken, without kept 1: handed 1, given_back 1 failed, took 1, settled epoch=1

[failure_uncounted]
1 1 a failure that does not count, without handed 2 count=1: handed 1, given_back 1 failed, handed 1 2, given_back 2
    failed

[failure_unmarked]
0 0 the same count at another consumer, by failure unmarked: handed 1, given_back 1 failed, handed 1 consumer=2
0 0 a mark that could not be seen, without handed 1: given_back 1 failed, handed 1 redelivered=None
0 0 a mark that could not be seen, without given_back 1 failed: handed 1, handed 1 redelivered=None

[first_acquirer_twice]
0 0 claimed first, without came 1 epoch=1: handed 1 2, handed 3 first_acquirer=False, came 3 epoch=1

[flag_differs]
1 0 flags on link, without kept 3 durable=False: kept 1 2, flagged 1, unflagged 3

[flag_set]
1 0 non persistent on link, without kept 1: flagged 1, kept 2 3 durable=False, unflagged 2

[given_back_nowhere]
0 0 refused and discarded, beside a refusal: sent 8, refused 8, handed 1, given_back 1 failed, settled epoch=1

[gone]
0 0 delivered, not persistent, and away: kept 1 durable=False, handed 1, crashed, settled
0 0 never delivered, and away: kept 1, settled

[gone_after_acknowledge]
0 0 the acknowledge took a later message, without kept 1 2: handed 1, acked 1, handed 2, crashed, settled
0 0 the acknowledge took a later message, without settled: kept 1 2, handed 1, acked 1, handed 2, crashed
1 1 a message before the acknowledge is another sentence's matter, with handed 1 2 later: kept 1 2, acked 2, handed 1
    2, crashed, settled

[half_applied]
0 0 an answered commit, and both came again, without killed consumer-1: kept 1 2, acked_in t1 1 2, committed t1
    by=consumer-1, settled 1 2
0 0 a committed message that was not durable is not lost, without killed: sent 1 durable=False tx=t1, committed t1,
    settled
0 0 a commit, half of it there, and no silent drain: put t1 1 2, committed t1, killed, came 1

[immediate_waited]
0 0 answered by the timer, with immediate 2 later: window 9, sent 1, pause 1000, immediate 2, ranged 1 2
0 0 two of them in one answer, without ranged 1 2: window 9, immediate 1 2
0 0 two of them in one answer, beside a refusal: sent 8, refused 8, window 9, immediate 1 2, ranged 1 2
0 0 a third of the window, rounded down, would be answered anyway: window 5, immediate 1, pause 1000, confirmed 1
0 0 never answered in a transaction, immediately: window 9, sent 1 tx=t1 detail="ack immediately", pause 1000,
    no_answer 1 unanswered
1 0 answered at once, late in the trial: pause 1000, window 9, immediate 1, confirmed 1
1 1 answered by the timer, late in the trial: pause 1000, window 9, immediate 1, pause 1000, confirmed 1

[lost_immediate]
0 0 confirmed at once and there, without confirmed 1: immediate 1, killed, settled 1
0 0 confirmed at once and there, without settled 1: immediate 1, confirmed 1, killed
0 0 confirmed at once, and not persistent: sent 1 durable=False detail="ack immediately", confirmed 1, killed, settled

[lost_in_range]
0 0 all of a range are there, without sent 1 2: ranged 1 2, killed, settled 1 2
0 0 all of a range are there, without settled 1 2: sent 1 2, ranged 1 2, killed
0 0 one refusal for two, without ranged 1: sent 1 2 3, ranged 2 3 phase=FAIL, settled 1 epoch=1

[lost_though_old]
0 0 a message confirmed long before the kill is lost though old, without settled 1: kept 1 2, pause 300, killed
0 0 a message confirmed long before the kill is lost though old, not durable: kept 1 2 durable=False, pause 300,
    killed, settled 1

[lost_unacknowledged]
0 0 the depth still counts one of two that are not there, not durable: kept 1 2 durable=False, handed 1 2, killed,
    silent 1, stuck 2

[many_unacknowledged]
0 0 a message that arrived as it was sent, without kept 1: came 1

[non_persistent_missing]
0 0 a drain out of order, without kept 1 2: settled 2 1
0 0 a message that was not persistent came, without settled 1: kept 1 durable=False, killed

[not_each_passed]
0 0 passed without an acknowledgement, without prefetched: handed 2, disposed 2

[not_exactly_one]
1 0 each for itself, without settled 1 epoch=1: kept 1 2, handed 1 2, acked 2, crashed
1 0 its neighbour is gone with it, without kept 1 2: handed 1 2, acked 2, crashed, settled epoch=1
0 0 acknowledged after a restart, each for itself: kept 1, handed 1, killed consumer-1,
    of consumer-1 ACK INVOKE p1:1 epoch=2, of consumer-1 ACK OK p1:1 epoch=2, came 1

[out_of_order_refused]
1 0 the later takes the earlier, without kept 1 2: handed 1 2, acked 2, settled epoch=1
1 0 the later takes the earlier, without settled epoch=1: kept 1 2, handed 1 2, acked 2
6 5 never received, and lost in one half, without kept p2:4: receiving first=3 again=3

[outcome_not_in_effect]
0 0 an accepted message is missing after an answered commit, without settled 1: put t1 1 2, committed t1
1 0 a commit was answered, and no outcome of one of its sends, not durable: put t1 1, sent 2 tx=t1 durable=False,
    committed t1, settled 1 2
0 0 an answered commit, and both came again, without killed consumer-1, again: kept 1 2, acked_in t1 1 2, committed t1
    by=consumer-1, settled 1 2

[over_prefetch]
1 0 a third after an acknowledgement, without handed 1 2: limited consumer-1 2, ack_sent 1, handed 3

[overtaken]
0 0 both taken, beside a refusal: sent 8, refused 8, handed 1 2, ack_sent 1 2 tx=t1

[phantom]
2 1 a message that was not sent, beside a refusal: sent 8, refused 8, kept 1, killed, settled 1 2

[processed_again]
1 0 processed before the cut, and delivered again, without handed 1: kept 1 2, processed 1, ack_sent 1, handed 2,
    fired cut, came 1 epoch=1, came 2 epoch=1

[processed_again_unlike_other]
0 0 processed, again in the second half, and set aside: listening first=3 again=13, set_aside p2:1

[refusal_hidden]
0 0 a refusal that a range hides, without sent 1 2: ranged 1 2, settled 1 epoch=1
0 0 a refusal that a range hides, without settled 1 epoch=1: sent 1 2, ranged 1 2

[released_gone]
0 0 released, come again and taken, without kept 1: handed 1, given_back 1, took 1, settled epoch=1

[rolled_back_before_sync]
2 2 a rollback answered before its sync, without synced t1: put t1 1 2, rolled_back t1, wrote t1
0 0 a rollback answered after its sync, without rolled_back t1 None: put t1 1, wrote t1, synced t1, answered ROLLBACK
    t1
0 0 a rollback whose writes could not be seen: put t1 1, rolled_back t1, wrote t1, hidden
0 0 a rollback of what is not persistent: sent 1 tx=t1 durable=False, rolled_back t1, wrote t1
1 1 a rollback of a message, and of one that was refused: put t1 1, sent 2 tx=t1, refused 2 tx=t1, rolled_back t1,
    wrote t1

[not_once]
0 0 sent exactly once, and not there, without settled: sent 1 detail="exactly once", confirmed 1
0 0 sent exactly once, not persistent, and not there: sent 1 durable=False detail="exactly once", confirmed 1, settled
0 0 sent again after a commit that was not stored, without settled 1 2: put t1 1 2, committed t1 INFO, killed, again
    t1 1 2, committed t1 by=publisher-2
0 0 taken for what the broker has, and nothing is there, without put t1 1 2: committed t1 INFO, killed, again t1 1 2,
    committed t1 by=publisher-2, settled
0 0 sent again, not persistent, and not there: sent 1 tx=t1 durable=False, committed t1 INFO, killed,
    of publisher-2 SEND INVOKE p1:1 transaction=t1 durable=False, committed t1 by=publisher-2, settled

[sent_ahead]
0 0 sends halted, with put t1 5 later: kept 1, sent 2, halted, sent 3, kept 4, resumed, put t1 5, kept 6

[sooner_than_round_trip]
0 0 a send that takes a round trip, without sent 1: slow 50, pause 49, confirmed 1
0 0 a send in a transaction beside a slow link: slow 50, put t1 1

[starved]
2 1 withheld from a consumer with a delivery open, with handed 1 later: kept 1 2, starved, handed 1, came 1, came 2

[stuck]
0 0 a message that waits for a long redelivery delay is not stuck, without silent 2: kept 1, handed 1, crashed,
    delayed 1
1 0 in the queue, with an acknowledgement on its way: kept 1, handed 1, ack_sent 1, crashed, silent 1, stuck 2
1 0 counted by the last depth while it waits for a long redelivery delay: kept 1, handed 1, crashed, silent 1,
    of drain-2 DEPTH OK count=1 epoch=2, delayed 2
1 0 acknowledged, and back after a depth above zero: kept 1, took 1, stuck 1, came 1 drain=2, silent 2

[threshold_moved]
0 0 thresholds offered, without waiting 10: waited_for_the_timer, offered, waiting 10 p2:2
0 0 answered sooner without a window: sent 1, pause 999, confirmed 1, offered, waiting 100

[transacted_acknowledgement]
1 0 rolled back, delivered again, and committed in a later transaction, with rolled_back t1 by=consumer-1 later: kept
    1, acked_in t1 1, acked_in t2 1, rolled_back t1 by=consumer-1, committed t2 by=consumer-1, settled
0 0 sent in one transaction, and taken in another, without acked_in t2 1: put t1 1, committed t1, committed t2
    by=consumer-1, settled
1 1 not persistent, and back after a commit: kept 1 durable=False, acked_in t1 1, committed t1 by=consumer-1,
    settled 1 epoch=1
1 1 back after a commit, and no silent drain: kept 1, acked_in t1 1, committed t1 by=consumer-1, came 1 epoch=1
1 0 its acknowledgement committed after a restart, and handed over from before: kept 1, acked_in t1 1,
    of consumer-1 COMMIT INVOKE transaction=t1 epoch=2, of consumer-1 COMMIT OK transaction=t1 epoch=2,
    handed 1 consumer=2, settled

[transacted_send_waited]
1 1 a send in a transaction is another's, without confirmed 1 tx=t1: halted, sent 1 tx=t1, pause LONG, resumed
0 0 a send in a transaction that has returned, without halted: put t1 1, pause LONG, committed t1 None, resumed
1 0 a send in a transaction that has returned, with put t1 1 later: halted, pause LONG, put t1 1, committed t1 None,
    resumed

[transaction_torn]
0 0 an answered commit, and both came again, without kept 1 2: acked_in t1 1 2, committed t1 by=consumer-1, killed
    consumer-1, settled 1 2
0 0 an answered commit, and both came again, without settled 1 2: kept 1 2, acked_in t1 1 2, committed t1
    by=consumer-1, killed consumer-1
0 0 a send accepted and then refused is not called lost, committed: put t9 1, committed t9, refused 1, killed, settled

[two_owners]
1 0 the later refused, beside a refusal: sent 8, refused 8, handed 1 2, ack_sent 2, ack_refused 2

[unanswered_absent]
0 0 one that is found does not witness the other way, with killed later: sent 1, settled 1, killed

[unanswered_either_way]
0 0 one that is absent does not witness the other way, without settled: sent 1, killed
1 0 one that is absent does not witness the other way, beside a refusal: sent 8, refused 8, sent 1, killed, settled

[unanswered_send]
0 0 an answer after the bound is an answer, not durable: sent 1 durable=False, no_answer 1 unanswered, confirmed 1

[unasked_missing]
0 0 a send without receipt before an answered one is missing, without settled 2: unasked 1, kept 2, killed
0 0 the last that was received, again in one half, by unasked missing: receiving first=3

[undeliverable_again]
1 0 undeliverable here and given to another, without handed 1 consumer=2: handed 1, given_back 1 undeliverable

[undischarged_gone]
0 0 acknowledged in an undischarged transaction, and back, in a transaction: put t9 1, acked_in t1 1, crashed, settled
    1 epoch=1
0 0 not persistent, and acknowledged in an undischarged transaction: kept 1 durable=False, acked_in t1 1, crashed,
    settled epoch=1

[unmarked]
0 0 not even itself, without crashed: kept 1, took 1, came 1 epoch=1

[unprocessed_gone]
0 0 on its way and back, without settled 1: kept 1, crashed
0 0 a confirm of a message that is not persistent is not judged, beside a refusal, again: sent 8, refused 8, kept 1
    durable=False, settled

[waited_for_timer]
1 0 a third that the timer answers, with sent 1 later: window 3, pause 999, sent 1, confirmed 1
0 0 a quarter of the window may wait: window 4, sent 1, pause 1000, confirmed 1
0 0 a window of one has no third: window 1, sent 1, pause 1000, confirmed 1

[window_stayed_shut]
1 0 room, and it is sent after the liveness bound: limited publisher-1 2, sent 1 2, waited 3 2, confirmed 1, shut 3 1,
    sent 3
"""
