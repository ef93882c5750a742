"""The suite's own sessions."""

from judge_histories import ack_sent, began, confirmed, crashed, handed, kept, limited, processed, sent, unasked

SESSIONS = {
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
    # a session that acknowledges before processing, and one that never does
    "acknowledged after processing began": (
        "acknowledged_late",
        handed(1) + began(1) + ack_sent(1) + handed(2) + ack_sent(2) + began(2),
        2,
        1,
    ),
    "processed and never acknowledged": ("acknowledged_late", handed(1) + began(1) + processed(1), 1, 1),
    "cut short before either": ("acknowledged_late", handed(1) + crashed(), 1, 0),
    "acknowledged where nothing is to be": ("acknowledged_at_all", handed(1) + handed(2) + ack_sent(2), 2, 1),
    "processed and not acknowledged": ("acknowledged_at_all", handed(1) + began(1) + processed(1), 1, 0),
    # the publish window
    "three sends unanswered where two may be": ("over_window", limited("publisher-1", 2) + sent(1, 2, 3), 3, 1),
    "a third send after an answer": (
        "over_window",
        limited("publisher-1", 2) + sent(1, 2) + confirmed(1) + sent(3),
        3,
        0,
    ),
    "sends that ask for no answer take no room": (
        "over_window",
        limited("publisher-1", 1) + unasked(1) + sent(2) + unasked(3) + confirmed(2) + sent(4),
        4,
        0,
    ),
}
