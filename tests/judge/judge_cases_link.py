"""What crossed the link, and what it says of a message."""

from judge_frames import SIZE, disposed, framed, reached, settled_on_link, transferred, unreadable
from judge_histories import ack_sent, acked, came, crashed, handed, kept, processed, settled

from conformance.history import Phase

CAME = crashed() + settled(1, epoch=1)
NOTHING_CAME = crashed() + settled(epoch=1)

AGAIN = {
    "settled, there, never handed over, and again": (
        "settled_again",
        kept(1) + settled_on_link(1) + reached(1) + CAME,
        1,
        1,
    ),
    "settled, there, processed, and again": (
        "settled_again",
        kept(1) + settled_on_link(1) + handed(1) + processed(1) + reached(1) + CAME,
        1,
        1,
    ),
    "settled, there, and never again": (
        "settled_again",
        kept(1) + settled_on_link(1) + reached(1) + NOTHING_CAME,
        1,
        0,
    ),
    "settled, there, and again after a restart": (
        "settled_again",
        kept(1) + settled_on_link(1) + reached(1) + crashed() + settled(1, epoch=2),
        1,
        0,
    ),
    "settled and one byte short": ("settled_again", kept(1) + settled_on_link(1) + reached(1, short=1) + CAME, 0, 0),
    "settled, passed on, and told of by nobody": ("settled_again", kept(1) + settled_on_link(1) + CAME, 0, 0),
    "the last one of two did not get there": (
        "settled_again",
        kept(1, 2) + settled_on_link(1, 2) + reached(2, short=1) + crashed() + settled(1, 2, epoch=1),
        1,
        1,
    ),
    "settled twice on one link": ("settled_again", kept(1) + settled_on_link(1, 1) + reached(2) + NOTHING_CAME, 1, 1),
    "settled on one link, and then on another": (
        "settled_again",
        kept(1) + settled_on_link(1) + settled_on_link(1, link=2) + reached(1) + reached(1, link=2) + NOTHING_CAME,
        1,
        1,
    ),
    "settled, and sent again to a client that got nothing of it": (
        "settled_again",
        kept(1) + settled_on_link(1) + settled_on_link(1, link=2) + reached(1) + NOTHING_CAME,
        1,
        0,
    ),
    "settled on one link, and on another after a restart": (
        "settled_again",
        kept(1)
        + settled_on_link(1)
        + settled_on_link(1, link=2, epoch=2)
        + reached(1)
        + reached(1, link=2)
        + NOTHING_CAME,
        1,
        0,
    ),
    "unsettled, and then settled": (
        "settled_again",
        kept(1) + transferred(1) + settled_on_link(1) + reached(2) + NOTHING_CAME,
        1,
        0,
    ),
    "unsettled twice": ("settled_again", kept(1) + transferred(1, 1) + reached(2) + CAME, 0, 0),
    "settled in two frames, the last of which was cut": (
        "settled_again",
        kept(1) + transferred(1, words="settled more") + settled_on_link(1, phase=Phase.FAIL) + reached(2) + CAME,
        0,
        0,
    ),
    "settled in two frames": (
        "settled_again",
        kept(1) + transferred(1, words="settled more") + settled_on_link(1) + reached(2) + CAME,
        1,
        1,
    ),
    "settled, there, and aborted": (
        "settled_again",
        kept(1) + transferred(1, words="settled aborted") + reached(1) + CAME,
        0,
        0,
    ),
    "handed over twice with no link between": ("settled_again", kept(1) + handed(1) + CAME, 0, 0),
    "a settled transfer of nobody knows what": (
        "settled_again",
        kept(1) + framed("transfer handle=0 settled", to="to_client", delivery="1") + reached(1) + CAME,
        0,
        0,
    ),
    "settled on a link that could not be read to its end": (
        "settled_again",
        kept(1) + settled_on_link(1) + unreadable() + reached(1) + CAME,
        0,
        0,
    ),
}

