"""What leaves a vendor's client on the link, beside what its application gets; and what comes again when it is closed."""

from judge_frames import disposed, framed, reached, transferred
from judge_histories import LINK_091, ack_sent, crashed, handed, kept, processed, settled, silent, took

PREFETCHED = kept(1, 2) + transferred(1, 2) + reached(2) + handed(1)
"""Two messages came, and the application got one of them."""


def took_in_turn(*numbers):
    """Handed over and processed, one after the other."""
    return [event for number in numbers for event in (*handed(number), *processed(number))]


def brought(n):
    """AMQP 0-9-1: a delivery whose tag is the number of its message."""
    return framed("basic.deliver persistent", to="to_client", link=LINK_091, message=f"p1:{n}", delivery=str(n))


def acknowledged(covers, *, multiple):
    """AMQP 0-9-1: one frame, and what it settles."""
    word = str(multiple).lower()
    return framed(f"basic.ack multiple={word} accepted covers={covers}", link=LINK_091)


BROUGHT = kept(1, 2) + brought(1) + brought(2) + handed(1) + handed(2)

ON_LINK = {
    # what lay prefetched
    "prefetched, never received, and acknowledged": ("acknowledged_unreceived", PREFETCHED + disposed(1, 2), 1, 1),
    "prefetched, never received, and left alone": ("acknowledged_unreceived", PREFETCHED + disposed(1), 1, 0),
    "acknowledged before receive() returned": (
        "acknowledged_unreceived",
        kept(1) + transferred(1) + reached(1) + disposed(1) + handed(1),
        0,
        0,
    ),
    "prefetched by a client that was killed": (
        "acknowledged_unreceived",
        PREFETCHED + disposed(1, 2) + crashed(),
        0,
        0,
    ),
    # what was passed
    "passed and acknowledged, each of two": (
        "not_each_passed",
        PREFETCHED + handed(2) + disposed(1) + disposed(2),
        2,
        0,
    ),
    "passed without an acknowledgement": ("not_each_passed", PREFETCHED + handed(2) + disposed(2), 2, 1),
    "acknowledged and never passed": ("not_each_passed", PREFETCHED + disposed(1, 2), 2, 1),
    "neither passed nor acknowledged": ("not_each_passed", PREFETCHED + disposed(1), 2, 0),
    "passed by a client that was killed": ("not_each_passed", PREFETCHED + crashed(), 0, 0),
    # when it left
    "acknowledged when the listener had returned": (
        "acknowledged_after_processing",
        kept(1) + transferred(1) + handed(1) + processed(1) + disposed(1),
        1,
        1,
    ),
    "acknowledged while the listener ran": (
        "acknowledged_after_processing",
        kept(1) + transferred(1) + handed(1) + disposed(1) + processed(1),
        1,
        0,
    ),
    "acknowledged, and never processed": (
        "acknowledged_after_processing",
        kept(1) + transferred(1) + handed(1) + disposed(1),
        0,
        0,
    ),
    "acknowledged when the next one was processed": (
        "acknowledged_lazily",
        kept(1, 2) + transferred(1, 2) + took_in_turn(1, 2) + disposed(1, 2),
        1,
        1,
    ),
    "acknowledged before the next one was processed": (
        "acknowledged_lazily",
        kept(1, 2) + transferred(1, 2) + took_in_turn(1) + disposed(1) + took_in_turn(2) + disposed(2),
        1,
        0,
    ),
    "acknowledged lately, without a next one": (
        "acknowledged_lazily",
        kept(1) + transferred(1) + took_in_turn(1) + disposed(1),
        0,
        0,
    ),
    # how many at once
    "two by one frame with the flag": ("acknowledged_in_bulk", BROUGHT + acknowledged("1-2", multiple=True), 2, 2),
    "two by a frame of its own each": (
        "acknowledged_in_bulk",
        BROUGHT + acknowledged("1", multiple=False) + acknowledged("2", multiple=False),
        2,
        0,
    ),
    "one of a range of AMQP 1.0 that was not handed over": (
        "acknowledged_in_bulk",
        PREFETCHED + disposed(1, 2),
        2,
        1,
    ),
}

COVERED = {
    "covered, and there again": ("covered_wrongly", kept(1, 2) + took(1) + took(2) + settled(2), 2, 1),
    "covered, and gone": ("covered_wrongly", kept(1) + took(1) + settled(), 1, 0),
    "received after the last call, and there again": (
        "covered_wrongly",
        kept(1, 2) + took(1) + handed(2) + settled(2),
        2,
        0,
    ),
    "received after the last call, and gone": ("covered_wrongly", kept(1, 2) + took(1) + handed(2) + settled(), 2, 1),
    "covered, and the queue is not silent yet": ("covered_wrongly", kept(1) + took(1) + silent(1), 0, 0),
    "covered by a client that was killed": (
        "covered_wrongly",
        kept(1) + handed(1) + ack_sent(1) + crashed() + settled(1, epoch=1),
        0,
        0,
    ),
}

CLIENTS = {**ON_LINK, **COVERED}

EXPOSED = {"left_prefetched": (PREFETCHED, 1)}
