"""The suite's own sessions."""

from judge_histories import ack_sent, began, confirmed, crashed, handed, limited, processed, sent, unasked

SESSIONS = {
    # a session that acknowledges before processing
    "acknowledged after processing began": (
        "acknowledged_late",
        handed(1) + began(1) + ack_sent(1) + handed(2) + ack_sent(2) + began(2),
        2,
        1,
    ),
    "processed and never acknowledged": ("acknowledged_late", handed(1) + began(1) + processed(1), 1, 1),
    "cut short before either": ("acknowledged_late", handed(1) + crashed(), 1, 0),
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
