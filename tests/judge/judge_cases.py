"""One line of history and one answer each: which anomaly it shows, or that it is innocent of it."""

from judge_histories import *  # noqa: F403

# name: (anomaly, history, messages it applies to, messages that offend)
CASES = {
    # lost
    "a confirmed message that never came is lost": ("lost", kept(1, 2) + killed() + settled(1), 2, 1),
    "a confirmed message that came is not lost": ("lost", kept(1) + killed() + settled(1), 1, 0),
    "a message that only a consumer got is not lost": (
        "lost",
        kept(1) + took(1) + killed("consumer-1") + settled(),
        1,
        0,
    ),
    "an answer read after the kill counts as confirmed": ("lost", sent(1) + killed() + confirmed(1) + settled(), 1, 1),
    "a send without an answer is never lost": ("lost", sent(1) + killed() + no_answer(1) + settled(), 0, 0),
    "a refused send is never lost": ("lost", sent(1) + refused(1) + killed() + settled(), 0, 0),
    "a send accepted and then refused is not called lost": (
        "lost",
        kept(1) + refused(1) + killed() + settled(),
        0,
        0,
    ),
    "a message that was not durable is not lost": (
        "lost",
        sent(1, durable=False) + confirmed(1) + killed() + settled(),
        0,
        0,
    ),
    "one drain decides nothing": ("lost", kept(1) + killed() + silent(1), 0, 0),
    "a drain with a depth above zero decides nothing": ("lost", kept(1) + killed() + stuck(1) + silent(2), 0, 0),
    "a second drain with a depth above zero decides nothing": (
        "lost",
        kept(1) + killed() + silent(1) + stuck(2),
        0,
        0,
    ),
    "drains before the fault decide nothing": ("lost", kept(1) + settled() + killed(), 0, 0),
    "what the second drain brings first leaves the others undecided": (
        "lost",
        kept(1, 2) + killed() + silent(1) + came(1, drain=2) + silent(2),
        0,
        0,
    ),
    "an acknowledged message that comes back late leaves nothing undecided": (
        "lost",
        kept(1, 2) + took(1) + killed() + silent(1) + came(1, drain=2) + silent(2),
        2,
        1,
    ),
    "a permission to lose is witnessed by a missing message": (
        "confirmed_missing",
        kept(1, 2) + killed() + settled(2),
        2,
        1,
    ),
    # either way
    "an unanswered send that is found": (
        "unanswered_either_way",
        sent(1, 2) + killed() + no_answer(1) + no_answer(2) + settled(1),
        2,
        1,
    ),
    "an unanswered send that is absent": (
        "unanswered_absent",
        sent(1, 2) + killed() + no_answer(1) + no_answer(2) + settled(1),
        2,
        1,
    ),
    "a send that nothing is known of at all is unanswered too": (
        "unanswered_absent",
        sent(1) + killed() + settled(),
        1,
        1,
    ),
    # liveness
    "a send overdue on an open connection is unanswered": (
        "unanswered_send",
        kept(1) + sent(2) + no_answer(2, "unanswered"),
        2,
        1,
    ),
    "a send that lost its connection is not judged": (
        "unanswered_send",
        kept(1) + sent(2) + no_answer(2, "disconnected"),
        1,
        0,
    ),
    "an answer after the bound is an answer": (
        "unanswered_send",
        sent(1) + no_answer(1, "unanswered") + confirmed(1),
        1,
        0,
    ),
    "a confirmed message that no drain got before it gave up is stuck": (
        "stuck",
        kept(1, 2) + came(1) + stuck(1) + stuck(2),
        2,
        1,
    ),
    "a stuck message that comes after a restart was stuck": (
        "stuck",
        kept(1) + stuck(1) + came(1, 2) + silent(2),
        1,
        1,
    ),
    "an unacknowledged delivery that never comes back is stuck": (
        "stuck",
        kept(1) + handed(1) + crashed() + stuck(1) + stuck(2),
        1,
        1,
    ),
    "an acknowledged message is not stuck": ("stuck", kept(1) + took(1) + stuck(1) + stuck(2), 1, 0),
    "a silent queue has nothing stuck": ("stuck", kept(1) + killed() + settled(), 1, 0),
    # outcomes
    "accepted and then rejected": ("outcome_changed", kept(1, 2) + refused(1), 2, 1),
    "rejected and then released": ("outcome_changed", sent(1) + refused(1) + refused(1, "released"), 1, 1),
    "the same outcome told twice has not changed": ("outcome_changed", kept(1) + confirmed(1), 1, 0),
    "an answer after none was expected has not changed": (
        "outcome_changed",
        sent(1) + no_answer(1) + confirmed(1),
        1,
        0,
    ),
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
    # sessions
    "acknowledged on receipt": ("acknowledged_early", kept(1) + handed(1) + ack_sent(1) + processed(1), 1, 1),
    "acknowledged and never processed": ("acknowledged_early", kept(1) + handed(1) + ack_sent(1) + crashed(), 1, 1),
    "acknowledged after processing": ("acknowledged_early", kept(1) + handed(1) + processed(1) + ack_sent(1), 1, 0),
    "acknowledged before it was handed over": (
        "acknowledged_undelivered",
        kept(1, 2) + handed(1) + ack_sent(1, 2) + handed(2),
        2,
        1,
    ),
    "acknowledged and never handed over": ("acknowledged_undelivered", kept(1) + ack_sent(1) + crashed(), 1, 1),
    "left out by an acknowledge that covers everything": (
        "acknowledged_undelivered",
        kept(1, 2) + handed(1) + handed(2) + ack_sent(2),
        2,
        1,
    ),
    "handed over after the last acknowledge": (
        "acknowledged_undelivered",
        kept(1, 2) + handed(1) + ack_sent(1) + handed(2) + crashed(),
        1,
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
    # what nobody sent
    "a message that nobody sent": ("phantom", kept(1) + killed() + settled(1, 2), 2, 1),
    "a message that arrived altered": ("corrupt", kept(1, 2) + came(1, intact=False) + came(2), 2, 1),
}
