"""Sends and their answers, transactions, and publish windows."""

SENDS = """
[not_recovered]
3 3 all that was sent is out of reach of a broker that does not start: kept 1 2, sent 3, killed, not_back
2 0 a broker that starts from a copy of its data is not accused: kept 1 2, killed, unready
1 0 a broker that starts again has recovered: kept 1, killed, settled 1
1 1 a broker that starts once after a fault and not a second time has not recovered: kept 1, killed, settled 1, not_back
1 1 a broker that the trial before ended does not start for this one: not_back
0 0 a broker that may or may not be to blame, before any message: unready

[not_alive]
2 2 a broker that ends by itself is convicted by all that was sent to it: kept 1, sent 2, not_alive, no_answer 2
1 0 a broker that stays alive is not: kept 1, settled 1
1 0 a broker that does not start after a kill ended by a fault: kept 1, killed, not_back
1 1 a broker that ends by itself before any message: not_alive

[not_served]
2 2 a broker that takes nothing more after a shortage is convicted by all that was sent to it: kept 1, sent 2, not_served, no_answer 2
1 0 a broker that goes on is not: kept 1, settled 1
1 0 a broker that ended by itself is accused of that alone: kept 1, not_alive

[lost]
0 0 what is in a broker that ended by itself is not called lost: kept 1, not_alive
0 0 what a broker that does not start holds is not called lost: kept 1, killed, not_back
2 1 a confirmed message that never came is lost: kept 1 2, killed, settled 1
1 0 a confirmed message that came is not lost: kept 1, killed, settled 1
1 0 a message that only a consumer got is not lost: kept 1, took 1, killed consumer-1, settled
2 1 an expired message is not lost, and its neighbour is: kept 1 2 3, killed, settled 1, set_aside 2 queue=ExpiryQueue
1 1 an answer read after the kill counts as confirmed: sent 1, killed, confirmed 1, settled
0 0 a send without an answer is never lost: sent 1, killed, no_answer 1, settled
0 0 a refused send is never lost: sent 1, refused 1, killed, settled
1 1 a send accepted and then refused is lost, because the first outcome counts: kept 1, refused 1, killed, settled
0 0 a message that was not durable is not lost: sent 1 durable=False, confirmed 1, killed, settled
0 0 one drain decides nothing: kept 1, killed, silent 1
1 1 a message that one depth counted, and that neither a drain nor the next depth knows, is lost: kept 1, killed,
    stuck 1, silent 2
1 0 a message that the last depth counts is not lost: kept 1, killed, silent 1, stuck 2
2 1 of two missing messages one is lost where the last depth counts one: kept 1 2, killed, stuck 1, stuck 2
2 1 a missing message beside one that came after a restart is lost: kept 1 2, killed, stuck 1, came 1 drain=2 epoch=3,
    silent 2, silent 3
0 0 drains before the fault decide nothing: kept 1, settled, killed
0 0 a last drain that brings a message leaves the others undecided: kept 1 2, killed, silent 1, came 1 drain=2, silent 2
3 2 a late message hides no loss once a drain brings nothing: kept 1 2 3, killed, silent 1, came 1 drain=2 epoch=3,
    silent 2, silent 3
0 0 a fifth drain that brings a message leaves the others undecided: kept 1 2, killed, silent 1, silent 2, silent 3,
    silent 4, came 1 drain=5 epoch=6, silent 5
0 0 a provisional answer confirms nothing: put t1 1, killed, settled
0 0 a provisional answer read when the connection had gone confirms nothing: sent 1 tx=t1, killed, confirmed 1, settled
0 0 a message whose time to live is over may be gone: kept 1 lives=5, pause 9, killed, settled
1 1 a message that is gone before its time is lost: kept 1 lives=9000, killed, settled
1 0 the last depth counts a message without an end, and not one whose time is over: kept 1 lives=5, kept 2, pause 9,
    killed, silent 1, stuck 2

[expired_nowhere]
3 2 two messages whose time is over are in no queue, and one was moved: kept 1 2 3 lives=5, pause 9, killed,
    set_aside 2 queue=ExpiryQueue, settled
1 0 a message that came before its time was over: kept 1 lives=5, killed, settled 1
0 0 a message whose time is not over has to be in its own queue: kept 1 lives=9000, killed, settled
0 0 a message without an end has to be in its own queue: kept 1, killed, settled
0 0 a message that is not persistent may be gone: kept 1 lives=5 durable=False, pause 9, killed, settled
0 0 a send without an answer may be gone: sent 1 lives=5, pause 9, killed, no_answer 1, settled
0 0 expired messages of a queue that is not drained are not judged: kept 1 lives=5, pause 9, killed, silent 1

[confirmed_without_queue]
2 1 one send got its answer, another was refused: sent 1, confirmed 1, sent 2, refused 2
1 1 it is there, in a queue that nothing should have made: kept 1, settled 1
1 0 a publisher was turned away from a queue that does not exist: sent 1, refused 1 not-found
0 0 a send to a queue that does not exist has no answer: sent 1, no_answer 1
0 0 the answer in a transaction is provisional, and its queue unknown: put t1 1, committed t1

[confirmed_nowhere]
3 1 a message that was confirmed and is in no queue, beside one that is there and one that was refused: kept 1 2,
    sent 3, refused 3, settled 1
1 0 a message that was moved to another queue is not judged, and its neighbour is: kept 1 2, settled 1,
    set_aside 2 queue=DLQ
1 0 a publisher that was turned away had an answer: sent 1, refused 1 not-found, settled
1 0 a confirmed message that the last depth counts is kept: kept 1, silent 1, stuck 2
1 0 a send without an answer promises nothing: sent 1, no_answer 1, settled
0 0 a confirm of a message that is not persistent is not judged: kept 1 durable=False, settled
0 0 one drain does not say what was kept: kept 1, silent 1

[stuck]
3 2 withheld from a live consumer for the liveness bound, and given to the next: kept 1 2 3, took 1, starved, came 2,
    came 3, silent 1, silent 2
2 1 withheld from one consumer, and given to a later one: kept 1 2, took 1, starved, handed 2 consumer=2, silent 1
1 1 committed and withheld: put t1 1, committed t1, starved, came 1, silent 1, silent 2
2 0 what a selector passes over, or overlooks, is not stuck: kept 1 2, starved, handed 1 detail="passed over",
    came 2 detail="selected in vain", silent 1
2 0 a consumer with a delivery open waits for the next: kept 1 2, handed 1, starved, came 1, came 2, silent 1
2 0 sent only after a consumer has waited: kept 1, took 1, starved, kept 2, came 2, silent 1
4 0 a consumer waits while another one holds the rest: kept 1 2 3 4, handed 1 consumer=2, handed 2, ack_sent 2, starved,
    handed 3, handed 4 consumer=2, silent 1
2 1 of two missing messages one is stuck where the last depth counts one: kept 1 2, killed, stuck 1, stuck 2
2 1 a missing message beside one that came after a restart is not stuck: kept 1 2, killed, stuck 1,
    came 1 drain=2 epoch=3, silent 2, silent 3
2 1 a confirmed message that no drain got before it gave up is stuck: kept 1 2, came 1, stuck 1, stuck 2
1 0 a message that waits for a long redelivery delay is not stuck: kept 1, handed 1, crashed, delayed 1, silent 2
1 1 a stuck message that comes after a restart was stuck: kept 1, stuck 1, came 1 drain=2, silent 2
1 1 an unacknowledged delivery that never comes back is stuck: kept 1, handed 1, crashed, stuck 1, stuck 2
2 1 a message that comes only after another restart is late with any depth: kept 1 2, killed, came 2, silent 1,
    came 1 drain=2 epoch=3, silent 2, silent 3
1 1 a committed message that comes only after another restart is late: put t1 1, committed t1, killed, silent 1,
    came 1 drain=2 epoch=3, silent 2, silent 3
1 0 a message that a second drain of the same run of the broker brings is not late: kept 1, killed, silent 1,
    came 1 drain=2, silent 2, silent 3
1 0 an acknowledged message that comes back after a restart is not late: kept 1, took 1, killed, silent 1,
    came 1 drain=2 epoch=3, silent 2, silent 3
1 0 a refused delivery that comes back after a restart is not late: kept 1, handed 1, given_back 1, silent 1,
    came 1 drain=2 epoch=3, silent 2, silent 3
1 0 a send without an answer that comes after a restart is not late: kept 2, sent 1, killed, no_answer 1, came 2,
    silent 1, came 1 drain=2 epoch=3, silent 2
1 0 a message that was not durable and that a depth no longer counts is not stuck: sent 1 durable=False, confirmed 1,
    stuck 1, silent 2
1 0 an acknowledged message is not stuck: kept 1, took 1, stuck 1, stuck 2
1 0 a silent queue has nothing stuck: kept 1, killed, settled

[confirmed_missing]
2 1 a permission to lose is witnessed by a missing message: kept 1 2, killed, settled 2
1 0 a permission to lose is not witnessed by what came: kept 1, killed, settled 1

[non_persistent_missing]
2 1 a message that was not persistent is missing: kept 1 2 durable=False, killed, settled 2
1 0 a message that was not persistent came: kept 1 durable=False, killed, settled 1
0 0 a persistent message that is missing witnesses no permission: kept 1, killed, settled

[unanswered_either_way]
2 1 an unanswered send that is found: sent 1 2, killed, no_answer 1, no_answer 2, settled 1
1 0 one that is absent does not witness the other way: sent 1, killed, settled

[unanswered_absent]
2 1 an unanswered send that is absent: sent 1 2, killed, no_answer 1, no_answer 2, settled 1
1 1 a send that nothing is known of at all is unanswered too: sent 1, killed, settled
1 0 one that is found does not witness the other way: sent 1, killed, settled 1
0 0 a send in a transaction has no answer of its own: put t1 1, killed, settled

[unasked_missing]
1 1 a send without receipt before an answered one is missing: unasked 1, kept 2, killed, settled 2
1 0 a send without receipt before an answered one is there: unasked 1, kept 2, killed, settled 1 2
0 0 a send without receipt after the last answered one may never have been received: kept 1, unasked 2, killed,
    settled 1
0 0 an answer to another producer says nothing of this one's sends: unasked 1, kept p2:2, killed, settled p2:2
0 0 a send without receipt that was not persistent witnesses nothing: unasked 1 durable=False, kept 2, killed, settled 2

[unanswered_send]
2 1 a send overdue on an open connection is unanswered: kept 1, sent 2, no_answer 2 unanswered
1 0 a send that lost its connection is not judged: kept 1, sent 2, no_answer 2 disconnected
1 0 an answer after the bound is an answer: sent 1, no_answer 1 unanswered, confirmed 1

[outcome_changed]
2 1 accepted and then rejected: kept 1 2, refused 1
1 1 rejected and then released: sent 1, refused 1, refused 1 released
1 0 the same outcome, sent twice, has not changed: kept 1, confirmed 1
1 0 an answer after none was expected has not changed: sent 1, no_answer 1, confirmed 1
1 0 a provisional outcome is none of its own: put t1 1, refused 1 tx=t1

[receipt_untrue]
2 1 a receipt beside which another came: kept 1 2, untrue 2
2 0 each receipt once: kept 1 2
1 1 a receipt that answers nothing, and no other: sent 1, untrue 1

[lost_though_old]
2 1 a message confirmed long before the kill is lost though old: kept 1 2, pause 300, killed, settled 1
1 0 a message confirmed just before the kill is not old: kept 1, pause 300, kept 2, killed, settled 1
1 1 a message of that age, where an answer took as long, is not old: sent 1, pause 400, confirmed 1, pause 500, kept 2,
    pause 400, killed, settled

[lost_silently]
2 1 a message that damage took, and of which the log says nothing, is lost silently: kept 1 2, killed, settled 2
1 0 a message that came is not lost: kept 1, killed, settled 1
1 0 what the log of the broker reports is not lost silently: kept 1, killed, reported, settled

[lost_committed]
2 1 a committed message that never came is lost: put t1 1 2, committed t1, killed, settled 2
1 0 a committed message that came is not lost: put t1 1, committed t1, killed, settled 1
1 1 an answer to the commit read after the kill counts: put t1 1, committed t1 None, killed,
    of publisher-1 COMMIT OK transaction=t1, settled
0 0 a commit without an answer promises nothing: put t1 1, committed t1 INFO, killed, settled
0 0 a commit that was refused promises nothing: put t1 1, committed t1 FAIL, killed, settled
0 0 a rollback promises nothing: put t1 1, rolled_back t1, killed, settled
1 0 the commit of another transaction promises nothing: put t1 1, put t2 2, committed t2, killed, settled 2
0 0 the commit of another process promises nothing: put t1 1, committed t1 by=publisher-2, killed, settled
1 0 a send refused in its transaction is not lost: put t1 1, sent 2 tx=t1, refused 2 tx=t1, committed t1, killed,
    settled 1
0 0 a committed message that was not durable is not lost: sent 1 durable=False tx=t1, committed t1, killed, settled
0 0 a committed message that comes late leaves the others undecided: put t1 1 2, committed t1, killed, silent 1,
    came 1 drain=2, silent 2

[committed_missing]
2 1 a permission to lose what was committed is witnessed: put t1 1 2, committed t1, killed, settled 2
1 0 a permission to lose what was committed is not witnessed: put t1 1, committed t1, killed, settled 1

[half_applied]
2 1 a commit without an answer, and half of it there: put t1 1 2, committed t1 INFO, killed, settled 1
2 0 a commit without an answer, and nothing of it there: put t1 1 2, committed t1 INFO, killed, settled
2 0 a commit without an answer, and all of it there: put t1 1 2, committed t1 INFO, killed, settled 1 2
2 1 an answered commit, and half of it taken by a consumer: put t1 1 2, committed t1, took 1, killed consumer-1, settled
2 0 one transaction there, and another not: put t1 1, committed t1, put t2 2, committed t2 INFO, killed, settled 1
0 0 a transaction without a request to commit does not apply: put t1 1 2, killed, settled 1
1 0 a send refused in its transaction is no half of it: put t1 1, sent 2 tx=t1, refused 2 tx=t1, committed t1, killed,
    settled 1

[outcome_not_in_effect]
3 0 a refused send is answered and left out, and the rest is there: put t1 1 2, sent 3 tx=t1, refused 3 tx=t1, committed t1,
    settled 1 2
2 1 the refusal was an answer, but not as part of the transaction: put t1 1, sent 2 tx=t1,
    refused 2 "rejected outside its transaction" tx=t1, committed t1, settled 1
2 1 an accepted message is missing after an answered commit: put t1 1 2, committed t1, settled 1
2 1 a refused message is there after an answered commit: put t1 1, sent 2 tx=t1, refused 2 tx=t1, committed t1,
    settled 1 2
2 1 a commit was answered, and no outcome of one of its sends: put t1 1, sent 2 tx=t1, committed t1, settled 1 2
3 0 a commit is refused after a refused send, and nothing is there: put t1 1 2, sent 3 tx=t1,
    refused 3 "rejected outside its transaction" tx=t1, committed t1 FAIL, settled
2 1 a commit is refused, and half of it is there: put t1 1 2, committed t1 FAIL, settled 1
0 0 a commit without an answer says nothing: put t1 1 2, committed t1 INFO, settled 1
0 0 a commit without an answer, and the refused commit of an acknowledgement: put t1 1, committed t1 INFO,
    acked_in t2 1, committed t2 FAIL by=consumer-1, settled 1 epoch=1
0 0 a refusal that cost the connection leaves the transaction open: put t1 1, sent 2 tx=t1, refused 2 tx=t1, settled

[transaction_torn]
2 1 a commit without an answer, and one of two came again: kept 1 2, acked_in t1 1 2, committed t1 INFO by=consumer-1,
    killed consumer-1, settled 1
2 0 a commit without an answer, and both came again: kept 1 2, acked_in t1 1 2, committed t1 INFO by=consumer-1,
    killed consumer-1, settled 1 2
2 0 a commit without an answer, and neither came again: kept 1 2, acked_in t1 1 2, committed t1 INFO by=consumer-1,
    killed consumer-1, settled
2 2 an answered commit, and both came again: kept 1 2, acked_in t1 1 2, committed t1 by=consumer-1, killed consumer-1,
    settled 1 2
2 1 the old one is gone, and the new one is not there: kept 1, acked_in t1 1, forwarded t1 p9:1,
    committed t1 INFO by=consumer-1, killed consumer-1, settled
2 1 the old one is there, and the new one too: kept 1, acked_in t1 1, forwarded t1 p9:1,
    committed t1 INFO by=consumer-1, killed consumer-1, settled 1 p9:1
2 0 the old one is there, and not the new one: kept 1, acked_in t1 1, forwarded t1 p9:1,
    committed t1 INFO by=consumer-1, killed consumer-1, settled 1
2 0 the new one is there, and not the old one: kept 1, acked_in t1 1, forwarded t1 p9:1,
    committed t1 INFO by=consumer-1, killed consumer-1, settled p9:1
2 0 one transaction took effect, and another did not: kept 1 2, acked_in t1 1, committed t1 by=consumer-1, acked_in t2 2,
    committed t2 INFO by=consumer-1, killed consumer-1, settled 2
2 0 two clients with transactions of one name: kept 1, acked_in t1 1, committed t1 INFO by=consumer-1, put t1 2,
    committed t1 INFO, killed consumer-1, settled
2 0 publisher 17 and consumer 1 with transactions of one name: kept 1, acked_in t1 1, committed t1 INFO by=consumer-1,
    put t1 2 publisher=17, committed t1 INFO by=publisher-17, killed consumer-1, settled
0 0 undone in one transaction, and acknowledged in another: kept 1, acked_in t1 1, committed t1 INFO by=consumer-1,
    killed consumer-1, handed 1 epoch=2 consumer=2, ack_sent 1 tx=t1 consumer=2, committed t1 by=consumer-2, settled
1 1 undone beside one that is in another: kept 1 2, acked_in t1 1 2, committed t1 by=consumer-1, killed consumer-1,
    handed 1 epoch=2 consumer=2, ack_sent 1 tx=t1 consumer=2, committed t1 by=consumer-2, settled 2
0 0 a transaction without a request to commit is not judged: kept 1, acked_in t1 1, killed consumer-1, settled
# Sent in a transaction before the kill and delivered after it: the commit of the other is not the one of its send.
1 0 sent in one transaction, and acknowledged in another after a restart: kept 1, acked_in t1 1, forwarded t1 p9:1,
    committed t1 by=consumer-1, killed consumer-1, handed p9:1 epoch=2, ack_sent p9:1 tx=t2,
    committed t2 by=consumer-1, settled
[returned_after_commit]
2 1 acknowledged in a transaction that was committed, and again after a restart: kept 1 2, acked_in t1 1 2,
    committed t1 by=consumer-1, killed consumer-1, settled 1
1 0 again in the same run of the broker is another's: kept 1, acked_in t1 1, committed t1 by=consumer-1, crashed,
    settled 1 epoch=1
0 0 a commit without an answer promises nothing of an acknowledgement: kept 1, acked_in t1 1,
    committed t1 None by=consumer-1, killed consumer-1, settled 1

[not_once]
1 0 sent exactly once, and there once: sent 1 detail="exactly once", confirmed 1, settled 1
1 1 sent exactly once, and there twice: sent 1 detail="exactly once", confirmed 1, settled 1 1
1 1 sent exactly once, and not there: sent 1 detail="exactly once", confirmed 1, settled
1 0 sent exactly once, without a last answer, and not there: sent 1 detail="exactly once", no_answer 1, settled
1 1 sent exactly once, without a last answer, and there twice: sent 1 detail="exactly once", no_answer 1, settled 1 1
2 0 sent again after a commit that was not stored: put t1 1 2, committed t1 INFO, killed, again t1 1 2,
    committed t1 by=publisher-2, settled 1 2
2 0 sent again after a commit that was stored, and refused: put t1 1 2, committed t1 INFO, killed, again t1 1 2,
    committed t1 FAIL by=publisher-2, settled 1 2
2 1 one of two is stored twice: put t1 1 2, committed t1 INFO, killed, again t1 1 2, committed t1 by=publisher-2,
    settled 1 2 1
2 2 taken for what the broker has, and nothing is there: put t1 1 2, committed t1 INFO, killed, again t1 1 2,
    committed t1 by=publisher-2, settled
1 1 refused as what the broker has, and not there: put t1 1, committed t1 INFO, killed, again t1 1,
    committed t1 FAIL by=publisher-2, settled
0 0 sent again, and the commit has no answer: put t1 1, committed t1 INFO, killed, again t1 1,
    committed t1 INFO by=publisher-2, settled
0 0 sent once, and not there: put t1 1, committed t1 INFO, killed, settled

[available_early]
2 1 received before its commit: put t1 1 2, handed 1, committed t1, handed 2
1 0 received when its commit had no answer yet: put t1 1, committed t1 None, handed 1
1 1 received after its rollback: put t1 1, rolled_back t1, handed 1
1 1 received after a rollback without an answer: put t1 1, rolled_back t1 INFO, killed, came 1
1 0 rolled back and not there: put t1 1, rolled_back t1, settled
1 0 received although it was not discharged: does not apply: put t1 1, killed, settled 1
1 0 sent outside of a transaction too, and received before the commit: sent 1, no_answer 1, handed 1, again t2 1,
    committed t2 by=publisher-2

[available_undischarged]
2 1 received without a request to commit: put t1 1 2, killed, settled 1
1 0 not there, without a request to commit: put t1 1, killed, settled
1 1 received only late, without a request to commit: put t1 1, killed, silent 1, came 1 drain=2, silent 2
0 0 a commit without an answer is a discharge: put t1 1, committed t1 INFO, killed, settled 1

[undischarged_gone]
2 1 acknowledged in an undischarged transaction, and gone: kept 1 2, acked_in t1 1 2, crashed, settled 2 epoch=1
1 1 acknowledged in a transaction whose rollback has no answer, and gone: kept 1, acked_in t1 1,
    rolled_back t1 None by=consumer-1, crashed, settled epoch=1
1 0 acknowledged in an undischarged transaction, and back: kept 1, acked_in t1 1, crashed, settled 1 epoch=1
1 0 back at a second consumer, which acknowledged it: kept 1, acked_in t1 1, crashed, handed 1 consumer=2,
    ack_sent 1 consumer=2, settled epoch=1
0 0 acknowledged in a transaction that was asked to commit, and gone: kept 1, acked_in t1 1,
    committed t1 INFO by=consumer-1, crashed, settled epoch=1
0 0 acknowledged outside of transactions, and gone: kept 1, handed 1, ack_sent 1, crashed, settled epoch=1
0 0 what comes back late leaves the others undecided: kept 1 2, acked_in t1 1 2, crashed, silent 1 epoch=1,
    came 1 drain=2, silent 2

[transacted_acknowledgement]
2 1 its acknowledgement committed, and again: kept 1 2, acked_in t1 1 2, committed t1 by=consumer-1, settled 1 epoch=1
1 0 its acknowledgement committed, and away: kept 1, acked_in t1 1, committed t1 by=consumer-1, settled epoch=1
1 0 its acknowledgement committed, and again after a restart: kept 1, acked_in t1 1, committed t1 by=consumer-1,
    killed consumer-1, settled 1 epoch=2
2 1 its acknowledgement rolled back, and gone: kept 1 2, acked_in t1 1 2, rolled_back t1 by=consumer-1,
    settled 2 epoch=1
1 0 rolled back, released, and back: kept 1, acked_in t1 1, rolled_back t1 by=consumer-1, given_back 1,
    settled 1 epoch=1
1 0 rolled back, delivered again, and committed in a later transaction: kept 1, acked_in t1 1,
    rolled_back t1 by=consumer-1, acked_in t2 1, committed t2 by=consumer-1, settled
1 1 rolled back, committed in a later transaction, and again: kept 1, acked_in t1 1, rolled_back t1 by=consumer-1,
    acked_in t2 1, committed t2 by=consumer-1, settled 1 epoch=1
0 0 rolled back, and a later commit without an answer: kept 1, acked_in t1 1, rolled_back t1 by=consumer-1,
    acked_in t2 1, committed t2 INFO by=consumer-1, settled
1 1 rolled back twice, and gone after the second: kept 1, acked_in t1 1, rolled_back t1 by=consumer-1, acked_in t2 1,
    rolled_back t2 by=consumer-1, settled
0 0 a rollback without an answer decides nothing: kept 1, acked_in t1 1, rolled_back t1 INFO by=consumer-1, settled
0 0 sent in one transaction, and taken in another: put t1 1, committed t1, acked_in t2 1, committed t2 by=consumer-1,
    settled

[rollback_refused]
2 1 a rollback that was refused: put t1 1, rolled_back t1, put t2 2, rolled_back t2 FAIL
1 0 a rollback of acknowledgements that was done: kept 1, acked_in t1 1, rolled_back t1 by=consumer-1
0 0 a rollback without an answer was not refused: put t1 1, rolled_back t1 INFO

[waited_for_timer]
1 1 a third that the timer answers: window 3, sent 1, pause 999, confirmed 1
1 0 a third that is answered sooner: window 3, sent 1, pause 998, confirmed 1
2 0 a third rounded down, and the rest by the timer: window 4, sent 1 2, confirmed 1, pause 1000, confirmed 2
2 2 a third rounded up, all by the timer: window 4, sent 1 2, pause 1000, confirmed 1 2
1 1 a third that is never answered: window 3, sent 1, pause 30000, no_answer 1 unanswered
0 0 a third whose connection is lost: window 3, sent 1, pause 1000, no_answer 1
0 0 less than a third may wait: window 9, sent 1, pause 1000, confirmed 1
0 0 a machine too slow to tell the timer: round_trip 500, limited publisher-1 3, sent 1, pause 1000, confirmed 1
0 0 sends too slow to tell the timer: window 6, sent 1, pause 500, sent 2, pause 600, confirmed 1 2
0 0 no round trip to compare with: limited publisher-1 3, sent 1, pause 1000, confirmed 1

[answered_late]
1 1 answered after the timer, half a second and a round trip: round_trip 100, limited publisher-1 9, sent 1, pause 1600,
    confirmed 1
1 0 answered just in time: round_trip 100, limited publisher-1 9, sent 1, pause 1599, confirmed 1
1 1 below a third and never answered: window 9, sent 1, pause 30000, no_answer 1 unanswered
0 0 a slow machine leaves the bound undecided: round_trip 500, limited publisher-1 9, sent 1, pause 2500, confirmed 1
0 0 a third is another sentence's matter: window 9, sent 1 2 3, pause 2000, confirmed 1 2 3

[threshold_moved]
1 1 answered sooner once a setting was offered: waited_for_the_timer, offered, waiting 100
1 0 as slow as before: waited_for_the_timer, offered, waiting 900
0 0 no setting was offered: waited_for_the_timer, waiting 100
0 0 a broker that never let one wait: limited publisher-1 9, kept 1, offered, waiting 100

[immediate_waited]
1 0 answered at once: window 9, sent 1, immediate 2, ranged 1 2
1 1 answered by the timer: window 9, sent 1, immediate 2, pause 1000, ranged 1 2
2 2 two of them in one answer: window 9, immediate 1 2, ranged 1 2
2 0 two of them, each with its own: window 9, immediate 1 2, ranged 1, ranged 2
2 0 answers that name no range: window 9, immediate 1 2, confirmed 1 2
0 0 a third of the window would be answered anyway: window 3, immediate 1, pause 1000, confirmed 1

[lost_immediate]
2 1 confirmed at once and lost: immediate 1 2, confirmed 1 2, kept 3, killed, settled 2
1 0 confirmed at once and there: immediate 1, confirmed 1, killed, settled 1

[lost_in_range]
2 1 one of a range is lost: sent 1 2 3, ranged 1 2, ranged 3, killed, settled 2
2 0 all of a range are there: sent 1 2, ranged 1 2, killed, settled 1 2
2 0 a range inside of which one was refused: sent 1 2 3, refused 2, ranged 1 3, killed, settled 1 3

[refusal_hidden]
2 1 a refusal that a range hides: sent 1 2, ranged 1 2, settled 1 epoch=1
2 0 a refusal of its own: sent 1 2, ranged 1, refused 2, settled 1 epoch=1
3 2 one refusal for two: sent 1 2 3, ranged 1, ranged 2 3 phase=FAIL, settled 1 epoch=1
1 0 refused and not answered when the link broke: sent 1 2, ranged 1, no_answer 2, settled 1 epoch=1

[not_exactly_one]
2 0 each for itself: kept 1 2, handed 1 2, acked 2, crashed, settled 1 epoch=1
2 1 its neighbour is gone with it: kept 1 2, handed 1 2, acked 2, crashed, settled epoch=1
1 1 not even itself: kept 1, took 1, crashed, came 1 epoch=1
0 0 unanswered, so either is right: kept 1, handed 1, ack_sent 1, settled 1 epoch=1

[out_of_order_refused]
1 0 the later first: kept 1 2, handed 1 2, acked 2, acked 1, settled epoch=1
1 1 the later refused: handed 1 2, ack_sent 2, ack_refused 2
2 1 the later takes the earlier: kept 1 2, handed 1 2, acked 2, settled epoch=1
0 0 refused in order: handed 1, ack_sent 1, ack_refused 1, handed 2
0 0 two consumers, each in its own order: handed 1, handed 2 consumer=2, ack_sent 2 consumer=2, acked 1

[acknowledgement_refused]
2 0 both taken: handed 1 2, ack_sent 1 2 tx=t1
2 1 the second one refused: handed 1 2, ack_sent 1 2 tx=t1, ack_refused 2
1 0 delivered and never acknowledged: handed 1 2, acked 1
0 0 acknowledged and never delivered: ack_sent 1, ack_refused 1

[window_stayed_shut]
1 1 room, and nothing is sent: limited publisher-1 2, sent 1 2, waited 3 2, confirmed 1, shut 3 1
1 0 no room was made: limited publisher-1 2, sent 1 2, waited 3 2, shut 3 2
1 0 room, and it is sent: limited publisher-1 2, sent 1 2, waited 3 2, confirmed 1, sent 3

[blocked_early]
3 1 held up at half the window: limited publisher-1 4, sent 1 2, waited 3 2
3 0 held up by a full window: limited publisher-1 2, sent 1 2, waited 3 2
"""