EARLY = {
    "acknowledged on the link before its processing ended": (
        "acknowledged_early",
        kept(1) + transferred(1) + handed(1) + ack_sent(1) + disposed(1) + processed(1),
        1,
        1,
    ),
    "acknowledged on the link and never processed": (
        "acknowledged_early",
        kept(1) + transferred(1) + handed(1) + ack_sent(1) + disposed(1) + crashed(),
        1,
        1,
    ),
    "acknowledged on the link after its processing": (
        "acknowledged_early",
        kept(1) + transferred(1) + handed(1) + processed(1) + ack_sent(1) + disposed(1),
        1,
        0,
    ),
    # The client says that it acknowledged early, and that it left early nobody has seen.
    "asked for before, and seen after its processing": (
        "acknowledged_early",
        kept(1) + transferred(1) + handed(1) + ack_sent(1) + processed(1) + disposed(1),
        1,
        0,
    ),
    "one range over two that were processed, and one between that was not": (
        "acknowledged_early",
        kept(1, 2, 3)
        + transferred(1, 2, 3)
        + handed(1)
        + handed(2)
        + handed(3)
        + processed(1)
        + processed(3)
        + disposed(1, 3)
        + processed(2),
        3,
        1,
    ),
    "one range over three that were processed": (
        "acknowledged_early",
        kept(1, 2, 3) + transferred(1, 2, 3) + processed(1) + processed(2) + processed(3) + disposed(1, 3),
        3,
        0,
    ),
    "acknowledged early in a transaction": (
        "acknowledged_early",
        kept(1) + transferred(1) + disposed(1, words="transactional accepted") + processed(1),
        1,
        1,
    ),
    "given back early": (
        "acknowledged_early",
        kept(1) + transferred(1) + disposed(1, words="released settled") + processed(1),
        0,
        0,
    ),
    "settled early without an outcome": (
        "acknowledged_early",
        kept(1) + transferred(1) + disposed(1, words="settled") + processed(1),
        0,
        0,
    ),
    "settled by the broker before its processing ended": (
        "acknowledged_early",
        kept(1) + transferred(1) + disposed(1, words="accepted settled by the sender", to="to_client") + processed(1),
        0,
        0,
    ),
    "acknowledged early with no link between": (
        "acknowledged_early",
        kept(1) + handed(1) + ack_sent(1) + processed(1),
        0,
        0,
    ),
    "an early acknowledgement of what no link has carried": (
        "acknowledged_early",
        kept(1) + disposed(1) + processed(1),
        0,
        0,
    ),
    "an early acknowledgement in another session": (
        "acknowledged_early",
        kept(1) + transferred(1) + disposed(1, words="accepted settled session=2") + processed(1),
        0,
        0,
    ),
    "acknowledged early on another link": (
        "acknowledged_early",
        kept(1) + transferred(1) + disposed(1, link=2) + processed(1),
        0,
        0,
    ),
    "an early acknowledgement that was cut has left all the same": (
        "acknowledged_early",
        kept(1)
        + transferred(1)
        + framed("disposition accepted settled, not passed on", first=1, last=1, phase=Phase.FAIL)
        + processed(1),
        1,
        1,
    ),
}

UNHANDED = {
    "acknowledged on the link before it was handed over": (
        "acknowledged_unhanded",
        kept(1) + transferred(1) + disposed(1) + handed(1),
        1,
        1,
    ),
    "acknowledged on the link and lying prefetched": (
        "acknowledged_unhanded",
        kept(1, 2) + transferred(1, 2) + handed(1) + disposed(1, 2) + crashed(),
        2,
        1,
    ),
    "acknowledged on the link after it was handed over": (
        "acknowledged_unhanded",
        kept(1) + transferred(1) + handed(1) + disposed(1),
        1,
        0,
    ),
    "handed over, then acknowledged by one range with its neighbours": (
        "acknowledged_unhanded",
        kept(1, 2, 3) + transferred(1, 2, 3) + handed(1) + handed(2) + handed(3) + disposed(1, 3),
        3,
        0,
    ),
    "prefetched in the middle of a range": (
        "acknowledged_unhanded",
        kept(1, 2, 3) + transferred(1, 2, 3) + handed(1) + handed(3) + disposed(1, 3) + handed(2),
        3,
        1,
    ),
    "acknowledged by a drain on a link": (
        "acknowledged_unhanded",
        kept(1) + transferred(1) + came(1) + disposed(1),
        1,
        0,
    ),
    "acknowledged unhanded with no link between": ("acknowledged_unhanded", kept(1) + ack_sent(1) + handed(1), 0, 0),
    "acknowledged unhanded under a number of nobody": (
        "acknowledged_unhanded",
        kept(1) + transferred(1) + disposed(7, 9) + handed(1),
        0,
        0,
    ),
}

UNDELIVERED = {
    "covered on the link before it was handed over": (
        "acknowledged_undelivered",
        kept(1, 2) + transferred(1, 2) + handed(1) + disposed(1, 2) + handed(2),
        2,
        1,
    ),
    "covered on the link and never handed over": (
        "acknowledged_undelivered",
        kept(1) + transferred(1) + disposed(1) + crashed(),
        1,
        1,
    ),
    "left out by an acknowledge that was answered": (
        "acknowledged_undelivered",
        kept(1, 2) + transferred(1, 2) + handed(1) + handed(2) + disposed(2) + acked(2) + reached(2),
        2,
        1,
    ),
    "left out by an acknowledge that nobody answered": (
        "acknowledged_undelivered",
        kept(1, 2) + transferred(1, 2) + handed(1) + handed(2) + disposed(2) + ack_sent(2) + reached(2),
        1,
        0,
    ),
    "handed over after the last acknowledge on the link": (
        "acknowledged_undelivered",
        kept(1, 2) + transferred(1, 2) + handed(1) + disposed(1) + acked(1) + handed(2) + crashed() + reached(2),
        1,
        0,
    ),
    # Its own answer was read after that of the acknowledge: it was not due before the call.
    "handed over between an acknowledge and its answer": (
        "acknowledged_undelivered",
        kept(1, 2) + transferred(1, 2) + handed(1) + acked(1)[:1] + handed(2) + disposed(1) + acked(1)[1:] + reached(2),
        1,
        0,
    ),
    "left out where no link was between": (
        "acknowledged_undelivered",
        kept(1, 2) + handed(1) + handed(2) + acked(2),
        0,
        0,
    ),
    "left out on a link that could not be read to its end": (
        "acknowledged_undelivered",
        kept(1, 2) + transferred(1, 2) + handed(1) + handed(2) + unreadable() + acked(2) + reached(2),
        0,
        0,
    ),
}

