"""Frames on a link, beside what the client records and its application receives."""

LINK = """
[settled_again]
1 1 settled, there, never handed over, and again: kept 1, settled_on_link 1, reached 1, crashed, settled 1 epoch=1
1 1 settled, there, processed, and again: kept 1, settled_on_link 1, handed 1, processed 1, reached 1, crashed,
    settled 1 epoch=1
1 0 settled, there, and never again: kept 1, settled_on_link 1, reached 1, crashed, settled epoch=1
1 1 settled, there, and again after a restart: kept 1, settled_on_link 1, reached 1, crashed, settled 1 epoch=2
0 0 settled and one byte short: kept 1, settled_on_link 1, reached 1 short=1, crashed, settled 1 epoch=1
0 0 settled and passed on, with an unknown arrival: kept 1, settled_on_link 1, crashed, settled 1 epoch=1
1 1 the last one of two did not get there: kept 1 2, settled_on_link 1 2, reached 2 short=1, crashed,
    settled 1 2 epoch=1
1 1 settled twice on one link: kept 1, settled_on_link 1 1, reached 2, crashed, settled epoch=1
1 1 settled on one link, and then on another: kept 1, settled_on_link 1, settled_on_link 1 link=2, reached 1,
    reached 1 link=2, crashed, settled epoch=1
1 0 settled, and sent again to a client that got nothing of it: kept 1, settled_on_link 1, settled_on_link 1 link=2,
    reached 1, crashed, settled epoch=1
1 0 settled on one link, and on another after a restart: kept 1, settled_on_link 1, settled_on_link 1 link=2 epoch=2,
    reached 1, reached 1 link=2, crashed, settled epoch=1
1 0 unsettled, and then settled: kept 1, transferred 1, settled_on_link 1, reached 2, crashed, settled epoch=1
0 0 unsettled twice: kept 1, transferred 1 1, reached 2, crashed, settled 1 epoch=1
0 0 settled in two frames, the last of which was cut: kept 1, transferred 1 words="settled more",
    settled_on_link 1 phase=FAIL, reached 2, crashed, settled 1 epoch=1
1 1 settled in two frames: kept 1, transferred 1 words="settled more", settled_on_link 1, reached 2, crashed,
    settled 1 epoch=1
0 0 settled, there, and aborted: kept 1, transferred 1 words="settled aborted", reached 1, crashed, settled 1 epoch=1
0 0 handed over twice with no link between: kept 1, handed 1, crashed, settled 1 epoch=1
0 0 a settled transfer of an unknown message: kept 1, framed "transfer handle=0 settled" to=to_client delivery=1,
    reached 1, crashed, settled 1 epoch=1
0 0 settled on a link that could not be read to its end: kept 1, settled_on_link 1, unreadable, reached 1, crashed,
    settled 1 epoch=1

[unsent_gone]
1 1 never on the link, and gone: kept 1, kept 2, settled_on_link 2, handed 2, closed, reached 1, settled
0 0 never on a link with STOMP, and gone: kept 1, framed "RECEIPT receipt-id=2 of DISCONNECT" to=to_client, reached 1,
    settled
1 0 never on the link, and there: kept 1, kept 2, settled_on_link 2, handed 2, closed, reached 1, settled 1
0 0 on the link, and gone: kept 1, settled_on_link 1, closed, reached 1, settled
0 0 on the link, and gone before its client had read it: kept 1, settled_on_link 1, closed, reached 1 short=1, settled
1 0 never on the link, and still counted: kept 1, kept 2, settled_on_link 2, handed 2, acked 2, closed, reached 1,
    silent 1, stuck 2
0 0 never on the link, and without a confirm: sent 1, kept 2, settled_on_link 2, closed, reached 1, settled
0 0 never on the link, and not persistent: kept 1 durable=False, kept 2, settled_on_link 2, closed, reached 1, settled
0 0 gone beside a frame that could not be read: kept 1 2, settled_on_link 2, unreadable, closed, reached 1, settled
0 0 gone after a connection whose end had no answer: kept 1 2, settled_on_link 2, framed "close" size=12, reached 1,
    settled
0 0 gone, and the queue was not drained twice: kept 1 2, settled_on_link 2, closed, reached 1

[acknowledged_early]
1 1 acknowledged on the link before its processing ended: kept 1, transferred 1, handed 1, ack_sent 1, disposed 1,
    processed 1
1 1 acknowledged on the link and never processed: kept 1, transferred 1, handed 1, ack_sent 1, disposed 1, crashed
1 0 acknowledged on the link after its processing: kept 1, transferred 1, handed 1, processed 1, ack_sent 1, disposed 1
# The client records that it acknowledged early, but the link did not see it early.
1 0 asked for before, and seen after its processing: kept 1, transferred 1, handed 1, ack_sent 1, processed 1,
    disposed 1
3 1 one range over two that were processed, and one between that was not: kept 1 2 3, transferred 1 2 3, handed 1 2 3,
    processed 1 3, disposed 1 3, processed 2
3 0 one range over three that were processed: kept 1 2 3, transferred 1 2 3, processed 1 2 3, disposed 1 3
1 1 acknowledged early in a transaction: kept 1, transferred 1, disposed 1 words="transactional accepted", processed 1
0 0 given back early: kept 1, transferred 1, disposed 1 words="released settled", processed 1
0 0 settled early without an outcome: kept 1, transferred 1, disposed 1 words=settled, processed 1
0 0 settled by the broker before its processing ended: kept 1, transferred 1,
    disposed 1 words="accepted settled by the sender" to=to_client, processed 1
0 0 acknowledged early with no link between: kept 1, handed 1, ack_sent 1, processed 1
0 0 an early acknowledgement of what no link has carried: kept 1, disposed 1, processed 1
0 0 an early acknowledgement in another session: kept 1, transferred 1, disposed 1 words="accepted settled session=2",
    processed 1
0 0 acknowledged early on another link: kept 1, transferred 1, disposed 1 link=2, processed 1
1 1 an early acknowledgement that was cut has left all the same: kept 1, transferred 1,
    framed "disposition accepted settled, not passed on" first=1 last=1 phase=FAIL, processed 1

[acknowledged_unhanded]
1 1 acknowledged on the link before it was handed over: kept 1, transferred 1, disposed 1, handed 1
2 1 acknowledged on the link and lying prefetched: kept 1 2, transferred 1 2, handed 1, disposed 1 2, crashed
1 0 acknowledged on the link after it was handed over: kept 1, transferred 1, handed 1, disposed 1
3 0 handed over, then acknowledged by one range with its neighbours: kept 1 2 3, transferred 1 2 3, handed 1 2 3,
    disposed 1 3
3 1 prefetched in the middle of a range: kept 1 2 3, transferred 1 2 3, handed 1 3, disposed 1 3, handed 2
1 0 acknowledged by a drain on a link: kept 1, transferred 1, came 1, disposed 1
0 0 acknowledged unhanded with no link between: kept 1, ack_sent 1, handed 1
0 0 acknowledged unhanded under an unknown number: kept 1, transferred 1, disposed 7 9, handed 1

[acknowledged_undelivered]
2 1 covered on the link before it was handed over: kept 1 2, transferred 1 2, handed 1, disposed 1 2, handed 2
1 1 covered on the link and never handed over: kept 1, transferred 1, disposed 1, crashed
2 1 left out by an acknowledge that was answered: kept 1 2, transferred 1 2, handed 1 2, disposed 2, acked 2, reached 2
1 0 left out by an acknowledge without an answer: kept 1 2, transferred 1 2, handed 1 2, disposed 2, ack_sent 2,
    reached 2
1 0 handed over after the last acknowledge on the link: kept 1 2, transferred 1 2, handed 1, disposed 1, acked 1,
    handed 2, crashed, reached 2
# Its own answer was read after that of the acknowledge: it was not due before the call.
1 0 handed over between an acknowledge and its answer: kept 1 2, transferred 1 2, handed 1, ack_sent 1, handed 2,
    disposed 1, returned 1, reached 2
0 0 left out where no link was between: kept 1 2, handed 1 2, acked 2
0 0 left out on a link that could not be read to its end: kept 1 2, transferred 1 2, handed 1 2, unreadable, acked 2,
    reached 2

[acknowledged_at_all]
2 1 acknowledged where nothing is to be: kept 1 2, transferred 1 2, handed 1 2, disposed 2, reached 2
1 0 processed and not acknowledged: kept 1, settled_on_link 1, handed 1, processed 1, reached 1
1 0 given back where nothing is to be acknowledged: kept 1, transferred 1, handed 1,
    disposed 1 words="released settled", reached 1
3 2 two of three acknowledged by a range where nothing is to be: kept 1 2 3, transferred 1 2 3, disposed 2 3, reached 3
1 0 said to be acknowledged, and nothing seen: kept 1, transferred 1, handed 1, acked 1, reached 1
0 0 acknowledged with no link between: kept 1, handed 1, acked 1
0 0 not acknowledged on a link that could not be read to its end: kept 1, transferred 1, handed 1, unreadable, reached 1

[flag_missing]
2 1 a persistent message without the flag: kept 1 2, unflagged 1, flagged 2
1 0 a persistent message with its flag: kept 1, flagged 1
0 0 a persistent message that the link did not see: kept 1
0 0 another message without the flag: kept 1 durable=False, unflagged 1
1 0 a persistent message whose second frame has no header: kept 1, flagged 1 words="more persistent",
    unflagged 1 words=continued

[flag_set]
2 1 a message that is not persistent, with the flag: kept 1 2 durable=False, flagged 1, unflagged 2
1 0 a message that is not persistent, without the flag: kept 1 durable=False, unflagged 1
0 0 a persistent message with the flag: kept 1, flagged 1

[flag_differs]
4 2 flags of another mode, one of each: kept 1 2, kept 3 4 durable=False, flagged 1 3, unflagged 2 4
2 0 flags of their own modes: kept 1, kept 2 durable=False, flagged 1, unflagged 2

[acknowledged_unreceived]
1 1 prefetched, never received, and acknowledged: prefetched, disposed 1 2
1 0 prefetched, never received, and left alone: prefetched, disposed 1
0 0 acknowledged before receive() returned: kept 1, transferred 1, reached 1, disposed 1, handed 1
0 0 prefetched by a client that was killed: prefetched, disposed 1 2, crashed

[not_each_passed]
2 0 passed and acknowledged, each of two: prefetched, handed 2, disposed 1, disposed 2
2 1 passed without an acknowledgement: prefetched, handed 2, disposed 2
2 1 acknowledged and never passed: prefetched, disposed 1 2
2 0 neither passed nor acknowledged: prefetched, disposed 1
0 0 passed by a client that was killed: prefetched, crashed

[acknowledged_after_processing]
1 1 acknowledged when the listener had returned: kept 1, transferred 1, handed 1, processed 1, disposed 1
1 0 acknowledged while the listener ran: kept 1, transferred 1, handed 1, disposed 1, processed 1
0 0 acknowledged, and never processed: kept 1, transferred 1, handed 1, disposed 1

[acknowledged_lazily]
1 1 acknowledged when the next one was processed: kept 1 2, transferred 1 2, took_in_turn 1 2, disposed 1 2
1 0 acknowledged before the next one was processed: kept 1 2, transferred 1 2, took_in_turn 1, disposed 1,
    took_in_turn 2, disposed 2
0 0 acknowledged lately, without a next one: kept 1, transferred 1, took_in_turn 1, disposed 1

[acknowledged_in_bulk]
2 2 two by one frame with the flag: kept 1 2, brought 1, brought 2, handed 1 2, acknowledged 1-2 multiple=True
2 0 two by a frame of its own each: kept 1 2, brought 1, brought 2, handed 1 2, acknowledged 1 multiple=False,
    acknowledged 2 multiple=False
2 1 one of a range of AMQP 1.0 that was not handed over: prefetched, disposed 1 2
"""
