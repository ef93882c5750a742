"""Two halves of one script, each with messages of its own producer and the death of its client."""

from judge_histories import crashed, handed, kept, processed, sent, settled


def half(producer, process=processed, *, again=()):
    """Three messages come; the client dies with the third one, and what is `again` comes to the next."""
    first, second, third = (f"p{producer}:{n}" for n in (1, 2, 3))
    events = kept(first, second, third) + handed(first) + process(first) + handed(second) + process(second)
    events += handed(third) + crashed()
    return events + [event for n in again for event in (*handed(f"p{producer}:{n}"), *process(f"p{producer}:{n}"))]


def received(_message):
    """receive() has returned it, and nothing tells of a processing."""
    return []


def ends(*again, first=(3,), process=processed):
    """Both halves, of which the messages `first` came again in the one and `again` in the other."""
    return half(1, process, again=first) + half(2, process) + settled(*(f"p2:{n}" for n in again))


COMPARED = {
    # a listener: p:1 has a processed successor, p:2 is the last that was processed, p:3 was being processed
    "processed, and again in the second half": ("processed_again_unlike_other", ends(1, 3), 1, 1),
    "processed, and again in both halves": ("processed_again_unlike_other", ends(1, 3, first=(1, 3)), 1, 0),
    "processed, and again in the first half": ("processed_again_unlike_other", ends(3, first=(1, 3)), 1, 0),
    "the last that was processed came again": ("processed_again_unlike_other", ends(2, 3), 1, 0),
    # receive(): p:1 and p:2 are done with
    "received, and again in the second half": ("came_otherwise_than_other", ends(2, 3, process=received), 6, 1),
    "received, and again in the first half": (
        "came_otherwise_than_other",
        ends(3, first=(1, 2, 3), process=received),
        6,
        2,
    ),
    "received, and again in both halves": (
        "came_otherwise_than_other",
        ends(1, 3, first=(2, 3), process=received),
        6,
        0,
    ),
    "the last that was received, again in one half": ("came_otherwise_than_other", ends(process=received), 6, 0),
    "never received, and lost in one half": (
        "came_otherwise_than_other",
        kept("p2:4") + ends(3, process=received),
        7,
        1,
    ),
    # a confirmation window
    "answered alone, within a window of many": ("answered_within_window", kept(1), 1, 1),
    "unanswered within a window of many": ("answered_within_window", sent(1, 2), 2, 0),
}
