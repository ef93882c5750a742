"""Answers, and when the disk had their records."""

DISK = """
[confirmed_before_sync]
1 0 confirmed after its sync: sent 1, wrote 1, synced 1, confirmed 1
2 1 confirmed before its sync: sent 1 2, wrote 1 2, confirmed 1, synced 1 2, confirmed 2
1 1 confirmed and never synced: sent 1, wrote 1, confirmed 1
1 1 confirmed before it was even written: sent 1, confirmed 1, wrote 1, synced 1
1 0 confirmed between two syncs: sent 1, wrote 1, synced 1, confirmed 1, wrote 1, synced 1
2 1 the sync of another message covers nothing of this one: sent 1 2, wrote 1 2, synced 2, confirmed 1 2
1 1 the sync of a commit that took it away covers nothing of its send: sent 1, wrote 1, acked_in t1 1,
    committed t1 by=consumer-1, synced t1, confirmed 1
1 0 a write that was not seen decides nothing: sent 1 2, wrote 2, synced 2, confirmed 1 2
0 0 before its sync, and not persistent: sent 1 durable=False, wrote 1, confirmed 1
0 0 before its sync, and without an answer: sent 1, wrote 1, no_answer 1
0 0 before its sync, and answered with a refusal: sent 1, wrote 1, refused 1
0 0 before its sync, and provisional: sent 1 tx=t1, wrote 1, confirmed 1 tx=t1
0 0 before its sync, where not everything can be seen: sent 1, wrote 1, confirmed 1, hidden
1 1 the sync of its acknowledgement covers nothing of a send: sent 1, wrote 1, handed 1, acked 1, removed 1, confirmed 1

[committed_before_sync]
2 0 a commit answered after its sync: put t1 1 2, committed t1 None, wrote t1, synced t1, answered COMMIT t1
2 2 a commit answered before its sync: put t1 1 2, committed t1 None, wrote t1, answered COMMIT t1, synced t1
1 1 a commit answered and never synced: put t1 1, committed t1, wrote t1
3 1 the sync of another commit covers nothing of this one: put t1 1, put t2 2 3, committed t1 None, wrote t1, wrote t2,
    synced t2, answered COMMIT t1, committed t2
0 0 the syncs of its messages say nothing of a commit: put t1 1, wrote 1, synced 1, committed t1
0 0 a commit without an answer promises nothing at the disk: put t1 1, committed t1 INFO, wrote t1
1 1 a commit answered before its sync, and a member refused: put t1 1, sent 2 tx=t1, refused 2 tx=t1, committed t1,
    wrote t1
2 2 a commit of acknowledgements answered before its sync: kept 1 2, acked_in t1 1 2, committed t1 by=consumer-1,
    wrote t1, synced t1
0 0 a commit where not everything can be seen: put t1 1, committed t1, wrote t1, hidden
0 0 committed after a rollback, which has a record of its own: kept 1, acked_in t1 1, rolled_back t1 by=consumer-1,
    wrote t1, acked_in t2 1, committed t2 None by=consumer-1, wrote t2, synced t2, answered COMMIT t2 by=consumer-1

[acknowledged_before_sync]
1 0 an acknowledgement answered after its sync: kept 1, handed 1, ack_sent 1, removed 1, returned 1
1 1 an acknowledgement answered before its sync: kept 1, handed 1, acked 1, removed 1
1 1 an acknowledgement answered and never synced: kept 1, handed 1, ack_sent 1, unsynced 1, returned 1
1 1 the sync of its message says nothing of an acknowledgement: sent 1, wrote 1, synced 1, confirmed 1, handed 1, ack_sent 1,
    unsynced 1, returned 1
2 1 the sync of another acknowledgement covers nothing of this one: kept 1 2, handed 1 2, ack_sent 1, removed 1,
    returned 1, ack_sent 2, unsynced 2, returned 2
0 0 an acknowledgement for which nothing is written: kept 1, took 1
0 0 an acknowledgement without an answer promises nothing at the disk: kept 1, handed 1, ack_sent 1, unsynced 1
0 0 an acknowledgement of a message that is not persistent: kept 1 durable=False, handed 1, acked 1, unsynced 1
0 0 an acknowledgement where not everything can be seen: kept 1, handed 1, acked 1, unsynced 1, hidden

[rolled_back_before_sync]
2 2 a rollback answered before its sync: put t1 1 2, rolled_back t1, wrote t1, synced t1
1 0 a rollback answered after its sync: put t1 1, rolled_back t1 None, wrote t1, synced t1, answered ROLLBACK t1
0 0 a rollback for which nothing is written: put t1 1, rolled_back t1
0 0 a commit is no rollback: put t1 1, committed t1, wrote t1

[confirmed_though_sync_failed]
1 1 confirmed although its sync had failed: sent 1 2, wrote 1 2, sync_failed 1, synced 2, confirmed 1 2
1 1 confirmed although its write had failed: sent 1, sync_failed 1 disk_full, confirmed 1
1 1 confirmed before its sync failed: sent 1, wrote 1, confirmed 1, sync_failed 1
1 0 its sync failed, and it was not confirmed: sent 1, wrote 1, sync_failed 1, no_answer 1
0 0 its sync failed, and it was refused: sent 1, wrote 1, sync_failed 1, refused 1
1 0 written again, synced, and then confirmed: sent 1, sync_failed 1 disk_full, wrote 1, synced 1, confirmed 1
1 1 written again, and confirmed before that was synced: sent 1, sync_failed 1 disk_full, wrote 1, confirmed 1, synced 1
1 0 stored and confirmed before a copy of it failed: sent 1, wrote 1, synced 1, confirmed 1, wrote 1, sync_failed 1
1 0 written again, synced, confirmed, and copied later on: sent 1, wrote 1, sync_failed 1, wrote 1, synced 1,
    confirmed 1, wrote 1, synced 1
1 1 a later sync alone mends nothing: sent 1, wrote 1, sync_failed 1, synced 1, confirmed 1
0 0 a failed sync where not everything can be seen: sent 1, wrote 1, sync_failed 1, confirmed 1, hidden

[committed_though_sync_failed]
2 2 a commit answered although its sync had failed: put t1 1 2, committed t1 None, wrote t1, sync_failed t1,
    answered COMMIT t1
1 0 a commit whose sync failed, without an answer: put t1 1, committed t1 INFO, wrote t1, sync_failed t1
1 0 a commit written again, synced, and then answered: put t1 1, committed t1 None, sync_failed t1, wrote t1, synced t1,
    answered COMMIT t1

[refused_delivered]
2 1 refused, and received: sent 1 2, refused 1, refused 2, handed 1
1 1 refused when the disk was full, and there after a restart: sent 1, sync_failed 1 disk_full, refused 1,
    of drain-1 DRAIN OK p1:1 intact=True
1 0 refused, and not received: sent 1, refused 1, kept 2, handed 2
0 0 accepted as well: kept 1, refused 1, handed 1
1 0 refused, sent again without an answer, and received: sent 1, refused 1, sent 1, no_answer 1, handed 1
0 0 refused in a transaction: sent 1 tx=t1, refused 1 tx=t1, handed 1
0 0 without an answer, and received: sent 1, killed, no_answer 1, handed 1

[refused_with_room]
3 1 one of the first ten is refused: kept 1, sent 2, refused 2, kept 10
1 0 the eleventh and later ones find the queue full: kept 1, sent 11 12, refused 11, refused 12
3 1 the next publisher to the queue: kept 1, kept p2:1, sent p2:2, refused p2:2
1 0 without an answer: kept 1, sent 2, killed, no_answer 2
"""
