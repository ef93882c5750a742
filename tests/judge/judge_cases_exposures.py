"""What each exposure counts, beside something close that it does not."""

EXPOSURES = """
[by frames]
2 persistent_on_link: kept 1 2 3, flagged 1, unflagged 2, kept 4 durable=False, flagged 4
1 non_persistent_on_link: kept 1, flagged 1, kept 2 3 durable=False, unflagged 2
2 flags_on_link: kept 1 2, flagged 1, kept 3 durable=False, unflagged 3
1 acknowledged_on_link: kept 1 2 3, transferred 1 2, disposed 1, handed 3, acked 3
1 carried: kept 1 2 3, transferred 1 2, reached 1, handed 3
1 reached_settled: kept 1 2 3 4, settled_on_link 1 2, transferred 3, reached 3 short=600, handed 4
1 left_prefetched: prefetched

[by events]
1 third_sent: limited publisher-1 3, sent 1, sent p2:1 tx=t1
1 less_sent: limited publisher-1 9, sent 1, sent p2:1 p2:2 p2:3
1 thresholds_offered: waited_for_the_timer, offered, waiting 10, waiting 10 p2:2
1 asked_immediately: immediate 1, sent 2
1 immediate_in_window: immediate 1, confirmed 1, pause 200, immediate 2, confirmed 2, kept 3, killed
2 ranged_in_window: sent 1 2, ranged 1 2, pause 200, sent 3 4, ranged 3 4, kept 5, killed
1 window_waits: limited publisher-1 2, sent 1 2, waited 3 2, confirmed 1, sent 3
1 acknowledged_out_of_order: handed 1 2, ack_sent 2, ack_sent 1, handed 3, ack_sent 3
3 sends_halted: kept 1, sent 2, halted, sent 3, kept 4, put t1 5, resumed, kept 6
2 questions: question 1 OK, question 2 FAIL, question 3 INFO, kept 1
2 sends_over_slow_link: slow 50, kept 1 2, sent 3
2 transacted_sends_halted: put t1 1, halted, put t1 2, sent 3 tx=t1, sent 4, resumed, put t1 5, committed t1
2 acknowledges_halted: took 1, handed 2 3, ack_sent 2, halted consumer-1, ack_sent 3, took 4, resumed consumer-1, took 5
2 commits_halted: put t1 1, committed t1, put t2 2 3, put t3 4, put t4 5, halted, committed t2 None, rolled_back t3,
    resumed, committed t4
2 rollbacks_halted: put t1 1, rolled_back t1, put t2 2 3, put t3 4, put t4 5, halted, rolled_back t2 None, committed t3,
    resumed, rolled_back t4
1 confirmed_in_window: kept 1, sent 2, put t1 3, committed t1, killed, settled 1
1 acknowledged_in_window: kept 1 2, took 1, handed 2, ack_sent 2, crashed
1 sends: kept 1, sent 2, no_answer 2, kept 3 durable=False
1 expired: kept 1 lives=5, kept 2 lives=9000, kept 3, sent 4 lives=5, pause 9, settled
1 delayed: kept 1 delay=5, kept 2 delay=9000, kept 3, sent 4 delay=9000, pause 9, limited consumer-1 9
1 expired_before_consumer: kept 1 lives=5, kept 2 lives=9000, kept 3, pause 9, limited consumer-1 9
1 confirmed: kept 1, sent 2, refused 2, put t1 3
2 received: took 1, kept 2, settled 3
2 answered: kept 1, sent 2, refused 2, sent 3, no_answer 3
1 unanswered: kept 1, sent 2, no_answer 2, put t1 3
2 acknowledged: took 1, handed 2, ack_sent 2, handed 3
1 acknowledgements_confirmed: took 1, handed 2, ack_sent 2
1 delivered_unacknowledged: took 1, handed 2 3, given_back 3
1 delivered_after_acknowledge: handed 1, ack_sent 2, handed 3
1 committed_in_window: put t1 1, committed t1, put t2 2, committed t2 INFO, kept 3, killed
2 commits_at_risk: put t1 1, committed t1, pause 200, put t2 2 3, committed t2 None, put t3 4, killed, settled 1 2 3
2 in_transactions: put t1 1 2, kept 3
1 commits_asked: put t1 1, committed t1 INFO, put t2 2, rolled_back t2, put t3 3
3 transactions_at_risk: kept 1, acked_in t1 1, committed t1 by=consumer-1, pause 200, kept 2, acked_in t2 2, forwarded t2 p9:1,
    committed t2 None by=consumer-1, put t1 3, committed t1, put t2 4, killed, settled 1
1 sent_again: put t1 1 2, committed t1 INFO, killed, again t1 1, committed t1 by=publisher-2
1 resumed: sent 1 2 detail="exactly once", killed, of publisher-2 SEND INVOKE p1:1 detail="exactly once, PUBREL 1 again"
1 undischarged: put t1 1, put t2 2, rolled_back t2, put t3 3, committed t3 None
1 acknowledged_undischarged: acked_in t1 1, acked_in t2 2, committed t2 None by=consumer-1, took 3
2 acknowledged_in_transactions: acked_in t1 1, committed t1 by=consumer-1, acked_in t2 2, rolled_back t2 by=consumer-1,
    acked_in t3 3, committed t3 INFO by=consumer-1
1 rolled_back: put t1 1, rolled_back t1 INFO, put t2 2, committed t2
1 released: handed 1, given_back 1, handed 2, given_back 2 failed
1 failed: handed 1, given_back 1 failed, handed 2, given_back 2
1 undeliverable: handed 1, given_back 1 undeliverable, handed 2, given_back 2
1 refused: handed 1, given_back 1 rejected, handed 2, sent 3, refused 3
1 delivered: handed 1, came 2
2 delivered_beside_another: handed 1, handed 2 consumer=2, handed 3, handed 4 consumer=2
1 unprocessed: kept 1 2, handed 1, processed 1, handed 2, came p2:1
1 unsent: kept 1 2, settled_on_link 1, closed
1 unasked: unasked 1, sent 2
1 non_persistent: kept 1 durable=False, kept 2, sent 3 durable=False
1 first_deliveries: handed 1, crashed, handed 2 consumer=2
1 claimed_first: handed 1 2, came 1 epoch=1, handed 3 first_acquirer=False, came 3 epoch=1
1 sync_held: sent 1 2 3, wrote 1 2 3, synced 1 held=True, synced 2, synced 3 held=True, confirmed 1 2
1 ack_sync_held: kept 1 2 3, handed 1, ack_sent 1, removed 1 held=True, returned 1, took 2, handed 3, ack_sent 3,
    removed 3 held=True
2 commit_sync_held: put t1 1 2, committed t1, wrote t1, synced t1 held=True, put t2 3, committed t2, wrote t2,
    synced t2, put t3 4, wrote 4, synced 4 held=True, committed t3
2 rollback_sync_held: put t1 1 2, rolled_back t1, wrote t1, synced t1 held=True, put t2 3, committed t2, wrote t2,
    synced t2 held=True
1 sync_failed: sent 1, wrote 1, sync_failed 1, kept 2, wrote 2, synced 2
2 commit_sync_failed: put t1 1 2, committed t1 INFO, wrote t1, sync_failed t1, put t2 3, sync_failed 3, committed t2
1 sends_refused: sent 1, refused 1, kept 2, refused 2, sent 3, no_answer 3
1 processed_unconfirmed: took 1, handed 2, processed 2, ack_sent 2, handed 3
"""
