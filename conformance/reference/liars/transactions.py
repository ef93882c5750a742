"""Liars about transactions, and under a profile."""

from __future__ import annotations

from conformance.reference.honest import Answered, Asked, Lie, ThresholdSetting
from conformance.reference.liars.lie import answers, lie

TRANSACTIONS: dict[str, Lie] = {
    # Liars about QoS 2 of MQTT, whose sessions promise exactly once.
    "forgets-sessions": lie(
        "A start takes over the messages of MQTT sessions, and none of the sessions.",
        "not_once",
        fault="kill",
        restores_sessions=False,
    ),
    "forgets-retained-messages": lie(
        "A start takes over none of the retained messages of MQTT.",
        "retained_otherwise",
        fault="kill",
        restores_retained=False,
    ),
    "retains-the-first-message": lie(
        "A retained message of MQTT stays when another one of its topic comes.",
        "retained_otherwise",
        replaces_retained=False,
    ),
    "ends-sessions-of-a-month": lie(
        "An MQTT session ends a second after its connection if its interval of expiry in milliseconds has 32 bits.",
        "gone unsent_gone",
        fault="consumer_crash",
        session_s=lambda expiry_s: expiry_s if expiry_s * 1000 < 2**31 or expiry_s == 2**32 - 1 else 1,
    ),
    "forgets-received-identifiers": lie(
        "A connection of MQTT does not know the packet identifiers of QoS 2 that its session received on earlier ones.",
        "not_once",
        fault="cut",
        keeps_received=False,
    ),
    "ignores-what-comes-again": lie(
        "A PUBLISH of QoS 2 is not answered if its session has received it before.",
        "unanswered_send",
        fault="cut",
        answers_again=False,
    ),
    "finishes-at-the-last-answer": lie(
        "A message of QoS 2 is removed at the PUBCOMP of its MQTT client; sent again until then, also after PUBREC.",
        "not_once",
        fault="cut",
        finishes_by_pubrec=False,
    ),
    "numbers-packets-anew": lie(
        "A message to an MQTT client has another packet identifier on each connection of its session.",
        "not_once",
        fault="cut",
        keeps_identifiers=False,
    ),
    # Liars about transactions.
    "delivers-before-commit": lie(
        "A message sent in a transaction is stored and offered at once; the commit only answers.",
        "available_undischarged available_early",
        holds_sends=False,
    ),
    "acknowledges-before-commit": lie(
        "An outcome given in a transaction is applied at once; a rollback does not bring it back.",
        "transacted_acknowledgement",
        holds_outcomes=False,
    ),
    "commits-when-link-closes": lie(
        "A transaction without a discharge is committed when its control link or connection ends.",
        "available_undischarged undischarged_gone",
        fault="cut",
        commits_abandoned=True,
    ),
    "refuses-rollbacks": lie(
        "A rollback is answered with an error: rejected over AMQP, ERROR over STOMP, channel.close over 0-9-1.",
        "rollback_refused",
        refuses_rollbacks=True,
    ),
    "recovers-half-a-transaction": lie(
        "A commit puts the first half of the transaction's sends on disk and the rest in memory only.",
        "half_applied outcome_not_in_effect",
        fault="kill",
        stores_send=lambda place, count, _: place < (count + 1) // 2,
    ),
    "commits-one-queue": lie(
        "A commit puts the sends to the transaction's first queue on disk and the rest in memory only.",
        "half_applied",
        fault="kill",
        stores_send=lambda _, __, first_queue: first_queue,
    ),
    "commits-rollbacks": lie(
        "A rollback is answered, and the messages sent in its transaction are stored and delivered.",
        "available_early",
        commits_rollbacks=True,
    ),
    "hides-refusals-in-transactions": lie(
        "A refused send of a transaction is answered as accepted, and the commit is answered and leaves it out.",
        "outcome_not_in_effect",
        hides_refusals_in_transactions=True,
    ),
    "refuses-outside-the-transaction": lie(
        "A refused send of a transaction is answered as one of no transaction, and the rest is committed. AMQP only.",
        "outcome_not_in_effect",
        refuses_in_transactions=False,
    ),
    "mistakes-duplicate-ids": lie(
        "After a start, a message whose duplicate id was stored is stored again, and one with a new id is left out.",
        "not_once",
        fault="kill",
        mistakes_recovered_ids=True,
    ),
    "commits-half-of-its-acknowledgements": lie(
        "A commit puts the first half of the transaction's outcomes on disk and the rest in memory only.",
        "transaction_torn",
        fault="kill",
        stored_outcomes=lambda count: count // 2,
    ),
    # Liars under a profile: publish windows and lazy acknowledgements (docs/reference/profiles.md).
    "confirms-by-timer-only": lie(
        "A publish window is confirmed once a second, however much of it is stored.",
        "waited_for_timer",
        needs="solace",
        confirm_share=1 << 30,
    ),
    "confirms-by-threshold-only": lie(
        "Less than a third of a publish window is never confirmed.",
        "answered_late",
        needs="solace",
        confirms_after_a_second=False,
    ),
    "takes-a-threshold-setting": Lie(
        "There is a setting `publish_threshold`: so many stored sends make a confirm due, and not a third.",
        ("threshold_moved",),
        "none",
        "solace",
        {},
        ThresholdSetting,
    ),
    "ignores-ack-immediately": lie(
        "A send with Ack Immediately waits for the third of its window, or the second, as any other.",
        "immediate_waited",
        needs="solace",
        confirms_at_once=False,
    ),
    "confirms-immediate-before-storing": lie(
        "A send with Ack Immediately is answered first; its record goes to the journal half a second later.",
        "lost_immediate",
        fault="kill",
        needs="solace",
        answered=answers(Asked.URGENT_SEND, Answered.LAZY),
    ),
    "range-covers-unstored": lie(
        "A confirm of a publish window covers all that has arrived, stored or not.",
        "lost_in_range",
        fault="kill",
        needs="solace",
        covers_unstored=True,
    ),
    "range-hides-refusal": lie(
        "A refused send in a publish window gets no answer of its own: the next confirm covers it.",
        "refusal_hidden",
        needs="solace",
        covers_refused=True,
    ),
    "never-reopens-window": lie(
        "A confirm gives no credit back: a peer may send one publish window, and no more. AMQP only.",
        needs="solace",
        reopens_windows=False,
    ),
    "refuses-out-of-order-acknowledgements": lie(
        "Acknowledging a delivery while an earlier one is open is refused: released over AMQP, ERROR over STOMP.",
        "out_of_order_refused",
        needs="ems",
        takes_any_order=False,
    ),
    "refuses-acknowledgements-after-a-commit": lie(
        "Once acknowledgements of a subscription were committed, its next one is refused with an ERROR. STOMP only.",
        "acknowledgement_refused",
        takes_after_commit=False,
    ),
    "explicit-acknowledge-takes-earlier": lie(
        "An acknowledgement also removes what its link was sent before, in every acknowledgement mode.",
        "not_exactly_one",
        fault="consumer_crash",
        needs="ems",
        acknowledged_with=lambda held, tag: [other for other in held if other <= tag],
    ),
    "lazy-acknowledge-takes-neighbours": lie(
        "A lazy acknowledgement also removes the delivery after its own.",
        "gone",
        fault="consumer_crash",
        needs="ems",
        acknowledged_lazily_with=lambda held, tag: [other for other in held if tag <= other <= tag + 1],
    ),
}