AT_ALL = {
    "acknowledged where nothing is to be": (
        "acknowledged_at_all",
        kept(1, 2) + transferred(1, 2) + handed(1) + handed(2) + disposed(2) + reached(2),
        2,
        1,
    ),
    "processed and not acknowledged": (
        "acknowledged_at_all",
        kept(1) + settled_on_link(1) + handed(1) + processed(1) + reached(1),
        1,
        0,
    ),
    "given back where nothing is to be acknowledged": (
        "acknowledged_at_all",
        kept(1) + transferred(1) + handed(1) + disposed(1, words="released settled") + reached(1),
        1,
        0,
    ),
    "two of three acknowledged by a range where nothing is to be": (
        "acknowledged_at_all",
        kept(1, 2, 3) + transferred(1, 2, 3) + disposed(2, 3) + reached(3),
        3,
        2,
    ),
    "said to be acknowledged, and nothing seen": (
        "acknowledged_at_all",
        kept(1) + transferred(1) + handed(1) + acked(1) + reached(1),
        1,
        0,
    ),
    "acknowledged with no link between": ("acknowledged_at_all", kept(1) + handed(1) + acked(1), 0, 0),
    "not acknowledged on a link that could not be read to its end": (
        "acknowledged_at_all",
        kept(1) + transferred(1) + handed(1) + unreadable() + reached(1),
        0,
        0,
    ),
}


def flagged(*numbers, words="persistent"):
    """Sends as a link saw them."""
    return [
        e for n in numbers for e in framed(f"transfer handle=0 {words}".rstrip(), message=f"p1:{n}", delivery=str(n))
    ]


def unflagged(*numbers, words=""):
    return flagged(*numbers, words=words)


FLAGS = {
    "a persistent message without the flag": ("flag_missing", kept(1, 2) + unflagged(1) + flagged(2), 2, 1),
    "a persistent message with its flag": ("flag_missing", kept(1) + flagged(1), 1, 0),
    "a persistent message that the link did not see": ("flag_missing", kept(1), 0, 0),
    "another message without the flag": ("flag_missing", kept(1, durable=False) + unflagged(1), 0, 0),
    "a persistent message whose second frame has no header": (
        "flag_missing",
        kept(1) + flagged(1, words="more persistent") + unflagged(1, words="continued"),
        1,
        0,
    ),
    "a message that is not persistent, with the flag": (
        "flag_set",
        kept(1, 2, durable=False) + flagged(1) + unflagged(2),
        2,
        1,
    ),
    "a message that is not persistent, without the flag": ("flag_set", kept(1, durable=False) + unflagged(1), 1, 0),
    "a persistent message with the flag": ("flag_set", kept(1) + flagged(1), 0, 0),
    "flags of another mode, one of each": (
        "flag_differs",
        kept(1, 2) + kept(3, 4, durable=False) + flagged(1, 3) + unflagged(2, 4),
        4,
        2,
    ),
    "flags of their own modes": ("flag_differs", kept(1) + kept(2, durable=False) + flagged(1) + unflagged(2), 2, 0),
}

LINK = {**AGAIN, **EARLY, **UNHANDED, **UNDELIVERED, **AT_ALL, **FLAGS}

EXPOSED = {
    "persistent_on_link": (kept(1, 2, 3) + flagged(1) + unflagged(2) + kept(4, durable=False) + flagged(4), 2),
    "non_persistent_on_link": (kept(1) + flagged(1) + kept(2, 3, durable=False) + unflagged(2), 1),
    "flags_on_link": (kept(1, 2) + flagged(1) + kept(3, durable=False) + unflagged(3), 2),
    "acknowledged_on_link": (kept(1, 2, 3) + transferred(1, 2) + disposed(1) + handed(3) + acked(3), 1),
    "carried": (kept(1, 2, 3) + transferred(1, 2) + reached(1) + handed(3), 1),
    "reached_settled": (
        kept(1, 2, 3, 4) + settled_on_link(1, 2) + transferred(3) + reached(3, short=2 * SIZE) + handed(4),
        1,
    ),
}
