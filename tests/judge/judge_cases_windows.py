"""Publish windows: when a broker confirms, and what one answer covers. Acknowledgements in any order."""

from judge_histories import (
    ack_refused,
    ack_sent,
    acked,
    came,
    confirmed,
    crashed,
    handed,
    immediate,
    kept,
    killed,
    limited,
    no_answer,
    offered,
    pause,
    ranged,
    refused,
    round_trip,
    sent,
    settled,
    shut,
    took,
    waited,
)

from conformance.history import Phase


def window(size):
    """A publisher with that window, on a machine where a commit takes a millisecond."""
    return round_trip() + limited("publisher-1", size)


def waiting(ms, n="p2:1"):
    """A send of a broker that was started for the second time, answered so long after it."""
    return sent(n, epoch=2) + pause(ms - 1) + confirmed(n, epoch=2)


DEFAULT = limited("publisher-1", 9) + sent(1) + pause(999) + confirmed(1)

WINDOWS = {
    # a third of the window, and silence
    "a third that the timer answers": ("waited_for_timer", window(3) + sent(1) + pause(999) + confirmed(1), 1, 1),
    "a third that is answered sooner": ("waited_for_timer", window(3) + sent(1) + pause(998) + confirmed(1), 1, 0),
    "a third rounded down, and the rest by the timer": (
        "waited_for_timer",
        window(4) + sent(1, 2) + confirmed(1) + pause(1000) + confirmed(2),
        2,
        0,
    ),
    "a third rounded up, all by the timer": (
        "waited_for_timer",
        window(4) + sent(1, 2) + pause(1000) + confirmed(1, 2),
        2,
        2,
    ),
    "a third that is never answered": (
        "waited_for_timer",
        window(3) + sent(1) + pause(30_000) + no_answer(1, "unanswered"),
        1,
        1,
    ),
    "a third whose connection is lost": ("waited_for_timer", window(3) + sent(1) + pause(1000) + no_answer(1), 0, 0),
    "less than a third may wait": ("waited_for_timer", window(9) + sent(1) + pause(1000) + confirmed(1), 0, 0),
    "a machine too slow to tell the timer": (
        "waited_for_timer",
        round_trip(500) + limited("publisher-1", 3) + sent(1) + pause(1000) + confirmed(1),
        0,
        0,
    ),
    "sends too slow to tell the timer": (
        "waited_for_timer",
        window(6) + sent(1) + pause(500) + sent(2) + pause(600) + confirmed(1, 2),
        0,
        0,
    ),
    "no round trip to compare with": (
        "waited_for_timer",
        limited("publisher-1", 3) + sent(1) + pause(1000) + confirmed(1),
        0,
        0,
    ),
    # below a third
    "answered after the timer, half a second and a round trip": (
        "answered_late",
        round_trip(100) + limited("publisher-1", 9) + sent(1) + pause(1600) + confirmed(1),
        1,
        1,
    ),
    "answered just in time": (
        "answered_late",
        round_trip(100) + limited("publisher-1", 9) + sent(1) + pause(1599) + confirmed(1),
        1,
        0,
    ),
    "below a third and never answered": (
        "answered_late",
        window(9) + sent(1) + pause(30_000) + no_answer(1, "unanswered"),
        1,
        1,
    ),
    "a slow machine leaves the bound undecided": (
        "answered_late",
        round_trip(500) + limited("publisher-1", 9) + sent(1) + pause(2500) + confirmed(1),
        0,
        0,
    ),
    "a third is another sentence's matter": (
        "answered_late",
        window(9) + sent(1, 2, 3) + pause(2000) + confirmed(1, 2, 3),
        0,
        0,
    ),
    # thresholds that a setting moves
    "answered sooner once a setting was offered": ("threshold_moved", DEFAULT + offered() + waiting(100), 1, 1),
    "as slow as before": ("threshold_moved", DEFAULT + offered() + waiting(900), 1, 0),
    "no setting was offered": ("threshold_moved", DEFAULT + waiting(100), 0, 0),
    "a broker that never let one wait": (
        "threshold_moved",
        limited("publisher-1", 9) + kept(1) + offered() + waiting(100),
        0,
        0,
    ),
    # Ack Immediately
    "answered at once": ("immediate_waited", window(9) + sent(1) + immediate(2) + ranged(1, 2), 1, 0),
    "answered by the timer": (
        "immediate_waited",
        window(9) + sent(1) + immediate(2) + pause(1000) + ranged(1, 2),
        1,
        1,
    ),
    "two of them in one answer": ("immediate_waited", window(9) + immediate(1, 2) + ranged(1, 2), 2, 2),
    "two of them, each with its own": ("immediate_waited", window(9) + immediate(1, 2) + ranged(1) + ranged(2), 2, 0),
    "answers that name no range": ("immediate_waited", window(9) + immediate(1, 2) + confirmed(1, 2), 2, 0),
    "a third of the window would be answered anyway": (
        "immediate_waited",
        window(3) + immediate(1) + pause(1000) + confirmed(1),
        0,
        0,
    ),
    "confirmed at once and lost": (
        "lost_immediate",
        immediate(1, 2) + confirmed(1, 2) + kept(3) + killed() + settled(2),
        2,
        1,
    ),
    "confirmed at once and there": ("lost_immediate", immediate(1) + confirmed(1) + killed() + settled(1), 1, 0),
    # ranges
    "one of a range is lost": ("lost_in_range", sent(1, 2, 3) + ranged(1, 2) + ranged(3) + killed() + settled(2), 2, 1),
    "all of a range are there": ("lost_in_range", sent(1, 2) + ranged(1, 2) + killed() + settled(1, 2), 2, 0),
    "a range inside of which one was refused": (
        "lost_in_range",
        sent(1, 2, 3) + refused(2) + ranged(1, 3) + killed() + settled(1, 3),
        2,
        0,
    ),
    "a refusal that a range hides": ("refusal_hidden", sent(1, 2) + ranged(1, 2) + settled(1, epoch=1), 2, 1),
    "a refusal of its own": ("refusal_hidden", sent(1, 2) + ranged(1) + refused(2) + settled(1, epoch=1), 2, 0),
    "one refusal for two": (
        "refusal_hidden",
        sent(1, 2, 3) + ranged(1) + ranged(2, 3, phase=Phase.FAIL) + settled(1, epoch=1),
        3,
        2,
    ),
    "refused and not answered when the link broke": (
        "refusal_hidden",
        sent(1, 2) + ranged(1) + no_answer(2) + settled(1, epoch=1),
        1,
        0,
    ),
    # acknowledgements that cover one message, in any order
    "each for itself": (
        "not_exactly_one",
        kept(1, 2) + handed(1) + handed(2) + acked(2) + crashed() + settled(1, epoch=1),
        2,
        0,
    ),
    "its neighbour is gone with it": (
        "not_exactly_one",
        kept(1, 2) + handed(1) + handed(2) + acked(2) + crashed() + settled(epoch=1),
        2,
        1,
    ),
    "not even itself": ("not_exactly_one", kept(1) + took(1) + crashed() + came(1, epoch=1), 1, 1),
    "unanswered, so either is right": (
        "not_exactly_one",
        kept(1) + handed(1) + ack_sent(1) + settled(1, epoch=1),
        0,
        0,
    ),
    "the later first": (
        "out_of_order_refused",
        kept(1, 2) + handed(1) + handed(2) + acked(2) + acked(1) + settled(epoch=1),
        1,
        0,
    ),
    "the later refused": ("out_of_order_refused", handed(1) + handed(2) + ack_sent(2) + ack_refused(2), 1, 1),
    "the later takes the earlier": (
        "out_of_order_refused",
        kept(1, 2) + handed(1) + handed(2) + acked(2) + settled(epoch=1),
        2,
        1,
    ),
    "refused in order": ("out_of_order_refused", handed(1) + ack_sent(1) + ack_refused(1) + handed(2), 0, 0),
    # the suite's own window
    "room, and nothing is sent": (
        "window_stayed_shut",
        limited("publisher-1", 2) + sent(1, 2) + waited(3, 2) + confirmed(1) + shut(3, 1),
        1,
        1,
    ),
    "no room was made": (
        "window_stayed_shut",
        limited("publisher-1", 2) + sent(1, 2) + waited(3, 2) + shut(3, 2),
        1,
        0,
    ),
    "room, and it is sent": (
        "window_stayed_shut",
        limited("publisher-1", 2) + sent(1, 2) + waited(3, 2) + confirmed(1) + sent(3),
        1,
        0,
    ),
    "held up at half the window": ("blocked_early", limited("publisher-1", 4) + sent(1, 2) + waited(3, 2), 3, 1),
    "held up by a full window": ("blocked_early", limited("publisher-1", 2) + sent(1, 2) + waited(3, 2), 3, 0),
}

EXPOSED = {
    "third_sent": (limited("publisher-1", 3) + sent(1) + sent("p2:1", tx="t1"), 1),
    "less_sent": (limited("publisher-1", 9) + sent(1) + sent("p2:1", "p2:2", "p2:3"), 1),
    "thresholds_offered": (DEFAULT + offered() + waiting(10) + waiting(10, "p2:2"), 1),
    "asked_immediately": (immediate(1) + sent(2), 1),
    "immediate_in_window": (
        immediate(1) + confirmed(1) + pause(200) + immediate(2) + confirmed(2) + kept(3) + killed(),
        1,
    ),
    "ranged_in_window": (
        sent(1, 2) + ranged(1, 2) + pause(200) + sent(3, 4) + ranged(3, 4) + kept(5) + killed(),
        2,
    ),
    "window_waits": (limited("publisher-1", 2) + sent(1, 2) + waited(3, 2) + confirmed(1) + sent(3), 1),
    "acknowledged_out_of_order": (
        handed(1) + handed(2) + ack_sent(2) + ack_sent(1) + handed(3) + ack_sent(3),
        1,
    ),
}
"""As in `judge_cases_exposures`."""
