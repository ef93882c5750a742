"""Calls of a vendor's client while the broker is halted, and what its acknowledgements cover."""

CALLS = """
[send_returned]
1 1 a send that returns while the broker is halted: halted, sent 1, confirmed 1, resumed
1 0 a send that returns when the broker goes on: halted, sent 1, resumed, confirmed 1
1 0 a send that never returns: halted, sent 1, resumed, no_answer 1
1 0 a send that fails while the broker is halted: halted, sent 1, refused 1, resumed
0 0 a send before the halt, whose answer was on its way: sent 1, halted, confirmed 1, resumed
0 0 a send between the signal and the halt: of publisher-1 FAULT FIRED fault=pause, sent 1,
    of publisher-1 FAULT EFFECTIVE fault=pause, confirmed 1, resumed
0 0 a send after the broker went on: halted, resumed, kept 1
0 0 sends of a broker that was not halted: kept 1
0 0 a send while something else is halted: fired held_sync disk-1, kept 1, of disk-1 FAULT HEALED fault=held_sync
0 0 a send to a broker that never goes on: halted, kept 1, killed
0 0 a send in a transaction may return: halted, put t1 1, resumed

[send_waited]
1 1 a send that waits for the liveness bound: halted, sent 1, pause LONG, resumed, confirmed 1
0 0 a send that has not returned when the pause is over too soon: halted, sent 1, pause SHORT, resumed, confirmed 1
1 0 a send that has returned when the pause is over soon: halted, sent 1, confirmed 1, resumed
1 0 a send that has returned in a long pause: halted, sent 1, confirmed 1, pause LONG, resumed
1 1 a send that returns in the pause, after the liveness bound: halted, sent 1, pause LONG, confirmed 1, resumed
1 0 a send that returns in the pause, just within the liveness bound: halted, sent 1, pause SHORT, confirmed 1, pause 9,
    resumed
1 1 a send that waits and never returns: halted, sent 1, pause LONG, resumed, no_answer 1 unanswered
0 0 a send that was called before the halt may wait: sent 1, halted, pause LONG, resumed, confirmed 1
0 0 a send in a transaction is another's: halted, sent 1 tx=t1, pause LONG, resumed, confirmed 1 tx=t1

[transacted_send_waited]
1 1 a send in a transaction that waits for the liveness bound: halted, sent 1 tx=t1, pause LONG, resumed,
    confirmed 1 tx=t1
0 0 a send in a transaction, and a pause that is over too soon: halted, sent 1 tx=t1, pause SHORT, resumed,
    confirmed 1 tx=t1
1 0 a send in a transaction that has returned: halted, put t1 1, pause LONG, committed t1 None, resumed
1 1 a send in a transaction that returns in the pause, after the liveness bound: halted, sent 1 tx=t1, pause LONG,
    confirmed 1 tx=t1, resumed
0 0 a send outside of a transaction is another's: halted, sent 1, pause LONG, resumed, confirmed 1

[asynchronous_send_waited]
1 1 a send with a listener that waits for the liveness bound: halted, sent 1, pause LONG, resumed, back 1, confirmed 1
1 0 a send with a listener that returns, and is answered when the broker goes on: halted, sent 1, back 1, pause LONG,
    resumed, confirmed 1
1 1 a send with a listener that returns in the pause, after the liveness bound: halted, sent 1, pause LONG, back 1,
    resumed, confirmed 1
0 0 a send with a listener, and a pause that is over too soon: halted, sent 1, pause SHORT, resumed, back 1, confirmed 1
0 0 a send with a listener before the halt: sent 1, halted, pause LONG, resumed, back 1, confirmed 1

[answered_unreached]
2 1 an answer of a halted broker, beside one of a broker that goes on: halted, sent 1 2, back 1 2, confirmed 1,
    resumed, confirmed 2
1 0 an answer of a broker that goes on: halted, sent 1, back 1, resumed, confirmed 1
0 0 an answer in the halt to what was sent before: sent 1, halted, confirmed 1, resumed

[answered_afterwards]
1 1 a listener that hears when the broker goes on: halted, sent 1, back 1, resumed, confirmed 1
1 0 a listener that hears while the broker is halted: halted, sent 1, back 1, confirmed 1, resumed
2 0 a listener that hears of one of two while the broker is halted: halted, sent 1 2, back 1 2, confirmed 1, resumed,
    confirmed 2
1 0 a listener that never hears: halted, sent 1, resumed, no_answer 1
0 0 a listener that hears of what was sent before the halt: sent 1, halted, resumed, confirmed 1

[sent_ahead]
1 1 a send in a transaction that returns while the broker is halted, and is committed: halted, put t1 1,
    committed t1 None, resumed, answered COMMIT t1
1 0 a send in a transaction that returns, and is never committed: halted, put t1 1, resumed
1 0 a send in a transaction that returns when the broker goes on: halted, sent 1 tx=t1, resumed, confirmed 1 tx=t1,
    committed t1
0 0 a send in a transaction before the halt: put t1 1, halted, committed t1 None, resumed, answered COMMIT t1

[sooner_than_round_trip]
1 0 a send that takes a round trip: slow 50, sent 1, pause 49, confirmed 1
1 1 a send that takes less: slow 50, sent 1, pause 48, confirmed 1
0 0 a send over a link like any other: kept 1
0 0 a send that is never answered: slow 50, sent 1, no_answer 1
0 0 a send in a transaction waits for nothing: slow 50, put t1 1

[denied]
2 0 questions that are answered as the claim says: question 1 OK, question 2 OK
2 1 one of two that is answered otherwise: question 1 OK, question 2 FAIL
0 0 a question without an answer: question 1 INFO

[retained_otherwise]
2 0 what is retained is there: question 1 OK, question 2 OK
2 1 one topic of two has lost what was retained: question 1 OK, question 2 FAIL
0 0 a question about a retained message without an answer: question 1 INFO

[acknowledge_returned]
1 1 an acknowledge that returns while the broker is halted: handed 1, halted consumer-1, ack_sent 1, returned 1,
    resumed consumer-1
1 0 an acknowledge that returns when the broker goes on: handed 1, halted consumer-1, ack_sent 1, resumed consumer-1,
    returned 1
0 0 an acknowledge before the halt, whose answer was on its way: handed 1, ack_sent 1, halted consumer-1, returned 1,
    resumed consumer-1
0 0 an acknowledge after the broker went on: halted consumer-1, resumed consumer-1, took 1
0 0 no call of acknowledge() in a transaction: halted consumer-1, acked_in t1 1, resumed consumer-1

[acknowledge_waited]
1 1 an acknowledge that waits for the liveness bound: handed 1, halted consumer-1, ack_sent 1, pause LONG,
    resumed consumer-1, returned 1
0 0 an acknowledge, and a pause that is over too soon: handed 1, halted consumer-1, ack_sent 1, pause SHORT,
    resumed consumer-1, returned 1
1 0 an acknowledge that has returned: handed 1, halted consumer-1, ack_sent 1, returned 1, pause LONG,
    resumed consumer-1
1 1 an acknowledge that returns in the pause, after the liveness bound: handed 1, halted consumer-1, ack_sent 1,
    pause LONG, returned 1, resumed consumer-1
0 0 no wait for acknowledge() in a transaction: halted consumer-1, acked_in t1 1, pause LONG, resumed consumer-1

[acknowledged_again]
2 1 acknowledged, closed, and there again: kept 1 2, took 1 2, settled 2
1 0 acknowledged, closed, and gone: kept 1, took 1, settled
1 1 a listener that returned, without an answer of the broker: kept 1, handed 1, ack_sent 1, settled 1
0 0 delivered, never acknowledged, and there again: kept 1, handed 1, settled 1
0 0 acknowledged in a transaction without a commit: kept 1, acked_in t1 1, settled 1
0 0 acknowledged, and the queue is not silent yet: kept 1, took 1, silent 1
0 0 acknowledged, and the second drain is stuck: kept 1, took 1, came 1, silent 1, stuck 2
0 0 acknowledged by a process that was killed before its session was closed: kept 1, handed 1, ack_sent 1, crashed,
    settled 1 epoch=1

[commit_returned]
1 1 a commit that returns while the broker is halted: put t1 1, halted, committed t1, resumed
1 0 a commit that returns when the broker goes on: put t1 1, halted, committed t1 None, resumed, answered COMMIT t1
1 0 a commit that fails while the broker is halted: put t1 1, halted, committed t1 FAIL, resumed
0 0 a commit before the halt, whose answer was on its way: put t1 1, committed t1 None, halted, answered COMMIT t1,
    resumed
0 0 a commit after the broker went on: put t1 1, halted, resumed, committed t1
0 0 a rollback is no commit that returns: put t1 1, halted, rolled_back t1, resumed

[rollback_returned]
1 1 a rollback that returns while the broker is halted: put t1 1, halted, rolled_back t1, resumed
1 0 a rollback that returns when the broker goes on: put t1 1, halted, rolled_back t1 None, resumed,
    answered ROLLBACK t1
0 0 a rollback before the halt, whose answer was on its way: put t1 1, rolled_back t1 None, halted,
    answered ROLLBACK t1, resumed
0 0 a rollback after the broker went on: put t1 1, halted, resumed, rolled_back t1
0 0 a commit is no rollback that returns: put t1 1, halted, committed t1, resumed

[processed_again_unlike_other]
1 1 processed, and again in the second half: listening first=3 again=13
1 0 processed, and again in both halves: listening first=13 again=13
1 0 processed, and again in the first half: listening first=13 again=3
1 0 the last that was processed came again: listening first=3 again=23

[came_otherwise_than_other]
6 1 received, and again in the second half: receiving first=3 again=23
6 2 received, and again in the first half: receiving first=123 again=3
6 0 received, and again in both halves: receiving first=23 again=13
6 0 the last that was received, again in one half: receiving first=3
7 1 never received, and lost in one half: kept p2:4, receiving first=3 again=3

[answered_within_window]
1 1 answered alone, within a window of many: kept 1
2 0 unanswered within a window of many: sent 1 2

[covered_wrongly]
2 1 covered, and there again: kept 1 2, took 1 2, settled 2
1 0 covered, and gone: kept 1, took 1, settled
2 0 received after the last call, and there again: kept 1 2, took 1, handed 2, settled 2
2 1 received after the last call, and gone: kept 1 2, took 1, handed 2, settled
0 0 covered, and the queue is not silent yet: kept 1, took 1, silent 1
0 0 covered by a client that was killed: kept 1, handed 1, ack_sent 1, crashed, settled 1 epoch=1
"""
